//! Named places where a test can make the daemon die, to prove what holds after a crash there.
//!
//! `TIERFS_CRASH_AT=name[:n]` in the environment ends the process (as SIGKILL would) when it
//! passes the place `name` for the n-th time (default 1). Unset, a pass costs one atomic load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place where the daemon can die, and what must hold when it is mounted again.
#[derive(Debug)]
pub struct Point {
    /// Its name.
    pub name: &'static str,
    /// What was done before it and what not, and what a crash there must leave.
    pub promise: &'static str,
}

const fn point(name: &'static str, promise: &'static str) -> Point {
    Point { name, promise }
}

/// Every place there is. At each, bytes whose close or fsync was answered are there afterwards, no home shows a part of a file, and
/// everything dirty reaches its home.
pub const POINTS: &[Point] = &[
    point(
        "dirty_row_written",
        "a create was not answered: the name is gone, or an empty file that a program can write",
    ),
    point(
        "native_file_made",
        "a create was not answered: the native file has no row and is imported, or is gone",
    ),
    point("native_special_made", "the same for a directory, a symlink or a node"),
    point(
        "generation_begun",
        "a write-open was not answered: the file holds what it held, under the new generation or the old",
    ),
    point(
        "generation_copied",
        "a write-open was not answered: what was closed is in the copy, and goes on to its home in its turn",
    ),
    point(
        "hot_copy_claimed",
        "a write-open was not answered: the hot copy is where it was, home is the truth",
    ),
    point(
        "bytes_synced",
        "an fsync was not answered: the bytes are on the stage, the file is still being written",
    ),
    point(
        "close_row_written",
        "a close was not answered, but counts: the file is committed once no writer lives",
    ),
    point("released", "the last writer let go: the file is committed"),
    point(
        "native_file_unlinked",
        "an unlink was not answered: the native file is gone, and so is its name after a look at the tier",
    ),
    point("native_directory_removed", "the same for a directory"),
    point("rename_intended", "a rename was not answered, nothing moved: it is finished at the next start"),
    point(
        "renamed_natively",
        "a rename was not answered, its native files moved: the names follow at the next start",
    ),
    point("upload_begun", "nothing is visible at home: the upload starts again"),
    point("blocks_sent", "blocks without a list: nothing was visible, and none of them is sent again"),
    point("commit_begun", "a row with a write id, nothing at home: the commit is made again"),
    point(
        "committed_not_recorded",
        "home has the file, the catalog does not know: the write id tells, no conflict copy is made",
    ),
    point(
        "recorded_not_dropped",
        "home has the file, and the stage too: the staged copy becomes the hot copy or goes",
    ),
    point(
        "renamed_out_of_the_stage",
        "a staged file is at its native key without a row: its identity tells that it is ours",
    ),
    point(
        "row_dropped_bytes_left",
        "a staged file without a row whose content is at home: it goes at the next start",
    ),
    point(
        "became_a_hot_copy",
        "the staged file is a hot copy, its sidecar is left: it goes at the next start",
    ),
    point(
        "sent_away_not_moved",
        "a file that nobody uses is to live on its cold tier and is at home: it goes there, or is used and stays",
    ),
    point("doomed_not_deleted", "a key that nobody wants is still there: its delete step goes on"),
    point("delete_sent", "a key is deleted and still has its row: the next delete finds nothing and is done"),
    point(
        "directory_moved_not_recorded",
        "a directory is at its new native key: the move finds nothing to do and is recorded",
    ),
    point(
        "hot_copy_filled",
        "the bytes of a hot copy have no name yet: nobody takes them for one, the claim expires",
    ),
    point("hot_copy_named", "the hot copy is whole: it serves, the claim expires"),
    point(
        "losses_named",
        "a wiped tier is given up in the catalog and not marked: it is absent, and accepting it again ends it",
    ),
    point(
        "taken_over_not_closed",
        "a rebuild moved staged bytes, the damaged catalog is still in its place: the next rebuild takes them from both stages, in order",
    ),
];

struct Armed {
    name: String,
    left: AtomicU64,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

fn armed() -> Option<&'static Armed> {
    ARMED
        .get_or_init(|| {
            let text = std::env::var("TIERFS_CRASH_AT").ok()?;
            let (name, left) = text.split_once(':').unwrap_or((&text, "1"));
            Some(Armed { name: name.to_owned(), left: AtomicU64::new(left.parse().unwrap_or(1)) })
        })
        .as_ref()
}

/// Dies here if the environment asks for it.
#[inline]
pub fn pass(name: &str) {
    if let Some(armed) = armed()
        && armed.name == name
        && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        std::process::abort();
    }
}
