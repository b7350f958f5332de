//! A fake mount: a FUSE file system with one file that answers the control attributes, and a
//! control server over a scripted daemon.

use async_trait::async_trait;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, MountOption, ReplyAttr,
    ReplyDirectory, ReplyEntry, ReplyXattr, Request, Session, SessionACL,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;
use tierfs::control::protocol::{
    Drained, Evicted, FileSystem, Held, Hello, ListPage, ListQuery, LostPage, NativePath, Phase, PinPage,
    Pinned, Plan, QueuePage, QueueQuery, QueueRow, Reloaded, Retried, Role, Row, RowKind, RowState,
    TierAccepted, Warmed, WirePath,
};
use tierfs::control::server::{self, Server};
use tierfs::control::status::Status;
use tierfs::control::{Daemon, ProgressSink};
use tierfs::error::{Error, Kind, Result};
use tierfs::types::Timestamp;
use tierfs::vfs::Evict;
use tokio::sync::watch;

const TTL: Duration = Duration::ZERO;
const FILE: INodeNo = INodeNo(2);

/// No process has it: the test's own, which serves the fake, outlives the fake.
pub const PID: u32 = 4_194_305;

/// What the fake daemon answers.
pub struct Script {
    pub schema: u32,
    pub phase: Phase,
    pub drained: Drained,
    pub warmed: Warmed,
    pub queue: Vec<QueueRow>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            schema: tierfs::control::status::SCHEMA,
            phase: Phase::Serving,
            drained: Drained::default(),
            warmed: Warmed::default(),
            queue: Vec::new(),
        }
    }
}

/// The daemon half.
pub struct FakeDaemon {
    mountpoint: PathBuf,
    pub script: Mutex<Script>,
    pub flushed: Mutex<Vec<String>>,
    ended: watch::Receiver<bool>,
}

#[async_trait]
impl Daemon for FakeDaemon {
    fn hello(&self) -> Hello {
        Hello {
            pid: PID,
            version: "fake".into(),
            mountpoint: WirePath::from(self.mountpoint.as_path()),
            phase: self.script.lock().phase,
        }
    }

    async fn status(&self) -> Status {
        Status { schema: self.script.lock().schema, ..status(&self.mountpoint) }
    }

    async fn flush(&self, paths: &[Vec<u8>], _: Option<Duration>, _: &ProgressSink) -> Result<Drained> {
        if let Some(gone) = paths.iter().find(|path| path.as_slice() == b"nothing") {
            return Err(Error::new(Kind::NotFound, String::from_utf8_lossy(gone).into_owned()));
        }
        self.flushed.lock().extend(paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()));
        Ok(self.script.lock().drained.clone())
    }

    async fn pending(&self, _: &[Vec<u8>]) -> Result<Drained> {
        Ok(self.script.lock().drained.clone())
    }

    async fn warm(&self, paths: &[Vec<u8>], _: Option<Duration>, _: &ProgressSink) -> Result<Warmed> {
        self.flushed.lock().extend(paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()));
        Ok(self.script.lock().warmed.clone())
    }

    async fn evict(&self, _: &[Vec<u8>], _: Evict, _: &ProgressSink) -> Result<Evicted> {
        Ok(Evicted::default())
    }

    async fn pin(&self, _: &[Vec<u8>], _: Option<Timestamp>) -> Result<Pinned> {
        Ok(Pinned::default())
    }

    async fn unpin(&self, paths: &[Vec<u8>]) -> Result<Pinned> {
        Ok(Pinned { pins: paths.len() as u64, ..Pinned::default() })
    }

    async fn pins(&self, _: u64) -> Result<PinPage> {
        Ok(PinPage::default())
    }

    async fn drain(&self, _: Option<Duration>, _: &ProgressSink) -> Result<Drained> {
        Ok(self.script.lock().drained.clone())
    }

    async fn unmount(&self) -> Result<()> {
        Err(Error::new(Kind::Busy, "not by me"))
    }

    async fn ended(&self, _: &ProgressSink) -> Drained {
        let ended = self.ended.clone().wait_for(|ended| *ended).await.map(drop);
        assert!(ended.is_ok(), "the fake ends before its mount");
        self.script.lock().drained.clone()
    }

    async fn native_path(&self, _: &[u8]) -> Result<NativePath> {
        Err(Error::new(Kind::NoAttribute, "only on blob"))
    }

    async fn reload(&self) -> Result<Reloaded> {
        Err(Error::new(Kind::Invalid, "c.toml:3: no such key"))
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage> {
        match query.path.0.as_slice() {
            b"" | b"file" => Ok(ListPage { rows: vec![row()], next: None }),
            _ => Err(Error::new(Kind::NotFound, "no such file")),
        }
    }

    async fn accept_tier(&self, name: &str, _: FileSystem) -> Result<TierAccepted> {
        Err(Error::new(Kind::Invalid, format!("tier {name} is there")))
    }

    async fn lost(&self, _: u64) -> Result<LostPage> {
        Ok(LostPage::default())
    }

    async fn forget_lost(&self, _: u64) -> Result<u64> {
        Ok(0)
    }

    async fn plan(&self) -> Result<Plan> {
        Ok(Plan { steps: 3, ..Plan::default() })
    }

    async fn queue(&self, query: &QueueQuery) -> Result<QueuePage> {
        let last = self.script.lock().queue.len() as u64;
        let end = last.min(query.after + 2);
        let rows = self.script.lock().queue[query.after as usize..end as usize].to_vec();
        Ok(QueuePage { rows, next: (end < last).then_some(end) })
    }

    async fn retry(&self, path: &[u8]) -> Result<Retried> {
        match path {
            b"file" => Ok(Retried { steps: 1, others: 0 }),
            b"" => Ok(Retried { steps: 0, others: 2 }),
            _ => Err(Error::new(Kind::NotFound, "not in the queue")),
        }
    }
}

fn row() -> Row {
    let held = vec![
        Held { tier: "blob".into(), role: Role::Home },
        Held { tier: "scratch".into(), role: Role::Hot },
    ];
    Row {
        path: WirePath(b"file".to_vec()),
        kind: RowKind::File,
        size: 5,
        mtime_ns: 0,
        state: RowState::Clean,
        held,
        heat: Some(2.5),
    }
}

fn status(mountpoint: &Path) -> Status {
    serde_json::from_value(serde_json::json!({
        "schema": 1, "mountpoint": mountpoint, "config": "/x.toml", "pid": 1, "version": "fake",
        "phase": "serving", "mode": "ordinary", "mode_reason": "a fake", "uptime_s": 1,
        "attention": ["the fake needs a person"],
        "tiers": [
            {"name": "scratch", "kind": "local", "location": "/s", "state": "ok"},
            {"name": "blob", "kind": "blob", "location": "https://b", "state": "ok"}
        ],
        "dirty": {"files": 0, "bytes": 0}, "queue": {"length": 0}
    }))
    .expect("a status")
}

/// By inode and name.
type Attributes = Arc<Mutex<HashMap<(u64, &'static str), Vec<u8>>>>;

/// The kernel half.
struct FakeFiles {
    attributes: Attributes,
}

impl FakeFiles {
    fn attr(ino: INodeNo) -> FileAttr {
        let (kind, perm) =
            if ino == FILE { (FileType::RegularFile, 0o644) } else { (FileType::Directory, 0o755) };
        FileAttr {
            ino,
            size: 5,
            blocks: 1,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for FakeFiles {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "file" {
            reply.entry(&TTL, &Self::attr(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &Self::attr(ino));
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let full = offset > 0 || reply.add(FILE, 1, FileType::RegularFile, "file");
        assert!(offset > 0 || !full, "one entry fits");
        reply.ok();
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let attributes = self.attributes.lock();
        let found = attributes.iter().find(|((of, known), _)| *of == ino.0 && name == OsStr::new(known));
        match found {
            None => reply.error(Errno::ENODATA),
            Some((_, value)) if size == 0 => reply.size(u32::try_from(value.len()).expect("short")),
            Some((_, value)) => reply.data(value),
        }
    }
}

/// Whether the fake has a control socket in sight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    InSight,
    OutOfSight,
}

/// A mounted fake; what still stands is taken away when dropped.
pub struct FakeMount {
    dir: TempDir,
    pub daemon: Arc<FakeDaemon>,
    attributes: Attributes,
    runtime: tokio::runtime::Runtime,
    server: Option<Server>,
    session: Option<std::thread::JoinHandle<()>>,
    ended: watch::Receiver<bool>,
}

impl FakeMount {
    pub fn new(socket: Socket) -> Self {
        Self::with(socket, SessionACL::default())
    }

    /// One that every user may enter, with a socket that only its owner may use.
    pub fn open_to_others() -> Self {
        let mount = Self::with(Socket::InSight, SessionACL::All);
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(mount.dir.path(), all).expect("chmod");
        mount
    }

    /// From now on the attributes of the mount tell what the script says, as its daemon does.
    pub fn set_status(&self) {
        let status = Status { schema: self.daemon.script.lock().schema, ..status(&self.path("mnt")) };
        let json = serde_json::to_vec(&status).expect("JSON");
        self.attributes.lock().insert((1, "user.tierfs.status"), json);
    }

    fn with(socket: Socket, acl: SessionACL) -> Self {
        let dir = TempDir::new().expect("a directory");
        let mountpoint = dir.path().join("mnt");
        std::fs::create_dir(&mountpoint).expect("a mount point");
        let path = dir.path().join("control.sock");
        let files = files(&mountpoint, &path);
        let attributes = files.attributes.clone();
        let session = Session::new(files, &mountpoint, &config(acl)).expect("a FUSE mount");
        let (end, ended) = watch::channel(false);
        let session = std::thread::spawn(move || {
            session.run().expect("the session");
            end.send_replace(true);
        });
        let daemon = Arc::new(FakeDaemon {
            mountpoint,
            script: Mutex::default(),
            flushed: Mutex::default(),
            ended: ended.clone(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let server = (socket == Socket::InSight).then(|| {
            server::bind(&path)
                .and_then(|bound| bound.serve(runtime.handle(), daemon.clone()))
                .expect("a server")
        });
        Self { dir, daemon, attributes, runtime, server, session: Some(session), ended }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn is_mounted(&self) -> bool {
        !*self.ended.borrow()
    }

    /// Ends the daemon when its mount is gone, as a real one does, and meanwhile runs `during`.
    pub fn until_the_end<T>(&mut self, during: impl FnOnce() -> T + Send) -> T
    where
        T: Send,
    {
        let server = self.server.take().expect("a server");
        let mut ended = self.ended.clone();
        let ending = self.runtime.spawn(async move {
            ended.wait_for(|ended| *ended).await.map(drop).expect("the session's end");
            server.close().await;
        });
        let told = during();
        if *self.ended.borrow() {
            self.runtime.block_on(ending).expect("the server's end");
        }
        told
    }
}

impl Drop for FakeMount {
    fn drop(&mut self) {
        detach(&self.path("mnt"));
        if let Some(session) = self.session.take() {
            assert!(session.join().is_ok() || std::thread::panicking(), "the session panicked");
        }
    }
}

fn detach(point: &Path) {
    use rustix::mount::{UnmountFlags, unmount};
    // An error means that nothing is mounted any more.
    let _gone = unmount(point, UnmountFlags::DETACH);
}

fn files(mountpoint: &Path, socket: &Path) -> FakeFiles {
    let json = serde_json::to_vec(&status(mountpoint)).expect("JSON");
    let socket = socket.as_os_str().as_bytes().to_vec();
    let attributes = HashMap::from([
        ((1, "user.tierfs.control"), socket),
        ((1, "user.tierfs.status"), json),
        ((FILE.0, "user.tierfs.path"), b"/native/file".to_vec()),
        ((FILE.0, "user.tierfs.replicas"), b"blob,scratch".to_vec()),
        ((FILE.0, "user.tierfs.state"), b"clean".to_vec()),
        ((FILE.0, "user.tierfs.heat"), b"2.50".to_vec()),
    ]);
    FakeFiles { attributes: Arc::new(Mutex::new(attributes)) }
}

fn config(acl: SessionACL) -> Config {
    let mut config = Config::default();
    config.acl = acl;
    // As root fuser mounts by itself and drops `Subtype`; the kernel takes it as an option of its own.
    config.mount_options =
        vec![MountOption::FSName("fake".into()), MountOption::CUSTOM("subtype=tierfs".into())];
    config
}

/// A mount of ours whose daemon is gone.
pub struct DeadMount {
    dir: TempDir,
}

impl DeadMount {
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        std::fs::create_dir(dir.path().join("mnt")).expect("a mount point");
        let dead = Self { dir };
        dead.die();
        dead
    }

    /// Mounts with a device that is closed at once.
    fn die(&self) {
        use rustix::mount::{MountFlags, mount};
        use std::os::fd::AsRawFd;
        let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").expect("/dev/fuse");
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let data = std::ffi::CString::new(data).expect("no NUL");
        mount("dead", self.point(), "fuse.tierfs", MountFlags::empty(), Some(data.as_c_str()))
            .expect("a mount");
    }

    pub fn point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        detach(&self.point());
    }
}
