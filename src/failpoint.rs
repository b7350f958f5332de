//! Named places where a test can make the daemon die, to prove what holds after a crash there.
//!
//! `TIERFS_CRASH_AT=name[:n]` in the environment ends the process (as SIGKILL would) when it
//! passes the place `name` for the n-th time (default 1). Unset, a pass costs one atomic load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

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
