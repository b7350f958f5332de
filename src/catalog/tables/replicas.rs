//! `replica` rows: keys on tiers and who answers for them.

use super::{Tx, version};
use crate::catalog::{PlaceId, Replica};
use crate::error::{Error, Kind, Result};
use crate::tier::Object;
use crate::types::{Generation, Ino, TierId, Timestamp};
use rusqlite::{Row, params};

/// A whole row.
#[derive(Clone, Debug)]
pub(in crate::catalog) struct ReplicaRow {
    pub place: i64,
    pub name: Vec<u8>,
    /// 0: doomed, or a tombstone.
    pub ino: u64,
    /// 0: what lies there is not this inode's content.
    pub generation: u64,
    pub attr_generation: u64,
    pub version: Option<Vec<u8>>,
    pub native_ino: u64,
    /// The native file has, or had, several names: found by `native_ino`.
    pub linked: bool,
    pub write_id: Option<String>,
    pub changed_at: i64,
}

impl ReplicaRow {
    /// A row that says only who answers for the key.
    pub(in crate::catalog) fn new(place: i64, name: &[u8], ino: u64) -> Self {
        Self {
            place,
            name: name.to_vec(),
            ino,
            generation: 0,
            attr_generation: 0,
            version: None,
            native_ino: 0,
            linked: false,
            write_id: None,
            changed_at: 0,
        }
    }

    /// Whether it speaks of exactly this.
    pub(in crate::catalog) fn holds(&self, object: &Object) -> bool {
        self.version.as_deref() == Some(&object.version.0[..])
    }
}

macro_rules! columns {
    () => {
        "place, name, ino, generation, attr_generation, version, native_ino, linked, write_id, changed_at"
    };
}

fn read(row: &Row<'_>) -> rusqlite::Result<ReplicaRow> {
    let unsigned = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
    Ok(ReplicaRow {
        place: row.get(0)?,
        name: row.get(1)?,
        ino: unsigned(2)?,
        generation: unsigned(3)?,
        attr_generation: unsigned(4)?,
        version: row.get(5)?,
        native_ino: unsigned(6)?,
        linked: row.get(7)?,
        write_id: row.get(8)?,
        changed_at: row.get(9)?,
    })
}

impl Tx<'_> {
    pub(in crate::catalog) fn replica(&self, place: i64, name: &[u8]) -> Result<Option<ReplicaRow>> {
        let sql = concat!("SELECT ", columns!(), " FROM replica WHERE place = ?1 AND name = ?2");
        self.first(sql, params![place, name], read)
    }

    /// A row that must exist.
    pub(in crate::catalog) fn known_replica(&self, place: i64, name: &[u8]) -> Result<ReplicaRow> {
        self.replica(place, name)?.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("the catalog has no such key in place {place}"))
        })
    }

    pub(in crate::catalog) fn replicas_of(&self, ino: Ino) -> Result<Vec<ReplicaRow>> {
        let sql = concat!("SELECT ", columns!(), " FROM replica WHERE ino = ?1 AND ino <> 0");
        self.all(sql, [ino.0.cast_signed()], read)
    }

    /// Rows of a place whose names are above `after`, in order.
    pub(in crate::catalog) fn replicas_in(
        &self,
        place: i64,
        after: &[u8],
        limit: i64,
    ) -> Result<Vec<ReplicaRow>> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM replica WHERE place = ?1 AND name > ?2 ORDER BY name LIMIT ?3"
        );
        self.all(sql, params![place, after, limit], read)
    }

    /// Rows of files with several names whose native inode number is this, on `tier`.
    pub(in crate::catalog) fn linked_replicas(&self, tier: u32, native_ino: u64) -> Result<Vec<ReplicaRow>> {
        let sql = concat!("SELECT ", columns!(), " FROM replica WHERE native_ino = ?1 AND linked <> 0");
        let rows = self.all(sql, [native_ino.cast_signed()], read)?;
        rows.into_iter()
            .filter_map(|row| match self.place_row(row.place) {
                Ok(place) => (place.tier == tier && row.ino != 0).then_some(Ok(row)),
                Err(error) => Some(Err(error)),
            })
            .collect()
    }

    /// Rows with a commit of unknown outcome.
    pub(in crate::catalog) fn committing(&self) -> Result<Vec<ReplicaRow>> {
        let sql = concat!("SELECT ", columns!(), " FROM replica WHERE write_id IS NOT NULL");
        self.all(sql, [], read)
    }

    /// Whether the key had no row and now has this one, which is as it is since `changed_at`.
    pub(super) fn insert_replica(&self, row: &ReplicaRow, changed_at: Timestamp) -> Result<bool> {
        let sql = concat!(
            "INSERT INTO replica (",
            columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING"
        );
        self.write_replica(row, sql, changed_at).map(|rows| rows == 1)
    }

    /// The key has this row now, whatever it had before.
    pub(in crate::catalog) fn put_replica(&self, row: &ReplicaRow) -> Result<()> {
        self.put_replica_as_of(row, self.now())
    }

    /// The same for a row that is as it is since then.
    pub(super) fn put_replica_as_of(&self, row: &ReplicaRow, changed_at: Timestamp) -> Result<()> {
        let sql = concat!(
            "INSERT OR REPLACE INTO replica (",
            columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
        );
        self.write_replica(row, sql, changed_at).map(drop)
    }

    fn write_replica(&self, row: &ReplicaRow, sql: &str, changed_at: Timestamp) -> Result<usize> {
        self.execute(
            sql,
            params![
                row.place,
                row.name,
                row.ino.cast_signed(),
                row.generation.cast_signed(),
                row.attr_generation.cast_signed(),
                row.version,
                row.native_ino.cast_signed(),
                row.linked,
                row.write_id,
                changed_at.0,
            ],
        )
    }

    pub(in crate::catalog) fn delete_replica(&self, place: i64, name: &[u8]) -> Result<()> {
        self.execute("DELETE FROM replica WHERE place = ?1 AND name = ?2", params![place, name])?;
        Ok(())
    }

    /// Nothing of ours lies there: remembered, so that an older listing does not bring it back.
    pub(in crate::catalog) fn bury(&self, place: i64, name: &[u8]) -> Result<()> {
        self.put_replica(&ReplicaRow::new(place, name, 0))
    }

    /// Whether the place is a tier's stage.
    pub(in crate::catalog) fn is_stage(&self, place: i64) -> Result<bool> {
        Ok(self.tiers()?.iter().any(|tier| tier.stage == place))
    }

    /// A row as callers see it.
    pub(in crate::catalog) fn to_replica(&self, row: ReplicaRow) -> Result<Replica> {
        let place = self.place_row(row.place)?;
        let staged = self.is_stage(row.place)?;
        let mut key = self.place_key(row.place)?;
        for name in row.name.split(|&byte| byte == b'/') {
            key = key.join(name)?;
        }
        Ok(Replica {
            tier: TierId(place.tier),
            place: PlaceId(row.place),
            key,
            name: row.name,
            ino: (row.ino != 0).then_some(Ino(row.ino)),
            generation: Generation(row.generation),
            attr_generation: row.attr_generation,
            version: version(row.version),
            native_ino: row.native_ino,
            write_id: row.write_id,
            staged,
        })
    }
}
