//! A wrong tier says what is wrong, and never that a file is not there.

use super::emulator::location;
use super::*;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;
use tierfs::tier::blob::{BlobOptions, connect, connect_with};
use tierfs::types::blob::Auth;

fn tier_at(url: &str, key: &str) -> Arc<dyn Tier> {
    let key = key.to_owned();
    let options = BlobOptions { auth: Auth::Key, ..BlobOptions::new("blob", location(url)) };
    connect_with(&options, &|name| (name == "AZURE_STORAGE_ACCESS_KEY").then(|| key.clone())).expect("a tier")
}

#[tokio::test]
async fn a_missing_container_is_no_missing_file() {
    let container = Container::create().await;
    let options = BlobOptions::new("blob", location(&format!("{}x/p", container.url)));
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
    let options = BlobOptions { auth: Auth::Sas, ..BlobOptions::new("blob", location(&container.url)) };
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

/// A SAS of the emulator's account, with these permissions.
fn account_sas(permissions: &str) -> String {
    let expiry = "2099-01-01T00:00:00Z";
    let to_sign = format!("devstoreaccount1\n{permissions}\nb\nco\n\n{expiry}\n\n\n2021-08-06\n\n");
    let key =
        ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &BASE64_STANDARD.decode(emulator::KEY).expect("a key"));
    let signature = BASE64_STANDARD.encode(ring::hmac::sign(&key, to_sign.as_bytes()));
    let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
    format!("?sv=2021-08-06&ss=b&srt=co&sp={permissions}&se={expiry}&sig={signature}")
}

fn tier_with_file(container: &Container, auth: Auth, secret: &str) -> (Arc<dyn Tier>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, format!("{secret}\n")).expect("a file");
    let (sas_file, key_file) = if auth == Auth::Sas { (Some(path), None) } else { (None, Some(path)) };
    let options = BlobOptions { sas_file, key_file, ..BlobOptions::new("b", location(&container.url)) };
    (connect(&options).expect("a tier"), folder)
}

#[tokio::test]
async fn secrets_in_files_do_all_that_is_needed() {
    let container = Container::create().await;
    for (auth, secret) in [(Auth::Sas, account_sas("rwdlac")), (Auth::Key, emulator::KEY.to_owned())] {
        let (tier, _folder) = tier_with_file(&container, auth, &secret);
        tier.probe().await.unwrap();
        let version = put(&*tier, "f #", "text").await;
        tier.copy(&key("f #"), &version, &key("g"), &Attrs::default(), &Condition::Absent).await.unwrap();
        assert_eq!(content(&*tier, "g").await, b"text");
        assert_eq!(names(&list(&*tier, "", 10).await.0), ["f #", "g"]);
        for path in ["f #", "g"] {
            tier.delete(&key(path), &Condition::Always).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_sas_that_may_only_read_is_denied_writes() {
    let container = Container::create().await;
    container.put("f", b"x", &[]).await;
    let (tier, _folder) = tier_with_file(&container, Auth::Sas, &account_sas("rl"));
    assert_eq!(content(&*tier, "f").await, b"x");
    let refused = tier.put(&key("g"), bytes(1), &Attrs::default(), &Condition::Always).await;
    assert_eq!(kind(refused), Kind::Denied);
    assert_eq!(kind(tier.delete(&key("f"), &Condition::Always).await), Kind::Denied);
}
