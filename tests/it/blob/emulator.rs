//! Azurite, and a raw client of it that shares nothing with tierfs but object_store's signing.

use crate::support::azurite;
use crate::support::container::ACCOUNT;
use http::{HeaderMap, Method, StatusCode};
use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};
use object_store::client::{HttpClient, HttpConnector, HttpRequestBody, ReqwestConnector};
use std::sync::Arc;
use tierfs::tier::Tier;
use tierfs::tier::blob::{BlobOptions, connect};
use tierfs::types::Key;
use tierfs::types::blob::BlobLocation;

/// The emulator's well-known key.
pub use crate::support::container::KEY;

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
        Self::create_at(&azurite::service_url()).await
    }

    /// The same on another service.
    pub async fn create_at(service: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = object_store::ClientOptions::new().with_allow_http(true);
        let http = ReqwestConnector::default().connect(&options).expect("an HTTP client");
        let url = format!("{service}/c{:016x}", rand::random::<u64>());
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
        connect(&BlobOptions::new("blob", location(&format!("{}/{prefix}", self.url)))).expect("a tier")
    }
}

/// `http://HOST/ACCOUNT/CONTAINER/PREFIX` taken apart.
pub fn location(url: &str) -> BlobLocation {
    let parts: Vec<&str> = url.trim_end_matches('/').splitn(6, '/').collect();
    BlobLocation::Azure {
        endpoint: parts[..4].join("/"),
        account: parts[3].into(),
        container: parts[4].into(),
        prefix: Key::parse(parts.get(5).copied().unwrap_or_default()).expect("a prefix"),
    }
}
