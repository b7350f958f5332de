//! Azurite, and a raw client of it that shares nothing with tierfs but object_store's signing.

use http::{HeaderMap, Method, StatusCode};
use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};
use object_store::client::{HttpClient, HttpConnector, HttpRequestBody, ReqwestConnector};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use tierfs::tier::Tier;
use tierfs::tier::blob::{BlobOptions, connect};

const ACCOUNT: &str = "devstoreaccount1";
/// The emulator's well-known key.
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The account's url: of the emulator that `TIERFS_AZURITE_URL` names, or of one started for this process.
pub fn service() -> &'static str {
    static SERVICE: OnceLock<(String, Option<Child>)> = OnceLock::new();
    &SERVICE
        .get_or_init(|| match std::env::var("TIERFS_AZURITE_URL") {
            Ok(url) => (url.trim_end_matches('/').to_owned(), None),
            Err(_) => started(),
        })
        .0
}

/// The kernel ends the emulator with the thread that started it, so that thread must outlive every test.
fn started() -> (String, Option<Child>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(start());
        loop {
            std::thread::park();
        }
    });
    receiver.recv().expect("the emulator")
}

fn start() -> (String, Option<Child>) {
    let script = std::env::var("TIERFS_AZURITE").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/target/azurite/node_modules/azurite/dist/src/blob/main.js")
            .into()
    });
    let mut command = Command::new("node");
    command.arg(script).args(["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"]);
    command.args(["--skipApiVersionCheck", "--loose", "--silent", "--disableTelemetry"]);
    // SAFETY: prctl is async-signal-safe and touches no memory of ours.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            Ok(())
        });
    }
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut process = spawned.expect("no node: run tools/test.sh, it installs what the tests need");
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("successfully listens on ")?.1.trim().to_owned()));
    let address = address.expect("no Azurite: run tools/test.sh, it installs what the tests need");
    (format!("{address}/{ACCOUNT}"), Some(process))
}

/// A container of its own, and raw requests to it.
pub struct Container {
    pub url: String,
    http: HttpClient,
}

/// An answer as it came.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Container {
    pub async fn create() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = object_store::ClientOptions::new().with_allow_http(true);
        let http = ReqwestConnector::default().connect(&options).expect("an HTTP client");
        let url = format!("{}/c{:016x}", service(), rand::random::<u64>());
        let container = Self { url, http };
        let made = container.request(Method::PUT, "?restype=container", &[], b"").await;
        assert_eq!(made.status, StatusCode::CREATED);
        container
    }

    /// Sends to the container's url and `rest`, which is percent-encoded already.
    pub async fn request(&self, method: Method, rest: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let credential = AzureCredential::AccessKey(AzureAccessKey::try_new(KEY).expect("a key"));
        let mut builder = http::Request::builder().method(method).uri(format!("{}{rest}", self.url));
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let builder = builder.header("content-length", body.len());
        let mut request = builder.body(HttpRequestBody::from(body.to_vec())).expect("a request");
        AzureAuthorizer::new(&credential, ACCOUNT).try_authorize(&mut request).expect("a signature");
        let (parts, body) = self.http.execute(request).await.expect("an answer").into_parts();
        let body = body.bytes().await.expect("a body").to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Writes a blob as another program would; `name` is percent-encoded already.
    pub async fn put(&self, name: &str, body: &[u8], metadata: &[(&str, &str)]) {
        let keys: Vec<_> = metadata.iter().map(|(key, value)| (format!("x-ms-meta-{key}"), *value)).collect();
        let mut headers: Vec<_> = keys.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        headers.push(("x-ms-blob-type", "BlockBlob"));
        let answer = self.request(Method::PUT, &format!("/{name}"), &headers, body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{name}");
    }

    /// The blob's bytes and headers, if it is there.
    pub async fn get(&self, name: &str) -> Option<Answer> {
        let answer = self.request(Method::GET, &format!("/{name}"), &[], b"").await;
        answer.status.is_success().then_some(answer)
    }

    pub async fn delete(&self, name: &str) {
        let answer = self.request(Method::DELETE, &format!("/{name}"), &[], b"").await;
        assert_eq!(answer.status, StatusCode::ACCEPTED, "{name}");
    }

    /// A tier on `prefix` of it.
    pub fn tier(&self, prefix: &str) -> Arc<dyn Tier> {
        let url = format!("{}/{prefix}", self.url);
        connect(&BlobOptions { name: "blob".into(), url, ..BlobOptions::default() }).expect("a tier")
    }
}
