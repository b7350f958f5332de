//! `mount.tierfs` and `umount.tierfs`, as mount(8) and umount(8) call them: other arguments and exit codes for the same commands.

use super::args::Command;
use super::exit::Exit;
use super::failure::Failure;
use super::utab;
use crate::control::mounts;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// How this program was called.
#[derive(Debug, PartialEq, Eq)]
pub struct Called {
    /// In the form of `tierfs COMMAND …`.
    pub arguments: Vec<OsString>,
    /// By mount(8) or umount(8).
    pub is_helper: bool,
    /// Only as if (`mount -f`).
    pub is_rehearsal: bool,
}

/// Reads the arguments; what mount(8) and umount(8) pass on of their own is translated or left out.
pub fn read(given: impl IntoIterator<Item = OsString>) -> Called {
    let mut given = given.into_iter();
    let program = given.next().unwrap_or_default();
    let name = Path::new(&program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let command = match name {
        "mount.tierfs" | "mount.fuse.tierfs" => "mount",
        "umount.tierfs" | "umount.fuse.tierfs" => "unmount",
        _ => {
            let arguments = std::iter::once(program).chain(given).collect();
            return Called { arguments, is_helper: false, is_rehearsal: false };
        }
    };
    let mut arguments: Vec<OsString> = vec!["tierfs".into(), command.into()];
    let mut is_rehearsal = false;
    while let Some(argument) = given.next() {
        match (argument.to_str(), command) {
            (Some("-t" | "-N"), _) => drop(given.next()),
            // Sloppy, without mtab, verbose; and -r, which comes as the option ro too.
            (Some("-s" | "-n" | "-v" | "-r"), _) => {}
            (Some("-f"), "mount") => is_rehearsal = true,
            (Some("-l" | "-f"), _) => arguments.push("--lazy".into()),
            _ => arguments.push(argument),
        }
    }
    Called { arguments, is_helper: true, is_rehearsal }
}

/// Runs a command that mount(8) or umount(8) asked for, and keeps what those keep of a mount.
///
/// # Errors
/// [`Failure`] with the codes of mount(8).
pub fn run(command: Command, run: impl FnOnce(Command) -> Result<(), Failure>) -> Result<(), Failure> {
    let (mounted, unmounted) = match &command {
        Command::Mount(args) => (args.mountpoint.clone(), None),
        Command::Unmount(args) => (None, Some(args.mountpoint.clone())),
        _ => (None, None),
    };
    run(command).map_err(failure)?;
    if let Some(point) = mounted.and_then(|point| point.canonicalize().ok()) {
        let mounts = mounts::tierfs().unwrap_or_default();
        if let Some(mount) = mounts.iter().rfind(|mount| mount.point == point) {
            utab::enter(&mount.source, &point);
        }
    }
    if let Some(point) = unmounted {
        utab::leave(&point.canonicalize().unwrap_or(point));
    }
    Ok(())
}

/// mount(8) has codes of its own: 1 for a wrong call, 32 for a mount that failed.
fn failure(failure: Failure) -> Failure {
    let exit = match failure.exit {
        Exit::Done => Exit::Done,
        Exit::Usage => Exit::Failed,
        _ => Exit::Mount,
    };
    Failure { exit, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> String {
        let called = read(line.split(' ').map(OsString::from));
        let words: Vec<_> = called.arguments.iter().map(|argument| argument.to_string_lossy()).collect();
        format!("{}{}", words.join(" "), if called.is_rehearsal { " (only as if)" } else { "" })
    }

    #[test]
    fn helpers_of_mount_are_commands() {
        assert_eq!(seen("/sbin/mount.tierfs c.toml /m -v -o rw,uid=5"), "tierfs mount c.toml /m -o rw,uid=5");
        assert_eq!(seen("mount.fuse.tierfs c.toml /m -f -o rw"), "tierfs mount c.toml /m -o rw (only as if)");
        assert_eq!(seen("umount.tierfs /m -t fuse.tierfs -n"), "tierfs unmount /m");
        assert_eq!(seen("umount.fuse.tierfs /m -l"), "tierfs unmount /m --lazy");
        assert_eq!(seen("./tierfs flush -0"), "./tierfs flush -0");
    }

    #[test]
    fn helpers_have_the_exit_codes_of_mount() {
        let code = |exit| failure(Failure { exit, message: String::new() }).exit as u8;
        assert_eq!([Exit::Usage, Exit::Failed, Exit::NotMounted, Exit::TimedOut].map(code), [1, 32, 32, 32]);
    }
}
