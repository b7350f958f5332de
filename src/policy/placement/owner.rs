//! Whose files a rule is for.

use crate::types::{Ids, Key, TierId, Whereabouts};
use serde::{Deserialize, Serialize};

/// What a rule is chosen for: a path and who owns it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// From the mount's root.
    pub path: &'a Key,
    /// The owner, now or of what is to be made.
    pub ids: Ids,
    /// Where the file was sent, if it was.
    pub away: Option<TierId>,
}

impl<'a> Subject<'a> {
    /// What somebody owns at `path`, or the file of these whereabouts.
    #[must_use]
    pub fn new(path: &'a Key, whereabouts: impl Into<Whereabouts>) -> Self {
        let Whereabouts { ids, away } = whereabouts.into();
        Self { path, ids, away }
    }
}

/// Users and groups; nobody is named: everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owners {
    /// Any of these users; none: every user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uids: Vec<u32>,
    /// Any of these groups; none: every group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gids: Vec<u32>,
}

impl Owners {
    /// Whether they are everybody.
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.uids.is_empty() && self.gids.is_empty()
    }

    /// Whether user and group are among them.
    #[must_use]
    pub fn has(&self, ids: Ids) -> bool {
        (self.uids.is_empty() || self.uids.contains(&ids.uid))
            && (self.gids.is_empty() || self.gids.contains(&ids.gid))
    }

    /// Whether all of `others` are among them.
    #[must_use]
    pub fn include(&self, others: &Self) -> bool {
        let include = |own: &[u32], others: &[u32]| {
            own.is_empty() || !others.is_empty() && others.iter().all(|id| own.contains(id))
        };
        include(&self.uids, &others.uids) && include(&self.gids, &others.gids)
    }
}
