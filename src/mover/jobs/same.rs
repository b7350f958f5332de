//! Whether what is in the way of a file is that very file: another mount that shares a tier, or this one before a power loss took the row, may
//! have brought it there. Two equal copies are no conflict.

use crate::catalog::{Inode, Replica};
use crate::error::{Kind, Result};
use crate::mover::context::Context;
use crate::mover::jobs::subject::Target;
use crate::mover::jobs::{Flow, attrs, upload};
use crate::tier::{ByteStream, Object, Tier};
use crate::types::FileKind;
use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use std::sync::Arc;

/// Takes `object` for the newest content of `inode` if its bytes are the same, and answers whether they are.
pub(crate) async fn adopt(
    context: &Arc<Context>,
    inode: &Inode,
    target: &Target,
    object: &Object,
) -> Flow<bool> {
    let is_alike = [inode.attr.kind, object.kind] == [FileKind::Regular; 2] && inode.attr.size == object.size;
    let Some(source) = source(context, inode, target)?.filter(|_| is_alike) else { return Ok(false) };
    let sealed = Arc::new(upload::seal(context, &source).await?);
    if sealed.size != object.size || !has_same_bytes(&sealed, target.tier.as_ref(), target, object).await? {
        return Ok(false);
    }
    upload::may_commit(context, &sealed, inode, target).await?;
    if source.staged {
        context.sealed.lock().insert(inode.attr.ino, (source.generation, sealed.version().clone()));
    }
    let told = attrs::of(context, inode, inode.generation, target.tier.as_ref(), "")?;
    let (theirs, ours) = (&object.attrs, &told);
    let is_told = theirs.mode.is_none_or(|mode| Some(mode) == ours.mode)
        && theirs.uid.is_none_or(|uid| Some(uid) == ours.uid)
        && theirs.gid.is_none_or(|gid| Some(gid) == ours.gid)
        && theirs.mtime.is_none_or(|mtime| Some(mtime) == ours.mtime)
        && theirs.xattrs == ours.xattrs
        && theirs.link.is_some() == ours.link.is_some();
    let attr_generation = if is_told { inode.attr_generation } else { 0 };
    let (ino, generation) = (inode.attr.ino, inode.generation);
    let (place, name, object) = (target.place.id, target.name.clone(), object.clone());
    context
        .blocking(move |context| {
            let (version, native) = (&object.version, object.native);
            context.catalog.commit_if(ino, generation, attr_generation, place, &name, version, native)
        })
        .await?;
    tracing::info!(key = %target.key, tier = target.tier.name(), "home has these very bytes already");
    Ok(true)
}

/// A whole copy of the newest content that lies elsewhere; one that is files of this machine first.
fn source(context: &Context, inode: &Inode, target: &Target) -> Result<Option<Replica>> {
    let mut replicas = context.catalog.replicas(inode.attr.ino)?;
    replicas.retain(|replica| {
        replica.generation == inode.generation
            && !replica.is_partial()
            && (replica.staged || replica.version.is_some())
            && (replica.place, &replica.name) != (target.place.id, &target.name)
    });
    let is_far =
        |replica: &Replica| context.tiers.get(&replica.tier).is_none_or(|tier| tier.resident().is_none());
    Ok(replicas.into_iter().min_by_key(is_far))
}

/// One that changes while it is read has other bytes.
async fn has_same_bytes(
    sealed: &upload::Sealed,
    tier: &dyn Tier,
    target: &Target,
    object: &Object,
) -> Result<bool> {
    let compare = async {
        let theirs = tier.read(&target.key, 0..object.size, &object.version).await?;
        are_equal(sealed.stream().await?, theirs).await
    };
    match compare.await {
        Err(error) if matches!(error.kind(), Kind::Changed | Kind::NotFound | Kind::Archived) => Ok(false),
        compared => compared,
    }
}

async fn are_equal(mut ours: ByteStream, mut theirs: ByteStream) -> Result<bool> {
    let (mut a, mut b) = (Bytes::new(), Bytes::new());
    loop {
        fill(&mut a, &mut ours).await?;
        fill(&mut b, &mut theirs).await?;
        let common = a.len().min(b.len());
        if common == 0 {
            return Ok(a.len() == b.len());
        }
        if a[..common] != b[..common] {
            return Ok(false);
        }
        a.advance(common);
        b.advance(common);
    }
}

/// The next piece, once nothing is left of the last one.
async fn fill(piece: &mut Bytes, stream: &mut ByteStream) -> Result<()> {
    while piece.is_empty() {
        match stream.try_next().await? {
            Some(next) => *piece = next,
            None => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    fn pieces(pieces: &[&'static str]) -> ByteStream {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))).collect();
        futures::stream::iter(pieces).boxed()
    }

    #[tokio::test]
    async fn bytes_are_compared_however_they_come() {
        for (ours, theirs, equal) in [
            (&["abc", "def"][..], &["ab", "", "cd", "ef"][..], true),
            (&[], &[""], true),
            (&["abc"], &["abd"], false),
            (&["abc"], &["ab"], false),
            (&["abc"], &["abc", "d"], false),
        ] {
            assert_eq!(are_equal(pieces(ours), pieces(theirs)).await.unwrap(), equal, "{ours:?} {theirs:?}");
        }
    }
}
