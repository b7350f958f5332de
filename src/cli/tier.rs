//! `tierfs tier`: a wiped tier is taken for what it is, and what was lost with one is listed.

use crate::cli::args::{MountOrConfig, TierAcceptArgs, TierCommand, TierLostArgs};
use crate::cli::failure::Failure;
use crate::cli::{mount, say, text};
use crate::control::client::{Client, ClientError};
use crate::control::protocol::{FileSystem, LostBytes, LostPage, LostRow, TierAccepted};
use crate::control::target::Target;
use crate::mount::Offline;
use crate::tier::Writing;
use std::path::Path;

/// Does it.
///
/// # Errors
/// [`Failure`].
pub fn run(command: &TierCommand) -> Result<(), Failure> {
    match command {
        TierCommand::Accept(args) => accept(args),
        TierCommand::Lost(args) => lost(args),
    }
}

/// Who has the catalog.
enum Keeper {
    Daemon(Box<Client>),
    Nobody(Box<Offline>),
}

impl Keeper {
    fn find(which: &MountOrConfig) -> Result<Self, Failure> {
        let target = match (&which.config, &which.mountpoint) {
            (Some(config), _) => return Self::of_config(config),
            (None, Some(path)) => Target::of(path)?,
            (None, None) => Target::implied()?,
        };
        Ok(Self::Daemon(Box::new(target.connect()?)))
    }

    fn of_config(file: &Path) -> Result<Self, Failure> {
        let config = mount::load(file)?;
        match Client::connect(&config.mount.control) {
            Ok(client) => Ok(Self::Daemon(Box::new(client))),
            Err(ClientError::Nobody(_)) => {
                Ok(Self::Nobody(Box::new(Offline::open(&config, Writing::Allowed)?)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self, name: &str, file_system: FileSystem) -> Result<TierAccepted, Failure> {
        Ok(match self {
            Self::Daemon(client) => client.accept_tier(name, file_system)?,
            Self::Nobody(offline) => offline.accept_tier(name, file_system)?,
        })
    }

    fn lost(&mut self, after: u64) -> Result<LostPage, Failure> {
        Ok(match self {
            Self::Daemon(client) => client.lost(after)?,
            Self::Nobody(offline) => offline.lost(after)?,
        })
    }

    fn forget(&mut self, up_to: u64) -> Result<u64, Failure> {
        Ok(match self {
            Self::Daemon(client) => client.forget_lost(up_to)?,
            Self::Nobody(offline) => offline.forget_lost(up_to)?,
        })
    }

    /// Calls `each` for the lost files after a position in the list; answers the last position.
    fn each_lost(
        &mut self,
        mut after: u64,
        each: &mut dyn FnMut(&LostRow) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        loop {
            let page = self.lost(after)?;
            page.files.iter().try_for_each(&mut *each)?;
            match page.files.last() {
                Some(last) => after = last.id,
                None => return Ok(after),
            }
        }
    }
}

fn accept(args: &TierAcceptArgs) -> Result<(), Failure> {
    let mut keeper = Keeper::find(&args.mount)?;
    let file_system = if args.any_file_system { FileSystem::Any } else { FileSystem::AsKnown };
    let accepted = keeper.accept(&args.name, file_system)?;
    keeper.each_lost(accepted.listed_after, &mut |row| {
        say::out(line(row));
        Ok(())
    })?;
    say::out(format_args!("tier {} is accepted: {}", args.name, summary(&accepted)));
    Ok(())
}

fn summary(accepted: &TierAccepted) -> String {
    let lost = match accepted.lost {
        0 => "no file is lost".to_owned(),
        lost => format!("{} LOST; `tierfs tier lost` lists them again", text::counted(lost, "file")),
    };
    match accepted.found {
        0 => lost,
        found => format!("{lost}; {} still there", text::counted(found, "copy").replace("copys", "copies")),
    }
}

fn lost(args: &TierLostArgs) -> Result<(), Failure> {
    let mut keeper = Keeper::find(&args.mount)?;
    let last = keeper.each_lost(0, &mut |row| {
        if args.json {
            say::out(serde_json::to_string(row).map_err(|error| Failure::failed(error.to_string()))?);
        } else {
            say::out(line(row));
        }
        Ok(())
    })?;
    if args.forget && last > 0 {
        let forgotten = keeper.forget(last)?;
        say::note(format_args!("{} forgotten", text::counted(forgotten, "file")));
    }
    Ok(())
}

fn line(row: &LostRow) -> String {
    let what = match row.bytes {
        LostBytes::All => "",
        LostBytes::Newest => "; home has an older version",
    };
    let path = text::printable(&row.path.to_string());
    format!("LOST {path} ({}, on tier {}){what}", text::bytes(row.size), row.tier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::WirePath;

    #[test]
    fn a_loss_is_named_in_one_line() {
        let row = LostRow {
            id: 1,
            path: WirePath(b"run/a\nb".to_vec()),
            tier: "scratch".into(),
            size: 2048,
            mtime_ns: 0,
            lost_at_ns: 0,
            bytes: LostBytes::Newest,
        };
        let said = line(&row);
        assert!(said.starts_with("LOST run/a") && said.lines().count() == 1, "{said}");
        assert!(said.ends_with("(2.0 KiB, on tier scratch); home has an older version"), "{said}");
    }

    #[test]
    fn the_summary_counts() {
        assert_eq!(summary(&TierAccepted::default()), "no file is lost");
        let some = TierAccepted { lost: 1, found: 2, listed_after: 0 };
        assert_eq!(summary(&some), "1 file LOST; `tierfs tier lost` lists them again; 2 copies still there");
    }
}
