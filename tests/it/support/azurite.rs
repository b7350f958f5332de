//! The Azurite emulator: one that is running already, or one of our own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

struct Emulator {
    service: String,
    // Kept for as long as the test process lives; it ends with it.
    _process: Option<Child>,
}

/// Address of the emulator's account: `TIERFS_AZURITE_URL`, or of an emulator started for this process.
pub fn service_url() -> String {
    static EMULATOR: OnceLock<Emulator> = OnceLock::new();
    EMULATOR.get_or_init(|| running().unwrap_or_else(started)).service.clone()
}

fn running() -> Option<Emulator> {
    let service = std::env::var("TIERFS_AZURITE_URL").ok()?.trim_end_matches('/').to_owned();
    Some(Emulator { service, _process: None })
}

/// The kernel ends the emulator with the thread that started it, so that thread must outlive every test.
fn started() -> Emulator {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(sender.send(start()));
        loop {
            std::thread::park();
        }
    });
    receiver.recv().expect("an emulator")
}

fn start() -> Emulator {
    let script =
        concat!(env!("CARGO_MANIFEST_DIR"), "/target/azurite/node_modules/azurite/dist/src/blob/main.js");
    let mut command = Command::new("node");
    command.arg(script).args(["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence"]);
    command.args(["--skipApiVersionCheck", "--loose", "--silent", "--disableTelemetry"]);
    super::mount::end_with_us(&mut command);
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node and target/azurite: run tools/test.sh once, it installs them");
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("successfully listens on ")?.1.trim().to_owned()))
        .expect("the emulator to say where it listens");
    Emulator { service: format!("{address}/{}", super::container::ACCOUNT), _process: Some(process) }
}
