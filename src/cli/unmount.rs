//! `tierfs unmount`: commit everything, then unmount, then see the daemon off.

use crate::cli::detach::{DetachError, Manner, detach};
use crate::cli::failure::Failure;
use crate::cli::progress::{self, Bar};
use crate::cli::say;
use crate::control::client::{Client, ClientError};
use crate::control::mounts::{self, Mount};
use crate::control::protocol::Drained;
use crate::control::target::{Target, TargetError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a daemon that said it is done may take to go.
const PATIENCE: Duration = Duration::from_secs(30);

/// Unmounts `point`, waiting for dirty data up to `timeout` (none: what the config says).
///
/// # Errors
/// [`Failure`]; out of time, everything is kept and the mount stays.
pub fn run(point: &Path, timeout: Option<Duration>) -> Result<(), Failure> {
    let target = match find(point)? {
        Found::Dead(point) => return take_away(&point),
        Found::Living(target) => target,
    };
    let point = &target.mount.point;
    match target.connect() {
        Ok(client) => with_daemon(point, client, timeout),
        // In a container the socket may not be in sight; the daemon drains by itself afterwards.
        Err(TargetError::Client { source: ClientError::Nobody(_), .. }) => {
            detach(point, Manner::Plain).map_err(said)?;
            say::out(format_args!(
                "{}: unmounted; its daemon, out of reach from here, commits what is left",
                point.display()
            ));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes `point` away at once; the daemon, if it lives, drains by itself.
///
/// # Errors
/// [`Failure`].
pub fn run_lazily(point: &Path) -> Result<(), Failure> {
    match find(point)? {
        Found::Dead(point) => take_away(&point),
        Found::Living(target) => {
            let point = &target.mount.point;
            detach(point, Manner::Lazy).map_err(said)?;
            say::out(format_args!("{}: unmounted; its daemon commits what is left", point.display()));
            Ok(())
        }
    }
}

enum Found {
    Living(Box<Target>),
    Dead(PathBuf),
}

fn find(point: &Path) -> Result<Found, Failure> {
    let target = match Target::of(point) {
        Ok(target) => target,
        Err(TargetError::Dead(point)) => return Ok(Found::Dead(point)),
        Err(TargetError::NotMounted { path, mounts }) => return through_link(path, mounts),
        Err(error) => return Err(error.into()),
    };
    whole(target)
}

/// A mount point may be named by a link to it.
fn through_link(path: PathBuf, mounts: Vec<PathBuf>) -> Result<Found, Failure> {
    match path.canonicalize() {
        Ok(real) if real != path => find(&real),
        _ => Err(TargetError::NotMounted { path, mounts }.into()),
    }
}

fn whole(target: Target) -> Result<Found, Failure> {
    if target.path == target.mount.point {
        return Ok(Found::Living(Box::new(target)));
    }
    Err(Failure::usage(format!(
        "{} lies inside the mount {1}: `tierfs unmount {1}`",
        target.path.display(),
        target.mount.point.display()
    )))
}

fn take_away(point: &Path) -> Result<(), Failure> {
    detach(point, Manner::Lazy).map_err(said)?;
    say::out(format_args!(
        "{}: its daemon was gone; the dead mount is taken away, the next mount goes on with what was closed",
        point.display()
    ));
    Ok(())
}

fn with_daemon(point: &Path, mut client: Client, timeout: Option<Duration>) -> Result<(), Failure> {
    let hello = client.hello()?;
    let mut bar = Bar::new("committing");
    let drained = client.drain(timeout, &mut |progress| bar.show(progress));
    bar.finish();
    let drained = drained?;
    if !drained.is_clean() {
        return Err(stays(point, &drained));
    }
    leave(point, &mut client)?;
    let mut bar = Bar::new("finishing");
    let ended = client.ended(&mut |progress| bar.show(progress));
    bar.finish();
    match ended {
        Ok(rest) if rest.is_clean() => {}
        Ok(rest) => {
            return Err(Failure::timed_out(format!(
                "{}: unmounted, but {}; kept on the stage, the next mount goes on with it",
                point.display(),
                progress::not_done(&rest)
            )));
        }
        Err(ClientError::Gone) => {}
        Err(error) => return Err(error.into()),
    }
    if !client.gone(&hello, PATIENCE) {
        return Err(Failure::failed(format!(
            "{}: unmounted, but its daemon does not end: see its log",
            point.display()
        )));
    }
    if drained.files_done > 0 {
        say::out(format_args!("{}: unmounted, {}", point.display(), progress::done(&drained)));
    }
    Ok(())
}

fn stays(point: &Path, drained: &Drained) -> Failure {
    Failure::timed_out(format!(
        "{0}: {1}; it stays mounted and goes on. Again later: tierfs unmount {0}. At once: tierfs unmount --lazy {0} (what is \
         left then goes on in the background, or stays safe on the stage for the next mount)",
        point.display(),
        progress::not_done(drained)
    ))
}

fn leave(point: &Path, client: &mut Client) -> Result<(), Failure> {
    match detach(point, Manner::Plain) {
        Ok(()) => Ok(()),
        Err(DetachError::Denied { .. }) => Ok(client.unmount()?),
        // Somebody else unmounted it meanwhile.
        Err(_) if !is_mounted(point) => Ok(()),
        Err(error) => Err(said(error)),
    }
}

fn is_mounted(point: &Path) -> bool {
    mounts::tierfs().is_ok_and(|mounts: Vec<Mount>| mounts.iter().any(|mount| mount.point == point))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn said(error: DetachError) -> Failure {
    Failure::failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn what_is_not_mounted_is_said_to_be() {
        let dir = tempfile::TempDir::new().unwrap();
        assert_eq!(run(dir.path(), None).unwrap_err().exit, Exit::NotMounted);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert_eq!(run(&link, None).unwrap_err().exit, Exit::NotMounted);
    }

    #[test]
    fn out_of_time_says_what_is_safe() {
        let left = Drained { files_left: 3, bytes_left: 3 << 20, ..Drained::default() };
        let failure = stays(Path::new("/m"), &left);
        assert_eq!(failure.exit, Exit::TimedOut);
        assert!(failure.message.contains("3 files, 3.0 MiB not home yet"), "{failure}");
        assert!(failure.message.contains("stays mounted"), "{failure}");
    }
}
