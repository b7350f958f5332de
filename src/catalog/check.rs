//! Whether the tables are true by themselves. For tests, and for whoever doubts a catalog.

use super::tables::Tx;
use super::verbs::Catalog;
use crate::error::Result;

/// What must select no row, and what it means if it does.
const RULES: &[(&str, &str)] = &[
    (
        "SELECT d.parent, d.ino FROM dentry d WHERE NOT EXISTS (SELECT 1 FROM inode i WHERE i.ino = d.ino)",
        "a name without an inode (directory, inode)",
    ),
    (
        "SELECT d.parent, d.ino FROM dentry d WHERE NOT EXISTS
         (SELECT 1 FROM inode i WHERE i.ino = d.parent AND i.kind = 2 AND i.nlink > 0)",
        "a name in what is not a directory (directory, inode)",
    ),
    (
        "SELECT i.ino, i.nlink FROM inode i WHERE i.kind <> 2
         AND i.nlink <> (SELECT count(*) FROM dentry d WHERE d.ino = i.ino)",
        "a link count that is not the number of names (inode, count)",
    ),
    (
        "SELECT i.ino, i.nlink FROM inode i WHERE i.kind = 2 AND i.nlink <> CASE
           WHEN i.ino = 1 OR EXISTS (SELECT 1 FROM dentry d WHERE d.ino = i.ino)
           THEN 2 + (SELECT count(*) FROM dentry d JOIN inode c ON c.ino = d.ino WHERE d.parent = i.ino AND c.kind = 2)
           ELSE 0 END",
        "a directory's link count that is not 2 + subdirectories (inode, count)",
    ),
    (
        "SELECT d.ino, count(*) FROM dentry d JOIN inode i ON i.ino = d.ino WHERE i.kind = 2
         GROUP BY d.ino HAVING count(*) > 1",
        "a directory with several names (inode, names)",
    ),
    (
        "SELECT r.place, r.ino FROM replica r WHERE NOT EXISTS (SELECT 1 FROM place p WHERE p.id = r.place)",
        "a key in no place (place, inode)",
    ),
    (
        "SELECT r.place, r.ino FROM replica r WHERE r.ino <> 0
         AND NOT EXISTS (SELECT 1 FROM inode i WHERE i.ino = r.ino)",
        "a key of an inode that is gone (place, inode)",
    ),
    (
        "SELECT r.place, r.ino FROM replica r JOIN inode i ON i.ino = r.ino WHERE r.generation > i.generation",
        "a key with a generation to come (place, inode)",
    ),
    (
        "SELECT p.id, p.ino FROM place p WHERE p.ino <> 0
         AND NOT EXISTS (SELECT 1 FROM inode i WHERE i.ino = p.ino AND i.kind = 2)",
        "a place of what is not a directory (place, inode)",
    ),
    (
        "SELECT p.id, p.parent FROM place p WHERE p.parent <> 0 AND NOT EXISTS
         (SELECT 1 FROM place q WHERE q.id = p.parent AND q.tier = p.tier)",
        "a place in no place of its tier (place, parent)",
    ),
    (
        "WITH RECURSIVE under(id) AS (SELECT id FROM place WHERE parent = 0
           UNION SELECT p.id FROM place p JOIN under u ON p.parent = u.id)
         SELECT id, parent FROM place WHERE id NOT IN (SELECT id FROM under)",
        "a place out of reach of its tier's root (place, parent)",
    ),
    (
        "WITH RECURSIVE under(ino) AS (SELECT 1
           UNION SELECT d.ino FROM dentry d JOIN under u ON d.parent = u.ino)
         SELECT parent, ino FROM dentry WHERE ino NOT IN (SELECT ino FROM under)",
        "a name out of reach of the root (directory, inode)",
    ),
    (
        "SELECT s.seq, s.ino FROM step s WHERE s.ino <> 0
         AND NOT EXISTS (SELECT 1 FROM inode i WHERE i.ino = s.ino AND (i.nlink > 0 OR s.kind = 4))",
        "a step for an inode that is gone (step, inode)",
    ),
    (
        "SELECT s.seq, s.place FROM step s WHERE s.ino = 0 AND NOT EXISTS
         (SELECT 1 FROM replica r WHERE r.place = s.place AND r.name = s.name AND r.ino = 0)",
        "a delete of a key that is not doomed (step, place)",
    ),
    (
        "SELECT x.ino, 0 FROM xattr x WHERE NOT EXISTS (SELECT 1 FROM inode i WHERE i.ino = x.ino)",
        "an attribute of an inode that is gone (inode, 0)",
    ),
];

/// The same for what can be made good by queueing a step.
const STEPLESS: &[(&str, &str)] = &[
    (
        "SELECT r.place, 0 FROM replica r WHERE r.ino = 0 AND r.version IS NOT NULL AND NOT EXISTS
         (SELECT 1 FROM step s WHERE s.place = r.place AND s.name = r.name AND s.ino = 0)",
        "a doomed key that nobody will delete (place, 0)",
    ),
    (
        "SELECT i.ino, i.state FROM inode i WHERE i.state = 3 AND i.nlink > 0
         AND NOT EXISTS (SELECT 1 FROM step s WHERE s.ino = i.ino)",
        "a closed file that nobody will commit (inode, state)",
    ),
];

impl Catalog {
    /// What is wrong with the tables, a line each; empty if nothing is. Reads everything.
    ///
    /// # Errors
    /// Only if the tables can't be read.
    pub fn check(&self) -> Result<Vec<String>> {
        self.engine.read(|tx| {
            let mut wrong = Vec::new();
            for (sql, meaning) in RULES.iter().chain(STEPLESS) {
                wrong.extend(violations(tx, sql, meaning)?);
            }
            Ok(wrong)
        })
    }

    /// The same without what a queued step would make good.
    ///
    /// # Errors
    /// As [`Catalog::check`].
    pub fn contradictions(&self) -> Result<Vec<String>> {
        self.engine.read(|tx| {
            let mut wrong = Vec::new();
            for (sql, meaning) in RULES {
                wrong.extend(violations(tx, sql, meaning)?);
            }
            Ok(wrong)
        })
    }
}

fn violations(tx: &Tx<'_>, sql: &str, meaning: &str) -> Result<Vec<String>> {
    tx.all(sql, [], |row| Ok(format!("{meaning}: {}, {}", row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
}
