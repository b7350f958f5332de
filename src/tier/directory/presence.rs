//! Whether the tier's root is the one known: its mark in `.tierfs/id`, and whether the path
//! still leads to the directory that was opened.
//!
//! The open root pins the file system it was opened on, so that a mount over the path, or an
//! unmount under it, changes nothing for system calls. Hence the path is compared with the
//! descriptor, at most once a second, and the mark decides.

use super::root::{self, Root};
use super::spelling::Spelling;
use super::{DirectoryOptions, filesystem};
use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::tier::absent;
use crate::types::Key;
use parking_lot::RwLock;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an answer about the root is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// A mark is 32 hex digits and a newline; anything much longer is not ours.
const LONGEST_MARK: u64 = 256;

/// What a directory tier says of itself, to be remembered by the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Content of `.tierfs/id`; `None` on a read-only root that never had one.
    pub id: Option<String>,
    /// Name of the file system it is on.
    pub fs_type: String,
}

#[derive(Debug, Default)]
struct State {
    root: Option<Arc<Root>>,
    mark: Option<String>,
}

/// The root, as long as it is there.
#[derive(Debug)]
pub(super) struct Presence {
    clock: Arc<dyn Clock>,
    state: RwLock<State>,
    /// Milliseconds of the monotonic clock.
    next_check: AtomicU64,
    /// `st_dev` of the root when it was last there.
    device: AtomicU64,
    spelling: Arc<Spelling>,
}

impl Presence {
    /// Looks for the first time. Without an expected mark the root must be there.
    pub(super) fn open(options: &DirectoryOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let state = State { root: None, mark: options.expected.clone() };
        let presence = Self {
            clock,
            state: RwLock::new(state),
            next_check: AtomicU64::new(0),
            device: AtomicU64::new(0),
            spelling: Arc::default(),
        };
        presence.postpone();
        match presence.check(options) {
            Ok(_) => Ok(presence),
            Err(error) if error.kind() == Kind::Absent => Ok(presence),
            Err(error) => Err(error),
        }
    }

    /// The root, if it is there as far as known.
    pub(super) fn root(&self, options: &DirectoryOptions) -> Result<Arc<Root>> {
        if self.is_due() {
            return self.check(options);
        }
        self.state.read().root.clone().ok_or_else(|| absent(&options.name))
    }

    /// Looks now.
    pub(super) fn check(&self, options: &DirectoryOptions) -> Result<Arc<Root>> {
        let (known, mark) = {
            let state = self.state.read();
            (state.root.clone(), state.mark.clone())
        };
        match look(options, &self.spelling, known.as_ref(), mark.as_deref()) {
            Ok(found) => {
                self.settle(options, Some(&found));
                Ok(found)
            }
            Err(error) => {
                if error.kind() == Kind::Absent {
                    self.settle(options, None);
                }
                Err(error)
            }
        }
    }

    /// Comes back when the server behind the root has said something, whatever that is.
    pub(super) fn ask_server(&self) {
        let Some(root) = self.state.read().root.clone() else { return };
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        if let Err(errno) = rustix::fs::statx(&*root, "", flags, StatxFlags::BASIC_STATS) {
            tracing::debug!(%errno, "the root of a tier can't be looked at");
        }
    }

    /// `st_dev` of the root when it was last seen; 0 if it never was.
    pub(super) fn device(&self) -> u64 {
        self.device.load(Ordering::Relaxed)
    }

    /// How keys are spelled below the root.
    pub(super) fn spelling(&self) -> &Spelling {
        &self.spelling
    }

    /// The clock it looks at.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Wall time.
    pub(super) fn now(&self) -> crate::types::Timestamp {
        self.clock.wall()
    }

    /// Remembers `mark` as what must be found from now on.
    pub(super) fn remember(&self, mark: &str) {
        self.state.write().mark = Some(mark.to_owned());
    }

    /// Marks what the path leads to now, whatever was known; the known root stays the one expected.
    pub(super) fn mark_found(options: &DirectoryOptions) -> Result<Mark> {
        let root = Root::pin(&options.path).map_err(|error| unreachable_root(options, error))?;
        claim(&root, super::MayCreate::Yes)
    }

    fn settle(&self, options: &DirectoryOptions, found: Option<&Arc<Root>>) {
        let mut state = self.state.write();
        if state.root.is_some() != found.is_some() {
            match found {
                Some(_) => tracing::info!(tier = options.name, "tier is there"),
                None => tracing::warn!(tier = options.name, path = ?options.path, "tier is absent"),
            }
        }
        state.root = found.cloned();
        if let Some(root) = found {
            self.device.store(root.identity().0, Ordering::Relaxed);
        }
    }

    /// True for one caller a second.
    fn is_due(&self) -> bool {
        let due = self.next_check.load(Ordering::Relaxed);
        let now = millis(self.clock.monotonic());
        now >= due
            && self
                .next_check
                .compare_exchange(due, now + millis(BELIEVED), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn postpone(&self) {
        self.next_check.store(millis(self.clock.monotonic() + BELIEVED), Ordering::Relaxed);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The root the path leads to now, if it is the one known.
fn look(
    options: &DirectoryOptions,
    spelling: &Arc<Spelling>,
    known: Option<&Arc<Root>>,
    mark: Option<&str>,
) -> Result<Arc<Root>> {
    let stat = match root::unless_stale(|| rustix::fs::stat(&options.path)) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) if known.is_some() || mark.is_some() => {
            return Err(absent(&options.name));
        }
        Err(errno) => return Err(unreachable_root(options, errno.into())),
    };
    let same = known.filter(|root| root.identity() == root::identity(&stat));
    let root = match (same, known, mark) {
        (Some(root), _, _) => Arc::clone(root),
        // Without a mark nothing says that the other directory is ours.
        (None, Some(_), None) => return Err(absent(&options.name)),
        (None, _, _) => {
            let root = Root::pin(&options.path).map_err(|error| unreachable_root(options, error))?;
            Arc::new(root.spelled_by(spelling))
        }
    };
    match mark {
        Some(mark) if read_mark(&root)?.as_deref() != Some(mark) => Err(absent(&options.name)),
        _ => Ok(root),
    }
}

fn unreachable_root(options: &DirectoryOptions, error: Error) -> Error {
    let (name, path) = (&options.name, options.path.display());
    error.context(format_args!("tier {name}: {path} can't be opened (mount it, or correct `path`)"))
}

fn id_key() -> Result<Key> {
    Ok(Key::parse(".tierfs/id")?)
}

/// Content of `.tierfs/id`; `None` if there is none.
pub(super) fn read_mark(root: &Root) -> Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = match root.open(&id_key()?, flags, Mode::empty()) {
        Ok(fd) => std::fs::File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let mut text = String::new();
    match file.take(LONGEST_MARK).read_to_string(&mut text) {
        Ok(_) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Ok(Some("?".to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// The mark of the root, made if there is none and `may_create`; and the file system's name.
pub(super) fn claim(root: &Root, may_create: super::MayCreate) -> Result<Mark> {
    let fs_type = filesystem::name(root);
    if let Some(id) = read_mark(root)? {
        if id.is_empty() {
            return Err(Error::new(
                Kind::Corrupt,
                "`.tierfs/id` is empty: remove that file if this is the right root",
            ));
        }
        return Ok(Mark { id: Some(id), fs_type });
    }
    match may_create {
        super::MayCreate::No => Ok(Mark { id: None, fs_type }),
        super::MayCreate::Yes => {
            create_mark(root)?;
            // Whoever was first: all who share the root must agree.
            Ok(Mark { id: read_mark(root)?, fs_type })
        }
    }
}

/// Written whole beside its name and then linked, so that nobody reads half a mark.
fn create_mark(root: &Root) -> Result<()> {
    let own = Key::parse(super::OWN_DIRECTORY)?;
    let made = root.ensure_directory(&own, 0o755)?;
    let draft = own.join(format!("id.{}", super::random_name()))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = std::fs::File::from(root.open(&draft, flags, Mode::from_raw_mode(0o644))?);
    writeln!(file, "{}", super::random_name())?;
    file.sync_all()?;
    let placed = super::write::rename_no_replace(root, &draft, &id_key()?);
    match placed {
        Ok(()) => {}
        Err(Errno::EXIST) => super::write::remove(root, &draft)?,
        Err(errno) => return Err(errno.into()),
    }
    Ok(root.sync_upwards(&own, made)?)
}
