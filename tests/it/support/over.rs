//! A file system put over a directory for a test: a disk of its own, with an end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something mounted over a directory, taken away when dropped.
#[derive(Debug)]
pub struct Over(PathBuf);

impl Over {
    /// An empty tmpfs.
    pub fn tmpfs(path: &Path) -> Self {
        Self::mount(path, "tmpfs", "mode=755")
    }

    /// An empty tmpfs that holds `size`, as mount(8) takes it.
    pub fn small(path: &Path, size: &str) -> Self {
        Self::mount(path, "tmpfs", &format!("mode=755,size={size}"))
    }

    /// An empty ramfs, which knows no direct I/O.
    pub fn ramfs(path: &Path) -> Self {
        Self::mount(path, "ramfs", "mode=755")
    }

    fn mount(path: &Path, kind: &str, options: &str) -> Self {
        let mut command = Command::new("mount");
        let status = command.args(["-t", kind, "-o", options, "tierfs-test"]).arg(path).status();
        assert!(status.expect("mount").success());
        Self(path.to_owned())
    }

    /// Takes all the room there is; given back with what is returned.
    pub fn fill(&self) -> Ballast {
        let ballast = Ballast(self.0.join(".ballast"));
        let mut file = File::create(&ballast.0).expect("a file");
        // Down to the last byte: small files must not fit either.
        for piece in [1 << 20, 4096, 1] {
            let bytes = vec![b'.'; piece];
            while file.write_all(&bytes).is_ok() {}
        }
        ballast
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        super::mount::detach(&self.0);
    }
}

/// What fills a disk.
#[derive(Debug)]
pub struct Ballast(PathBuf);

impl Drop for Ballast {
    fn drop(&mut self) {
        fs::remove_file(&self.0).expect("the ballast");
    }
}
