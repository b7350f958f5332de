//! On a VM: fstab, `mount -t fuse.tierfs`, `umount`, and the unit's lines as they are.

use super::root::Root;
use crate::support::mount::told;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Child;

fn rig() -> Root {
    let root = Root::new();
    root.install();
    root.configure("t");
    root
}

fn fstab(root: &Root, options: &str) {
    let line = format!("/etc/tierfs/t.toml /mnt/t fuse.tierfs {options} 0 0\n");
    fs::write(root.path("etc/fstab"), line).expect("fstab");
}

#[test]
fn fstab_mounts_and_umount_drains() {
    let root = rig();
    let usual =
        "_netdev,nofail,noauto,allow_other,x-systemd.requires=network-online.target,x-systemd.automount";
    fstab(&root, usual);
    root.run("mount -f /mnt/t && ! mountpoint -q /mnt/t");
    root.run("mount /mnt/t");
    assert_eq!(root.run("findmnt -rno FSTYPE,SOURCE /mnt/t"), "fuse.tierfs /etc/tierfs/t.toml\n");
    root.run("mkdir /mnt/t/blob && echo text > /mnt/t/blob/file");
    // Settles for 2 s: umount waits until it is at home, and for the daemon's end.
    let pid = root.pid("t");
    root.run("umount /mnt/t");
    assert_eq!(fs::read_to_string(root.path("srv/t/blob/blob/file")).expect("home"), "text\n");
    // What nobody has reaped yet has no program any more.
    assert!(fs::read_link(format!("/proc/{pid}/exe")).is_err(), "the daemon still runs");

    fstab(&root, &format!("{usual},ro"));
    root.run("mount /mnt/t && grep -q text /mnt/t/blob/file");
    let refused = root.try_run("echo x > /mnt/t/blob/file");
    assert!(told(&refused).contains("Read-only"), "{}", told(&refused));
    root.run("umount /mnt/t");
}

#[test]
fn mount_and_umount_say_what_is_wrong_as_mount_does() {
    let root = rig();
    root.run("mount -t fuse.tierfs /etc/tierfs/t.toml /mnt/t");
    let busy = root.try_run("cd /mnt/t && umount /mnt/t");
    assert!(busy.status.code() == Some(32) && told(&busy).contains("is in use"), "{}", told(&busy));
    // At once, and the daemon ends when the last user has left.
    root.run("cd /mnt/t && umount -l /mnt/t && ! mountpoint -q /mnt/t");

    let wrong = root.try_run("mount -t fuse.tierfs /etc/tierfs/none.toml /mnt/t");
    assert!(wrong.status.code() == Some(1) && told(&wrong).contains("none.toml"), "{}", told(&wrong));
    let wrong = root.try_run("mount -t fuse.tierfs -o alow_other /etc/tierfs/t.toml /mnt/t");
    assert!(wrong.status.code() == Some(1) && told(&wrong).contains("allow_other"), "{}", told(&wrong));
    let failed = root.try_run("mount -t fuse.tierfs /etc/tierfs/t.toml /mnt/none");
    assert!(!failed.status.success() && told(&failed).contains("/mnt/none"), "{}", told(&failed));
}

/// The value of every `key=` of the unit, in order.
fn unit(key: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd/tierfs@.service");
    let text = fs::read_to_string(file).expect("the unit");
    let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.map(|value| value.replace("%i", "t")).collect()
}

/// A command line of the unit for a shell: its environment is set, and a failure that does not count is none.
fn line(command: &str) -> String {
    match command.strip_prefix('-') {
        Some(may_fail) => format!("{may_fail} || true"),
        None => format!("exec {command}"),
    }
}

struct Service<'a> {
    root: &'a Root,
    notified: UnixDatagram,
    main: Child,
}

impl<'a> Service<'a> {
    /// Starts as systemd would.
    fn start(root: &'a Root) -> Self {
        let socket = root.path("run/notify");
        let _none_yet = fs::remove_file(&socket);
        let notified = UnixDatagram::bind(&socket).expect("a socket");
        let exports: String =
            unit("Environment").iter().map(|assignment| format!("export {assignment}; ")).collect();
        for before in unit("ExecStartPre") {
            root.run(&format!("{exports}{}", line(&before)));
        }
        let [start] = &unit("ExecStart")[..] else { panic!("not one ExecStart") };
        let mut command = root.command(&format!("{exports}{}", line(start)));
        command.env("NOTIFY_SOCKET", "/run/notify");
        crate::support::mount::end_with_us(&mut command);
        Self { root, notified, main: command.spawn().expect("the daemon") }
    }

    /// The next word with `part`.
    fn hears(&self, part: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let count = self.notified.recv(&mut buffer).expect("a word");
            let said = String::from_utf8_lossy(&buffer[..count]).into_owned();
            if said.contains(part) {
                return said;
            }
        }
    }

    fn kill(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.main), signal).expect("a signal");
    }

    fn ended(mut self) -> Option<i32> {
        self.main.wait().expect("its end").code()
    }
}

#[test]
fn the_units_lines_run_as_they_are() {
    assert_eq!(unit("Type"), ["notify"]);
    let root = rig();
    let service = Service::start(&root);
    let ready = service.hears("READY=1");
    assert!(ready.contains("STATUS=passthrough") || ready.contains("STATUS=ordinary"), "{ready}");
    root.run("mkdir /mnt/t/blob && echo text > /mnt/t/blob/file");

    // It dies: programs get errors, no empty directory; the next start takes the dead mount away and goes on.
    service.kill(Signal::KILL);
    assert_eq!(service.ended(), None);
    let dead = root.try_run("ls /mnt/t");
    assert!(told(&dead).contains("not connected"), "{}", told(&dead));
    let service = Service::start(&root);
    service.hears("READY=1");
    root.run("grep -q text /mnt/t/blob/file && echo more > /mnt/t/blob/more");

    // Stop is SIGTERM: it asks for the time that the drain may take.
    service.kill(Signal::TERM);
    let stopping = service.hears("STOPPING=1");
    let asked: u64 =
        stopping.rsplit_once("EXTEND_TIMEOUT_USEC=").expect("a time").1.trim().parse().expect("a number");
    assert!(asked > 600_000_000, "{stopping}");
    let root = service.root;
    assert_eq!(service.ended(), Some(0));
    for (name, text) in [("file", "text\n"), ("more", "more\n")] {
        assert_eq!(fs::read_to_string(root.path("srv/t/blob/blob").join(name)).expect("home"), text);
    }
    root.run("! mountpoint -q /mnt/t");
}

#[test]
fn a_wrong_config_ends_with_the_code_that_the_unit_does_not_restart() {
    let root = rig();
    fs::write(root.path("etc/tierfs/t.toml"), "[mount]\nmemroy = \"1GiB\"\n").expect("a config");
    let code = Service::start(&root).ended().expect("a code");
    assert_eq!(unit("RestartPreventExitStatus"), [code.to_string()]);
}

#[test]
fn systemd_understands_unit_tmpfiles_and_sysusers() {
    let root = rig();
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd");
    for (from, to) in [
        ("tierfs@.service", "usr/lib/systemd/system/tierfs@.service"),
        ("tmpfiles.conf", "usr/lib/tmpfiles.d/tierfs.conf"),
        ("sysusers.conf", "usr/lib/sysusers.d/tierfs.conf"),
    ] {
        let to = root.path(to);
        fs::create_dir_all(to.parent().expect("a parent")).expect("mkdir");
        fs::copy(packaging.join(from), to).expect("a copy");
    }
    for name in ["bin/tierfs", "bin/tierstat"] {
        root.chmod(&format!("usr/{name}"), 0o755);
    }
    let verified = root.try_run("systemd-analyze verify --man=no tierfs@t.service");
    let said = told(&verified);
    assert!(verified.status.success() && !said.contains("tierfs@"), "{said}");
    root.run("systemd-sysusers tierfs.conf && id tierfs");
    root.run("rmdir /etc/tierfs 2>/dev/null; rm -rf /var/lib/tierfs; systemd-tmpfiles --create tierfs.conf");
    assert_eq!(root.run("stat -c %a /run/tierfs /var/lib/tierfs"), "755\n700\n");
}
