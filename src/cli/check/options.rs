//! How the file systems of directory tiers are mounted, against what is recommended. Pure: out of the words of mountinfo.

use super::finding::Finding;
use crate::control::mounts::Mount;

/// KiB that NFS should read ahead: the default of newer kernels is far too little for a share with latency.
const NFS_READ_AHEAD_KIB: u64 = 15_360;

/// What is to be said of a tier on `mount`; `read_ahead_kib` where the kernel tells it.
pub(super) fn told(what: &str, mount: &Mount, read_ahead_kib: Option<u64>) -> Vec<Finding> {
    let options = Options { words: mount.super_options.split(',').chain(mount.options.split(',')).collect() };
    let mut found = match mount.fs_type.as_str() {
        "nfs" | "nfs4" => nfs(what, &options, read_ahead_kib),
        "cifs" | "smb3" => smb(what, &options),
        _ => return Vec::new(),
    };
    if found.is_empty() {
        found.push(Finding::ok(what, format!("{} is mounted as recommended", mount.point.display())));
    }
    found
}

struct Options<'a> {
    words: Vec<&'a str>,
}

impl Options<'_> {
    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }
}

fn nfs(what: &str, options: &Options<'_>, read_ahead_kib: Option<u64>) -> Vec<Finding> {
    let mut found = Vec::new();
    if options.has("soft") || options.has("softerr") {
        found.push(Finding::warn(
            what,
            "NFS is mounted soft: writes are lost when the share is slow; mount with hard",
        ));
    }
    if options.value("vers").is_some_and(|version| !version.starts_with("4.")) {
        found.push(Finding::warn(what, "NFS before 4.1: mount with vers=4,minorversion=1"));
    }
    if options.number("nconnect").is_none_or(|connections| connections < 4) {
        found.push(Finding::warn(what, "NFS over one connection is slow: mount with nconnect=4"));
    }
    if !options.has("noresvport") {
        found.push(Finding::warn(
            what,
            "NFS may not come back after a lost connection: mount with noresvport",
        ));
    }
    // The kernel tells only what is not its default, and the default of directories is 30.
    if options.number("acregmax").is_none_or(|seconds| seconds > 30) {
        found.push(Finding::warn(what, "NFS may show attributes a minute late: mount with actimeo=30"));
    }
    if let Some(kib) = read_ahead_kib.filter(|kib| *kib < NFS_READ_AHEAD_KIB) {
        found.push(Finding::warn(
            what,
            format!(
                "NFS reads ahead {kib} KiB: set read_ahead_kb of its bdi to {NFS_READ_AHEAD_KIB} (udev rule)"
            ),
        ));
    }
    found
}

fn smb(what: &str, options: &Options<'_>) -> Vec<Finding> {
    let wanted = [
        ("mfsymlinks", "SMB can't hold symlinks: mount with mfsymlinks"),
        ("nosharesock", "SMB mounts share one connection: mount with nosharesock"),
        ("nobrl", "SMB sends every lock to the server: mount with nobrl"),
    ];
    let mut found: Vec<Finding> = wanted
        .into_iter()
        .filter(|(word, _)| !options.has(word))
        .map(|(_, said)| Finding::warn(what, said))
        .collect();
    if options.value("cache").is_some_and(|cache| cache != "strict") {
        found.push(Finding::warn(
            what,
            "SMB may show stale bytes or read every byte twice: mount with cache=strict",
        ));
    }
    if options.value("vers").is_some_and(|version| !version.starts_with("3.1")) {
        found.push(Finding::warn(what, "SMB before 3.1.1: mount with vers=3.1.1"));
    }
    if options.number("actimeo").is_none_or(|seconds| seconds > 30) {
        found.push(Finding::warn(
            what,
            "SMB asks for attributes too often or too late: mount with actimeo=30",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::text::Style;
    use crate::control::mounts;

    /// The findings of the only mount of `info`.
    fn lines(info: &str, read_ahead: Option<u64>) -> Vec<String> {
        let mounts = mounts::parse(info.as_bytes());
        let found = told("tier share", &mounts[0], read_ahead);
        found.iter().map(|finding| finding.line(Style::plain())).collect()
    }

    const GOOD_NFS: &str = "91 29 0:60 / /mnt/share rw,relatime shared:1 - nfs4 x.file.core.windows.net:/x/share \
        rw,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,acregmin=30,acregmax=30,acdirmax=30,hard,noresvport,proto=tcp,\
        nconnect=4,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.4,local_lock=none,addr=10.0.0.5\n";
    const GOOD_SMB: &str = "92 29 0:61 / /mnt/share rw,relatime - cifs //x.file.core.windows.net/share \
        rw,vers=3.1.1,cache=strict,username=x,uid=0,forceuid,addr=10.0.0.5,file_mode=0777,dir_mode=0777,soft,persistenthandles,\
        nounix,serverino,mapposix,nobrl,mfsymlinks,nosharesock,rsize=1048576,actimeo=30\n";

    #[test]
    fn recommended_options_are_fine() {
        let fine = ["ok    tier share: /mnt/share is mounted as recommended"];
        assert_eq!(lines(GOOD_NFS, Some(15_360)), fine);
        assert_eq!(lines(GOOD_NFS, None), fine);
        assert_eq!(lines(GOOD_SMB, None), fine);
        assert_eq!(lines("93 29 8:1 / /data rw - ext4 /dev/sda1 rw\n", Some(128)), [""; 0]);
    }

    #[test]
    fn each_weaker_option_is_named_with_the_better_one() {
        let nfs =
            "91 29 0:60 / /mnt/share rw - nfs4 x:/x rw,vers=4.0,soft,proto=tcp,nconnect=2,acregmax=60\n";
        let said = lines(nfs, Some(128));
        let wanted = ["hard", "nconnect=4", "noresvport", "actimeo=30", "15360"];
        assert!(wanted.iter().all(|word| said.iter().any(|line| line.contains(word))), "{said:#?}");
        assert!(said.iter().all(|line| line.starts_with("warn  tier share: ")), "{said:#?}");
        let smb = "92 29 0:61 / /mnt/share rw - cifs //x/share rw,vers=2.1,cache=none,serverino,actimeo=60\n";
        let said = lines(smb, None);
        let wanted = ["mfsymlinks", "nosharesock", "nobrl", "cache=strict", "vers=3.1.1", "actimeo=30"];
        assert!(wanted.iter().all(|word| said.iter().any(|line| line.contains(word))), "{said:#?}");
        let old = GOOD_NFS.replace("vers=4.1", "vers=3");
        assert!(lines(&old, None)[0].contains("vers=4,minorversion=1"));
    }
}
