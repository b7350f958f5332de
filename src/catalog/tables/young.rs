//! Native files whose rows are not in the tables yet.
//!
//! A file that was just made natively is its own record, so its rows may wait for their batch. While they
//! do, the creator is answered from here, and no SQL stands between two new files.
//!
//! Everything else writes these rows down first: apart from the answers that this module gives, nothing
//! can tell a young file from another.

use super::{ReplicaRow, Tx};
use crate::catalog::cookie::cookie;
use crate::catalog::{Content, Inode};
use crate::error::Result;
use crate::types::{Generation, Ino, Timestamp, Version};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

/// Files in all; about 500 bytes each. The next one is made with its rows.
const YOUNG_MAX: usize = 4096;

/// A file with one name and one native replica.
#[derive(Clone, Debug)]
pub(in crate::catalog) struct YoungFile {
    pub parent: Ino,
    pub name: Vec<u8>,
    pub inode: Inode,
    pub replica: ReplicaRow,
    /// Its directory's time since then.
    pub made: Timestamp,
    /// An older look at the tier says nothing of it.
    changed_at: Timestamp,
    /// Counts changes: rows that were written meanwhile may be older.
    edition: u32,
    /// Rows of an earlier edition are in the tables.
    stored: bool,
}

impl YoungFile {
    pub(in crate::catalog) fn new(
        parent: Ino,
        name: &[u8],
        inode: Inode,
        replica: ReplicaRow,
        made: Timestamp,
        now: Timestamp,
    ) -> Self {
        let name = name.to_vec();
        Self { parent, name, inode, replica, made, changed_at: now, edition: 0, stored: false }
    }
}

/// All of them, by inode number, which is also the order in which they were made.
#[derive(Debug, Default)]
pub(in crate::catalog) struct Young {
    files: BTreeMap<u64, YoungFile>,
    names: HashMap<(u64, i64), u64, RandomState>,
}

impl Young {
    pub(in crate::catalog) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(in crate::catalog) fn is_full(&self) -> bool {
        self.files.len() >= YOUNG_MAX
    }

    pub(in crate::catalog) fn add(&mut self, file: YoungFile) {
        let ino = file.inode.attr.ino.0;
        self.names.insert((file.parent.0, cookie(&file.name)), ino);
        self.files.insert(ino, file);
    }

    pub(in crate::catalog) fn find(&self, ino: Ino) -> Option<&YoungFile> {
        self.files.get(&ino.0)
    }

    pub(in crate::catalog) fn named(&self, parent: Ino, name: &[u8]) -> Option<&YoungFile> {
        let ino = self.names.get(&(parent.0, cookie(name)))?;
        self.files.get(ino).filter(|file| file.name == name)
    }

    /// The native file has this content now; answers its generation. `None` if it is not young.
    pub(in crate::catalog) fn wrote(
        &mut self,
        ino: Ino,
        content: Content,
        version: &Version,
        now: Timestamp,
    ) -> Option<Generation> {
        let file = self.files.get_mut(&ino.0)?;
        file.changed_at = now;
        file.inode.write_in_place(content);
        file.replica.generation = file.inode.generation.0;
        file.replica.version = Some(version.0.to_vec());
        file.edition += 1;
        Some(file.inode.generation)
    }

    /// What is to be written down.
    pub(in crate::catalog) fn snapshot(&self) -> Vec<YoungFile> {
        self.files.values().cloned().collect()
    }

    /// The rows of these were undone.
    pub(in crate::catalog) fn restore(&mut self, files: Vec<YoungFile>) {
        for file in files {
            self.names.insert((file.parent.0, cookie(&file.name)), file.inode.attr.ino.0);
            self.files.entry(file.inode.attr.ino.0).or_insert(file);
        }
    }

    /// These were written down; those that changed meanwhile stay.
    pub(in crate::catalog) fn written(&mut self, files: &[YoungFile]) {
        for file in files {
            let ino = file.inode.attr.ino.0;
            match self.files.get_mut(&ino) {
                Some(now) if now.edition != file.edition => now.stored = true,
                _ => {
                    self.files.remove(&ino);
                    self.names.remove(&(file.parent.0, cookie(&file.name)));
                }
            }
        }
    }
}

impl Tx<'_> {
    /// Writes the rows of young files, oldest first.
    pub(in crate::catalog) fn write_young(&self, files: &[YoungFile]) -> Result<()> {
        let mut touched = HashMap::new();
        for file in files {
            if file.stored {
                self.update_inode(&file.inode)?;
                self.put_replica_as_of(&file.replica, file.changed_at)?;
            } else {
                self.insert_young(file)?;
                touched.insert(file.parent, file.made);
            }
        }
        touched.into_iter().try_for_each(|(parent, made)| self.stamp_directory(parent, 0, made))
    }

    fn insert_young(&self, file: &YoungFile) -> Result<()> {
        if !self.insert_dentry(file.parent, &file.name, file.inode.attr.ino)? {
            // Only a file whose name was free, and known to be, is made young. Its tier still has it.
            tracing::error!(ino = %file.inode.attr.ino, "a new file met a name that is taken");
            return Ok(());
        }
        self.insert_inode(&file.inode)?;
        self.own_key(&file.replica, file.changed_at)
    }

    /// What was made natively answers for its key since then, whatever row that had.
    pub(in crate::catalog) fn own_key(&self, row: &ReplicaRow, since: Timestamp) -> Result<()> {
        if !self.insert_replica(row, since)? {
            // What the old row spoke of is gone, or the file could not have been made.
            self.drop_delete(row.place, &row.name)?;
            self.put_replica_as_of(row, since)?;
        }
        Ok(())
    }
}
