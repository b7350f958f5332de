//! `tierfs path`: the native path of a resident copy, for tools that want the file itself.

use crate::cli::failure::Failure;
use crate::control::PATH_XATTR;
use crate::control::target::{Target, xattr};
use std::io::{self, Write};
use std::path::Path;

/// Prints the native path of `file`.
///
/// # Errors
/// [`Failure`] if it has none.
pub fn run(file: &Path) -> Result<(), Failure> {
    let mut line = native(file)?;
    line.push(b'\n');
    match io::stdout().write_all(&line) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn native(file: &Path) -> Result<Vec<u8>, Failure> {
    let target = Target::of(file)?;
    let real = target
        .path
        .canonicalize()
        .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    if real != target.path {
        return native(&real);
    }
    xattr(&real, PATH_XATTR).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODATA) => Failure::failed(format!(
            "{}: no copy of it is on a directory tier (see `tierstat ls`); reading it through the mount may make one",
            file.display()
        )),
        _ => Failure::failed(format!("{}: {error}", file.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    #[test]
    fn a_file_elsewhere_is_not_mounted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(native(file.path()).unwrap_err().exit, Exit::NotMounted);
    }
}
