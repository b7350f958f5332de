use super::*;
use crate::control::ProgressSink;
use crate::control::client::{Client, ClientError};
use crate::control::protocol::*;
use crate::control::status::Status;
use crate::error::{Error, Kind};
use crate::types::Timestamp;
use crate::vfs::Evict;
use async_trait::async_trait;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tempfile::TempDir;

/// Flushes `steps` files, each only after somebody gave a permit: who saw the one before.
struct Fake {
    steps: u64,
    seen: Arc<Semaphore>,
}

#[async_trait]
impl Daemon for Fake {
    fn hello(&self) -> Hello {
        Hello { pid: 42, version: "0".into(), mountpoint: WirePath(b"/m".to_vec()), phase: Phase::Serving }
    }

    async fn status(&self) -> Status {
        serde_json::from_value(serde_json::json!({
            "schema": 1, "mountpoint": "/m", "config": "/c", "pid": 42, "version": "0", "phase": "serving",
            "mode": "passthrough", "mode_reason": "possible", "uptime_s": 1, "tiers": [],
            "dirty": {"files": 0, "bytes": 0}, "queue": {"length": 0}
        }))
        .unwrap()
    }

    async fn flush(
        &self,
        paths: &[Vec<u8>],
        _deadline: Option<Duration>,
        progress: &ProgressSink,
    ) -> Result<Drained> {
        for done in 1..=self.steps {
            progress.send_modify(|now| now.files_done = done);
            self.seen.acquire().await.unwrap().forget();
        }
        Ok(Drained { files_done: self.steps, files_left: paths.len() as u64, ..Drained::default() })
    }

    async fn warm(
        &self,
        _paths: &[Vec<u8>],
        _deadline: Option<Duration>,
        _progress: &ProgressSink,
    ) -> Result<Warmed> {
        Ok(Warmed::default())
    }

    async fn pending(&self, paths: &[Vec<u8>]) -> Result<Drained> {
        Ok(Drained { files_left: paths.len() as u64, ..Drained::default() })
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

    async fn drain(&self, deadline: Option<Duration>, _progress: &ProgressSink) -> Result<Drained> {
        assert_eq!(deadline, Some(Duration::from_millis(1500)));
        Ok(Drained::default())
    }

    async fn unmount(&self) -> Result<()> {
        Err(Error::new(Kind::Busy, "files are open"))
    }

    async fn ended(&self, _progress: &ProgressSink) -> Drained {
        std::future::pending().await
    }

    async fn native_path(&self, path: &[u8]) -> Result<NativePath> {
        match path {
            b"a" => Ok(NativePath { tier: "scratch".into(), path: WirePath(b"/s/a".to_vec()) }),
            _ => Err(Error::new(Kind::NoAttribute, "only on blob")),
        }
    }

    async fn reload(&self) -> Result<Reloaded> {
        Ok(Reloaded::default())
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage> {
        assert_eq!(query.limit, PAGE_MAX);
        Ok(ListPage { rows: vec![], next: Some("more".into()) })
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
        assert_eq!(query.limit, PAGE_MAX);
        Ok(QueuePage { rows: vec![], next: Some(query.after + 1) })
    }

    async fn retry(&self, path: &[u8]) -> Result<Retried> {
        Err(Error::new(Kind::NotFound, format!("{} is not in the queue", String::from_utf8_lossy(path))))
    }
}

struct Rig {
    runtime: tokio::runtime::Runtime,
    server: Option<Server>,
    seen: Arc<Semaphore>,
    path: PathBuf,
    _dir: TempDir,
}

impl Rig {
    fn new(steps: u64) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("run/x.sock");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let seen = Arc::new(Semaphore::new(0));
        let fake = Arc::new(Fake { steps, seen: Arc::clone(&seen) });
        let server = bind(&path).unwrap().serve(runtime.handle(), fake).unwrap();
        Self { runtime, server: Some(server), seen, path, _dir: dir }
    }

    fn client(&self) -> Client {
        Client::connect(&self.path).unwrap()
    }

    fn raw(&self, lines: &[u8]) -> Answer {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.write_all(lines).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn close(&mut self) {
        self.runtime.block_on(self.server.take().unwrap().close());
    }
}

fn code(answer: &Answer) -> ErrorCode {
    match &answer.body {
        AnswerBody::Error(error) => error.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_are_answered_one_after_another() {
    let rig = Rig::new(0);
    let mut client = rig.client();
    assert_eq!(client.hello().unwrap().pid, 42);
    assert_eq!(client.status().unwrap().pid, 42);
    assert!(client.drain(Some(Duration::from_millis(1500)), &mut |_| {}).unwrap().is_clean());
    assert_eq!(client.pending(vec![WirePath(b"a".to_vec())]).unwrap().files_left, 1);
    assert_eq!(client.native_path(WirePath(b"a".to_vec())).unwrap().tier, "scratch");
    let query = ListQuery { path: WirePath::default(), after: None, limit: u32::MAX };
    assert_eq!(client.list(query).unwrap().next.as_deref(), Some("more"));
    assert_eq!(client.queue(QueueQuery { after: 6, limit: u32::MAX }).unwrap().next, Some(7));
    let refused = client.retry(WirePath(b"a".to_vec())).unwrap_err();
    assert_eq!(
        (refused.code(), &refused.to_string()[..]),
        (Some(ErrorCode::NotFound), "a is not in the queue")
    );
}

#[test]
fn errors_keep_their_code() {
    let rig = Rig::new(0);
    let mut client = rig.client();
    assert_eq!(client.native_path(WirePath(b"b".to_vec())).unwrap_err().code(), Some(ErrorCode::NotResident));
    assert_eq!(client.unmount().unwrap_err().code(), Some(ErrorCode::Busy));
    assert_eq!(client.hello().unwrap().pid, 42, "the connection goes on");
}

#[test]
fn progress_is_streamed() {
    let rig = Rig::new(2);
    let mut said = Vec::new();
    let done = rig
        .client()
        .flush(vec![WirePath(b"a".to_vec())], None, &mut |progress| {
            if said.last() != Some(&progress.files_done) && progress.files_done > 0 {
                said.push(progress.files_done);
                rig.seen.add_permits(1);
            }
        })
        .unwrap();
    assert_eq!((done.files_done, done.files_left), (2, 1));
    assert_eq!(said, [1, 2]);
}

#[test]
fn nonsense_gets_an_answer() {
    let rig = Rig::new(0);
    assert_eq!(code(&rig.raw(b"hello\n")), ErrorCode::Invalid);
    let future = rig.raw(
        br#"{"v":9,"id":5,"call":"hello"}
"#,
    );
    assert_eq!((future.id, code(&future)), (5, ErrorCode::Invalid));
    let unknown = rig.raw(
        br#"{"v":1,"id":6,"call":"dance"}
"#,
    );
    assert_eq!((unknown.id, code(&unknown)), (6, ErrorCode::UnknownCall));
    let outside = rig.raw(
        br#"{"v":1,"id":7,"call":"path","path":"../etc"}
"#,
    );
    assert_eq!((outside.id, code(&outside)), (7, ErrorCode::Invalid));
    assert_eq!(code(&rig.raw(&vec![b' '; REQUEST_MAX + 1])), ErrorCode::Invalid);
}

#[test]
fn every_call_is_known_by_name() {
    let calls = [
        Call::Hello,
        Call::Status,
        Call::Flush { paths: vec![], timeout_ms: None },
        Call::Pending { paths: vec![] },
        Call::Warm { paths: vec![], timeout_ms: None },
        Call::Evict { paths: vec![], check: false },
        Call::Pin { paths: vec![], until_ns: None },
        Call::Unpin { paths: vec![] },
        Call::Pins { after: 0 },
        Call::Drain { timeout_ms: None },
        Call::Unmount,
        Call::Ended,
        Call::Path { path: WirePath::default() },
        Call::Reload,
        Call::List(ListQuery { path: WirePath::default(), after: None, limit: 1 }),
        Call::AcceptTier { name: String::new(), file_system: FileSystem::Any },
        Call::Lost { after: 0 },
        Call::ForgetLost { up_to: 0 },
        Call::Queue(QueueQuery::default()),
        Call::Plan,
        Call::Retry { path: WirePath::default() },
    ];
    let names: Vec<String> = calls
        .iter()
        .map(|call| serde_json::to_value(call).unwrap()["call"].as_str().unwrap().into())
        .collect();
    assert_eq!(names, Call::NAMES);
}

#[test]
fn a_crowd_is_turned_away() {
    let rig = Rig::new(0);
    let mut inside: Vec<Client> = (0..CONNECTIONS_MAX).map(|_| rig.client()).collect();
    for client in &mut inside {
        client.hello().unwrap();
    }
    assert_eq!(rig.client().hello().unwrap_err().code(), Some(ErrorCode::Limit));
}

#[test]
fn the_socket_is_private_and_goes_with_its_server() {
    let mut rig = Rig::new(0);
    let mode = std::fs::metadata(&rig.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = rig.client();
    let hello = client.hello().unwrap();
    rig.close();
    assert!(!rig.path.exists());
    assert!(client.gone(&hello, Duration::from_secs(5)));
    assert!(matches!(Client::connect(&rig.path), Err(ClientError::Nobody(_))));
}

#[test]
fn a_living_daemon_keeps_its_socket() {
    let rig = Rig::new(0);
    assert_eq!(bind(&rig.path).unwrap_err().kind(), Kind::Busy);
    assert_eq!(rig.client().hello().unwrap().pid, 42);
}

#[test]
fn a_dead_socket_is_replaced_and_a_file_is_not() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(bind(&path).unwrap());
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(bind(&path).unwrap_err().kind(), Kind::Exists);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_successors_socket_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.sock");
    let first = bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = bind(&path).unwrap();
    drop(first);
    assert!(path.exists());
}

#[test]
fn a_path_no_socket_can_have_is_refused() {
    let dir = TempDir::new().unwrap();
    assert_eq!(bind(&dir.path().join("x".repeat(120))).unwrap_err().kind(), Kind::NameTooLong);
}
