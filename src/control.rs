//! The control socket: how the commands and `tierstat` talk to a running mount.
//!
//! JSON lines over a Unix socket (`protocol`), a `server` over the narrow trait [`Daemon`], a
//! blocking `client`, and `mounts`, which finds the mount of a path; metrics and health by HTTP (`web`). Knows nothing of tiers, the
//! catalog or FUSE: what it reports is what the daemon says.

pub mod client;
mod daemon;
pub mod exposition;
pub mod mounts;
pub mod protocol;
pub mod server;
pub mod status;
pub mod target;
pub mod web;

pub use daemon::{Daemon, ProgressSink};

/// Extended attribute of a mount's root: the path of its control socket.
pub const CONTROL_XATTR: &str = "user.tierfs.control";

/// Extended attribute of a mount's root: its [`status::Status`] as JSON.
pub const STATUS_XATTR: &str = "user.tierfs.status";

/// Extended attribute of a file: why it is where it is, a [`crate::vfs::Explained`] as JSON.
pub const EXPLAIN_XATTR: &str = "user.tierfs.explain";

/// Extended attribute of a file: native path of a resident copy of its newest bytes.
pub const PATH_XATTR: &str = "user.tierfs.path";

/// Extended attribute of a file: the tiers that hold its newest bytes, home first, by commas.
pub const REPLICAS_XATTR: &str = "user.tierfs.replicas";

/// Extended attribute of a file: its opens a day, decayed; a decimal number.
pub const HEAT_XATTR: &str = "user.tierfs.heat";

/// Extended attribute of a file: its [`protocol::RowState`] in one word.
pub const STATE_XATTR: &str = "user.tierfs.state";
