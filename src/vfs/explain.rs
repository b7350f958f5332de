//! Why a file is where it is, and what comes next: `user.tierfs.explain`, a JSON object for `tierfs explain`.

use super::facts::{COLD, DAY};
use super::{CopyRole, Vfs};
use crate::catalog::{Away, Inode, Pin, Reason, Replica, WriteState};
use crate::error::Result;
use crate::policy::admission::{Admission, CLEARLY_MORE};
use crate::policy::aside::utc;
use crate::policy::heat::value;
use crate::policy::placement::{Promote, Rule, Subject};
use crate::types::{FileKind, Ino, Key};
use serde::{Deserialize, Serialize};

/// Version of the object; fields are only added within one.
pub const EXPLAINED_VERSION: u32 = 1;

/// All that decides where a file is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// [`EXPLAINED_VERSION`].
    pub v: u32,
    /// Path from the mount's root; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// `clean`, `dirty` or `writing`.
    pub state: String,
    /// The rule that matched.
    pub rule: RuleFacts,
    /// Where its newest bytes are.
    pub copies: Vec<CopyFacts>,
    /// How often it is opened; none if never, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<HeatFacts>,
    /// What follows from that for its hot copy, or its move.
    pub next: Vec<String>,
}

/// A rule, as far as it places files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleFacts {
    /// Its place in the config, from 1.
    pub number: usize,
    /// Its pattern.
    pub path: String,
    /// Its home.
    pub home: String,
    /// Its stage.
    pub stage: String,
    /// Its tiers for hot copies.
    pub hot: Vec<String>,
}

/// One copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyFacts {
    /// On which tier.
    pub tier: String,
    /// `home`, `stage` or `hot`.
    pub role: String,
    /// Under which key there.
    pub key: String,
}

/// Opens of a file and of its group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeatFacts {
    /// Opens, those of a week ago counted by half.
    pub opens: f64,
    /// Seconds since the last one.
    pub last_open_s: u64,
    /// Opens a day, as its group and its share of it say.
    pub per_day: f64,
    /// The directory it counts with.
    pub group: String,
    /// Opens a day of all of the group.
    pub group_per_day: f64,
}

impl Vfs {
    /// Why this file is where it is.
    ///
    /// # Errors
    /// What the catalog or a tier says.
    pub fn explain(&self, ino: Ino) -> Result<Explained> {
        let inode = self.catalog().inode(ino)?;
        let facts = self.facts_of(ino)?;
        let rule = self.rule(&facts.path, inode.attr.ids());
        let newest = self.newest(&inode)?;
        let copies = self.copies(&rule, &newest)?;
        let pin = self.catalog().pin_of(ino, self.now())?;
        let mut next = match inode.away.filter(|_| facts.is_cold) {
            Some(away) => vec![self.next_of_cold(&rule, away)],
            None => self.what_is_next(&self.rule(&facts.path, inode.opened_as()), &inode, &copies),
        };
        if newest.iter().any(Replica::is_partial) {
            let home = self.tier_name(rule.home);
            next.push(format!("partly staged: what was not written is read from {home}, and stays there"));
        }
        match pin {
            Some(pin) => next.push(self.what_a_pin_does(ino, pin)?),
            None if !facts.is_cold => next.extend(self.next_if_unused(&rule, &inode)),
            None => {}
        }
        next.extend(self.next_of_overflow(&facts.path, &inode));
        Ok(Explained {
            v: EXPLAINED_VERSION,
            path: facts.path.to_string(),
            size: facts.attr.size,
            state: if facts.is_cold { COLD } else { super::facts::word(inode.state) }.to_owned(),
            rule: RuleFacts {
                number: 1 + self.rules().iter().position(|one| one.index == rule.index).unwrap_or_default(),
                path: rule.pattern.clone(),
                home: self.tier_name(rule.home),
                stage: self.tier_name(rule.stage),
                hot: rule.hot.iter().map(|tier| self.tier_name(*tier)).collect(),
            },
            heat: self.heat_facts(ino)?,
            copies,
            next,
        })
    }

    fn copies(&self, rule: &Rule, newest: &[Replica]) -> Result<Vec<CopyFacts>> {
        let fact = |tier, role, key: &dyn std::fmt::Display| CopyFacts {
            tier: self.tier_name(tier),
            role: word(role).to_owned(),
            key: key.to_string(),
        };
        let mut copies = Vec::new();
        for replica in newest {
            let role = if replica.staged { CopyRole::Stage } else { CopyRole::Home };
            copies.push(fact(replica.tier, role, &replica.key));
            if !replica.staged {
                for (tier, key) in self.hot_copies(rule, replica)? {
                    copies.push(fact(tier, CopyRole::Hot, &key));
                }
            }
        }
        Ok(copies)
    }

    fn heat_facts(&self, ino: Ino) -> Result<Option<HeatFacts>> {
        let heat = &self.parts.heat;
        let (Some((opens, last)), Some((group, rate))) = (heat.opens(ino), heat.group(ino)) else {
            return Ok(None);
        };
        let since = self.now().0.saturating_sub(last.0).max(0) / 1_000_000_000;
        Ok(Some(HeatFacts {
            opens,
            last_open_s: since.cast_unsigned(),
            per_day: heat.rate(ino) * DAY,
            group: self.catalog().path(group)?.map_or_else(String::new, |path| path.to_string()),
            group_per_day: rate * DAY,
        }))
    }

    fn what_is_next(&self, rule: &Rule, inode: &Inode, copies: &[CopyFacts]) -> Vec<String> {
        if inode.attr.kind != FileKind::Regular {
            return vec!["it has no bytes that could move".to_owned()];
        }
        let home = self.tier_name(rule.home);
        let mut next = Vec::new();
        match inode.state {
            WriteState::Writing => next.push(format!("goes to {home} after its last close")),
            WriteState::ClosedOpen => {
                next.push(format!("goes to {home} when nobody has it open for writing"))
            }
            WriteState::Closed => next.push(format!("goes to {home} in its turn: see `tierfs queue`")),
            WriteState::Clean if copies.iter().all(|copy| copy.tier != home) => {
                next.push(format!("moves to {home}, its home now"));
            }
            WriteState::Clean => {}
        }
        if inode.state == WriteState::Clean {
            next.push(self.next_of_hot(rule, inode, copies));
        }
        next
    }

    /// Where a file is that nobody used, and what brings it home.
    fn next_of_cold(&self, rule: &Rule, away: Away) -> String {
        let (tier, home) = (self.tier_name(away.tier), self.tier_name(rule.home));
        let since = utc(away.since);
        match away.reason {
            Reason::Going => {
                format!("goes to {tier}, as nobody used it; stays on {home} if somebody does before that")
            }
            _ => format!(
                "cold since {since}: it is on {tier}, and comes back when it is read or written, to {home}"
            ),
        }
    }

    /// Why a file is not at its home that had no room for it, and when it moves there.
    fn next_of_overflow(&self, path: &Key, inode: &Inode) -> Option<String> {
        let away = inode.away.filter(|_| self.rules().is_away(Subject::new(path, inode.opened_as())))?;
        let home = self.rule(path, inode.attr.ids()).home;
        let is_full = if self.parts.fullness.is_full(home) { "is" } else { "was" };
        let (tier, home, since) = (self.tier_name(away.tier), self.tier_name(home), utc(away.since));
        Some(format!(
            "on {tier} since {since}, as {home} {is_full} over its high water: moves to {home} when that is below its low water"
        ))
    }

    /// That it stays where it is near.
    fn what_a_pin_does(&self, ino: Ino, pin: Pin) -> Result<String> {
        let by = match self.catalog().path(pin.ino)? {
            Some(above) if pin.ino != ino => format!("pinned with {above}"),
            _ => "pinned".to_owned(),
        };
        let until = pin.until.map_or_else(String::new, |until| format!(" until {}", utc(until)));
        Ok(format!("{by}{until}: it is fetched, and its copies stay, however seldom it is read"))
    }

    /// What becomes of a clean file that nobody uses.
    fn next_if_unused(&self, rule: &Rule, inode: &Inode) -> Option<String> {
        if inode.attr.kind != FileKind::Regular || inode.state != WriteState::Clean {
            return None;
        }
        let cold = rule.cold_for(inode.attr.size)?;
        let days = cold.idle.as_secs_f64() / DAY;
        let tier = self.tier_name(cold.tier);
        let idle = if days < 1.0 { format!("{} s", cold.idle.as_secs()) } else { format!("{days:.0} days") };
        Some(if inode.attr.nlink > 1 {
            format!("stays at home though nobody uses it: it has {} names", inode.attr.nlink)
        } else {
            format!("goes to {tier} when nobody has used it for {idle}")
        })
    }

    fn next_of_hot(&self, rule: &Rule, inode: &Inode, copies: &[CopyFacts]) -> String {
        let Some(hot) = rule.hot.first().and_then(|tier| self.parts.hots.get(tier)) else {
            return "no hot copy: its rule names no tier for them".to_owned();
        };
        let name = hot.tier().name();
        if let Some(copy) = copies.iter().find(|copy| copy.role == word(CopyRole::Hot)) {
            return format!(
                "read from the hot copy on {}, which leaves when others there are worth more",
                copy.tier
            );
        }
        if !rule.sizes.contains(&inode.attr.size) {
            return "no hot copy: its size is outside what its rule copies (min_size, max_size)".to_owned();
        }
        if rule.promote == Promote::Never {
            return "read from home: only `tierfs warm` makes hot copies under this rule".to_owned();
        }
        let (size, space) = (inode.attr.size, hot.space());
        let worth = value(self.parts.heat.rate(inode.attr.ino), size, self.fetch_of(rule));
        match (space.decision(size, worth), rule.promote) {
            (Admission::Room, _) => format!("the next read makes a hot copy on {name}: there is room"),
            (Admission::InPlaceOfOthers, _) | (_, Promote::OnRead) => {
                format!("the next read makes a hot copy on {name}, in place of one that is worth less")
            }
            (Admission::Refused, _) => match space.least().filter(|least| *least > 0.0) {
                Some(least) => format!(
                    "read from home: {name} is full; it saves {:.2} of the waiting that the copy next to leave saves, and takes its place from {CLEARLY_MORE} on",
                    worth / least
                ),
                None => format!("read from home: {name} is full of copies that are opened more often"),
            },
        }
    }
}

fn word(role: CopyRole) -> &'static str {
    match role {
        CopyRole::Home => "home",
        CopyRole::Stage => "stage",
        CopyRole::Hot => "hot",
    }
}
