//! The demo runs the real commands, as a user would.

use super::ground::Ground;
use crate::cli::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `tierfs` itself and the `tierstat` beside it.
pub(super) struct Tools {
    directory: PathBuf,
    tierfs: PathBuf,
    tierstat: Option<PathBuf>,
}

impl Tools {
    pub(super) fn find(ground: &Ground) -> Result<Self, Failure> {
        let tierfs = std::env::current_exe().map_err(|error| Failure::failed(format!("demo: {error}")))?;
        let tierstat = tierfs.with_file_name("tierstat");
        Ok(Self {
            directory: ground.root().to_owned(),
            tierstat: tierstat.is_file().then_some(tierstat),
            tierfs,
        })
    }

    /// Runs `tierfs ARGUMENTS` in the demo's directory and answers what it printed.
    pub(super) fn tierfs(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.run(&self.tierfs, "tierfs", arguments)
    }

    /// Runs `tierstat ARGUMENTS` the same way; nothing if it is not installed beside `tierfs`.
    pub(super) fn tierstat(&self, arguments: &[&str]) -> Result<Option<String>, Failure> {
        self.tierstat.as_deref().map(|program| self.run(program, "tierstat", arguments)).transpose()
    }

    fn run(&self, program: &Path, name: &str, arguments: &[&str]) -> Result<String, Failure> {
        let shown = format!("{name} {}", arguments.join(" "));
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
        said(&shown, &output)
    }
}

fn said(shown: &str, output: &Output) -> Result<String, Failure> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(Failure::failed(format!("`{shown}` ended with {}:\n{}", output.status, error.trim_end())))
}
