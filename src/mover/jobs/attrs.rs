//! What a tier is told of a file beside its bytes.

use crate::catalog::Inode;
use crate::error::Result;
use crate::mover::context::Context;
use crate::tier::{Resident, Tier};
use crate::types::{AttrChange, Attrs, FileKind, Generation, Ino, Key, TimeChange};

/// The attributes of `inode` for a copy of `generation` on `tier`, with `write_id` to know it again.
pub(crate) fn of(
    context: &Context,
    inode: &Inode,
    generation: Generation,
    tier: &dyn Tier,
    write_id: &str,
) -> Result<Attrs> {
    let attr = &inode.attr;
    let several = attr.kind != FileKind::Directory && attr.nlink > 1;
    // Names with equal marks have equal bytes: while only some of them have the next content, they are not alike.
    let link = (several && !tier.capabilities().hard_links)
        .then(|| format!("{}-{}-{}", context.catalog.id(), attr.ino, generation.0));
    Ok(Attrs {
        mode: Some(attr.mode),
        uid: Some(attr.uid),
        gid: Some(attr.gid),
        mtime: Some(attr.mtime),
        xattrs: context.catalog.xattrs(attr.ino)?,
        link,
        write_id: Some(write_id.to_owned()),
    })
}

/// Gives a native file or directory the attributes of `inode`, as far as the tier can hold them.
pub(crate) fn apply(context: &Context, inode: &Inode, resident: &dyn Resident, key: &Key) -> Result<()> {
    let attr = &inode.attr;
    let change = AttrChange {
        mode: (attr.kind != FileKind::Symlink).then_some(attr.mode),
        uid: Some(attr.uid),
        gid: Some(attr.gid),
        atime: Some(TimeChange::To(attr.atime)),
        mtime: Some(TimeChange::To(attr.mtime)),
    };
    tolerate(resident.set_attr(key, &change))?;
    for (name, value) in context.catalog.xattrs(attr.ino)? {
        tolerate(resident.set_xattr(key, &name, Some(&value)))?;
    }
    Ok(())
}

/// What a tier can't hold the catalog supplies: no reason to keep bytes from moving.
fn tolerate(result: Result<()>) -> Result<()> {
    use crate::error::Kind;
    match result {
        Err(error) if matches!(error.kind(), Kind::Unsupported | Kind::NotPermitted | Kind::Denied) => {
            tracing::debug!(%error, "a tier can't hold an attribute");
            Ok(())
        }
        other => other,
    }
}

/// The id of one commit: tells what was committed and, being random, by whom. Native renames and
/// links write no attributes: there `native_ino`, part of the id, is what tells.
pub(crate) fn write_id(
    ino: Ino,
    generation: Generation,
    attr_generation: u64,
    native_ino: Option<u64>,
) -> String {
    let native = native_ino.map_or(String::new(), |ino| format!("-n{ino}"));
    format!("{}-{attr_generation}-{:016x}.{ino}{native}", generation.0, rand::random::<u64>())
}

/// The inode whose commit has this id.
pub(crate) fn ino_of(id: &str) -> Option<Ino> {
    id.split('-').nth(2)?.split_once('.')?.1.parse().ok().map(Ino)
}

/// What the commit with this id writes: generation of content and of attributes.
pub(crate) fn parse_write_id(id: &str) -> Option<(Generation, u64)> {
    let mut parts = id.split('-');
    let generation = parts.next()?.parse().ok()?;
    let attributes = parts.next()?.parse().ok()?;
    Some((Generation(generation), attributes))
}

/// The `st_ino` that a native rename or link brings to its key.
pub(crate) fn native_ino_of(id: &str) -> Option<u64> {
    id.split('-').nth(3)?.strip_prefix('n')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_id_tells_what_it_wrote() {
        let id = write_id(Ino(5), Generation(7), 12, None);
        assert_eq!((parse_write_id(&id), native_ino_of(&id)), (Some((Generation(7), 12)), None));
        assert_ne!(id, write_id(Ino(5), Generation(7), 12, None));
        assert_eq!((ino_of(&id), ino_of("1-2-0badc0de")), (Some(Ino(5)), None));
        let native = write_id(Ino(5), Generation(7), 12, Some(99));
        assert_eq!((parse_write_id(&native), native_ino_of(&native)), (Some((Generation(7), 12)), Some(99)));
        assert_eq!(parse_write_id("someone-else"), None);
        assert_eq!(parse_write_id(""), None);
    }
}
