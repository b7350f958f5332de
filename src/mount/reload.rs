//! `tierfs reload` and SIGHUP: the config is read again and checked whole; then what may change while mounted is used.

use super::daemon::Live;
use super::placing::Placing;
use super::tiers::{self, Built};
use crate::config::keys::Reload;
use crate::config::{Change, Config, Storage};
use crate::control::protocol::Reloaded;
use crate::error::{Error, Kind, Result};
use std::sync::Arc;

/// Configs of before under whose homes files may lie; beyond that, reloads wait for the moves.
const MOST_FORMER: usize = 8;

impl Live {
    /// Uses the config as it is now. All or nothing: what is wrong with it changes nothing.
    ///
    /// # Errors
    /// [`Kind::Invalid`] with all that is wrong, or with what needs a new mount before the rules can be used.
    pub(super) fn reload_config(&self) -> Result<Reloaded> {
        let busy = || Error::new(Kind::Busy, "the config is being reloaded already");
        let mut config = self.config.try_lock().ok_or_else(busy)?;
        let invalid = |problems: crate::config::Problems| Error::new(Kind::Invalid, problems.to_string());
        let (newer, warnings) = Config::load(&self.config_path).map_err(invalid)?;
        newer.check_mountpoint(&self.mountpoint).map_err(invalid)?;
        self.must_be_built(&newer)?;
        let at_mount = self.mounted_with.changes(&newer);
        let changed = config.changes(&newer);
        let placing = Placing::of(&newer, &self.assembled.built, &self.assembled.catalog)?;
        if placing.moves && placing.former > MOST_FORMER {
            let text = "files still move to the homes that earlier changes of the config gave them; nothing has changed, try again later";
            return Err(Error::new(Kind::Busy, text));
        }
        self.assembled.mover.change_rules(Arc::clone(&placing.rules), &placing.notes)?;
        self.assembled.vfs.set_rules(placing.rules);
        self.use_limits(&newer);
        // What lies at a new home was nobody's before.
        self.assembled.vfs.look_again();
        *config = Arc::new(newer);
        let reloaded = Reloaded {
            changed: names(changed, Reload::WhileMounted),
            at_mount: names(at_mount, Reload::AtMount),
            moves: placing.moves,
            warnings: warnings.iter().map(ToString::to_string).collect(),
        };
        tracing::info!(?reloaded, "the config was reloaded");
        Ok(reloaded)
    }

    /// What the rules use must be there since the mount: tiers, and stages and hot copies on them.
    fn must_be_built(&self, newer: &Config) -> Result<()> {
        let again = |text: String| {
            Error::new(
                Kind::Invalid,
                format!("{text}; nothing has changed: unmount and mount again to use this config"),
            )
        };
        for one in &self.assembled.built {
            if newer.tier(&one.row.name).is_none() {
                return Err(again(format!("tier {} is not in the config any more", one.row.name)));
            }
        }
        for tier in &newer.tiers {
            let name = &tier.name;
            let Some(one) = self.assembled.built.iter().find(|one| one.row.name == *name) else {
                return Err(again(format!("tier {name} is new")));
            };
            let elsewhere = || again(format!("tier {name} is somewhere else by the config"));
            if self.mounted_with.tier(name).is_some_and(|known| !same_place(&known.storage, &tier.storage)) {
                return Err(elsewhere());
            }
            self.may_be_used(newer, one).map_err(again)?;
        }
        Ok(())
    }

    fn may_be_used(&self, newer: &Config, one: &Built) -> std::result::Result<(), String> {
        let (id, name) = (one.row.id, &one.row.name);
        let stages = newer.rules.iter().any(|rule| rule.stages_on(name));
        let hot = newer.rules.iter().any(|rule| rule.hot.contains(name));
        let (stage_is_there, hot_is_there) =
            (self.assembled.stages.contains_key(&id), self.assembled.hots.contains_key(&id));
        if stages && !stage_is_there || hot && !hot_is_there {
            return Err(format!("tier {name} could not be written when this was mounted"));
        }
        tiers::must_take_writes(newer, one).map_err(|error| format!("tier {name}: {error}"))
    }

    fn use_limits(&self, newer: &Config) {
        *self.drain_timeout.lock() = newer.mount.drain_timeout;
        for one in &self.assembled.built {
            let Some(tier) = newer.tier(&one.row.name) else { continue };
            if let Some(pace) = one.tier.pace() {
                pace.set_limits(tier.move_max, tier.move_calls_max);
            }
            match (&tier.storage, &one.upload_rate) {
                (Storage::Blob(blob), Some(rate)) => rate.set(blob.upload_max),
                (Storage::Directory(directory), _) => {
                    let (high_water, low_water) = tiers::marks(directory);
                    self.assembled.mover.set_marks(one.row.id, high_water, low_water);
                }
                _ => {}
            }
        }
    }

    /// Once all files have left the homes of before, nobody looks for them there.
    pub(super) async fn follow_settled_rules(self: Arc<Self>) {
        let mut settled = self.assembled.mover.settled_rules();
        while settled.changed().await.is_ok() {
            let _alone = self.config.lock();
            self.assembled.vfs.set_rules(self.assembled.mover.rules());
        }
    }
}

fn names(changes: Vec<Change>, when: Reload) -> Vec<String> {
    changes.into_iter().filter(|change| change.reload == when).map(|change| change.what).collect()
}

/// Whether it is the very tier that was mounted.
fn same_place(old: &Storage, new: &Storage) -> bool {
    match (old, new) {
        (Storage::Directory(old), Storage::Directory(new)) => old.path == new.path,
        (Storage::Blob(old), Storage::Blob(new)) => old.location == new.location,
        _ => false,
    }
}
