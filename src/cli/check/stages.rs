//! Stages that other mounts have left on the tiers, each with the command that brings its files home.

use super::finding::Finding;
use crate::cli::text;
use crate::data::{Life, Owner};
use crate::mount::ForeignStage;
use crate::policy::aside::utc;
use std::path::Path;

/// Stages told of one tier; a scratch that hundreds of machines share has as many.
const TOLD: usize = 20;

/// A line a stage.
pub(super) fn told(tier: &str, stages: &[ForeignStage], config: &Path) -> Vec<Finding> {
    let mut found: Vec<Finding> = stages.iter().take(TOLD).map(|stage| one(tier, stage, config)).collect();
    let more = stages.len().saturating_sub(TOLD);
    if more > 0 {
        found.push(Finding::ok(tier, format!("and {} more like these", text::counted(more as u64, "stage"))));
    }
    found
}

fn one(tier: &str, stage: &ForeignStage, config: &Path) -> Finding {
    let path = stage.path.display();
    let files = text::counted(stage.files, "file");
    let head = format!(
        "stage {path}: {files}, {} not at home, left by {}",
        text::bytes(stage.bytes),
        who(&stage.owner)
    );
    match stage.life {
        Life::Living => Finding::ok(tier, format!("{head}, which lives and goes on with them")),
        Life::Over => Finding::warn(tier, format!("{head}, which is dead; {}", remedy(stage, config, ""))),
        Life::Elsewhere => Finding::ok(
            tier,
            format!(
                "{head}, which may be alive there; if that machine is gone for good: {}",
                remedy(stage, config, " --owner-is-gone")
            ),
        ),
    }
}

fn who(owner: &Option<Owner>) -> String {
    owner.as_ref().map_or_else(
        || "nobody known".to_owned(),
        |owner| format!("pid {} on {} since {}", owner.pid, owner.host, utc(owner.since)),
    )
}

fn remedy(stage: &ForeignStage, config: &Path, option: &str) -> String {
    let (config, path) = (shown(config), shown(&stage.path));
    if stage.is_former {
        return format!("`tierfs rebuild --force {config}` takes them over");
    }
    format!(
        "`tierfs adopt {path} --config {config}{option}` takes them over, `tierfs rescue {path} DEST{option}` copies them out"
    )
}

fn shown(path: &Path) -> String {
    text::shell(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::text::Style;
    use crate::types::Timestamp;

    fn stage(life: Life) -> ForeignStage {
        let owner = Owner {
            machine_id: "m".into(),
            boot_id: "b".into(),
            pid_namespace: "n".into(),
            pid: 7,
            started: 1,
            host: "gpu-7".into(),
            since: Timestamp(0),
        };
        ForeignStage {
            path: "/s/.tierfs/stage/0a".into(),
            files: 20,
            bytes: 1 << 20,
            owner: Some(owner),
            life,
            is_former: false,
        }
    }

    fn line(stage: &ForeignStage) -> String {
        one("tier s", stage, Path::new("/etc/a b.toml")).line(Style::plain())
    }

    #[test]
    fn a_dead_one_names_both_commands() {
        assert_eq!(
            line(&stage(Life::Over)),
            "warn  tier s: stage /s/.tierfs/stage/0a: 20 files, 1.0 MiB not at home, left by pid 7 on gpu-7 since \
             19700101T000000Z, which is dead; `tierfs adopt /s/.tierfs/stage/0a --config '/etc/a b.toml'` takes them \
             over, `tierfs rescue /s/.tierfs/stage/0a DEST` copies them out"
        );
        let former = ForeignStage { is_former: true, owner: None, ..stage(Life::Over) };
        assert!(line(&former).ends_with(
            "left by nobody known, which is dead; `tierfs rebuild --force '/etc/a b.toml'` takes them over"
        ));
    }

    #[test]
    fn one_that_may_live_is_no_alarm() {
        let said = line(&stage(Life::Elsewhere));
        assert!(said.starts_with("ok    ") && said.contains("DEST --owner-is-gone"), "{said}");
        let said = line(&stage(Life::Living));
        assert!(said.starts_with("ok    ") && !said.contains("adopt"), "{said}");
    }

    #[test]
    fn a_crowd_is_cut_short() {
        let found = told("tier s", &vec![stage(Life::Elsewhere); 25], Path::new("/c"));
        assert_eq!(found.len(), 21);
        assert_eq!(found[20].line(Style::plain()), "ok    tier s: and 5 stages more like these");
    }
}
