//! `tierfs mount` without arguments: what is mounted.

use crate::cli::failure::Failure;
use crate::cli::text;
use crate::control::mounts::{self, Mount};
use crate::control::protocol::Phase;
use crate::control::target::Target;
use std::io::{self, Write};

pub(super) fn print() -> Result<(), Failure> {
    let mounts =
        mounts::tierfs().map_err(|error| Failure::failed(format!("/proc/self/mountinfo: {error}")))?;
    let mut out = io::stdout().lock();
    let printed = mounts.iter().try_for_each(|mount| {
        let point = text::printable(&mount.point.display().to_string());
        writeln!(out, "{point}  {}  {}", text::printable(&mount.source), state(mount))
    });
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn state(mount: &Mount) -> String {
    if mount.is_dead() {
        return "dead: its daemon is gone".to_owned();
    }
    let asked = Target::of(&mount.point).and_then(|target| Ok(target.connect()?.hello().ok()));
    match asked {
        Ok(Some(hello)) => {
            let phase = match hello.phase {
                Phase::Starting => "starting",
                Phase::Serving => "serving",
                Phase::Draining => "draining",
            };
            format!("{phase}, pid {}", hello.pid)
        }
        _ => "its daemon can't be asked from here".to_owned(),
    }
}
