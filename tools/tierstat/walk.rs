//! The rows of a directory: from the daemon, or through the mount where there is no socket.

use crate::Failure;
use crate::args::Depth;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use tierfs::control::client::{Client, ClientError};
use tierfs::control::mounts::Mount;
use tierfs::control::protocol::{
    ErrorCode, Held, ListPage, ListQuery, PAGE_MAX, Role, Row, RowKind, RowState, WirePath,
};
use tierfs::control::target::{Target, xattr};
use tierfs::control::{HEAT_XATTR, REPLICAS_XATTR, STATE_XATTR};

/// Calls `each` for every row of `target`, a directory before what is in it.
pub fn walk(
    target: &Target,
    depth: Depth,
    each: &mut dyn FnMut(Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match target.connect() {
        Ok(client) => Asked { client, target }.walk(depth, each),
        Err(_no_socket_here) => looked_at(target, depth, each),
    }
}

struct Asked<'a> {
    client: Client,
    target: &'a Target,
}

impl Asked<'_> {
    fn walk(
        &mut self,
        depth: Depth,
        each: &mut dyn FnMut(Row) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut waiting = vec![self.target.inner.clone()];
        let mut top = true;
        while let Some(directory) = waiting.pop() {
            let mut below = Vec::new();
            match self.page_by_page(&directory, depth, &mut below, each) {
                // Gone since its parent was listed.
                Err(ListFailure::NotFound(_)) if !top => {}
                Err(ListFailure::NotFound(said) | ListFailure::Other(Failure::Said(said))) => {
                    return Err(Failure::Said(said));
                }
                Err(ListFailure::Other(failure)) => return Err(failure),
                Ok(()) => {}
            }
            waiting.extend(below.into_iter().rev());
            top = false;
        }
        Ok(())
    }

    fn page_by_page(
        &mut self,
        directory: &WirePath,
        depth: Depth,
        below: &mut Vec<WirePath>,
        each: &mut dyn FnMut(Row) -> Result<(), Failure>,
    ) -> Result<(), ListFailure> {
        let mut query = ListQuery { path: directory.clone(), after: None, limit: PAGE_MAX };
        loop {
            let page = self.page(&query).map_err(|error| self.failure(directory, &error))?;
            for row in page.rows {
                if depth == Depth::All && row.kind == RowKind::Directory && row.path != *directory {
                    below.push(row.path.clone());
                }
                each(row).map_err(ListFailure::Other)?;
            }
            if page.next.is_none() {
                return Ok(());
            }
            query.after = page.next;
        }
    }

    /// A pager can make us idle for longer than the daemon keeps a silent connection.
    fn page(&mut self, query: &ListQuery) -> Result<ListPage, ClientError> {
        match self.client.list(query.clone()) {
            Err(ClientError::Gone) => {
                self.client = self.target.connect().map_err(|_still_gone| ClientError::Gone)?;
                self.client.list(query.clone())
            }
            answered => answered,
        }
    }

    fn failure(&self, directory: &WirePath, error: &ClientError) -> ListFailure {
        let said = format!("{}: {error}", self.target.mount.point.join(directory.as_path()).display());
        if error.code() == Some(ErrorCode::NotFound) {
            ListFailure::NotFound(said)
        } else {
            ListFailure::Other(Failure::Said(said))
        }
    }
}

enum ListFailure {
    NotFound(String),
    Other(Failure),
}

fn looked_at(
    target: &Target,
    depth: Depth,
    each: &mut dyn FnMut(Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |path: &Path, error: &std::io::Error| Failure::Said(format!("{}: {error}", path.display()));
    let found = fs::symlink_metadata(&target.path).map_err(|error| failed(&target.path, &error))?;
    if !found.is_dir() {
        return each(row(&target.mount, &target.path, &found));
    }
    let mut waiting = vec![target.path.clone()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| failed(&directory, &error))? {
            let path = entry.map_err(|error| failed(&directory, &error))?.path();
            // Gone since the listing.
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            each(row(&target.mount, &path, &found))?;
            if depth == Depth::All && found.is_dir() {
                waiting.push(path);
            }
        }
    }
    Ok(())
}

fn row(mount: &Mount, path: &Path, found: &Metadata) -> Row {
    let word = |name| xattr(path, name).ok().and_then(|value| String::from_utf8(value).ok());
    let state = word(STATE_XATTR).and_then(|word| RowState::from_word(&word)).unwrap_or(RowState::Clean);
    Row {
        path: mount.inner(path).unwrap_or_default(),
        kind: kind(found),
        size: found.len(),
        mtime_ns: found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec()),
        state,
        held: word(REPLICAS_XATTR).map(|tiers| held(&tiers, state)).unwrap_or_default(),
        heat: word(HEAT_XATTR).and_then(|heat| heat.trim().parse().ok()),
    }
}

/// The attribute names the home first, where the bytes have arrived there.
fn held(tiers: &str, state: RowState) -> Vec<Held> {
    let tiers = tiers.split(',').filter(|tier| !tier.is_empty());
    let role = |at: usize| match (at, state) {
        (0, RowState::Clean) => Role::Home,
        (_, RowState::Clean) => Role::Hot,
        _ => Role::Stage,
    };
    tiers.enumerate().map(|(at, tier)| Held { tier: tier.to_owned(), role: role(at) }).collect()
}

fn kind(found: &Metadata) -> RowKind {
    let kind = found.file_type();
    if kind.is_dir() {
        RowKind::Directory
    } else if kind.is_symlink() {
        RowKind::Symlink
    } else if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
        RowKind::Special
    } else {
        RowKind::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tier_is_home_once_the_file_is_clean() {
        let roles = |state| held("blob,scratch", state).into_iter().map(|held| held.role).collect::<Vec<_>>();
        assert_eq!(roles(RowState::Clean), [Role::Home, Role::Hot]);
        assert_eq!(roles(RowState::Dirty), [Role::Stage, Role::Stage]);
        assert_eq!(held("", RowState::Clean), []);
    }
}
