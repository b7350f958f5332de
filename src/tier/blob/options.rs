//! What a blob tier is made from.

use crate::types::blob::{AccessTier, Auth, BlobLocation};
use std::path::PathBuf;

/// What the config says of a blob tier.
#[derive(Clone, Debug)]
pub struct BlobOptions {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub location: BlobLocation,
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
    /// Access tier of what is written; the account's default if none.
    pub access_tier: Option<AccessTier>,
    /// What `df` shows as its size.
    pub capacity: Option<u64>,
}

impl BlobOptions {
    /// A tier at `location` that takes whatever credentials are there.
    #[must_use]
    pub fn new(name: &str, location: BlobLocation) -> Self {
        Self {
            name: name.to_owned(),
            location,
            auth: Auth::Auto,
            client_id: None,
            resource_id: None,
            sas_file: None,
            key_file: None,
            access_tier: None,
            capacity: None,
        }
    }
}
