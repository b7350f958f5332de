//! What the mover would do now, as the commands see it.

use super::daemon::Live;
use crate::control::protocol::{ColdPlan, HotPlan, Leaving, OverflowPlan, Plan, Unused, WirePath};
use crate::error::Result;
use crate::mover;
use crate::types::Key;

/// Seconds of a day: rates are told as opens a day.
const DAY: f64 = 86_400.0;

impl Live {
    pub(super) async fn planned(&self) -> Result<Plan> {
        let hot = self.assembled.mover.plan().await?;
        let status = self.assembled.mover.status()?;
        let hot = hot.into_iter().map(|plan| self.hot_plan(plan)).collect::<Result<_>>()?;
        let cold = self.cold_plan(self.assembled.mover.plan_cold().await?);
        let mover::OverflowPlan { full, files, bytes } = self.assembled.mover.plan_overflow().await?;
        let full = full.into_iter().map(|tier| self.assembled.name_of(tier)).collect();
        let overflow = OverflowPlan { full, files, bytes };
        Ok(Plan { steps: status.queued, bytes: status.dirty_bytes, hot, cold, overflow })
    }

    fn cold_plan(&self, plan: mover::ColdPlan) -> ColdPlan {
        let first = plan.first.into_iter().map(|leaver| Unused {
            path: WirePath(leaver.path.as_bytes().to_vec()),
            bytes: leaver.size,
            tier: self.assembled.name_of(leaver.tier),
            idle_s: leaver.idle.as_secs(),
        });
        ColdPlan { files: plan.files, bytes: plan.bytes, returning: plan.returning, first: first.collect() }
    }

    fn hot_plan(&self, plan: mover::HotPlan) -> Result<HotPlan> {
        let leaving = plan.leaving.into_iter().map(|copy| self.leaving(copy)).collect::<Result<_>>()?;
        let mover::HotPlan { tier, all, left, copies, too_much, .. } = plan;
        Ok(HotPlan { tier, capacity: all, left, copies, too_much, leaving })
    }

    fn leaving(&self, copy: mover::Leaving) -> Result<Leaving> {
        let wire = |key: &Key| WirePath(key.as_bytes().to_vec());
        // A file that was removed has no path, and its copy leaves first.
        let path = copy.ino.map(|ino| self.assembled.catalog.path(ino)).transpose()?.flatten();
        Ok(Leaving {
            path: path.as_ref().map(wire),
            key: wire(&copy.key),
            bytes: copy.size,
            per_day: copy.rate * DAY,
        })
    }
}
