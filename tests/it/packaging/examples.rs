//! Examples that users start from: each is a config that is right.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_example_is_a_config_that_is_right() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples");
    let mut seen = 0;
    for entry in fs::read_dir(examples).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let mut show = Command::new(env!("CARGO_BIN_EXE_tierfs"));
        let output = show
            .args(["config".as_ref(), "show".as_ref(), path.as_os_str()])
            .envs([
                ("TEAM", "vision"),
                ("HOSTNAME", "vm-1"),
                ("POD_IP", "10.0.0.7"),
                ("AZURE_STORAGE_ACCOUNT", "myaccount"),
            ])
            .output()
            .expect("tierfs");
        let told = crate::support::mount::told(&output);
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {told}", path.display());
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}

#[test]
fn every_config_in_the_readme_is_right() {
    let readme =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("the README");
    let dir = tempfile::TempDir::new().expect("a directory");
    let mut seen = 0;
    for block in readme.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next()) {
        let file = dir.path().join("readme.toml");
        fs::write(&file, block).expect("a config");
        let mut show = Command::new(env!("CARGO_BIN_EXE_tierfs"));
        let output = show.args(["config", "show"]).arg(&file).output().expect("tierfs");
        assert!(output.status.success(), "{}\n{block}", crate::support::mount::told(&output));
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}
