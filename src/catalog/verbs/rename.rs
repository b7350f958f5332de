//! Renames: a row of intent, native moves by the caller, then one transaction over names and keys.
//!
//! The work does not depend on what lies below a moved directory: its place is one row.

use super::create::subdirectories;
use super::give_up::Leave;
use super::{Catalog, IntentId, stage_name};
use crate::catalog::tables::{Counter, Order, ReplicaRow, Tx, Why};
use crate::catalog::{Inode, MoveEffect, NativeMove, RenamePlan, Renamed, Unlinked, WriteState};
use crate::error::{Error, Kind, Result};
use crate::tier::RenameMode;
use crate::types::{FileKind, Ino, Key, name_is_valid};
use rusqlite::params;
use std::sync::atomic::Ordering;

impl Catalog {
    /// Writes down a rename before its native moves are made. Refuses what [`Catalog::finish_rename`] would refuse.
    pub fn begin_rename(&self, plan: &RenamePlan) -> Result<IntentId> {
        let text = serde_json::to_string(plan)
            .map_err(|e| Error::new(Kind::Invalid, "the rename can't be written down").with_source(e))?;
        self.engine.write(|tx| {
            tx.actors(plan)?;
            let id = tx.take(Counter::Intent)?;
            tx.execute("INSERT INTO intent (id, plan) VALUES (?1, ?2)", params![id, text])?;
            Ok(IntentId(id))
        })
    }

    /// Applies the plan to the tables and forgets the intent. Replicas and places not named by a move keep their keys. A replaced
    /// file is unlinked as by [`Catalog::unlink`], except that keys equal to the new name's native keys are taken over by the moved inode
    /// (generation 0) instead of doomed. A closed, uncommitted file's step moves to the end of the order.
    pub fn finish_rename(&self, intent: IntentId, plan: &RenamePlan) -> Result<Renamed> {
        // Until it is committed the intent is there, and is made good again.
        let (renamed, moves_directory) = self.engine.relaxed(|tx| {
            tx.forget_intent(intent)?;
            let renamed = tx.rename(plan)?;
            let is_directory = |parent, name: &[u8]| -> Result<bool> {
                Ok(tx.find_named(parent, name)?.is_some_and(|inode| inode.attr.kind == FileKind::Directory))
            };
            let there = is_directory(plan.new_parent, &plan.new_name)?;
            Ok((renamed, there || is_directory(plan.parent, &plan.name)?))
        })?;
        if moves_directory {
            self.directory_moves.fetch_add(1, Ordering::Release);
        }
        Ok(renamed)
    }

    /// How many renames moved a directory since the catalog was opened: equal numbers mean equal paths of what lies below one.
    pub fn directory_moves(&self) -> u64 {
        self.directory_moves.load(Ordering::Acquire)
    }

    /// A plan whose native moves failed before anything moved.
    pub fn cancel_rename(&self, intent: IntentId) -> Result<()> {
        self.engine.write(|tx| tx.forget_intent(intent))
    }

    /// Intents left by a crash.
    pub fn intents(&self) -> Result<Vec<(IntentId, RenamePlan)>> {
        let rows = self.engine.read(|tx| {
            tx.all("SELECT id, plan FROM intent ORDER BY id", [], |row| {
                Ok((IntentId(row.get(0)?), row.get::<_, String>(1)?))
            })
        })?;
        let parse = |(id, text): (IntentId, String)| match serde_json::from_str(&text) {
            Ok(plan) => Ok((id, plan)),
            Err(e) => Err(Error::new(Kind::Corrupt, "an intent of the catalog is unreadable").with_source(e)),
        };
        rows.into_iter().map(parse).collect()
    }
}

/// Who takes part.
struct Actors {
    moved: Inode,
    there: Option<Inode>,
}

impl Tx<'_> {
    fn forget_intent(&self, intent: IntentId) -> Result<()> {
        self.execute("DELETE FROM intent WHERE id = ?1", [intent.0])?;
        Ok(())
    }

    /// Checks the plan against the names there are.
    fn actors(&self, plan: &RenamePlan) -> Result<Actors> {
        name_is_valid(&plan.new_name)?;
        self.live_directory(plan.new_parent)?;
        let moved = self.named(plan.parent, &plan.name)?;
        let there = self.find_named(plan.new_parent, &plan.new_name)?;
        self.is_outside(&moved, plan.new_parent)?;
        match (plan.mode, &there) {
            (RenameMode::Exchange, None) => return Err(Error::new(Kind::NotFound, "nothing to swap with")),
            (RenameMode::Exchange, Some(there)) => self.is_outside(there, plan.parent)?,
            (RenameMode::NoReplace, Some(_)) => {
                return Err(Error::new(Kind::Exists, "the new name is taken"));
            }
            (RenameMode::Replace, Some(there)) if there.attr.ino != moved.attr.ino => {
                self.is_replaceable(&moved, there)?;
            }
            _ => {}
        }
        Ok(Actors { moved, there })
    }

    /// A directory can't go into itself.
    fn is_outside(&self, inode: &Inode, parent: Ino) -> Result<()> {
        if inode.attr.kind == FileKind::Directory && self.is_above(inode.attr.ino, parent)? {
            return Err(Error::new(Kind::Invalid, "a directory can't move into itself"));
        }
        Ok(())
    }

    fn is_replaceable(&self, moved: &Inode, there: &Inode) -> Result<()> {
        let directory = |inode: &Inode| inode.attr.kind == FileKind::Directory;
        match (directory(moved), directory(there)) {
            (true, _) => self.is_removable(there),
            (false, true) => Err(Error::new(Kind::IsDirectory, "a file can't replace a directory")),
            (false, false) => Ok(()),
        }
    }

    fn rename(&self, plan: &RenamePlan) -> Result<Renamed> {
        let mut actors = self.actors(plan)?;
        if actors.there.as_ref().is_some_and(|there| there.attr.ino == actors.moved.attr.ino) {
            return Ok(Renamed { replaced: None });
        }
        for step in &plan.moves {
            self.apply_move(plan, step, &mut actors)?;
        }
        let Actors { mut moved, there } = actors;
        moved.attr.ctime = plan.now;
        self.update_inode(&moved)?;
        let directory = |inode: &Inode| inode.attr.kind == FileKind::Directory;
        let natives_move = directory(&moved) || there.as_ref().is_some_and(directory);
        let renamed = match (plan.mode, there) {
            (RenameMode::Exchange, Some(there)) => self.swap_names(plan, &moved, there)?,
            (_, there) => self.replace_name(plan, &moved, there)?,
        };
        if natives_move {
            self.forget_natives();
        }
        Ok(renamed)
    }

    fn swap_names(&self, plan: &RenamePlan, moved: &Inode, mut there: Inode) -> Result<Renamed> {
        there.attr.ctime = plan.now;
        self.update_inode(&there)?;
        self.put_dentry(plan.new_parent, &plan.new_name, moved.attr.ino)?;
        self.put_dentry(plan.parent, &plan.name, there.attr.ino)?;
        let shift = subdirectories(there.attr.kind) - subdirectories(moved.attr.kind);
        self.touch_both(plan, shift, -shift)?;
        self.requeue(moved, plan)?;
        self.requeue(&there, plan)?;
        Ok(Renamed { replaced: None })
    }

    fn replace_name(&self, plan: &RenamePlan, moved: &Inode, there: Option<Inode>) -> Result<Renamed> {
        self.delete_dentry(plan.parent, &plan.name)?;
        self.put_dentry(plan.new_parent, &plan.new_name, moved.attr.ino)?;
        let subdirectory = subdirectories(moved.attr.kind);
        let lost = there.as_ref().map_or(0, |there| subdirectories(there.attr.kind));
        self.touch_both(plan, -subdirectory, subdirectory - lost)?;
        let mut inherited = false;
        let replaced = match there {
            None => None,
            Some(mut there) => {
                let hid_older = self.hides_older(&there)?;
                inherited = self.replace(plan, moved, &mut there)?;
                Some(Unlinked { ino: there.attr.ino, nlink: there.attr.nlink, hid_older })
            }
        };
        if inherited && plan.domain.is_none() {
            // Somebody must see to the keys that came with the name.
            self.queue_reconcile(moved.attr.ino, "", Why::Names, Order::Keep)?;
        }
        self.requeue(moved, plan)?;
        Ok(Renamed { replaced })
    }

    /// Link counts and times of the two directories, which may be one.
    fn touch_both(&self, plan: &RenamePlan, old: i32, new: i32) -> Result<()> {
        self.touch_directory(plan.parent, old, plan.now)?;
        self.touch_directory(plan.new_parent, new, plan.now)
    }

    /// `there` loses the name to `moved`. Answers whether `moved` got keys of it.
    fn replace(&self, plan: &RenamePlan, moved: &Inode, there: &mut Inode) -> Result<bool> {
        let domain = plan.domain.as_deref().unwrap_or("");
        if there.attr.kind != FileKind::Directory {
            self.preserve_replaced(plan, there)?;
            let heir = Some((moved.attr.ino, plan.writers));
            let leave = Leave {
                parent: plan.new_parent,
                name: &plan.new_name,
                gone: &[],
                heir,
                domain,
                now: plan.now,
            };
            return self.leave_name(there, &leave);
        }
        let inherited = self.inherit_directory(plan, moved.attr.ino, there.attr.ino)?;
        self.leave_directory(there.attr.ino, &[], domain)?;
        there.attr.nlink = 0;
        there.attr.ctime = plan.now;
        self.update_inode(there)?;
        Ok(inherited)
    }

    /// Places and markers of an empty directory at the native keys of the new name go to the heir.
    fn inherit_directory(&self, plan: &RenamePlan, heir: Ino, there: Ino) -> Result<bool> {
        let mut inherited = false;
        for tier in self.tiers()?.iter() {
            let Some(parent) = self.native(plan.new_parent, tier.tier)? else { continue };
            if let Some(place) = self.child_place(tier.tier, parent, &plan.new_name)?
                && place.ino == there.0
            {
                self.set_place_owner(place.id, heir.0)?;
                inherited = true;
            }
            if let Some(row) = self.replica(parent, &plan.new_name)?
                && row.ino == there.0
            {
                self.put_replica(&ReplicaRow { ino: heir.0, generation: 0, attr_generation: 0, ..row })?;
                inherited = true;
            }
        }
        Ok(inherited)
    }

    /// The rename takes its place in the order now, and so does a close that is not committed yet.
    fn requeue(&self, inode: &Inode, plan: &RenamePlan) -> Result<()> {
        let ino = inode.attr.ino;
        let seq = if let Some(domain) = &plan.domain {
            self.queue_reconcile(ino, domain, Why::Names, Order::End)?
        } else if let Some(step) = self.reconcile_step(ino)?.filter(|step| step.content) {
            self.queue_reconcile(ino, &step.domain, Why::Content, Order::End)?
        } else {
            return Ok(());
        };
        let follows = plan.follows.as_deref().filter(|_| inode.attr.kind == FileKind::Directory);
        self.note_move(seq, follows)
    }

    // ---- native moves

    fn apply_move(&self, plan: &RenamePlan, step: &NativeMove, actors: &mut Actors) -> Result<()> {
        let Some(from) = self.key_rows(step.tier.0, &step.from)? else { return Ok(()) };
        if step.exchange {
            return match self.key_rows(step.tier.0, &step.to)? {
                Some(to) => self.swap_keys(step.tier.0, &from, &to),
                None => Ok(()),
            };
        }
        match step.effect {
            MoveEffect::ReplicaToStage => self.move_to_stage(plan, step.tier.0, &from, actors),
            MoveEffect::ReplicaToName => {
                let to = (self.ensure_native(plan.new_parent, step.tier.0)?, plan.new_name.clone());
                self.move_replica(&from, &to)
            }
            MoveEffect::PlaceToName => {
                let to = (self.ensure_native(plan.new_parent, step.tier.0)?, plan.new_name.clone());
                self.move_directory(step.tier.0, &from, &to)
            }
        }
    }

    /// The (place, name) of a key; `None` if its directory has no place.
    fn key_rows(&self, tier: u32, key: &Key) -> Result<Option<(i64, Vec<u8>)>> {
        let Some((dir, name)) = key.split() else { return Ok(None) };
        Ok(self.place_at(tier, &dir)?.map(|place| (place.id, name.to_vec())))
    }

    fn move_replica(&self, from: &(i64, Vec<u8>), to: &(i64, Vec<u8>)) -> Result<()> {
        let Some(row) = self.replica(from.0, &from.1)? else { return Ok(()) };
        self.bury(from.0, &from.1)?;
        self.drop_delete(to.0, &to.1)?;
        self.put_replica(&ReplicaRow { place: to.0, name: to.1.clone(), ..row })
    }

    fn move_directory(&self, tier: u32, from: &(i64, Vec<u8>), to: &(i64, Vec<u8>)) -> Result<()> {
        let Some(place) = self.child_place(tier, from.0, &from.1)? else { return Ok(()) };
        if let Some(old) = self.child_place(tier, to.0, &to.1)? {
            // rename(2) replaces nothing but an empty directory.
            self.remove_subtree(&old)?;
        }
        self.drop_delete(to.0, &to.1)?;
        self.delete_replica(to.0, &to.1)?;
        self.set_place_key(place.id, to.0, &to.1)?;
        self.move_replica(from, to)?;
        self.bury(from.0, &from.1)
    }

    fn move_to_stage(
        &self,
        plan: &RenamePlan,
        tier: u32,
        from: &(i64, Vec<u8>),
        actors: &mut Actors,
    ) -> Result<()> {
        let Some(row) = self.replica(from.0, &from.1)? else { return Ok(()) };
        // Of two that swap names either may leave for the stage.
        let moved = match &mut actors.there {
            Some(there) if there.attr.ino.0 == row.ino => there,
            _ => &mut actors.moved,
        };
        let ino = moved.attr.ino;
        self.bury(from.0, &from.1)?;
        self.put_replica(&ReplicaRow {
            place: self.tier(tier)?.stage,
            name: stage_name(ino, moved.generation),
            generation: moved.generation.0,
            linked: false,
            ..row
        })?;
        moved.state = WriteState::Closed;
        let domain = plan.domain.as_deref().unwrap_or("");
        self.queue_reconcile(ino, domain, Why::Content, Order::End)?;
        Ok(())
    }

    /// Everything at the two keys changes places.
    fn swap_keys(&self, tier: u32, a: &(i64, Vec<u8>), b: &(i64, Vec<u8>)) -> Result<()> {
        let (row_a, row_b) = (self.replica(a.0, &a.1)?, self.replica(b.0, &b.1)?);
        self.put_at(a, row_b)?;
        self.put_at(b, row_a)?;
        let (place_a, place_b) = (self.child_place(tier, a.0, &a.1)?, self.child_place(tier, b.0, &b.1)?);
        if let Some(place) = &place_a {
            // Both keys are taken for a moment, and keys are unique: no tier has id 0 or parent -1.
            self.set_place_key(place.id, -1, &a.1)?;
        }
        if let Some(place) = &place_b {
            self.set_place_key(place.id, a.0, &a.1)?;
        }
        if let Some(place) = &place_a {
            self.set_place_key(place.id, b.0, &b.1)?;
        }
        Ok(())
    }

    fn put_at(&self, key: &(i64, Vec<u8>), row: Option<ReplicaRow>) -> Result<()> {
        match row {
            Some(row) => self.put_replica(&ReplicaRow { place: key.0, name: key.1.clone(), ..row }),
            None => self.bury(key.0, &key.1),
        }
    }
}
