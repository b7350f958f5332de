//! Where new files go while the home of their rule is too full.

use super::Vfs;
use super::open_file::{Bytes, OpenFile};
use crate::catalog::{Inode, Reason, WriteState};
use crate::error::{Kind, Result};
use crate::types::{Ids, Key, TierId, Whereabouts};

impl Vfs {
    /// Where a new file of somebody goes now: home, or the tier that takes files while home is too full.
    pub(super) fn new_whereabouts(&self, path: &Key, ids: Ids) -> Whereabouts {
        let rule = self.rule(path, ids);
        let overflow = rule.overflow.filter(|_| self.parts.fullness.is_full(rule.home));
        Whereabouts { ids, away: overflow.map(|overflow| overflow.tier) }
    }

    /// Makes something new where new files go. Where that has no room, the other of the two has its turn, and so has home while the
    /// other can't be asked.
    pub(super) fn make_where_room_is<T>(
        &self,
        path: &Key,
        ids: Ids,
        make: impl Fn(Option<TierId>) -> Result<T>,
    ) -> Result<T> {
        let away = self.new_whereabouts(path, ids).away;
        let error = match make(away) {
            Err(error) => error,
            made => return made,
        };
        let rule = self.rule(path, ids);
        match (away, rule.overflow) {
            (None, Some(overflow)) if error.kind() == Kind::NoSpace => {
                self.has_no_room(rule.home);
                make(Some(overflow.tier))
            }
            (Some(_), _) if is_of_tier(error.kind()) => match make(None) {
                Err(at_home) if at_home.kind() == Kind::NoSpace => {
                    self.has_no_room(rule.home);
                    Err(error)
                }
                made => made,
            },
            _ => Err(error),
        }
    }

    /// A file found no room on the tier: new ones go elsewhere if their rule says so.
    pub(super) fn has_no_room(&self, tier: TierId) {
        if self.parts.fullness.refused(tier, self.parts.clock.monotonic()) {
            let tier = self.tier_name(tier);
            tracing::warn!(
                tier,
                "a file found no room there: new ones go to the overflow of their rule, if it has one"
            );
        }
    }

    /// The same if a write to what is open found none.
    pub(super) fn note_room<T>(&self, open: &OpenFile, written: Result<T>) -> Result<T> {
        if let (Bytes::Native { tier, .. }, Err(error)) = (&open.bytes, &written)
            && error.kind() == Kind::NoSpace
        {
            self.has_no_room(*tier);
        }
        written
    }

    /// A clean file that begins anew, as it is emptied by the open for its first writer, begins where new ones go.
    pub(super) fn begins_elsewhere(&self, inode: Inode) -> Result<Inode> {
        let is_plain = inode.state == WriteState::Clean && inode.attr.nlink == 1;
        if !is_plain || inode.whereabouts().away.is_some() {
            return Ok(inode);
        }
        match self.new_whereabouts(&self.some_path(inode.attr.ino)?, inode.attr.ids()).away {
            Some(tier) => self.catalog().overflows(inode.attr.ino, tier),
            None => Ok(inode),
        }
    }

    /// Where a file is to be written instead of where there was no room for it: home if that is where its bytes are, and where it was
    /// until now if it was on its way home. None if there is no such place.
    pub(super) fn other_place(&self, inode: &Inode) -> Result<Option<Inode>> {
        let rule = self.rule(&self.some_path(inode.attr.ino)?, inode.attr.ids());
        let away = inode.away.zip(rule.overflow).filter(|(away, overflow)| away.tier == overflow.tier);
        match away.map(|(away, _)| (away.reason, away.tier)) {
            Some((Reason::Overflow, _))
                if self.clean_at_resident_home(&rule, &self.newest(inode)?).is_some() =>
            {
                self.catalog().come_home(inode.attr.ino).map(Some)
            }
            Some((Reason::Returning, tier)) => {
                self.has_no_room(rule.home);
                self.catalog().overflows(inode.attr.ino, tier).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Whether it is the tier's fault, so that another may do.
fn is_of_tier(kind: Kind) -> bool {
    matches!(kind, Kind::NoSpace | Kind::Absent | Kind::TimedOut | Kind::Unavailable | Kind::ReadOnly)
}
