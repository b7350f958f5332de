//! `tierfs check`: one line a finding, what is wrong with what to do about it. Changes nothing.

mod access;
mod finding;
mod machine;
mod options;
mod stages;
mod tiers;

use crate::cli::args::CheckArgs;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::mount::preflight::{self, Entries};
use crate::cli::mount::roots;
use crate::cli::text::{self, Style};
use crate::config::{Catalog, Config};
use crate::control::client::Client;
use crate::control::mounts;
use crate::host::{self, FileSystem};
use finding::{Finding, Level};
use std::io::{self, Write};
use std::path::Path;

/// Checks a config, this machine and every tier.
///
/// # Errors
/// [`Failure`] without a message if a finding was one: it has been printed.
pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let config = match Config::load(&args.config) {
        Ok((config, warnings)) => {
            print(
                &warnings
                    .iter()
                    .map(|warning| Finding::warn("config", warning.to_string()))
                    .collect::<Vec<_>>(),
            )?;
            config
        }
        Err(problems) => return Err(Failure::usage(problems.to_string())),
    };
    let mounts = mounts::all().unwrap_or_default();
    let mut found = on_this_machine(&config, args.mountpoint.as_deref());
    found.extend(machine::look(&config, &mounts));
    print(&found)?;
    let on_tiers = tiers::reach(&config, &args.config, &mut |finding| print(std::slice::from_ref(&finding)))?;
    if on_tiers.max(worst(&found)) < Level::Fail {
        return Ok(());
    }
    Err(Failure { exit: Exit::Failed, message: String::new() })
}

fn print(findings: &[Finding]) -> Result<(), Failure> {
    let style = Style::for_stdout();
    let mut out = io::stdout().lock();
    let printed = findings.iter().try_for_each(|finding| writeln!(out, "{}", finding.line(style)));
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

fn on_this_machine(config: &Config, mountpoint: Option<&Path>) -> Vec<Finding> {
    let counted = |count: usize, what| text::counted(count as u64, what);
    let counts = format!("{}, {}", counted(config.tiers.len(), "tier"), counted(config.rules.len(), "rule"));
    let mut found = vec![Finding::ok("config", counts), kernel(), fuse()];
    found.extend(passthrough(config));
    found.extend(mountpoint.map(|point| mount_point(config, point)));
    found.push(catalog(&config.mount.catalog));
    found.push(control(&config.mount.control));
    found
}

fn kernel() -> Finding {
    match host::kernel() {
        Some(version) => Finding::ok("kernel", format!("Linux {version}")),
        None => Finding::warn("kernel", "does not say its version"),
    }
}

fn fuse() -> Finding {
    match preflight::fuse() {
        Ok(()) => Finding::ok("fuse", "/dev/fuse opens"),
        Err(failure) => Finding::fail("fuse", failure.message),
    }
}

fn passthrough(config: &Config) -> Vec<Finding> {
    let directories = config.tiers.iter().filter_map(|tier| tier.directory());
    let obstacles = host::passthrough_obstacles(directories.map(|directory| directory.path.as_path()));
    if obstacles.is_empty() {
        return vec![Finding::ok("passthrough", "possible: resident files at native speed")];
    }
    let lines = obstacles.into_iter().map(|obstacle| {
        Finding::warn(
            "passthrough",
            format!("not possible: {}; to have it, {}", obstacle.why, obstacle.remedy),
        )
    });
    lines.collect()
}

fn mount_point(config: &Config, point: &Path) -> Finding {
    const WHAT: &str = "mount point";
    if mounts::is_dead(point) {
        return Finding::warn(WHAT, "a dead earlier mount is on it; `tierfs mount` takes it away");
    }
    let checked = preflight::mount_point(point, Entries::Refused, &mut |_| {})
        .and_then(|real| preflight::apart(&real, &roots(config)));
    match checked {
        Ok(()) => Finding::ok(WHAT, format!("{} is an empty directory", point.display())),
        Err(failure) => Finding::fail(WHAT, failure.message),
    }
}

fn catalog(catalog: &Catalog) -> Finding {
    const WHAT: &str = "catalog";
    let Catalog::Sqlite(path) = catalog else {
        return Finding::warn(WHAT, "in memory: forgotten with the mount, and dirty data then needs `adopt`");
    };
    let shown = path.display();
    let Some(existing) = path.ancestors().find(|above| above.exists()) else {
        return Finding::fail(WHAT, format!("{shown}: no directory above it exists"));
    };
    match host::file_system(existing) {
        Ok(FileSystem::Tmpfs) => {
            Finding::warn(WHAT, format!("{shown} is on tmpfs, gone at reboot: put it on a local disk"))
        }
        Ok(system @ (FileSystem::Nfs | FileSystem::Smb | FileSystem::Lustre | FileSystem::Fuse)) => {
            Finding::warn(
                WHAT,
                format!("{shown} is on {system}, slow and unsafe for SQLite: put it on a local disk"),
            )
        }
        Ok(FileSystem::Overlay) => Finding::warn(
            WHAT,
            format!("{shown} is in the container's own layer and goes with it: put it on a volume"),
        ),
        Ok(system @ FileSystem::Other(_)) => Finding::ok(WHAT, format!("{shown} on {system}")),
        Err(error) => Finding::fail(WHAT, format!("{shown}: {error}")),
    }
}

fn control(socket: &Path) -> Finding {
    const WHAT: &str = "control";
    let hello = Client::connect(socket).ok().and_then(|mut client| client.hello().ok());
    match hello {
        Some(hello) => Finding::ok(
            WHAT,
            format!("this config is mounted now, on {} (pid {})", hello.mountpoint, hello.pid),
        ),
        None => Finding::ok(WHAT, format!("{}, nobody there now", socket.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_in_a_bad_place_is_warned_of() {
        assert_eq!(catalog(&Catalog::Memory).level, Level::Warn);
        assert_ne!(catalog(&Catalog::Sqlite("/var/lib/tierfs/none.db".into())).level, Level::Fail);
        if host::file_system(Path::new("/dev/shm")).is_ok_and(|found| found == FileSystem::Tmpfs) {
            assert_eq!(catalog(&Catalog::Sqlite("/dev/shm/not/yet/x.db".into())).level, Level::Warn);
        }
    }

    #[test]
    fn the_worst_finding_counts() {
        assert_eq!(
            worst(&[Finding::ok("a", ""), Finding::fail("b", ""), Finding::warn("c", "")]),
            Level::Fail
        );
        assert_eq!(worst(&[]), Level::Ok);
    }
}
