//! Who owns a stage: which daemon on which machine, and whether it may still be alive.

use crate::clock::Clock;
use crate::error::{Error, Kind, Result};
use crate::types::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs;

/// The owner of a stage directory, as its `owner` file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Identity of the machine's installation.
    pub machine_id: String,
    /// Identity of its running kernel.
    pub boot_id: String,
    /// Which pid namespace `pid` belongs to: in a container it says nothing outside.
    pub pid_namespace: String,
    /// The daemon.
    pub pid: u32,
    /// When that process began, in clock ticks since boot: pids are used again.
    pub started: u64,
    /// Host name, for people.
    pub host: String,
    /// When the stage was taken.
    pub since: Timestamp,
}

/// What can be said of another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It lives, or lives for all we know.
    Alive,
    /// On another machine: nobody here can tell.
    OtherMachine,
    /// Its process or its boot is over.
    Gone,
    /// Same boot, but a pid namespace we can't look into: only the lock tells.
    Hidden,
}

/// Names the time since this machine was started.
///
/// # Errors
/// If /proc can't be read.
pub(super) fn boot_id() -> Result<String> {
    read("/proc/sys/kernel/random/boot_id")
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// If /proc can't be read.
    pub fn this_process(clock: &dyn Clock) -> Result<Self> {
        let boot_id = boot_id()?;
        let pid = std::process::id();
        let started = start_time(pid)?
            .ok_or_else(|| Error::new(Kind::NotFound, "this process is not in /proc: mount proc"))?;
        Ok(Self {
            // Minimal containers have none: then every boot is a machine of its own.
            machine_id: read("/etc/machine-id")
                .ok()
                .filter(|id| !id.is_empty())
                .unwrap_or_else(|| boot_id.clone()),
            boot_id,
            pid_namespace: pid_namespace()?,
            pid,
            started,
            host: read("/proc/sys/kernel/hostname")?,
            since: clock.wall(),
        })
    }

    /// What `self` can say of `other`.
    pub(super) fn standing_of(&self, other: &Self) -> Result<Standing> {
        if self.machine_id != other.machine_id {
            return Ok(Standing::OtherMachine);
        }
        if self.boot_id != other.boot_id {
            return Ok(Standing::Gone);
        }
        if self.pid_namespace != other.pid_namespace {
            return Ok(Standing::Hidden);
        }
        let same = (other.pid, other.started) == (self.pid, self.started);
        let alive = !same && start_time(other.pid)? == Some(other.started);
        Ok(if alive { Standing::Alive } else { Standing::Gone })
    }
}

/// Start time of a living process; `None` if there is none or it is a zombie.
fn start_time(pid: u32) -> Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // The command in parentheses may hold anything; the fields begin after the last ')'.
    let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let state = fields.next();
    let started = fields.nth(18).and_then(|field| field.parse().ok());
    Ok(started.filter(|_| !matches!(state, Some("Z" | "X"))))
}

fn pid_namespace() -> Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

fn read(path: &str) -> Result<String> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(Error::from(error).context(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn a_living_process_is_alive_and_a_dead_one_is_gone() {
        let me = Owner::this_process(&SystemClock::default()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let other =
            Owner { pid: child.id(), started: start_time(child.id()).unwrap().unwrap(), ..me.clone() };
        assert_eq!(me.standing_of(&other).unwrap(), Standing::Alive);
        let reused = Owner { started: other.started - 1, ..other.clone() };
        assert_eq!(me.standing_of(&reused).unwrap(), Standing::Gone);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(me.standing_of(&other).unwrap(), Standing::Gone);
    }

    #[test]
    fn machines_boots_and_namespaces_are_told_apart() {
        let me = Owner::this_process(&SystemClock::default()).unwrap();
        let other = |change: fn(&mut Owner)| {
            let mut other = me.clone();
            change(&mut other);
            me.standing_of(&other).unwrap()
        };
        assert_eq!(other(|owner| owner.machine_id.push('x')), Standing::OtherMachine);
        assert_eq!(other(|owner| owner.boot_id.push('x')), Standing::Gone);
        assert_eq!(other(|owner| owner.pid_namespace.push('x')), Standing::Hidden);
        assert_eq!(other(|_| {}), Standing::Gone, "a stage this process gave back");
    }
}
