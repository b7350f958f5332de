//! Where a blob tier is and how to get in: what the config says, and the forms a url can have.

use super::azrest::is_near;
use crate::error::{Error, Kind, Result};
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use url::Url;

/// How a blob tier proves who it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// The first that is configured: `key_file`, `sas_file`, AZURE_STORAGE_AUTH_TYPE, an account key, a SAS, a
    /// workload identity, a service principal; otherwise the machine's managed identity.
    #[default]
    Auto,
    /// The managed identity of the machine.
    Msi,
    /// A Kubernetes workload identity (federated token file).
    Workload,
    /// A service principal with a secret.
    Spn,
    /// A shared access signature.
    Sas,
    /// The account's key.
    Key,
    /// Whoever is logged in to the Azure command line.
    Cli,
}

impl Auth {
    /// The names in the config.
    pub const NAMES: [(&str, Self); 7] = [
        ("auto", Self::Auto),
        ("msi", Self::Msi),
        ("workload", Self::Workload),
        ("spn", Self::Spn),
        ("sas", Self::Sas),
        ("key", Self::Key),
        ("cli", Self::Cli),
    ];
}

impl std::str::FromStr for Auth {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // What blobfuse2 calls the last one.
        let wanted = if text.eq_ignore_ascii_case("azcli") { "cli" } else { text };
        Self::NAMES
            .iter()
            .find(|(name, _)| wanted.eq_ignore_ascii_case(name))
            .map(|(_, auth)| *auth)
            .ok_or_else(|| {
                let names = Self::NAMES.map(|(name, _)| name).join(", ");
                Error::new(Kind::Invalid, format!("auth can't be {text:?}; use one of {names}"))
            })
    }
}

/// What the config says of a blob tier.
#[derive(Clone, Debug, Default)]
pub struct BlobOptions {
    /// Its name.
    pub name: String,
    /// `https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX`, `az://CONTAINER/PREFIX` (account from
    /// AZURE_STORAGE_ACCOUNT), an emulator's `http://HOST:PORT/ACCOUNT/CONTAINER/PREFIX`, or `file:///DIRECTORY`.
    pub url: String,
    /// How to prove who we are.
    pub auth: Auth,
    /// Which managed identity, workload or service principal.
    pub client_id: Option<String>,
    /// A managed identity by its resource id.
    pub resource_id: Option<String>,
    /// A file with a SAS; read again when it changes.
    pub sas_file: Option<PathBuf>,
    /// A file with an account key; read again when it changes.
    pub key_file: Option<PathBuf>,
    /// Access tier of what is written: `Hot`, `Cool` or `Cold`; the account's default if none.
    pub access_tier: Option<String>,
    /// What `df` shows as its size.
    pub capacity: Option<u64>,
}

/// A url taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A container of an account.
    Azure {
        /// The account's name.
        account: String,
        /// The container's url, without a slash at its end.
        container_url: String,
        /// Without slashes at its ends; may be empty.
        prefix: String,
        /// An emulator: its well-known key may be used.
        emulator: bool,
    },
    /// A directory of this machine.
    Directory(PathBuf),
}

/// The account that every emulator has.
pub(super) const EMULATOR_ACCOUNT: &str = "devstoreaccount1";

impl Location {
    /// Takes `url` apart; `env` answers for environment variables.
    ///
    /// # Errors
    /// [`Kind::Invalid`] with what to write instead.
    pub(super) fn parse(url: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let parsed = Url::parse(url)
            .map_err(|error| invalid(format!("url {:?}", without_query(url))).with_source(error))?;
        if parsed.query().is_some() || !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(invalid("a url must not hold a SAS or password; put the SAS into sas_file"));
        }
        match parsed.scheme() {
            "file" => match parsed.to_file_path() {
                Ok(path) if parsed.host().is_none() => Ok(Self::Directory(path)),
                _ => Err(invalid("write a directory as file:///absolute/path")),
            },
            "az" | "azure" => Self::short(&parsed, env),
            "https" | "http" => Self::full(&parsed),
            other => Err(invalid(format!("scheme {other}:// is none of https, http, az, file"))),
        }
    }

    fn short(url: &Url, env: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let account =
            ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"].iter().find_map(|name| env(name));
        let account = account.ok_or_else(|| {
            invalid("az:// needs the account: set AZURE_STORAGE_ACCOUNT, or write https://ACCOUNT.blob.core.windows.net/…")
        })?;
        let container = url.host_str().unwrap_or_default().to_owned();
        let endpoint = env("AZURE_STORAGE_BLOB_ENDPOINT").filter(|endpoint| !endpoint.is_empty());
        let endpoint = endpoint.unwrap_or_else(|| format!("https://{account}.blob.core.windows.net"));
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let parsed = Url::parse(&endpoint)
            .map_err(|error| invalid("AZURE_STORAGE_BLOB_ENDPOINT is no url").with_source(error))?;
        Self::azure(&parsed, account, &endpoint, &container, url.path().trim_start_matches('/'))
    }

    fn full(url: &Url) -> Result<Self> {
        let origin = url.origin().ascii_serialization();
        let path = url.path().trim_start_matches('/');
        let host = url.host_str().unwrap_or_default();
        let in_host = host.split_once(".blob.").map(|(account, _)| account.to_owned());
        let (account, endpoint, rest) = match in_host {
            Some(account) if !account.is_empty() => (account, origin, path),
            // Emulators, and hosts without the account in their name, have it first in the path.
            _ => {
                let (account, rest) = path.split_once('/').unwrap_or((path, ""));
                (account.to_owned(), format!("{origin}/{account}"), rest)
            }
        };
        let (container, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        Self::azure(url, account, &endpoint, container, prefix)
    }

    fn azure(url: &Url, account: String, endpoint: &str, container: &str, prefix: &str) -> Result<Self> {
        let plain = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'$')
        };
        if !plain(&account) {
            return Err(invalid(
                "the account is missing: write https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX",
            ));
        }
        if !plain(container) {
            return Err(invalid(
                "the container is missing: write https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX",
            ));
        }
        let prefix = percent_decode_str(prefix.trim_end_matches('/')).decode_utf8();
        let prefix =
            prefix.map_err(|error| invalid("the prefix is not UTF-8").with_source(error))?.into_owned();
        if !prefix.is_empty() && crate::types::Key::parse(&prefix).is_err() {
            return Err(invalid("the prefix has an empty segment, . or .."));
        }
        let emulator = account == EMULATOR_ACCOUNT || is_near(url.host());
        Ok(Self::Azure { account, container_url: format!("{endpoint}/{container}"), prefix, emulator })
    }
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(Kind::Invalid, text.into())
}

fn without_query(url: &str) -> &str {
    url.split(['?', '@']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Location> {
        Location::parse(url, &|name| match name {
            "AZURE_STORAGE_ACCOUNT" => Some("envacc".into()),
            _ => None,
        })
    }

    fn azure(account: &str, container_url: &str, prefix: &str, emulator: bool) -> Location {
        let (account, container_url, prefix) = (account.into(), container_url.into(), prefix.into());
        Location::Azure { account, container_url, prefix, emulator }
    }

    #[test]
    fn the_documented_forms_are_read() {
        let real = "https://acc.blob.core.windows.net";
        let c = format!("{real}/c");
        assert_eq!(parse(&format!("{c}/p/q")).unwrap(), azure("acc", &c, "p/q", false));
        assert_eq!(parse(&c).unwrap(), azure("acc", &c, "", false));
        assert_eq!(parse(&format!("{c}/")).unwrap(), azure("acc", &c, "", false));
        assert_eq!(parse(&format!("{c}/a%20b")).unwrap(), azure("acc", &c, "a b", false));
        let env = "https://envacc.blob.core.windows.net/c";
        assert_eq!(parse("az://c/p/").unwrap(), azure("envacc", env, "p", false));
        let local = "http://127.0.0.1:10000/devstoreaccount1/c";
        assert_eq!(parse(&format!("{local}/p")).unwrap(), azure("devstoreaccount1", local, "p", true));
        assert_eq!(parse("file:///x/y").unwrap(), Location::Directory("/x/y".into()));
    }

    #[test]
    fn bad_urls_say_what_to_write() {
        for url in [
            "",
            "c",
            "s3://b",
            "https://acc.blob.core.windows.net",
            "https://example.com/",
            "file://host/x",
            "az://",
            "https://acc.blob.core.windows.net/c//p",
            "https://acc.blob.core.windows.net/c/p?sv=1&sig=s3cret",
            "https://u:pw@acc.blob.core.windows.net/c",
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{url}");
            assert!(!error.to_string().contains("s3cret") && !error.to_string().contains("pw"), "{error}");
        }
        let error = Location::parse("az://c", &|_| None).unwrap_err();
        assert!(error.to_string().contains("AZURE_STORAGE_ACCOUNT"));
    }

    #[test]
    fn auth_is_read_by_name() {
        for (name, auth) in Auth::NAMES {
            assert_eq!(name.parse::<Auth>().unwrap(), auth);
        }
        assert_eq!("azcli".parse::<Auth>().unwrap(), Auth::Cli);
        assert!("password".parse::<Auth>().unwrap_err().to_string().contains("workload"));
    }
}
