//! Where a blob tier is and how to get in: what the config says and the tier takes.

use super::Key;
use std::path::PathBuf;

/// The account that every emulator has.
pub const EMULATOR_ACCOUNT: &str = "devstoreaccount1";

/// Where the environment may hold an account key, as other Azure tools know it.
pub const KEY_NAMES: [&str; 3] =
    ["AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"];

/// Where it may hold a SAS.
pub const SAS_NAMES: [&str; 2] = ["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"];

/// Where a blob tier is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobLocation {
    /// In Azure, or an emulator of it.
    Azure {
        /// Scheme, host and port; where the account is not in the host, the account too. No slash at the end.
        endpoint: String,
        /// The storage account.
        account: String,
        /// The container.
        container: String,
        /// Below which all keys are; may be the root.
        prefix: Key,
    },
    /// In a directory that stands for a container (demo).
    Directory(PathBuf),
}

impl BlobLocation {
    /// Whether the account is in the path: an emulator.
    #[must_use]
    pub fn is_emulator(&self) -> bool {
        match self {
            Self::Azure { endpoint, account, .. } => endpoint.ends_with(&format!("/{account}")),
            Self::Directory(_) => false,
        }
    }
}

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
    pub const WORDS: [(&'static str, Self); 7] = [
        ("auto", Self::Auto),
        ("msi", Self::Msi),
        ("workload", Self::Workload),
        ("spn", Self::Spn),
        ("sas", Self::Sas),
        ("key", Self::Key),
        ("cli", Self::Cli),
    ];
}

/// Access tiers that blobs can be read from at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTier {
    /// Dear to keep, cheap to read.
    Hot,
    /// For 30 days at least.
    Cool,
    /// For 90 days at least.
    Cold,
}

impl AccessTier {
    /// The names in the config.
    pub const WORDS: [(&'static str, Self); 3] =
        [("hot", Self::Hot), ("cool", Self::Cool), ("cold", Self::Cold)];

    /// As the service calls it.
    #[must_use]
    pub fn service_name(self) -> &'static str {
        match self {
            Self::Hot => "Hot",
            Self::Cool => "Cool",
            Self::Cold => "Cold",
        }
    }
}
