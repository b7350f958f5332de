//! Relaxed transactions: verbs whose loss the tiers themselves make good share one commit.
//!
//! A file that was made, linked, removed or written natively is its own record: after a crash the next
//! look at its tier finds it. Its row need not be in the WAL before the answer, and one commit of many
//! rows writes each page once. Whatever no tier can tell again is committed before its answer, and
//! takes everything before it along, so the order of rows is kept.

use crate::catalog::tables::Tx;
use crate::error::Result;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Verbs in one commit.
pub(super) const VERBS_MAX: u32 = 256;
/// How long a row may wait for its commit.
const LONGEST: Duration = Duration::from_millis(10);
/// Between tries while the disk is full.
const PATIENCE: Duration = Duration::from_secs(1);

/// Commits what waits, from time to time.
pub(super) trait Commits: Send + Sync {
    /// Commits what there is.
    fn commit_batch(&self) -> Waiting;
}

/// What came while a batch was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Nothing,
    /// Young files, for whom no alarm was set.
    Young,
    /// What could not be written.
    Trouble,
}

/// Wakes the thread that commits batches.
#[derive(Debug)]
pub(super) struct Alarm {
    bell: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Alarm {
    /// Starts the thread; it has ended when the alarm is dropped.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(super) fn start<C: Commits + 'static>(engine: Weak<C>) -> Result<Self> {
        let (sender, receiver) = sync_channel(1);
        let thread = std::thread::Builder::new().name("catalog".into());
        let thread = thread.spawn(move || ring(&engine, &receiver))?;
        Ok(Self { bell: Some(sender), thread: Some(thread) })
    }

    /// A batch has begun.
    pub(super) fn set(&self) {
        // Full: the thread is about to commit anyway.
        let _ = self.bell.as_ref().map(|bell| bell.try_send(()));
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        drop(self.bell.take());
        // It may have the tables open for a moment longer, and who drops a catalog takes it for closed.
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that commits catalog rows panicked");
        }
    }
}

/// Sleeps; false if the alarm was dropped meanwhile.
fn sleep(pause: Duration, alarms: &Receiver<()>) -> bool {
    let until = Instant::now() + pause;
    loop {
        match alarms.recv_timeout(until.saturating_duration_since(Instant::now())) {
            // What has begun meanwhile is in the same commit.
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

fn ring<C: Commits>(engine: &Weak<C>, alarms: &Receiver<()>) {
    while alarms.recv().is_ok() {
        let mut pause = LONGEST;
        while sleep(pause, alarms) {
            let Some(engine) = engine.upgrade() else { return };
            pause = match engine.commit_batch() {
                Waiting::Nothing => break,
                Waiting::Young => LONGEST,
                Waiting::Trouble => PATIENCE,
            };
        }
    }
}

/// One verb inside a batch: undone alone if it fails.
pub(super) fn nested<T>(tx: &Tx<'_>, act: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
    tx.execute("SAVEPOINT verb", [])?;
    let undo = Undo { tx };
    let answer = act(tx)?;
    tx.execute("RELEASE verb", [])?;
    std::mem::forget(undo);
    Ok(answer)
}

/// Undoes the verb unless forgotten, also when it panics.
struct Undo<'a> {
    tx: &'a Tx<'a>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        self.tx.undo_verb();
    }
}
