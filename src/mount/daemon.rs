//! The running mount as the control socket sees it.

use super::accept::{self, Accepting};
use super::evict::Eviction;
use super::parts::{Assembled, StatusText};
use super::status;
use super::warm::Warm;
use crate::cli::detach::{self, Manner};
use crate::config::Config;
use crate::control::protocol::{
    Drained, Evicted, FileSystem, Held, Hello, ListPage, ListQuery, LostPage, NativePath, Phase, PinPage,
    Pinned, Plan, Progress, QueuePage, QueueQuery, Reloaded, Retried, Role, Row, RowKind, RowState,
    TierAccepted, Warmed, WirePath,
};
use crate::control::status::Status;
use crate::control::{Daemon, ProgressSink};
use crate::error::{Error, Kind, Result};
use crate::mover::{self, FlushReport, FlushScope};
use crate::types::{FileKind, Ino, Key, Timestamp};
use crate::vfs::{Caller, CopyRole, Evict, FileFacts, Vfs, Wait};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// A flush without a deadline.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How far the end is.
#[derive(Clone, Debug)]
pub enum Ending {
    /// Not yet.
    Running,
    /// Over.
    Drained(Drained),
}

/// A mount that serves or drains.
pub struct Live {
    pub(super) assembled: Assembled,
    pub(super) mountpoint: PathBuf,
    pub(super) config_path: PathBuf,
    pub(super) mode: String,
    pub(super) started: Instant,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) drain_timeout: Mutex<Duration>,
    /// The config that it was mounted with, which holds for what can't change since.
    pub(super) mounted_with: Arc<Config>,
    /// The config in force for all else.
    pub(super) config: Mutex<Arc<Config>>,
    pub(super) phase: Mutex<Phase>,
    pub(super) usage: status::UsageCache,
    ending: watch::Sender<Ending>,
    /// Held while a tier is accepted.
    accepting: Arc<Mutex<()>>,
    /// Told when something is pinned.
    pub(super) pinned: Notify,
}

/// Where a mount is, and where its config.
pub struct Place {
    pub mountpoint: PathBuf,
    pub config_path: PathBuf,
}

impl Live {
    /// `metrics` is where they are shown, if anywhere.
    pub fn new(
        assembled: Assembled,
        place: Place,
        config: Arc<Config>,
        mode: String,
        metrics: Option<SocketAddr>,
    ) -> Self {
        Self {
            assembled,
            mountpoint: place.mountpoint,
            config_path: place.config_path,
            mode,
            started: Instant::now(),
            metrics,
            drain_timeout: Mutex::new(config.mount.drain_timeout),
            mounted_with: config.clone(),
            config: Mutex::new(config),
            phase: Mutex::new(Phase::Starting),
            usage: status::UsageCache::default(),
            ending: watch::channel(Ending::Running).0,
            accepting: Arc::default(),
            pinned: Notify::new(),
        }
    }

    /// Goes on to another phase; from the first on, the root's attributes tell the status.
    pub fn enter(self: &Arc<Self>, phase: Phase) {
        *self.phase.lock() = phase;
        let daemon: Arc<dyn StatusText> = self.clone();
        self.assembled.facts.answer_from(Arc::downgrade(&daemon));
    }

    /// How long dirty data is waited for at the end.
    pub fn drain_timeout(&self) -> Duration {
        *self.drain_timeout.lock()
    }

    /// Says how it ended to whoever waits for that.
    pub fn end(&self, ending: Ending) {
        self.ending.send_replace(ending);
    }

    /// Takes the mount from the kernel's name space; what is open stays open.
    pub fn detach(&self) {
        if let Err(error) = detach::detach(&self.mountpoint, Manner::Lazy) {
            tracing::warn!(%error, "the mount point could not be released");
        }
    }

    /// Commits everything, as long as `deadline` allows.
    ///
    /// # Errors
    /// As the mover says.
    pub async fn drain_all(&self, deadline: Duration) -> Result<FlushReport> {
        self.assembled.mover.drain(deadline).await
    }

    /// Ends the mover.
    pub async fn stop(&self) {
        self.assembled.mover.stop().await;
    }

    /// What is dirty now.
    pub fn what_is_left(&self, reason: &str) -> Drained {
        let status = self.assembled.mover.status().unwrap_or_default();
        Drained {
            files_left: status.dirty_files,
            bytes_left: status.dirty_bytes,
            blocked_left: status.blocked.len() as u64,
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            ..Drained::default()
        }
    }

    fn vfs(&self) -> Arc<Vfs> {
        self.assembled.vfs.clone()
    }

    /// Runs what may wait for a tier where it may.
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Vfs, &Caller) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let vfs = self.vfs();
        let caller = Caller { uid: 0, gid: 0, pid: 0, wait: Wait::Allowed };
        tokio::task::spawn_blocking(move || work(&vfs, &caller))
            .await
            .map_err(|error| Error::new(Kind::Interrupted, "the daemon is ending").with_source(error))?
    }

    async fn inodes(&self, paths: &[Vec<u8>]) -> Result<Vec<Ino>> {
        let paths = paths.to_vec();
        self.apart(move |vfs, caller| {
            let ino = |path: &Vec<u8>| -> Result<Ino> {
                let key = Key::parse(path)?;
                vfs.resolve(caller, &key).map_err(|error| error.context(key))
            };
            paths.iter().map(ino).collect()
        })
        .await
    }

    async fn flush_scope(
        &self,
        scope: FlushScope,
        deadline: Option<Duration>,
        progress: &ProgressSink,
    ) -> Result<Drained> {
        let (sender, mut receiver) = watch::channel(mover::Progress::default());
        let sink = progress.clone();
        let mover = self.assembled.mover.clone();
        let forward = tokio::spawn(async move {
            while receiver.changed().await.is_ok() {
                let waiting_for =
                    mover.failing().map(|trouble| format!("{}: {}", trouble.about, trouble.error));
                let now = progress_of(*receiver.borrow_and_update());
                sink.send_replace(Progress { waiting_for, ..now });
            }
        });
        let report = self.assembled.mover.flush_watched(scope, deadline.unwrap_or(FOREVER), sender).await;
        forward.abort();
        Ok(self.drained_of(&report?))
    }

    /// How a flush ended, without what lies outside its scope.
    fn drained_of(&self, report: &FlushReport) -> Drained {
        let mut drained = self.drained(report);
        if !report.complete {
            let progress = report.progress;
            drained.files_left = progress.files_total.saturating_sub(progress.files_done);
            drained.bytes_left = progress.bytes_total.saturating_sub(progress.bytes_home);
        }
        drained
    }
}

fn progress_of(progress: mover::Progress) -> Progress {
    Progress {
        files_done: progress.files_done,
        files_left: progress.files_total.saturating_sub(progress.files_done),
        bytes_done: progress.bytes_done,
        bytes_left: progress.bytes_total.saturating_sub(progress.bytes_done),
        waiting_for: None,
    }
}

#[async_trait]
impl Daemon for Live {
    fn hello(&self) -> Hello {
        Hello {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mountpoint: WirePath::from(self.mountpoint.as_path()),
            phase: *self.phase.lock(),
        }
    }

    async fn status(&self) -> Status {
        status::of(self)
    }

    async fn flush(
        &self,
        paths: &[Vec<u8>],
        deadline: Option<Duration>,
        progress: &ProgressSink,
    ) -> Result<Drained> {
        let scope = self.flush_scope_of(paths).await?;
        self.flush_scope(scope, deadline, progress).await
    }

    async fn pending(&self, paths: &[Vec<u8>]) -> Result<Drained> {
        let scope = self.flush_scope_of(paths).await?;
        Ok(self.drained_of(&self.assembled.mover.pending(scope).await?))
    }

    async fn warm(
        &self,
        paths: &[Vec<u8>],
        deadline: Option<Duration>,
        progress: &ProgressSink,
    ) -> Result<Warmed> {
        let inodes = if paths.is_empty() { vec![Ino::ROOT] } else { self.inodes(paths).await? };
        Ok(Warm::new(self, progress).run(inodes, deadline).await)
    }

    async fn evict(&self, paths: &[Vec<u8>], evict: Evict, progress: &ProgressSink) -> Result<Evicted> {
        let inodes = self.inodes(paths).await?;
        Ok(Eviction::new(self, progress, evict).run(inodes).await)
    }

    async fn pin(&self, paths: &[Vec<u8>], until: Option<Timestamp>) -> Result<Pinned> {
        let inodes = self.inodes(paths).await?;
        self.pin_inodes(inodes, until).await
    }

    async fn unpin(&self, paths: &[Vec<u8>]) -> Result<Pinned> {
        let inodes = self.inodes(paths).await?;
        self.unpin_inodes(inodes).await
    }

    async fn pins(&self, after: u64) -> Result<PinPage> {
        self.pin_page(after)
    }

    async fn drain(&self, deadline: Option<Duration>, progress: &ProgressSink) -> Result<Drained> {
        self.flush_scope(FlushScope::All, Some(deadline.unwrap_or(self.drain_timeout())), progress).await
    }

    async fn unmount(&self) -> Result<()> {
        let point = self.mountpoint.clone();
        self.apart(move |_, _| Ok(detach::detach(&point, Manner::Plain)?)).await
    }

    async fn ended(&self, progress: &ProgressSink) -> Drained {
        let mut ending = self.ending.subscribe();
        loop {
            if let Ending::Drained(drained) = &*ending.borrow_and_update() {
                return drained.clone();
            }
            let left = self.what_is_left("");
            progress.send_replace(Progress {
                files_left: left.files_left,
                bytes_left: left.bytes_left,
                ..Progress::default()
            });
            tokio::select! {
                changed = ending.changed() => if changed.is_err() { return self.what_is_left("") },
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
            }
        }
    }

    async fn native_path(&self, path: &[u8]) -> Result<NativePath> {
        let key = Key::parse(path)?;
        let found = self.apart(move |vfs, caller| vfs.native_path(vfs.resolve(caller, &key)?)).await?;
        Ok(NativePath { tier: found.tier, path: WirePath(found.path) })
    }

    async fn accept_tier(&self, name: &str, file_system: FileSystem) -> Result<TierAccepted> {
        let accepting = Accepting::on(&self.assembled, name)?;
        let alone = self.accepting.clone();
        let work = move |vfs: &Vfs, _: &Caller| {
            let busy = || Error::new(Kind::Busy, "a tier is being accepted already");
            let _alone = alone.try_lock().ok_or_else(busy)?;
            accepting.run(file_system, &mut |losses| {
                vfs.names_lost(&losses.observed);
                Ok(())
            })
        };
        let accepted = self.apart(work).await;
        // Home may show an older version of what is lost, and an accepted tier what others put there.
        self.assembled.vfs.look_again();
        self.usage.forget();
        self.assembled.mover.wake();
        accepted
    }

    async fn lost(&self, after: u64) -> Result<LostPage> {
        accept::lost_page(&self.assembled.catalog, after)
    }

    async fn forget_lost(&self, up_to: u64) -> Result<u64> {
        self.assembled.catalog.forget_lost(up_to)
    }

    async fn queue(&self, query: &QueueQuery) -> Result<QueuePage> {
        self.queue_page(query).await
    }

    async fn plan(&self) -> Result<Plan> {
        self.planned().await
    }

    async fn retry(&self, path: &[u8]) -> Result<Retried> {
        self.retry_at(path).await
    }

    async fn reload(&self) -> Result<Reloaded> {
        tokio::task::block_in_place(|| self.reload_config())
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage> {
        let key = Key::parse(&query.path.0)?;
        let after = match &query.after {
            Some(cookie) => cookie.parse().map_err(|error| {
                Error::new(Kind::Invalid, "`after` is not what an earlier page gave").with_source(error)
            })?,
            None => 0,
        };
        let limit = query.limit as usize;
        self.apart(move |vfs, caller| {
            let ino = vfs.resolve(caller, &key)?;
            let facts = vfs.facts_of(ino)?;
            if facts.attr.kind != FileKind::Directory {
                return Ok(ListPage { rows: vec![row(facts)], next: None });
            }
            let page = vfs.facts_in(caller, ino, after, limit)?;
            let next =
                (page.len() == limit).then(|| page.last().map(|(cookie, _)| cookie.to_string())).flatten();
            Ok(ListPage { rows: page.into_iter().map(|(_, facts)| row(facts)).collect(), next })
        })
        .await
    }
}

impl StatusText for Live {
    fn status_text(&self) -> Vec<u8> {
        status::of(self).to_xattr()
    }
}

fn row(facts: FileFacts) -> Row {
    use crate::catalog::WriteState;
    let held = facts.copies.into_iter().map(|copy| Held {
        tier: copy.tier,
        role: match copy.role {
            CopyRole::Home => Role::Home,
            CopyRole::Stage => Role::Stage,
            CopyRole::Hot => Role::Hot,
        },
    });
    Row {
        path: WirePath(facts.path.as_bytes().to_vec()),
        kind: match facts.attr.kind {
            FileKind::Regular => RowKind::File,
            FileKind::Directory => RowKind::Directory,
            FileKind::Symlink => RowKind::Symlink,
            _ => RowKind::Special,
        },
        size: facts.attr.size,
        mtime_ns: facts.attr.mtime.0,
        state: match facts.state {
            WriteState::Writing | WriteState::ClosedOpen => RowState::Writing,
            WriteState::Closed => RowState::Dirty,
            WriteState::Clean => RowState::Clean,
        },
        held: held.collect(),
        heat: facts.heat,
    }
}
