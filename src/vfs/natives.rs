//! What our own calls do to files and directories beside what they were called for: a link, an unlink, a
//! rename and a change of attributes all change the ctime of a native file, which is part of its version,
//! and the last name may take a directory along that was only a prefix.

use super::Vfs;
use crate::catalog::{Content, Inode, Replica};
use crate::error::{Kind, Result};
use crate::policy::placement::Subject;
use crate::tier::Object;
use crate::types::{FileKind, Ino, TierId};

impl Vfs {
    /// Tells the catalog which version the native files of `ino` are in now, so that the next look does
    /// not take our own call for somebody else's.
    pub(super) fn know_natives(&self, ino: Ino) {
        if let Err(error) = self.try_know_natives(ino) {
            tracing::debug!(%ino, %error, "a file of our own will be looked at as if it were new");
        }
    }

    fn try_know_natives(&self, ino: Ino) -> Result<()> {
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind == FileKind::Directory {
            return Ok(());
        }
        let mut known: Vec<TierId> = Vec::new();
        let mut written = Vec::new();
        for replica in self.newest(&inode)?.into_iter().filter(|replica| !replica.staged) {
            let Some(resident) = self.resident(replica.tier).filter(|_| !known.contains(&replica.tier))
            else {
                continue;
            };
            let object = match resident.stat(&replica.key) {
                Err(error) if error.kind() == Kind::NotFound => continue,
                other => other?,
            };
            if !is_same_file(&object, &replica) {
                continue;
            }
            known.push(replica.tier);
            if replica.version.as_ref() != Some(&object.version) {
                written.push((replica.tier, self.content_after(&inode, replica.tier, &object)?, object));
            }
        }
        // Where it was written meanwhile is a newer generation, which the others have yet to get: they come first.
        written.sort_by_key(|(_, content, _)| !content.is_still(Some(&Content::of(&inode.attr))));
        for (tier, content, object) in written {
            self.catalog().wrote_native(ino, tier, content, &object.version)?;
        }
        Ok(())
    }

    /// Whether a native file that loses this name has the bytes that its other names still wait for on their tiers.
    pub(super) fn is_only_copy(&self, inode: &Inode, native: &Replica) -> Result<bool> {
        if inode.attr.nlink < 2
            || inode.attr.kind != FileKind::Regular
            || native.generation != inode.generation
        {
            return Ok(false);
        }
        let is_other = |copy: &Replica| (copy.place, &copy.name) != (native.place, &native.name);
        Ok(native.ino == Some(inode.attr.ino) && !self.newest(inode)?.iter().any(is_other))
    }

    /// The content as the catalog has it, unless the tier has another. A coarser time is the same time.
    fn content_after(&self, inode: &Inode, tier: TierId, object: &Object) -> Result<Content> {
        let attr = &inode.attr;
        let grain = self.parts.tiers.get(tier)?.capabilities().mtime_grain;
        let apart = u128::from(attr.mtime.0.abs_diff(object.modified.0));
        let same_time = attr.mtime == object.modified || grain.is_none_or(|grain| apart < grain.as_nanos());
        let same = same_time && (inode.attr.kind != FileKind::Regular || attr.size == object.size);
        let blocks = object.native.map_or(attr.blocks, |native| native.blocks);
        let (size, mtime) = if same { (attr.size, attr.mtime) } else { (object.size, object.modified) };
        Ok(Content { size, blocks, mtime, ctime: attr.ctime })
    }

    /// A directory that is only a prefix somewhere vanishes there with its last name: it is given a marker.
    pub(super) fn keep_emptied(&self, dir: Ino) {
        if let Err(error) = self.try_keep_emptied(dir) {
            tracing::warn!(ino = %dir, %error, "an emptied directory may vanish from its tier");
        }
    }

    fn try_keep_emptied(&self, dir: Ino) -> Result<()> {
        if dir == Ino::ROOT || !self.catalog().is_empty(dir)? {
            return Ok(());
        }
        let is_remote = |tier| self.resident(tier).is_none();
        if !self.catalog().places(dir)?.iter().any(|place| is_remote(place.tier)) {
            return Ok(());
        }
        let markers = self.catalog().replicas(dir)?;
        if !markers.iter().any(|marker| marker.version.is_some() && is_remote(marker.tier)) {
            let path = self.directory_path(dir)?;
            self.catalog().queue(dir, &self.rules().directory_domain(Subject::new(&path, self.ids(dir)?)))?;
        }
        Ok(())
    }
}

fn is_same_file(object: &Object, replica: &Replica) -> bool {
    object.native.is_some_and(|native| native.ino == replica.native_ino)
}
