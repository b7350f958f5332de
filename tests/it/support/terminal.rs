//! A pseudo-terminal: a program on one end, a test on the other.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A terminal and the program on it.
pub struct Terminal {
    keyboard: File,
    child: Child,
    seen: String,
}

impl Terminal {
    /// Starts `command` on a new terminal of this size.
    pub fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&main).and_then(|()| unlockpt(&main)).expect("its other end");
        let name = ptsname(&main, Vec::new()).expect("its name").into_string().expect("text");
        let other = File::options().read(true).write(true).open(name).expect("its other end");
        tcsetwinsize(&other, Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 })
            .expect("a size");
        let end = || Stdio::from(other.try_clone().expect("a descriptor"));
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let lead = || {
            rustix::process::setsid()?;
            // SAFETY: standard input is open, it is the terminal, and outlives the call.
            let terminal = unsafe { rustix::fd::BorrowedFd::borrow_raw(0) };
            Ok(rustix::process::ioctl_tiocsctty(terminal)?)
        };
        // SAFETY: between fork and exec only setsid(2) and ioctl(2) are called, which are async-signal-safe.
        unsafe { command.pre_exec(lead) };
        let child = command.spawn().expect("the program");
        Self { keyboard: File::from(main), child, seen: String::new() }
    }

    /// Reads until `part` was shown, whatever the program does meanwhile to the screen around it.
    pub fn wait_for(&mut self, part: &str) {
        let mut bytes = [0; 4096];
        while !self.seen.contains(part) {
            let count = self.keyboard.read(&mut bytes).unwrap_or(0);
            assert!(count > 0, "the program ended before {part:?}: {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Types.
    pub fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a key");
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads to the end; how the program ended, and all it has shown.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let mut bytes = [0; 4096];
        // The last one to leave the other end makes this an error.
        while let Ok(count @ 1..) = self.keyboard.read(&mut bytes) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        (self.child.wait().expect("its end"), self.seen)
    }
}
