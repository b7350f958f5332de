//! `tierfs mount`: checks, then a daemon here or in the background.

mod background;
mod daemon;
mod list;
mod predecessor;
pub(super) mod preflight;
mod ready;

use crate::cli::args::{Ground, MountArgs, MountRequest};
use crate::cli::failure::Failure;
use crate::cli::log::{self, Form, Sink};
use crate::cli::options::MountOptions;
use crate::cli::say;
use crate::config::{Catalog, Config, Storage};
use crate::types::blob::BlobLocation;
use preflight::{Entries, Root};
use ready::Herald;
use std::path::{Path, PathBuf};

/// A mount that is to be made.
struct Order {
    config: PathBuf,
    mountpoint: PathBuf,
    options: MountOptions,
    /// As they were given, for a daemon in the background.
    raw_options: Vec<String>,
    log: Option<PathBuf>,
    form: Form,
}

/// Mounts, or lists what is mounted.
///
/// # Errors
/// [`Failure`].
pub fn run(args: MountArgs) -> Result<(), Failure> {
    let (log, form, ready_fd, raw_options) =
        (args.log.clone(), args.log_format, args.ready_fd, args.options.clone());
    let (order, ground) = match args.request().map_err(Failure::usage)? {
        MountRequest::List => return list::print(),
        MountRequest::Mount { config, mountpoint, options, ground } => {
            (Order { config, mountpoint, options, raw_options, log, form }, ground)
        }
    };
    if let Some(number) = ready_fd {
        return daemon::in_background(order, Herald::inherited(number)?);
    }
    let (order, config) = prepare(order)?;
    match ground {
        Ground::Foreground => daemon::in_foreground(order, config),
        Ground::Background => background::start(&order),
    }
}

/// Loads the config, makes sure that nothing stands in the way, and makes every path absolute.
fn prepare(order: Order) -> Result<(Order, Config), Failure> {
    let absolute = std::path::absolute(&order.config)
        .map_err(|error| Failure::usage(format!("{}: {error}", order.config.display())))?;
    let config = load(&absolute)?;
    preflight::fuse()?;
    let entries = if order.options.nonempty { Entries::Allowed } else { Entries::Refused };
    let mountpoint = preflight::mount_point(&order.mountpoint, entries, &mut say::note)?;
    preflight::apart(&mountpoint, &roots(&config))?;
    predecessor::wait(&config.mount.control, &mut say::note)?;
    let log = order.log.as_deref().map(std::path::absolute).transpose();
    let log = log.map_err(|error| Failure::usage(format!("--log: {error}")))?;
    Ok((Order { config: absolute, mountpoint, log, ..order }, config))
}

/// The config, its warnings said.
///
/// # Errors
/// All that is wrong with it.
pub(super) fn load(file: &Path) -> Result<Config, Failure> {
    let (config, warnings) = Config::load(file).map_err(|problems| Failure::usage(problems.to_string()))?;
    for warning in &warnings {
        say::err(format_args!("warning: {warning}"));
    }
    Ok(config)
}

/// What a mount must not hide, and what must not hold the mount.
pub(super) fn roots(config: &Config) -> Vec<Root> {
    let tiers = config.tiers.iter().filter_map(|tier| {
        let path = match &tier.storage {
            Storage::Directory(directory) => &directory.path,
            Storage::Blob(blob) => match &blob.location {
                BlobLocation::Directory(path) => path,
                BlobLocation::Azure { .. } => return None,
            },
        };
        Some(Root { what: format!("tier {}", tier.name), path: path.clone() })
    });
    let catalog = match &config.mount.catalog {
        Catalog::Sqlite(path) => Some(Root { what: "the catalog".to_owned(), path: path.clone() }),
        Catalog::Memory => None,
    };
    let control = Root { what: "the control socket".to_owned(), path: config.mount.control.clone() };
    tiers.chain(catalog).chain([control]).collect()
}

impl Order {
    fn log_file(&self) -> PathBuf {
        self.log.clone().unwrap_or_else(|| {
            let name = self.config.file_stem().unwrap_or_default().to_string_lossy();
            log::default_file(&name)
        })
    }

    fn sink(&self, ground: Ground) -> Sink {
        match (ground, &self.log) {
            (Ground::Foreground, None) => Sink::Stderr,
            _ => Sink::File(self.log_file()),
        }
    }
}
