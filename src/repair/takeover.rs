//! Taking over what another catalog, or an earlier state of this one, left on a stage: each staged file says in its sidecar what it is,
//! and becomes a dirty file of this catalog, in the order in which they were closed.
//!
//! What was never closed is shown and not committed until it is closed again or told to. What can't say what it is gets a name
//! in `lost+found`. Nothing is deleted but older versions of files that were closed again since.
//!
//! Rows first, then the bytes move, each with a sidecar that is true at any moment: who dies in between leaves rows without bytes, which
//! the next start takes back, and bytes where they were.

mod place;

use crate::catalog::{Catalog, Content, Defaults, NewBytes, NewInode, is_partial, stage_name};
use crate::clock::Clock;
use crate::data::{Mapped, Sidecar, SidecarState, StageStore, Staged};
use crate::error::{Error, Kind, Result};
use crate::policy::placement::{Rules, Subject};
use crate::tier::{Object, Tier};
use crate::types::{FileKind, Generation, Ino, Key, Seq, TierId, Timestamp};
use place::Spot;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Directory of the mount for what has no other place.
pub const LOST_AND_FOUND: &str = "lost+found";

/// Who takes over.
pub struct Heir<'a> {
    /// Its catalog.
    pub catalog: &'a Catalog,
    /// Where files belong.
    pub rules: &'a Rules,
    /// All tiers.
    pub tiers: &'a HashMap<TierId, Arc<dyn Tier>>,
    /// For directories that nobody describes.
    pub defaults: Defaults,
    /// This machine, for names of what is kept beside something else.
    pub host: &'a str,
    /// Time.
    pub clock: &'a dyn Clock,
}

impl std::fmt::Debug for Heir<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heir").field("host", &self.host).finish_non_exhaustive()
    }
}

/// A stage with something to take over.
#[derive(Debug)]
pub struct Estate<'a> {
    /// The tier it is on.
    pub tier: TierId,
    /// Where the bytes are.
    pub from: &'a StageStore,
    /// The heir's stage on the same tier; it may be the same.
    pub to: &'a StageStore,
    /// What of it is to be taken.
    pub staged: Vec<Staged>,
}

/// A file that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its path now.
    pub path: Key,
    /// Its bytes.
    pub size: u64,
    /// Bytes of it that were never staged.
    pub missing: u64,
    /// What it is.
    pub standing: Standing,
}

/// What a taken file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Closed: it goes on to its home, in its order.
    Closed,
    /// Never closed: shown, and committed once it is closed again or told to.
    Open,
    /// It did not say what it is: as never closed, in `lost+found`.
    Nameless,
}

/// A staged file with what it says of itself.
pub(super) struct Piece<'a> {
    pub(super) estate: &'a Estate<'a>,
    pub(super) name: &'a [u8],
    pub(super) object: &'a Object,
    pub(super) sidecar: Option<&'a Sidecar>,
    pub(super) standing: Standing,
    /// A later one has its path.
    pub(super) outdone: bool,
    /// What it has, if not all.
    pub(super) mapped: Option<Mapped>,
}

/// A piece with its row.
struct Rowed<'a> {
    piece: Piece<'a>,
    ino: Ino,
    path: Key,
}

/// Takes everything over; `tell` hears of each file once it is done.
///
/// # Errors
/// As catalog and tiers say; a tier that must be asked and does not answer ends it before any bytes moved.
pub async fn take_over(
    heir: &Heir<'_>,
    estates: &[Estate<'_>],
    tell: &mut (dyn FnMut(&Taken) + Send),
) -> Result<()> {
    let mut pieces = in_order(estates);
    let superseded = take_superseded(&mut pieces);
    let (mut last_ino, mut last_seq) = (Ino(0), Seq(0));
    for sidecar in pieces.iter().filter_map(|piece| piece.sidecar) {
        last_ino = last_ino.max(sidecar.ino);
        last_seq = last_seq.max(sidecar.seq.unwrap_or_default());
    }
    heir.catalog.number_above(last_ino, last_seq)?;
    let mut rowed = Vec::with_capacity(pieces.len());
    for piece in pieces {
        rowed.push(row(heir, piece).await?);
    }
    heir.catalog.sync()?;
    for rowed in rowed {
        tell(&heir.move_in(rowed)?);
    }
    heir.catalog.sync()?;
    superseded.into_iter().try_for_each(|piece| piece.estate.from.remove(piece.name))
}

/// Takes out what was closed of a file of which something newer was closed: it was kept for its turn at home alone, which went with the
/// catalog.
fn take_superseded<'a>(pieces: &mut Vec<Piece<'a>>) -> Vec<Piece<'a>> {
    let mut newest = HashMap::new();
    for piece in pieces.iter().filter(|piece| piece.standing == Standing::Closed) {
        if let Some(file) = piece.file() {
            newest.insert(file, piece.name.to_vec());
        }
    }
    let is_superseded = |piece: &mut Piece<'a>| {
        piece.standing == Standing::Closed
            && piece.file().and_then(|file| newest.get(&file)).is_some_and(|name| name != piece.name)
    };
    pieces.extract_if(.., is_superseded).collect()
}

impl Piece<'_> {
    /// Bytes of it that were never staged.
    pub(super) fn missing(&self) -> u64 {
        self.mapped.as_ref().map_or(0, |mapped| mapped.map.missing_bytes())
    }

    /// Which file of which stage it says to be.
    fn file(&self) -> Option<(*const StageStore, Ino, Key)> {
        let sidecar = self.sidecar?;
        Some((std::ptr::from_ref(self.estate.from), sidecar.ino, sidecar.path.clone()))
    }
}

/// All pieces, the last closed last.
pub(super) fn in_order<'a>(estates: &'a [Estate<'a>]) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'_>> = estates.iter().flat_map(pieces_of).collect();
    pieces.sort_by_key(order);
    find_outdone(&mut pieces);
    pieces
}

fn pieces_of<'a>(estate: &'a Estate<'a>) -> impl Iterator<Item = Piece<'a>> {
    let grain = estate.from.tier().capabilities().mtime_grain.map_or(0, |grain| grain.as_nanos());
    estate.staged.iter().filter_map(move |staged| {
        let object = staged.object.as_ref()?;
        let sidecar = staged.sidecar.as_ref();
        let mapped = match is_partial(&staged.name).then(|| estate.from.look_at_map(&staged.name)).transpose()
        {
            Ok(mapped) => mapped,
            Err(error) => {
                let name = String::from_utf8_lossy(&staged.name);
                tracing::error!(%name, %error, "a partly staged file is left where it is");
                return None;
            }
        };
        Some(Piece {
            mapped,
            estate,
            name: &staged.name,
            object,
            sidecar,
            standing: standing(object, sidecar, grain),
            outdone: false,
        })
    })
}

/// Bytes that changed after they were last described were being written again.
fn standing(object: &Object, sidecar: Option<&Sidecar>, grain: u128) -> Standing {
    let Some(sidecar) = sidecar.filter(|sidecar| !sidecar.path.is_root()) else { return Standing::Nameless };
    let apart = u128::from(object.modified.0.abs_diff(sidecar.mtime_ns));
    let as_described = object.size == sidecar.size && apart <= grain;
    match sidecar.state {
        SidecarState::Closed if as_described => Standing::Closed,
        SidecarState::Closed | SidecarState::Writing => Standing::Open,
    }
}

/// Closed ones in the order of their closes, then the others.
fn order(piece: &Piece<'_>) -> (u8, Seq, Vec<u8>) {
    let class = match piece.standing {
        Standing::Closed => 0,
        Standing::Open => 1,
        Standing::Nameless => 2,
    };
    let seq = piece.sidecar.and_then(|sidecar| sidecar.seq).unwrap_or_default();
    (class, seq, piece.name.to_vec())
}

/// Of several with one path the last that was closed has it, else the last.
fn find_outdone(pieces: &mut [Piece<'_>]) {
    let mut seen = HashSet::new();
    for wanted in [Standing::Closed, Standing::Open] {
        for piece in pieces.iter_mut().rev().filter(|piece| piece.standing == wanted) {
            piece.outdone = piece.sidecar.is_some_and(|sidecar| !seen.insert(sidecar.path.clone()));
        }
    }
}

/// Gives a piece its row, under a name where it is seen.
async fn row<'a>(heir: &Heir<'_>, piece: Piece<'a>) -> Result<Rowed<'a>> {
    let found = match piece.sidecar.filter(|_| piece.standing != Standing::Nameless) {
        Some(sidecar) => heir.find_place(sidecar, piece.outdone).await?,
        None => None,
    };
    let Spot { parent, name, base, xattrs } = match found {
        Some(found) => found,
        None => heir.lost_and_found(&nameless(&piece)).await?,
    };
    let owner = (heir.defaults.uid, heir.defaults.gid);
    let inode = heir.catalog.create(&NewInode {
        parent,
        name: &name,
        kind: FileKind::Regular,
        mode: piece.sidecar.map_or(0o600, |sidecar| sidecar.mode),
        uid: piece.sidecar.map_or(owner.0, |sidecar| sidecar.uid),
        gid: piece.sidecar.map_or(owner.1, |sidecar| sidecar.gid),
        rdev: 0,
        target: None,
        bytes: NewBytes::Staged { tier: piece.estate.tier },
        overflow: None,
        now: piece.object.modified,
    })?;
    let ino = inode.attr.ino;
    if let Some((place, version)) = base {
        heir.catalog.expect_there(ino, place, &name, &version)?;
    }
    heir.catalog.learn_xattrs(ino, &xattrs)?;
    let path = heir.catalog.path(ino)?.ok_or_else(|| Error::new(Kind::Corrupt, "a new name has no path"))?;
    Ok(Rowed { piece, ino, path })
}

/// A name for what has none: its tier and its key.
pub(super) fn nameless(piece: &Piece<'_>) -> Vec<u8> {
    let name = piece.name.iter().map(|byte| if *byte == b'/' { b'-' } else { *byte });
    [piece.estate.from.tier().name().as_bytes(), b"-"].concat().into_iter().chain(name).collect()
}

impl Heir<'_> {
    /// The bytes come to their row, and are closed if they were.
    fn move_in(&self, rowed: Rowed<'_>) -> Result<Taken> {
        let Rowed { piece, ino, path } = rowed;
        let (from, to) = (piece.estate.from, piece.estate.to);
        let (mut new_name, mut generation) = (stage_name(ino, Generation(1)), Generation(1));
        if piece.mapped.is_some() {
            let (staged, base) = self.catalog.becomes_partial(ino)?;
            (new_name, generation) = (staged.name, staged.generation);
            from.hand_over_map(piece.name, to, &new_name, base.unwrap_or(Generation(0)))?;
            self.catalog.sync()?;
        }
        if let Some(sidecar) = piece.sidecar {
            // Its place in the order stays: who takes over again finds the same one.
            let sidecar = Sidecar { path: path.clone(), ino, generation, ..sidecar.clone() };
            let state =
                if piece.standing == Standing::Closed { SidecarState::Closed } else { SidecarState::Writing };
            to.write_sidecar(&new_name, &Sidecar { state, ..sidecar })?;
        }
        from.hand_over(piece.name, to, &new_name)?;
        crate::failpoint::pass("taken_over_not_closed");
        from.remove_sidecar(piece.name)?;
        let content = Content {
            size: piece.object.size,
            blocks: piece.object.native.map_or(piece.object.size.div_ceil(512), |native| native.blocks),
            mtime: piece.object.modified,
            ctime: self.now(),
        };
        if piece.standing == Standing::Closed {
            let subject = Subject::new(&path, self.catalog.inode(ino)?.attr.ids());
            self.catalog.close(ino, content, &self.rules.domain(subject))?;
            self.catalog.released(ino)?;
        } else {
            self.catalog.resize(ino, content)?;
        }
        Ok(Taken { path, size: piece.object.size, missing: piece.missing(), standing: piece.standing })
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }
}
