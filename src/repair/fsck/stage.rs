//! The catalog's stage against its rows.

use super::{Action, Finding, Report, Scene, What};
use crate::catalog::{PlaceId, Replica, WriteState};
use crate::data::Staged;
use crate::error::{Kind, Result};
use crate::types::{Key, TierId};
use std::collections::HashMap;

/// Rows read at a time.
const PAGE: usize = 5000;

impl Scene<'_> {
    pub(super) fn stage_on(&self, tier: TierId, report: &mut Report<'_>) -> Result<()> {
        let Some(stage) = self.stages.get(&tier) else { return Ok(()) };
        let mut found: HashMap<Vec<u8>, Staged> =
            stage.list()?.into_iter().map(|staged| (staged.name.clone(), staged)).collect();
        let mut after = (PlaceId(0), Vec::new());
        loop {
            let replicas = self.catalog.replicas_on(tier, &after, PAGE)?;
            let Some(last) = replicas.last() else { break };
            after = (last.place, last.name.clone());
            for replica in replicas.iter().filter(|replica| replica.staged) {
                report.checked.keys += 1;
                let staged = found.remove(&replica.name).unwrap_or_default();
                self.known(replica, &staged, report)?;
            }
        }
        let mut unknown: Vec<Staged> = found.into_values().collect();
        unknown.sort_by(|a, b| a.name.cmp(&b.name));
        for staged in unknown {
            self.unknown(tier, stage.key(&staged.name)?, staged, report)?;
        }
        Ok(())
    }

    fn known(&self, replica: &Replica, staged: &Staged, report: &mut Report<'_>) -> Result<()> {
        let inode = match replica.ino.map(|ino| self.catalog.inode(ino)) {
            Some(Err(error)) if error.kind() != Kind::NotFound => return Err(error),
            Some(Ok(inode)) if inode.attr.nlink > 0 => inode,
            // Told among what was deleted while it was open.
            _ => return Ok(()),
        };
        let Some(object) = &staged.object else {
            let begun = inode.state == WriteState::Writing && staged.sidecar.is_none();
            if staged.copy || begun {
                let finding =
                    self.about(What::Unfinished, replica, "an open for writing was not finished")?;
                report.find(&finding, Some(Action::Recover));
                return Ok(());
            }
            if inode.state == WriteState::Clean {
                let finding =
                    self.about(What::Litter, replica, "a row speaks of bytes that are at home only")?;
                report.find(&finding, Some(Action::GiveUp(replica.clone())));
                return Ok(());
            }
            let finding =
                self.about(What::Lost, replica, format!("its {} staged bytes are gone", inode.attr.size))?;
            let decide = Some("write it again, or delete it; until then reads fail");
            report.find(&Finding { decide, ..finding }, None);
            return Ok(());
        };
        if replica.is_partial() && !staged.map {
            let text =
                "it is partly staged, and nobody can say any more which of its bytes count: its map is gone";
            let finding = self.about(What::Lost, replica, text)?;
            let decide = Some("write it again, or delete it; until then reads fail");
            report.find(&Finding { decide, ..finding }, None);
            return Ok(());
        }
        let newest = replica.generation == inode.generation;
        if newest && inode.state == WriteState::Closed && object.size != inode.attr.size {
            let text = format!("{} bytes are staged, {} were closed", object.size, inode.attr.size);
            let finding = self.about(What::Size, replica, text)?;
            let decide = Some("somebody else wrote to the stage: look at the file, and write it again");
            report.find(&Finding { decide, ..finding }, None);
        }
        Ok(())
    }

    fn unknown(&self, tier: TierId, key: Key, staged: Staged, report: &mut Report<'_>) -> Result<()> {
        let path = staged.sidecar.as_ref().map(|sidecar| sidecar.path.clone()).filter(|path| !path.is_root());
        let about = |what, detail: &str| Finding {
            path: path.clone(),
            key: Some(key.clone()),
            ..self.finding(what, tier, detail)
        };
        if staged.object.is_none() {
            report.find(
                &about(What::Litter, "a copy or a description without its file"),
                Some(Action::Recover),
            );
            return Ok(());
        }
        if self.is_at_home(&staged)? {
            report.find(&about(What::Litter, "its content is at home already"), Some(Action::Recover));
            return Ok(());
        }
        let finding = about(What::Orphan, "a staged file that the catalog does not know");
        report.find(&finding, Some(Action::TakeOver(tier, Box::new(staged))));
        Ok(())
    }

    /// As recovery judges it.
    fn is_at_home(&self, staged: &Staged) -> Result<bool> {
        let Some(sidecar) = &staged.sidecar else { return Ok(false) };
        self.catalog.has_at_home(sidecar.ino, sidecar.generation)
    }
}
