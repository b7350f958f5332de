//! `tierfs evict`: hot copies dropped because somebody asks for it; what stays is said.

use super::daemon::Live;
use crate::control::ProgressSink;
use crate::control::protocol::{Evicted, STAYS_MAX, Stays, Why, WirePath};
use crate::error::{Error, Kind, Result};
use crate::types::{FileKind, Ino, Key};
use crate::vfs::{Evict, Evicting, Stay, Vfs};

/// Names asked of a directory at a time.
const PAGE: usize = 256;

/// An `evict` under way.
pub struct Eviction<'a> {
    live: &'a Live,
    progress: &'a ProgressSink,
    evict: Evict,
}

/// What is still to be looked at.
enum Ahead {
    Path(Ino),
    Page { dir: Ino, after: u64 },
}

/// What came of some files, and what is ahead after them.
#[derive(Default)]
struct Step {
    files: Vec<(Key, Result<Evicting>)>,
    ahead: Vec<Ahead>,
}

impl<'a> Eviction<'a> {
    pub fn new(live: &'a Live, progress: &'a ProgressSink, evict: Evict) -> Self {
        Self { live, progress, evict }
    }

    /// Goes through everything at and below `paths`.
    pub async fn run(self, paths: Vec<Ino>) -> Evicted {
        let mut evicted = Evicted::default();
        let mut ahead: Vec<Ahead> = paths.into_iter().rev().map(Ahead::Path).collect();
        while let Some(next) = ahead.pop() {
            let evict = self.evict;
            match self.live.apart(move |vfs, caller| step(vfs, caller, &next, evict)).await {
                Ok(step) => {
                    ahead.extend(step.ahead);
                    step.files.into_iter().for_each(|(path, done)| note(&mut evicted, &path, done));
                }
                Err(error) => failed(&mut evicted, &error),
            }
            self.progress.send_modify(|now| {
                (now.files_done, now.bytes_done) = (evicted.files, evicted.bytes);
            });
        }
        evicted
    }
}

fn step(vfs: &Vfs, caller: &crate::vfs::Caller, next: &Ahead, evict: Evict) -> Result<Step> {
    let mut step = Step::default();
    let facts = match next {
        Ahead::Path(ino) => vec![vfs.facts_of(*ino)?],
        Ahead::Page { dir, after } => {
            let page = vfs.facts_in(caller, *dir, *after, PAGE)?;
            if let Some((last, _)) = page.last().filter(|_| page.len() == PAGE) {
                step.ahead.push(Ahead::Page { dir: *dir, after: *last });
            }
            page.into_iter().map(|(_, facts)| facts).collect()
        }
    };
    for facts in facts {
        let ino = facts.attr.ino;
        match facts.attr.kind {
            FileKind::Directory => step.ahead.push(Ahead::Page { dir: ino, after: 0 }),
            FileKind::Regular => step.files.push((facts.path, vfs.evict(ino, evict))),
            _ => {}
        }
    }
    Ok(step)
}

fn note(evicted: &mut Evicted, path: &Key, done: Result<Evicting>) {
    match done {
        Ok(Evicting::Nothing) => {}
        Ok(Evicting::Dropped { bytes }) => {
            evicted.files += 1;
            evicted.bytes += bytes;
        }
        Ok(Evicting::Stays(stay)) => {
            evicted.stay_files += 1;
            if evicted.stays.len() < STAYS_MAX {
                let why = match stay {
                    Stay::Dirty => Why::Dirty,
                    Stay::Open => Why::Open,
                    Stay::Pinned => Why::Pinned,
                };
                evicted.stays.push(Stays { path: WirePath(path.as_bytes().to_vec()), why });
            }
        }
        Err(error) if error.kind() == Kind::NotFound => {}
        Err(error) => failed(evicted, &error.context(path)),
    }
}

fn failed(evicted: &mut Evicted, error: &Error) {
    evicted.failed += 1;
    evicted.reason.get_or_insert_with(|| error.to_string());
}
