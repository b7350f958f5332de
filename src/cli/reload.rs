//! `tierfs reload`: a mount reads its config again.

use crate::cli::args::ReloadArgs;
use crate::cli::failure::Failure;
use crate::cli::{say, text};
use crate::control::client::ClientError;
use crate::control::protocol::{ErrorCode, Reloaded};
use crate::control::target::Target;

/// Has it done; says what is in force now.
///
/// # Errors
/// [`Failure`]: all that is wrong with the config; nothing has changed then.
pub fn run(args: &ReloadArgs) -> Result<(), Failure> {
    let target = match &args.mountpoint {
        Some(path) => Target::of(path)?,
        None => Target::implied()?,
    };
    let reloaded = target.connect()?.reload().map_err(refused)?;
    for warning in &reloaded.warnings {
        say::err(format_args!("warning: {}", text::printable(warning)));
    }
    for line in lines(&reloaded) {
        say::out(format_args!("{line}"));
    }
    Ok(())
}

/// What is wrong with a config is a matter of usage, as it is for `check`.
fn refused(error: ClientError) -> Failure {
    match error.code() {
        Some(ErrorCode::Invalid) => Failure::usage(error.to_string()),
        _ => error.into(),
    }
}

/// What came of it, for people.
fn lines(reloaded: &Reloaded) -> Vec<String> {
    let Reloaded { changed, at_mount, moves, .. } = reloaded;
    if changed.is_empty() && at_mount.is_empty() {
        return vec!["nothing in the config has changed".to_owned()];
    }
    let mut lines = Vec::new();
    if !changed.is_empty() {
        lines.push(format!("in force: {}", changed.join(", ")));
    }
    if *moves {
        lines.push("files whose home changed move there in the background".to_owned());
    }
    if !at_mount.is_empty() {
        lines.push(format!("not in force before you unmount and mount again: {}", at_mount.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_new_mount_is_said() {
        assert_eq!(lines(&Reloaded::default()), ["nothing in the config has changed"]);
        let both = Reloaded {
            changed: vec!["[[rule]]".into()],
            at_mount: vec!["[mount] memory".into()],
            moves: true,
            ..Reloaded::default()
        };
        let said = lines(&both);
        assert_eq!(said.len(), 3);
        assert!(said[2].ends_with("mount again: [mount] memory"), "{said:?}");
    }
}
