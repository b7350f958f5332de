//! A wrong tier says what is wrong, and never that a file is not there.

use super::*;
use std::sync::Arc;
use tierfs::tier::blob::{Auth, BlobOptions, connect, connect_with};

fn tier_at(url: &str, key: &str) -> Arc<dyn Tier> {
    let key = key.to_owned();
    let options =
        BlobOptions { name: "blob".into(), url: url.into(), auth: Auth::Key, ..BlobOptions::default() };
    connect_with(&options, &|name| (name == "AZURE_STORAGE_ACCESS_KEY").then(|| key.clone())).expect("a tier")
}

#[tokio::test]
async fn a_missing_container_is_no_missing_file() {
    let container = Container::create().await;
    let options =
        BlobOptions { name: "blob".into(), url: format!("{}x/p", container.url), ..BlobOptions::default() };
    let tier = connect(&options).unwrap();
    let error = tier.probe().await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("the container does not exist"), "{error}");
    let version = Version::new("x");
    let never = Condition::Always;
    for answer in [
        kind(tier.head(&key("f")).await),
        kind(tier.list(&key("d"), b"", None, 10).await),
        kind(tier.read(&key("f"), 0..1, &version).await),
        kind(tier.put(&key("f"), bytes(1), &Attrs::default(), &never).await),
        kind(tier.delete(&key("f"), &never).await),
        kind(tier.set_attrs(&key("f"), &version, &Attrs::default()).await),
        kind(tier.copy(&key("f"), &version, &key("g"), &Attrs::default(), &never).await),
    ] {
        assert_eq!(answer, Kind::Unavailable);
    }
}

#[tokio::test]
async fn wrong_credentials_are_denied() {
    let container = Container::create().await;
    assert!(container.tier("").probe().await.is_ok());
    let tier = tier_at(&container.url, "c2VjcmV0a2V5");
    let error = tier.probe().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
    assert!(error.to_string().contains("credentials") && !error.to_string().contains("c2Vj"), "{error}");
    assert_eq!(kind(tier.head(&key("f")).await), Kind::Denied);
    let sas = "sv=2020-12-06&sp=rl&sr=c&se=2000-01-01T00%3A00%3A00Z&sig=c2VjcmV0";
    let options = BlobOptions {
        name: "blob".into(),
        url: container.url.clone(),
        auth: Auth::Sas,
        ..BlobOptions::default()
    };
    let env = |name: &str| (name == "AZURE_STORAGE_SAS_TOKEN").then(|| sas.to_owned());
    let tier = connect_with(&options, &env).unwrap();
    let error = tier.probe().await.unwrap_err();
    assert!(error.kind() == Kind::Denied && !format!("{error:?}").contains("c2VjcmV0"), "{error:?}");
}

#[tokio::test]
async fn nobody_at_the_address_is_unavailable() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let tier = tier_at(&format!("http://{closed}/devstoreaccount1/c"), "c2VjcmV0a2V5");
    assert_eq!(kind(tier.probe().await), Kind::Unavailable);
    assert_eq!(kind(tier.head(&key("f")).await), Kind::Unavailable);
}

#[tokio::test]
async fn a_sas_works_and_copies_with_it() {
    let container = Container::create().await;
    let start = container.tier("");
    put(&*start, "f", "text").await;
    // No permission to read on our behalf, so the bytes pass through the client.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(
        &path,
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==\n",
    )
    .unwrap();
    let options = BlobOptions {
        name: "b".into(),
        url: container.url.clone(),
        key_file: Some(path),
        ..BlobOptions::default()
    };
    let tier = connect(&options).unwrap();
    let version = tier.head(&key("f")).await.unwrap().version;
    tier.copy(&key("f"), &version, &key("g"), &Attrs::default(), &Condition::Absent).await.unwrap();
    assert_eq!(content(&*tier, "g").await, b"text");
}
