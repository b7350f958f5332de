//! Extended attributes: the user's own, and the facts of `user.tierfs.*` that are read by name and
//! never listed, so that no copy takes them along.

use super::{Caller, Vfs};
use crate::catalog::Inode;
use crate::error::{Error, Kind, Result};
use crate::types::{Attrs, FileKind, Ino, Key, TierId};
use std::path::Path;
use std::sync::LazyLock;

/// Prefix of the facts.
const FACTS: &[u8] = b"user.tierfs.";
/// SELinux' label. Where there is no SELinux the kernel asks for it whenever a program does, and `ls -l` does so for every file until it is
/// told that there are none.
const LABEL: &[u8] = b"security.selinux";
/// Linux' XATTR_SIZE_MAX.
const VALUE_MAX: usize = 65_536;
/// All attributes of a file, names and values: one of the largest, or many. More names than this listxattr(2) could not show.
const ALL_MAX: usize = VALUE_MAX + 256;

impl Vfs {
    /// Value of one attribute.
    ///
    /// # Errors
    /// [`Kind::NoAttribute`], [`Kind::Unsupported`] for name spaces that no tier keeps.
    pub fn xattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        if let Some(fact) = name.strip_prefix(FACTS) {
            return self.fact(caller, ino, fact)?.ok_or_else(|| Kind::NoAttribute.into());
        }
        check_space(name)?;
        match self.catalog().xattr(ino, name)? {
            None if self.learn_xattrs(ino, name)? => self.catalog().xattr(ino, name)?,
            known => known,
        }
        .ok_or_else(|| {
            if name == LABEL && !keeps_labels() { Kind::Unsupported } else { Kind::NoAttribute }.into()
        })
    }

    /// Takes over what a native file carries and the catalog does not know: listings don't say. Answers whether there was any.
    fn learn_xattrs(&self, ino: Ino, name: &[u8]) -> Result<bool> {
        // The kernel asks for security.* at every turn.
        if !name.starts_with(b"user.") {
            return Ok(false);
        }
        let inode = self.catalog().inode(ino)?;
        let known = self.catalog().xattrs(ino)?;
        for (tier, key) in self.carriers(&inode)? {
            let Some(resident) = self.resident(tier) else { continue };
            let Ok(mut found) = resident.xattrs(&key) else { continue };
            found.retain(|(name, _)| {
                name.starts_with(b"user.") && known.iter().all(|(known, _)| known != name)
            });
            if !found.is_empty() {
                self.catalog().learn_xattrs(ino, &found)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where the tiers have it; not what lies under its key only until it is replaced.
    fn carriers(&self, inode: &Inode) -> Result<Vec<(TierId, Key)>> {
        let ino = inode.attr.ino;
        Ok(if inode.attr.kind == FileKind::Directory {
            self.catalog().places(ino)?.iter().map(|place| (place.tier, place.key.clone())).collect()
        } else {
            self.newest(inode)?.into_iter().filter(|r| !r.staged).map(|r| (r.tier, r.key)).collect()
        })
    }

    /// Names of all attributes, each ended by NUL.
    ///
    /// # Errors
    /// What the catalog says.
    pub fn xattr_names(&self, ino: Ino) -> Result<Vec<u8>> {
        self.learn_xattrs(ino, b"user.")?;
        let mut names = Vec::new();
        for (name, _) in self.catalog().xattrs(ino)? {
            names.extend_from_slice(&name);
            names.push(0);
        }
        Ok(names)
    }

    /// Sets an attribute; `flags` as setxattr(2).
    ///
    /// # Errors
    /// [`Kind::NotPermitted`] for facts, [`Kind::Exists`] and [`Kind::NoAttribute`] as the flags say.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], flags: i32) -> Result<()> {
        let inode = self.writable_xattr(ino, name)?;
        if value.len() > VALUE_MAX {
            return Err(Kind::Os(libc::E2BIG).into());
        }
        if flags != 0 {
            let known = self.catalog().xattr(ino, name)?.is_some();
            if flags & libc::XATTR_CREATE != 0 && known {
                return Err(Kind::Exists.into());
            }
            if flags & libc::XATTR_REPLACE != 0 && !known {
                return Err(Kind::NoAttribute.into());
            }
        }
        self.check_carried(&inode, name, value)?;
        self.change_xattr(&inode, name, Some(value))
    }

    /// Says now that there is no room or that home can't carry an attribute, rather than later when nobody asks.
    fn check_carried(&self, inode: &Inode, name: &[u8], value: &[u8]) -> Result<()> {
        let ino = inode.attr.ino;
        let home = self.parts.tiers.get(self.rule(&self.some_path(ino)?, inode.whereabouts()).home)?;
        let mut xattrs = self.catalog().xattrs(ino)?;
        xattrs.retain(|(known, _)| known != name);
        xattrs.push((name.to_vec(), value.to_vec()));
        if xattrs.iter().map(|(name, value)| name.len() + 1 + value.len()).sum::<usize>() > ALL_MAX {
            return Err(Error::new(Kind::NoSpace, "a file's extended attributes have 64 KiB in all"));
        }
        let attrs = Attrs {
            mode: Some(inode.attr.mode),
            uid: Some(inode.attr.uid),
            gid: Some(inode.attr.gid),
            mtime: Some(inode.attr.mtime),
            link: (inode.attr.nlink > 1)
                .then(|| format!("{}-{ino}-{}", self.catalog().id(), inode.generation.0)),
            xattrs,
            write_id: None,
        };
        if home.can_carry(&attrs) {
            return Ok(());
        }
        Err(Error::new(
            Kind::NoSpace,
            format!("tier {} can't carry that many extended attributes", home.name()),
        ))
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// [`Kind::NoAttribute`], [`Kind::NotPermitted`].
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let inode = self.writable_xattr(ino, name)?;
        self.change_xattr(&inode, name, None)
    }

    fn writable_xattr(&self, ino: Ino, name: &[u8]) -> Result<Inode> {
        if name.starts_with(FACTS) {
            return Err(Error::new(Kind::NotPermitted, "user.tierfs.* are facts, not settings"));
        }
        check_space(name)?;
        if self.catalog().xattr(ino, name)?.is_none() {
            self.learn_xattrs(ino, name)?;
        }
        self.catalog().inode(ino)
    }

    /// The catalog keeps them; a native file gets them too where its tier can hold them.
    fn change_xattr(&self, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let ino = inode.attr.ino;
        let path = self.some_path(ino)?;
        let domain = self.domain_if_remote(&path, inode.whereabouts());
        self.catalog().set_xattr(ino, name, value, domain.as_deref(), self.now())?;
        for (tier, key) in self.carriers(inode)? {
            let Some(resident) = self.resident(tier) else { continue };
            if let Err(error) = resident.set_xattr(&key, name, value)
                && !matches!(error.kind(), Kind::Unsupported | Kind::NotPermitted | Kind::NoAttribute)
            {
                tracing::debug!(%path, %error, "an extended attribute stays in the catalog only");
            }
        }
        self.know_natives(ino);
        Ok(())
    }
}

/// Whether files here can have labels of their own: not on a kernel without SELinux.
fn keeps_labels() -> bool {
    static ENABLED: LazyLock<bool> = LazyLock::new(|| Path::new("/sys/fs/selinux").exists());
    *ENABLED
}

/// Which attributes are kept. POSIX ACLs would have to be enforced, so they are refused.
fn check_space(name: &[u8]) -> Result<()> {
    let kept = [&b"user."[..], b"security.", b"trusted."];
    if kept.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix)) {
        return Ok(());
    }
    Err(Error::new(Kind::Unsupported, "only user.*, security.* and trusted.* attributes are kept"))
}
