//! What tests (and benchmarks) need around tierfs: tiers, real mounts, servers. Knows tierfs only by its command line.

// Each binary that includes this folder uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod azurite;
pub mod blob_server;
pub mod container;
pub mod exposition;
pub mod map;
pub mod mirror;
pub mod mount;
pub mod over;
pub mod poor;
pub mod proxy;
pub mod schema;
pub mod site;
pub mod terminal;
pub mod tiers;
pub mod wait;

pub use container::Container;
pub use map::Map;
pub use mount::{BOTH, Mode, Mount, MountBuilder};
pub use over::Over;
pub use proxy::Proxy;
pub use site::{Blob, Tiers};

/// Bytes that no two calls with different seeds share and that don't compress to nothing.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A Rust program that `tools/setup.sh` installs.
pub fn tool(name: &str) -> std::path::PathBuf {
    let tool = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/bin").join(name);
    assert!(tool.exists(), "no {}: tools/test.sh --full makes it", tool.display());
    tool
}
