//! The rig itself: what stands around tierfs in the other tests must work before they mean anything.

use crate::support::blob_server::{BlobServer, Effect, Operation, When};
use crate::support::{Container, Proxy};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

fn client(service: &str, container: &str) -> impl ObjectStore {
    let _ = rustls::crypto::ring::default_provider().install_default();
    MicrosoftAzureBuilder::new()
        .with_account(crate::support::container::ACCOUNT)
        .with_access_key(crate::support::container::KEY)
        .with_container_name(container)
        .with_endpoint(service.to_owned())
        .with_allow_http(true)
        .build()
        .expect("a client")
}

#[test]
fn a_container_keeps_what_is_put_and_has_nothing_else() {
    let container = Container::create();
    assert_eq!((container.names(), container.get("a/b#c.bin")), (vec![], None));
    container.put("a/b#c.bin", b"bytes");
    assert_eq!(container.get("a/b#c.bin").as_deref(), Some(b"bytes".as_slice()));
    assert_eq!(container.names(), ["a/b#c.bin"]);
    container.delete("a/b#c.bin");
    assert_eq!(container.names(), Vec::<String>::new());
    assert!(Container::create().url() != container.url());
}

#[tokio::test]
async fn directory_markers_are_told_from_empty_files() {
    let container = tokio::task::spawn_blocking(Container::create).await.expect("a container");
    let (service, name) =
        container.url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a url");
    let store = client(&service, &name);
    let mut attributes = object_store::Attributes::new();
    attributes.insert(object_store::Attribute::Metadata("hdi_isfolder".into()), "true".into());
    let marker = object_store::PutOptions { attributes, ..Default::default() };
    store.put_opts(&Path::from("d"), "".into(), marker).await.expect("a put");
    store.put(&Path::from("empty"), "".into()).await.expect("a put");
    let seen = tokio::task::spawn_blocking(move || (container.names(), container.file_names()))
        .await
        .expect("names");
    assert_eq!(seen, (vec!["d".to_owned(), "empty".to_owned()], vec!["empty".to_owned()]));
}

#[tokio::test]
async fn the_proxy_counts_requests_and_holds_answers() {
    let container = tokio::task::spawn_blocking(Container::create).await.expect("a container");
    let proxy = Proxy::before(container.service());
    let name = container.url().rsplit('/').next().expect("a name").to_owned();
    let store = client(&proxy.service(), &name);
    let body = crate::support::noise(1, 3 << 20);
    store.put(&Path::from("x"), body.clone().into()).await.expect("a put");
    assert_eq!(store.get(&Path::from("x")).await.expect("a get").bytes().await.expect("a body"), body);
    assert_eq!((proxy.count("PUT", "/x"), proxy.count("GET", "/x"), proxy.count("GET", "/y")), (1, 1, 0));
    assert!(proxy.answer_bytes() > 3 << 20);

    proxy.clear();
    proxy.hold();
    let path = Path::from("x");
    let mut head = std::pin::pin!(store.head(&path));
    assert!(futures::poll!(&mut head).is_pending());
    tokio::task::spawn_blocking({
        let requests = proxy.requests_watch();
        move || requests.wait_for(1)
    })
    .await
    .expect("the request passes by");
    assert!(futures::poll!(&mut head).is_pending());
    proxy.release();
    assert_eq!(head.await.expect("the answer after all").size, body.len() as u64);
    tokio::task::spawn_blocking(move || drop(container)).await.expect("an end");
}

#[tokio::test]
async fn the_blob_server_serves_ranges_lists_and_refusals() {
    let server = BlobServer::start();
    server.container("c");
    for (name, size) in [("d/big", 20 << 20), ("d/e/small", 5), ("top", 0)] {
        server.put_synthetic("c", name, size);
    }
    let store = client(&server.service(), "c");
    let big = Path::from("d/big");
    assert_eq!(store.head(&big).await.expect("a head").size, 20 << 20);
    let range = (8 << 20) - 7..(17 << 20) + 3;
    assert_eq!(store.get_range(&big, range.clone()).await.expect("a range"), server.bytes_at(range.clone()));
    assert_eq!(server.body_bytes(), range.end - range.start);
    let level = store.list_with_delimiter(Some(&Path::from("d"))).await.expect("a listing");
    assert_eq!((level.objects.len(), level.common_prefixes), (1, vec![Path::from("d/e")]));
    assert!(matches!(store.head(&Path::from("none")).await, Err(object_store::Error::NotFound { .. })));
    let stale = object_store::GetOptions { if_match: Some("\"other\"".into()), ..Default::default() };
    assert!(matches!(store.get_opts(&big, stale).await, Err(object_store::Error::Precondition { .. })));
    let body = crate::support::noise(3, 3 << 20);
    store.put(&big, body.clone().into()).await.expect("a put");
    assert_eq!(server.get("c", "d/big"), Some(body));
    assert_eq!((server.count(Operation::PutBlob), server.count(Operation::Head)), (1, 2));
}

#[tokio::test]
async fn the_blob_server_fails_on_request() {
    let server = BlobServer::start();
    server.container("c");
    server.put_synthetic("c", "x", 1 << 20);
    let store = client(&server.service(), "c");
    let x = Path::from("x");
    // object_store tries again by itself, so what is counted here is what the server did.
    server.fault(When::operation(&[Operation::Head]).times(2), Effect::busy(0));
    store.head(&x).await.expect("the third try");
    assert_eq!(server.count(Operation::Head), 3);
    server.fault(When::operation(&[Operation::PutBlob]).name("y").times(1), Effect::ApplyThenDrop);
    store.put(&Path::from("y"), "text".into()).await.expect("the second try");
    assert_eq!((server.count(Operation::PutBlob), server.get("c", "y")), (2, Some(b"text".to_vec())));
    server.fault(When::operation(&[Operation::Get]).after(1).times(1), Effect::CutAfter(1000));
    for _ in 0..3 {
        assert_eq!(store.get(&x).await.expect("a get").bytes().await.expect("a body").len(), 1 << 20);
    }
    server.clear_faults();
}
