//! What a plain client of the same server does: as fast as one gets there from this machine.

use crate::support::blob_server::BlobServer;
use crate::support::container::{ACCOUNT, KEY};
use crate::work;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::path::Path as Name;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use std::os::unix::fs::FileExt;

/// A plain client of the same server: as fast as one gets there from this machine.
pub struct Bare {
    store: MicrosoftAzure,
    runtime: tokio::runtime::Runtime,
}

impl Bare {
    /// Requests that it has under way, as many as tierfs may.
    pub const AT_ONCE: usize = 64;
    const BLOCK: usize = 8 << 20;

    pub fn of(server: &BlobServer) -> Self {
        server.container("bench");
        // Fails only if a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = MicrosoftAzureBuilder::new()
            .with_account(ACCOUNT)
            .with_access_key(KEY)
            .with_container_name("bench")
            .with_endpoint(server.service())
            .with_allow_http(true)
            .build()
            .expect("a client");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        Self { store, runtime }
    }

    /// Uploads `writers` blobs of this size at a time.
    pub fn upload(&self, writers: usize, size: u64) {
        let one = |writer: usize| async move {
            let name = Name::from(format!("bare/shard-{writer}"));
            let mut upload = WriteMultipart::new(self.store.put_multipart(&name).await?);
            let block = vec![0; Self::BLOCK];
            let mut left = size;
            while left > 0 {
                let length = left.min(Self::BLOCK as u64);
                upload.wait_for_capacity(Self::AT_ONCE / writers).await?;
                upload.put(bytes::Bytes::copy_from_slice(&block[..usize::try_from(length).unwrap_or(0)]));
                left -= length;
            }
            upload.finish().await
        };
        let all = stream::iter(0..writers).map(one).buffer_unordered(writers);
        self.runtime.block_on(all.try_collect::<Vec<_>>()).expect("uploads");
    }

    /// Puts `count` blobs of `size` bytes.
    pub fn put(&self, count: usize, size: usize) {
        let one = |i: usize| async move {
            self.store.put(&Name::from(format!("bare/{}", work::file_name(i))), vec![0; size].into()).await
        };
        let all = stream::iter(0..count).map(one).buffer_unordered(Self::AT_ONCE);
        self.runtime.block_on(all.try_collect::<Vec<_>>()).expect("puts");
    }

    /// Gets blobs, each into a file of its own that is synced, `at_once` at a time.
    pub fn download(&self, names: &[String], size: u64, to: &std::path::Path, at_once: usize) {
        let one = |name: &String| {
            let (name, file) = (Name::from(name.as_str()), to.join(name.replace('/', "-")));
            async move {
                let file = std::sync::Arc::new(std::fs::File::create(file).expect("a file"));
                let blocks = (0..size).step_by(Self::BLOCK).map(|start| {
                    let (file, range) = (file.clone(), start..size.min(start + Self::BLOCK as u64));
                    let name = name.clone();
                    async move {
                        let bytes = self.store.get_range(&name, range.clone()).await?;
                        let write = move || file.write_all_at(&bytes, range.start).expect("a write");
                        tokio::task::spawn_blocking(write).await.expect("a write");
                        Ok::<_, object_store::Error>(())
                    }
                });
                stream::iter(blocks).buffer_unordered(4).try_collect::<()>().await?;
                let synced = move || file.sync_all().expect("a sync");
                tokio::task::spawn_blocking(synced).await.expect("a sync");
                Ok::<_, object_store::Error>(())
            }
        };
        let all = stream::iter(names).map(one).buffer_unordered(at_once);
        self.runtime.block_on(all.try_collect::<()>()).expect("downloads");
    }
}
