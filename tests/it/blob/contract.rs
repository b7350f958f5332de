//! The contract of all tiers, over Azure's protocol on both servers and over a directory that stands for a container.

use super::emulator::Container;
use crate::contract;
use crate::support::blob_server::BlobServer;
use crate::support::tiers::Subject;
use tierfs::tier::blob::{BlobOptions, connect};
use tierfs::types::blob::BlobLocation;

async fn of(service: &str) -> Subject {
    Subject::shared(Container::create_at(service).await.tier("pre fix"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azurite_keeps_the_contract() {
    let service = crate::support::azurite::service_url();
    // Its thousands of small blobs take the emulator half a minute; our own server lists them in no time.
    contract::run_small(|| of(&service)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_server_keeps_the_contract() {
    let server = BlobServer::start();
    let service = server.service();
    contract::run(|| of(&service)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_as_a_container_keeps_the_contract() {
    contract::run(|| async {
        let folder = tempfile::tempdir_in(crate::support::tiers::memory_dir()).expect("a folder");
        let options = BlobOptions::new("blob", BlobLocation::Directory(folder.path().to_owned()));
        Subject::shared(connect(&options).expect("a tier")).keeping(folder)
    })
    .await;
}
