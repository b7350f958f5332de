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
mod upload;

pub use azure::AzureBlob;
pub use folder::FolderBlob;
pub use options::{Auth, BlobOptions};

use crate::error::{Error, Kind, Result};
use crate::tier::Tier;
use azrest::{Client, Transport};
use credentials::Credentials;
use names::Names;
use options::Location;
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
    let location = Location::parse(&options.url, env).map_err(|error| of_tier(error, options))?;
    match location {
        Location::Directory(path) => {
            let folder = FolderBlob::open(&options.name, &path, options.capacity);
            Ok(Arc::new(folder.map_err(|error| of_tier(error, options))?))
        }
        Location::Azure { .. } => Ok(Arc::new(container(options, location, env)?)),
    }
}

fn container(
    options: &BlobOptions,
    location: Location,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<AzureBlob> {
    let Location::Azure { account, container_url, prefix, emulator } = location else {
        return Err(Error::new(Kind::Invalid, "not a container"));
    };
    check_access_tier(options.access_tier.as_deref()).map_err(|error| of_tier(error, options))?;
    let transport = Transport::new()
        .map_err(|error| of_tier(Error::new(Kind::Unavailable, "HTTP client").with_source(error), options))?;
    let credentials = Credentials::resolve(options, &account, emulator, env, &transport)
        .map_err(|error| of_tier(error, options))?;
    let location = format!("{container_url}/{prefix}");
    let client = Client::new(transport.client(), container_url, account, credentials);
    Ok(AzureBlob {
        name: options.name.clone(),
        location: location.trim_end_matches('/').to_owned(),
        client: Arc::new(client),
        names: Names::new(&prefix),
        access_tier: options.access_tier.clone(),
        capacity: options.capacity.unwrap_or(CAPACITY),
    })
}

/// Archived blobs can't be read back for hours, so nothing is written so.
fn check_access_tier(access_tier: Option<&str>) -> Result<()> {
    match access_tier {
        None | Some("Hot" | "Cool" | "Cold") => Ok(()),
        Some(other) => {
            Err(Error::new(Kind::Invalid, format!("access_tier can't be {other:?}; use Hot, Cool or Cold")))
        }
    }
}

fn of_tier(error: Error, options: &BlobOptions) -> Error {
    error.context(format_args!("tier {}", options.name))
}
