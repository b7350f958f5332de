//! POSIX operations over catalog and data: one family a file. Knows neither kernel types nor tier
//! kinds; `fuse` translates for it.
//!
//! Operations are short and synchronous. One that would have to wait for a slow tier answers
//! [`Kind::WouldBlock`] when its [`Caller`] said [`Wait::Never`], before it changed anything; the
//! caller repeats it elsewhere with [`Wait::Allowed`].
//!
//! # Lock order
//! `Node::turn` → `native_names` (read or write, by tier) → `Node::namespace` or `Node::file` of one node → the
//! catalog's own lock. Only `Node::turn` may be held while a slow tier is asked; with [`Wait::Never`]
//! it is only tried. `Node::file` and the `native_names` of a tier are held while its files are touched, which hang with their
//! server: a thread that must not wait only tries the one ([`Patience::None`](crate::tier::Patience)), and takes the other after
//! it was admitted to the tier.

mod attributes;
mod create;
mod directory;
mod evict;
mod explain;
mod facts;
mod handle;
mod heat;
mod hidden;
mod io;
mod leftover;
mod lookup;
mod loss;
mod names;
mod natives;
mod node;
mod open;
mod open_file;
mod overflow;
mod partial;
mod place;
mod preserve;
mod publish;
mod refresh;
mod remove;
mod rename;
mod room;
mod settle;
mod stage;
#[cfg(test)]
mod tests;
mod warm;
mod write_open;
mod xattr;

use crate::catalog::{Catalog, Defaults, WriteState};
use crate::clock::Clock;
use crate::data::{HotStore, StageStore, Streams};
use crate::error::{Kind, Result};
use crate::fullness::Fullness;
use crate::heat::Heat;
use crate::policy::placement::Rules;
use crate::tier::Tiers;
use crate::types::{Attr, Ino, Invalidation, TierId};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use crate::data::Reader;
pub use crate::tier::Patience;
pub use attributes::SetAttr;
pub use directory::{DirectoryHandle, Listed, More};
pub use evict::{Evict, Evicting, Stay};
pub use explain::{CopyFacts, EXPLAINED_VERSION, Explained, HeatFacts, RuleFacts};
pub use facts::{Copy, CopyRole, FileFacts, NativePath};
pub use handle::FileHandle;
pub use io::ReadAnswer;
pub use open::{Close, Opened, Released};
pub use open_file::OpenFileId;
pub use partial::PARTIAL_FROM;
pub use publish::{AtHome, Pending};
pub use room::{Cause, Making, Waiter, Waiters, Wanted};
pub use settle::Settled;
pub use warm::Warming;

/// Whether an operation may wait for a slow tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Answer [`Kind::WouldBlock`] instead.
    Never,
    /// The thread is there for waiting.
    Allowed,
}

/// Who asks, and with how much patience.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Its thread, in the daemon's eyes; 0: none that can be seen, or the daemon itself.
    pub pid: u32,
    /// Patience.
    pub wait: Wait,
}

impl Caller {
    /// The same caller where something was begun that must be ended now.
    fn patient(&self) -> Self {
        Self { wait: Wait::Allowed, ..*self }
    }
}

/// A name's answer to the kernel.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it names.
    pub attr: Attr,
    /// How long name and attributes may be believed.
    pub ttl: Duration,
}

/// How files are given to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// Resident files are read and written by the kernel itself.
    Passthrough,
    /// Every byte goes through the daemon.
    Ordinary,
}

/// All that a [`Vfs`] stands on.
pub struct Parts {
    /// Names and placement.
    pub catalog: Arc<Catalog>,
    /// All tiers.
    pub tiers: Arc<Tiers>,
    /// Path rules at start; see [`Vfs::set_rules`].
    pub rules: Arc<Rules>,
    /// Stages by tier.
    pub stages: HashMap<TierId, Arc<StageStore>>,
    /// Hot stores by tier.
    pub hots: HashMap<TierId, Arc<HotStore>>,
    /// Streaming of non-resident files.
    pub streams: Arc<Streams>,
    /// How often files are opened.
    pub heat: Arc<Heat>,
    /// Which homes are too full for new files.
    pub fullness: Arc<Fullness>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where slow tiers are driven.
    pub runtime: tokio::runtime::Handle,
    /// Told what the kernel must forget.
    pub invalidate: Arc<dyn Fn(Invalidation) + Send + Sync>,
    /// For what carries no owner or mode.
    pub defaults: Defaults,
    /// How files are given to the kernel.
    pub mode: IoMode,
    /// From this size on a file at home alone is staged in part when it is written: [`PARTIAL_FROM`].
    pub partial_from: u64,
    /// Size that statfs shows for a blob tier, in bytes.
    pub blob_size: u64,
    /// Names of programs whose reads say nothing of what is needed: searches and backups.
    pub sweepers: Vec<String>,
    /// How room for new bytes is made.
    pub room: Making,
    /// Waits for commits.
    pub at_home: AtHome,
    /// Facts that `user.tierfs.*` of the root answers: control socket, and the status as JSON.
    pub facts: Arc<dyn Facts>,
}

/// What the mount's root says of the daemon, for tools that have only the mount.
pub trait Facts: Send + Sync {
    /// Path of the control socket.
    fn control(&self) -> Vec<u8>;
    /// Status as JSON.
    fn status(&self) -> Vec<u8>;
}

/// The file system.
pub struct Vfs {
    parts: Parts,
    rules: RwLock<Arc<Rules>>,
    nodes: node::NodeTable,
    handles: handle::Handles,
    native_names: names::NativeNames,
    /// Counts renames and changes of the rules: cached paths of another epoch are void, and the home of what was opened in one may be another.
    path_epoch: AtomicU64,
    hidden: hidden::Hidden,
    next_open_file: AtomicU64,
    /// Who waits for room.
    room: room::Queue,
    passthrough: AtomicBool,
    /// User and group of this process: what it makes is theirs at first.
    daemon: (u32, u32),
}

impl std::fmt::Debug for Vfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vfs").finish_non_exhaustive()
    }
}

impl Vfs {
    /// A file system over `parts`.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            nodes: node::NodeTable::default(),
            handles: handle::Handles::default(),
            native_names: names::NativeNames::new(parts.tiers.iter().map(|(tier, _)| tier)),
            path_epoch: AtomicU64::new(0),
            hidden: hidden::Hidden::default(),
            next_open_file: AtomicU64::new(1),
            room: room::Queue::default(),
            rules: RwLock::new(parts.rules.clone()),
            passthrough: AtomicBool::new(parts.mode == IoMode::Passthrough),
            daemon: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
            parts,
        }
    }

    /// Uses other rules from now on; what is under way ends by those it began with.
    pub fn set_rules(&self, rules: Arc<Rules>) {
        *self.rules.write() = rules;
        // What is open may have another home when it is let go.
        self.path_epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// How files are given to the kernel.
    #[must_use]
    pub fn io_mode(&self) -> IoMode {
        if self.passthrough.load(Ordering::Relaxed) { IoMode::Passthrough } else { IoMode::Ordinary }
    }

    /// From now on every byte goes through the daemon, because the kernel can't do otherwise.
    pub fn use_ordinary_mode(&self) {
        self.passthrough.store(false, Ordering::Relaxed);
    }

    /// Whether any tier has files behind a network, so that a call may hang.
    #[must_use]
    pub fn may_hang(&self) -> bool {
        self.parts.tiers.iter().any(|(_, tier)| tier.resident().is_some() && tier.capabilities().networked)
    }

    /// Whether any handle of the inode is open: then its local files must keep their place.
    #[must_use]
    pub fn is_open(&self, ino: Ino) -> bool {
        self.nodes.find(ino).is_some_and(|node| node.is_open())
    }

    /// Every open file.
    pub fn open_handles(&self) -> Vec<FileHandle> {
        self.handles.all_files()
    }

    /// Runs `act` while no program can open the inode or end writing to it; false, without running it, if one writes to it now.
    pub fn while_unwritten(&self, ino: Ino, act: &mut dyn FnMut()) -> bool {
        let node = self.nodes.get(ino);
        let unwritten = {
            let _turn = node.turn.lock();
            let unwritten = node.file.lock().writers == 0;
            if unwritten {
                act();
            }
            unwritten
        };
        self.nodes.drop_if_unknown(&node);
        unwritten
    }

    /// Runs `act`, which moves native names on `tier` and their rows, while nobody compares the two.
    pub fn while_names_move(&self, tier: TierId, act: &mut dyn FnMut()) {
        let _alone = self.native_names.move_on(&[tier].into());
        act();
    }

    /// Runs `act` while no rename is between its native moves on `tier` and their rows.
    pub fn while_names_stand(&self, tier: TierId, act: &mut dyn FnMut()) {
        let _still = self.native_names.stand(tier);
        act();
    }

    /// Open files and known inodes, for the status.
    #[must_use]
    pub fn in_memory(&self) -> (usize, usize) {
        (self.handles.open_files(), self.nodes.len())
    }

    /// Names on tiers that can't be shown, as far as directories have been listed.
    #[must_use]
    pub fn hidden_names(&self) -> u64 {
        self.hidden.total()
    }

    fn catalog(&self) -> &Catalog {
        &self.parts.catalog
    }

    fn now(&self) -> crate::types::Timestamp {
        self.parts.clock.wall()
    }

    /// The caller's turn to open this file, or to end writing to it.
    fn turn<'a>(&self, caller: &Caller, node: &'a node::Node) -> Result<parking_lot::MutexGuard<'a, ()>> {
        match caller.wait {
            Wait::Never => node.turn.try_lock().ok_or_else(|| Kind::WouldBlock.into()),
            Wait::Allowed => Ok(node.turn.lock()),
        }
    }

    /// Drives a slow tier's answer, if the caller may wait for it.
    fn wait_for<T>(&self, caller: &Caller, answer: impl Future<Output = Result<T>>) -> Result<T> {
        match caller.wait {
            Wait::Never => Err(Kind::WouldBlock.into()),
            Wait::Allowed => self.parts.runtime.block_on(answer),
        }
    }
}
