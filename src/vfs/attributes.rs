//! setattr and statfs.

use super::handle::FileHandle;
use super::io::without_set_id;
use super::open_file::OpenFile;
use super::{Caller, Vfs};
use crate::catalog::{Content, Inode};
use crate::error::{Error, Kind, Result};
use crate::tier::{Patience, Resident, Tier, Usage};
use crate::types::{Attr, AttrChange, FileKind, Ids, Ino, Key, TierId, TimeChange, Timestamp, Whereabouts};
use parking_lot::RwLockReadGuard;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How long a tier may take to say how full it is, where all are asked.
const USAGE_SOON: Duration = Duration::from_secs(1);

/// What a `setattr` asks for.
#[derive(Clone, Debug, Default)]
pub struct SetAttr {
    /// Attributes.
    pub change: AttrChange,
    /// New size.
    pub size: Option<u64>,
    /// The handle of an `ftruncate`.
    pub handle: Option<FileHandle>,
}

/// A file of this machine: where it is, and whether it is a stage file.
type NativeFile<'a> = (TierId, &'a dyn Resident, Key, bool);

impl Vfs {
    /// Changes attributes and size.
    ///
    /// # Errors
    /// What a tier says that should be able to hold the change.
    pub fn set_attr(&self, caller: &Caller, ino: Ino, wanted: SetAttr) -> Result<(Attr, Duration)> {
        let mut change = wanted.change;
        if let Some(size) = wanted.size {
            self.set_size(caller, ino, wanted.handle, size)?;
        }
        let inode = self.catalog().inode(ino)?;
        let owner_changes = change.uid.is_some() || change.gid.is_some();
        let stranger_truncates = wanted.size.is_some() && caller.uid != 0;
        if inode.attr.kind != FileKind::Directory && (owner_changes || stranger_truncates) {
            let mode = change.mode.unwrap_or(inode.attr.mode);
            change.mode = Some(without_set_id(mode)).filter(|kept| *kept != inode.attr.mode).or(change.mode);
        }
        if change != AttrChange::default() {
            self.change_attributes(&inode, &change)?;
        }
        let attr = self.attr_with(&self.nodes.get(ino), self.catalog().inode(ino)?)?;
        Ok((attr, self.ttl(&self.some_path(ino)?)))
    }

    fn change_attributes(&self, inode: &Inode, change: &AttrChange) -> Result<()> {
        let now = self.now();
        let change = AttrChange {
            atime: change.atime.map(|time| resolved(time, now)),
            mtime: change.mtime.map(|time| resolved(time, now)),
            ..change.clone()
        };
        let ino = inode.attr.ino;
        let path = self.some_path(ino)?;
        let mut native = false;
        let still = self.names_stand_of(inode)?;
        for (_, resident, key, staged) in self.native_files(inode)? {
            let change = if staged { times_of(&change) } else { change.clone() };
            native |= !staged;
            match resident.set_attr(&key, &change) {
                Err(error) if error.kind() == Kind::NotFound => {}
                other => other?,
            }
        }
        drop(still);
        self.change_open_file(ino, &change)?;
        let before = inode.attr.ids();
        let after = Ids { uid: change.uid.unwrap_or(before.uid), gid: change.gid.unwrap_or(before.gid) };
        let home = self.rule(&path, Whereabouts { ids: after, ..inode.whereabouts() }).home;
        // A file of another owner may have another home.
        let is_told =
            native && self.resident(home).is_some() && self.rule(&path, inode.whereabouts()).home == home;
        let domain = (!is_told).then(|| self.domain(&path, after));
        self.catalog().set_attr(ino, &change, domain.as_deref(), now)?;
        if native {
            self.know_natives(ino);
        } else {
            self.describe_again(ino);
        }
        Ok(())
    }

    /// Every file of this machine that stands for the inode, and whether it is a stage file (whose
    /// owner and mode are ours).
    fn native_files(&self, inode: &Inode) -> Result<Vec<NativeFile<'_>>> {
        let ino = inode.attr.ino;
        let held: Vec<_> = if inode.attr.kind == FileKind::Directory {
            let places = self.catalog().places(ino)?;
            places.iter().map(|place| (place.tier, place.key.clone(), false)).collect()
        } else {
            let replicas = self.catalog().replicas(ino)?;
            let ours = replicas.into_iter().filter(|replica| replica.generation == inode.generation);
            ours.map(|replica| (replica.tier, replica.key, replica.staged)).collect()
        };
        Ok(held
            .into_iter()
            .filter_map(|(tier, key, staged)| Some((tier, self.resident(tier)?, key, staged)))
            .collect())
    }

    /// Until this is dropped, what the catalog says of the native keys of `inode` holds.
    fn names_stand_of(&self, inode: &Inode) -> Result<Vec<RwLockReadGuard<'_, ()>>> {
        let tiers: BTreeSet<TierId> = self.native_files(inode)?.into_iter().map(|(tier, ..)| tier).collect();
        tiers.iter().try_for_each(|tier| self.may_ask(*tier))?;
        Ok(self.native_names.stand_on(&tiers))
    }

    /// An unlinked file has no key any more, only what is open of it.
    fn change_open_file(&self, ino: Ino, change: &AttrChange) -> Result<()> {
        let Some(node) = self.nodes.find(ino) else { return Ok(()) };
        let open = node.file.lock().open.clone();
        let Some(open) = open.filter(|open| open.is_written()) else { return Ok(()) };
        let times = times_of(change);
        if times == AttrChange::default() {
            return Ok(());
        }
        let Some(tier) = open.tier() else { return Ok(()) };
        self.resident(tier).ok_or(Kind::Absent)?.set_attr_open(open.changing()?, &times)
    }

    fn set_size(&self, caller: &Caller, ino: Ino, handle: Option<FileHandle>, size: u64) -> Result<()> {
        if i64::try_from(size).is_err() {
            return Err(Error::new(Kind::Os(libc::EFBIG), "no file is that large"));
        }
        if let Some(handle) = handle {
            return self.truncate(handle, size);
        }
        let flags = libc::O_WRONLY | if size == 0 { libc::O_TRUNC } else { 0 };
        let opened = self.open(caller, ino, flags)?;
        let truncated =
            self.truncate(opened.handle, size).and_then(|()| self.tell_close(caller, opened.handle));
        self.release(&caller.patient(), opened.handle)?;
        truncated
    }

    /// ftruncate(2).
    ///
    /// # Errors
    /// As ftruncate(2).
    fn truncate(&self, handle: FileHandle, size: u64) -> Result<()> {
        let handle = self.handles.file(handle)?;
        let open = handle.node.file.lock().open.clone();
        let open = open.ok_or(Kind::Os(libc::EBADF))?;
        self.set_length(handle.node.ino, &open, size)
    }

    /// `O_TRUNC` of what may be the only copy of what was closed.
    pub(super) fn empty_if(&self, truncate: bool, ino: Ino, open: &OpenFile) -> Result<()> {
        if truncate { self.set_length(ino, open, 0) } else { Ok(()) }
    }

    fn set_length(&self, ino: Ino, open: &OpenFile, size: u64) -> Result<()> {
        if open.is_staged() {
            self.will_be_shorter(ino, open, size)?;
        }
        open.writable()?.set_len(size)
    }

    /// A staged file that is shorter than its row says was cut by a power loss, and is given up.
    fn will_be_shorter(&self, ino: Ino, open: &OpenFile, size: u64) -> Result<()> {
        if self.catalog().inode(ino)?.attr.size > size {
            self.catalog().resize(ino, Content { size, ..open.content()? })?;
            self.catalog().sync()?;
        }
        Ok(())
    }

    /// How full the tiers behind `ino` are: at the root all distinct file systems together, below it
    /// the home of the path. A blob tier shows its configured size.
    ///
    /// # Errors
    /// What the tier says.
    pub fn statfs(&self, ino: Ino) -> Result<Usage> {
        let path = self.some_path(ino)?;
        if path.is_root() {
            return self.usage_of_all();
        }
        match self.resident_home(&path, self.ids(ino)?) {
            Some((_, resident)) => resident.usage(),
            None => Ok(self.blob_usage()),
        }
    }

    fn blob_usage(&self) -> Usage {
        Usage { total: self.parts.blob_size, free: self.parts.blob_size, files: 0, files_free: 0 }
    }

    fn usage_soon(&self, tier: &Arc<dyn Tier>) -> Option<Usage> {
        let asked = tier.clone();
        let ask =
            move || Patience::Brief.during(|| asked.resident().and_then(|resident| resident.usage().ok()));
        if !tier.capabilities().networked {
            return ask();
        }
        let runtime = &self.parts.runtime;
        let answer = async { tokio::time::timeout(USAGE_SOON, runtime.spawn_blocking(ask)).await };
        runtime.block_on(answer).ok().and_then(Result::ok).flatten()
    }

    fn usage_of_all(&self) -> Result<Usage> {
        if Patience::current() == Patience::None && self.may_hang() {
            return Err(Kind::WouldBlock.into());
        }
        let mut devices = HashSet::new();
        let mut sum = Usage::default();
        for (_, tier) in self.parts.tiers.iter() {
            let usage = match tier.resident() {
                // One that is absent, or does not answer, takes nothing from the others.
                Some(resident) if devices.insert(resident.device()) => match self.usage_soon(tier) {
                    Some(usage) => usage,
                    None => continue,
                },
                Some(_) => continue,
                None => self.blob_usage(),
            };
            sum.total = sum.total.saturating_add(usage.total);
            sum.free = sum.free.saturating_add(usage.free);
            sum.files = sum.files.saturating_add(usage.files);
            sum.files_free = sum.files_free.saturating_add(usage.files_free);
        }
        Ok(sum)
    }
}

fn resolved(time: TimeChange, now: Timestamp) -> TimeChange {
    match time {
        TimeChange::Now => TimeChange::To(now),
        to => to,
    }
}

fn times_of(change: &AttrChange) -> AttrChange {
    AttrChange { atime: change.atime, mtime: change.mtime, ..AttrChange::default() }
}
