//! What still has to reach home, added up by order domain.

use super::Catalog;
use crate::catalog::tables::Tx;
use crate::catalog::{Backlog, Waiting, WriteState};
use crate::error::Result;
use crate::types::{Seq, Timestamp};
use rusqlite::params;
use std::collections::{BTreeMap, HashSet};
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

impl Catalog {
    /// What still has to reach home, by domain and by what it waits for. An answer may be as old as `age`, or older where
    /// there is so much that adding it up takes long. Rows are added up in portions, so that nobody waits long for it: under
    /// change the sums are those of no exact moment.
    pub fn backlog(&self, age: Duration) -> Result<Arc<Vec<Backlog>>> {
        let mut added = self.added.lock();
        let (now, changes) = (self.clock.monotonic(), self.engine.changes());
        if let Some(known) = &*added {
            let fresh = age.max(known.took * SHARE);
            if known.changes == changes || now.saturating_sub(known.at) < fresh {
                return Ok(known.sums.clone());
            }
        }
        let (mut sums, mut held) = (BTreeMap::new(), HashSet::new());
        let mut after = 0;
        while let Some(last) = self.engine.read(|tx| add_some(tx, after, &mut sums, &mut held))? {
            after = last;
        }
        let sums: Arc<Vec<Backlog>> = Arc::new(sums.into_values().collect());
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
    content: Option<(i64, i64)>,
}

/// Adds up a portion of the steps; `held` are the domains in which one before them can't go on. Answers where to go on.
fn add_some(
    tx: &Tx<'_>,
    after: i64,
    sums: &mut BTreeMap<(String, Waiting), Backlog>,
    held: &mut HashSet<String>,
) -> Result<Option<i64>> {
    let rows = tx.all(
        "SELECT s.seq, s.domain, s.blocked, s.queued_at, i.state, i.size FROM step s
         LEFT JOIN inode i ON i.ino = s.ino AND i.state <> 0 WHERE s.seq > ?1 ORDER BY s.seq LIMIT ?2",
        params![after, ADDED_AT_ONCE],
        |row| {
            let state: Option<i64> = row.get(4)?;
            let content = state.map(|state| Ok::<_, rusqlite::Error>((state, row.get(5)?))).transpose()?;
            Ok(Row {
                seq: row.get(0)?,
                domain: row.get(1)?,
                blocked: row.get(2)?,
                queued_at: row.get(3)?,
                content,
            })
        },
    )?;
    let whole = i64::try_from(rows.len()) == Ok(ADDED_AT_ONCE);
    let last = rows.last().map(|row| row.seq).filter(|_| whole);
    for row in rows {
        let is_open = row.content.is_some_and(|(state, _)| state != WriteState::Closed as i64);
        let waiting = match (row.blocked, is_open) {
            (true, _) => Waiting::ForPerson,
            (_, true) => Waiting::ForClose,
            _ if held.contains(&row.domain) => Waiting::Behind,
            _ => Waiting::ForMover,
        };
        if matches!(waiting, Waiting::ForClose | Waiting::ForPerson) && !held.contains(&row.domain) {
            held.insert(row.domain.clone());
        }
        let sum = sums.entry((row.domain.clone(), waiting)).or_insert_with(|| Backlog {
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
        if let Some((_, size)) = row.content {
            sum.files += 1;
            sum.bytes += size.cast_unsigned();
            let queued_at = Timestamp(row.queued_at);
            sum.oldest = Some(sum.oldest.map_or(queued_at, |oldest| oldest.min(queued_at)));
        }
    }
    Ok(last)
}
