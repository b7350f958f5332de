//! What no emulator does: lost replies, throttling, cut bodies, archived blobs, expired keys.

use super::*;
use crate::tier::Archive;
use crate::tier::blob::azrest::Transport;
use crate::tier::blob::credentials::Credentials;
use crate::tier::blob::options::BlobOptions;
use crate::types::blob::{Auth, BlobLocation};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::client::{HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// An answer: status, headers, body. None: the connection breaks.
type Answer = Option<(u16, Vec<(&'static str, String)>, &'static str)>;

/// Answers by method in the order given, and keeps a log of what was asked.
#[derive(Debug, Default)]
struct Script {
    answers: Mutex<VecDeque<(&'static str, Answer)>>,
    log: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Server(Arc<Script>);

#[async_trait]
impl HttpService for Server {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.0.log.lock().push(format!("{} {}", request.method(), request.uri()));
        let mut answers = self.0.answers.lock();
        let at = answers.iter().position(|(method, _)| request.method() == *method);
        let (_, answer) = at.and_then(|at| answers.remove(at)).expect("an answer for this request");
        let Some((status, headers, body)) = answer else {
            return Err(HttpError::new(HttpErrorKind::Interrupted, std::io::Error::other("reset")));
        };
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Ok(response.body(Bytes::from_static(body.as_bytes()).into()).expect("a response"))
    }
}

fn answer(status: u16, headers: &[(&'static str, &str)], body: &'static str) -> Answer {
    Some((status, headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(), body))
}

fn refused(status: u16, code: &str) -> Answer {
    answer(status, &[("x-ms-error-code", code)], "")
}

const EMPTY_LIST: &str = "<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>";

fn tier_with(options: &BlobOptions, answers: Vec<(&'static str, Answer)>) -> (AzureBlob, Arc<Script>) {
    let script = Arc::new(Script { answers: Mutex::new(answers.into()), log: Mutex::default() });
    let env = |name: &str| (name == "AZURE_STORAGE_ACCESS_KEY").then(|| "a2V5".to_owned());
    let transport = Transport::new().unwrap();
    let credentials = Credentials::resolve(options, "acc", &env, &transport).unwrap();
    let http = HttpClient::new(Server(Arc::clone(&script)));
    let client = Client::new(http, "https://acc.blob/c".into(), "acc".into(), credentials);
    let tier = AzureBlob {
        name: "blob".into(),
        location: "https://acc.blob/c".into(),
        client: Arc::new(client),
        names: Names::new(""),
        access_tier: None,
        capacity: 1,
    };
    (tier, script)
}

fn options() -> BlobOptions {
    let (endpoint, account) = ("https://acc.blob".to_owned(), "acc".to_owned());
    let location = BlobLocation::Azure { endpoint, account, container: "c".into(), prefix: Key::ROOT };
    BlobOptions::new("blob", location)
}

fn tier(answers: Vec<(&'static str, Answer)>) -> (AzureBlob, Arc<Script>) {
    tier_with(&BlobOptions { auth: Auth::Key, ..options() }, answers)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn key(path: &str) -> Key {
    Key::parse(path).unwrap()
}

fn ours() -> Attrs {
    Attrs { write_id: Some("w1".into()), ..Attrs::default() }
}

fn found(write_id: &str) -> Answer {
    found_of("1", write_id)
}

fn found_of(size: &str, write_id: &str) -> Answer {
    answer(200, &[("etag", "\"e1\""), ("content-length", size), ("x-ms-meta-tierfs_write_id", write_id)], "")
}

fn put(answers: Vec<(&'static str, Answer)>, condition: Condition) -> Result<Version> {
    let (tier, _) = tier(answers);
    run(tier.put(&key("f"), Bytes::from_static(b"x"), &ours(), &condition))
}

/// A write that is refused because of what is there, which is looked at twice: is it ours, and is it a blob?
fn put_over(refusal: Answer, there: impl Fn() -> Answer) -> Result<Version> {
    put(vec![("PUT", refusal), ("HEAD", there()), ("HEAD", there())], Condition::Absent)
}

#[test]
fn a_write_whose_reply_was_lost_knows_itself() {
    let version = Version::new("e1");
    for first in
        [None, answer(502, &[], ""), refused(409, "BlobAlreadyExists"), refused(412, "ConditionNotMet")]
    {
        let made = put(vec![("PUT", first), ("HEAD", found("w1"))], Condition::Absent);
        assert_eq!(made.unwrap(), version);
    }
    let theirs = put_over(refused(409, "BlobAlreadyExists"), || found("w2"));
    assert_eq!(theirs.unwrap_err().kind(), Kind::Exists);
    let kept = put_over(refused(412, "ConditionNotMet"), || found_of("7", "w1"));
    assert_eq!(kept.unwrap_err().kind(), Kind::Exists);
    // Nothing is known: the caller must ask again.
    for head in [refused(404, "BlobNotFound"), None, refused(503, "ServerBusy")] {
        let unknown = put(vec![("PUT", None), ("HEAD", head)], Condition::Absent);
        assert_eq!(unknown.unwrap_err().kind(), Kind::Unavailable);
    }
    // A refusal is a refusal; nobody is asked.
    assert_eq!(
        put(vec![("PUT", refused(403, "AuthenticationFailed"))], Condition::Always).unwrap_err().kind(),
        Kind::Denied
    );
}

#[test]
fn a_commit_sent_again_after_success_is_one() {
    let (tier, script) = tier(vec![
        ("PUT", answer(201, &[], "")),
        ("PUT", answer(201, &[], "")),
        ("PUT", refused(400, "InvalidBlockList")),
        ("HEAD", found_of("2", "w1")),
    ]);
    run(async {
        let upload = tier.upload(&key("f"), 9 << 20).await.unwrap();
        upload.put_block(0, Bytes::from_static(b"a")).await.unwrap();
        upload.put_block(1, Bytes::from_static(b"b")).await.unwrap();
        assert_eq!(upload.commit(2, &ours(), &Condition::Absent).await.unwrap(), Version::new("e1"));
    });
    assert_eq!(script.log.lock().len(), 4);
}

#[test]
fn dropped_blocks_are_no_conflict() {
    for (head, kind) in [(refused(404, "BlobNotFound"), Kind::Unavailable), (found("w2"), Kind::Exists)] {
        let (tier, _) = tier(vec![
            ("PUT", answer(201, &[], "")),
            ("PUT", answer(201, &[], "")),
            ("PUT", refused(400, "InvalidBlockList")),
            ("HEAD", head),
        ]);
        let failed = run(async {
            let upload = tier.upload(&key("f"), 9 << 20).await?;
            upload.put_block(0, Bytes::from_static(b"a")).await?;
            upload.put_block(1, Bytes::from_static(b"b")).await?;
            upload.commit(2, &ours(), &Condition::Absent).await
        });
        assert_eq!(failed.unwrap_err().kind(), kind);
    }
}

#[test]
fn throttling_is_never_an_absence_and_says_how_long() {
    let busy = || answer(503, &[("x-ms-error-code", "ServerBusy"), ("retry-after", "3")], "");
    let head = |head, list| run(tier(vec![("HEAD", head), ("GET", list)]).0.head(&key("d"))).unwrap_err();
    let list = || answer(200, &[], EMPTY_LIST);
    for error in [head(busy(), list()), head(refused(404, "BlobNotFound"), busy())] {
        assert_eq!((error.kind(), error.retry_after()), (Kind::Unavailable, Some(Duration::from_secs(3))));
    }
    assert_eq!(head(refused(404, "BlobNotFound"), list()).kind(), Kind::NotFound);
    assert_eq!(head(refused(404, "ContainerNotFound"), list()).kind(), Kind::Unavailable);
    let error = run(tier(vec![("GET", busy())]).0.list(&Key::ROOT, b"", None, 10)).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::Unavailable, libc::EIO));
}

#[test]
fn a_cut_list_or_body_is_an_error() {
    let (listed, _) =
        tier(vec![("GET", answer(200, &[], "<EnumerationResults><Blobs><Blob><Name>a</Name>"))]);
    assert_eq!(run(listed.list(&Key::ROOT, b"", None, 10)).unwrap_err().kind(), Kind::Corrupt);
    let headers = [("etag", "\"e1\""), ("content-length", "9"), ("content-range", "bytes 0-8/9")];
    let (tier, _) = tier(vec![("GET", answer(206, &headers, "abc"))]);
    let read: Result<Vec<Bytes>> =
        run(async { tier.read(&key("f"), 0..9, &Version::new("e1")).await?.try_collect().await });
    assert_eq!(read.unwrap_err().kind(), Kind::Unavailable);
}

#[test]
fn archived_blobs_are_told() {
    let headers = [("etag", "\"e1\""), ("content-length", "9"), ("x-ms-access-tier", "Archive")];
    let (head, _) = tier(vec![("HEAD", answer(200, &headers, "")), ("GET", answer(200, &[], EMPTY_LIST))]);
    assert_eq!(run(head.head(&key("f"))).unwrap().archive, Archive::Archived);
    let (read, _) = tier(vec![("GET", refused(409, "BlobArchived"))]);
    let error = run(read.read(&key("f"), 0..9, &Version::new("e1"))).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::Archived, libc::ENODATA));
    let again = refused(409, "BlobBeingRehydrated");
    let (warm, script) = tier(vec![("PUT", answer(202, &[], "")), ("PUT", again)]);
    for _ in 0..2 {
        run(warm.rehydrate(&key("f"))).unwrap();
    }
    assert_eq!(script.log.lock()[0], "PUT https://acc.blob/c/f?comp=tier");
}

#[test]
fn names_that_are_no_names_are_hidden() {
    const LIST: &str = "<EnumerationResults><Blobs><Blob><Name Encoded=\"true\">a%01</Name></Blob><Blob><Name>ok</Name><Properties><Etag>e</Etag></Properties></Blob>\
         <Blob><Name>no version</Name></Blob><BlobPrefix><Name>x//</Name></BlobPrefix><BlobPrefix><Name>../</Name></BlobPrefix></Blobs></EnumerationResults>";
    let page = run(tier(vec![("GET", answer(200, &[], LIST))]).0.list(&Key::ROOT, b"", None, 10)).unwrap();
    assert_eq!((page.entries.len(), page.entries[0].name.as_slice(), page.hidden), (1, &b"ok"[..], 4));
}

#[test]
fn a_list_that_does_not_go_on_ends() {
    const LIST: &str = "<EnumerationResults><Blobs/><NextMarker>m</NextMarker></EnumerationResults>";
    let lists = vec![
        ("HEAD", refused(404, "BlobNotFound")),
        ("GET", answer(200, &[], LIST)),
        ("GET", answer(200, &[], LIST)),
    ];
    assert_eq!(run(tier(lists).0.head(&key("f"))).unwrap_err().kind(), Kind::Corrupt);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Whatever a server says of a blob: the truth, or an error that is no absence.
    #[test]
    fn any_headers_are_survived(
        length in "-?[0-9]{0,25}|[ -~]{0,8}", etag in "(W/)?\"?[ -~]{0,12}\"?", time in "[ -~]{0,40}",
        owner in "[ -~]{0,12}", xattrs in "[ -~]{0,40}", status in proptest::sample::select(vec![200u16, 206, 204, 304]),
    ) {
        let headers = [
            ("content-length", &*length), ("etag", &*etag), ("last-modified", &*time), ("x-ms-meta-owner", &*owner),
            ("x-ms-meta-tierfs_xattrs", &*xattrs), ("x-ms-access-tier", &*owner), ("content-range", &*length),
        ];
        let both = vec![("HEAD", answer(status, &headers, "")), ("GET", answer(200, &[], EMPTY_LIST))];
        match run(tier(both).0.head(&key("f"))) {
            Ok(found) => {
                proptest::prop_assert!(i64::try_from(found.size).is_ok() && !found.version.0.is_empty());
                proptest::prop_assert!(length.parse() == Ok(found.size) || found.kind != FileKind::Regular);
            }
            Err(error) => proptest::prop_assert!(error.kind() != Kind::NotFound, "{}", error),
        }
        let read = vec![("GET", answer(status, &headers, "abc")), ("HEAD", answer(status, &headers, ""))];
        let read: Result<Vec<Bytes>> =
            run(async { tier(read).0.read(&key("f"), 0..3, &Version::new("e1")).await?.try_collect().await });
        proptest::prop_assert!(read.is_err() || etag.contains("e1"));
    }
}

#[test]
fn few_requests_are_sent() {
    let etag = [("etag", "\"e1\"")];
    let (tier, script) = tier(vec![
        ("PUT", answer(201, &etag, "")),
        ("GET", answer(200, &[], EMPTY_LIST)),
        ("HEAD", found("w1")),
        ("GET", answer(200, &[], EMPTY_LIST)),
    ]);
    run(async {
        let upload = tier.upload(&key("f"), 1).await.unwrap();
        upload.put_block(0, Bytes::from_static(b"x")).await.unwrap();
        upload.commit(1, &ours(), &Condition::Absent).await.unwrap();
        assert_eq!(script.log.lock().len(), 1);
        tier.list(&key("d"), b"", None, 10).await.unwrap();
        assert_eq!(script.log.lock().len(), 2);
        tier.head(&key("f")).await.unwrap();
        assert_eq!(script.log.lock().len(), 4);
    });
    assert!(script.log.lock()[1].contains("include=metadata") && script.log.lock()[1].contains("prefix=d/"));
}

#[test]
fn a_denied_request_is_sent_again_with_a_new_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "a2V5").unwrap();
    let options = BlobOptions { key_file: Some(path.clone()), ..options() };
    let denied = || ("GET", refused(403, "AuthenticationFailed"));
    let (tier, script) = tier_with(&options, vec![denied(), denied(), ("GET", answer(200, &[], EMPTY_LIST))]);
    assert_eq!(run(tier.probe()).unwrap_err().kind(), Kind::Denied);
    assert_eq!(script.log.lock().len(), 1, "the same key is not tried again");
    // Equal in size, and on a coarse clock in time: only reading it shows that it is another.
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, "a2V6").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    run(tier.probe()).unwrap();
    assert_eq!(script.log.lock().len(), 3);
}

#[test]
fn a_missing_container_is_said_when_probed() {
    let probe = |answer| run(tier(vec![("GET", answer)]).0.probe()).unwrap_err();
    assert_eq!(probe(refused(404, "ContainerNotFound")).kind(), Kind::NotFound);
    assert_eq!(probe(refused(403, "AuthorizationPermissionMismatch")).kind(), Kind::Denied);
    assert_eq!(probe(None).kind(), Kind::Unavailable);
    assert_eq!(probe(answer(404, &[], "<html>")).kind(), Kind::Unavailable);
}

#[test]
fn source_refusals_fall_back_to_reading() {
    let body = [("etag", "\"e1\""), ("content-length", "3"), ("content-range", "bytes 0-2/3")];
    let (tier, script) = tier(vec![
        ("HEAD", answer(200, &[("etag", "\"e1\""), ("content-length", "3")], "")),
        ("PUT", refused(404, "CannotVerifyCopySource")),
        ("GET", answer(206, &body, "abc")),
        ("PUT", answer(201, &[("etag", "\"e2\"")], "")),
    ]);
    let copied = run(tier.copy(&key("a"), &Version::new("e1"), &key("b"), &ours(), &Condition::Absent));
    assert_eq!(copied.unwrap(), Version::new("e2"));
    assert_eq!(script.log.lock().len(), 4);
}
