//! `tierstat` where it has a hard time: no terminal, a narrow one, other versions, readers that leave; and that its JSON is as documented.

use super::fake::{FakeMount, Socket};
use super::{Told, ran, tierfs, tierstat};
use crate::support::schema;
use crate::support::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn on(mount: &FakeMount, arguments: &[&str]) -> Told {
    ran(program(arguments).arg(mount.path("mnt")))
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tierstat"));
    command.args(arguments);
    command
}

fn documented() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/schema/tierstat.schema.json");
    serde_json::from_str(&std::fs::read_to_string(file).expect("the schema")).expect("JSON")
}

#[track_caller]
fn is_as_documented(kind: &str, json: &str) {
    let schema = documented();
    let value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let complaints = schema::complaints(&schema, &schema["$defs"][kind], &value, kind);
    assert!(complaints.is_empty(), "{complaints:#?}\n{json}");
}

#[test]
fn the_json_is_as_documented() {
    let mount = FakeMount::new(Socket::InSight);
    let step = serde_json::json!({
        "seq": 1, "domain": "rule0", "what": "write", "path": {"base64": "/w=="}, "age_s": 3, "state": "blocked",
        "error": "says no", "next_s": 4,
    });
    mount.daemon.script.lock().queue = vec![serde_json::from_value(step).expect("a row")];
    is_as_documented("status", &on(&mount, &["--json"]).out);
    is_as_documented("row", &on(&mount, &["ls", "--json", "-R"]).out);
    is_as_documented("step", &on(&mount, &["queue", "--json"]).out);
    is_as_documented("health", &on(&mount, &["health", "--json"]).out);
    is_as_documented("cost", &on(&mount, &["cost", "--json"]).out);
    is_as_documented("cost", &on(&mount, &["cost", "--json", "--tiers"]).out);
    let queued = tierfs(&["queue".as_ref(), "--json".as_ref(), mount.path("mnt").as_os_str()]);
    is_as_documented("step", &queued.out);
}

#[test]
fn the_documentation_can_be_broken() {
    let schema = documented();
    let wrong =
        serde_json::json!({"schema": 2, "level": "bad", "reasons": [{"level": "soon", "text": 5}], "new": 1});
    let mut complaints = schema::complaints(&schema, &schema["$defs"]["health"], &wrong, "health");
    complaints.sort();
    let starts = [
        "health.level: ",
        "health.new is not",
        "health.reasons[0].text: 5 is no",
        "health.schema: 2 is not 1",
    ];
    assert!(complaints.iter().zip(starts).all(|(said, start)| said.starts_with(start)), "{complaints:?}");
    assert_eq!(complaints.len(), starts.len());
}

#[test]
fn a_daemon_of_another_schema_is_told_with_what_to_do() {
    for (schema, said) in [(0, "older than this program"), (99, "newer than this program")] {
        let mount = FakeMount::new(Socket::InSight);
        mount.daemon.script.lock().schema = schema;
        mount.set_status();
        for arguments in [&[][..], &["ls"], &["cost"]] {
            on(&mount, arguments).refuses(1, &[said, "schema"]);
        }
        // Whether it is well nobody can tell, which is worse than any reason.
        let told = on(&mount, &["health"]);
        assert!(told.code == Some(2) && told.out.contains(said), "{told:?}");
    }
}

/// As a user who is not the daemon's: the socket is closed to them, the mount is open.
#[test]
fn a_socket_of_another_user_is_told_and_the_mount_tells_the_rest() {
    let mount = FakeMount::open_to_others();
    let other = |arguments: &[&str]| ran(program(arguments).arg(mount.path("mnt")).uid(65534).gid(65534));
    other(&[]).prints(&["a fake"]);
    other(&["ls"]).prints(&["5 B  file\n"]);
    other(&["cost"]).prints(&["$/MONTH"]);
    other(&["queue"]).refuses(1, &["another user", "as root"]);
}

#[test]
fn the_bill_is_by_tier_and_directory() {
    let mount = FakeMount::new(Socket::InSight);
    on(&mount, &["cost"]).prints(&["scratch", "blob", "on Lustre", "DIRECTORY"]);
    let told = on(&mount, &["cost", "--tiers"]);
    assert!(told.code == Some(0) && !told.out.contains("DIRECTORY"), "{told:?}");
}

#[test]
fn watching_goes_on_until_nobody_reads() {
    let mount = FakeMount::new(Socket::InSight);
    let mut command = program(&["--json", "--watch=100ms"]);
    let mut child = command.arg(mount.path("mnt")).stdout(Stdio::piped()).spawn().expect("tierstat");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for _ in 0..2 {
        is_as_documented("status", &lines.next().expect("a line").expect("text"));
    }
    drop(lines);
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}

#[test]
fn a_queue_of_which_only_the_head_is_read_is_no_error() {
    let mount = FakeMount::new(Socket::InSight);
    let step = |seq: u64| {
        serde_json::from_value(serde_json::json!({
            "seq": seq, "domain": "rule0", "what": "write", "path": format!("f{seq}"), "age_s": 3, "state": "waiting"
        }))
    };
    mount.daemon.script.lock().queue = (1..=20_000).map(step).collect::<Result<_, _>>().expect("rows");
    let mut child =
        program(&["queue"]).arg(mount.path("mnt")).stdout(Stdio::piped()).spawn().expect("tierstat");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.nth(1).expect("a line").expect("text");
    assert!(first.ends_with("f1"), "{first}");
    drop(lines);
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}

#[test]
fn top_without_a_terminal_says_what_to_use() {
    let mount = FakeMount::new(Socket::InSight);
    on(&mount, &["top"]).refuses(2, &["needs a terminal", "--watch"]);
}

#[test]
fn top_shows_and_ends_with_q_and_gives_the_terminal_back() {
    for (socket, columns, rows) in [(Socket::InSight, 80, 24), (Socket::OutOfSight, 40, 10)] {
        let mount = FakeMount::new(socket);
        let mut command = program(&["top", "--watch=100ms"]);
        command.arg(mount.path("mnt"));
        let mut terminal = Terminal::start(command, columns, rows);
        terminal.wait_for("the fake needs a person");
        terminal.wait_for("scratch");
        terminal.wait_for("q quits");
        terminal.types("x");
        terminal.types("q");
        let (status, seen) = terminal.ended();
        assert_eq!(status.code(), Some(0), "{seen:?}");
        // The alternate screen is left, the cursor shown.
        assert!(seen.contains("\x1b[?1049l") && seen.contains("\x1b[?25h"), "{seen:?}");
    }
}

#[test]
fn top_that_is_told_to_end_gives_the_terminal_back() {
    let mount = FakeMount::new(Socket::InSight);
    let mut command = program(&["top"]);
    command.arg(mount.path("mnt"));
    let mut terminal = Terminal::start(command, 80, 24);
    terminal.wait_for("q quits");
    let pid = Pid::from_raw(i32::try_from(terminal.pid()).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::TERM).expect("SIGTERM");
    let (status, seen) = terminal.ended();
    assert!(status.code() == Some(0) && seen.contains("\x1b[?1049l"), "{status} {seen:?}");
}

#[test]
fn a_terminal_of_forty_columns_gets_lines_of_forty() {
    let mount = FakeMount::new(Socket::InSight);
    let mut command = program(&[]);
    command.arg(mount.path("mnt"));
    let (status, seen) = Terminal::start(command, 40, 24).ended();
    assert!(status.success(), "{seen}");
    let plain = without_colours(&seen);
    assert!(plain.contains("scratch ok"), "{plain}");
    assert!(plain.lines().all(|line| line.chars().count() <= 40), "{plain}");
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn programs_write_their_own_pages_and_completions() {
    let dir = tempfile::TempDir::new().expect("a directory");
    for told in [
        tierfs(&["generate".as_ref(), dir.path().as_os_str()]),
        tierstat(&["generate".as_ref(), dir.path().as_os_str()]),
    ] {
        assert_eq!((told.code, told.out.as_str()), (Some(0), ""), "{told:?}");
    }
    for page in [
        "man/tierfs.1",
        "man/tierfs-mount.1",
        "man/tierfs-queue-retry.1",
        "man/tierstat.1",
        "man/tierstat-top.1",
    ] {
        let checked = ran(Command::new("man")
            .args(["--warnings", "-l"])
            .arg(dir.path().join(page))
            .env("MANWIDTH", "100"));
        assert!(
            checked.code == Some(0) && checked.err.is_empty() && checked.out.contains("SYNOPSIS"),
            "{page}: {checked:?}"
        );
    }
    let completions = dir.path().join("completions/bash");
    for program in ["tierfs", "tierstat"] {
        let script = format!(
            "source {}/{program}.bash; COMP_WORDS=({program} q); COMP_CWORD=1; _{program} {program} q {program}; echo \"${{COMPREPLY[*]}}\"",
            completions.display()
        );
        ran(Command::new("bash").args(["-c", &script])).prints(&["queue"]);
    }
}
