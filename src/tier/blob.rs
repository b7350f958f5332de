//! Blob storage as a tier: a container of Azure Blob Storage or its emulator, or a directory that stands for one.
//!
//! The container keeps every promise: conditions, attributes, any name. The directory (`file:///…`, for demos and
//! laptops) is atomic and nothing more, and says so in its capabilities.
//!
//! Must not know: the catalog, rules, FUSE, and when to try again.

mod attributes;
mod azrest;
mod azure;
mod copy;
mod credentials;
mod folder;
mod listing;
mod names;
mod options;
mod service_time;
mod upload;

pub use azure::AzureBlob;
pub use folder::FolderBlob;
pub use options::BlobOptions;
pub use service_time::service_time;

use crate::error::{Error, Kind, Result};
use crate::tier::Tier;
use crate::types::Key;
use crate::types::blob::BlobLocation;
use azrest::{Client, Transport};
use credentials::Credentials;
use names::Names;
use std::sync::Arc;

/// What `df` shows if the config says nothing: there is no limit to ask for.
const CAPACITY: u64 = 1 << 50;

/// The tier that `options` describe. Sends no request: [`Tier::probe`] does.
///
/// # Errors
/// [`Kind::Invalid`] with what to write instead; [`Kind::NotFound`] if a `file:///` directory is not there.
pub fn connect(options: &BlobOptions) -> Result<Arc<dyn Tier>> {
    connect_with(options, &|name| std::env::var(name).ok())
}

/// The same with another environment.
///
/// # Errors
/// As [`connect`].
pub fn connect_with(options: &BlobOptions, env: &dyn Fn(&str) -> Option<String>) -> Result<Arc<dyn Tier>> {
    let made: Result<Arc<dyn Tier>> = match &options.location {
        BlobLocation::Directory(path) => FolderBlob::open(&options.name, path, options.capacity)
            .map(|folder| -> Arc<dyn Tier> { Arc::new(folder) }),
        BlobLocation::Azure { endpoint, account, container, prefix } => {
            let container = format!("{endpoint}/{container}");
            in_azure(options, container, account, prefix, env).map(|tier| -> Arc<dyn Tier> { Arc::new(tier) })
        }
    };
    made.map_err(|error| error.context(format_args!("tier {}", options.name)))
}

fn in_azure(
    options: &BlobOptions,
    container_url: String,
    account: &str,
    prefix: &Key,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<AzureBlob> {
    let transport =
        Transport::new().map_err(|error| Error::new(Kind::Unavailable, "HTTP client").with_source(error))?;
    let credentials = Credentials::resolve(options, account, env, &transport)?;
    let prefix = String::from_utf8_lossy(prefix.as_bytes());
    let location = format!("{container_url}/{prefix}").trim_end_matches('/').to_owned();
    let client = Client::new(transport.client(), container_url, account.to_owned(), credentials);
    Ok(AzureBlob {
        name: options.name.clone(),
        location,
        client: Arc::new(client),
        names: Names::new(&prefix),
        access_tier: options.access_tier,
        capacity: options.capacity.unwrap_or(CAPACITY),
    })
}
