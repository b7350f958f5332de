//! A container of Azure Blob Storage (or of its emulator) as a [`Tier`].

use super::attributes;
use super::azrest::{Client, Failure, Outcome, Write};
use super::listing::{self, State, View, object_of, prefix_only};
use super::names::Names;
use super::upload::{AzureUpload, put_whole};
use crate::error::{Error, Kind, Result};
use crate::tier::{ByteStream, Capabilities, Cursor, Object, Page, Resident, Special, Tier, Upload, Usage};
use crate::types::blob::AccessTier;
use crate::types::{Attrs, Condition, FileKind, Key, Version};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct AzureBlob {
    pub(super) name: String,
    pub(super) location: String,
    pub(super) client: Arc<Client>,
    pub(super) names: Names,
    pub(super) access_tier: Option<AccessTier>,
    pub(super) capacity: u64,
}

impl AzureBlob {
    pub(super) fn blob(&self, key: &Key) -> Result<String> {
        self.names.blob(key).map_err(|error| error.context(self.what("name", key)))
    }

    pub(super) fn what(&self, verb: &str, key: &Key) -> String {
        format!("{}: {verb} {key}", self.name)
    }

    pub(super) fn error(&self, failure: Failure, verb: &str, key: &Key) -> Error {
        failure.into_error(self.what(verb, key))
    }

    /// The blob alone, without a look at what is below its name.
    async fn look_up(&self, blob: &str) -> Outcome<Object> {
        // HEAD of the blob and a list of one name below: for either may be what `blob` is.
        let below = format!("{blob}/");
        let (found, is_prefix) = futures::join!(self.client.head(blob), self.client.any_under(&below));
        match found {
            Ok(properties) => {
                let object = object_of(&properties);
                // As in listings, a directory wins over a file of its name.
                let hidden = object.kind != FileKind::Directory && is_prefix?;
                Ok(if hidden { prefix_only() } else { object })
            }
            Err(failure) if failure.kind == Kind::NotFound && is_prefix? => Ok(prefix_only()),
            Err(failure) => Err(failure),
        }
    }

    async fn write(
        &self,
        key: &Key,
        bytes: Bytes,
        metadata: &attributes::Metadata,
        condition: &Condition,
    ) -> Result<Version> {
        let blob = self.blob(key)?;
        let write = Write { metadata, condition, content_type: None, access_tier: self.access_tier };
        let written = put_whole(&self.client, &blob, bytes, write).await;
        written.map_err(|failure| self.error(failure, "write", key))
    }

    /// A condition fails on what is another version and on what is gone.
    async fn gone_or_changed(&self, blob: &str, failure: Failure) -> Failure {
        if failure.kind != Kind::Changed {
            return failure;
        }
        match self.client.head(blob).await {
            Err(head) if head.kind == Kind::NotFound => head,
            _ => failure,
        }
    }

    /// Some tools mark a directory by an empty blob `dir/`, which would keep it there for ever.
    async fn delete_slash_marker(&self, blob: &str) -> Outcome<()> {
        let marker = format!("{blob}/");
        let found = self.client.head(&marker).await?;
        if found.size > 0 {
            return Err(Failure::new(Kind::NotFound, "no such blob"));
        }
        self.client.delete(&marker, &Condition::Matches(Version::new(&found.etag))).await
    }

    /// Replaces the metadata of what is there, keeping what says what it is.
    async fn replace_metadata(&self, blob: &str, version: &Version, attrs: &Attrs) -> Outcome<Version> {
        let found = self.client.head(blob).await?;
        if found.etag.as_bytes() != &*version.0 {
            return Err(Failure::new(Kind::Changed, "another version is there"));
        }
        let metadata = attributes::replaced(&found.metadata, attrs)
            .map_err(|error| Failure::new(error.kind(), error.to_string()))?;
        let condition = Condition::Matches(version.clone());
        match self.client.set_metadata(blob, &metadata, &condition).await {
            Err(failure) if failure.outcome_unknown => match self.client.head(blob).await {
                Ok(now) if now.metadata == metadata && now.etag != found.etag => Ok(Version::new(&now.etag)),
                _ => Err(failure),
            },
            answer => answer,
        }
    }
}

#[async_trait]
impl Tier for AzureBlob {
    fn name(&self) -> &str {
        &self.name
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            conditional: true,
            owner_and_mode: true,
            mtime_grain: Some(Duration::from_nanos(1)),
            symlinks: true,
            hard_links: false,
            xattrs: true,
            special_files: true,
            case_sensitive: true,
            any_name: false,
            empty_directories: true,
            writable: true,
            networked: false,
        }
    }

    fn can_carry(&self, attrs: &Attrs) -> bool {
        attributes::fits(attrs)
    }

    async fn probe(&self) -> Result<()> {
        let root = self.names.directory(&Key::ROOT)?;
        match self.client.list(&root, None, 1).await {
            Ok(_) => Ok(()),
            Err(mut failure) => {
                // Here, unlike at a file, the container is what was asked for.
                if failure.code == "ContainerNotFound" {
                    failure.kind = Kind::NotFound;
                }
                Err(failure.into_error(format!("tier {} at {}", self.name, self.location)))
            }
        }
    }

    async fn head(&self, key: &Key) -> Result<Object> {
        if key.is_root() {
            return Ok(prefix_only());
        }
        let blob = self.blob(key)?;
        self.look_up(&blob).await.map_err(|failure| self.error(failure, "look up", key))
    }

    async fn list(&self, dir: &Key, prefix: &[u8], from: Option<Cursor>, limit: usize) -> Result<Page> {
        let state = State::resume(from)?;
        let (directory, wanted) = listing::prefixes(&self.names, dir, prefix)?;
        let listing = self.client.list(&wanted, state.marker.as_deref(), limit).await;
        let listing = listing.map_err(|failure| self.error(failure, "list", dir))?;
        let view = View { names: &self.names, directory: &directory, is_root: dir.is_root(), start: prefix };
        view.page(state, listing)
    }

    async fn read(&self, key: &Key, range: Range<u64>, version: &Version) -> Result<ByteStream> {
        let blob = self.blob(key)?;
        let what = self.what("read", key);
        let parts = match self.client.get(&blob, range, version).await {
            Err(failure) => return Err(self.gone_or_changed(&blob, failure).await.into_error(what)),
            Ok(parts) => parts,
        };
        Ok(parts.map(move |part| part.map_err(|failure| failure.into_error(&what))).boxed())
    }

    async fn put(&self, key: &Key, bytes: Bytes, attrs: &Attrs, condition: &Condition) -> Result<Version> {
        let metadata = attributes::regular(attrs).map_err(|error| error.context(self.what("write", key)))?;
        self.write(key, bytes, &metadata, condition).await
    }

    async fn put_special(
        &self,
        key: &Key,
        special: &Special,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        let metadata =
            attributes::special(special, attrs).map_err(|error| error.context(self.what("make", key)))?;
        let bytes = match special {
            Special::Symlink(target) => Bytes::copy_from_slice(target),
            Special::Directory | Special::Node { .. } => Bytes::new(),
        };
        self.write(key, bytes, &metadata, condition).await
    }

    async fn upload(&self, key: &Key, size: u64) -> Result<Box<dyn Upload>> {
        let (client, blob) = (Arc::clone(&self.client), self.blob(key)?);
        Ok(Box::new(AzureUpload::new(client, self.what("upload", key), blob, size, self.access_tier)))
    }

    async fn delete(&self, key: &Key, condition: &Condition) -> Result<()> {
        let blob = self.blob(key)?;
        let names_a_version = matches!(condition, Condition::Matches(version) if !version.0.is_empty());
        let deleted = match self.client.delete(&blob, condition).await {
            Err(failure) if failure.kind == Kind::NotFound && !names_a_version => {
                self.delete_slash_marker(&blob).await
            }
            Err(failure) if names_a_version => Err(self.gone_or_changed(&blob, failure).await),
            answer => answer,
        };
        deleted.map_err(|failure| self.error(failure, "delete", key))
    }

    async fn copy(
        &self,
        from: &Key,
        version: &Version,
        to: &Key,
        attrs: &Attrs,
        condition: &Condition,
    ) -> Result<Version> {
        self.copy_blob(from, version, to, attrs, condition).await
    }

    async fn set_attrs(&self, key: &Key, version: &Version, attrs: &Attrs) -> Result<Version> {
        if version.0.is_empty() {
            return self.put_special(key, &Special::Directory, attrs, &Condition::Absent).await;
        }
        let blob = self.blob(key)?;
        let set = self.replace_metadata(&blob, version, attrs).await;
        set.map_err(|failure| self.error(failure, "set attributes of", key))
    }

    async fn rehydrate(&self, key: &Key) -> Result<()> {
        let blob = self.blob(key)?;
        self.client.rehydrate(&blob).await.map_err(|failure| self.error(failure, "rehydrate", key))
    }

    async fn usage(&self) -> Result<Usage> {
        Ok(Usage { total: self.capacity, free: self.capacity, files: 0, files_free: 0 })
    }

    fn resident(&self) -> Option<&dyn Resident> {
        None
    }
}

#[cfg(test)]
mod tests;
