//! create, mknod, mkdir, symlink, link: new names.

use super::open::Opened;
use super::place::{Inherit, Owner};
use super::stage::{STAGE_MODE, set_mtime};
use super::{Caller, Entry, Vfs};
use crate::catalog::{Inode, NewBytes, NewInode, WriteState, stage_name};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::Subject;
use crate::tier::{Access, Object, Resident, Special};
use crate::types::{AttrChange, FileKind, Ino, Key, TierId, Whereabouts};
use std::fs::File;

/// What was made natively, and where.
type Placed = (TierId, NewBytes, Key);

impl Vfs {
    /// Makes and opens a regular file.
    ///
    /// # Errors
    /// [`Kind::Exists`] with `O_EXCL`, and what the tier says.
    pub fn create(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        flags: i32,
    ) -> Result<(Entry, Opened)> {
        let path = self.new_child_path(parent, name)?;
        let made = self.make_regular(caller, parent, name, &path, mode);
        let (inode, file, tier) = match made {
            Err(error) if error.kind() == Kind::Exists && flags & libc::O_EXCL == 0 => {
                let entry = self.lookup_anew(caller, parent, name)?;
                let opened = self.open(caller, entry.attr.ino, flags)?;
                return Ok((entry, opened));
            }
            other => other?,
        };
        let node = self.nodes.remember(inode.attr.ino);
        let opened = self.open_new(&node, &inode, file, tier, flags)?;
        // A native file was looked at when it was made.
        let attr =
            if inode.state == WriteState::Writing { self.attr_with(&node, inode)? } else { inode.attr };
        Ok((Entry { attr, ttl: self.ttl(&path) }, opened))
    }

    /// A new regular file with its first bytes' place: at its native key, or on the stage.
    fn make_regular(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        path: &Key,
        mode: u32,
    ) -> Result<(Inode, File, TierId)> {
        let directory = self.directory(parent)?;
        let owner = self.ownership(caller, &directory, mode, Inherit::Group);
        self.make_where_room_is(path, owner.ids(), |overflow| {
            self.make_on(parent, name, path, owner, overflow)
        })
    }

    /// The same at home, or on the tier that takes files while home is too full.
    fn make_on(
        &self,
        parent: Ino,
        name: &[u8],
        path: &Key,
        owner: Owner,
        overflow: Option<TierId>,
    ) -> Result<(Inode, File, TierId)> {
        let whereabouts = Whereabouts { ids: owner.ids(), away: overflow };
        if let Some((tier, resident)) = self.resident_home(path, whereabouts) {
            match self.make_native(resident, tier, parent, name, owner, overflow) {
                // The key still belongs to something that moves away: stage, and settle later.
                Err(error) if error.kind() == Kind::Busy => {}
                other => return other.map(|(inode, file)| (inode, file, tier)),
            }
        }
        let stage = self.rule(path, whereabouts).stage;
        let (inode, file) = self.make_staged(stage, parent, name, path, owner, overflow)?;
        Ok((inode, file, stage))
    }

    fn make_native(
        &self,
        resident: &dyn Resident,
        tier: TierId,
        parent: Ino,
        name: &[u8],
        owner: Owner,
        overflow: Option<TierId>,
    ) -> Result<(Inode, File)> {
        let (key, file) =
            self.with_native_key(parent, name, tier, |key| resident.create(key, owner.mode & 0o777))?;
        crate::failpoint::pass("native_file_made");
        let added = resident.set_attr_open(&file, &self.correction(owner)).and_then(|()| {
            let bytes = native_bytes(tier, resident.stat_open(&file)?)?;
            self.add(parent, name, FileKind::Regular, owner, 0, None, bytes, overflow)
        });
        match added {
            Ok(inode) => Ok((inode, file)),
            Err(error) => {
                take_away(&key, resident.unlink(&key));
                Err(error)
            }
        }
    }

    fn make_staged(
        &self,
        tier: TierId,
        parent: Ino,
        name: &[u8],
        path: &Key,
        owner: Owner,
        overflow: Option<TierId>,
    ) -> Result<(Inode, File)> {
        let stage = self.stage(tier)?;
        let bytes = NewBytes::Staged { tier };
        let inode = self.add(parent, name, FileKind::Regular, owner, 0, None, bytes, overflow)?;
        crate::failpoint::pass("dirty_row_written");
        let staged = stage_name(inode.attr.ino, inode.generation);
        // Its own clock may be behind: the time shown first must not go back.
        let made = stage.create(&staged, STAGE_MODE).and_then(|file| {
            set_mtime(&file, inode.attr.mtime)?;
            Ok(file)
        });
        match made {
            Ok(file) => {
                self.describe(tier, &staged, &inode, path, None);
                Ok((inode, file))
            }
            Err(error) => {
                self.unmake(parent, name, inode.attr.ino);
                Err(error)
            }
        }
    }

    /// Takes back a row whose file could not be made.
    fn unmake(&self, parent: Ino, name: &[u8], ino: Ino) {
        let undone = self.catalog().unlink(parent, name, &[], "", self.now()).and_then(|_| {
            for replica in self.catalog().drop_orphan(ino)? {
                self.remove_staged(&replica)?;
            }
            Ok(())
        });
        if let Err(error) = undone {
            tracing::warn!(%ino, %error, "a file that could not be made is shown until the next start");
        }
    }

    /// What the daemon must change of a file that it just made with its own ids.
    fn correction(&self, owner: Owner) -> AttrChange {
        let (uid, gid) = self.daemon;
        AttrChange {
            uid: (owner.uid != uid).then_some(owner.uid),
            gid: (owner.gid != gid).then_some(owner.gid),
            // chown clears these bits, and create(2) takes only the nine others.
            mode: (owner.mode & 0o7000 != 0).then_some(owner.mode),
            ..AttrChange::default()
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one row's columns")]
    fn add(
        &self,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
        owner: Owner,
        rdev: u32,
        target: Option<&[u8]>,
        bytes: NewBytes,
        overflow: Option<TierId>,
    ) -> Result<Inode> {
        let Owner { uid, gid, mode } = owner;
        let new =
            NewInode { parent, name, kind, mode, uid, gid, rdev, target, bytes, overflow, now: self.now() };
        self.catalog().create(&new)
    }

    /// Makes a node: a regular file without opening it, a fifo, a socket or a device.
    ///
    /// # Errors
    /// [`Kind::Exists`], and what the tier says.
    pub fn mknod(&self, caller: &Caller, parent: Ino, name: &[u8], mode: u32, rdev: u32) -> Result<Entry> {
        let path = self.new_child_path(parent, name)?;
        let kind = FileKind::from_mode(mode).unwrap_or(FileKind::Regular);
        if kind == FileKind::Regular {
            let (inode, file, tier) = self.make_regular(caller, parent, name, &path, mode)?;
            let node = self.nodes.get(inode.attr.ino);
            let opened = self.open_new(&node, &inode, file, tier, libc::O_RDWR)?;
            self.flush(caller, opened.handle)?;
            self.release(&caller.patient(), opened.handle)?;
            return self.entry(self.catalog().inode(inode.attr.ino)?, &path);
        }
        let special = Special::Node { kind, rdev };
        self.make_special(caller, parent, name, mode, &special)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`Kind::Exists`], and what the tier says.
    pub fn mkdir(&self, caller: &Caller, parent: Ino, name: &[u8], mode: u32) -> Result<Entry> {
        self.make_special(caller, parent, name, mode, &Special::Directory)
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// [`Kind::Exists`], and what the tier says.
    pub fn symlink(&self, caller: &Caller, parent: Ino, name: &[u8], target: &[u8]) -> Result<Entry> {
        self.make_special(caller, parent, name, 0o777, &Special::Symlink(target.to_vec()))
    }

    fn make_special(
        &self,
        caller: &Caller,
        parent: Ino,
        name: &[u8],
        mode: u32,
        special: &Special,
    ) -> Result<Entry> {
        let path = self.new_child_path(parent, name)?;
        let directory = self.directory(parent)?;
        let (kind, rdev, target, inherit) = match special {
            Special::Directory => (FileKind::Directory, 0, None, Inherit::GroupAndBit),
            Special::Symlink(target) => (FileKind::Symlink, 0, Some(target.as_slice()), Inherit::Group),
            Special::Node { kind, rdev } => (*kind, *rdev, None, Inherit::Group),
        };
        let owner = self.ownership(caller, &directory, mode, inherit);
        if self.catalog().lookup(parent, name)?.is_some() {
            return Err(Kind::Exists.into());
        }
        let began = self.parts.clock.monotonic();
        let placed = self.place_where_room_is(parent, name, &path, special, owner)?;
        let native = placed.is_some();
        let (bytes, made) = match placed {
            Some((tier, bytes, key)) => (bytes, Some((tier, key))),
            None => (
                NewBytes::Deferred { domain: self.rules().domain_of(kind, Subject::new(&path, owner.ids())) },
                None,
            ),
        };
        let added = self.add(parent, name, kind, owner, rdev, target, bytes, None);
        if added.is_err()
            && let Some((tier, key)) = made
            && let Some(resident) = self.resident(tier)
        {
            remove(resident, &key, special);
        }
        let entry = self.entry(added?, &path)?;
        if *special == Special::Directory && native {
            self.know_empty(entry.attr.ino, began)?;
        }
        Ok(entry)
    }

    /// Makes it on its resident home; `None` leaves it to the mover. A directory, which has no home of its own, is made on the directory
    /// tier that takes new files while home has no room for it.
    fn place_where_room_is(
        &self,
        parent: Ino,
        name: &[u8],
        path: &Key,
        special: &Special,
        owner: Owner,
    ) -> Result<Option<Placed>> {
        let rule = self.rule(path, owner.ids());
        let place = |tier| self.place_special(parent, name, tier, special, owner);
        let overflow = rule.overflow.filter(|_| *special == Special::Directory);
        match (place(rule.home), overflow) {
            (Err(error), Some(overflow)) if error.kind() == Kind::NoSpace => {
                self.has_no_room(rule.home);
                place(overflow.tier)?.map_or(Err(error), |placed| Ok(Some(placed)))
            }
            (placed, _) => placed,
        }
    }

    fn place_special(
        &self,
        parent: Ino,
        name: &[u8],
        tier: TierId,
        special: &Special,
        owner: Owner,
    ) -> Result<Option<Placed>> {
        let Some(resident) = self.resident(tier) else { return Ok(None) };
        let made = self.with_native_key(parent, name, tier, |key| match special {
            Special::Directory => resident.mkdir(key, owner.mode),
            other => resident.make(key, other, owner.mode),
        });
        let key = match made {
            Ok((key, ())) => key,
            // What the tier can't hold, or can't hold there yet, the catalog does.
            Err(error) if matches!(error.kind(), Kind::Busy | Kind::Unsupported) => return Ok(None),
            Err(error) => return Err(error),
        };
        crate::failpoint::pass("native_special_made");
        let described = resident.set_attr(&key, &owner.change()).and_then(|()| {
            let bytes = native_bytes(tier, resident.stat(&key)?)?;
            Ok(Some((tier, bytes, key.clone())))
        });
        if described.is_err() {
            remove(resident, &key, special);
        }
        described
    }

    /// Gives an inode one more name.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::NotPermitted`] for a directory.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Entry> {
        let path = self.new_child_path(parent, name)?;
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind == FileKind::Directory {
            return Err(Kind::NotPermitted.into());
        }
        if self.catalog().lookup(parent, name)?.is_some() {
            return Err(Kind::Exists.into());
        }
        let native = self.link_native(&inode, parent, name)?;
        let is_told = native == Some(self.rule(&path, inode.whereabouts()).home);
        let domain = (!is_told).then(|| self.domain(&path, inode.attr.ids()));
        let inode = self.catalog().link(ino, parent, name, native, domain.as_deref(), self.now())?;
        if native.is_some() {
            self.know_natives(ino);
        }
        self.entry(inode, &path)
    }

    /// The native link beside the catalog's, on the tier where the file is native, if that can hold it.
    fn link_native(&self, inode: &Inode, parent: Ino, name: &[u8]) -> Result<Option<TierId>> {
        for replica in self.newest(inode)? {
            let Some(resident) = self.resident(replica.tier).filter(|_| !replica.staged) else { continue };
            let linked =
                self.with_native_key(parent, name, replica.tier, |key| resident.link(&replica.key, key));
            match linked {
                Ok(_) => return Ok(Some(replica.tier)),
                Err(error) if matches!(error.kind(), Kind::Unsupported | Kind::Busy) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The inode of a directory.
    pub(super) fn directory(&self, ino: Ino) -> Result<Inode> {
        let inode = self.catalog().inode(ino)?;
        match inode.attr.kind {
            FileKind::Directory => Ok(inode),
            _ => Err(Kind::NotDirectory.into()),
        }
    }

    /// Opens a native file for reading and writing, or for reading where the tier takes no writes.
    pub(super) fn open_native(&self, resident: &dyn Resident, key: &Key) -> Result<File> {
        match resident.open(key, Access::ReadWrite) {
            Err(error) if matches!(error.kind(), Kind::Denied | Kind::ReadOnly | Kind::NotPermitted) => {
                resident.open(key, Access::Read)
            }
            other => other,
        }
    }
}

fn native_bytes(tier: TierId, object: Object) -> Result<NewBytes> {
    let no_identity = || Error::new(Kind::Corrupt, "a directory tier gave a file without its identity");
    let native = object.native.ok_or_else(no_identity)?;
    Ok(NewBytes::Native { tier, version: object.version, native, mtime: object.modified })
}

fn remove(resident: &dyn Resident, key: &Key, special: &Special) {
    let removed = if *special == Special::Directory { resident.rmdir(key) } else { resident.unlink(key) };
    take_away(key, removed);
}

/// Something was made that could not be given its row: it must not be found as somebody else's.
fn take_away(key: &Key, removed: Result<()>) {
    if let Err(error) = removed
        && error.kind() != Kind::NotFound
    {
        tracing::warn!(%key, %error, "what could not be made wholly was not removed");
    }
}
