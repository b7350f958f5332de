//! The ids of all catalogs that ever were at a path, in `<path>.id`, newest last: they name stages, and a damaged catalog can't say its own.

use super::open::{beside, sync_parent};
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Ids are 32 hexadecimal digits; what else is in the file is nobody's stage.
fn is_id(line: &str) -> bool {
    line.len() == 32 && line.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The ids known at `path`, oldest first; none before the first catalog.
pub(in crate::catalog) fn known(path: &Path) -> Result<Vec<String>> {
    let at = beside(path, ".id");
    match std::fs::read(&at) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            Ok(text.lines().map(str::trim).filter(|line| is_id(line)).map(str::to_owned).collect())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::from(error).context(format_args!("can't read {}", at.display()))),
    }
}

/// Adds an id, durably.
pub(in crate::catalog) fn add(path: &Path, id: &str) -> Result<()> {
    let mut ids = known(path)?;
    if ids.last().is_some_and(|last| last == id) {
        return Ok(());
    }
    ids.retain(|known| known != id);
    ids.push(id.to_owned());
    write(path, &ids)
}

/// Forgets an id of which no stage is left.
pub(in crate::catalog) fn remove(path: &Path, id: &str) -> Result<()> {
    let mut ids = known(path)?;
    ids.retain(|known| known != id);
    write(path, &ids)
}

fn write(path: &Path, ids: &[String]) -> Result<()> {
    let (at, part) = (beside(path, ".id"), beside(path, ".id.part"));
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    for id in ids {
        writeln!(file, "{id}")?;
    }
    file.sync_all()?;
    std::fs::rename(&part, &at)?;
    sync_parent(path)
}
