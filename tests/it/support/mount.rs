//! A real mount of the real binary: start, kill, mount again, ask its commands.

use super::blob_server::BlobServer;
use super::site::{Blob, Tiers};
use super::wait::{self, Mounted};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// How file data goes: straight through the kernel, or by the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Linux 6.9 and later, as root: the kernel reads and writes the backing file.
    Passthrough,
    /// Everywhere else: every read and write is a request to the daemon.
    Ordinary,
}

impl Mode {
    /// The mount option that asks for it.
    fn option(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough=on",
            Self::Ordinary => "passthrough=off",
        }
    }
}

/// Both modes.
pub const BOTH: [Mode; 2] = [Mode::Passthrough, Mode::Ordinary];

/// Rules for tests: a directory each for a home on Blob, on the share, on scratch.
pub const RULES: &str = r#"
[[rule]]
path = "blob/**"
home = "blob"
stage = "scratch"
settle = "0s"

[[rule]]
path = "hot/**"
home = "blob"
hot = "scratch"
promote = "on-read"
settle = "0s"

[[rule]]
path = "share/**"
home = "share"

[[rule]]
path = "**"
home = "scratch"
"#;

/// What a mount is to be like; starts from [`Mount::of`].
#[derive(Debug)]
pub struct MountBuilder<'a> {
    tiers: &'a Tiers,
    name: String,
    mode: Mode,
    rules: String,
    revalidate: &'static str,
    mount_keys: String,
    blob_url: Option<String>,
    blob_auth: Option<String>,
    blob_keys: String,
    scratch_keys: String,
    share_keys: String,
    environment: Vec<(String, String)>,
    options: Vec<String>,
    catalog: Option<PathBuf>,
}

impl<'a> MountBuilder<'a> {
    /// Name of the mount: two mounts of the same tiers need two.
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// In this mode.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Tiers are asked again as late as by default; else at every chance, so that no test waits for it.
    pub fn default_revalidate(mut self) -> Self {
        self.revalidate = "";
        self
    }

    /// With these `[[rule]]`s.
    pub fn rules(mut self, rules: &str) -> Self {
        rules.clone_into(&mut self.rules);
        self
    }

    /// With a further line in `[mount]`.
    pub fn mount_key(mut self, line: &str) -> Self {
        self.mount_keys.push_str(line);
        self.mount_keys.push('\n');
        self
    }

    /// With the blob tier at another address: a proxy's, another server's.
    pub fn blob_url(mut self, url: String) -> Self {
        self.blob_url = Some(url);
        self
    }

    /// With another way to sign in than the account key.
    pub fn blob_auth(mut self, auth: &str) -> Self {
        self.blob_auth = Some(auth.to_owned());
        self
    }

    /// With a further line in `[tier.blob]`.
    pub fn blob_key(mut self, line: &str) -> Self {
        self.blob_keys.push_str(line);
        self.blob_keys.push('\n');
        self
    }

    /// With a further line in `[tier.scratch]`.
    pub fn scratch_key(mut self, line: &str) -> Self {
        self.scratch_keys.push_str(line);
        self.scratch_keys.push('\n');
        self
    }

    /// With a further line in `[tier.share]`.
    pub fn share_key(mut self, line: &str) -> Self {
        self.share_keys.push_str(line);
        self.share_keys.push('\n');
        self
    }

    /// With a variable in the daemon's environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a further `-o` option.
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// With its catalog in this directory.
    pub fn catalog_in(mut self, directory: &Path) -> Self {
        self.catalog = Some(directory.to_owned());
        self
    }

    /// Writes the config and makes the directories, but mounts nothing.
    pub fn prepare(self) -> Mount {
        let place = self.tiers.workspace().join(&self.name);
        let mountpoint = place.join("mnt");
        fs::create_dir_all(&mountpoint).expect("a mount point");
        let config = place.join("tierfs.toml");
        fs::write(&config, self.config(&place)).expect("a config");
        let mut options = self.options;
        options.push(self.mode.option().to_owned());
        Mount {
            config,
            mountpoint,
            log: place.join("log"),
            options,
            environment: self.environment,
            daemon: None,
        }
    }

    /// Mounts it.
    ///
    /// # Panics
    /// With the daemon's log if it does not get there.
    pub fn start(self) -> Mount {
        let mut mount = self.prepare();
        mount.remount();
        mount
    }

    fn config(&self, place: &Path) -> String {
        let mut config = format!(
            "[mount]\ncatalog = \"sqlite://{catalog}/catalog.db\"\ncontrol = \"{place}/control.sock\"\nstage = \"scratch\"\n\
             {keys}\n[tier.scratch]\nkind = \"lustre\"\npath = \"{scratch}\"\n{revalidate}\n{scratch_keys}\
             [tier.share]\nkind = \"azure-files\"\npath = \"{share}\"\n{revalidate}\n{share_keys}\
             [tier.blob]\nkind = \"blob\"\n{revalidate}",
            revalidate = self.revalidate,
            place = place.display(),
            catalog = self.catalog.as_deref().unwrap_or(place).display(),
            keys = self.mount_keys,
            scratch_keys = self.scratch_keys,
            share_keys = self.share_keys,
            scratch = self.tiers.scratch.display(),
            share = self.tiers.share.display(),
        );
        let url = match (&self.blob_url, &self.tiers.blob) {
            (Some(url), _) => url.clone(),
            (None, Blob::Azurite(container)) => container.url(),
            (None, Blob::Directory(path)) => format!("file://{}", path.display()),
        };
        writeln!(config, "url = \"{url}\"").expect("writing to a String");
        if let Some(auth) = &self.blob_auth {
            writeln!(config, "auth = \"{auth}\"").expect("writing to a String");
        } else if url.starts_with("http") {
            let key = place.join("key");
            fs::write(&key, super::container::KEY).expect("a key file");
            fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("chmod");
            writeln!(config, "auth = \"key\"\nkey_file = \"{}\"", key.display())
                .expect("writing to a String");
        }
        config + &self.blob_keys + &self.rules
    }
}

/// A mount with `rules` over a Blob server of its own, with these directories on it.
pub fn on_own_server(rules: &str, mode: Mode, directories: &[&str]) -> (BlobServer, Tiers, Mount) {
    let server = BlobServer::start();
    let tiers = Tiers::with_server(&server);
    let mount = Mount::of(&tiers).mode(mode).rules(rules).default_revalidate().start();
    for directory in directories {
        fs::create_dir(mount.path(directory)).expect("mkdir");
    }
    mount.flush();
    (server, tiers, mount)
}

/// A mount of tierfs; unmounted and its daemon ended when dropped.
#[derive(Debug)]
pub struct Mount {
    config: PathBuf,
    mountpoint: PathBuf,
    log: PathBuf,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    daemon: Option<Child>,
}

impl Mount {
    /// A mount of `tiers`, in ordinary mode with [`RULES`] unless told otherwise.
    pub fn of(tiers: &Tiers) -> MountBuilder<'_> {
        MountBuilder {
            tiers,
            name: "m".to_owned(),
            mode: Mode::Ordinary,
            rules: RULES.to_owned(),
            revalidate: "revalidate = \"0s\"\n",
            mount_keys: String::new(),
            blob_url: None,
            blob_auth: None,
            blob_keys: String::new(),
            scratch_keys: String::new(),
            share_keys: String::new(),
            environment: Vec::new(),
            options: Vec::new(),
            catalog: None,
        }
    }

    /// The mount point.
    pub fn root(&self) -> &Path {
        &self.mountpoint
    }

    /// A path below the mount point.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.mountpoint.join(relative)
    }

    /// The config file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// What the daemons of this mount have said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Process id of the daemon.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("a running daemon").id()
    }

    /// `tierfs mount … --foreground`, not started yet.
    pub fn mount_command(&self) -> Command {
        let mut command = tierfs();
        command.arg("mount").arg(&self.config).arg(&self.mountpoint).arg("--foreground");
        command.args(["-o", &self.options.join(",")]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Mounts it (again).
    ///
    /// # Panics
    /// With the daemon's log if it does not get there.
    pub fn remount(&mut self) {
        assert!(self.daemon.is_none(), "the daemon still runs");
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        let mut command = self.mount_command();
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let child = command.spawn().expect("the tierfs binary");
        let pidfd = pidfd(&child);
        self.daemon = Some(child);
        // A dead mount of before is listed too until the new daemon has cleaned it up.
        wait::until("the mount answers, or its daemon ends", || {
            match wait::for_mount(&self.mountpoint, &pidfd).expect("mountinfo") {
                // Between the two the bare directory answers too.
                Mounted::Yes => {
                    // What the kernel remembers of a dead mount's root would do for a stat.
                    let answers = rustix::fs::statfs(&self.mountpoint).is_ok();
                    answers && wait::is_mounted(&self.mountpoint) || has_ended(&pidfd)
                }
                Mounted::ProcessEnded | Mounted::InVain => true,
            }
        });
        assert!(!has_ended(&pidfd) && wait::is_mounted(&self.mountpoint), "no mount:\n{}", self.log());
    }

    /// Removes the catalog of a mount whose daemon has ended.
    pub fn lose_catalog(&self) {
        for suffix in ["", "-wal", "-shm"] {
            let catalog = self.config.with_file_name(format!("catalog.db{suffix}"));
            assert!(fs::remove_file(catalog).is_ok() || !suffix.is_empty());
        }
    }

    /// Sets a variable for the daemons from the next [`Mount::remount`] on; an empty value removes it.
    pub fn set_environment(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.environment.push((name.to_owned(), value.to_owned()));
        }
    }

    /// SIGKILL; returns when the daemon is gone. The dead mount stays.
    pub fn kill9(&mut self) {
        let mut daemon = self.daemon.take().expect("a running daemon");
        daemon.kill().expect("SIGKILL");
        daemon.wait().expect("the daemon's end");
    }

    /// Waits for the daemon to end by itself.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        self.daemon.take().expect("a running daemon").wait().expect("the daemon's end")
    }

    /// `tierfs unmount`; returns when the daemon is gone, with its exit status.
    pub fn unmount(&mut self) -> ExitStatus {
        self.tierfs(&["unmount"]);
        self.wait_for_end()
    }

    /// SIGTERM; returns at once.
    pub fn signal(&self) {
        let daemon = self.daemon.as_ref().expect("a running daemon");
        rustix::process::kill_process(pid_of(daemon), Signal::TERM).expect("SIGTERM");
    }

    /// SIGHUP; returns at once.
    pub fn hang_up(&self) {
        let daemon = self.daemon.as_ref().expect("a running daemon");
        rustix::process::kill_process(pid_of(daemon), Signal::HUP).expect("SIGHUP");
    }

    /// SIGTERM; returns when the daemon is gone, with its exit status.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal();
        self.wait_for_end()
    }

    /// `tierfs VERB… MOUNTPOINT`, which must succeed; its standard output.
    pub fn tierfs(&self, arguments: &[&str]) -> String {
        let output = self.try_tierfs(arguments);
        assert!(output.status.success(), "tierfs {arguments:?}: {}\n{}", told(&output), self.log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same whatever comes of it.
    pub fn try_tierfs(&self, arguments: &[&str]) -> Output {
        tierfs()
            .args(arguments)
            .arg(&self.mountpoint)
            .stdin(Stdio::null())
            .output()
            .expect("the tierfs binary")
    }

    /// `tierfs VERB…` for these paths below the mount point, whatever comes of it.
    pub fn tierfs_at(&self, arguments: &[&str], relative: &[&str]) -> Output {
        let paths = relative.iter().map(|path| self.path(path));
        tierfs().args(arguments).args(paths).stdin(Stdio::null()).output().expect("the tierfs binary")
    }

    /// `tierfs flush`: returns when all that is closed is at home.
    pub fn flush(&self) {
        self.tierfs(&["flush"]);
    }

    /// The same for what is at or below `relative`, and what comes before it in its order.
    pub fn flush_path(&self, relative: &str) {
        let output = tierfs()
            .arg("flush")
            .arg(self.path(relative))
            .stdin(Stdio::null())
            .output()
            .expect("the tierfs binary");
        assert!(output.status.success(), "tierfs flush {relative}: {}\n{}", told(&output), self.log());
    }

    /// `tierstat MOUNTPOINT…`, which must succeed; its standard output.
    pub fn tierstat(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tierstat"));
        let output = command.args(arguments).arg(&self.mountpoint).output().expect("the tierstat binary");
        assert!(output.status.success(), "tierstat {arguments:?}: {}", told(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// All facts of the daemon: `tierstat --json`.
    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.tierstat(&["--json"])).expect("JSON")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}---", self.mountpoint.display(), self.log());
        }
        if let Some(mut daemon) = self.daemon.take() {
            // Both fail only if it ended already.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        detach(&self.mountpoint);
    }
}

/// An extended attribute.
pub fn xattr(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 64 << 10];
    let length = rustix::fs::getxattr(path, name, &mut value).expect("getxattr");
    value.truncate(length);
    value
}

/// Sets how far the kernel reads ahead on what is mounted at `mountpoint`.
pub fn set_read_ahead(mountpoint: &Path, kib: u32) {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata(mountpoint).expect("stat").dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), kib.to_string())
        .expect("read_ahead_kb");
}

/// Takes away whatever is mounted at `mountpoint`, in use or not.
pub fn detach(mountpoint: &Path) {
    while wait::is_mounted(mountpoint) {
        let status = Command::new("umount").arg("-l").arg(mountpoint).status().expect("umount");
        if !status.success() {
            eprintln!("umount -l {}: {status}", mountpoint.display());
            return;
        }
    }
}

/// The tierfs binary without colours or credentials of this machine, ended when the calling thread ends.
pub fn tierfs() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tierfs"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AZURE_")) {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1");
    end_with_us(&mut command);
    command
}

/// Lets the kernel kill the child when the thread that starts it ends: a killed test leaves no daemon behind.
pub fn end_with_us(command: &mut Command) {
    let set = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only prctl(2) is called, which is async-signal-safe.
    unsafe { command.pre_exec(set) };
}

/// What a command printed and how it ended, for messages.
pub fn told(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Becomes readable when the child ends.
pub fn pidfd(child: &Child) -> OwnedFd {
    pidfd_open(pid_of(child), PidfdFlags::empty()).expect("a pidfd of a child")
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
