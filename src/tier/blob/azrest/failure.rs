//! What the service answers when it refuses, and what a caller can do about it.

use crate::error::{Error, Kind};
use http::{HeaderMap, StatusCode};
use object_store::client::{HttpError, HttpErrorKind};
use std::time::Duration;

/// Longest pause that a server can ask us for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(15 * 60);

/// Longest part of a server's message that is repeated.
const MESSAGE_MAX: usize = 200;

/// A request that did not succeed.
#[derive(Debug)]
pub(in super::super) struct Failure {
    /// What a caller can do about it.
    pub(in super::super) kind: Kind,
    /// `x-ms-error-code`, or empty.
    pub(in super::super) code: String,
    /// The status of the answer; 0 if there was none.
    pub(super) status: u16,
    text: String,
    retry_after: Option<Duration>,
    /// The server may have done what was asked: the request left, and no answer came.
    pub(in super::super) outcome_unknown: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

pub(in super::super) type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure that no answer of the server describes.
    pub(in super::super) fn new(kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            kind,
            code: String::new(),
            status: 0,
            text,
            retry_after: None,
            outcome_unknown: false,
            source: None,
        }
    }

    /// From the server's answer: status, headers and body.
    pub(super) fn answered(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let (body_code, message) = parse_body(body);
        let header = headers.get("x-ms-error-code").and_then(|code| code.to_str().ok());
        let code = header.map(ToOwned::to_owned).or(body_code).unwrap_or_default();
        let code: String = code.chars().filter(char::is_ascii_alphanumeric).take(80).collect();
        let kind = classify(status.as_u16(), &code);
        let shown = if code.is_empty() { "no error code" } else { &code };
        let mut text = format!("{} {shown}", status.as_u16());
        if let Some(advice) = advice(status.as_u16(), &code) {
            text = format!("{text}: {advice}");
        } else if !message.is_empty() {
            text = format!("{text}: {message}");
        }
        // A gateway's 5xx says nothing of what the service behind it did.
        let outcome_unknown = status.is_server_error() && code != "ServerBusy";
        let (status, retry_after) = (status.as_u16(), retry_after(headers));
        Self { code, status, retry_after, outcome_unknown, ..Self::new(kind, text) }
    }

    /// From a request that got no answer, or lost it half-way.
    pub(super) fn unanswered(error: HttpError) -> Self {
        let (kind, text) = match error.kind() {
            HttpErrorKind::Timeout => (Kind::TimedOut, "no answer in time"),
            HttpErrorKind::Connect => (Kind::Unavailable, "can't connect"),
            _ => (Kind::Unavailable, "the connection broke"),
        };
        let outcome_unknown = error.kind() != HttpErrorKind::Connect;
        Self { outcome_unknown, source: Some(Box::new(error)), ..Self::new(kind, text) }
    }

    /// The same with its cause.
    pub(in super::super) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// A request that the server did not answer within `limit`.
    pub(super) fn timed_out(limit: Duration) -> Self {
        let text = format!("no answer within {} s", limit.as_secs());
        Self { outcome_unknown: true, ..Self::new(Kind::TimedOut, text) }
    }

    /// As the error of the whole program; `what` says what was tried.
    pub(in super::super) fn into_error(self, what: impl std::fmt::Display) -> Error {
        let mut error = Error::new(self.kind, format!("{what}: {}", self.text));
        if let Some(source) = self.source {
            error = error.with_source(source);
        }
        if let Some(pause) = self.retry_after {
            error = error.with_retry_after(pause);
        }
        error
    }
}

/// The error classes; codes first, because one status stands for many things.
fn classify(status: u16, code: &str) -> Kind {
    match code {
        "BlobNotFound" | "PathNotFound" => return Kind::NotFound,
        // A container that is away is no statement about the files in it.
        "ContainerNotFound" | "ContainerBeingDeleted" | "ContainerDisabled" | "ResourceNotFound" => {
            return Kind::Unavailable;
        }
        "BlobAlreadyExists" | "ResourceAlreadyExists" => return Kind::Exists,
        "ConditionNotMet" | "SourceConditionNotMet" | "TargetConditionNotMet" => return Kind::Changed,
        "BlobArchived" | "BlobBeingRehydrated" => return Kind::Archived,
        "OperationTimedOut" => return Kind::TimedOut,
        "PendingCopyOperation" => return Kind::Busy,
        code if code.starts_with("Lease") => return Kind::Busy,
        "InvalidBlockList" | "InvalidBlobOrBlock" => return Kind::Changed,
        "UnsupportedHeader" | "CannotVerifyCopySource" | "APINotImplemented" => return Kind::Unsupported,
        "InvalidAuthenticationInfo" => return Kind::Denied,
        _ => {}
    }
    match status {
        401 | 403 => Kind::Denied,
        // Not the service's own word: a gateway or a wrong endpoint. Never an absence.
        404 => Kind::Unavailable,
        408 | 504 => Kind::TimedOut,
        412 => Kind::Changed,
        414 => Kind::NameTooLong,
        416 => Kind::Invalid,
        429 => Kind::Unavailable,
        501 => Kind::Unsupported,
        500..=599 => Kind::Unavailable,
        400..=499 => Kind::Refused,
        _ => Kind::Corrupt,
    }
}

/// What to do, where the server's own words don't say it.
fn advice(status: u16, code: &str) -> Option<&'static str> {
    Some(match code {
        "ContainerNotFound" => "the container does not exist; create it or correct the tier's url",
        "ContainerBeingDeleted" => "the container is being deleted",
        "BlobArchived" => "the blob is archived; rehydrate it first",
        "BlobBeingRehydrated" => "the blob is being rehydrated; this takes up to 15 hours",
        "SnapshotsPresent" => "the blob has snapshots; delete those first",
        "AuthenticationFailed" => "the credentials are wrong or expired, or the clock is off",
        "AuthorizationFailure" => {
            "the credentials are wrong or lack permission, or the account's network rules refuse us"
        }
        "AuthorizationPermissionMismatch" => {
            "the credentials lack permission: an identity needs the role Storage Blob Data Contributor"
        }
        "" if status == 404 => "not an answer of Azure Blob Storage; is the tier's url right?",
        _ => return None,
    })
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let millis =
        text("x-ms-retry-after-ms").or_else(|| text("retry-after-ms")).and_then(|text| text.parse().ok());
    let pause = millis.map(Duration::from_millis).or_else(|| {
        let value = text("retry-after")?;
        value.parse().ok().map(Duration::from_secs).or_else(|| {
            let until = chrono::DateTime::parse_from_rfc2822(value).ok()?;
            std::time::SystemTime::from(until).duration_since(std::time::SystemTime::now()).ok()
        })
    });
    pause.map(|pause| pause.min(RETRY_AFTER_MAX))
}

/// Code and first line of the message of an XML error body; whatever else it is makes them empty.
fn parse_body(body: &[u8]) -> (Option<String>, String) {
    #[derive(Default, serde::Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    struct Body {
        code: Option<String>,
        message: String,
    }
    let text = String::from_utf8_lossy(body);
    let body: Body = quick_xml::de::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default();
    (body.code, first_line(&body.message))
}

/// One printable line without anything that may be a signature.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let words = line.split_whitespace().map(|word| {
        let is_secret = ["sig=", "Bearer", "SharedKey"].iter().any(|mark| word.contains(mark));
        if is_secret { "…" } else { word }
    });
    let line = words.collect::<Vec<_>>().join(" ");
    line.chars().filter(|letter| !letter.is_control()).take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answered(status: u16, code: &str) -> Failure {
        let mut headers = HeaderMap::new();
        if !code.is_empty() {
            headers.insert("x-ms-error-code", code.parse().unwrap());
        }
        Failure::answered(StatusCode::from_u16(status).unwrap(), &headers, b"")
    }

    #[test]
    fn codes_decide() {
        for (status, code, kind) in [
            (404, "BlobNotFound", Kind::NotFound),
            (404, "ContainerNotFound", Kind::Unavailable),
            (404, "", Kind::Unavailable),
            (409, "BlobAlreadyExists", Kind::Exists),
            (412, "ConditionNotMet", Kind::Changed),
            (412, "LeaseIdMissing", Kind::Busy),
            (409, "LeaseAlreadyPresent", Kind::Busy),
            (409, "BlobArchived", Kind::Archived),
            (409, "SnapshotsPresent", Kind::Refused),
            (409, "PendingCopyOperation", Kind::Busy),
            (409, "ContainerBeingDeleted", Kind::Unavailable),
            (403, "AuthenticationFailed", Kind::Denied),
            (401, "", Kind::Denied),
            (400, "InvalidMetadata", Kind::Refused),
            (400, "InvalidBlockList", Kind::Changed),
            (429, "", Kind::Unavailable),
            (500, "OperationTimedOut", Kind::TimedOut),
            (503, "ServerBusy", Kind::Unavailable),
            (302, "", Kind::Corrupt),
        ] {
            assert_eq!(answered(status, code).kind, kind, "{status} {code}");
        }
    }

    #[test]
    fn a_refusal_is_a_known_outcome_and_a_lost_answer_is_not() {
        assert!(
            !answered(503, "ServerBusy").outcome_unknown && !answered(412, "ConditionNotMet").outcome_unknown
        );
        assert!(
            answered(502, "").outcome_unknown && Failure::timed_out(Duration::from_secs(1)).outcome_unknown
        );
    }

    #[test]
    fn the_body_supplies_what_headers_lack() {
        let body = "\u{feff}<?xml version=\"1.0\"?><Error><Code>InvalidMetadata</Code><Message>Bad.\nRequestId: 1</Message></Error>";
        let failure = Failure::answered(StatusCode::BAD_REQUEST, &HeaderMap::new(), body.as_bytes());
        let error = failure.into_error("put x");
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (Kind::Refused, "put x: 400 InvalidMetadata: Bad.")
        );
    }

    #[test]
    fn secrets_are_not_repeated() {
        let body = "<Error><Code>X</Code><Message>https://h/c?sv=1&amp;sig=abc%3D refused</Message></Error>";
        let failure = Failure::answered(StatusCode::BAD_REQUEST, &HeaderMap::new(), body.as_bytes());
        assert_eq!(failure.into_error("get").to_string(), "get: 400 X: … refused");
    }

    #[test]
    fn retry_after_is_kept() {
        let pause = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            Failure::answered(StatusCode::SERVICE_UNAVAILABLE, &headers, b"").into_error("x").retry_after()
        };
        assert_eq!(pause("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(pause("x-ms-retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(pause("retry-after", "99999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(pause("retry-after", "-3"), None);
        assert_eq!(pause("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT"), Some(RETRY_AFTER_MAX));
    }

    #[test]
    fn long_and_deep_bodies_are_survived() {
        let deep = super::super::ERROR_MAX / 3;
        for body in [
            "<a>".repeat(deep),
            "<Error>".repeat(deep / 2),
            "&#1;".repeat(deep),
            "\0".repeat(deep),
            "<".repeat(deep),
        ] {
            let failure = Failure::answered(StatusCode::NOT_FOUND, &HeaderMap::new(), body.as_bytes());
            assert_eq!((failure.kind, failure.code.as_str()), (Kind::Unavailable, ""));
            let message = format!("<Error><Code>{body}</Code><Message>{body}</Message></Error>");
            let failure = Failure::answered(StatusCode::NOT_FOUND, &HeaderMap::new(), message.as_bytes());
            assert!(failure.kind == Kind::Unavailable && failure.into_error("x").to_string().len() < 1000);
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(status in 100u16..1000, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let failure = Failure::answered(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), &body);
            prop_assert!(failure.kind != Kind::NotFound || failure.code == "BlobNotFound");
        }

        #[test]
        fn a_cut_body_is_still_a_refusal(cut in 0usize..120) {
            let body = "<?xml version=\"1.0\"?><Error><Code>BlobNotFound</Code><Message>no</Message><A><B/></A></Error>";
            let cut = cut.min(body.len());
            let failure = Failure::answered(StatusCode::NOT_FOUND, &HeaderMap::new(), &body.as_bytes()[..cut]);
            prop_assert_eq!(failure.kind == Kind::NotFound, failure.code == "BlobNotFound");
        }

        #[test]
        fn any_xml_is_survived(code in ".{0,20}", message in ".{0,300}") {
            let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
            let error = Failure::answered(StatusCode::BAD_REQUEST, &HeaderMap::new(), body.as_bytes()).into_error("");
            prop_assert!(error.to_string().chars().count() < 400);
        }
    }
}
