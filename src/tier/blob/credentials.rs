//! Who we are to Azure: from options and the environment names that blobfuse2 and the Azure tools use.
//!
//! Tokens are object_store's business (fetched, cached, renewed before they expire). Keys and signatures are read
//! here, so that files are read again when they change and a key can sign copy sources. No `Debug` shows a secret.

use super::azrest::{Failure, Outcome, Transport};
use super::options::BlobOptions;
use crate::error::{Error, Kind, Result};
use crate::types::blob::{Auth, EMULATOR_ACCOUNT, KEY_NAMES, SAS_NAMES};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object_store::RetryConfig;
use object_store::azure::{
    AzureAccessKey, AzureCredential, AzureCredentialProvider, MicrosoftAzureBuilder, split_sas,
};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How long a token may take.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);

const NO_TOKEN: &str = "no token; if this machine has no identity of its own, set auth, key_file or sas_file";

/// Longest secret file that is read.
const SECRET_MAX: u64 = 64 * 1024;

/// The emulator's key: public, the same everywhere.
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Credentials of one account.
pub(super) enum Credentials {
    /// A key or signature that does not change.
    Fixed(Secret),
    /// A key or signature in a file.
    File(SecretFile),
    /// Tokens.
    Token(Box<Tokens>),
}

/// Tokens of one identity. The provider renews what ends; what was taken back before its end only a new provider replaces.
pub(super) struct Tokens {
    builder: MicrosoftAzureBuilder,
    current: Mutex<(AzureCredentialProvider, Option<Instant>)>,
}

/// Pause between two new providers: a service that refuses every token must not make us ask for ever more.
const REPLACE_PAUSE: Duration = Duration::from_secs(10);

/// A key or signature.
#[derive(Clone)]
pub(super) struct Secret {
    credential: Arc<AzureCredential>,
    key: Option<Arc<[u8]>>,
}

/// What a secret's text is.
#[derive(Clone, Copy)]
enum Form {
    Key,
    Sas,
}

/// When a file last changed, and its size.
type Stamp = (SystemTime, u64);

/// A secret in a file that others may replace.
pub(super) struct SecretFile {
    path: PathBuf,
    form: Form,
    current: Mutex<(Stamp, Secret)>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Credentials(fixed)",
            Self::File(_) => "Credentials(file)",
            Self::Token(_) => "Credentials(token)",
        })
    }
}

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Credentials {
    /// What `options` and the environment say.
    ///
    /// # Errors
    /// [`Kind::Invalid`] with what is missing; the environment is only looked at, no request is sent.
    pub(super) fn resolve(
        options: &BlobOptions,
        account: &str,
        env: Env<'_>,
        transport: &Transport,
    ) -> Result<Self> {
        let auth = match options.auth {
            Auth::Auto => automatic(options, env)?.unwrap_or(default(options)),
            auth => auth,
        };
        match auth {
            Auth::Key => Self::key(options, account, env),
            Auth::Sas => Self::sas(options, env),
            auth => Tokens::new(token(auth, options, account, env, transport)?)
                .map(|tokens| Self::Token(Box::new(tokens))),
        }
    }

    fn key(options: &BlobOptions, account: &str, env: Env<'_>) -> Result<Self> {
        if let Some(path) = &options.key_file {
            return SecretFile::open(path, Form::Key).map(Self::File);
        }
        let emulator = || (account == EMULATOR_ACCOUNT).then(|| EMULATOR_KEY.to_owned());
        let text = first(env, &KEY_NAMES).or_else(emulator).ok_or_else(|| missing("key_file", &KEY_NAMES))?;
        Secret::parse(&text, Form::Key).map(Self::Fixed)
    }

    fn sas(options: &BlobOptions, env: Env<'_>) -> Result<Self> {
        if let Some(path) = &options.sas_file {
            return SecretFile::open(path, Form::Sas).map(Self::File);
        }
        let text = first(env, &SAS_NAMES).ok_or_else(|| missing("sas_file", &SAS_NAMES))?;
        Secret::parse(&text, Form::Sas).map(Self::Fixed)
    }

    /// The credential to sign with now.
    ///
    /// # Errors
    /// [`Kind::Denied`] or [`Kind::TimedOut`] if no token could be had.
    pub(super) async fn get(&self) -> Outcome<Arc<AzureCredential>> {
        match self {
            Self::Fixed(secret) => Ok(Arc::clone(&secret.credential)),
            Self::File(file) => Ok(file.secret().credential),
            Self::Token(tokens) => tokens.get().await,
        }
    }

    /// After a refusal of `used`: whether there are other credentials now.
    pub(super) async fn renewed(&self, used: &AzureCredential) -> bool {
        match self {
            Self::Fixed(_) => return false,
            Self::File(file) => file.reread(),
            Self::Token(tokens) => tokens.replace(used).await,
        }
        self.get().await.is_ok_and(|now| *now != *used)
    }

    /// The account's key, if that is what we have.
    pub(super) fn account_key(&self) -> Option<Arc<[u8]>> {
        match self {
            Self::Fixed(secret) => secret.key.clone(),
            Self::File(file) => file.secret().key,
            Self::Token(_) => None,
        }
    }
}

impl Tokens {
    fn new(builder: MicrosoftAzureBuilder) -> Result<Self> {
        let provider = provider(&builder)?;
        Ok(Self { builder, current: Mutex::new((provider, None)) })
    }

    async fn get(&self) -> Outcome<Arc<AzureCredential>> {
        let provider = Arc::clone(&self.current.lock().0);
        match tokio::time::timeout(TOKEN_TIMEOUT, provider.get_credential()).await {
            Ok(Ok(credential)) => Ok(credential),
            // Not a refusal of the tier: the token service may be back in a minute.
            Ok(Err(error)) => Err(Failure::new(Kind::Unavailable, NO_TOKEN).with_source(error)),
            Err(elapsed) => Err(Failure::new(Kind::TimedOut, "no token in time").with_source(elapsed)),
        }
    }

    /// Takes a new provider, unless another caller did since `used` was handed out.
    async fn replace(&self, used: &AzureCredential) {
        if self.get().await.is_ok_and(|now| *now != *used) {
            return;
        }
        let mut current = self.current.lock();
        if current.1.is_some_and(|at| at.elapsed() < REPLACE_PAUSE) {
            return;
        }
        match provider(&self.builder) {
            Ok(provider) => *current = (provider, Some(Instant::now())),
            Err(error) => tracing::warn!(%error, "can't ask for a new token"),
        }
    }
}

fn provider(builder: &MicrosoftAzureBuilder) -> Result<AzureCredentialProvider> {
    let store = builder
        .clone()
        .build()
        .map_err(|error| Error::new(Kind::Invalid, "credentials").with_source(error))?;
    Ok(Arc::clone(store.credentials()))
}

impl Secret {
    fn parse(text: &str, form: Form) -> Result<Self> {
        let text = text.trim();
        match form {
            Form::Key => {
                let bad = |error: &dyn std::fmt::Display| {
                    Error::new(Kind::Invalid, format!("the account key is not base64: {error}"))
                };
                let key = BASE64_STANDARD.decode(text).map_err(|error| bad(&error))?;
                let access = AzureAccessKey::try_new(text).map_err(|error| bad(&error))?;
                Ok(Self { credential: Arc::new(AzureCredential::AccessKey(access)), key: Some(key.into()) })
            }
            Form::Sas => {
                let pairs = split_sas(text)
                    .map_err(|error| Error::new(Kind::Invalid, "the SAS is no SAS").with_source(error))?;
                if !pairs.iter().any(|(name, _)| name == "sig") {
                    return Err(Error::new(Kind::Invalid, "the SAS has no sig= part"));
                }
                Ok(Self { credential: Arc::new(AzureCredential::SASToken(pairs)), key: None })
            }
        }
    }
}

impl SecretFile {
    fn open(path: &Path, form: Form) -> Result<Self> {
        let first = read(path, form).map_err(|error| error.context(path.display()))?;
        Ok(Self { path: path.to_owned(), form, current: Mutex::new(first) })
    }

    fn secret(&self) -> Secret {
        let stamp = self.current.lock().0;
        if stamp_of(&self.path).is_ok_and(|now| now != stamp) {
            self.reread();
        }
        self.current.lock().1.clone()
    }

    /// Reads the file again. What can't be read now does not lose what was there.
    fn reread(&self) {
        match read(&self.path, self.form) {
            Ok(read) => *self.current.lock() = read,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "can't read the credentials again; the old ones stay");
            }
        }
    }
}

fn stamp_of(path: &Path) -> Result<Stamp> {
    let meta = std::fs::metadata(path)?;
    Ok((meta.modified()?, meta.len()))
}

fn read(path: &Path, form: Form) -> Result<(Stamp, Secret)> {
    let stamp = stamp_of(path)?;
    if stamp.1 > SECRET_MAX {
        return Err(Error::new(Kind::Invalid, "too long for a secret"));
    }
    Ok((stamp, Secret::parse(&std::fs::read_to_string(path)?, form)?))
}

const SPN_ID: [&str; 3] = ["AZURE_STORAGE_SPN_CLIENT_ID", "AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID"];
const SPN_SECRET: [&str; 3] =
    ["AZURE_STORAGE_SPN_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"];
const TENANT: [&str; 3] = ["AZURE_STORAGE_SPN_TENANT_ID", "AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID"];
const TOKEN_FILE: [&str; 2] = ["AZURE_FEDERATED_TOKEN_FILE", "AZURE_OAUTH_TOKEN_FILE"];
const AUTHORITY: [&str; 2] = ["AZURE_AUTHORITY_HOST", "AZURE_STORAGE_AAD_ENDPOINT"];
const MSI_ID: [&str; 1] = ["AZURE_STORAGE_IDENTITY_CLIENT_ID"];
const MSI_OBJECT: [&str; 1] = ["AZURE_STORAGE_IDENTITY_OBJECT_ID"];
const MSI_RESOURCE: [&str; 1] = ["AZURE_STORAGE_IDENTITY_RESOURCE_ID"];
const MSI_ENDPOINT: [&str; 2] = ["IDENTITY_ENDPOINT", "MSI_ENDPOINT"];

fn first(env: Env<'_>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| env(name).filter(|value| !value.is_empty()))
}

fn missing(option: &str, names: &[&str]) -> Error {
    Error::new(
        Kind::Invalid,
        format!("set {option} in the tier's config, or {} in the environment", names[0]),
    )
}

/// What options and environment point to, if to anything.
fn automatic(options: &BlobOptions, env: Env<'_>) -> Result<Option<Auth>> {
    let has = |names: &[&str]| first(env, names).is_some();
    if options.key_file.is_some() {
        return Ok(Some(Auth::Key));
    }
    if options.sas_file.is_some() {
        return Ok(Some(Auth::Sas));
    }
    if let Some(wanted) = first(env, &["AZURE_STORAGE_AUTH_TYPE"]) {
        return auth_type(&wanted).map(Some);
    }
    let candidates = [
        (has(&KEY_NAMES), Auth::Key),
        (has(&SAS_NAMES), Auth::Sas),
        (has(&TOKEN_FILE) && has(&TENANT), Auth::Workload),
        (has(&SPN_SECRET) && has(&TENANT), Auth::Spn),
    ];
    Ok(candidates.iter().find(|(there, _)| *there).map(|(_, auth)| *auth))
}

/// How blobfuse2 says it.
fn auth_type(text: &str) -> Result<Auth> {
    let wanted = if text.eq_ignore_ascii_case("azcli") { "cli" } else { text };
    let found = Auth::WORDS.iter().find(|(word, _)| wanted.eq_ignore_ascii_case(word));
    found.map(|(_, auth)| *auth).ok_or_else(|| {
        let words = Auth::WORDS.map(|(word, _)| word).join(", ");
        Error::new(Kind::Invalid, format!("AZURE_STORAGE_AUTH_TYPE can't be {text:?}; use one of {words}"))
    })
}

/// An emulator's key is known; a machine in Azure has an identity.
fn default(options: &BlobOptions) -> Auth {
    if options.location.is_emulator() { Auth::Key } else { Auth::Msi }
}

/// What makes object_store's providers of tokens for `auth`.
fn token(
    auth: Auth,
    options: &BlobOptions,
    account: &str,
    env: Env<'_>,
    transport: &Transport,
) -> Result<MicrosoftAzureBuilder> {
    let need = |option: &str, given: Option<&String>, names: &[&str]| {
        given.cloned().or_else(|| first(env, names)).ok_or_else(|| missing(option, names))
    };
    let retry = RetryConfig { max_retries: 3, retry_timeout: TOKEN_TIMEOUT, ..RetryConfig::default() };
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(account)
        // Only its credentials are used.
        .with_container_name("none")
        .with_retry(retry)
        .with_http_connector(transport.clone());
    if let Some(authority) = first(env, &AUTHORITY) {
        builder = builder.with_authority_host(authority.trim_end_matches('/'));
    }
    Ok(match auth {
        Auth::Workload => builder
            .with_credential_type("workload_identity")
            .with_client_id(need("client_id", options.client_id.as_ref(), &["AZURE_CLIENT_ID"])?)
            .with_tenant_id(need("AZURE_TENANT_ID", None, &TENANT)?)
            .with_federated_token_file(need("AZURE_FEDERATED_TOKEN_FILE", None, &TOKEN_FILE)?),
        Auth::Spn => builder
            .with_credential_type("client_secret")
            .with_client_id(need("client_id", options.client_id.as_ref(), &SPN_ID)?)
            .with_tenant_id(need("AZURE_TENANT_ID", None, &TENANT)?)
            .with_client_secret(need("AZURE_STORAGE_SPN_CLIENT_SECRET", None, &SPN_SECRET)?),
        Auth::Cli => builder.with_credential_type("azure_cli"),
        Auth::Auto | Auth::Msi | Auth::Sas | Auth::Key => managed(builder, options, env),
    })
}

fn managed(builder: MicrosoftAzureBuilder, options: &BlobOptions, env: Env<'_>) -> MicrosoftAzureBuilder {
    use object_store::azure::AzureConfigKey;
    let mut builder = builder.with_credential_type("managed_identity");
    if let Some(id) = options.client_id.clone().or_else(|| first(env, &MSI_ID)) {
        builder = builder.with_client_id(id);
    }
    if let Some(id) = first(env, &MSI_OBJECT) {
        builder = builder.with_config(AzureConfigKey::ObjectId, id);
    }
    if let Some(id) = options.resource_id.clone().or_else(|| first(env, &MSI_RESOURCE)) {
        builder = builder.with_config(AzureConfigKey::MsiResourceId, id);
    }
    match first(env, &MSI_ENDPOINT) {
        Some(endpoint) => builder.with_msi_endpoint(endpoint),
        None => builder,
    }
}

#[cfg(test)]
mod tests;
