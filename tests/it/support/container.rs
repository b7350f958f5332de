//! A container on the emulator (or our own server) and a plain client of it: what a user's other tools see.

use super::azurite;
use futures::TryStreamExt;
use object_store::azure::{
    AzureAccessKey, AzureAuthorizer, AzureCredential, MicrosoftAzure, MicrosoftAzureBuilder,
};
use object_store::client::{HttpConnector, HttpRequestBody, ReqwestConnector};
use object_store::path::Path;
use object_store::{Attribute, ClientOptions, ObjectStore, ObjectStoreExt, PutPayload};
use std::sync::atomic::{AtomicU64, Ordering};

/// The emulator's well-known account.
pub const ACCOUNT: &str = "devstoreaccount1";
/// The emulator's well-known key: public, opens nothing but emulators.
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A container of its own for one test.
#[derive(Debug)]
pub struct Container {
    name: String,
    service: String,
    store: MicrosoftAzure,
    runtime: tokio::runtime::Runtime,
}

impl Container {
    /// Makes a new one with a name nobody else has.
    pub fn create() -> Self {
        Self::create_at(azurite::service_url())
    }

    /// The same on another service.
    pub fn create_at(service: String) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Fails only if a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(create_container(&service, &name));
        let store = MicrosoftAzureBuilder::new()
            .with_account(ACCOUNT)
            .with_access_key(KEY)
            .with_container_name(&name)
            .with_endpoint(service.clone())
            .with_allow_http(true)
            .build()
            .expect("a client");
        Self { name, service, store, runtime }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, to put into a config.
    pub fn url(&self) -> String {
        self.url_through(&self.service)
    }

    /// Its address by another way to the same account, a proxy's.
    pub fn url_through(&self, service: &str) -> String {
        format!("{service}/{}", self.name)
    }

    /// Address of the account.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// The bytes of a blob, if it is there.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.runtime.block_on(async {
            match self.store.get(&parse(name)).await {
                Ok(found) => Some(found.bytes().await.expect("a body").to_vec()),
                Err(object_store::Error::NotFound { .. }) => None,
                Err(error) => panic!("get {name}: {error}"),
            }
        })
    }

    /// Writes a blob, over what is there.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let payload = PutPayload::from(bytes.to_vec());
        self.runtime.block_on(self.store.put(&parse(name), payload)).expect("a put");
    }

    /// The same in blocks of this size, as most tools write large ones.
    pub fn put_in_blocks(&self, name: &str, bytes: &[u8], block: usize) {
        self.runtime.block_on(async {
            let mut upload = self.store.put_multipart(&parse(name)).await.expect("an upload");
            for part in bytes.chunks(block) {
                upload.put_part(PutPayload::from(part.to_vec())).await.expect("a block");
            }
            upload.complete().await.expect("a block list");
        });
    }

    /// Removes a blob.
    pub fn delete(&self, name: &str) {
        self.runtime.block_on(self.store.delete(&parse(name))).expect("a delete");
    }

    /// Names of all blobs that are no directory markers.
    pub fn file_names(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| !self.is_directory_marker(name)).collect()
    }

    /// Whether a blob stands for a directory, in the dialect of Azure's own tools.
    fn is_directory_marker(&self, name: &str) -> bool {
        let key = Attribute::Metadata("hdi_isfolder".into());
        let found = self.runtime.block_on(self.store.get(&parse(name)));
        found.is_ok_and(|found| {
            found.meta.size == 0 && found.attributes.get(&key).is_some_and(|v| v.as_ref() == "true")
        })
    }

    /// All names in it.
    pub fn names(&self) -> Vec<String> {
        let listing = self.store.list(None).map_ok(|found| found.location.to_string()).try_collect();
        self.runtime.block_on(listing).expect("a listing")
    }
}

/// Blob names as they are, never encoded again.
fn parse(name: &str) -> Path {
    Path::parse(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

async fn create_container(service: &str, name: &str) {
    let credential = AzureCredential::AccessKey(AzureAccessKey::try_new(KEY).expect("the key"));
    let mut request = http::Request::put(format!("{service}/{name}?restype=container"))
        .header("content-length", "0")
        .header("x-ms-version", "2023-11-03")
        .body(HttpRequestBody::empty())
        .expect("a request");
    AzureAuthorizer::new(&credential, ACCOUNT).try_authorize(&mut request).expect("a signature");
    let options = ClientOptions::new().with_allow_http(true);
    let client = ReqwestConnector::default().connect(&options).expect("an HTTP client");
    let response = client.execute(request).await.expect("an answer of the emulator");
    assert_eq!(response.status(), 201, "creating container {name}");
}
