//! Bringing home what programs have open: it is closed as it is now, a copy of that keeps its place in the order, and the open file goes on
//! as the next generation. Says what to wait for; whoever owns the thread does the waiting.

use super::node::Node;
use super::open_file::{OpenFile, Place, content_of};
use super::{Caller, Vfs, Wait, WriteState};
use crate::catalog::{Inode, Replica, copied_name, copied_partial_name};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::{Fsync, Rule, Write};
use crate::tier::Access;
use crate::types::{Awaited, Ino};
use parking_lot::Mutex;
use std::fs::File;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// Waits until something is at home; the duration is how long its caller waits while the home gives no sign of life.
pub type AtHome =
    Arc<dyn Fn(Awaited, Duration) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

/// What a call that succeeded so far has to wait for before it is answered.
pub type Pending = Option<(Awaited, Duration)>;

/// So often a copy is begun anew because the file was written to meanwhile.
const TRIES: usize = 8;

/// Two writes within this time may leave the same modification time, where the kernel counts it in ticks.
const TICK: Duration = Duration::from_millis(10);

/// So often within the time that a file may be open it is looked whether that is over.
const OPEN_LOOKS: u32 = 4;

/// But at least that often.
const OPEN_LOOK_MAX: Duration = Duration::from_secs(10);

/// How long a caller waits for a home of which nobody knows better.
const PATIENCE: Duration = Duration::from_secs(60);

/// What there is to wait for of an open file.
enum Published {
    /// It is at home already, or nobody will ever look for it there.
    Nothing,
    /// This.
    Pending(Awaited),
    /// It was written to while it was looked at.
    Changed,
}

/// Whether the catalog knows what a closed file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// As it says.
    Known,
    /// Somebody wrote to it since, and closes it no more.
    Changed,
}

impl Vfs {
    /// Waits for what [`Vfs::flush`], [`Vfs::fsync`] or [`Vfs::fsync_directory`] said.
    pub fn at_home(
        &self,
        awaited: Awaited,
        patience: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        (self.parts.at_home)(awaited, patience)
    }

    /// Whether close waits for the commit of this file.
    pub(super) fn closes_through(&self, caller: &Caller, node: &Node, open: &OpenFile) -> Result<bool> {
        let Some(rule) = self.published_by(node, open)? else { return Ok(false) };
        match (rule.write, caller.wait) {
            (Write::Back, _) => Ok(false),
            (Write::Through, Wait::Never) => Err(Kind::WouldBlock.into()),
            (Write::Through, Wait::Allowed) => Ok(true),
        }
    }

    /// Whether fsync does.
    pub(super) fn syncs_home(&self, node: &Node, open: &OpenFile) -> Result<bool> {
        Ok(self.published_by(node, open)?.is_some_and(|rule| rule.fsync == Fsync::Home))
    }

    /// The rule of a file that has to reach its home from the stage, unless its name is held: then nothing is committed before it is renamed.
    fn published_by(&self, node: &Node, open: &OpenFile) -> Result<Option<Arc<Rule>>> {
        if !open.is_staged() || node.unlinked.load(Ordering::Acquire) {
            return Ok(None);
        }
        let path = self.some_path(node.ino)?;
        let ids = self.ids(node.ino)?;
        let rule = self.rule(&path, ids);
        let waits = (rule.write, rule.fsync) != (Write::Back, Fsync::Stage);
        Ok(Some(rule).filter(|_| waits && !self.is_held(&path, ids)))
    }

    /// What the names in a directory have to wait for when it is synced.
    pub(super) fn names_at_home(&self, ino: Ino) -> Result<Pending> {
        let rule = self.rule(&self.some_path(ino)?, self.ids(ino)?);
        let waits = rule.fsync == Fsync::Home;
        Ok(waits.then(|| (Awaited::Names(ino), self.patience(&rule))))
    }

    fn patience(&self, rule: &Rule) -> Duration {
        self.parts.room.deadlines.get(&rule.home).copied().unwrap_or(PATIENCE)
    }

    /// How often [`Vfs::upload_open`] has something to look at; never, if no rule wants it.
    #[must_use]
    pub fn open_upload_every(&self) -> Option<Duration> {
        let least = self.rules().iter().filter_map(|rule| rule.open_upload).min()?;
        Some((least / OPEN_LOOKS).min(OPEN_LOOK_MAX))
    }

    /// Brings home what has been open for writing for as long as its rule says. Does not wait for the commits.
    pub fn upload_open(&self) {
        let open = Mutex::new(Vec::new());
        self.nodes.for_each(|node| {
            if node.handles.load(Ordering::Acquire) > 0 {
                open.lock().push(node.ino);
            }
        });
        for node in open.into_inner().into_iter().filter_map(|ino| self.nodes.find(ino)) {
            let uploaded =
                self.is_open_for_long(&node).and_then(|is| if is { self.publish(&node) } else { Ok(None) });
            if let Err(error) = uploaded {
                tracing::warn!(ino = %node.ino, %error, "an open file could not be brought home as it is; it is tried again");
            }
        }
    }

    fn is_open_for_long(&self, node: &Node) -> Result<bool> {
        let open = node.file.lock().open.clone();
        let is_staged = open.is_some_and(|open| open.is_staged());
        if !is_staged || node.unlinked.load(Ordering::Acquire) {
            return Ok(false);
        }
        let path = self.some_path(node.ino)?;
        let ids = self.ids(node.ino)?;
        let Some(every) = self.rule(&path, ids).open_upload.filter(|_| !self.is_held(&path, ids)) else {
            return Ok(false);
        };
        let now = self.parts.clock.monotonic();
        let mut state = node.file.lock();
        if state.writers == 0 {
            return Ok(false);
        }
        let due = *state.uploaded.get_or_insert(now) + every;
        if now >= due {
            state.uploaded = Some(now);
        }
        Ok(now >= due)
    }

    /// Closes a file as it is now, open or not, so that it can be committed; answers what to wait for.
    ///
    /// # Errors
    /// [`Kind::NoSpace`] if the stage has no room for a copy, [`Kind::Busy`] if it is written to all the time. What was closed is committed later
    /// all the same.
    pub(super) fn publish(&self, node: &Arc<Node>) -> Result<Pending> {
        let _turn = node.turn.lock();
        for _ in 0..TRIES {
            match self.try_to_publish(node)? {
                Published::Nothing => return Ok(None),
                Published::Pending(awaited) => {
                    let patience = self.patience(&self.rule(&self.some_path(node.ino)?, self.ids(node.ino)?));
                    return Ok(Some((awaited, patience)));
                }
                Published::Changed => {}
            }
        }
        Err(Error::new(Kind::Busy, "it is written to all the time, so no copy of it is whole"))
    }

    fn try_to_publish(&self, node: &Node) -> Result<Published> {
        let Some(open) = node.file.lock().open.clone() else { return Ok(Published::Nothing) };
        outlast_tick(open.changing()?);
        // Blocks are counted when they are written.
        open.writable()?.sync()?;
        {
            let mut state = node.file.lock();
            if node.unlinked.load(Ordering::Acquire) {
                return Ok(Published::Nothing);
            }
            self.record_content(node, &mut state, &open)?;
        }
        let inode = self.catalog().inode(node.ino)?;
        match inode.state {
            WriteState::Clean => Ok(Published::Nothing),
            // Nothing is new since the last copy.
            WriteState::Writing => {
                Ok(Published::Pending(Awaited::Content(node.ino, inode.generation.before())))
            }
            WriteState::Closed => Ok(Published::Pending(Awaited::Content(node.ino, inode.generation))),
            WriteState::ClosedOpen if self.snapshot(node, &inode, Closed::Known)? => {
                Ok(Published::Pending(Awaited::Content(node.ino, inode.generation)))
            }
            WriteState::ClosedOpen => Ok(Published::Changed),
        }
    }

    /// Lets a file that is closed, and still open or mapped, be committed as it was closed: others wait for it. One that nobody has open here, and
    /// that a mapping or a program of an earlier daemon went on writing to, is committed as it is now, for there will be no close. False if
    /// it is no such file, or has changed since.
    ///
    /// # Errors
    /// As the stage says.
    pub fn preserve_closed(&self, ino: Ino) -> Result<bool> {
        let node = self.nodes.get(ino);
        let preserved = self.preserve_node(&node);
        self.forget_closed(&node);
        preserved
    }

    fn preserve_node(&self, node: &Node) -> Result<bool> {
        // Who has it may be waiting for what the caller keeps.
        let Some(_turn) = node.turn.try_lock() else { return Ok(false) };
        let mut inode = self.catalog().inode(node.ino)?;
        if inode.state != WriteState::ClosedOpen || node.unlinked.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Some(staged) = self.newest(&inode)?.into_iter().find(|replica| replica.staged) else {
            return Ok(false);
        };
        let stage = self.stage(staged.tier)?;
        // From here on what a mapping writes shows in the modification time.
        stage.sync(&staged.name)?;
        let mut closed = Closed::Known;
        if node.handles.load(Ordering::Acquire) == 0 {
            // Whoever has it, the end of that is seen as the end of a mapping is.
            node.settling.store(true, Ordering::Release);
            let file = stage.open(&staged.name, Access::Read)?;
            if !is_as_closed(&inode, &file)? {
                let now = content_of(&file)?;
                (inode.attr.size, inode.attr.blocks, inode.attr.mtime) = (now.size, now.blocks, now.mtime);
                closed = Closed::Changed;
            }
        }
        self.snapshot(node, &inode, closed)
    }

    /// Copies what was closed, and begins the next generation in the file that is open. False if that has changed.
    fn snapshot(&self, node: &Node, inode: &Inode, closed: Closed) -> Result<bool> {
        let ino = node.ino;
        let Some(staged) = self.newest(inode)?.into_iter().find(|replica| replica.staged) else {
            return Ok(false);
        };
        let stage = self.stage(staged.tier)?;
        let name = match staged.is_partial() {
            true => copied_partial_name(ino, inode.generation),
            false => copied_name(ino, inode.generation),
        };
        let from = stage.open(&staged.name, Access::Read)?;
        if !is_as_closed(inode, &from)? {
            return Ok(false);
        }
        if staged.is_partial() {
            let partial = stage.open_partial(&staged.name)?;
            // Once home has what is copied now, it has no more what both began from.
            partial.goes_on_from(inode.generation)?;
            partial.sync()?;
            stage.copy_partial(&name, &partial)?;
        } else if !stage.clone_from_file(&name, &from)? {
            stage.copy_from_file(&name, &from)?;
        }
        stage.seal_copy(&name, &from)?;
        let seq = self.catalog().step_of(ino)?;
        let Some(copy) = self.go_on_after(node, inode, &from, closed)? else {
            stage.drop_copy(&name)?;
            return Ok(false);
        };
        crate::failpoint::pass("generation_copied");
        stage.finish_copy(&copy.name)?;
        self.describe(copy.tier, &copy.name, inode, &self.some_path(ino)?, seq);
        // Without the catalog, what is half written must not pass for closed.
        self.describe_again(ino);
        Ok(true)
    }

    /// No close can come between the last look at the file and the row.
    fn go_on_after(
        &self,
        node: &Node,
        inode: &Inode,
        from: &File,
        closed: Closed,
    ) -> Result<Option<Replica>> {
        let mut state = node.file.lock();
        let content = content_of(from)?;
        if node.unlinked.load(Ordering::Acquire) {
            return Ok(None);
        }
        let copy = match closed {
            Closed::Known => self.catalog().snapshot(node.ino, content)?,
            Closed::Changed if is_as_closed(inode, from)? => {
                self.catalog().snapshot_changed(node.ino, content)?
            }
            Closed::Changed => None,
        };
        let Some(copy) = copy else { return Ok(None) };
        (state.told, state.must_close) = (Some(content), false);
        let goes_on = inode.generation.next();
        if let Some(open) = &state.open {
            state.open = Some(open.relabelled(Place::Staged, goes_on));
        }
        // The kernel's pages are as good as they were.
        if state.cached_generation == Some(inode.generation) {
            state.cached_generation = Some(goes_on);
        }
        Ok(Some(copy))
    }

    /// Whether the staged bytes of a file may serve as its hot copy.
    pub(super) fn may_stay_hot(&self, ino: Ino) -> Result<bool> {
        let rule = self.rule(&self.some_path(ino)?, self.catalog().inode(ino)?.opened_as());
        Ok(rule.hot.contains(&rule.stage))
    }

    /// A generation that began as a copy of one that is at home by now, and never changed, ends: the file is clean, and its staged bytes are a
    /// hot copy or go when nobody has them open.
    pub(super) fn end_unchanged(&self, ino: Ino) -> Result<bool> {
        // From then on the staged file stands for what home has, and a copy that was only opened was never synced.
        if let Some(staged) = self.newest(&self.catalog().inode(ino)?)?.iter().find(|replica| replica.staged)
        {
            self.stage(staged.tier)?.sync(&staged.name)?;
        }
        self.catalog().end_unchanged(ino, &self.domain_of(ino)?)
    }

    /// Takes the generation back that changed nothing; answers the staged row that went with it.
    pub(super) fn revert_write(&self, ino: Ino) -> Result<Option<Replica>> {
        self.catalog().revert_write(ino, &self.domain_of(ino)?)
    }

    fn domain_of(&self, ino: Ino) -> Result<String> {
        Ok(self.domain(&self.some_path(ino)?, self.ids(ino)?))
    }
}

/// Nobody has written to it since its close.
fn is_as_closed(inode: &Inode, file: &File) -> Result<bool> {
    let now = content_of(file)?;
    Ok((now.size, now.mtime) == (inode.attr.size, inode.attr.mtime))
}

/// From here on a write shows in the modification time.
fn outlast_tick(file: &File) {
    let written = file.metadata().and_then(|metadata| metadata.modified());
    let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    if let Some(rest) = age.and_then(|age| TICK.checked_sub(age)) {
        std::thread::sleep(rest);
    }
}
