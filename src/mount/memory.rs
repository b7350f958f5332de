//! What was freed goes back to the kernel. glibc keeps what lies below the top of each of its arenas: a hundred MiB after directories
//! with a million files were listed and forgotten.

use std::time::Duration;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(30);

/// Below that there is nothing to gain.
const FROM: u64 = 64 << 20;

/// Gives freed memory back now and then, for as long as it is polled.
pub(super) async fn give_back() {
    let mut before = 0;
    loop {
        tokio::time::sleep(EVERY).await;
        let resident = || crate::host::process().resident_bytes.unwrap_or(0);
        // At rest nothing is freed either.
        if resident() < FROM || resident() == before {
            continue;
        }
        // It ends with the daemon.
        if tokio::task::spawn_blocking(trim).await.is_err() {
            return;
        }
        before = resident();
    }
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: malloc_trim(3) has no preconditions, and takes the locks that it needs.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
