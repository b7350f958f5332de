//! What a tier lets this identity do, by trying it, and whether its clock is ours. Leaves nothing behind.

use super::finding::Finding;
use crate::config::{BlobConfig, DirectoryConfig};
use crate::error::{Error, Kind};
use crate::tier::Tier;
use crate::tier::blob::service_time;
use crate::types::{Attrs, Condition, Key, Timestamp};
use bytes::Bytes;
use futures::TryStreamExt;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// Clocks that differ by more deserve a look; by a quarter of an hour, and signatures are refused.
const SKEW_S: i64 = 60;
const SKEW_MAX_S: i64 = 840;

/// Names nobody else has: each call is another.
fn name() -> String {
    let random: u64 = rand::random();
    format!("check-{random:016x}")
}

/// Writes, reads and deletes a blob of our own.
pub(super) async fn blob(what: &str, tier: &dyn Tier) -> Vec<Finding> {
    let key = match Key::parse(format!(".tierfs/{}", name())) {
        Ok(key) => key,
        Err(error) => return vec![Finding::fail(what, error.to_string())],
    };
    let text = Bytes::from_static(b"tierfs check");
    let version = match tier.put(&key, text.clone(), &Attrs::default(), &Condition::Absent).await {
        Ok(version) => version,
        Err(error) => return vec![refused(what, "write", &error)],
    };
    let mut found = Vec::new();
    let read = async {
        let stream = tier.read(&key, 0..text.len() as u64, &version).await?;
        stream.try_fold(0, async |sum, chunk| Ok(sum + chunk.len())).await
    };
    if let Err(error) = read.await {
        found.push(refused(what, "read", &error));
    }
    if let Err(error) = tier.delete(&key, &Condition::Matches(version)).await {
        found.push(refused(what, &format!("delete ({key} is left there)"), &error));
    }
    if found.is_empty() {
        found.push(Finding::ok(what, "lets this identity write, read and delete (tried)"));
    }
    found
}

fn refused(what: &str, act: &str, error: &Error) -> Finding {
    let remedy = match error.kind() {
        Kind::Denied => {
            "; give this identity the role Storage Blob Data Contributor, or a SAS with rwdl (for a mount with -o ro, reading is enough)"
        }
        _ => "",
    };
    Finding::warn(what, format!("does not let this identity {act}: {error}{remedy}"))
}

/// The service's clock against ours.
pub(super) async fn clock(what: &str, blob: &BlobConfig, now: Timestamp) -> Option<Finding> {
    // What does not answer is told elsewhere.
    let there = service_time(&blob.location).await.ok()??;
    Some(skew(what, (now.0 - there.0) / 1_000_000_000))
}

fn skew(what: &str, seconds: i64) -> Finding {
    let side = if seconds > 0 { "ahead of" } else { "behind" };
    let said = format!("this clock is {} s {side} the service's", seconds.abs());
    match seconds.abs() {
        0..=SKEW_S => Finding::ok(what, "its clock and ours agree"),
        ..SKEW_MAX_S => Finding::warn(what, format!("{said}: set it (chrony, systemd-timesyncd)")),
        _ => Finding::fail(
            what,
            format!("{said}: signatures and tokens are refused; set it (chrony, systemd-timesyncd)"),
        ),
    }
}

/// Whether root is root there: shares may take it for nobody.
pub(super) fn squash(what: &str, directory: &DirectoryConfig) -> Option<Finding> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let owner = owner_of_a_new_file(directory).ok()?;
    (owner != 0).then(|| {
        Finding::warn(
            what,
            format!("takes root for user {owner} (root squash): owners can't be kept, and other users' files may be closed to us; export it without"),
        )
    })
}

fn owner_of_a_new_file(directory: &DirectoryConfig) -> io::Result<u32> {
    // Ours alone where it is there; a new root has nothing yet.
    let own = directory.path.join(".tierfs");
    let place = if own.is_dir() { own } else { directory.path.clone() };
    let path = place.join(format!(".tierfs-{}", name()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let found = file.metadata();
    fs::remove_file(&path)?;
    Ok(found?.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Level;
    use crate::clock::SystemClock;
    use crate::tier::MemoryTier;
    use std::sync::Arc;

    #[test]
    fn clocks_may_differ_a_little() {
        let level = |seconds| skew("x", seconds).level;
        assert_eq!([0, 60, -60].map(level), [Level::Ok; 3]);
        assert_eq!([61, -839].map(level), [Level::Warn; 2]);
        assert_eq!([840, -100_000].map(level), [Level::Fail; 2]);
    }

    #[tokio::test]
    async fn what_is_tried_leaves_nothing() {
        let tier = MemoryTier::new("m", Arc::new(SystemClock::default()));
        let found = blob("tier m", &tier).await;
        assert_eq!(found.iter().map(|finding| finding.level).collect::<Vec<_>>(), [Level::Ok]);
        let left = tier.list(&Key::parse(".tierfs").unwrap(), b"", None, 10).await;
        assert!(left.map_or(true, |page| page.entries.is_empty()));
    }
}
