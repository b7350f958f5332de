//! Words to the service manager that started this process (sd_notify(3)), if one did: it is ready, it ends, it needs time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Names the socket.
pub const VARIABLE: &str = "NOTIFY_SOCKET";

/// Where the service manager listens.
#[derive(Debug)]
pub struct Notify(Option<SocketAddr>);

impl Notify {
    /// As the environment says; without a service manager all words go nowhere.
    #[must_use]
    pub fn of_process() -> Self {
        Self(std::env::var_os(VARIABLE).and_then(|name| address(&name)))
    }

    /// The mount serves.
    pub fn ready(&self, how: &str) {
        self.say(&format!("READY=1\nSTATUS={}", one_line(how)));
    }

    /// Something on the way there takes time; it is not to be given up within `patience`.
    pub fn note(&self, text: &str, patience: Duration) {
        self.say(&format!("STATUS={}\nEXTEND_TIMEOUT_USEC={}", one_line(text), patience.as_micros()));
    }

    /// It is unmounted, and commits what is left for at most `patience`.
    pub fn stopping(&self, patience: Duration) {
        self.say(&format!(
            "STOPPING=1\nSTATUS=unmounted, committing what is left\nEXTEND_TIMEOUT_USEC={}",
            patience.as_micros()
        ));
    }

    fn say(&self, words: &str) {
        let Some(address) = &self.0 else { return };
        let sent = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(words.as_bytes(), address));
        if let Err(error) = sent {
            tracing::warn!(%error, "the service manager does not listen");
        }
    }
}

/// A path, or with `@` a name that is in no file system.
fn address(name: &OsStr) -> Option<SocketAddr> {
    let address: io::Result<SocketAddr> = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        [b'/', ..] => SocketAddr::from_pathname(OsString::from(name)),
        _ => return None,
    };
    address.ok()
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_by_path_and_by_name() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("tierfs-notify-{}", std::process::id());
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, variable) in [(by_path, path.into_os_string()), (by_name, format!("@{name}").into())] {
            let notify = Notify(address(&variable));
            notify.ready("passthrough\nREADY=0");
            notify.stopping(Duration::from_secs(2));
            let mut buffer = [0; 512];
            let mut heard = || {
                let count = socket.recv(&mut buffer).unwrap();
                String::from_utf8_lossy(&buffer[..count]).into_owned()
            };
            assert_eq!(heard(), "READY=1\nSTATUS=passthrough READY=0");
            assert!(heard().ends_with("EXTEND_TIMEOUT_USEC=2000000"));
        }
    }

    #[test]
    fn without_a_listener_nothing_happens() {
        for variable in ["", "relative", "/nonexistent/notify"] {
            Notify(address(OsStr::new(variable))).ready("x");
        }
    }
}
