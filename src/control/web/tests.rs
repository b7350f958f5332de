use super::*;
use crate::control::exposition::Sums;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A mount that has lost a file, or not.
struct Fake {
    lost: u64,
    asked: AtomicUsize,
}

#[async_trait]
impl Exposed for Fake {
    fn phase(&self) -> Phase {
        Phase::Draining
    }

    async fn facts(&self) -> Facts {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let status = serde_json::from_value(serde_json::json!({
            "schema": 1, "mountpoint": "/m", "config": "/c", "pid": 1, "version": "0", "phase": "draining",
            "mode": "ordinary", "mode_reason": "asked", "uptime_s": 1, "tiers": [], "lost": self.lost,
            "dirty": {"files": 0, "bytes": 7}, "queue": {"length": 0}
        }));
        Facts { status: status.unwrap(), calls: Vec::new(), sums: Sums::default(), blocked_domains: 0 }
    }
}

struct Rig {
    runtime: tokio::runtime::Runtime,
    fake: Arc<Fake>,
    address: SocketAddr,
    _web: Web,
}

impl Rig {
    fn new(lost: u64) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bound = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = bound.address();
        let fake = Arc::new(Fake { lost, asked: AtomicUsize::new(0) });
        let web = bound.serve(runtime.handle(), fake.clone()).unwrap();
        Self { runtime, fake, address, _web: web }
    }

    /// All that comes back for these bytes.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = std::net::TcpStream::connect(self.address).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
    }
}

#[test]
fn each_path_has_its_answer() {
    let rig = Rig::new(0);
    let metrics = rig.get("/metrics?debug=1");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.contains("\ntierfs_dirty_bytes 7\n"), "{metrics}");
    let healthy = rig.get("/healthz");
    assert!(healthy.starts_with("HTTP/1.1 200 ") && healthy.ends_with("\r\n\r\nfine\n"), "{healthy}");
    assert!(rig.get("/livez").ends_with("\r\n\r\ndraining\n"));
    assert!(rig.get("/").starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_person_that_is_needed_is_a_503_and_no_reason_to_end_the_daemon() {
    let rig = Rig::new(2);
    let said = rig.get("/healthz");
    assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("\nnow  2 files lost"), "{said}");
    assert!(rig.get("/livez").starts_with("HTTP/1.1 200 "));
}

#[test]
fn strange_requests_are_refused_and_end() {
    let rig = Rig::new(0);
    assert!(rig.raw(b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(rig.raw(b"HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    assert!(rig.raw(b"no http at all\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(2 * HEAD_MAX));
    assert!(!rig.raw(long.as_bytes()).contains(" 200 "));
    assert!(rig.get("/livez").contains(" 200 "), "it goes on");
}

#[test]
fn facts_are_gathered_for_a_small_share_of_the_time() {
    let rig = Rig::new(0);
    let slow = Answers { mount: rig.fake.clone(), known: Mutex::new(None) };
    rig.runtime.block_on(async {
        slow.facts().await;
        slow.known.lock().await.as_mut().unwrap().good_until += Duration::from_secs(60);
        slow.facts().await;
        assert_eq!(rig.fake.asked.load(Ordering::Relaxed), 1);
        slow.known.lock().await.as_mut().unwrap().good_until = Instant::now();
        slow.facts().await;
        assert_eq!(rig.fake.asked.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn an_address_that_is_taken_is_named_with_a_way_out() {
    let rig = Rig::new(0);
    let said = bind(rig.address).unwrap_err().to_string();
    assert!(said.contains(&rig.address.to_string()) && said.contains("another `metrics`"), "{said}");
}
