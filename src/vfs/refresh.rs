//! Looking at the tiers when the last look is older than `revalidate`, and merging what is found.

use super::node::{Node, PlaceState};
use super::{Caller, Vfs};
use crate::catalog::{Found, Inode, Observation, Observed, Place, Scope, Standing};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::{Role, Subject};
use crate::tier::{Cursor, Entry, Object, Page, Patience, Resident, Tier};
use crate::types::{FileKind, Ino, Invalidation, Key, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Names of a page: Azure's own limit, and enough for a directory tier.
const PAGE: usize = 5000;
/// After so many single looks into a directory on a slow tier, one page of a listing is asked
/// instead: it answers for all its siblings.
const LOOKS_BEFORE_PAGE: usize = 3;

impl Vfs {
    /// Brings what the catalog knows of `name` in `dir` up to date.
    ///
    /// A tier that can't answer is an error only if the name is not known yet: nobody said that it
    /// is not there.
    pub(super) fn refresh_name(&self, caller: &Caller, dir: &Node, name: &[u8]) -> Result<()> {
        let path = self.path_of(dir)?.join(name)?;
        for place in self.catalog().places(dir.ino)?.iter() {
            let window = self.rules().revalidate_on(&path, place.tier);
            let now = self.parts.clock.monotonic();
            let fresh = |state: &PlaceState| state.is_fresh(name, now, window);
            if dir.namespace.lock().places.get(&place.id).is_some_and(fresh) {
                continue;
            }
            // No rule places this name on that tier, so it has no say, and must not be waited for.
            let has_say = self.rules().found_under(&path).contains(&place.tier);
            if !has_say && !self.is_left(place, &path)? {
                continue;
            }
            match self
                .patience_for(place, dir, name)?
                .at_most(|| self.look_at(caller, dir, place, name, &path))
            {
                Ok(()) => {
                    dir.namespace.lock().places.entry(place.id).or_default().looked_at(name, now);
                }
                Err(error) if error.kind() == Kind::WouldBlock => return Err(error),
                Err(error) => self.excuse(dir, name, &path, place, error)?,
            }
        }
        Ok(())
    }

    /// Looks at a file on the directory tiers, however fresh the last look is.
    pub(super) fn look_again_at(&self, ino: Ino) -> Result<()> {
        let Some((parent, name)) = self.catalog().names(ino)?.into_iter().next() else { return Ok(()) };
        let path = self.child_path(parent, &name)?;
        for place in self.catalog().places(parent)?.iter() {
            if let Some(resident) = self.resident(place.tier) {
                self.look_at_file(resident, place, &name, &path)?;
            }
        }
        Ok(())
    }

    /// What is known anyway is not waited for where a tier is known not to answer.
    fn patience_for(&self, place: &Place, dir: &Node, name: &[u8]) -> Result<Patience> {
        let known = self.is_networked(place.tier) && self.catalog().lookup(dir.ino, name)?.is_some();
        Ok(if known { Patience::Brief } else { Patience::Deadline })
    }

    /// A tier failed: fine if the name is known anyway or the tier has no say in it.
    fn excuse(&self, dir: &Node, name: &[u8], path: &Key, place: &Place, error: Error) -> Result<()> {
        let known = self.catalog().lookup(dir.ino, name)?.is_some();
        // All that was sent to a tier is known once it was listed; what is used does not wait for what others put there since.
        let is_far = place.listed && self.rules().is_only_away(path, place.tier);
        let matters = !is_far && self.rules().found_under(path).contains(&place.tier);
        if known || !matters {
            tracing::debug!(%path, %error, "a tier could not be asked; answering from the catalog");
            return Ok(());
        }
        Err(error)
    }

    fn look_at(&self, caller: &Caller, dir: &Node, place: &Place, name: &[u8], path: &Key) -> Result<()> {
        match self.resident(place.tier) {
            Some(resident) => self.look_at_file(resident, place, name, path),
            None => self.look_at_object(caller, dir, place, name, path),
        }
    }

    fn look_at_file(&self, resident: &dyn Resident, place: &Place, name: &[u8], path: &Key) -> Result<()> {
        self.may_ask(place.tier)?;
        let still = self.native_names.stand(place.tier);
        let began = self.now();
        // It may have moved since it was read: what is not under its old key is not gone.
        let Some(place) = crate::error::found(self.catalog().place(place.id))? else { return Ok(()) };
        let place = &place;
        let object = found(resident.stat(&place.key.join(name)?))?;
        if self.is_known(place, name, object.as_ref())? {
            return Ok(());
        }
        let observed = self.observe_one(place, name, path, object, began)?;
        drop(still);
        self.tell(&observed);
        Ok(())
    }

    fn look_at_object(
        &self,
        caller: &Caller,
        dir: &Node,
        place: &Place,
        name: &[u8],
        path: &Key,
    ) -> Result<()> {
        let tier = self.parts.tiers.get(place.tier)?;
        let looks = dir.namespace.lock().places.get(&place.id).map_or(0, |state| state.names.len());
        if looks == LOOKS_BEFORE_PAGE {
            return self.look_at_page(caller, dir, tier, place, name, path);
        }
        let began = self.now();
        let object = found(self.wait_for(caller, tier.head(&place.key.join(name)?)))?;
        let observed = self.observe_one(place, name, path, object, began)?;
        self.tell(&observed);
        Ok(())
    }

    /// The first page of a directory: if it is the whole, every sibling is fresh now.
    fn look_at_page(
        &self,
        caller: &Caller,
        dir: &Node,
        tier: &Arc<dyn Tier>,
        place: &Place,
        name: &[u8],
        path: &Key,
    ) -> Result<()> {
        let began = self.now();
        let page = self.wait_for(caller, tier.list(&place.key, b"", None, PAGE))?;
        if page.next.is_some() {
            let object = found(self.wait_for(caller, tier.head(&place.key.join(name)?)))?;
            let observed = self.observe_one(place, name, path, object, began)?;
            self.tell(&observed);
            return Ok(());
        }
        let parent = path.split().map_or(Key::ROOT, |(parent, _)| parent);
        let mut seen = HashSet::new();
        self.observe_page(place, &parent, &page, began, &mut seen)?;
        self.note_hidden(place, page.hidden);
        self.observe_end(dir, place, &seen, began)
    }

    /// Whether the catalog already has exactly this, so that nothing need be written.
    fn is_known(&self, place: &Place, name: &[u8], object: Option<&Object>) -> Result<bool> {
        match object {
            Some(object) if object.kind == FileKind::Directory => {
                let Some(dir) = place.ino else { return Ok(false) };
                let Some(inode) = self.catalog().lookup(dir, name)? else { return Ok(false) };
                Ok(inode.attr.kind == FileKind::Directory
                    && same_owner_and_mode(&inode, object)
                    && self.has_place_under(place, name, &inode)?)
            }
            Some(object) => {
                let known = self.catalog().replica_at(place.id, name)?;
                Ok(known.is_some_and(|replica| {
                    replica.ino.is_some() && replica.version.as_ref() == Some(&object.version)
                }))
            }
            None => {
                let Some(dir) = place.ino else { return Ok(true) };
                // Rows of keys without a name (doomed, tombstones) are the mover's business.
                let Some(inode) = self.catalog().lookup(dir, name)? else { return Ok(true) };
                Ok(self.catalog().replica_at(place.id, name)?.is_none()
                    && !self.has_place_under(place, name, &inode)?)
            }
        }
    }

    fn has_place_under(&self, place: &Place, name: &[u8], inode: &Inode) -> Result<bool> {
        if inode.attr.kind != FileKind::Directory {
            return Ok(false);
        }
        let key = place.key.join(name)?;
        Ok(self.catalog().places(inode.attr.ino)?.iter().any(|p| p.tier == place.tier && p.key == key))
    }

    fn observe_one(
        &self,
        place: &Place,
        name: &[u8],
        path: &Key,
        object: Option<Object>,
        began: Timestamp,
    ) -> Result<Observed> {
        let entry = object.map(|object| Entry { name: name.to_vec(), object });
        let found = entry
            .iter()
            .map(|entry| Ok(Found { entry, standing: self.standing(place, path, &entry.object)? }))
            .collect::<Result<_>>()?;
        self.catalog().observe(&self.observation(place, began, found, Scope::Name(name)))
    }

    fn observation<'a>(
        &self,
        place: &Place,
        began: Timestamp,
        found: Vec<Found<'a>>,
        scope: Scope<'a>,
    ) -> Observation<'a> {
        let capabilities = self.parts.tiers.find(place.tier).map(|tier| tier.capabilities());
        Observation {
            place: place.id,
            began,
            found,
            scope,
            defaults: self.parts.defaults,
            markers: self.resident(place.tier).is_none(),
            holds_owner_and_mode: capabilities.is_some_and(|can| can.owner_and_mode),
        }
    }

    fn standing(&self, place: &Place, path: &Key, object: &Object) -> Result<Standing> {
        let rules = self.rules();
        let subject = Subject::new(path, self.parts.defaults.ids_of(object));
        Ok(match rules.role(object.kind, subject, place.tier) {
            Role::Home => Standing::Home,
            Role::Cold => Standing::Cold,
            Role::Overflow => Standing::Overflow,
            Role::Former => Standing::Elsewhere,
            // Under a prefix that its directory has left by a rename it belongs to that directory all the same.
            Role::None if self.is_left(place, path)? => Standing::Elsewhere,
            Role::None => Standing::Foreign,
        })
    }

    /// Whether the directory of `path` was renamed, and what lies at `place` has yet to follow it.
    fn is_left(&self, place: &Place, path: &Key) -> Result<bool> {
        let dir = path.split().map_or(Key::ROOT, |(parent, _)| parent);
        self.catalog().is_left(place, &self.rules().tiers_under(&dir))
    }

    /// Brings all names of `dir` up to date.
    pub(super) fn refresh_directory(&self, caller: &Caller, dir: &Node) -> Result<()> {
        let path = self.directory_path(dir.ino)?;
        for place in self.catalog().places(dir.ino)?.iter() {
            let window = self.rules().revalidate_on(&path, place.tier);
            if self.is_whole(dir, place, window) {
                continue;
            }
            let patience = if place.listed { Patience::Brief } else { Patience::Deadline };
            let result = match self.resident(place.tier) {
                Some(resident) => patience.at_most(|| {
                    self.list(dir, place, &path, |from| resident.read_directory(&place.key, from, PAGE))
                }),
                None => {
                    let tier = self.parts.tiers.get(place.tier)?;
                    self.list(dir, place, &path, |from| {
                        self.wait_for(caller, tier.list(&place.key, b"", from, PAGE))
                    })
                }
            };
            match result {
                Err(error) if error.kind() == Kind::WouldBlock => return Err(error),
                // A directory that another mount removed, or that exists on another tier only: a file it was exchanged with may lie there still.
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotDirectory) => {
                    self.note_hidden(place, 0);
                }
                Err(error) if place.listed => {
                    tracing::warn!(%path, %error, "a tier could not be listed; showing what is known");
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// A directory that was just made natively: its places hold nothing, and were looked at when that began.
    pub(super) fn know_empty(&self, dir: Ino, began: Duration) -> Result<()> {
        let node = self.nodes.get(dir);
        let places = self.catalog().places(dir)?;
        let mut state = node.namespace.lock();
        for place in places.iter() {
            state.places.entry(place.id).or_default().whole = Some(began);
        }
        Ok(())
    }

    fn is_whole(&self, dir: &Node, place: &Place, window: Option<Duration>) -> bool {
        let now = self.parts.clock.monotonic();
        dir.namespace.lock().places.get(&place.id).is_some_and(|state| state.is_whole(now, window))
    }

    fn list(
        &self,
        dir: &Node,
        place: &Place,
        path: &Key,
        next_page: impl Fn(Option<Cursor>) -> Result<Page> + Sync,
    ) -> Result<()> {
        let began = self.now();
        let mut seen = HashSet::new();
        let mut hidden = 0;
        let patience = Patience::current();
        let read = |from: Option<Cursor>| {
            let began = self.now();
            patience.at_most(|| next_page(from)).map(|page| (page, began))
        };
        let mut ahead = Some(read(None)?);
        while let Some((page, page_began)) = ahead.take() {
            hidden += page.hidden;
            let mut observe = || self.observe_page(place, path, &page, page_began, &mut seen);
            ahead = match page.next.clone() {
                None => observe().map(|()| None)?,
                // The tier is read and the catalog written at the same time.
                next => std::thread::scope(|scope| {
                    let next = scope.spawn(|| read(next));
                    observe()?;
                    next.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(Some)
                })?,
            };
        }
        self.note_hidden(place, hidden);
        self.observe_end(dir, place, &seen, began)
    }

    fn note_hidden(&self, place: &Place, count: u64) {
        if self.hidden.note(place.id, count) && count > 0 {
            let tier = self.parts.tiers.find(place.tier).map(|tier| tier.name().to_owned());
            tracing::warn!(?tier, directory = %place.key, count, "names there can't be shown; they are left alone");
        }
    }

    pub(super) fn observe_page(
        &self,
        place: &Place,
        parent: &Key,
        page: &Page,
        began: Timestamp,
        seen: &mut HashSet<Vec<u8>>,
    ) -> Result<()> {
        let mut found = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            let path = parent.join(&entry.name)?;
            found.push(Found { entry, standing: self.standing(place, &path, &entry.object)? });
            seen.insert(entry.name.clone());
        }
        let still = self.native_names.stand(place.tier);
        if !self.catalog().stands(place)? {
            return Ok(());
        }
        let observed = self.catalog().observe(&self.observation(place, began, found, Scope::Found))?;
        drop(still);
        self.tell(&observed);
        Ok(())
    }

    fn observe_end(
        &self,
        dir: &Node,
        place: &Place,
        seen: &HashSet<Vec<u8>>,
        began: Timestamp,
    ) -> Result<()> {
        let scope = Scope::All { seen, version: None };
        let still = self.native_names.stand(place.tier);
        if !self.catalog().stands(place)? {
            return Ok(());
        }
        let observed = self.catalog().observe(&self.observation(place, began, Vec::new(), scope))?;
        drop(still);
        let mut state = dir.namespace.lock();
        let state = state.places.entry(place.id).or_default();
        state.whole = Some(self.parts.clock.monotonic());
        state.names.clear();
        self.tell(&observed);
        Ok(())
    }

    /// Passes on what the kernel must forget.
    pub(super) fn tell(&self, observed: &Observed) {
        for (parent, name, ino) in &observed.entries {
            if let Some(node) = self.nodes.find(*ino) {
                node.unlinked.store(true, std::sync::atomic::Ordering::Release);
            }
            (self.parts.invalidate)(Invalidation::Entry { parent: *parent, name: name.clone() });
        }
        for ino in &observed.contents {
            (self.parts.invalidate)(Invalidation::Inode(*ino));
        }
    }
}

/// An absence is an answer, any other error is not.
fn found(result: Result<Object>) -> Result<Option<Object>> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn same_owner_and_mode(inode: &Inode, object: &Object) -> bool {
    let attrs = &object.attrs;
    attrs.mode.is_none_or(|mode| mode == inode.attr.mode)
        && attrs.uid.is_none_or(|uid| uid == inode.attr.uid)
        && attrs.gid.is_none_or(|gid| gid == inode.attr.gid)
}
