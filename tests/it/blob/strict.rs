//! What the service enforces and the emulator does not, on our own server; and that the tier lives with it.

use super::emulator::{Answer, Container};
use super::*;
use crate::support::blob_server::{BlobServer, Effect, Operation, When};
use http::Method;
use tierfs::types::FileKind;

async fn own() -> (BlobServer, Container) {
    let server = BlobServer::start();
    let container = Container::create_at(&server.service()).await;
    (server, container)
}

#[track_caller]
fn assert_code(answer: &Answer, status: u16, code: &str) {
    let found = answer.headers.get("x-ms-error-code").map(|value| value.to_str().expect("text"));
    assert_eq!((answer.status.as_u16(), found), (status, Some(code)));
}

const BLOCK_BLOB: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

#[tokio::test]
async fn limits_are_enforced() {
    let (_server, container) = own().await;
    let put = async |path: &str, headers: &[(&str, &str)]| {
        container.request(Method::PUT, path, headers, b"x").await
    };
    assert!(put(&format!("/{}", "n".repeat(1024)), &[BLOCK_BLOB]).await.status.is_success());
    assert_code(&put(&format!("/{}", "n".repeat(1025)), &[BLOCK_BLOB]).await, 400, "InvalidResourceName");
    let long = "v".repeat(8 * 1024);
    assert_code(&put("/m", &[BLOCK_BLOB, ("x-ms-meta-k", &long)]).await, 400, "MetadataTooLarge");
    assert_code(&put("/m", &[BLOCK_BLOB, ("x-ms-meta-a-b", "x")]).await, 400, "InvalidMetadata");
    for id in ["YWFhYQ==", "YmJiYg=="] {
        assert!(put(&format!("/b?comp=block&blockid={id}"), &[]).await.status.is_success());
    }
    assert_code(&put("/b?comp=block&blockid=YQ==", &[]).await, 400, "InvalidBlobOrBlock");
    assert_code(&put("/b?comp=block&blockid=no", &[]).await, 400, "InvalidQueryParameterValue");
    let list = container.request(Method::GET, "?restype=container&comp=list&maxresults=0", &[], b"").await;
    assert_code(&list, 400, "OutOfRangeQueryParameterValue");
}

#[tokio::test]
async fn a_put_drops_staged_blocks() {
    let (_server, container) = own().await;
    let put = async |path: &str, headers: &[(&str, &str)], body: &[u8]| {
        container.request(Method::PUT, path, headers, body).await
    };
    assert!(put("/b?comp=block&blockid=YWFhYQ==", &[], b"block").await.status.is_success());
    assert!(container.get("b").await.is_none(), "staged is invisible");
    assert_code(&container.request(Method::DELETE, "/b", &[], b"").await, 404, "BlobNotFound");
    assert!(put("/b", &[BLOCK_BLOB, ("if-none-match", "*")], b"whole").await.status.is_success());
    let list = b"<BlockList><Uncommitted>YWFhYQ==</Uncommitted></BlockList>";
    assert_code(&put("/b?comp=blocklist", &[], list).await, 400, "InvalidBlockList");
    assert_eq!(container.get("b").await.expect("a blob").body, b"whole");
}

/// Parallel uploads of one name: the second finds its blocks gone and says what is in the way.
#[tokio::test]
async fn of_two_uploads_one_wins_whole() {
    let (_server, container) = own().await;
    let tier = container.tier("");
    let size = 20 << 20;
    let (one, two) =
        (tier.upload(&key("f"), size).await.unwrap(), tier.upload(&key("f"), size).await.unwrap());
    for (upload, fill) in [(&one, 1), (&two, 2)] {
        for index in 0..3 {
            upload.put_block(index, vec![fill; 7 << 20].into()).await.unwrap();
        }
    }
    one.commit(3, &written_by("one"), &Condition::Absent).await.unwrap();
    let lost = two.commit(3, &written_by("two"), &Condition::Absent).await;
    assert_eq!(kind(lost), Kind::Exists);
    assert!(content(&*tier, "f").await == vec![1; 21 << 20]);
}

#[tokio::test]
async fn copies_stay_inside_the_service() {
    let (server, container) = own().await;
    let name = container.url.rsplit('/').next().expect("a name").to_owned();
    server.put_synthetic(&name, "big é#", 200 << 20);
    let tier = container.tier("");
    let version = tier.head(&key("big é#")).await.unwrap().version;
    server.clear_log();
    tier.copy(&key("big é#"), &version, &key("copy"), &Attrs::default(), &Condition::Absent).await.unwrap();
    assert_eq!((server.count(Operation::Get), server.body_bytes()), (0, 0));
    assert_eq!(server.count(Operation::PutBlockFromUrl), 4);
    let object = tier.head(&key("copy")).await.unwrap();
    assert_eq!((object.kind, object.size), (FileKind::Regular, 200 << 20));
    let range = (64 << 20) - 5..(64 << 20) + 5;
    assert_eq!(read(&*tier, "copy", range.clone(), &object.version).await.unwrap(), server.bytes_at(range));
}

#[tokio::test]
async fn a_commit_knows_itself_again() {
    let (server, container) = own().await;
    let tier = container.tier("");
    server.fault(When::operation(&[Operation::PutBlob]).times(1), Effect::ApplyThenDrop);
    let (attrs, absent) = (written_by("w-1"), Condition::Absent);
    let version = tier.put(&key("f"), bytes(10), &attrs, &absent).await.unwrap();
    assert_eq!(tier.head(&key("f")).await.unwrap().version, version);
    server.fault(When::operation(&[Operation::SetMetadata]).times(1), Effect::ApplyThenDrop);
    let next = tier.set_attrs(&key("f"), &version, &written_by("w-2")).await.unwrap();
    assert!(next != version && tier.head(&key("f")).await.unwrap().version == next);
    server.fault(When::any(), Effect::Refuse { status: 500, code: "InternalError", retry_after: None });
    assert_eq!(kind(tier.head(&key("f")).await), Kind::Unavailable);
    server.clear_faults();
    server
        .fault(When::any(), Effect::Refuse { status: 403, code: "AuthorizationFailure", retry_after: None });
    assert_eq!(kind(tier.head(&key("f")).await), Kind::Denied);
}
