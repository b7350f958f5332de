//! Who may do what: several users, read-only mounts, and options that the kernel enforces.

use crate::support::{BOTH, Mount, Tiers};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const ALICE: u32 = 30_001;
const BOB: u32 = 30_002;
const HOMES: [&str; 3] = ["d", "share", "blob"];

/// Whether a shell command on `path` (its `$0`) succeeds as this user.
fn can(user: u32, script: &str, path: &Path) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(path).uid(user).gid(user).current_dir("/");
    command.stderr(std::process::Stdio::null()).status().expect("sh").success()
}

fn shared(tiers: &Tiers) {
    fs::set_permissions(tiers.workspace(), Permissions::from_mode(0o755)).expect("chmod");
}

#[test]
fn several_users_have_what_is_theirs() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        shared(&tiers);
        let mut mount = Mount::of(&tiers).mode(mode).option("allow_other").start();
        for home in HOMES {
            fs::create_dir(mount.path(home)).expect("mkdir");
            fs::set_permissions(mount.path(home), Permissions::from_mode(0o1777)).expect("chmod");
        }
        let check = |mount: &Mount| {
            for home in HOMES {
                let file = mount.path(home).join("hers");
                let stat = fs::metadata(&file).expect("stat");
                assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o777), (ALICE, ALICE, 0o640), "{home}");
                assert!(can(ALICE, "cat $0 && echo more >>$0 && chmod 640 $0", &file), "{home}");
                for script in
                    ["cat $0", "echo x >>$0", "chmod 666 $0", "rm -f $0 && ! test -e $0", "mv $0 $0.his"]
                {
                    assert!(!can(BOB, script, &file), "{home}: {script}");
                }
                assert!(!can(BOB, "chown 30002 $0", &file), "{home}: chown");
            }
        };
        for home in HOMES {
            let file = mount.path(home).join("hers");
            assert!(can(ALICE, "umask 027; echo mine >$0", &file), "{home}");
        }
        check(&mount);
        mount.flush();
        assert!(mount.unmount().success(), "{}", mount.log());
        mount.remount();
        check(&mount);
        let hers = fs::metadata(tiers.share.join("share/hers")).expect("natively hers");
        assert_eq!(hers.uid(), ALICE);
    }
}

#[test]
fn without_allow_other_only_the_owner_comes_in() {
    let tiers = Tiers::with_directories();
    shared(&tiers);
    let mount = Mount::of(&tiers).start();
    fs::write(mount.path("f"), "f").expect("a write");
    assert!(!can(ALICE, "cat $0", &mount.path("f")));
    assert!(can(0, "cat $0", &mount.path("f")));
}

#[test]
fn a_read_only_mount_changes_nothing() {
    for mode in BOTH {
        let tiers = Tiers::with_azurite();
        let mut mount = Mount::of(&tiers).mode(mode).start();
        for home in HOMES {
            fs::create_dir(mount.path(home)).expect("mkdir");
            fs::write(mount.path(home).join("f"), "text").expect("a write");
        }
        mount.flush();
        assert!(mount.unmount().success(), "{}", mount.log());
        let seen = || [tiers.blob_names(), tiers.scratch_names(), tiers.share_names()];
        let before = seen();
        let reader = Mount::of(&tiers).mode(mode).named("reader").option("ro").start();
        for home in HOMES {
            let path = reader.path(home).join("f");
            assert_eq!(fs::read(&path).expect("a read"), b"text", "{home}");
            let refused = [
                fs::write(&path, "other"),
                fs::write(reader.path(home).join("new"), "new"),
                fs::create_dir(reader.path(home).join("e")),
                fs::remove_file(&path),
                fs::rename(&path, reader.path(home).join("g")),
                fs::set_permissions(&path, Permissions::from_mode(0o600)),
                std::os::unix::fs::symlink("x", reader.path(home).join("l")),
            ];
            for (i, result) in refused.into_iter().enumerate() {
                let error = result.expect_err("a read-only file system");
                assert_eq!(error.raw_os_error(), Some(libc::EROFS), "{home}: call {i}: {error}");
            }
            assert_eq!(fs::read(&path).expect("a read"), b"text", "{home}");
        }
        assert_eq!(seen(), before);
    }
}

#[test]
fn set_uid_programs_and_devices_count_only_where_the_options_say_so() {
    for (options, honoured) in [(&["nosuid", "nodev"][..], false), (&["suid", "dev"], true)] {
        let tiers = Tiers::with_directories();
        shared(&tiers);
        let builder =
            options.iter().fold(Mount::of(&tiers).option("allow_other"), |builder, o| builder.option(o));
        let mount = builder.start();
        let program = mount.path("id");
        fs::copy("/usr/bin/id", &program).expect("a copy");
        chown(&program, Some(BOB), Some(BOB)).expect("chown");
        fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("chmod");
        assert_eq!(can(ALICE, "test $($0 -u) = 30002", &program), honoured, "{options:?}");
        let null = mount.path("null");
        let device = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &null,
            rustix::fs::FileType::CharacterDevice,
            0o666.into(),
            device,
        )
        .expect("mknod");
        fs::set_permissions(&null, Permissions::from_mode(0o666)).expect("chmod");
        assert_eq!(can(ALICE, "echo x >$0", &null), honoured, "{options:?}");
    }
}
