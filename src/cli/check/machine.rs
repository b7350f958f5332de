//! What this process, its limits and its disks allow.

use super::finding::Finding;
use crate::config::{Catalog, Config, Storage};
use crate::control::mounts::{self, Mount};
use crate::host::{self, FileSystem};
use std::path::Path;

/// Fewer open files are soon too few: each open file of a program is one of the daemon's.
const OPEN_FILES: u64 = 65_536;

/// Azure leaves this file on the disk of a VM that goes with the VM.
const WARNING_FILE: &str = "DATALOSS_WARNING_README.txt";

pub(super) fn look(config: &Config, mounts: &[Mount]) -> Vec<Finding> {
    let mut found = vec![privileges(), open_files(host::process().open_files_max)];
    found.extend(others());
    found.extend(metrics(config));
    found.extend(disks(config, mounts));
    found
}

fn privileges() -> Finding {
    const WHAT: &str = "privileges";
    match (host::has_sys_admin(), host::in_user_namespace()) {
        (true, false) => Finding::ok(WHAT, "CAP_SYS_ADMIN"),
        (true, true) => Finding::warn(
            WHAT,
            "CAP_SYS_ADMIN in a user namespace alone: mounts are seen in it and by nobody else",
        ),
        (false, _) => Finding::warn(WHAT, "no CAP_SYS_ADMIN: mounts through fusermount3, in ordinary mode"),
    }
}

fn open_files(most: Option<u64>) -> Finding {
    const WHAT: &str = "open files";
    match most {
        Some(most) if most < OPEN_FILES => Finding::warn(
            WHAT,
            format!(
                "at most {most}, and every open file of a program is one: LimitNOFILE=1048576 (container: --ulimit nofile=1048576)"
            ),
        ),
        Some(most) => Finding::ok(WHAT, format!("up to {most}")),
        None => Finding::ok(WHAT, "no limit"),
    }
}

/// Users who mount may let others in only if the machine allows it.
fn others() -> Option<Finding> {
    let is_root = rustix::process::geteuid().is_root();
    let allowed = std::fs::read_to_string("/etc/fuse.conf")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"));
    (!is_root && !allowed).then(|| {
        Finding::warn(
            "allow_other",
            "not for this user: write user_allow_other into /etc/fuse.conf, or mount as root",
        )
    })
}

fn metrics(config: &Config) -> Option<Finding> {
    let address = config.mount.metrics?;
    Some(if address.ip().is_loopback() {
        Finding::ok("metrics", format!("on {address}, for this machine alone"))
    } else {
        Finding::warn(
            "metrics",
            format!(
                "on {address}, for everybody who reaches it: let a firewall or network policy choose whom"
            ),
        )
    })
}

/// Disks that go with the VM under what must outlive it.
fn disks(config: &Config, mounts: &[Mount]) -> Vec<Finding> {
    let mut kept = Vec::new();
    if let Catalog::Sqlite(path) = &config.mount.catalog {
        kept.push(("catalog".to_owned(), path.clone(), "names and dirty rows go with it"));
    }
    for tier in &config.tiers {
        let Storage::Directory(directory) = &tier.storage else { continue };
        if config.rules.iter().any(|rule| rule.stages_on(&tier.name) || rule.keeps_on(&tier.name)) {
            kept.push((
                format!("tier {}", tier.name),
                directory.path.clone(),
                "what is homed or dirty there goes with it",
            ));
        }
    }
    let told = kept.into_iter().filter_map(|(what, path, lost)| {
        let why = temporary(&path, mounts)?;
        // The catalog has its own words for these.
        (what != "catalog" || why == TEMPORARY)
            .then(|| Finding::warn(what, format!("{}: {why}; {lost}", path.display())))
    });
    told.collect()
}

const TEMPORARY: &str = "on the VM's temporary disk, which is emptied when the VM moves or is deallocated";

fn temporary(path: &Path, mounts: &[Mount]) -> Option<&'static str> {
    let existing = path.ancestors().find(|above| above.exists())?;
    match host::file_system(existing) {
        Ok(FileSystem::Tmpfs) => return Some("on tmpfs, which is gone at reboot"),
        Ok(FileSystem::Overlay) => return Some("in the container's own layer, which goes with it"),
        _ => {}
    }
    let real = existing.canonicalize().ok()?;
    let mount = mounts::holding(mounts, &real)?;
    mount.point.join(WARNING_FILE).exists().then_some(TEMPORARY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Level;

    #[test]
    fn too_few_open_files_are_warned_of() {
        assert_eq!(open_files(Some(1024)).level, Level::Warn);
        assert_eq!((open_files(Some(1 << 20)).level, open_files(None).level), (Level::Ok, Level::Ok));
    }

    #[test]
    fn the_temporary_disk_of_a_vm_is_known_by_its_warning() {
        let dir = tempfile::TempDir::new().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let info = format!("40 22 8:17 / {} rw - ext4 /dev/sdb1 rw\n", root.display());
        let mounts = mounts::parse(info.as_bytes());
        let below = root.join("tierfs/not/yet");
        // Where tests run in memory that is said first.
        let before = temporary(&below, &mounts);
        std::fs::write(root.join(WARNING_FILE), "").unwrap();
        assert_eq!(temporary(&below, &mounts), before.or(Some(TEMPORARY)));
        assert_eq!(temporary(Path::new("/proc/self"), &mounts), None);
    }
}
