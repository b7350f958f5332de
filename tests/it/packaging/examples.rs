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
