//! A short-lived signature that lets the service read one blob on our behalf, from an account key.
//!
//! object_store's own signer takes the percent-encoded path, which the service refuses for names that need encoding.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use percent_encoding::utf8_percent_encode;
use ring::hmac;
use std::time::{Duration, SystemTime};

/// The version whose string-to-sign this is.
const VERSION: &str = "2020-12-06";

/// A copy's request is answered within its time-out; clocks differ.
const VALID_FOR: Duration = Duration::from_secs(60 * 60);

/// The query that grants reading `blob`.
pub(super) fn read_blob(key: &[u8], account: &str, container_url: &str, blob: &str) -> String {
    sign(key, account, container_url, blob, SystemTime::now() + VALID_FOR)
}

fn sign(key: &[u8], account: &str, container_url: &str, blob: &str, expiry: SystemTime) -> String {
    let container = container_url.rsplit('/').next().unwrap_or_default();
    let expiry = DateTime::<Utc>::from(expiry).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    // permissions, start, expiry, resource, identifier, ip, protocol, version, kind, snapshot, scope, 5 headers
    let to_sign =
        format!("r\n\n{expiry}\n/blob/{account}/{container}/{blob}\n\n\n\n{VERSION}\nb\n\n\n\n\n\n\n");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), to_sign.as_bytes());
    let encode = |text: &str| utf8_percent_encode(text, super::URL_UNSAFE).to_string();
    let signature = encode(&BASE64_STANDARD.encode(tag.as_ref()));
    format!("sv={VERSION}&sp=r&se={}&sr=b&sig={signature}", encode(&expiry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_covers_sixteen_lines_and_hides_the_key() {
        let query = sign(b"secret", "acc", "https://acc.blob/cont", "a/é", SystemTime::UNIX_EPOCH);
        let to_sign = "r\n\n1970-01-01T00:00:00Z\n/blob/acc/cont/a/é\n\n\n\n2020-12-06\nb\n\n\n\n\n\n\n";
        assert_eq!(to_sign.split('\n').count(), 16);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"secret"), to_sign.as_bytes());
        let signature =
            utf8_percent_encode(&BASE64_STANDARD.encode(tag), super::super::URL_UNSAFE).to_string();
        assert_eq!(query, format!("sv=2020-12-06&sp=r&se=1970-01-01T00%3A00%3A00Z&sr=b&sig={signature}"));
    }
}
