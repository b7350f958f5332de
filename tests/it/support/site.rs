//! Three tiers as a site has them: a scratch directory, a share directory, a Blob container.

use super::blob_server::BlobServer;
use super::container::Container;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where the blob tier is.
#[derive(Debug)]
pub enum Blob {
    /// A container of its own on the emulator, or on our own server.
    Azurite(Container),
    /// A directory behind `file:///`, as in the demo.
    Directory(PathBuf),
}

/// Tiers that any number of mounts share; gone when dropped.
#[derive(Debug)]
pub struct Tiers {
    /// The `lustre` tier's root.
    pub scratch: PathBuf,
    /// The `azure-files` tier's root.
    pub share: PathBuf,
    /// The `blob` tier.
    pub blob: Blob,
    root: TempDir,
}

impl Tiers {
    /// With a fresh container on the emulator.
    pub fn with_azurite() -> Self {
        Self::new(|_| Blob::Azurite(Container::create()))
    }

    /// With a fresh container on our own server.
    pub fn with_server(server: &BlobServer) -> Self {
        Self::new(|_| Blob::Azurite(Container::create_at(server.service())))
    }

    /// With a directory as Blob: quick, for what does not depend on Azure's protocol.
    pub fn with_directories() -> Self {
        Self::new(|root| Blob::Directory(root.join("blob")))
    }

    fn new(blob: impl FnOnce(&Path) -> Blob) -> Self {
        let root = tempfile::Builder::new().prefix("tiers").tempdir().expect("a temporary directory");
        let (scratch, share) = (root.path().join("scratch"), root.path().join("share"));
        let blob = blob(root.path());
        for path in [&scratch, &share].into_iter().chain(match &blob {
            Blob::Directory(path) => Some(path),
            Blob::Azurite(_) => None,
        }) {
            fs::create_dir(path).expect("a tier's directory");
        }
        Self { scratch, share, blob, root }
    }

    /// Where mounts keep their catalogs, logs and mount points.
    pub fn workspace(&self) -> &Path {
        self.root.path()
    }

    /// The container, for tests that speak to Azure directly.
    pub fn container(&self) -> &Container {
        match &self.blob {
            Blob::Azurite(container) => container,
            Blob::Directory(path) => panic!("{} is no container", path.display()),
        }
    }

    /// What is under `name` on the blob tier, seen by a client that is not tierfs.
    pub fn blob(&self, name: &str) -> Option<Vec<u8>> {
        match &self.blob {
            Blob::Azurite(container) => container.get(name),
            Blob::Directory(path) => fs::read(path.join(name)).ok(),
        }
    }

    /// The same for a blob that must be there.
    pub fn expect_blob(&self, name: &str) -> Vec<u8> {
        self.blob(name).unwrap_or_else(|| panic!("no blob {name}; there are {:?}", self.blob_names()))
    }

    /// Puts a blob there, as a client that is not tierfs.
    pub fn put_blob(&self, name: &str, bytes: &[u8]) {
        match &self.blob {
            Blob::Azurite(container) => container.put(name, bytes),
            Blob::Directory(path) => {
                let path = path.join(name);
                fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
                fs::write(path, bytes).expect("a file");
            }
        }
    }

    /// Names of all blobs that users see, sorted; directory markers are among them.
    pub fn blob_names(&self) -> Vec<String> {
        let mut names = match &self.blob {
            Blob::Azurite(container) => container.names(),
            Blob::Directory(path) => files_below(path),
        };
        names.retain(|name| !name.starts_with(".tierfs"));
        names.sort();
        names
    }

    /// Names of the blobs that users see and that are no directory markers, sorted.
    pub fn blob_file_names(&self) -> Vec<String> {
        let mut names = match &self.blob {
            Blob::Azurite(container) => container.file_names(),
            Blob::Directory(path) => files_below(path),
        };
        names.retain(|name| !name.starts_with(".tierfs"));
        names.sort();
        names
    }

    /// Files below the scratch tier's root that users see, sorted.
    pub fn scratch_names(&self) -> Vec<String> {
        visible(&self.scratch)
    }

    /// Files below the share tier's root that users see, sorted.
    pub fn share_names(&self) -> Vec<String> {
        visible(&self.share)
    }

    /// Staged files on scratch (their sidecars not counted).
    pub fn staged(&self) -> Vec<String> {
        below_own(&self.scratch, "stage")
            .into_iter()
            .filter(|name| !name.ends_with(".json") && !name.ends_with("owner") && !name.ends_with("/lock"))
            .collect()
    }

    /// What staged files on scratch say of themselves.
    pub fn sidecars(&self) -> Vec<String> {
        let names = below_own(&self.scratch, "stage").into_iter().filter(|name| name.ends_with(".json"));
        let stage = self.scratch.join(".tierfs/stage");
        // One that is gone meanwhile says nothing.
        names.filter_map(|name| fs::read_to_string(stage.join(name)).ok()).collect()
    }

    /// Hot copies on scratch, whole ones only.
    pub fn hot_copies(&self) -> Vec<String> {
        below_own(&self.scratch, "hot").into_iter().filter(|name| !name.ends_with(".part")).collect()
    }
}

fn visible(root: &Path) -> Vec<String> {
    files_below(root).into_iter().filter(|name| !name.starts_with(".tierfs/")).collect()
}

fn below_own(root: &Path, part: &str) -> Vec<String> {
    files_below(&root.join(".tierfs").join(part))
}

/// Paths, relative to `root`, of all that is not a directory below it, sorted.
pub fn files_below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        // A directory that another process removes meanwhile has no files.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(entry.path());
            } else if let Ok(name) = entry.path().strip_prefix(root) {
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}
