//! From the config to a served mount, and from its end to the last committed byte.

use super::daemon::{Ending, Live, Place};
use super::exposed::Shown;
use super::memory;
use super::parts::{self, Assembled};
use super::{MountError, MountRequest};
use crate::control::protocol::{Drained, Phase};
use crate::control::server::{self, Server};
use crate::control::web;
use crate::error::{Error, Kind, Result};
use crate::fuse::{Mounted, Notifications, SessionOptions};
use crate::mover::FlushReport;
use crate::vfs::IoMode;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Threads that may wait for slow tiers and disks.
const WAITING_THREADS: usize = 512;
/// How often it is looked whether a rule wants what stays open uploaded.
const LOOK_AT_RULES: Duration = Duration::from_secs(5);
/// Threads that take the kernel's requests, at least: one that waits for a disk must not hold up all.
const SERVING_THREADS: usize = 4;

/// Mounts, serves until unmounted or told to end by SIGTERM or SIGINT, drains, and answers.
///
/// # Errors
/// [`MountError`].
pub fn run(request: MountRequest) -> std::result::Result<(), MountError> {
    // Modes are what programs ask for, through the kernel's own masking.
    rustix::process::umask(rustix::fs::Mode::empty());
    raise_file_limit();
    let runtime = runtime().map_err(MountError::Start)?;
    let ended = serve(&runtime, request);
    // Whatever still hangs on a sick tier must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

fn serve(runtime: &Runtime, mut request: MountRequest) -> std::result::Result<(), MountError> {
    // From here on it does not end the process.
    let hangups = runtime
        .block_on(async { signal(SignalKind::hangup()) })
        .map_err(|error| MountError::Start(error.into()))?;
    let control = request.config.mount.control.clone();
    let mountpoint = request.mountpoint.clone();
    let (notifications, invalidations) = Notifications::new();
    let assembled =
        runtime.block_on(parts::assemble(&mut request, notifications)).map_err(MountError::Start)?;
    let options = session_options(&request);
    let bound = server::bind(&control).map_err(MountError::Start)?;
    let shown = request.config.mount.metrics.map(web::bind).transpose().map_err(MountError::Start)?;
    let address = shown.as_ref().map(web::Bound::address);
    let mounted =
        Mounted::new(assembled.vfs.clone(), runtime.handle().clone(), &mountpoint, &options, invalidations)
            .map_err(|error| MountError::Start(mount_failure(error, &mountpoint)))?;
    let mode = mode_text(&assembled);
    let place = Place { mountpoint: request.mountpoint, config_path: request.config_path };
    let live = Arc::new(Live::new(assembled, place, Arc::new(request.config), mode.clone(), address));
    let server = bound.serve(runtime.handle(), live.clone()).map_err(MountError::Start)?;
    let web = shown.map(|shown| shown.serve(runtime.handle(), Arc::new(Shown(live.clone())))).transpose();
    // Answers until the drain is over.
    let _web = web.map_err(MountError::Start)?;
    let session = session_thread(mounted).map_err(MountError::Start)?;
    live.enter(Phase::Serving);
    upload_open(runtime.handle(), &live);
    runtime.spawn(reload_on(hangups, live.clone()));
    runtime.spawn(live.clone().follow_settled_rules());
    runtime.spawn(live.clone().keep_pins_warm());
    runtime.spawn(memory::give_back());
    (request.on_ready)(&mode);
    runtime.block_on(until_the_end(live, server, session, request.on_end))
}

/// Brings home now and then what stays open, where a rule wants that.
fn upload_open(runtime: &tokio::runtime::Handle, live: &Live) {
    let vfs = live.assembled.vfs.clone();
    runtime.spawn(async move {
        loop {
            // Rules may come to want it.
            let every = vfs.open_upload_every();
            tokio::time::sleep(every.unwrap_or(LOOK_AT_RULES)).await;
            if every.is_none() {
                continue;
            }
            let vfs = vfs.clone();
            // It ends with the daemon.
            if tokio::task::spawn_blocking(move || vfs.upload_open()).await.is_err() {
                return;
            }
        }
    });
}

/// SIGHUP reads the config again; what comes of it is in the log.
async fn reload_on(mut hangups: Signal, live: Arc<Live>) {
    while hangups.recv().await.is_some() {
        if let Err(error) = tokio::task::block_in_place(|| live.reload_config()) {
            tracing::error!(%error, "the config was not reloaded: what was in force stays");
        }
    }
}

/// Serves the kernel on a thread of its own; answers when it is unmounted.
fn session_thread(mounted: Mounted) -> Result<oneshot::Receiver<std::io::Result<()>>> {
    let (ended, end) = oneshot::channel();
    std::thread::Builder::new().name("session".into()).spawn(move || {
        // Nobody listens any more if a second signal ended the process first.
        let _ = ended.send(mounted.serve());
    })?;
    Ok(end)
}

async fn until_the_end(
    live: Arc<Live>,
    server: Server,
    mut session: oneshot::Receiver<std::io::Result<()>>,
    on_end: Box<dyn FnOnce(Duration) + Send>,
) -> std::result::Result<(), MountError> {
    let mut signals = Signals::new().map_err(MountError::Start)?;
    let mut broken = None;
    tokio::select! {
        ended = &mut session => broken = session_failure(ended),
        () = signals.next() => {
            tracing::info!("asked to end: unmounting, then committing what is left");
            live.detach();
        }
    }
    live.enter(Phase::Draining);
    on_end(live.drain_timeout());
    let drained = tokio::select! {
        drained = drain(&live, live.drain_timeout()) => drained,
        () = signals.next() => live.what_is_left("told to end at once"),
    };
    live.end(Ending::Drained(drained.clone()));
    // A mount that is asked for meanwhile finds somebody to wait for as long as anything is written here.
    live.stop().await;
    server.close().await;
    match broken {
        Some(error) => Err(MountError::Broken(error)),
        None if drained.is_clean() => Ok(()),
        None => {
            tracing::error!(
                files = drained.files_left,
                bytes = drained.bytes_left,
                "ended with dirty files; they are kept"
            );
            Err(MountError::Undrained(drained))
        }
    }
}

fn session_failure(
    ended: std::result::Result<std::io::Result<()>, oneshot::error::RecvError>,
) -> Option<Error> {
    match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(Error::from(error).context("the FUSE session broke")),
        Err(error) => Some(Error::new(Kind::Corrupt, "the FUSE session ended by itself").with_source(error)),
    }
}

async fn drain(live: &Live, deadline: Duration) -> Drained {
    match live.drain_all(deadline).await {
        Ok(report) => live.drained(&report),
        Err(error) => live.what_is_left(&error.to_string()),
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

fn runtime() -> Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZeroUsize::get);
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(2, 8))
        .max_blocking_threads(WAITING_THREADS)
        .thread_name("tierfs")
        .enable_all()
        .build();
    Ok(built?)
}

/// As many open files as the hard limit allows: every open file of a program is one here too.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays");
    }
}

fn session_options(request: &MountRequest) -> SessionOptions {
    let options = &request.options;
    let kernel = &options.kernel;
    let words = [
        (kernel.dev, "dev", "nodev"),
        (kernel.suid, "suid", "nosuid"),
        (kernel.exec, "exec", "noexec"),
        (kernel.atime, "atime", "noatime"),
    ];
    let others = words.into_iter().filter_map(|(set, yes, no)| set.map(|set| if set { yes } else { no }));
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZeroUsize::get);
    SessionOptions {
        allow_other: options.allow_other,
        read_only: options.read_only,
        source: options.fsname.clone().unwrap_or_else(|| request.config_path.to_string_lossy().into_owned()),
        others: others.map(str::to_owned).collect(),
        threads: cores.clamp(SERVING_THREADS, 16),
    }
}

fn mode_text(assembled: &Assembled) -> String {
    match assembled.vfs.io_mode() {
        IoMode::Passthrough => "passthrough: the kernel reads and writes resident files itself".to_owned(),
        IoMode::Ordinary => format!("ordinary mode: {}", assembled.mode_reason),
    }
}

fn mount_failure(error: std::io::Error, mountpoint: &Path) -> Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "; run as root, or install fuse3 (fusermount3), and use allow_other only if /etc/fuse.conf has user_allow_other"
        }
        Some(libc::ENOENT | libc::ENODEV) => {
            "; is /dev/fuse there? (modprobe fuse; in a container --device /dev/fuse)"
        }
        _ => "",
    };
    Error::new(Kind::Denied, format!("can't mount {}: {error}{hint}", mountpoint.display()))
}

impl Live {
    /// How a drain ended, in the words of the control protocol.
    pub(super) fn drained(&self, report: &FlushReport) -> Drained {
        let mut drained = self.what_is_left("");
        drained.files_done = report.progress.files_done;
        drained.bytes_done = report.progress.bytes_done;
        drained.open_left = report.open.len() as u64;
        drained.blocked_left = report.blocked.len() as u64;
        drained.timed_out = report.timed_out;
        drained.reason = match report.blocked.first() {
            Some(trouble) => Some(format!("{}: {}", trouble.about, trouble.error)),
            None if report.timed_out => Some("the time is over".to_owned()),
            None => None,
        };
        if report.complete {
            (drained.files_left, drained.bytes_left) = (0, 0);
        }
        drained
    }
}
