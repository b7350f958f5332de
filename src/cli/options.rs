//! `-o` of `tierfs mount`, as mount(8) and fstab pass it.

use clap::ValueEnum;

/// For `tierfs mount --help`.
pub(super) const HELP: &str = "\
Mount options:
  allow_other              let other users in (when a user mounts, /etc/fuse.conf
                           must say user_allow_other)
  nonempty                 mount over a directory with entries, which are hidden
                           meanwhile
  ro, rw                   read-only, or not (default)
  uid=N, gid=N             owner of what carries none, such as other tools' blobs
                           (default: who mounts)
  umask=OCTAL              bits to leave out for what carries no mode (default: 022)
  fsname=NAME              name in df and /proc/mounts (default: the config file)
  passthrough=auto|on|off  the kernel reads and writes resident files itself:
                           where it can (default), or the mount fails, or never
  nodev, nosuid, noexec, noatime and their opposites go to the kernel.
  defaults, auto, noauto, nofail, user, users, _netdev, x-* and comment=* are for
  mount(8) and change nothing here.";

/// How to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Other users may enter.
    pub allow_other: bool,
    /// The mount point may have entries; they are hidden meanwhile.
    pub nonempty: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Owner of what carries none.
    pub uid: Option<u32>,
    /// Group of what carries none.
    pub gid: Option<u32>,
    /// Permission bits to leave out for what carries no mode.
    pub umask: Option<u32>,
    /// Name in df and /proc/mounts.
    pub fsname: Option<String>,
    /// Whether the kernel reads and writes resident files itself.
    pub passthrough: Passthrough,
    /// Options that the kernel understands, the last of each pair that was given.
    pub kernel: KernelOptions,
}

/// Whether the kernel reads and writes resident files itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Passthrough {
    /// Where kernel and privileges allow.
    #[default]
    Auto,
    /// Or the mount fails.
    On,
    /// Never.
    Off,
}

/// What the kernel is told about the mount; `None`: its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOptions {
    /// Device nodes work.
    pub dev: Option<bool>,
    /// Set-uid and set-gid work.
    pub suid: Option<bool>,
    /// Programs run.
    pub exec: Option<bool>,
    /// Reads change access times.
    pub atime: Option<bool>,
}

/// For mount(8), fstab and systemd; nothing to do with what is mounted.
const IGNORED: [&str; 16] = [
    "",
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "relatime",
    "async",
    "nodiratime",
    "diratime",
    "norelatime",
];

/// All names, for suggestions.
const KNOWN: [&str; 20] = [
    "allow_other",
    "nonempty",
    "ro",
    "rw",
    "uid",
    "gid",
    "umask",
    "fsname",
    "passthrough",
    "noatime",
    "nodev",
    "nosuid",
    "noexec",
    "atime",
    "dev",
    "suid",
    "exec",
    "defaults",
    "_netdev",
    "nofail",
];

impl MountOptions {
    /// Reads comma-separated options; the last of two that contradict each other wins, as in mount(8).
    ///
    /// # Errors
    /// All that is wrong with them, a line each.
    pub fn parse<S: AsRef<str>>(given: &[S]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut problems = Vec::new();
        for option in given.iter().flat_map(|list| list.as_ref().split(',')).map(str::trim) {
            if let Err(problem) = options.take(option) {
                problems.push(format!("-o {option}: {problem}"));
            }
        }
        if problems.is_empty() { Ok(options) } else { Err(problems.join("\n")) }
    }

    fn take(&mut self, option: &str) -> Result<(), String> {
        if IGNORED.contains(&option) || option.starts_with("x-") || option.starts_with("comment=") {
            return Ok(());
        }
        match option.split_once('=') {
            Some((name, value)) => self.take_value(name, value),
            None => self.take_flag(option),
        }
    }

    fn take_flag(&mut self, name: &str) -> Result<(), String> {
        match name {
            "allow_other" => self.allow_other = true,
            "nonempty" => self.nonempty = true,
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "dev" | "nodev" => self.kernel.dev = Some(name == "dev"),
            "suid" | "nosuid" => self.kernel.suid = Some(name == "suid"),
            "exec" | "noexec" => self.kernel.exec = Some(name == "exec"),
            "atime" | "noatime" => self.kernel.atime = Some(name == "atime"),
            "uid" | "gid" | "umask" | "fsname" | "passthrough" => {
                return Err(format!("needs a value; write {name}={}", example(name)));
            }
            "allow_root" => return Err("is not supported; write allow_other".into()),
            "default_permissions" => return Err("is always on; remove it".into()),
            "sync" | "dirsync" => return Err("is not supported; programs that need it call fsync".into()),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn take_value(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "uid" => self.uid = Some(id(value, "id -u NAME")?),
            "gid" => self.gid = Some(id(value, "getent group NAME")?),
            "umask" => self.umask = Some(umask(value)?),
            "fsname" if value.is_empty() => return Err("is empty; write a name, such as fsname=train".into()),
            "fsname" => self.fsname = Some(value.to_owned()),
            "passthrough" => {
                self.passthrough = Passthrough::from_str(value, false)
                    .map_err(|_| "write passthrough=auto, passthrough=on or passthrough=off".to_owned())?;
            }
            "allow_other" | "nonempty" | "ro" | "rw" | "dev" | "nodev" | "suid" | "nosuid" | "exec"
            | "noexec" | "noatime" => {
                return Err(format!("takes no value; write {name}"));
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

fn example(name: &str) -> &'static str {
    match name {
        "uid" | "gid" => "1000",
        "umask" => "022",
        "passthrough" => "auto",
        _ => "train",
    }
}

fn id(value: &str, how: &str) -> Result<u32, String> {
    match value.parse() {
        // -1 means "leave it" to chown(2) and is nobody's id.
        Ok(u32::MAX) | Err(_) => Err(format!("is no number from 0 to 4294967294; `{how}` prints it")),
        Ok(id) => Ok(id),
    }
}

fn umask(value: &str) -> Result<u32, String> {
    match u32::from_str_radix(value, 8) {
        Ok(mask) if mask <= 0o777 && !value.starts_with('+') => Ok(mask),
        _ => Err("is no octal mask from 000 to 777; write umask=022".into()),
    }
}

fn unknown(name: &str) -> String {
    format!("unknown option{}", crate::config::did_you_mean(name, KNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_fstab_are_understood() {
        let options = MountOptions::parse(&[
            "defaults,_netdev,nofail,x-systemd.automount,comment=x,noauto",
            "allow_other,nonempty,uid=1000,gid=0,umask=027,fsname=train,passthrough=off,nodev,nosuid,noexec,noatime,exec",
        ]);
        let expected = MountOptions {
            allow_other: true,
            nonempty: true,
            read_only: false,
            uid: Some(1000),
            gid: Some(0),
            umask: Some(0o027),
            fsname: Some("train".into()),
            passthrough: Passthrough::Off,
            kernel: KernelOptions {
                dev: Some(false),
                suid: Some(false),
                exec: Some(true),
                atime: Some(false),
            },
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(MountOptions::parse::<&str>(&[]), Ok(MountOptions::default()));
        assert!(!MountOptions::parse(&["ro,rw"]).unwrap().read_only, "the last one wins");
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let said = MountOptions::parse(&[
            "uid=bob,umask=999,alow_other",
            "ro=1,passthrough=yes,gid,frobnicate,uid=4294967295",
        ]);
        let expected = "\
-o uid=bob: is no number from 0 to 4294967294; `id -u NAME` prints it
-o umask=999: is no octal mask from 000 to 777; write umask=022
-o alow_other: unknown option; did you mean `allow_other`?
-o ro=1: takes no value; write ro
-o passthrough=yes: write passthrough=auto, passthrough=on or passthrough=off
-o gid: needs a value; write gid=1000
-o frobnicate: unknown option
-o uid=4294967295: is no number from 0 to 4294967294; `id -u NAME` prints it";
        assert_eq!(said, Err(expected.to_owned()));
    }
}
