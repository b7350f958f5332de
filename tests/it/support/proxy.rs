//! A TCP proxy in front of a Blob service that writes down every HTTP request, and can hold the answers back.

use super::wait::PATIENCE;
use parking_lot::{Condvar, Mutex};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// One request as it passed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `PUT`, …
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
}

#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    arrived: Condvar,
    answer_bytes: AtomicU64,
    held: Mutex<bool>,
    released: Condvar,
    cut: AtomicBool,
    stopping: AtomicBool,
}

/// The proxy; it ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    path: String,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Stands in front of `service`, like `http://127.0.0.1:10000/account`.
    pub fn before(service: &str) -> Self {
        let rest = service.strip_prefix("http://").expect("a plain http address");
        let (upstream, path) = rest.split_once('/').unwrap_or((rest, ""));
        let upstream = upstream.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let for_accept = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &upstream, &for_accept));
        Self { address, path: path.to_owned(), shared }
    }

    /// The service's address by way of this proxy.
    pub fn service(&self) -> String {
        format!("http://{}/{}", self.address, self.path)
    }

    /// All requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().clone()
    }

    /// How many requests so far were `method` and had `part` in their target.
    pub fn count(&self, method: &str, part: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.method == method && request.target.contains(part))
            .count()
    }

    /// Something to wait with for requests, on any thread.
    pub fn requests_watch(&self) -> RequestsWatch {
        RequestsWatch(Arc::clone(&self.shared))
    }

    /// Bytes answered so far, heads included.
    pub fn answer_bytes(&self) -> u64 {
        self.shared.answer_bytes.load(Ordering::Relaxed)
    }

    /// Forgets what passed by.
    pub fn clear(&self) {
        self.shared.requests.lock().clear();
        self.shared.answer_bytes.store(0, Ordering::Relaxed);
    }

    /// From now on no answer gets through: the service hangs.
    pub fn hold(&self) {
        *self.shared.held.lock() = true;
    }

    /// From now on every connection breaks: the service is unreachable.
    pub fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
    }

    /// Connections work again.
    pub fn mend(&self) {
        self.shared.cut.store(false, Ordering::SeqCst);
    }

    /// Lets the answers through again, those held back too.
    pub fn release(&self) {
        *self.shared.held.lock() = false;
        self.shared.released.notify_all();
    }
}

/// Waits for requests to pass by.
#[derive(Clone, Debug)]
pub struct RequestsWatch(Arc<Shared>);

impl RequestsWatch {
    /// Returns when at least `count` requests have passed by.
    pub fn wait_for(&self, count: usize) {
        let mut requests = self.0.requests.lock();
        let in_vain =
            self.0.arrived.wait_while_for(&mut requests, |seen| seen.len() < count, PATIENCE).timed_out();
        assert!(!in_vain, "{count} requests expected, seen: {requests:?}");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.release();
        // Wakes the accepting thread so that it sees the flag.
        drop(TcpStream::connect(self.address));
    }
}

fn accept(listener: &TcpListener, upstream: &str, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let (Ok(client), Ok(server)) = (client, TcpStream::connect(upstream)) else { continue };
        let (Ok(client_answers), Ok(server_answers)) = (client.try_clone(), server.try_clone()) else {
            continue;
        };
        let (for_requests, for_answers) = (Arc::clone(shared), Arc::clone(shared));
        thread::spawn(move || {
            // A broken connection is the client's or the server's to report; here it only ends the thread.
            let _ = pass_requests(&client, &server, &for_requests);
            let _ = server.shutdown(std::net::Shutdown::Write);
        });
        thread::spawn(move || {
            let _ = pass_answers(&server_answers, &client_answers, &for_answers);
            let _ = client_answers.shutdown(std::net::Shutdown::Both);
        });
    }
}

fn pass_requests(client: &TcpStream, mut server: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut client = BufReader::with_capacity(256 << 10, client);
    while let Some(head) = read_head(&mut client)? {
        if shared.cut.load(Ordering::SeqCst) {
            client.get_ref().shutdown(std::net::Shutdown::Both)?;
            return Ok(());
        }
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        shared.requests.lock().push(Request { method: method.to_owned(), target: target.to_owned() });
        shared.arrived.notify_all();
        server.write_all(head.as_bytes())?;
        match header(&head, "content-length").and_then(|length| length.parse().ok()) {
            Some(length) => drop(io::copy(&mut (&mut client).take(length), &mut server)?),
            None if header(&head, "transfer-encoding").is_some() => pass_chunks(&mut client, server)?,
            None => {}
        }
    }
    Ok(())
}

/// A head with its empty line; `None` at the end of the connection.
fn read_head(client: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if client.read_line(&mut head)? == 0 {
            return Ok(None);
        }
        if &head[before..] == "\r\n" {
            return Ok(Some(head));
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

fn pass_chunks(client: &mut impl BufRead, mut server: &TcpStream) -> io::Result<()> {
    loop {
        let mut line = String::new();
        client.read_line(&mut line)?;
        server.write_all(line.as_bytes())?;
        let size =
            u64::from_str_radix(line.trim().split(';').next().unwrap_or(""), 16).map_err(io::Error::other)?;
        // The data and the line end after it; after the last chunk only that.
        io::copy(&mut client.take(size + 2), &mut server)?;
        if size == 0 {
            return Ok(());
        }
    }
}

fn pass_answers(mut server: &TcpStream, mut client: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let length = server.read(&mut buffer)?;
        let mut held = shared.held.lock();
        shared.released.wait_while(&mut held, |held| *held);
        drop(held);
        if length == 0 {
            return Ok(());
        }
        shared.answer_bytes.fetch_add(length as u64, Ordering::Relaxed);
        client.write_all(&buffer[..length])?;
    }
}
