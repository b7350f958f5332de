//! Where a file lives instead of its home: a wish that outlives the daemon, and how far it has come true.

use super::Inode;
use crate::types::{Attr, TierId, Timestamp, Whereabouts};

/// A file that is not at home, on purpose. The tier says where it lives only as long as the rule of the file names that
/// tier; else it is at home, or on its way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// To which tier it was sent.
    pub tier: TierId,
    /// Why, and whether it is still so.
    pub reason: Reason,
    /// Since when.
    pub since: Timestamp,
}

/// Why a file is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Nobody has used it for long: it moves to the tier now.
    Going = 1,
    /// The same, and it is there.
    Cold = 2,
    /// It was used, or home has room again: it moves home.
    Returning = 3,
    /// Home was too full when it was made.
    Overflow = 4,
}

impl Reason {
    const ALL: [Self; 4] = [Self::Going, Self::Cold, Self::Returning, Self::Overflow];

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }
}

impl Away {
    /// The tier where it is to live.
    #[must_use]
    pub fn lives_on(self) -> Option<TierId> {
        (self.reason != Reason::Returning).then_some(self.tier)
    }
}

impl Inode {
    /// What chooses its rule, beside its path.
    #[must_use]
    pub fn whereabouts(&self) -> Whereabouts {
        self.whereabouts_as(&self.attr)
    }

    /// The same for whoever opens it: what is away because nobody used it is never written there, as a home is.
    #[must_use]
    pub fn opened_as(&self) -> Whereabouts {
        let is_home = |away: &Away| away.reason == Reason::Overflow;
        Whereabouts { ids: self.attr.ids(), away: self.away.filter(is_home).map(|away| away.tier) }
    }

    /// The same if it had these attributes.
    #[must_use]
    pub fn whereabouts_as(&self, attr: &Attr) -> Whereabouts {
        Whereabouts { ids: attr.ids(), away: self.away.and_then(Away::lives_on) }
    }
}
