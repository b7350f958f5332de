//! open, flush, release: the life of a handle.

use super::handle::{FileHandle, Handle};
use super::node::{FileState, Node};
use super::open_file::{Bytes, OpenFile, OpenFileId, content_of};
use super::write_open::Begun;
use super::{Caller, IoMode, Pending, Vfs, Wait};
use crate::catalog::{Content, Inode, Replica, WriteState};
use crate::data::{Fill, FillStart, Identity, Reader, Source};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::Rule;
use crate::tier::Access;
use crate::types::{FileKind, Generation, Ino, Key, TierId};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often an open follows bytes that move while it looks for them.
pub(super) const MOVING_TARGET: usize = 3;

/// Flag of an open by execve(2), which Linux passes on (`FMODE_EXEC` of linux/fs.h). It forbids opens for writing
/// by itself, but sends one with `O_RDONLY | O_TRUNC` before it looks whether the file is being executed.
const FMODE_EXEC: i32 = 0x20;

/// A handle for the kernel.
#[derive(Debug)]
pub struct Opened {
    /// Its number.
    pub handle: FileHandle,
    /// What it shares with the other handles of the inode.
    pub id: OpenFileId,
    /// The file to pass through to; none: reads and writes come to the daemon.
    pub passthrough: Option<Arc<File>>,
    /// Pages that the kernel has of the inode are still right.
    pub keep_cache: bool,
    /// Whether a close must come here before it is answered.
    pub close: Close,
}

/// What close(2) of a handle has to tell, beside its RELEASE, for which no program waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// A close row, or what became of the writes.
    Told,
    /// Nothing, if the kernel writes the file itself: the bytes are where they belong. (A file that is renamed
    /// to another home before its close gets its close row with the RELEASE.)
    SilentIfPassthrough,
    /// Nothing: the handle only reads.
    Silent,
}

/// What a release ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Released {
    /// The last handle is closed: nothing refers to this any more.
    pub closed: Option<OpenFileId>,
    /// The kernel had the staged file itself and may have it mapped: once it gave back what was `closed`,
    /// [`Vfs::settle`] must be asked until it is done.
    pub settle: Option<Ino>,
}

impl Vfs {
    /// Opens a regular file; `flags` are those of open(2).
    ///
    /// # Errors
    /// What the tier with the bytes says.
    pub fn open(&self, caller: &Caller, ino: Ino, flags: i32) -> Result<Opened> {
        let node = self.nodes.get(ino);
        let mut dir = None;
        if !node.is_open()
            && let Some((parent, name)) = self.catalog().names(ino)?.first()
        {
            self.refresh_name(caller, &self.nodes.get(*parent), name)?;
            dir = Some(*parent);
        }
        let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
        let writes = !reads || flags & libc::O_TRUNC != 0;
        let _turn = self.turn(caller, &node)?;
        let inode = self.catalog().inode(ino)?;
        if inode.attr.kind != FileKind::Regular {
            return Err(Error::new(Kind::Invalid, "only regular files are opened"));
        }
        let (shared, writers) = {
            let state = node.file.lock();
            if reads && writes && state.executing > 0 {
                return Err(Kind::Os(libc::ETXTBSY).into());
            }
            (state.open.clone(), state.writers)
        };
        let handle = |open, state: &mut FileState| {
            let executes = flags & FMODE_EXEC != 0;
            self.add_handle(state, open, Handle { node: node.clone(), writes, executes })
        };
        if !writes {
            let open = match shared {
                Some(open) => {
                    self.used(caller, &inode)?;
                    open
                }
                None => self.open_for_read(caller, ino, dir)?,
            };
            return Ok(handle(open, &mut node.file.lock()));
        }
        let truncate = flags & libc::O_TRUNC != 0;
        let inode = self.wanted_at_home(inode)?;
        let already = shared.clone().filter(|open| writers > 0 && open.is_written());
        let (open, begun) = match already {
            Some(open) => match self.preserve_open(caller, &open, &inode, truncate)? {
                Some((open, begun)) => (open, Some(begun)),
                None => {
                    self.empty_if(truncate, ino, &open)?;
                    (open, None)
                }
            },
            None => {
                let ordinary = shared.as_ref().is_some_and(|open| !open.passes_through());
                let (open, begun) = self.follow_and_write(caller, shared, inode.clone(), truncate)?;
                // The kernel allows one I/O mode an inode: the first open chose it.
                if ordinary {
                    open.passthrough.store(false, Ordering::Relaxed);
                }
                (open, Some(begun))
            }
        };
        let mut state = node.file.lock();
        if state.cached_generation == Some(inode.generation) {
            // The bytes go on where they were, and the kernel truncates its own pages.
            state.cached_generation = Some(open.generation);
        }
        if let Some(Begun { told, must_close }) = begun {
            state.told = told;
            state.must_close = must_close;
        }
        Ok(handle(open, &mut state))
    }

    /// The handle of a file just made by create.
    pub(super) fn open_new(
        &self,
        node: &Arc<Node>,
        inode: &Inode,
        file: File,
        tier: TierId,
        flags: i32,
    ) -> Result<Opened> {
        let mut state = node.file.lock();
        let file = Arc::new(file);
        let staged = inode.state == WriteState::Writing;
        state.told = if staged { None } else { Some(Content::of(&inode.attr)) };
        state.must_close = staged;
        let bytes = if staged { Bytes::Staged { file, tier } } else { Bytes::Native { file, tier } };
        let open = self.open_file(bytes, inode.generation);
        // A new file closed by a reader alone must be closed too: count every creator as a writer.
        let writes = staged || flags & libc::O_ACCMODE != libc::O_RDONLY;
        Ok(self.add_handle(&mut state, open, Handle { node: node.clone(), writes, executes: false }))
    }

    fn add_handle(&self, state: &mut FileState, open: Arc<OpenFile>, handle: Handle) -> Opened {
        let writes = handle.writes;
        self.note_use(&open);
        state.open = Some(open.clone());
        handle.node.handles.fetch_add(1, Ordering::AcqRel);
        state.writers += u32::from(writes);
        state.executing += u32::from(handle.executes);
        let keep_cache = state.cached_generation.replace(open.generation) == Some(open.generation);
        let handle = self.handles.add_file(handle);
        let passthrough = open.file().filter(|_| open.passes_through()).cloned();
        let close = match &open.bytes {
            _ if !writes => Close::Silent,
            Bytes::Native { tier, .. } if !self.is_networked(*tier) => Close::SilentIfPassthrough,
            _ => Close::Told,
        };
        Opened { handle, id: open.id, passthrough, keep_cache, close }
    }

    pub(super) fn is_networked(&self, tier: TierId) -> bool {
        self.parts.tiers.find(tier).is_none_or(|tier| tier.capabilities().networked)
    }

    pub(super) fn open_file(&self, bytes: Bytes, generation: Generation) -> Arc<OpenFile> {
        let id = OpenFileId(self.next_open_file.fetch_add(1, Ordering::Relaxed));
        let resident = !matches!(bytes, Bytes::Streamed(_) | Bytes::Partial { .. });
        let passthrough = AtomicBool::new(resident && self.io_mode() == IoMode::Passthrough);
        let epoch = self.path_epoch.load(Ordering::Acquire);
        Arc::new(OpenFile { id, bytes, generation, passthrough, epoch })
    }

    /// The kernel could not take the file of this handle: all its I/O comes to the daemon.
    pub fn serve_ordinarily(&self, handle: FileHandle) {
        if let Ok(handle) = self.handles.file(handle)
            && let Some(open) = &handle.node.file.lock().open
        {
            open.passthrough.store(false, Ordering::Relaxed);
        }
    }

    /// `dir`: where the name is by which its opens are counted.
    fn open_for_read(&self, caller: &Caller, ino: Ino, dir: Option<Ino>) -> Result<Arc<OpenFile>> {
        let open = |looks| self.try_open_for_read(caller, &self.catalog().inode(ino)?, looks, dir);
        let mut opened = open(Looks::Known);
        for _ in 0..MOVING_TARGET {
            match &opened {
                // The bytes moved on (staged → hot, another home, an outside change) between the look and the open.
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Corrupt) => {
                    self.let_names_settle(ino)?;
                    opened = open(Looks::Known);
                }
                // Changed in place, by another program or a mapping that outlived its handles, since the last look.
                Err(error) if error.kind() == Kind::Changed => match self.look_again_at(ino) {
                    Ok(()) => opened = open(Looks::Known),
                    Err(error) if error.kind() == Kind::WouldBlock => return Err(error),
                    // What can't be written down now is seen by the next look.
                    Err(_) => break,
                },
                _ => break,
            }
        }
        match opened {
            // Somebody writes to it all the time, or the catalog's disk is full: it is read as it is.
            Err(error) if error.kind() == Kind::Changed => open(Looks::Any),
            opened => opened,
        }
    }

    fn try_open_for_read(
        &self,
        caller: &Caller,
        inode: &Inode,
        looks: Looks,
        dir: Option<Ino>,
    ) -> Result<Arc<OpenFile>> {
        let path = self.some_path(inode.attr.ino)?;
        let inode = &self.used(caller, inode)?;
        let rule = self.rule(&path, inode.opened_as());
        let replicas = self.newest(inode)?;
        if let Some(hot) = self.find_nearer(&rule, &replicas, inode)? {
            self.count_open(inode.attr.ino, dir);
            return Ok(self.open_file(hot, inode.generation));
        }
        if let Some(local) = self.open_local(&replicas, &rule)? {
            if looks == Looks::Known {
                self.expect_known(&replicas, &local)?;
            }
            self.count_open(inode.attr.ino, dir);
            self.promote_beside(caller, &rule, &replicas, inode);
            return Ok(self.open_file(local, inode.generation));
        }
        let remote = replicas.iter().find(|replica| self.resident(replica.tier).is_none());
        let remote = remote.ok_or_else(|| no_copy(&path))?;
        if let Some(hot) = self.find_hot(&rule, remote, inode)? {
            self.count_open(inode.attr.ino, dir);
            return Ok(self.open_file(hot, inode.generation));
        }
        if caller.wait == Wait::Never {
            return Err(Kind::WouldBlock.into());
        }
        // What is away is no copy of what home will have.
        let is_away = inode.away.is_some() && inode.opened_as().away.is_none();
        let reader = if self.sweeps(caller) || is_away {
            if is_away && !self.sweeps(caller) {
                self.count_open(inode.attr.ino, dir);
            }
            self.read_from_home(remote, inode, None)?
        } else {
            self.count_open(inode.attr.ino, dir);
            self.stream(&rule, remote, inode)?
        };
        Ok(self.open_file(Bytes::Streamed(reader), inode.generation))
    }

    /// Whether a file at its native key is what the last look saw.
    fn expect_known(&self, replicas: &[Replica], opened: &Bytes) -> Result<()> {
        let Bytes::Native { file, tier } = opened else { return Ok(()) };
        let known = replicas.iter().find(|replica| replica.tier == *tier && !replica.staged);
        let (Some(known), Some(resident)) = (known, self.resident(*tier)) else { return Ok(()) };
        match known.version == Some(resident.stat_open(file)?.version) {
            true => Ok(()),
            false => Err(Error::new(Kind::Changed, format!("{} changes while it is opened", known.key))),
        }
    }

    /// Replicas of the newest generation, with bytes.
    pub(super) fn newest(&self, inode: &Inode) -> Result<Vec<Replica>> {
        let mut replicas = self.catalog().replicas(inode.attr.ino)?;
        replicas.retain(|replica| {
            replica.generation == inode.generation && (replica.staged || replica.version.is_some())
        });
        Ok(replicas)
    }

    /// The staged file, or a native one.
    pub(super) fn open_local(&self, replicas: &[Replica], rule: &Rule) -> Result<Option<Bytes>> {
        if let Some(staged) = replicas.iter().find(|replica| replica.staged) {
            let ino = staged.ino.ok_or(Kind::Corrupt)?;
            let bytes =
                self.staged_bytes(ino, staged.tier, &staged.name).map_err(|error| match error.kind() {
                    Kind::NotFound => lost(staged, error),
                    _ => error,
                })?;
            return Ok(Some(bytes));
        }
        for replica in replicas {
            let Some(resident) = self.resident(replica.tier) else { continue };
            let file = match self.open_native(resident, &replica.key) {
                Ok(file) => Arc::new(file),
                Err(error) if error.kind() == Kind::NotFound && replicas.len() > 1 => continue,
                Err(error) => return Err(error),
            };
            let tier = replica.tier;
            return Ok(Some(if tier == rule.home {
                Bytes::Native { file, tier }
            } else {
                Bytes::Hot { file, tier }
            }));
        }
        Ok(None)
    }

    /// A hot copy of what `remote` holds, whoever made it.
    pub(super) fn find_hot(&self, rule: &Rule, remote: &Replica, inode: &Inode) -> Result<Option<Bytes>> {
        let identity = self.identity(remote)?;
        for tier in &rule.hot {
            let Some(hot) = self.parts.hots.get(tier) else { continue };
            match hot.find(&identity, inode.attr.size) {
                Ok(Some(file)) => {
                    self.note_copy(inode.attr.ino, &hot.path_key(&identity)?);
                    self.parts.streams.meters().hot_opens.add(1);
                    return Ok(Some(Bytes::Hot { file: Arc::new(file), tier: *tier }));
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "a hot tier could not be asked; reading from home"),
            }
        }
        Ok(None)
    }

    /// A hot copy of what its resident home holds: the rule has tiers that are nearer.
    fn find_nearer(&self, rule: &Rule, replicas: &[Replica], inode: &Inode) -> Result<Option<Bytes>> {
        match self.clean_at_resident_home(rule, replicas) {
            Some(home) if !rule.hot.is_empty() => self.find_hot(rule, home, inode),
            _ => Ok(None),
        }
    }

    /// The copy at home, if that is a directory tier and no newer bytes are on a stage.
    pub(super) fn clean_at_resident_home<'a>(
        &self,
        rule: &Rule,
        replicas: &'a [Replica],
    ) -> Option<&'a Replica> {
        self.resident(rule.home)?;
        let is_staged = replicas.iter().any(|replica| replica.staged);
        replicas.iter().find(|replica| replica.tier == rule.home && !is_staged)
    }

    pub(super) fn identity(&self, replica: &Replica) -> Result<Identity> {
        let version = replica.version.clone().ok_or_else(|| no_copy(&replica.key))?;
        let location = self.parts.tiers.get(replica.tier)?.location();
        Ok(Identity { location, key: replica.key.clone(), version })
    }

    pub(super) fn stream(&self, rule: &Rule, remote: &Replica, inode: &Inode) -> Result<Arc<Reader>> {
        let identity = self.identity(remote)?;
        let fill = match self.promote(rule, inode, &identity) {
            Ok(Some(FillStart::Started(fill))) => Some(fill),
            Ok(Some(FillStart::Elsewhere) | None) => None,
            Err(error) => {
                tracing::warn!(%error, "no hot copy can be made now; reading from home");
                None
            }
        };
        self.read_from_home(remote, inode, fill)
    }

    /// A reader of `remote`; what it reads also goes into `fill`.
    pub(super) fn read_from_home(
        &self,
        remote: &Replica,
        inode: &Inode,
        fill: Option<Fill>,
    ) -> Result<Arc<Reader>> {
        let Identity { key, version, .. } = self.identity(remote)?;
        let tier = self.parts.tiers.get(remote.tier)?.clone();
        let source = Source { tier, key, version, size: inode.attr.size };
        self.parts.streams.meters().home_opens.add(1);
        Ok(Reader::open(source, self.parts.streams.clone(), fill))
    }

    /// FLUSH: a descriptor was closed. For a writer, the close row is written before the answer. Answers what the close has to wait for,
    /// where its rule says that it does.
    ///
    /// # Errors
    /// What the catalog or the file system under the bytes says.
    pub fn flush(&self, caller: &Caller, handle: FileHandle) -> Result<Pending> {
        let known = self.handles.file(handle)?;
        let Some(open) = known.node.file.lock().open.clone().filter(|_| known.writes) else {
            return Ok(None);
        };
        let through = self.closes_through(caller, &known.node, &open)?;
        self.tell_close(caller, handle)?;
        if through { self.publish(&known.node) } else { Ok(None) }
    }

    /// Writes down that a file was closed.
    pub(super) fn tell_close(&self, caller: &Caller, handle: FileHandle) -> Result<()> {
        let handle = self.handles.file(handle)?;
        if !handle.writes {
            return Ok(());
        }
        let node = &handle.node;
        let Some(open) = node.file.lock().open.clone() else { return Ok(()) };
        let arrived = self.report_writes(caller, &open);
        if arrived.as_ref().is_err_and(|error| error.kind() == Kind::WouldBlock) {
            return arrived;
        }
        let mut state = node.file.lock();
        let Some(open) = state.open.clone() else { return Ok(()) };
        self.record_content(node, &mut state, &open)?;
        arrived
    }

    /// What became of the writes, where only a close says so.
    fn report_writes(&self, caller: &Caller, open: &OpenFile) -> Result<()> {
        let Some(tier) = open.tier().filter(|tier| open.is_written() && self.is_networked(*tier)) else {
            return Ok(());
        };
        if caller.wait == Wait::Never {
            return Err(Kind::WouldBlock.into());
        }
        if let Bytes::Partial { file, .. } = &open.bytes {
            // Another machine that takes it over believes of the map only what is vouched for.
            file.partial().sync()?;
        }
        self.resident(tier).ok_or(Kind::Absent)?.report_writes(open.changing()?)
    }

    /// Tells the catalog what the file is now, if that is news.
    pub(super) fn record_content(&self, node: &Node, state: &mut FileState, open: &OpenFile) -> Result<()> {
        let content = open.content()?;
        let is_known = content.is_still(state.told.as_ref()) && !state.must_close;
        if node.unlinked.load(Ordering::Acquire) || is_known {
            return Ok(());
        }
        match &open.bytes {
            Bytes::Native { file, tier } => {
                let resident = self.resident(*tier).ok_or(Kind::Absent)?;
                let version = resident.stat_open(file)?.version;
                let wrote = self.catalog().wrote_native(node.ino, *tier, content, &version)?;
                // The kernel's pages are what was written.
                state.cached_generation = state.cached_generation.and(Some(wrote.generation));
                if wrote.nlink > 1 {
                    self.tell_other_homes(node.ino, *tier)?;
                }
            }
            _ => {
                let path = self.some_path(node.ino)?;
                let seq =
                    self.catalog().close(node.ino, content, &self.domain(&path, self.ids(node.ino)?))?;
                crate::failpoint::pass("close_row_written");
                self.describe_closed(node.ino, &path, seq);
            }
        }
        state.told = Some(content);
        state.must_close = false;
        Ok(())
    }

    /// A file that was written in place on `tier` may have names whose homes are elsewhere.
    fn tell_other_homes(&self, ino: Ino, tier: TierId) -> Result<()> {
        let whereabouts = self.catalog().inode(ino)?.whereabouts();
        for (parent, name) in self.catalog().names(ino)? {
            let path = self.child_path(parent, &name)?;
            if self.rule(&path, whereabouts).home != tier {
                self.catalog().queue(ino, &self.domain(&path, whereabouts.ids))?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// RELEASE: the last descriptor of an open file description is gone.
    ///
    /// # Errors
    /// [`Kind::WouldBlock`], or a handle that is not open.
    pub fn release(&self, caller: &Caller, handle: FileHandle) -> Result<Released> {
        let node = self.handles.file(handle)?.node.clone();
        let turn = self.turn(caller, &node)?;
        let handle = self.handles.remove_file(handle)?;
        let node = &handle.node;
        let mut state = node.file.lock();
        let open = state.open.clone();
        // Never a moment in which it seems to be neither open nor closing.
        node.settling.store(true, Ordering::Release);
        let left = node.handles.fetch_sub(1, Ordering::AcqRel) - 1;
        state.executing -= u32::from(handle.executes);
        let mut result = Ok(());
        if handle.writes {
            state.writers -= 1;
            if state.writers == 0 {
                state.uploaded = None;
            }
            if let Some(open) = open.as_ref().filter(|_| state.writers == 0) {
                result = self.end_writing(node, &mut state, open);
            }
        }
        let mut closed = None;
        let mut mapped = false;
        if left == 0 {
            closed = state.open.take().map(|open| open.id);
            mapped = open.as_ref().is_some_and(|open| may_be_mapped(open));
        }
        node.settling.store(mapped, Ordering::Release);
        let settle = mapped.then_some(node.ino);
        drop(state);
        if let Some(open) = open.filter(|_| closed.is_some() && settle.is_none()) {
            result = result.and_then(|()| self.let_go(node, &open));
        }
        drop(turn);
        self.forget_closed(node);
        if let Err(error) = result {
            // Nobody waits for this answer; the bytes stay where they are, and the next start closes them.
            tracing::error!(ino = %node.ino, %error, "the end of a write was not written down");
        }
        Ok(Released { closed, settle })
    }

    /// A staged file that was committed while it was open could not go then, nor could a native file move
    /// whose home became another; now they can.
    pub(super) fn let_go(&self, node: &Node, open: &OpenFile) -> Result<()> {
        let in_place = matches!(open.bytes, Bytes::Native { .. });
        let may_be_elsewhere = open.epoch != self.path_epoch.load(Ordering::Acquire);
        if node.unlinked.load(Ordering::Acquire) || (in_place && !may_be_elsewhere) {
            return Ok(());
        }
        let path = self.some_path(node.ino)?;
        let waits = match &open.bytes {
            Bytes::Native { tier, .. } => {
                let inode = self.catalog().inode(node.ino)?;
                self.rule(&path, inode.whereabouts()).home != *tier
            }
            Bytes::Staged { .. } | Bytes::Partial { .. } => {
                let inode = self.catalog().inode(node.ino)?;
                inode.state == WriteState::Clean && self.newest(&inode)?.iter().any(|replica| replica.staged)
            }
            _ => false,
        };
        if waits {
            self.catalog().queue(node.ino, &self.domain(&path, self.ids(node.ino)?))?;
        }
        Ok(())
    }

    /// No close carries what was changed of the attributes meanwhile.
    fn tell_attributes(&self, ino: Ino) -> Result<()> {
        let inode = self.catalog().inode(ino)?;
        if self.newest(&inode)?.iter().any(|replica| replica.attr_generation < inode.attr_generation) {
            self.catalog().queue(ino, &self.domain(&self.some_path(ino)?, inode.attr.ids()))?;
        }
        Ok(())
    }

    fn end_writing(&self, node: &Node, state: &mut FileState, open: &OpenFile) -> Result<()> {
        if node.unlinked.load(Ordering::Acquire) {
            return Ok(());
        }
        if !open.is_staged() {
            // Bytes may have come through a mapping after the last FLUSH.
            return self.record_content(node, state, open);
        }
        let speculative = self.catalog().inode(node.ino)?.state == WriteState::Writing && !state.must_close;
        let unchanged = open.content()?.is_still(state.told.as_ref());
        let last = node.handles.load(Ordering::Acquire) == 0;
        if speculative && unchanged {
            if last {
                return if may_be_mapped(open) { Ok(()) } else { self.revert(node.ino) };
            }
            if self.end_unchanged(node.ino)? {
                return Ok(());
            }
        }
        state.must_close |= speculative;
        self.record_content(node, state, open)?;
        if !(last && may_be_mapped(open)) {
            self.catalog().released(node.ino)?;
            crate::failpoint::pass("released");
        }
        Ok(())
    }

    /// Opened for writing, never changed: the file is as clean as before.
    pub(super) fn revert(&self, ino: Ino) -> Result<()> {
        let whole = !self.newest(&self.catalog().inode(ino)?)?.iter().any(Replica::is_partial);
        if whole && self.may_stay_hot(ino)? && self.end_unchanged(ino)? {
            return Ok(());
        }
        match self.revert_write(ino)? {
            Some(replica) => {
                self.remove_staged(&replica)?;
                self.tell_attributes(ino)
            }
            None => self.close_unchanged(ino),
        }
    }

    /// What it was before is nowhere any more: the staged bytes are the file.
    fn close_unchanged(&self, ino: Ino) -> Result<()> {
        let inode = self.catalog().inode(ino)?;
        let staged = self.newest(&inode)?.into_iter().find(|replica| replica.staged);
        let Some(staged) = staged.filter(|_| inode.state == WriteState::Writing) else { return Ok(()) };
        let file = self.stage(staged.tier)?.open(&staged.name, Access::Read)?;
        self.close_row(ino, content_of(&file)?)?;
        self.catalog().released(ino)
    }
}

/// What a native file may look like to be opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// As the last look saw it.
    Known,
    /// Whatever it is.
    Any,
}

/// Whether a mapping of these bytes may outlive the handles: one through the daemon keeps its handle.
fn may_be_mapped(open: &OpenFile) -> bool {
    matches!(open.bytes, Bytes::Staged { .. }) && open.passes_through()
}

/// A staged file that is not there: its newest bytes are gone, and nothing may stand in for them.
pub(super) fn lost(staged: &Replica, error: Error) -> Error {
    let text = format!("the staged bytes are gone: {} is missing", staged.key);
    Error::new(Kind::Corrupt, text).with_source(error)
}

pub(super) fn no_copy(path: &Key) -> Error {
    Error::new(Kind::Corrupt, format!("{path}: no tier has the newest bytes of this file"))
}
