//! The stage as the vfs uses it: finding it, and letting each staged file describe itself.

use super::Vfs;
use crate::catalog::{Inode, Replica, WriteState};
use crate::data::{Sidecar, SidecarState, StageStore};
use crate::error::{Error, Kind, Result};
use crate::types::{Ino, Key, Seq, TierId, Timestamp, Version};
use std::fs::File;
use std::sync::Arc;

/// Mode of stage files: ours alone, whatever the file's own mode.
pub(super) const STAGE_MODE: u32 = 0o600;

impl Vfs {
    pub(super) fn stage(&self, tier: TierId) -> Result<&Arc<StageStore>> {
        self.parts.stages.get(&tier).ok_or_else(|| {
            Error::new(Kind::Absent, "the stage of this path is not available; see tierfs check")
        })
    }

    pub(super) fn remove_staged(&self, replica: &Replica) -> Result<()> {
        match self.stage(replica.tier)?.remove(&replica.name) {
            Err(error) if error.kind() != Kind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes what a staged file is beside it, for whoever finds it without this catalog. Best effort:
    /// the row is what this mount relies on.
    pub(super) fn describe(&self, tier: TierId, name: &[u8], inode: &Inode, path: &Key, closed: Option<Seq>) {
        let home = self.rule(path, inode.whereabouts()).home;
        let base = self.base(inode.attr.ino, home, path);
        let home = self.parts.tiers.find(home).map_or_else(String::new, |tier| tier.location());
        let sidecar = Sidecar {
            path: path.clone(),
            ino: inode.attr.ino,
            generation: inode.generation,
            seq: closed,
            mode: inode.attr.mode,
            uid: inode.attr.uid,
            gid: inode.attr.gid,
            mtime_ns: inode.attr.mtime.0,
            size: inode.attr.size,
            home,
            base,
            state: if closed.is_some() { SidecarState::Closed } else { SidecarState::Writing },
        };
        let written = self.stage(tier).and_then(|stage| stage.write_sidecar(name, &sidecar));
        if let Err(error) = written {
            tracing::warn!(%path, %error, "a staged file could not be described; it is safe while the catalog is");
        }
    }

    /// What lies at home under the path, as far as the file answers for it.
    fn base(&self, ino: Ino, home: TierId, path: &Key) -> Option<Version> {
        let replicas = self.catalog().replicas(ino).ok()?;
        let native = replicas.into_iter().find(|replica| replica.tier == home && replica.key == *path);
        native?.version
    }

    pub(super) fn describe_closed(&self, ino: Ino, path: &Key, seq: Seq) {
        self.describe_staged(ino, path, Some(seq));
    }

    /// Brings the sidecar up to date after path, attributes or state changed.
    pub(super) fn describe_again(&self, ino: Ino) {
        let Ok(inode) = self.catalog().inode(ino) else { return };
        if inode.state == WriteState::Clean {
            return;
        }
        if let Ok(path) = self.some_path(ino) {
            let seq = self.catalog().step_of(ino).ok().flatten();
            self.describe_staged(ino, &path, seq.filter(|_| inode.state != WriteState::Writing));
        }
    }

    fn describe_staged(&self, ino: Ino, path: &Key, closed: Option<Seq>) {
        let Ok(inode) = self.catalog().inode(ino) else { return };
        if inode.state == WriteState::Clean {
            return;
        }
        let Ok(newest) = self.newest(&inode) else { return };
        for replica in newest.iter().filter(|replica| replica.staged) {
            self.describe(replica.tier, &replica.name, &inode, path, closed);
        }
    }
}

/// Sets the modification time of an open stage file.
pub(super) fn set_mtime(file: &File, mtime: Timestamp) -> Result<()> {
    let (seconds, nanos) = mtime.parts();
    let times = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanos },
    };
    Ok(rustix::fs::futimens(file, &times)?)
}
