//! `[tier.NAME]`

mod read;
mod refer;

pub(super) use read::{Draft, read};
pub(super) use refer::{must_be_directory, unknown, warn_of_unused};

use crate::config::units::Percent;
use crate::types::blob::{AccessTier, Auth, BlobLocation};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

/// `[tier.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TierKind,
    /// Where its bytes are.
    pub storage: Storage,
    /// What may be used here, in bytes; `None`: what the file system says.
    pub capacity: Option<u64>,
    /// How long changes by other tools may stay unseen; `None`: for ever.
    pub revalidate: Option<Duration>,
    /// How long a caller waits for it, retries included.
    pub deadline: Duration,
    /// What a GiB costs there in a month, in millionths of a dollar.
    pub price_micros: u64,
    /// Bytes a second that background work may move from or to it; `None`: no limit.
    pub move_max: Option<NonZeroU64>,
    /// Calls a second that background work may make; `None`: no limit.
    pub move_calls_max: Option<NonZeroU64>,
}

impl TierConfig {
    /// The directory, if the tier is one by kind.
    #[must_use]
    pub fn directory(&self) -> Option<&DirectoryConfig> {
        match &self.storage {
            Storage::Directory(directory) => Some(directory),
            Storage::Blob(_) => None,
        }
    }
}

/// What a tier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TierKind {
    /// A directory on a Lustre file system.
    Lustre,
    /// A directory on a mounted Azure Files share.
    AzureFiles,
    /// A plain directory.
    Local,
    /// A container or prefix of Azure Blob Storage.
    Blob,
}

impl TierKind {
    pub(in crate::config) const WORDS: [(&'static str, Self); 4] = [
        ("lustre", Self::Lustre),
        ("azure-files", Self::AzureFiles),
        ("local", Self::Local),
        ("blob", Self::Blob),
    ];

    /// Whether its bytes are files of this machine.
    #[must_use]
    pub fn is_directory(self) -> bool {
        self != Self::Blob
    }

    /// As in the config.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }

    /// Typical list prices; `access_tier` is where new blobs are stored.
    fn default_price(self, access_tier: Option<AccessTier>) -> &'static str {
        match (self, access_tier) {
            (Self::Lustre, _) => "0.145",
            (Self::AzureFiles, _) => "0.16",
            (Self::Local, _) => "0",
            (Self::Blob, Some(AccessTier::Cold)) => "0.0045",
            (Self::Blob, Some(AccessTier::Cool)) => "0.0115",
            (Self::Blob, _) => "0.0208",
        }
    }

    fn default_revalidate(self) -> &'static str {
        match self {
            Self::Lustre | Self::Local => "1s",
            Self::AzureFiles => "30s",
            Self::Blob => "60s",
        }
    }
}

/// Where a tier's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a directory.
    Directory(DirectoryConfig),
    /// In Blob Storage.
    Blob(BlobConfig),
}

/// A directory tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// The root.
    pub path: PathBuf,
    /// Above it hot copies are dropped…
    pub high_water: Percent,
    /// …to this.
    pub low_water: Percent,
}

/// A blob tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobConfig {
    /// Where.
    pub location: BlobLocation,
    /// How to sign in.
    pub auth: Auth,
    /// Which managed identity or service principal.
    pub client_id: Option<String>,
    /// A file with the SAS token.
    pub sas_file: Option<PathBuf>,
    /// A file with the account key.
    pub key_file: Option<PathBuf>,
    /// A managed identity by its resource id.
    pub resource_id: Option<String>,
    /// Where new blobs are stored; `None`: as the account says.
    pub access_tier: Option<AccessTier>,
    /// Bytes a second that may be sent; `None`: no limit.
    pub upload_max: Option<NonZeroU64>,
}
