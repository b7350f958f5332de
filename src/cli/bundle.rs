//! `tierfs debug-bundle`: what somebody who helps needs to know, in one tar, without secrets.

mod facts;
mod redact;

use crate::cli::args::BundleArgs;
use crate::cli::failure::Failure;
use crate::cli::say;
use crate::config::Config;
use redact::Redactor;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes it.
///
/// # Errors
/// [`Failure`]; what can't be found out is told in the bundle.
pub fn run(args: &BundleArgs) -> Result<(), Failure> {
    let config = Config::load(&args.config);
    let redactor = Redactor::new(config.as_ref().ok().map(|(config, _)| config));
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = format!("tierfs-debug-{seconds}");
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tar")));
    let file = create(&path)?;
    let mut bundle = Bundle { tar: tar::Builder::new(file), redactor, name, seconds };
    facts::collect(
        &args.config,
        config.as_ref().map(|(config, _)| config),
        args.log.as_deref(),
        &mut |name, text| bundle.add(name, &text),
    )
    .and_then(|()| bundle.finish())
    .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    say::out(format_args!(
        "{}: secrets are left out; it names paths, files that wait or failed, hosts and accounts: look through it before you send it",
        path.display()
    ));
    Ok(())
}

/// For its owner's eyes, and never over another file.
fn create(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let hint =
            if error.kind() == io::ErrorKind::AlreadyExists { "; name another with --output" } else { "" };
        Failure::failed(format!("{}: {error}{hint}", path.display()))
    })
}

struct Bundle<W: Write> {
    tar: tar::Builder<W>,
    redactor: Redactor,
    name: String,
    seconds: u64,
}

impl<W: Write> Bundle<W> {
    fn add(&mut self, name: &str, text: &str) -> io::Result<()> {
        let clean = self.redactor.clean(text);
        let mut header = tar::Header::new_gnu();
        header.set_size(clean.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.seconds);
        self.tar.append_data(&mut header, format!("{}/{name}", self.name), clean.as_bytes())
    }

    fn finish(self) -> io::Result<()> {
        self.tar.into_inner()?.flush()
    }
}
