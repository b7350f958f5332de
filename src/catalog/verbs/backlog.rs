//! What still has to reach home, added up by order domain.

use super::{Catalog, PARTIAL, staged_of};
use crate::catalog::schema::RECONCILE;
use crate::catalog::tables::Tx;
use crate::catalog::{Backlog, Waiting, WriteState};
use crate::error::Result;
use crate::types::{Ids, Ino, Key, Seq, Timestamp};
use rusqlite::params;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Steps that are added up under one hold of the lock: a few milliseconds.
const ADDED_AT_ONCE: i64 = 4096;

/// Adding up may take this share of the time at most.
const SHARE: u32 = 20;

/// Sums, and when and after how many changes they were true.
#[derive(Debug)]
pub(super) struct Added {
    changes: u64,
    at: Duration,
    took: Duration,
    sums: Arc<Vec<Backlog>>,
}

/// Paths of directories that are kept while steps are added up.
const MAX_PATHS: usize = 10_000;

/// Adding up under way.
struct Adding<'a> {
    is_held: &'a dyn Fn(&Key, Ids) -> bool,
    sums: BTreeMap<(String, Waiting), Backlog>,
    /// Domains in which a step before can't go on.
    stuck: HashSet<String>,
    paths: HashMap<i64, Option<Key>>,
}

impl Catalog {
    /// What still has to reach home, by domain and by what it waits for; `is_held` says under which names nothing is committed. An
    /// answer may be as old as `age`, or older where there is so much that adding it up takes long. Rows are added up in portions,
    /// so that nobody waits long for it: under change the sums are those of no exact moment.
    pub fn backlog(&self, age: Duration, is_held: &dyn Fn(&Key, Ids) -> bool) -> Result<Arc<Vec<Backlog>>> {
        let mut added = self.added.lock();
        let (now, changes) = (self.clock.monotonic(), self.engine.changes());
        if let Some(known) = &*added {
            let fresh = age.max(known.took * SHARE);
            if known.changes == changes || now.saturating_sub(known.at) < fresh {
                return Ok(known.sums.clone());
            }
        }
        let mut adding =
            Adding { is_held, sums: BTreeMap::new(), stuck: HashSet::new(), paths: HashMap::new() };
        let mut after = 0;
        while let Some(last) = self.engine.read(|tx| adding.add_some(tx, after))? {
            after = last;
        }
        let sums: Arc<Vec<Backlog>> = Arc::new(adding.sums.into_values().collect());
        let took = self.clock.monotonic().saturating_sub(now);
        *added = Some(Added { changes, at: now, took, sums: sums.clone() });
        Ok(sums)
    }
}

struct Row {
    seq: i64,
    domain: String,
    blocked: bool,
    queued_at: i64,
    content: Option<Dirty>,
}

/// Content that a step brings home.
struct Dirty {
    state: i64,
    size: i64,
    name: Option<(i64, Vec<u8>)>,
    ids: Ids,
}

impl Adding<'_> {
    /// Adds up a portion of the steps; answers where to go on.
    fn add_some(&mut self, tx: &Tx<'_>, after: i64) -> Result<Option<i64>> {
        let rows = tx.all(
            "SELECT s.seq, s.domain, s.blocked, s.queued_at, CASE s.kind WHEN ?3 THEN i.state ELSE ?4 END, i.size,
             (SELECT parent FROM dentry WHERE ino = s.ino LIMIT 1), (SELECT name FROM dentry WHERE ino = s.ino LIMIT 1), i.uid, i.gid,
             i.blocks, EXISTS (SELECT 1 FROM replica r WHERE r.ino = s.ino AND r.generation = i.generation AND substr(r.name, -8) = ?5)
             FROM step s LEFT JOIN inode i ON s.ino <> 0 AND i.ino = s.ino AND (i.state <> 0 OR s.kind <> ?3)
             WHERE s.seq > ?1 ORDER BY s.seq LIMIT ?2",
            params![after, ADDED_AT_ONCE, RECONCILE, WriteState::Closed as i64, PARTIAL],
            read,
        )?;
        let whole = i64::try_from(rows.len()) == Ok(ADDED_AT_ONCE);
        let last = rows.last().map(|row| row.seq).filter(|_| whole);
        for row in rows {
            let waiting = self.waiting(tx, &row)?;
            self.add(row, waiting);
        }
        Ok(last)
    }

    fn waiting(&mut self, tx: &Tx<'_>, row: &Row) -> Result<Waiting> {
        let state = row.content.as_ref().map(|dirty| dirty.state);
        if let Some(dirty) = &row.content
            && !row.blocked
            && self.is_held(tx, dirty)?
        {
            return Ok(Waiting::ForName);
        }
        // One that is written again holds up nothing: its next close gives it its place.
        let holds_up = row.blocked || state == Some(WriteState::ClosedOpen as i64);
        if holds_up && !self.stuck.contains(&row.domain) {
            self.stuck.insert(row.domain.clone());
        }
        let is_closed = state.is_none_or(|state| state == WriteState::Closed as i64);
        Ok(match () {
            () if row.blocked => Waiting::ForPerson,
            () if !is_closed => Waiting::ForClose,
            () if self.stuck.contains(&row.domain) => Waiting::Behind,
            () => Waiting::ForMover,
        })
    }

    fn is_held(&mut self, tx: &Tx<'_>, dirty: &Dirty) -> Result<bool> {
        let Some((parent, name)) = &dirty.name else { return Ok(false) };
        if self.paths.len() > MAX_PATHS {
            self.paths.clear();
        }
        let path = match self.paths.get(parent) {
            Some(known) => known,
            None => {
                let path = tx.path(Ino(parent.cast_unsigned()))?;
                self.paths.entry(*parent).or_insert(path)
            }
        };
        match path {
            Some(path) => Ok((self.is_held)(&path.join(name)?, dirty.ids)),
            None => Ok(false),
        }
    }

    fn add(&mut self, row: Row, waiting: Waiting) {
        let sum = self.sums.entry((row.domain.clone(), waiting)).or_insert_with(|| Backlog {
            domain: row.domain,
            waiting,
            steps: 0,
            files: 0,
            bytes: 0,
            oldest: None,
            newest: Seq(0),
        });
        sum.steps += 1;
        sum.newest = Seq(row.seq.cast_unsigned());
        if let Some(dirty) = row.content {
            sum.files += 1;
            sum.bytes += dirty.size.cast_unsigned();
            let queued_at = Timestamp(row.queued_at);
            sum.oldest = Some(sum.oldest.map_or(queued_at, |oldest| oldest.min(queued_at)));
        }
    }
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let mut size: Option<i64> = row.get(5)?;
    if row.get(11)? {
        size = size.zip(row.get(10)?).map(|(size, blocks)| staged_of(size, blocks));
    }
    let parent: Option<i64> = row.get(6)?;
    let name = parent.map(|parent| Ok::<_, rusqlite::Error>((parent, row.get(7)?))).transpose()?;
    let ids = Ids {
        uid: row.get::<_, Option<u32>>(8)?.unwrap_or(0),
        gid: row.get::<_, Option<u32>>(9)?.unwrap_or(0),
    };
    let content = size.map(|size| Ok::<_, rusqlite::Error>(Dirty { state: row.get(4)?, size, name, ids }));
    Ok(Row {
        seq: row.get(0)?,
        domain: row.get(1)?,
        blocked: row.get(2)?,
        queued_at: row.get(3)?,
        content: content.transpose()?,
    })
}
