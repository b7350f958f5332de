//! Where a blob tier is. Errors never repeat the URL: it may hold a secret where none belongs.

use super::absolute_path;
use crate::config::expand::Environment;
use crate::types::Key;
use crate::types::blob::BlobLocation;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// Names of the account in the environment, as other Azure tools know them.
pub(super) const ACCOUNT_NAMES: [&str; 2] = ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"];
/// Name of the account's address in the environment, where it is not the usual one.
const ENDPOINT_NAME: &str = "AZURE_STORAGE_BLOB_ENDPOINT";
const EXAMPLE: &str = "\"https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX\"";

/// Reads a URL; the error goes on after the word `url`.
pub(super) fn parse(text: &str, environment: Environment<'_>) -> Result<BlobLocation, String> {
    let url = Url::parse(text).map_err(|error| format!("is no URL ({error}); write {EXAMPLE}"))?;
    refuse_extras(&url)?;
    match url.scheme() {
        "https" | "http" => over_http(&url),
        "az" => by_container(&url, environment),
        "file" => in_directory(&url),
        "abfs" | "abfss" | "wasb" | "wasbs" => Err(format!("is for Hadoop; write {}", from_hadoop(&url))),
        "azure" | "blob" => Err("has an unknown scheme; write \"az://CONTAINER/PREFIX\"".into()),
        _ => Err(format!("has the scheme `{}`; write {EXAMPLE}", url.scheme())),
    }
}

fn refuse_extras(url: &Url) -> Result<(), String> {
    let is_hadoop = url.scheme().starts_with("abfs") || url.scheme().starts_with("wasb");
    if url.query_pairs().any(|(name, _)| name == "sig") {
        return Err("holds a SAS token, and secrets don't belong in a config; cut it off at the `?`, and write sas_file = \"/path/of/a/file\" or set AZURE_STORAGE_SAS_TOKEN".into());
    }
    if url.password().is_some() || (!url.username().is_empty() && !is_hadoop) {
        return Err(
            "holds a user name; write it without, and key_file = \"/path/of/a/file\" or auth = \"auto\""
                .into(),
        );
    }
    if url.query().is_some() {
        return Err("has a query; cut it off at the `?` (write %3F for a `?` in a prefix)".into());
    }
    if url.fragment().is_some() {
        return Err("has a `#`; write %23 for it in a prefix".into());
    }
    Ok(())
}

fn over_http(url: &Url) -> Result<BlobLocation, String> {
    let host = url.host().ok_or_else(|| format!("names no host; write {EXAMPLE}"))?;
    let is_azure =
        matches!(host, Host::Domain(name) if name.ends_with(".windows.net") || name.ends_with(".azure.net"));
    if is_azure && url.scheme() == "http" {
        return Err("would send data in the clear; write https:// (http:// is for emulators)".into());
    }
    if let Host::Domain(name) = host
        && let Some((account, domain)) = name.split_once(".dfs.")
    {
        return Err(format!("is the Data Lake endpoint; write https://{account}.blob.{domain}"));
    }
    let mut names = path_names(url)?.into_iter();
    let mut endpoint = url.origin().ascii_serialization();
    let account_in_path = url.scheme() == "http" || !matches!(host, Host::Domain(name) if name.contains('.'));
    let account = if account_in_path {
        let account =
            names.next().ok_or("names no account; write \"http://HOST:PORT/ACCOUNT/CONTAINER/PREFIX\"")?;
        endpoint = format!("{endpoint}/{account}");
        account
    } else {
        url.host_str().and_then(|host| host.split('.').next()).unwrap_or_default().to_owned()
    };
    let container = names.next().ok_or_else(|| {
        let whole = if account_in_path { "\"http://HOST:PORT/ACCOUNT/CONTAINER/PREFIX\"" } else { EXAMPLE };
        format!("names no container; write {whole}")
    })?;
    azure(endpoint, account, container, names)
}

fn by_container(url: &Url, environment: Environment<'_>) -> Result<BlobLocation, String> {
    let container = url.host_str().unwrap_or_default().to_owned();
    let account = environment.first_of(&ACCOUNT_NAMES).ok_or_else(|| {
        format!("names no account, and AZURE_STORAGE_ACCOUNT is not set; set it, or write {EXAMPLE}")
    })?;
    if !account.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Err(format!(
            "takes its account from AZURE_STORAGE_ACCOUNT, and {account:?} is none; set the bare name"
        ));
    }
    let endpoint = match environment.first_of(&[ENDPOINT_NAME]) {
        Some(given) => endpoint(&given)?,
        None => format!("https://{account}.blob.core.windows.net"),
    };
    azure(endpoint, account, container, path_names(url)?.into_iter())
}

/// An account's address from the environment.
fn endpoint(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "takes its address from {ENDPOINT_NAME}, which is none; set https://ACCOUNT.blob.core.windows.net"
        )
    };
    let url = Url::parse(text).map_err(|_not_repeated| wrong())?;
    let is_plain = refuse_extras(&url).is_ok() && matches!(url.scheme(), "https" | "http");
    if is_plain && url.has_host() { Ok(text.trim_end_matches('/').to_owned()) } else { Err(wrong()) }
}

fn azure(
    endpoint: String,
    account: String,
    container: String,
    prefix: impl Iterator<Item = String>,
) -> Result<BlobLocation, String> {
    check_container(&container)?;
    let prefix = prefix.collect::<Vec<_>>().join("/");
    let prefix = Key::parse(&prefix)
        .map_err(|error| format!("has a prefix that is {error}; write names with single slashes between"))?;
    Ok(BlobLocation::Azure { endpoint, account, container, prefix })
}

fn check_container(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_plain = (3..=63).contains(&name.len()) && name.chars().all(plain);
    let has_good_dashes = !name.starts_with('-') && !name.ends_with('-') && !name.contains("--");
    if matches!(name, "$root" | "$web") || (is_plain && has_good_dashes) {
        return Ok(());
    }
    Err(format!(
        "has the container `{name}`; containers have 3 to 63 small letters, digits and single dashes"
    ))
}

fn in_directory(url: &Url) -> Result<BlobLocation, String> {
    if url.host().is_some() {
        return Err("names a host; write three slashes: \"file:///DIRECTORY\"".into());
    }
    let path = decoded(url.path())?;
    let path = absolute_path(&path)?;
    if path.parent().is_none() {
        Err("is the root of the machine; write a directory of its own".into())
    } else {
        Ok(BlobLocation::Directory(path))
    }
}

/// The names of the path, decoded; slashes at the end don't count.
fn path_names(url: &Url) -> Result<Vec<String>, String> {
    let path = url.path().trim_start_matches('/').trim_end_matches('/');
    if path.is_empty() { Ok(Vec::new()) } else { path.split('/').map(decoded).collect() }
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|error| format!("is not UTF-8 once decoded ({error}); write it as text"))
}

fn from_hadoop(url: &Url) -> String {
    let account = url.host_str().and_then(|host| host.split('.').next()).unwrap_or("ACCOUNT");
    let container = if url.username().is_empty() { "CONTAINER" } else { url.username() };
    format!("\"https://{account}.blob.core.windows.net/{container}{}\"", url.path().trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<BlobLocation, String> {
        parse(text, Environment::new(&|name| (name == "AZURE_STORAGE_ACCOUNT").then(|| "blue".to_owned())))
    }

    fn location(endpoint: &str, account: &str, container: &str, prefix: &str) -> BlobLocation {
        let prefix = Key::parse(prefix).unwrap();
        BlobLocation::Azure {
            endpoint: endpoint.into(),
            account: account.into(),
            container: container.into(),
            prefix,
        }
    }

    #[test]
    fn every_form_is_understood() {
        let blue = "https://blue.blob.core.windows.net";
        for (text, expected) in [
            ("https://blue.blob.core.windows.net/training/a/b", location(blue, "blue", "training", "a/b")),
            ("https://blue.blob.core.windows.net/training/", location(blue, "blue", "training", "")),
            ("az://training/a%20b%23/", location(blue, "blue", "training", "a b#")),
            ("az://training", location(blue, "blue", "training", "")),
            (
                "http://127.0.0.1:10000/devstoreaccount1/test/x",
                location("http://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1", "test", "x"),
            ),
            (
                "https://localhost:10000/devstoreaccount1/test",
                location("https://localhost:10000/devstoreaccount1", "devstoreaccount1", "test", ""),
            ),
            ("file:///tmp/my%20blob/", BlobLocation::Directory("/tmp/my blob".into())),
        ] {
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
        assert!(parsed("http://azurite:10000/acc/test").unwrap().is_emulator());
        assert!(!parsed("az://training").unwrap().is_emulator());
    }

    #[test]
    fn an_address_in_the_environment_counts() {
        let with = |address: &'static str| {
            let find = move |name: &str| match name {
                "AZURE_STORAGE_ACCOUNT" => Some("blue".to_owned()),
                "AZURE_STORAGE_BLOB_ENDPOINT" => Some(address.to_owned()),
                _ => None,
            };
            parse("az://training/x", Environment::new(&find))
        };
        let china = "https://blue.blob.core.chinacloudapi.cn";
        assert_eq!(
            with("https://blue.blob.core.chinacloudapi.cn/"),
            Ok(location(china, "blue", "training", "x"))
        );
        for wrong in ["blue", "https://h.x/?sig=SECRET", "ftp://h.x", "https://user:SECRET@h.x"] {
            let said = with(wrong).unwrap_err();
            assert!(said.contains("AZURE_STORAGE_BLOB_ENDPOINT") && !said.contains("SECRET"), "{said}");
        }
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (text, better) in [
            ("training/prefix", "https://ACCOUNT"),
            ("https://blue.blob.core.windows.net", "no container"),
            ("https://blue.dfs.core.windows.net/training", "blue.blob.core.windows.net"),
            ("http://blue.blob.core.windows.net/training", "write https://"),
            ("http://127.0.0.1:10000/", "no account"),
            ("http://127.0.0.1:10000/acc", "no container"),
            ("az://Training", "`Training`"),
            ("az://tr", "3 to 63"),
            ("az://training/a//b", "single slashes"),
            ("az://training/a#b", "%23"),
            ("az://training/a?b", "%3F"),
            (
                "abfss://training@blue.dfs.core.windows.net/x",
                "\"https://blue.blob.core.windows.net/training/x\"",
            ),
            ("s3://bucket", "`s3`"),
            ("file://tmp/x", "three slashes"),
            ("file:///", "root of the machine"),
        ] {
            let said = parsed(text).unwrap_err();
            assert!(said.contains(better), "{text}: {said}");
        }
        assert!(
            parse("az://training", Environment::new(&|_| None))
                .unwrap_err()
                .contains("AZURE_STORAGE_ACCOUNT is not set")
        );
    }

    #[test]
    fn secrets_are_never_repeated() {
        for text in [
            "https://a.blob.core.windows.net/c?sv=1&sig=SECRET",
            "https://user:SECRET@h.x/c",
            "az://c?SECRET",
            "SECRET",
        ] {
            let said = parsed(text).unwrap_err();
            assert!(!said.contains("SECRET"), "{said}");
        }
    }
}
