//! `place` rows: directories on tiers.

use super::{Counter, Owned, Tx, corrupt, version};
use crate::catalog::{Place, PlaceId};
use crate::error::{Error, Kind, Result};
use crate::types::{Ino, Key, TierId, Version};
use rusqlite::{Row, params};
use std::sync::Arc;

/// Deeper places are a circle.
const DEEPEST: usize = 100_000;

/// What of a place decides keys and ownership; cached.
#[derive(Clone, Debug)]
pub(in crate::catalog) struct PlaceRow {
    pub id: i64,
    pub tier: u32,
    /// 0 for a tier's root.
    pub parent: i64,
    /// Empty for a tier's root; several components for a stage.
    pub name: Vec<u8>,
    /// 0: nobody.
    pub ino: u64,
    pub changed_at: i64,
    pub listed: bool,
    pub version: Option<Version>,
}

impl PlaceRow {
    pub(in crate::catalog) fn owner(&self) -> Option<Ino> {
        (self.ino != 0).then_some(Ino(self.ino))
    }
}

macro_rules! columns {
    () => {
        "id, tier, parent, name, ino, changed_at, listed, version"
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<PlaceRow> {
    Ok(PlaceRow {
        id: row.get(0)?,
        tier: row.get(1)?,
        parent: row.get(2)?,
        name: row.get(3)?,
        ino: row.get::<_, i64>(4)?.cast_unsigned(),
        changed_at: row.get(5)?,
        listed: row.get(6)?,
        version: version(row.get(7)?),
    })
}

impl Place {
    /// The place of the first row; the others lead up to its tier's root.
    pub(super) fn from_rows(rows: &[Arc<PlaceRow>]) -> Result<Self> {
        let row = rows.first().ok_or_else(|| corrupt("a place without a row"))?;
        let names: Vec<&[u8]> =
            rows.iter().rev().map(|row| &row.name[..]).filter(|name| !name.is_empty()).collect();
        Ok(Self {
            id: PlaceId(row.id),
            tier: TierId(row.tier),
            key: Key::parse(names.join(&b'/'))?,
            ino: row.owner(),
            listed: row.listed,
            version: row.version.clone(),
        })
    }
}

impl Tx<'_> {
    pub(in crate::catalog) fn find_place(&self, id: i64) -> Result<Option<Arc<PlaceRow>>> {
        if let Some(row) = self.state.borrow_mut().places.get(&id) {
            return Ok(Some(Arc::clone(row)));
        }
        let sql = concat!("SELECT ", columns!(), " FROM place WHERE id = ?1");
        let found = self.first(sql, [id], read)?.map(Arc::new);
        if let Some(row) = &found {
            self.state.borrow_mut().places.put(id, Arc::clone(row));
        }
        Ok(found)
    }

    pub(in crate::catalog) fn place_row(&self, id: i64) -> Result<Arc<PlaceRow>> {
        self.find_place(id)?
            .ok_or_else(|| Error::new(Kind::NotFound, format!("the catalog has no place {id} any more")))
    }

    /// Whether any place is directly in this one.
    pub(in crate::catalog) fn has_child_places(&self, parent: i64) -> Result<bool> {
        let sql = "SELECT 1 FROM place WHERE parent = ?1 LIMIT 1";
        Ok(self.first(sql, [parent], |row| row.get::<_, i64>(0))?.is_some())
    }

    /// The place `name` in `parent` on `tier`.
    pub(in crate::catalog) fn child_place(
        &self,
        tier: u32,
        parent: i64,
        name: &[u8],
    ) -> Result<Option<Arc<PlaceRow>>> {
        let id = self.first(
            "SELECT id FROM place WHERE parent = ?1 AND name = ?2 AND tier = ?3",
            params![parent, name, tier],
            |row| row.get::<_, i64>(0),
        )?;
        id.map_or(Ok(None), |id| self.find_place(id))
    }

    /// Places directly in `parent`.
    pub(in crate::catalog) fn child_places(&self, parent: i64) -> Result<Vec<PlaceRow>> {
        self.all(concat!("SELECT ", columns!(), " FROM place WHERE parent = ?1"), [parent], read)
    }

    /// Places that `dir` owns, oldest first.
    pub(in crate::catalog) fn places_of(&self, dir: Ino) -> Result<Arc<[PlaceRow]>> {
        if let Some(known) = self.state.borrow_mut().owned.get(&dir.0) {
            return Ok(Arc::clone(&known.rows));
        }
        let sql = concat!("SELECT ", columns!(), " FROM place WHERE ino = ?1 AND ino <> 0 ORDER BY id");
        let rows: Arc<[PlaceRow]> = self.all(sql, [dir.0.cast_signed()], read)?.into();
        let owned = Owned { rows: Arc::clone(&rows), places: None };
        self.state.borrow_mut().owned.put(dir.0, owned);
        Ok(rows)
    }

    /// The same as callers see them.
    pub(in crate::catalog) fn places(&self, dir: Ino) -> Result<Arc<[Place]>> {
        if let Some(known) = self.state.borrow_mut().places_of(dir) {
            return Ok(known);
        }
        let rows = self.places_of(dir)?;
        let places: Arc<[Place]> = rows.iter().map(|row| self.to_place(row.id)).collect::<Result<_>>()?;
        if let Some(owned) = self.state.borrow_mut().owned.get_mut(&dir.0) {
            owned.places = Some(Arc::clone(&places));
        }
        Ok(places)
    }

    pub(in crate::catalog) fn has_places(&self, dir: Ino) -> Result<bool> {
        self.exists("SELECT 1 FROM place WHERE ino = ?1 AND ino <> 0 LIMIT 1", [dir.0.cast_signed()])
    }

    /// A new place, owned by `ino` (0: nobody).
    pub(in crate::catalog) fn insert_place(
        &self,
        tier: u32,
        parent: i64,
        name: &[u8],
        ino: u64,
    ) -> Result<i64> {
        let id = self.take(Counter::Place)?;
        self.execute(
            "INSERT INTO place (id, tier, parent, name, ino, listed, version, changed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, NULL, ?6)",
            params![id, tier, parent, name, ino.cast_signed(), self.now().0],
        )?;
        let mut state = self.state.borrow_mut();
        state.owned.pop(&ino);
        state.touched = true;
        drop(state);
        Ok(id)
    }

    /// Hands a place to `ino` (0: nobody). What it holds must be looked at again.
    pub(in crate::catalog) fn set_place_owner(&self, id: i64, ino: u64) -> Result<()> {
        self.execute(
            "UPDATE place SET ino = ?2, listed = 0, version = NULL, changed_at = ?3 WHERE id = ?1",
            params![id, ino.cast_signed(), self.now().0],
        )?;
        self.forget_place(id);
        Ok(())
    }

    /// Moves a place with everything below it.
    pub(in crate::catalog) fn set_place_key(&self, id: i64, parent: i64, name: &[u8]) -> Result<()> {
        self.execute(
            "UPDATE place SET parent = ?2, name = ?3, changed_at = ?4 WHERE id = ?1",
            params![id, parent, name, self.now().0],
        )?;
        self.forget_place(id);
        Ok(())
    }

    pub(in crate::catalog) fn set_place_listed(&self, id: i64, version: Option<&Version>) -> Result<()> {
        self.execute(
            "UPDATE place SET listed = 1, version = ?2 WHERE id = ?1",
            params![id, version.map(|version| &version.0[..])],
        )?;
        let mut state = self.state.borrow_mut();
        if let Some(row) = state.places.pop(&id) {
            state.owned.pop(&row.ino);
        } else {
            state.owned.clear();
        }
        state.touched = true;
        drop(state);
        Ok(())
    }

    pub(in crate::catalog) fn delete_place(&self, id: i64) -> Result<()> {
        self.execute("DELETE FROM place WHERE id = ?1", [id])?;
        self.forget_place(id);
        Ok(())
    }

    fn forget_place(&self, id: i64) {
        let mut state = self.state.borrow_mut();
        state.places.pop(&id);
        state.owned.clear();
        state.natives.clear();
        state.touched = true;
    }

    /// A directory's name or place changed: native places may be others now.
    pub(in crate::catalog) fn forget_natives(&self) {
        let mut state = self.state.borrow_mut();
        state.natives.clear();
        state.touched = true;
    }

    /// The key of a place.
    pub(in crate::catalog) fn place_key(&self, id: i64) -> Result<Key> {
        Ok(self.to_place(id)?.key)
    }

    /// The place of directory key `key` on `tier`.
    pub(in crate::catalog) fn place_at(&self, tier: u32, key: &Key) -> Result<Option<Arc<PlaceRow>>> {
        let mut at = self.place_row(self.tier(tier)?.root)?;
        for name in key.components() {
            match self.child_place(tier, at.id, name)? {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The place whose key is the path of `dir`, if `dir` owns it.
    pub(in crate::catalog) fn native(&self, dir: Ino, tier: u32) -> Result<Option<i64>> {
        self.native_or(dir, tier, |_, _| Ok(None))
    }

    /// The same, made where rows are missing.
    pub(in crate::catalog) fn ensure_native(&self, dir: Ino, tier: u32) -> Result<i64> {
        let made = |above: Above<'_>, found: Option<Arc<PlaceRow>>| match found {
            None => self.insert_place(tier, above.place, above.name, above.dir.0).map(Some),
            Some(row) if row.ino == 0 => self.set_place_owner(row.id, above.dir.0).map(|()| Some(row.id)),
            Some(row) => Err(Error::new(
                Kind::Busy,
                format!("place {} on tier {tier} still belongs to inode {}", row.id, row.ino),
            )),
        };
        self.native_or(dir, tier, made)?
            .ok_or_else(|| Error::new(Kind::NotFound, format!("directory {dir} has no path any more")))
    }

    /// Walks from `dir` up to something known, then down again; `otherwise` answers for a
    /// directory that does not own the place of its name.
    fn native_or(
        &self,
        dir: Ino,
        tier: u32,
        otherwise: impl Fn(Above<'_>, Option<Arc<PlaceRow>>) -> Result<Option<i64>>,
    ) -> Result<Option<i64>> {
        let mut down = Vec::new();
        let mut at = dir;
        let mut place = loop {
            if at == Ino::ROOT {
                break self.tier(tier)?.root;
            }
            if let Some(&known) = self.state.borrow_mut().natives.get(&(at.0, tier)) {
                break known;
            }
            if down.len() == DEEPEST {
                return Err(corrupt("directories of the catalog form a circle"));
            }
            let Some((parent, name)) = self.first_name(at)? else { return Ok(None) };
            down.push((at, name));
            at = parent;
        };
        while let Some((dir, name)) = down.pop() {
            let found = self.child_place(tier, place, &name)?;
            place = match found {
                Some(row) if row.ino == dir.0 => row.id,
                other => match otherwise(Above { place, dir, name: &name }, other)? {
                    Some(id) => id,
                    None => return Ok(None),
                },
            };
            let mut state = self.state.borrow_mut();
            state.natives.put((dir.0, tier), place);
            // What was made in this transaction may be rolled back.
            state.touched = true;
        }
        Ok(Some(place))
    }

    /// A place as callers see it.
    pub(in crate::catalog) fn to_place(&self, id: i64) -> Result<Place> {
        let mut rows = Vec::new();
        let mut at = id;
        while at != 0 {
            if rows.len() == DEEPEST {
                return Err(corrupt("places of the catalog form a circle"));
            }
            let row = self.place_row(at)?;
            at = row.parent;
            rows.push(row);
        }
        Place::from_rows(&rows)
    }
}

/// Where a directory's place should be.
struct Above<'a> {
    place: i64,
    dir: Ino,
    name: &'a [u8],
}
