//! Containers and their blobs.

use super::content::Content;
use super::refusal::{self, Refusal};
use std::collections::BTreeMap;
use std::time::SystemTime;

#[derive(Clone, Debug)]
pub struct Blob {
    pub content: Content,
    pub etag: String,
    pub modified: SystemTime,
    pub metadata: BTreeMap<String, String>,
    pub content_type: String,
    /// As it was given.
    pub access_tier: Option<String>,
    /// The priority of the rehydration under way.
    pub rehydrating: Option<String>,
    /// Snapshots it has; what is in them does not matter here.
    pub snapshots: u32,
    /// A copy by somebody else is still bringing its bytes.
    pub copying: bool,
    /// Committed blocks in order: id and size.
    pub blocks: Vec<(String, u64)>,
}

impl Blob {
    pub fn is_archived(&self) -> bool {
        self.access_tier.as_deref() == Some("Archive")
    }
}

/// Blocks of one blob that no list has named yet.
pub type Staged = BTreeMap<String, Content>;

#[derive(Debug, Default)]
pub struct Container {
    pub blobs: BTreeMap<String, Blob>,
    pub staged: BTreeMap<String, Staged>,
}

#[derive(Debug, Default)]
pub struct Store {
    containers: BTreeMap<String, Container>,
    changes: u64,
}

impl Store {
    /// An ETag that nothing else has or had.
    pub fn next_etag(&mut self) -> String {
        self.changes += 1;
        format!("0x8D{:012X}", self.changes)
    }

    /// # Errors
    /// If there is none.
    pub fn container(&mut self, name: &str) -> Result<&mut Container, Refusal> {
        self.containers.get_mut(name).ok_or_else(refusal::container_not_found)
    }

    /// Whether there was none.
    pub fn make_container(&mut self, name: &str) -> bool {
        let is_new = !self.containers.contains_key(name);
        self.containers.entry(name.to_owned()).or_default();
        is_new
    }

    /// # Errors
    /// If there is no such container or blob.
    pub fn blob(&mut self, container: &str, name: &str) -> Result<&mut Blob, Refusal> {
        self.container(container)?.blobs.get_mut(name).ok_or_else(refusal::blob_not_found)
    }

    // ---- what tests do without a request

    pub fn put_content(&mut self, container: &str, name: &str, content: Content) {
        self.make_container(container);
        let etag = self.next_etag();
        let blob = Blob {
            content,
            etag,
            modified: SystemTime::now(),
            metadata: BTreeMap::new(),
            content_type: "application/octet-stream".into(),
            access_tier: None,
            rehydrating: None,
            snapshots: 0,
            copying: false,
            blocks: Vec::new(),
        };
        let container = self.containers.get_mut(container).expect("just made");
        container.blobs.insert(name.to_owned(), blob);
    }

    fn find(&self, container: &str, name: &str) -> Option<&Blob> {
        self.containers.get(container)?.blobs.get(name)
    }

    pub fn content(&self, container: &str, name: &str) -> Option<Content> {
        self.find(container, name).map(|blob| blob.content.clone())
    }

    pub fn metadata(&self, container: &str, name: &str) -> Option<Vec<(String, String)>> {
        self.find(container, name).map(|blob| blob.metadata.clone().into_iter().collect())
    }

    pub fn access_tier(&self, container: &str, name: &str) -> Option<String> {
        self.find(container, name)?.access_tier.clone()
    }

    pub fn rehydrating(&self, container: &str, name: &str) -> Option<String> {
        self.find(container, name)?.rehydrating.clone()
    }

    pub fn set_snapshots(&mut self, container: &str, name: &str, count: u32) {
        self.blob(container, name).unwrap_or_else(|_| panic!("no blob {name}")).snapshots = count;
    }

    pub fn set_copying(&mut self, container: &str, name: &str, copying: bool) {
        self.blob(container, name).unwrap_or_else(|_| panic!("no blob {name}")).copying = copying;
    }

    pub fn set_access_tier_now(&mut self, container: &str, name: &str, tier: &str) {
        let blob = self.blob(container, name).unwrap_or_else(|_| panic!("no blob {name}"));
        (blob.access_tier, blob.rehydrating) = (Some(tier.to_owned()), None);
    }
}
