//! rename: one catalog transaction, with rename(2) in the same call where a healthy directory tier
//! has the bytes. Nothing is copied before the answer.

use super::names::Moving;
use super::node::Node;
use super::open_file::{Bytes, Place};
use super::{Caller, Vfs};
use crate::catalog::{Inode, MoveEffect, NativeMove, RenamePlan, Writers, stage_name};
use crate::data::lease::no_writers;
use crate::error::{Kind, Result};
use crate::policy::placement::{Order, Subject};
use crate::tier::{Access, RenameMode, Resident};
use crate::types::{FileKind, Ino, Key, TierId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One end of a rename.
struct End<'a> {
    parent: Ino,
    name: &'a [u8],
    path: Key,
}

impl Vfs {
    /// Renames `name` in `parent` to `new_name` in `new_parent`.
    ///
    /// # Errors
    /// As rename(2), but never EXDEV.
    pub fn rename(
        &self,
        caller: &Caller,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let from = End { parent, name, path: self.new_child_path(parent, name)? };
        let to = End { parent: new_parent, name: new_name, path: self.new_child_path(new_parent, new_name)? };
        self.refresh_name(caller, &self.nodes.get(new_parent), new_name)?;
        let source = self.existing(parent, name)?;
        let target = self.catalog().lookup(new_parent, new_name)?;
        if !self.check_rename(caller, &from, &to, &source, target.as_ref(), mode)? {
            return Ok(());
        }
        // What is replaced takes its turn too: nobody opens it between a look at its writers and the end of its name.
        let nodes = self.files_concerned(&source, target.as_ref());
        let mut turns = Vec::with_capacity(nodes.len());
        for node in &nodes {
            turns.push(self.turn(caller, node)?);
        }
        let (plan, exclusive) = self.plan_alone(&from, &to, &source, target.as_ref(), mode)?;
        let intent = self.catalog().begin_rename(&plan)?;
        let kept = if must_outlast_power_loss(&plan) { self.catalog().sync() } else { Ok(()) };
        crate::failpoint::pass("rename_intended");
        if let Err(error) = kept.and_then(|()| self.move_natively(&plan)) {
            self.catalog().cancel_rename(intent)?;
            return Err(error);
        }
        crate::failpoint::pass("renamed_natively");
        let renamed = self.catalog().finish_rename(intent, &plan)?;
        self.path_epoch.fetch_add(1, Ordering::AcqRel);
        drop(exclusive);
        for step in plan.moves.iter().filter(|step| step.effect == MoveEffect::ReplicaToStage) {
            for node in &nodes {
                self.follow_to_stage(node, step.tier)?;
            }
        }
        drop(turns);
        if let Some(replaced) = renamed.replaced {
            self.lost_its_name(&replaced);
        }
        self.moved(source.attr.ino);
        match target.filter(|_| mode == RenameMode::Exchange) {
            Some(target) => self.moved(target.attr.ino),
            None => self.keep_emptied(parent),
        }
        Ok(())
    }

    /// The plan, and the tiers it moves anything on, held exclusively.
    fn plan_alone(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        source: &Inode,
        target: Option<&Inode>,
        mode: RenameMode,
    ) -> Result<(RenamePlan, Moving<'_>)> {
        // As far as that can be told without a look at what is there.
        let homes =
            [from, to].into_iter().filter_map(|end| self.resident_home(&end.path, source.whereabouts()));
        let mut tiers: BTreeSet<TierId> = homes.map(|(tier, _)| tier).collect();
        loop {
            let exclusive = self.native_names.move_on(&tiers);
            let plan = self.plan(from, to, source, target, mode)?;
            let moving: BTreeSet<TierId> = plan.moves.iter().map(|step| step.tier).collect();
            if moving.is_subset(&tiers) {
                return Ok((plan, exclusive));
            }
            drop(exclusive);
            tiers.extend(moving);
        }
    }

    /// Files whose bytes or names change places, in the order in which their turns are taken.
    fn files_concerned(&self, source: &Inode, target: Option<&Inode>) -> Vec<Arc<Node>> {
        let is_file = |inode: &&Inode| inode.attr.kind == FileKind::Regular;
        let mut inos: Vec<_> = [Some(source), target]
            .into_iter()
            .flatten()
            .filter(is_file)
            .map(|inode| inode.attr.ino)
            .collect();
        inos.sort_unstable();
        inos.into_iter().map(|ino| self.nodes.get(ino)).collect()
    }

    /// What is open of a native file that left for the stage is the staged file from now on, and a generation
    /// that is still being written.
    fn follow_to_stage(&self, node: &Node, tier: TierId) -> Result<()> {
        let mut state = node.file.lock();
        let Some(open) = state.open.clone() else { return Ok(()) };
        let Bytes::Native { tier: held, .. } = &open.bytes else { return Ok(()) };
        let inode = self.catalog().inode(node.ino)?;
        if *held != tier || !self.newest(&inode)?.iter().any(|replica| replica.staged && replica.tier == tier)
        {
            return Ok(());
        }
        let writing = state.writers > 0;
        let generation =
            if writing { self.catalog().begin_write(node.ino, tier)?.generation } else { inode.generation };
        state.open = Some(open.relabelled(Place::Staged, generation));
        state.told = None;
        state.must_close = writing;
        Ok(())
    }

    /// What is known of an inode beside its names follows them.
    fn moved(&self, ino: Ino) {
        self.know_natives(ino);
        self.describe_again(ino);
    }

    /// Whether there is anything to do; two names of one inode are left as they are.
    fn check_rename(
        &self,
        caller: &Caller,
        from: &End<'_>,
        to: &End<'_>,
        source: &Inode,
        target: Option<&Inode>,
        mode: RenameMode,
    ) -> Result<bool> {
        let is_directory = |inode: &Inode| inode.attr.kind == FileKind::Directory;
        if is_directory(source) && to.path.is_under(&from.path) && to.path != from.path {
            return Err(Kind::Invalid.into());
        }
        let Some(target) = target else {
            return if mode == RenameMode::Exchange { Err(Kind::NotFound.into()) } else { Ok(true) };
        };
        match mode {
            RenameMode::NoReplace => return Err(Kind::Exists.into()),
            _ if target.attr.ino == source.attr.ino => return Ok(false),
            RenameMode::Exchange if is_directory(target) && from.path.is_under(&to.path) => {
                return Err(Kind::Invalid.into());
            }
            RenameMode::Exchange => return Ok(true),
            RenameMode::Replace => {}
        }
        match (is_directory(source), is_directory(target)) {
            (true, false) => Err(Kind::NotDirectory.into()),
            (false, true) => Err(Kind::IsDirectory.into()),
            (true, true) => self.check_empty(caller, target.attr.ino).map(|_| true),
            (false, false) => Ok(true),
        }
    }

    fn plan(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        source: &Inode,
        target: Option<&Inode>,
        mode: RenameMode,
    ) -> Result<RenamePlan> {
        let new = Subject::new(&to.path, source.attr.ids());
        let swapped = target.filter(|_| mode == RenameMode::Exchange);
        let moves = match swapped {
            Some(target) => self.exchange_moves(from, to, source, target)?,
            None => self.moves(from, to, source, target)?,
        };
        let native = self.is_native_after(to, source, &moves)?
            && swapped.map_or(Ok(true), |target| self.is_native_after(from, target, &moves))?
            && (source.attr.kind != FileKind::Directory || self.rules().same_under(&from.path, &to.path));
        Ok(RenamePlan {
            parent: from.parent,
            name: from.name.to_vec(),
            new_parent: to.parent,
            new_name: to.name.to_vec(),
            mode,
            moves,
            domain: (!native).then(|| self.rules().domain_of(source.attr.kind, new)),
            follows: match source.attr.kind {
                FileKind::Directory => self.rules().domains_below(&from.path, new),
                _ => None,
            },
            preserve: match target.filter(|_| mode == RenameMode::Replace) {
                Some(replaced) => self.home_of_replaced(replaced, &to.path)?,
                None => None,
            },
            writers: match target.filter(|_| mode == RenameMode::Replace && !native) {
                Some(replaced) => self.writers_of_replaced(replaced)?,
                None => Writers::Maybe,
            },
            now: self.now(),
        })
    }

    /// Where `replaced` has to be shown before what replaces it, because something that was closed in between may speak of it.
    fn home_of_replaced(&self, replaced: &Inode, path: &Key) -> Result<Option<TierId>> {
        let ids = replaced.attr.ids();
        let rule = self.rule(path, replaced.whereabouts());
        let is_ordered = rule.order != Order::None && !self.is_held(path, ids);
        let is_remote = replaced.attr.kind == FileKind::Regular && self.resident(rule.home).is_none();
        let is_needed = is_ordered && is_remote && self.catalog().is_followed(replaced.attr.ino)?;
        Ok(is_needed.then_some(rule.home))
    }

    /// Who may go on writing to the native files of `replaced`, which stay until the mover brings what replaces them; their rows
    /// know which versions they are in now.
    fn writers_of_replaced(&self, replaced: &Inode) -> Result<Writers> {
        let ino = replaced.attr.ino;
        if self.is_open(ino) {
            return Ok(Writers::Maybe);
        }
        for replica in self.newest(replaced)?.iter().filter(|replica| !replica.staged) {
            let Some(resident) = self.resident(replica.tier) else { continue };
            if replaced.attr.kind == FileKind::Regular && !is_unwritten(resident, &replica.key)? {
                return Ok(Writers::Maybe);
            }
        }
        self.know_natives(ino);
        Ok(Writers::None)
    }

    /// Native renames of whatever `source` has under its old name on directory tiers.
    fn moves(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        source: &Inode,
        replaced: Option<&Inode>,
    ) -> Result<Vec<NativeMove>> {
        let mut moves = Vec::new();
        for (tier, key) in self.native_keys(from, source)? {
            let stays = source.attr.kind == FileKind::Directory
                || self.rule(&to.path, source.whereabouts()).home == tier;
            let target = if stays { self.native_target(to, tier)? } else { None };
            let target = match target {
                Some(_) if self.must_wait(to, tier, source, replaced)? => None,
                target => target,
            };
            moves.extend(match target {
                Some(target) => self.native_move(tier, key, target, effect_on_name(source), Swap::No)?,
                None if source.attr.kind == FileKind::Regular => self.move_to_stage(tier, key, source)?,
                // A leftover that the mover takes along.
                None => None,
            });
        }
        Ok(moves)
    }

    /// Where both ends have native bytes on one tier that stays their home, they are swapped there;
    /// other native files leave the namespace for the stage, so that no key is in another's way.
    fn exchange_moves(
        &self,
        from: &End<'_>,
        to: &End<'_>,
        source: &Inode,
        target: &Inode,
    ) -> Result<Vec<NativeMove>> {
        let sources = self.native_keys(from, source)?;
        let targets = self.native_keys(to, target)?;
        let homes = [(from, source), (from, target), (to, source), (to, target)]
            .map(|(end, inode)| self.rule(&end.path, inode.whereabouts()).home);
        let same_home = homes.iter().all(|home| *home == homes[0]);
        let mut moves = Vec::new();
        let mut swapped = Vec::new();
        for (tier, key) in &sources {
            if let Some((_, other)) = targets.iter().find(|(t, _)| t == tier).filter(|_| same_home) {
                let effect = effect_on_name(source);
                moves.extend(self.native_move(*tier, key.clone(), other.clone(), effect, Swap::Yes)?);
                swapped.push(*tier);
            }
        }
        let apart = [(source, sources), (target, targets)];
        for (inode, keys) in apart {
            for (tier, key) in keys.into_iter().filter(|(tier, _)| !swapped.contains(tier)) {
                if inode.attr.kind == FileKind::Regular {
                    moves.extend(self.move_to_stage(tier, key, inode)?);
                }
            }
        }
        Ok(moves)
    }

    /// Native keys of this very name on directory tiers.
    fn native_keys(&self, end: &End<'_>, inode: &Inode) -> Result<Vec<(TierId, Key)>> {
        let mut keys = Vec::new();
        let held: Vec<(TierId, Key)> = if inode.attr.kind == FileKind::Directory {
            let places = self.catalog().places(inode.attr.ino)?;
            places.iter().map(|place| (place.tier, place.key.clone())).collect()
        } else {
            // A key taken over from a replaced file still holds that one's bytes: the mover deletes it.
            let named = self.newest(inode)?.into_iter().filter(|replica| !replica.staged);
            named.map(|replica| (replica.tier, replica.key)).collect()
        };
        for (tier, key) in held {
            if self.resident(tier).is_none() {
                continue;
            }
            if let Some(place) = self.catalog().native_place(end.parent, tier)?
                && place.key.join(end.name)? == key
            {
                keys.push((tier, key));
            }
        }
        Ok(keys)
    }

    /// The native key of the new name, its directories made; `None` if another inode still owns it.
    fn native_target(&self, to: &End<'_>, tier: TierId) -> Result<Option<Key>> {
        match self.make_directory(to.parent, tier) {
            Ok(place) => Ok(Some(place.key.join(to.name)?)),
            Err(error) if error.kind() == Kind::Busy => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a file goes by the stage and the mover, and a directory stays where it is until the mover comes: what lies under the native
    /// key has yet to leave it, or must not be replaced.
    fn must_wait(
        &self,
        to: &End<'_>,
        tier: TierId,
        source: &Inode,
        replaced: Option<&Inode>,
    ) -> Result<bool> {
        let Some(place) = self.catalog().native_place(to.parent, tier)? else { return Ok(false) };
        let key = place.key.join(to.name)?;
        let there = self.catalog().places_in(place.id)?.into_iter().find(|there| there.key == key);
        let owner = there.and_then(|there| there.ino);
        if owner.is_some() && owner != replaced.map(|replaced| replaced.attr.ino) {
            return Ok(true);
        }
        let Some(row) = self.catalog().replica_at(place.id, to.name)? else { return Ok(false) };
        match source.attr.kind {
            FileKind::Directory => Ok(row.version.is_some() || row.write_id.is_some()),
            // The mover is about to put another file there.
            FileKind::Regular if row.write_id.is_some() => Ok(true),
            FileKind::Regular => replaced.map_or(Ok(false), |replaced| self.is_only_copy(replaced, &row)),
            _ => Ok(false),
        }
    }

    fn move_to_stage(&self, tier: TierId, key: Key, inode: &Inode) -> Result<Option<NativeMove>> {
        if self.newest(inode)?.iter().any(|replica| replica.staged) {
            // The newest bytes are there already; this is a leftover.
            return Ok(None);
        }
        let name = stage_name(inode.attr.ino, inode.generation);
        let target = self.stage(tier)?.prepare(&name)?;
        self.native_move(tier, key, target, MoveEffect::ReplicaToStage, Swap::No)
    }

    fn native_move(
        &self,
        tier: TierId,
        from: Key,
        to: Key,
        effect: MoveEffect,
        swap: Swap,
    ) -> Result<Option<NativeMove>> {
        let Some(resident) = self.resident(tier) else { return Ok(None) };
        let native_ino = resident.stat(&from)?.native.map_or(0, |native| native.ino);
        Ok(Some(NativeMove { tier, from, to, exchange: swap == Swap::Yes, native_ino, effect }))
    }

    /// Whether home has `inode` under the native key of `end` once the moves are made.
    fn is_native_after(&self, end: &End<'_>, inode: &Inode, moves: &[NativeMove]) -> Result<bool> {
        let Some((home, _)) = self.resident_home(&end.path, inode.whereabouts()) else { return Ok(false) };
        if moves.iter().any(|m| m.effect == MoveEffect::ReplicaToStage) {
            return Ok(false);
        }
        if inode.attr.kind == FileKind::Directory {
            let places = self.catalog().places(inode.attr.ino)?;
            return Ok(places.iter().all(|place| moves.iter().any(|m| m.tier == place.tier)));
        }
        Ok(moves.iter().any(|m| m.tier == home))
    }

    /// Makes the moves; if one fails, those before it are taken back.
    fn move_natively(&self, plan: &RenamePlan) -> Result<()> {
        for (done, step) in plan.moves.iter().enumerate() {
            let Some(resident) = self.resident(step.tier) else { continue };
            let mode = if step.exchange { RenameMode::Exchange } else { RenameMode::Replace };
            if let Err(error) = resident.rename(&step.from, &step.to, mode) {
                for earlier in plan.moves[..done].iter().rev() {
                    self.undo(earlier);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn undo(&self, step: &NativeMove) {
        let Some(resident) = self.resident(step.tier) else { return };
        let mode = if step.exchange { RenameMode::Exchange } else { RenameMode::NoReplace };
        if let Err(error) = resident.rename(&step.to, &step.from, mode) {
            tracing::error!(from = %step.to, to = %step.from, %error, "a half-made rename was not taken back");
        }
    }
}

/// Whether a native rename swaps its ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Swap {
    Yes,
    No,
}

/// Whether the kernel says that nobody has the native file open or mapped for writing; where it can't say, there is no
/// passthrough that could have outlived an earlier daemon.
fn is_unwritten(resident: &dyn Resident, key: &Key) -> Result<bool> {
    match resident.open(key, Access::Read).and_then(|file| no_writers(&file)) {
        Err(error) if matches!(error.kind(), Kind::Unsupported | Kind::NotFound) => Ok(true),
        Err(error) if matches!(error.kind(), Kind::Denied | Kind::NotPermitted) => Ok(false),
        answer => answer,
    }
}

/// Whether the bytes will lie where no look at a tier would find them again: on a tier that is not the home of their new name, or on the
/// stage. A native rename outlasts a power loss by itself; then its row must, too.
fn must_outlast_power_loss(plan: &RenamePlan) -> bool {
    !plan.moves.is_empty() && plan.domain.is_some()
}

fn effect_on_name(inode: &Inode) -> MoveEffect {
    match inode.attr.kind {
        FileKind::Directory => MoveEffect::PlaceToName,
        _ => MoveEffect::ReplicaToName,
    }
}
