//! Opening for writing: in place on a resident home, as a new generation on the stage elsewhere.

use super::open::{MOVING_TARGET, lost, no_copy};
use super::open_file::{Bytes, OpenFile, Place, content_of};
use super::partial::staged_file;
use super::stage::{STAGE_MODE, set_mtime};
use super::{Caller, Vfs};
use crate::catalog::{Content, Inode, Replica, stage_name};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::Rule;
use crate::tier::{Access, RenameMode};
use crate::types::{Ino, Key, TierId};
use std::sync::Arc;

/// What FLUSH must know of a write that begins.
pub(super) struct Begun {
    /// The content as the catalog has it.
    pub told: Option<Content>,
    /// A generation that must get its close row even if nothing is written.
    pub must_close: bool,
}

pub(super) type Writing = (Arc<OpenFile>, Begun);

/// What a new generation begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// Nothing.
    None,
    /// The `.copy` beside it.
    Copied,
}

impl Vfs {
    /// The first writer of a file, whose bytes may move on while they are looked for.
    pub(super) fn follow_and_write(
        &self,
        caller: &Caller,
        shared: Option<Arc<OpenFile>>,
        mut inode: Inode,
        truncate: bool,
    ) -> Result<Writing> {
        let ino = inode.attr.ino;
        if truncate && shared.is_none() {
            inode = self.begins_elsewhere(inode)?;
        }
        for _ in 0..MOVING_TARGET {
            match self.begin_writing(caller, shared.clone(), &inode, truncate) {
                Err(error) if error.kind() == Kind::NoSpace => match self.other_place(&inode)? {
                    Some(moved) => inode = moved,
                    None => return Err(error),
                },
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Corrupt) => {
                    self.let_names_settle(ino)?;
                    inode = self.catalog().inode(ino)?;
                }
                other => return other,
            }
        }
        self.begin_writing(caller, shared, &inode, truncate)
    }

    /// The first writer of a file; `shared` is what readers have open of it.
    fn begin_writing(
        &self,
        caller: &Caller,
        shared: Option<Arc<OpenFile>>,
        inode: &Inode,
        truncate: bool,
    ) -> Result<Writing> {
        let path = self.some_path(inode.attr.ino)?;
        let rule = self.rule(&path, inode.opened_as());
        let newest = self.newest(inode)?;
        if let Some(staged) = newest.iter().find(|replica| replica.staged) {
            if let Some(begun) = self.preserve(caller, shared.as_ref(), inode, staged, truncate)? {
                return Ok(begun);
            }
            return match self.take_back(shared.clone(), staged, truncate)? {
                Some(begun) => Ok(begun),
                // It was committed and removed a moment ago.
                None => self.begin_writing(caller, shared, &self.catalog().inode(inode.attr.ino)?, truncate),
            };
        }
        let near =
            shared.as_ref().filter(|open| open.passes_through() && matches!(open.bytes, Bytes::Hot { .. }));
        if let (Some(open), true) = (near, self.clean_at_resident_home(&rule, &newest).is_some()) {
            return self.take_over(open, inode, &newest, truncate);
        }
        if newest.iter().any(|replica| replica.tier == rule.home && self.resident(replica.tier).is_some()) {
            return self.open_in_place(shared, inode, &newest, &rule, truncate);
        }
        if let Some(open) = shared.as_ref().filter(|open| open.passes_through()) {
            return self.take_over(open, inode, &newest, truncate);
        }
        self.start_generation(caller, shared.as_deref(), inode, &newest, &path, truncate)
    }

    /// The file lives here: it is written in place, as on any file system.
    fn open_in_place(
        &self,
        shared: Option<Arc<OpenFile>>,
        inode: &Inode,
        newest: &[Replica],
        rule: &Rule,
        truncate: bool,
    ) -> Result<Writing> {
        let open = match shared.filter(|open| open.is_written()) {
            // The mover may have moved it here under its readers.
            Some(open) => open.relabelled(Place::Native, open.generation),
            None => {
                let bytes = self.open_local(newest, rule)?.ok_or_else(|| no_copy(&Key::ROOT))?;
                self.open_file(bytes, inode.generation)
            }
        };
        let told = Some(open.content()?);
        truncate_if(truncate, &open)?;
        Ok((open, Begun { told, must_close: false }))
    }

    /// Closed but not committed: the same stage file goes on under the next generation.
    pub(super) fn take_back(
        &self,
        shared: Option<Arc<OpenFile>>,
        staged: &Replica,
        truncate: bool,
    ) -> Result<Option<Writing>> {
        let ino = staged.ino.ok_or(Kind::Corrupt)?;
        let shared = shared.filter(|open| open.is_written());
        let opened = match &shared {
            Some(_) => None,
            None => match self.open_staged(ino, staged, truncate)? {
                Some(bytes) => Some(bytes),
                None => return Ok(None),
            },
        };
        if let Some(Bytes::Partial { file, .. }) = opened.as_ref().or(shared.as_ref().map(|open| &open.bytes))
        {
            // It may be at home already, or get there before what is written now.
            file.partial().goes_on_from(staged.generation)?;
        }
        let replica = self.catalog().begin_write(ino, staged.tier)?;
        if replica.name != staged.name {
            self.revert_write(ino)?;
            return Ok(None);
        }
        // Without the catalog, what is half written must not pass for closed.
        self.describe_again(ino);
        let open = match (opened, shared) {
            (_, Some(open)) => open.relabelled(Place::Staged, replica.generation),
            (opened, None) => self.open_file(opened.ok_or(Kind::Corrupt)?, replica.generation),
        };
        if let Err(error) = self.empty_if(truncate, ino, &open) {
            self.give_back(ino, &open)?;
            return Err(error);
        }
        Ok(Some((open, Begun { told: None, must_close: true })))
    }

    /// The staged file for a writer; none if it was committed and removed a moment ago.
    fn open_staged(&self, ino: Ino, staged: &Replica, truncate: bool) -> Result<Option<Bytes>> {
        match self.staged_bytes(ino, staged.tier, &staged.name) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() != Kind::NotFound => Err(error),
            Err(_) if self.is_gone(ino, staged)? => Ok(None),
            // Its bytes are gone, and nobody wants them any more.
            Err(_) if truncate => self.make_staged_anew(ino, staged.tier, &staged.name).map(Some),
            Err(error) => Err(lost(staged, error)),
        }
    }

    /// Whether the row of a staged file is gone, as after its commit.
    pub(super) fn is_gone(&self, ino: Ino, staged: &Replica) -> Result<bool> {
        Ok(!self.catalog().replicas(ino)?.iter().any(|replica| replica.staged && replica.name == staged.name))
    }

    /// A file was taken back for a writer that never came: it is as closed as it was.
    fn give_back(&self, ino: Ino, open: &OpenFile) -> Result<()> {
        let path = self.some_path(ino)?;
        let ids = self.catalog().inode(ino)?.attr.ids();
        self.catalog().close(ino, open.content()?, &self.domain(&path, ids))?;
        self.catalog().released(ino)
    }

    /// Readers have a clean local copy open by passthrough, and the kernel allows one backing file an
    /// inode: that very file becomes the staged generation.
    fn take_over(
        &self,
        open: &OpenFile,
        inode: &Inode,
        newest: &[Replica],
        truncate: bool,
    ) -> Result<Writing> {
        let busy =
            || Error::new(Kind::Busy, "the file is being read from a copy that is gone; close it first");
        let (file, tier) = match &open.bytes {
            Bytes::Hot { file, tier } | Bytes::Staged { file, tier } => (file.clone(), *tier),
            _ => return Err(busy()),
        };
        let resident = self.resident(tier).ok_or(Kind::Absent)?;
        let is_open = |key: &Key| {
            let open = resident.stat_open(&file).ok().and_then(|object| object.native);
            open.is_some()
                && resident.stat(key).ok().and_then(|object| object.native).map(|n| n.ino)
                    == open.map(|n| n.ino)
        };
        let (key, row) =
            self.local_copies(newest, tier)?.into_iter().find(|(key, _)| is_open(key)).ok_or_else(busy)?;
        let replica = self.catalog().begin_write(inode.attr.ino, tier)?;
        crate::failpoint::pass("hot_copy_claimed");
        let moved = self
            .stage(tier)
            .and_then(|stage| stage.prepare(&replica.name))
            .and_then(|_| resident.rename(&key, &replica.key, RenameMode::Replace));
        if let Err(error) = moved {
            self.revert_write(inode.attr.ino)?;
            return Err(error);
        }
        if let Some(row) = row {
            self.catalog().drop_replica(row.place, &row.name)?;
        }
        self.describe(tier, &replica.name, inode, &self.some_path(inode.attr.ino)?, None);
        // Readers opened it read-only; what the kernel has by passthrough is the same file.
        let file = Arc::new(resident.open(&replica.key, Access::ReadWrite)?);
        let told = Some(content_of(&file)?);
        let taken = Arc::new(OpenFile {
            id: open.id,
            bytes: Bytes::Staged { file, tier },
            generation: replica.generation,
            passthrough: true.into(),
            epoch: open.epoch,
        });
        truncate_if(truncate, &taken)?;
        Ok((taken, Begun { told, must_close: truncate }))
    }

    /// Keys on `tier` that may hold the clean copy which is open: native replicas and the hot copy.
    fn local_copies(&self, newest: &[Replica], tier: TierId) -> Result<Vec<(Key, Option<Replica>)>> {
        let mut keys: Vec<_> = newest
            .iter()
            .filter(|replica| replica.tier == tier)
            .map(|replica| (replica.key.clone(), Some(replica.clone())))
            .collect();
        if let Some(hot) = self.parts.hots.get(&tier) {
            // The rule may name another home by now: what was read is a copy of what is elsewhere.
            for home in newest.iter().filter(|replica| replica.tier != tier && !replica.staged) {
                keys.push((hot.path_key(&self.identity(home)?)?, None));
            }
        }
        Ok(keys)
    }

    /// A clean file at a home that is not resident: its bytes are copied to the stage, unless they
    /// are thrown away, and the next generation begins there.
    fn start_generation(
        &self,
        caller: &Caller,
        shared: Option<&OpenFile>,
        inode: &Inode,
        newest: &[Replica],
        path: &Key,
        truncate: bool,
    ) -> Result<Writing> {
        let rule = self.rule(path, inode.opened_as());
        let ino = inode.attr.ino;
        let bytes = if truncate || inode.attr.size == 0 { First::None } else { First::Copied };
        if bytes == First::Copied {
            if let Some(remote) = self.stays_remote(shared, inode, newest, &rule)? {
                self.make_partial(caller, inode, remote, self.stage(rule.stage)?)?;
                let replica = self.catalog().begin_partial(ino, rule.stage)?;
                return self.make_generation(inode, path, &replica, First::Copied, truncate);
            }
            let name = stage_name(ino, inode.generation.next());
            self.copy_up(caller, shared, inode, newest, &rule, &name)?;
        }
        let replica = self.catalog().begin_write(ino, rule.stage)?;
        self.make_generation(inode, path, &replica, bytes, truncate)
    }

    /// The file of a generation whose row was just written.
    pub(super) fn make_generation(
        &self,
        inode: &Inode,
        path: &Key,
        replica: &Replica,
        bytes: First,
        truncate: bool,
    ) -> Result<Writing> {
        let (ino, stage) = (inode.attr.ino, self.stage(replica.tier)?);
        crate::failpoint::pass("generation_begun");
        let made = match bytes {
            First::None => stage
                .create(&replica.name, STAGE_MODE)
                .map(|file| Bytes::Staged { file: Arc::new(file), tier: replica.tier }),
            First::Copied => stage
                .finish_copy(&replica.name)
                .and_then(|()| self.staged_bytes(ino, replica.tier, &replica.name)),
        };
        let begun = made.and_then(|bytes| {
            let file = staged_file(&bytes).ok_or(Kind::Corrupt)?;
            if !truncate {
                // An unchanged file keeps its time, and a changed one can't keep it by chance.
                set_mtime(file, inode.attr.mtime)?;
            }
            let begun = Begun { told: Some(content_of(file)?), must_close: truncate };
            Ok((bytes, begun))
        });
        let (bytes, begun) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // Nothing is lost: the bytes are where they were.
                if let Some(replica) = self.revert_write(ino)? {
                    self.remove_staged(&replica)?;
                }
                return Err(error);
            }
        };
        let begins = Inode { generation: replica.generation, ..inode.clone() };
        self.describe(replica.tier, &replica.name, &begins, path, None);
        Ok((self.open_file(bytes, replica.generation), begun))
    }

    /// Fills the copy beside the stage key from the nearest place that has the bytes.
    fn copy_up(
        &self,
        caller: &Caller,
        shared: Option<&OpenFile>,
        inode: &Inode,
        newest: &[Replica],
        rule: &Rule,
        name: &[u8],
    ) -> Result<()> {
        let stage = self.stage(rule.stage)?;
        if let Some(file) = shared.and_then(OpenFile::file) {
            return stage.copy_from_file(name, file);
        }
        if let Some(Bytes::Native { file, .. } | Bytes::Hot { file, .. }) = self.open_local(newest, rule)? {
            return stage.copy_from_file(name, &file);
        }
        let remote = newest.iter().find(|replica| self.resident(replica.tier).is_none());
        let remote = remote.ok_or_else(|| no_copy(&remote_name(name)))?;
        if let Some(Bytes::Hot { file, .. }) = self.find_hot(rule, remote, inode)? {
            return stage.copy_from_file(name, &file);
        }
        // What is about to be replaced needs no hot copy.
        let reader = self.read_from_home(remote, inode, None)?;
        self.wait_for(caller, stage.copy_from_reader(name, &reader))
    }
}

/// `O_TRUNC` of what is written in place, or has an earlier generation to go back to.
fn truncate_if(truncate: bool, open: &OpenFile) -> Result<()> {
    if truncate {
        open.writable()?.set_len(0)?;
    }
    Ok(())
}

fn remote_name(name: &[u8]) -> Key {
    Key::parse(name).unwrap_or_default()
}
