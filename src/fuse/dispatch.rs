//! Running a vfs call: at once on the FUSE thread, or, if it would have to wait for a slow tier, again
//! on a thread that may.

use super::convert::{caller as caller_of, errno};
use super::interrupt;
use crate::error::{Error, Kind, Result};
use crate::types::Ino;
use crate::vfs::{
    Caller, FileHandle, OpenFileId, Patience, Pending, Reader, Settled, Vfs, Wait, Waiter, Wanted,
};
use bytes::Bytes;
use fuser::{
    BackingId, Errno, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOK_AT_MAPPINGS_EVERY: Duration = Duration::from_millis(250);

/// A reply that can be refused.
pub trait Refuse {
    /// Answers with an errno.
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ty),*) => {$(
        impl Refuse for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        }
    )*};
}

refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

/// What all requests share.
pub struct Shared {
    pub vfs: Arc<Vfs>,
    pub runtime: tokio::runtime::Handle,
    /// One backing id for all opens of one inode: two ids even of the same file give EIO.
    pub backings: Mutex<HashMap<OpenFileId, Arc<BackingId>>>,
    /// Some tier's files are behind a network: calls on them may hang.
    pub may_hang: bool,
    /// Some rule lets opens for writing wait.
    pub has_limits: bool,
}

impl Shared {
    /// Runs what a thread of the kernel's requests may wait for: nothing that can hang.
    pub fn at_once<T>(&self, call: impl FnOnce() -> T) -> T {
        if self.may_hang { Patience::None.during(call) } else { call() }
    }

    /// Makes a call that changes something, and answers. Where it may hang it is made apart from the start: half-way it could not
    /// be made again.
    pub fn act<T, R>(
        self: &Arc<Self>,
        request: &Request,
        reply: R,
        call: impl Fn(&Vfs, &Caller) -> Result<T> + Send + 'static,
        answer: impl FnOnce(&Self, R, T) + Send + 'static,
    ) where
        R: Refuse + Send + 'static,
    {
        if self.may_hang {
            self.run_apart(request, reply, call, answer);
        } else {
            self.run(request, reply, call, answer);
        }
    }

    /// Makes a call that opens for writing, when there is room for what will be written. Whoever waits for that has no thread, and
    /// goes on when room is made, or in vain once interrupted.
    pub fn act_in_room<T, R>(
        self: &Arc<Self>,
        request: &Request,
        reply: R,
        wanted: Wanted,
        call: impl Fn(&Vfs, &Caller) -> Result<T> + Send + Sync + 'static,
        answer: impl FnOnce(&Self, R, T) + Send + 'static,
    ) where
        T: Send + 'static,
        R: Refuse + Send + 'static,
    {
        let caller = caller_of(request, Wait::Never);
        if !self.may_hang && !self.has_limits {
            match self.at_once(|| call(&self.vfs, &caller)) {
                Err(error) if matches!(error.kind(), Kind::WouldBlock | Kind::NoSpace) => {}
                result => return self.finish(reply, result, answer),
            }
        }
        let caller = Caller { wait: Wait::Allowed, ..caller };
        let (shared, pid) = (self.clone(), request.pid());
        self.runtime.spawn(async move {
            let room = InRoom { shared: shared.clone(), wanted, pid };
            let result = room.run(caller, Arc::new(call)).await;
            shared.finish(reply, result, answer);
        });
    }

    /// Makes the call and answers.
    pub fn run<T, R>(
        self: &Arc<Self>,
        request: &Request,
        reply: R,
        call: impl Fn(&Vfs, &Caller) -> Result<T> + Send + 'static,
        answer: impl FnOnce(&Self, R, T) + Send + 'static,
    ) where
        R: Refuse + Send + 'static,
    {
        let caller = caller_of(request, Wait::Never);
        match self.at_once(|| call(&self.vfs, &caller)) {
            Err(error) if error.kind() == Kind::WouldBlock => {
                let shared = self.clone();
                self.runtime.spawn_blocking(move || {
                    let caller = Caller { wait: Wait::Allowed, ..caller };
                    shared.finish(reply, call(&shared.vfs, &caller), answer);
                });
            }
            result => self.finish(reply, result, answer),
        }
    }

    /// Makes a call that may take long even without a slow tier (fsync) on a thread that may wait.
    pub fn run_apart<T, R>(
        self: &Arc<Self>,
        request: &Request,
        reply: R,
        call: impl FnOnce(&Vfs, &Caller) -> Result<T> + Send + 'static,
        answer: impl FnOnce(&Self, R, T) + Send + 'static,
    ) where
        R: Refuse + Send + 'static,
    {
        let caller = caller_of(request, Wait::Allowed);
        let shared = self.clone();
        self.runtime.spawn_blocking(move || shared.finish(reply, call(&shared.vfs, &caller), answer));
    }

    /// Answers when what is pending is at home. Whoever waits has no thread, and is answered when interrupted.
    pub fn at_home(&self, pid: u32, reply: ReplyEmpty, pending: Pending) {
        let Some((awaited, patience)) = pending else { return reply.ok() };
        let at_home = self.vfs.at_home(awaited, patience);
        self.runtime.spawn(async move {
            let result = tokio::select! {
                result = at_home => result,
                () = interrupt::interrupted(pid) => {
                    Err(Error::new(Kind::Interrupted, "a signal came before the bytes were at home"))
                }
            };
            match result {
                Ok(()) => reply.ok(),
                Err(error) => refuse(reply, &error),
            }
        });
    }

    /// Ends the write of a closed file, now or when its last mapping is gone.
    pub fn settle(&self, ino: Ino) {
        if self.vfs.settle(ino) == Settled::Done {
            return;
        }
        // There is no event for the end of a mapping.
        let vfs = self.vfs.clone();
        self.runtime.spawn(async move {
            let mut settled = Settled::NotYet;
            while settled == Settled::NotYet {
                tokio::time::sleep(LOOK_AT_MAPPINGS_EVERY).await;
                let vfs = vfs.clone();
                let looked = tokio::task::spawn_blocking(move || vfs.settle(ino)).await;
                settled = looked.unwrap_or(Settled::Done);
            }
        });
    }

    /// Ends all that is still open. For when the kernel has gone: the closes that it had still to tell of never come.
    pub fn release_all(&self) {
        let caller = Caller { uid: 0, gid: 0, pid: 0, wait: Wait::Allowed };
        for handle in self.vfs.open_handles() {
            match self.vfs.release(&caller, handle) {
                Ok(released) => {
                    if let Some(ino) = released.settle {
                        self.settle(ino);
                    }
                }
                // Its close was being answered.
                Err(error) => tracing::debug!(%error, "a handle was released twice"),
            }
        }
    }

    /// Forgets look-ups of an inode; the last of a deleted file takes its bytes along.
    pub fn forget(&self, ino: Ino, count: u64) {
        if self.may_hang {
            let vfs = self.vfs.clone();
            self.runtime.spawn_blocking(move || vfs.forget(ino, count));
        } else {
            self.vfs.forget(ino, count);
        }
    }

    /// Waits for streamed bytes, and follows them if they moved meanwhile.
    pub async fn stream(
        self: &Arc<Self>,
        handle: FileHandle,
        reader: Arc<Reader>,
        offset: u64,
        size: usize,
    ) -> Result<Bytes> {
        let stale = match reader.read(offset, size).await {
            Err(error) if error.kind() == Kind::Stale => error,
            answer => return answer,
        };
        let shared = self.clone();
        let caller = Caller { uid: 0, gid: 0, pid: 0, wait: Wait::Allowed };
        match self.runtime.spawn_blocking(move || shared.vfs.follow(&caller, handle)).await {
            Ok(Ok(reader)) => reader.read(offset, size).await,
            _ => Err(stale),
        }
    }

    fn finish<T, R: Refuse>(&self, reply: R, result: Result<T>, answer: impl FnOnce(&Self, R, T)) {
        match result {
            Ok(value) => answer(self, reply, value),
            Err(error) => refuse(reply, &error),
        }
    }
}

/// An open for writing that may have to wait for room.
struct InRoom {
    shared: Arc<Shared>,
    wanted: Wanted,
    /// Who asks.
    pid: u32,
}

impl InRoom {
    async fn run<T: Send + 'static>(
        self,
        caller: Caller,
        call: Arc<impl Fn(&Vfs, &Caller) -> Result<T> + Send + Sync + 'static>,
    ) -> Result<T> {
        if self.shared.has_limits {
            self.below_limit().await?;
        }
        let mut full: Option<(Waiter<'_>, Instant)> = None;
        loop {
            let call = call.clone();
            let opened = self.apart(move |vfs, _| call(vfs, &caller)).await;
            let Err(error) = opened else { return opened };
            if error.kind() != Kind::NoSpace {
                return Err(error);
            }
            match self.apart(|vfs, wanted| vfs.room_on_stage(wanted)).await? {
                Some((cause, patience)) => {
                    let (_, since) =
                        full.get_or_insert_with(|| (self.shared.vfs.wait_for_room(cause), Instant::now()));
                    if since.elapsed() > patience {
                        return Err(error);
                    }
                }
                None => return Err(error),
            }
            self.pause().await?;
        }
    }

    async fn below_limit(&self) -> Result<()> {
        let mut waiter: Option<Waiter<'_>> = None;
        while let Some(cause) = self.apart(|vfs, wanted| vfs.room(wanted)).await? {
            waiter.get_or_insert_with(|| self.shared.vfs.wait_for_room(cause));
            self.pause().await?;
        }
        drop(waiter);
        Ok(())
    }

    async fn pause(&self) -> Result<()> {
        match interrupt::look_later(self.pid).await {
            false => Ok(()),
            true => Err(Error::new(Kind::Interrupted, "a signal came while the open waited for room")),
        }
    }

    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Vfs, &Wanted) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (vfs, wanted) = (self.shared.vfs.clone(), self.wanted.clone());
        let done = tokio::task::spawn_blocking(move || work(&vfs, &wanted)).await;
        done.map_err(|error| Error::new(Kind::Interrupted, "the daemon is ending").with_source(error))?
    }
}

/// Answers with what went wrong.
pub fn refuse(reply: impl Refuse, error: &Error) {
    log(error);
    reply.refuse(errno(error));
}

/// An errno alone tells a program little: what stands behind the rare ones goes to the log.
fn log(error: &Error) {
    match error.errno() {
        _ if error.kind() == Kind::Archived => tracing::warn!(%error, "an operation failed"),
        libc::EIO | libc::ETIMEDOUT | libc::ESTALE | libc::ENOSPC => {
            tracing::warn!(%error, "an operation failed")
        }
        _ => tracing::trace!(%error, "an operation was refused"),
    }
}
