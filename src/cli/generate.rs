//! Man pages and shell completions out of the command line itself, for packages.

use clap::Command;
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::Path;

/// Shells that packages bring completions for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes `man/NAME.1`, a page for each command below it, and `completions/SHELL/…` into `directory`.
///
/// # Errors
/// As the file system says.
pub fn write(command: &Command, directory: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let pages = directory.join("man");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(command.clone().disable_help_subcommand(true), &pages)?;
    for shell in SHELLS {
        let folder = directory.join("completions").join(shell.to_string());
        fs::create_dir_all(&folder)?;
        clap_complete::generate_to(shell, &mut command.clone(), &name, &folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_visible_command_has_a_page_and_is_completed() {
        let command = super::super::args::Cli::command();
        let dir = tempfile::TempDir::new().unwrap();
        write(&command, dir.path()).unwrap();
        let bash = fs::read_to_string(dir.path().join("completions/bash/tierfs.bash")).unwrap();
        let mut seen = 0;
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let page =
                fs::read_to_string(dir.path().join(format!("man/tierfs-{}.1", sub.get_name()))).unwrap();
            assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{page}");
            assert!(bash.contains(sub.get_name()), "{}", sub.get_name());
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
        assert!(!dir.path().join("man/tierfs-generate.1").exists(), "what is hidden has no page");
        for other in ["completions/zsh/_tierfs", "completions/fish/tierfs.fish"] {
            assert!(fs::metadata(dir.path().join(other)).unwrap().len() > 1000, "{other}");
        }
    }
}
