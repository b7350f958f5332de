//! Reaching every tier, and what those that answer can't hold.

use super::finding::{Finding, Level};
use super::{access, options, stages};
use crate::cli::failure::Failure;
use crate::cli::text;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, DirectoryConfig, Storage, TierConfig, TierKind};
use crate::control::mounts;
use crate::error::{Error, Kind};
use crate::mount::{self, OwnIds};
use crate::tier::{Capabilities, Tier};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nobody waits longer for a check, whatever the tier's deadline.
const PATIENCE: Duration = Duration::from_secs(15);

/// Asks all tiers at once, hands over what is found in the order of the config, and answers the worst.
pub(super) fn reach(
    config: &Config,
    file: &Path,
    each: &mut dyn FnMut(Finding) -> Result<(), Failure>,
) -> Result<Level, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("check: {error}")))?;
    // Which are its own is not known then, and an error of the catalog is told elsewhere.
    let own = Arc::new(OwnIds::of(config).unwrap_or_default());
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let ask = |tier: TierConfig| runtime.spawn(ask(tier, own.clone(), file.clone()));
    let asked: Vec<_> = config.tiers.iter().cloned().map(ask).collect();
    let mut worst = Level::Ok;
    for (tier, asked) in config.tiers.iter().zip(asked) {
        let findings = match runtime.block_on(asked) {
            Ok(findings) => findings,
            Err(error) => vec![Finding::fail(what(tier), format!("the check broke: {error}"))],
        };
        for finding in findings {
            worst = worst.max(finding.level);
            each(finding)?;
        }
    }
    // A tier that hangs must not keep the command.
    runtime.shutdown_background();
    Ok(worst)
}

fn what(tier: &TierConfig) -> String {
    format!("tier {}", tier.name)
}

async fn ask(config: TierConfig, own: Arc<OwnIds>, file: PathBuf) -> Vec<Finding> {
    let patience = PATIENCE.min(config.deadline);
    let started = Instant::now();
    let answered = tokio::time::timeout(patience, answer(&config)).await;
    match answered {
        Ok(Ok((tier, usage))) => {
            let took = text::elapsed(started.elapsed());
            let head = format!("{} at {} answered in {took}{usage}", config.kind.word(), tier.location());
            let mut findings = vec![Finding::ok(what(&config), head)];
            findings.extend(weaknesses(&what(&config), config.kind, &tier.capabilities()));
            findings.extend(tried(&config, tier.clone(), patience).await);
            findings.extend(left_there(&config, tier, own, &file, patience).await);
            findings
        }
        Ok(Err(error)) => vec![Finding::fail(what(&config), format!("{error}{}", remedy(&config, &error)))],
        Err(_elapsed) => vec![Finding::fail(
            what(&config),
            format!("no answer in {} s: network, firewall, or a hung mount", patience.as_secs()),
        )],
    }
}

/// How it is mounted, what it lets us do, and its clock.
async fn tried(config: &TierConfig, tier: Arc<dyn Tier>, patience: Duration) -> Vec<Finding> {
    let what = what(config);
    match &config.storage {
        Storage::Blob(blob) => {
            let now = SystemClock::default().wall();
            let all = async {
                let mut found = access::blob(&what, tier.as_ref()).await;
                found.extend(access::clock(&what, blob, now).await);
                found
            };
            let late = || vec![Finding::warn(&*what, "took too long to be tried: throttled, or far away")];
            tokio::time::timeout(patience, all).await.unwrap_or_else(|_elapsed| late())
        }
        Storage::Directory(directory) => {
            let (directory, writable) = (directory.clone(), tier.capabilities().writable);
            let look = tokio::task::spawn_blocking(move || on_directory(&what, &directory, writable));
            tokio::time::timeout(patience, look).await.ok().and_then(Result::ok).unwrap_or_default()
        }
    }
}

fn on_directory(what: &str, directory: &DirectoryConfig, writable: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let mounts = mounts::all().unwrap_or_default();
    let real = directory.path.canonicalize().unwrap_or_else(|_gone| directory.path.clone());
    if let Some(mount) = mounts::holding(&mounts, &real) {
        let file = format!("/sys/class/bdi/{}/read_ahead_kb", mount.device);
        let kib = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        found.extend(options::told(what, mount, kib));
    }
    if writable {
        found.extend(access::squash(what, directory));
    }
    found
}

/// What other mounts have left on its stages.
async fn left_there(
    config: &TierConfig,
    tier: Arc<dyn Tier>,
    own: Arc<OwnIds>,
    file: &Path,
    patience: Duration,
) -> Vec<Finding> {
    let Some(directory) = config.directory() else { return Vec::new() };
    let root = directory.path.clone();
    let look = tokio::task::spawn_blocking(move || mount::foreign_stages(&root, &tier, &own));
    match tokio::time::timeout(patience, look).await {
        Ok(Ok(Ok(found))) => stages::told(&what(config), &found, file),
        Ok(Ok(Err(error))) => {
            vec![Finding::warn(what(config), format!("its stages can't be looked at: {error}"))]
        }
        _ => vec![Finding::warn(what(config), "its stages are too many to be looked through now")],
    }
}

async fn answer(config: &TierConfig) -> Result<(Arc<dyn Tier>, String), Error> {
    let tier = mount::open_tier(config).await?;
    tier.probe().await?;
    let usage = match tier.usage().await {
        Ok(usage) if usage.total > 0 => {
            format!(", {} of {} free", text::bytes(usage.free), text::bytes(usage.total))
        }
        _ => String::new(),
    };
    Ok((tier, usage))
}

fn remedy(config: &TierConfig, error: &Error) -> &'static str {
    match (error.kind(), config.kind.is_directory()) {
        (Kind::Denied, false) => {
            "; give this identity the role Storage Blob Data Contributor, or check `auth` and the key or SAS"
        }
        (Kind::Denied | Kind::NotPermitted, true) => "; run as its owner or as root, or let this user in",
        (Kind::NotFound, false) => "; create the container, or correct `url`",
        (Kind::NotFound, true) => "; create it or mount what belongs there, or correct `path`",
        (Kind::Unavailable | Kind::TimedOut, _) => "; check network, DNS, firewall and private endpoint",
        (Kind::Absent, _) => "; mount what belongs there",
        _ => "",
    }
}

/// What the tier can't hold, and which promise is weaker for it.
fn weaknesses(what: &str, kind: TierKind, can: &Capabilities) -> Vec<Finding> {
    let mut found = Vec::new();
    if !can.writable {
        found.push(Finding::warn(what, "takes no writes: read-only, or not for this identity"));
    }
    // Of a file system nobody expects it.
    if !can.conditional && !kind.is_directory() {
        found.push(Finding::warn(
            what,
            "checks no conditions: when another program writes the same name at the same moment, the later one wins",
        ));
    }
    if !can.case_sensitive {
        found.push(Finding::warn(
            what,
            "folds case: names that differ only in case are stored under escaped names",
        ));
    }
    if !can.any_name && kind.is_directory() {
        found.push(Finding::ok(what, "refuses some names: they are stored under escaped names".to_owned()));
    }
    let missing = missing(can);
    if !missing.is_empty() {
        found.push(Finding::ok(
            what,
            format!("can't hold {}: the catalog supplies them, and they go with it", missing.join(", ")),
        ));
    }
    found
}

fn missing(can: &Capabilities) -> Vec<&'static str> {
    [
        (can.owner_and_mode, "owner and mode"),
        (can.mtime_grain.is_some(), "mtimes"),
        (can.symlinks, "symlinks"),
        (can.hard_links, "hard links"),
        (can.xattrs, "xattrs"),
        (can.special_files, "special files"),
        (can.empty_directories, "empty directories"),
    ]
    .into_iter()
    .filter_map(|(held, name)| (!held).then_some(name))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Capabilities = Capabilities {
        conditional: true,
        owner_and_mode: true,
        mtime_grain: Some(Duration::from_nanos(1)),
        symlinks: true,
        hard_links: true,
        xattrs: true,
        special_files: true,
        case_sensitive: true,
        any_name: true,
        empty_directories: true,
        writable: true,
        networked: false,
    };

    #[test]
    fn a_full_tier_has_no_weakness() {
        assert_eq!(weaknesses("tier a", TierKind::Local, &FULL), []);
    }

    #[test]
    fn each_weakness_names_its_price() {
        let poor = Capabilities { conditional: false, xattrs: false, hard_links: false, ..FULL };
        let found = weaknesses("tier a", TierKind::Blob, &poor);
        assert_eq!(found.len(), 2);
        let lines: Vec<String> =
            found.iter().map(|finding| finding.line(crate::cli::text::Style::plain())).collect();
        assert!(lines[0].starts_with("warn  tier a: checks no conditions"), "{lines:?}");
        assert!(lines[1].contains("can't hold hard links, xattrs"), "{lines:?}");
    }
}
