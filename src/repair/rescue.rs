//! Handing out what a dead mount left on its stage, under the names it had: no catalog and no daemon are needed, and nothing there is
//! changed. For bytes that are wanted at once, or whose config is gone; `takeover` brings them to their home instead.

use super::takeover::{Estate, LOST_AND_FOUND, Piece, Standing, Taken, in_order, nameless};
use crate::data::Mapped;
use crate::error::{Error, Kind, Result};
use crate::tier::Access;
use crate::types::Key;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, fchown};
use std::path::Path;

/// End of the name of a file that lacks some of its bytes.
const PARTIAL: &[u8] = b".tierfs-partial";
/// End of the name of what says which.
const ABOUT: &[u8] = b".json";
const BUFFER: usize = 1 << 20;

/// Copies every staged file of `estate` to its path below `to`, which must be empty; `tell` hears of each once it is there. What is older
/// than another under the same path goes beside it, what has no path to `lost+found`. Of a partly staged file there is what was written, under a
/// name that says so, with holes for the rest and beside it which bytes those are and where they were to come from.
///
/// # Errors
/// As stage and target say. What was copied by then stays.
pub fn hand_out(estate: &Estate<'_>, to: &Path, tell: &mut dyn FnMut(&Taken)) -> Result<()> {
    must_be_empty(to)?;
    for piece in in_order(std::slice::from_ref(estate)) {
        let mut path = path_of(&piece)?;
        if piece.missing() > 0 {
            path = beside(&path, PARTIAL)?;
            let about = to.join(beside(&path, ABOUT)?.as_path());
            describe(&piece, &about)?;
        }
        copy_out(&piece, &to.join(path.as_path()))?;
        tell(&Taken { path, size: piece.object.size, missing: piece.missing(), standing: piece.standing });
    }
    // Directories too: who removes the stage next must find all of it here after a power loss.
    Ok(rustix::fs::syncfs(File::open(to)?)?)
}

fn must_be_empty(to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    if fs::read_dir(to)?.next().is_some() {
        let text = format!("{} is not empty: name another directory, nothing is overwritten", to.display());
        return Err(Error::new(Kind::Exists, text));
    }
    Ok(())
}

fn path_of(piece: &Piece<'_>) -> Result<Key> {
    let Some(sidecar) = piece.sidecar.filter(|_| piece.standing != Standing::Nameless) else {
        return Ok(Key::parse(LOST_AND_FOUND)?.join(nameless(piece))?);
    };
    if !piece.outdone {
        return Ok(sidecar.path.clone());
    }
    let (parent, name) = sidecar.path.split().ok_or(Kind::Corrupt)?;
    let older = format!(".older-{}-{}", sidecar.ino, sidecar.generation.0);
    Ok(parent.join([name, older.as_bytes()].concat())?)
}

fn beside(path: &Key, suffix: &[u8]) -> Result<Key> {
    Ok(Key::parse([path.as_bytes(), suffix].concat())?)
}

/// Says what a partly staged file lacks.
fn describe(piece: &Piece<'_>, to: &Path) -> Result<()> {
    let Some(Mapped { base, map }) = &piece.mapped else { return Ok(()) };
    let missing: Vec<[u64; 2]> =
        map.missing(&(0..piece.object.size)).into_iter().map(|gap| [gap.start, gap.end]).collect();
    let about = serde_json::json!({
        "size": piece.object.size,
        "missing": missing,
        "missing_is_in": {
            "location": base.location,
            "key": base.key.to_string(),
            "version": String::from_utf8_lossy(&base.version.0),
        },
    });
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = File::create_new(to).map_err(|error| Error::from(error).context(to.display()))?;
    writeln!(file, "{about:#}")?;
    Ok(file.sync_all()?)
}

/// Copies what is there, and leaves holes.
fn copy_present(mapped: &Mapped, size: u64, from: &File, to: &File) -> Result<()> {
    to.set_len(size)?;
    let mut buffer = vec![0; BUFFER];
    for mut range in mapped.map.present(&(0..size)) {
        while !range.is_empty() {
            let len = usize::try_from(range.end - range.start).unwrap_or(BUFFER).min(BUFFER);
            from.read_exact_at(&mut buffer[..len], range.start)?;
            to.write_all_at(&buffer[..len], range.start)?;
            range.start += len as u64;
        }
    }
    Ok(())
}

fn copy_out(piece: &Piece<'_>, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut from = piece.estate.from.open(piece.name, Access::Read)?;
    let mut file = File::create_new(to).map_err(|error| Error::from(error).context(to.display()))?;
    match &piece.mapped {
        Some(mapped) => copy_present(mapped, piece.object.size, &from, &file)?,
        None => drop(std::io::copy(&mut from, &mut file)?),
    }
    if let Some(sidecar) = piece.sidecar {
        // Only root gives files away; to anybody else they are worth having all the same.
        if let Err(error) = fchown(&file, Some(sidecar.uid), Some(sidecar.gid)) {
            tracing::debug!(path = %to.display(), %error, "the owner stays ours");
        }
        file.set_permissions(Permissions::from_mode(sidecar.mode & 0o7777))?;
    }
    file.set_times(FileTimes::new().set_modified(piece.object.modified.into()))?;
    Ok(file.sync_all()?)
}
