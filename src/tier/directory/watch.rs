//! Whether a tier answers, told by the calls that are under way: a server that is gone lets a system call hang for as long
//! as it is gone, and nothing can take the call back.
//!
//! So a tier behind a network holds a limited number of threads. One from which no call has come back for a while is *silent*:
//! then callers wait without making theirs, until one that is under way comes back. If it is only one file that hangs (on a lost
//! Lustre OST), none may: hence a look at the root is made on a thread of its own, one at a time.

use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::tier::Patience;
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Calls under way at once: each is a thread that may be stuck.
const CALLS_MAX: usize = 96;
/// Callers that wait for a silent tier at once: the next are refused.
const WAITING_MAX: usize = 96;
/// Without any answer for so long, while one is awaited, a tier is silent. More than a busy metadata server needs.
const SILENT_AFTER: Duration = Duration::from_secs(2);

thread_local! {
    /// Calls of this thread, one inside the other: only the outermost counts.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Asks the server for something that can't be known without it.
pub(super) type Probe = Box<dyn Fn() + Send + Sync>;

pub(super) struct Watch {
    name: String,
    deadline: Duration,
    clock: Arc<dyn Clock>,
    probe: Probe,
    networked: AtomicBool,
    calls: Mutex<Calls>,
    answered: Condvar,
}

/// Times are monotonic.
#[derive(Debug, Default)]
struct Calls {
    last: u64,
    /// When each call under way began.
    under_way: BTreeMap<u64, Duration>,
    waiting: usize,
    last_answer: Duration,
    probing: bool,
}

impl Calls {
    fn is_silent(&self, now: Duration) -> bool {
        let oldest = self.under_way.first_key_value().map(|(_, &began)| began);
        oldest.is_some_and(|began| now.saturating_sub(began.max(self.last_answer)) >= SILENT_AFTER)
    }

    fn begin(&mut self, now: Duration) -> Option<u64> {
        if self.is_silent(now) || self.under_way.len() >= CALLS_MAX {
            return None;
        }
        self.last += 1;
        self.under_way.insert(self.last, now);
        Some(self.last)
    }
}

/// A call under way; it ends on the thread on which it began.
#[derive(Debug)]
pub(super) struct Call<'a> {
    watch: Option<(&'a Watch, u64)>,
    nested: PhantomData<*const ()>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Watch {
    pub(super) fn new(name: &str, deadline: Duration, clock: Arc<dyn Clock>, probe: Probe) -> Self {
        Self {
            name: name.to_owned(),
            deadline,
            clock,
            probe,
            networked: AtomicBool::new(true),
            calls: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    /// Whether calls can hang at all.
    pub(super) fn set_networked(&self, networked: bool) {
        self.networked.store(networked, Ordering::Relaxed);
    }

    /// To be called before every system call on the tier, and held until it is back.
    ///
    /// # Errors
    /// [`Kind::WouldBlock`] / [`Kind::TimedOut`] as the thread's [`Patience`] says.
    pub(super) fn begin(self: &Arc<Self>) -> Result<Call<'_>> {
        if DEPTH.get() > 0 || !self.networked.load(Ordering::Relaxed) {
            return Ok(Call::of(None));
        }
        let patience = Patience::current();
        if patience == Patience::None {
            return Err(Kind::WouldBlock.into());
        }
        let mut calls = self.calls.lock();
        let until = Instant::now() + self.deadline;
        loop {
            if let Some(call) = calls.begin(self.clock.monotonic()) {
                return Ok(Call::of(Some((self, call))));
            }
            self.probe(&mut calls);
            if patience == Patience::Brief || calls.waiting >= WAITING_MAX || Instant::now() >= until {
                return Err(self.no_answer());
            }
            calls.waiting += 1;
            self.answered.wait_until(&mut calls, until);
            calls.waiting -= 1;
        }
    }

    /// Sends somebody to look whether the tier is there, unless somebody looks already.
    fn probe(self: &Arc<Self>, calls: &mut Calls) {
        if calls.probing || !calls.is_silent(self.clock.monotonic()) {
            return;
        }
        let watch = Arc::clone(self);
        let look = move || {
            (watch.probe)();
            watch.come_back(|calls| calls.probing = false);
        };
        let sent = std::thread::Builder::new().name("probe".into()).spawn(look);
        calls.probing = sent.is_ok();
    }

    fn no_answer(&self) -> Error {
        let text = format!("tier {} does not answer: is its server there, and the network to it?", self.name);
        Error::new(Kind::TimedOut, text)
    }

    fn come_back(&self, note: impl FnOnce(&mut Calls)) {
        let now = self.clock.monotonic();
        let mut calls = self.calls.lock();
        if calls.is_silent(now) {
            tracing::info!(tier = self.name, "tier answers again");
        }
        note(&mut calls);
        calls.last_answer = now;
        drop(calls);
        self.answered.notify_all();
    }
}

impl<'a> Call<'a> {
    fn of(watch: Option<(&'a Watch, u64)>) -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self { watch, nested: PhantomData }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if let Some((watch, call)) = self.watch {
            watch.come_back(|calls| {
                calls.under_way.remove(&call);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::types::Timestamp;

    struct Rig {
        clock: Arc<ManualClock>,
        watch: Arc<Watch>,
        /// Taken while the server is gone.
        server: Arc<Mutex<()>>,
    }

    fn rig(deadline: Duration) -> Rig {
        let clock = Arc::new(ManualClock::new(Timestamp(0)));
        let server = Arc::new(Mutex::new(()));
        let gone = Arc::clone(&server);
        let probe = Box::new(move || drop(gone.lock()));
        let watch = Arc::new(Watch::new("share", deadline, clock.clone(), probe));
        Rig { clock, watch, server }
    }

    impl Rig {
        /// A call that hangs on a thread of its own until the answer is sent.
        fn hang(&self) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<()>) {
            let (answer, answered) = std::sync::mpsc::channel::<()>();
            let (begun, began) = std::sync::mpsc::channel::<()>();
            let watch = Arc::clone(&self.watch);
            let thread = std::thread::spawn(move || {
                let _call = watch.begin().unwrap();
                begun.send(()).unwrap();
                // An error is an answer too: the test is over.
                let _ = answered.recv();
            });
            began.recv().unwrap();
            (answer, thread)
        }

        fn is_silent(&self) -> bool {
            self.watch.calls.lock().is_silent(self.clock.monotonic())
        }

        fn brief(&self) -> Option<Kind> {
            Patience::Brief.during(|| self.watch.begin().err().map(|error| error.kind()))
        }
    }

    #[test]
    fn threads_that_must_not_wait_never_call() {
        let rig = rig(Duration::ZERO);
        let tried = Patience::None.during(|| rig.watch.begin().map(drop));
        assert_eq!(tried.unwrap_err().kind(), Kind::WouldBlock);
        rig.watch.set_networked(false);
        assert!(Patience::None.during(|| rig.watch.begin().is_ok()));
    }

    #[test]
    fn a_silent_tier_is_left_alone_until_a_call_comes_back() {
        let rig = rig(Duration::ZERO);
        let gone = rig.server.lock();
        let (answer, thread) = rig.hang();
        assert_eq!((rig.is_silent(), rig.brief()), (false, None));
        rig.clock.advance(SILENT_AFTER);
        assert!(rig.is_silent());
        assert_eq!(rig.brief(), Some(Kind::TimedOut));
        assert_eq!(rig.watch.begin().unwrap_err().kind(), Kind::TimedOut, "the deadline is over");
        answer.send(()).unwrap();
        thread.join().unwrap();
        assert_eq!((rig.is_silent(), rig.brief()), (false, None));
        drop(gone);
    }

    #[test]
    fn a_look_at_the_root_tells_that_only_a_file_hangs() {
        let rig = rig(Duration::from_secs(3600));
        let (answer, thread) = rig.hang();
        rig.clock.advance(SILENT_AFTER);
        assert!(rig.watch.begin().is_ok(), "waits for the look, which comes back");
        answer.send(()).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn one_call_that_hangs_silences_nobody_while_others_come_back() {
        let rig = rig(Duration::ZERO);
        let (answer, thread) = rig.hang();
        for _ in 0..10 {
            rig.clock.advance(SILENT_AFTER / 2);
            assert_eq!(rig.brief(), None);
        }
        answer.send(()).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn no_more_threads_hang_than_the_limit() {
        let rig = rig(Duration::ZERO);
        let hanging: Vec<_> = (0..CALLS_MAX).map(|_| rig.hang()).collect();
        assert_eq!(rig.brief(), Some(Kind::TimedOut));
        let (answer, _) = &hanging[0];
        answer.send(()).unwrap();
        let (answers, threads): (Vec<_>, Vec<_>) = hanging.into_iter().unzip();
        drop(answers);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(rig.brief(), None);
    }

    #[test]
    fn who_waits_goes_on_when_the_tier_is_back() {
        let rig = rig(Duration::from_secs(3600));
        let gone = rig.server.lock();
        let (answer, thread) = rig.hang();
        rig.clock.advance(SILENT_AFTER);
        let watch = Arc::clone(&rig.watch);
        let waiting = std::thread::spawn(move || watch.begin().map(drop));
        while rig.watch.calls.lock().waiting == 0 {
            std::thread::yield_now();
        }
        drop(answer);
        assert!(waiting.join().unwrap().is_ok());
        thread.join().unwrap();
        drop(gone);
    }

    #[test]
    fn calls_inside_a_call_are_one_call() {
        let rig = rig(Duration::ZERO);
        let outer = rig.watch.begin().unwrap();
        let inner = rig.watch.begin().unwrap();
        assert_eq!(rig.watch.calls.lock().under_way.len(), 1);
        drop((inner, outer));
        assert_eq!(rig.watch.calls.lock().under_way.len(), 0);
    }
}
