//! Every way to sign in, credentials that end while the mount lives, and nobody to whom they are told.

use super::*;
use crate::support::blob_server::{Effect, When};
use crate::support::mount::{told, xattr};
use crate::support::wait;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// C110: a token lives for two seconds instead of a minute.
#[test]
fn tokens_are_renewed_before_they_end() {
    let (server, tiers, container) = own();
    let life = Duration::from_secs(2);
    server.put_synthetic(&container, "blob/big", 64 << 20);
    server.tokens().require(life);
    let mount =
        Mount::of(&tiers).blob_auth("msi").environment("IDENTITY_ENDPOINT", &server.token_endpoint()).start();
    let mut open = fs::File::open(mount.path("blob/big")).expect("open");
    let mut dirty = fs::File::create(mount.path("blob/dirty")).expect("create");
    let (began, mut round) = (Instant::now(), 0_u64);
    wait::until("four lives of a token", || {
        round += 1;
        let mut part = [0; 4096];
        let at = (round * 3_000_000) % (60 << 20);
        open.seek(SeekFrom::Start(at))
            .and_then(|_| open.read_exact(&mut part))
            .expect("an open file goes on");
        assert!(part[..] == server.bytes_at(at..at + 4096));
        dirty.write_all(b"more").expect("a write");
        let name = format!("blob/f{round}");
        fs::write(mount.path(&name), name.as_bytes()).expect("a write");
        began.elapsed() > 4 * life
    });
    drop(dirty);
    mount.flush();
    for i in 1..=round {
        let name = format!("blob/f{i}");
        assert_eq!(server.get(&container, &name), Some(name.into_bytes()));
    }
    assert_eq!(server.get(&container, "blob/dirty").map(|bytes| bytes.len() as u64), Some(4 * round));
    let (issued, refused) = (server.tokens().issued(), server.tokens().refused());
    assert!(issued >= 4, "{issued} tokens");
    assert_eq!(refused, 0, "a token was used after its end");
}

#[test]
fn a_token_that_was_taken_back_is_replaced() {
    let (server, tiers, container) = own();
    server.tokens().require(Duration::from_secs(3600));
    let mount =
        Mount::of(&tiers).blob_auth("msi").environment("IDENTITY_ENDPOINT", &server.token_endpoint()).start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("blob/f"), "one").expect("a write");
    mount.flush();
    server.tokens().revoke();
    assert_eq!(fs::read_dir(mount.path("blob")).expect("a directory").count(), 1);
    fs::write(mount.path("blob/g"), "two").expect("a write");
    mount.flush();
    assert_eq!(server.get(&container, "blob/g").as_deref(), Some(&b"two"[..]));
    assert!(server.tokens().issued() >= 2);
    let log = mount.log();
    assert!(!log.contains("token-"), "a token was logged");
}

/// Writes and reads through a mount that signs in by `auth`, with these keys and variables; answers what was said to get a token.
fn signs_in(auth: &str, keys: &[&str], variables: &[(&str, &str)]) -> String {
    let (server, tiers, container) = own();
    server.tokens().require(Duration::from_secs(3600));
    server.tokens().accept("token-of-the-cli");
    let mut mount = Mount::of(&tiers).blob_auth(auth);
    for key in keys {
        mount = mount.blob_key(key);
    }
    let authority = server.authority();
    let fixed = [("IDENTITY_ENDPOINT", server.token_endpoint()), ("AZURE_AUTHORITY_HOST", authority)];
    for (name, value) in
        fixed.iter().map(|(name, value)| (*name, value.as_str())).chain(variables.iter().copied())
    {
        mount = mount.environment(name, value);
    }
    let mount = mount.start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("blob/f"), auth).expect("a write");
    mount.flush();
    assert_eq!(server.get(&container, "blob/f").as_deref(), Some(auth.as_bytes()), "{auth}");
    server.tokens().asked().concat()
}

#[test]
fn a_managed_identity_is_named_as_it_is_told() {
    let said = signs_in("msi", &[], &[]);
    assert!(said.contains("resource=https://storage.azure.com"), "{said}");
    assert!(!said.contains("client_id") && !said.contains("msi_res_id"), "{said}");
    let resource =
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i";
    let of_key = signs_in("msi", &[&format!("resource_id = \"{resource}\"")], &[]);
    assert!(of_key.contains(&format!("msi_res_id={resource}\n")), "{of_key}");
    for (keys, variables, expected) in [
        (&["client_id = \"id-1\""][..], &[][..], "client_id=id-1\n"),
        (&[], &[("AZURE_STORAGE_IDENTITY_CLIENT_ID", "id-2")], "client_id=id-2\n"),
        (&[], &[("AZURE_STORAGE_IDENTITY_OBJECT_ID", "id-3")], "object_id=id-3\n"),
        (&[], &[("AZURE_STORAGE_IDENTITY_RESOURCE_ID", "id-4")], "msi_res_id=id-4\n"),
    ] {
        let said = signs_in("msi", keys, variables);
        assert!(said.contains(expected), "{expected} in {said}");
    }
    // What blobfuse2 takes for it.
    signs_in("auto", &[], &[("AZURE_STORAGE_AUTH_TYPE", "msi")]);
}

#[test]
fn a_workload_identity_brings_its_federated_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("federated");
    fs::write(&file, "an assertion").expect("a file");
    let file = file.display().to_string();
    let tenant = ("AZURE_TENANT_ID", "tenant");
    for (auth, variables) in [
        ("workload", [("AZURE_FEDERATED_TOKEN_FILE", file.as_str()), ("AZURE_CLIENT_ID", "id"), tenant]),
        ("auto", [("AZURE_OAUTH_TOKEN_FILE", file.as_str()), ("AZURE_CLIENT_ID", "id"), tenant]),
    ] {
        let said = signs_in(auth, &[], &variables);
        assert!(
            said.contains("client_assertion=an assertion\n") && said.contains("client_id=id\n"),
            "{said}"
        );
    }
}

#[test]
fn a_service_principal_brings_its_secret() {
    for names in [
        ["AZURE_STORAGE_SPN_CLIENT_ID", "AZURE_STORAGE_SPN_CLIENT_SECRET", "AZURE_STORAGE_SPN_TENANT_ID"],
        ["AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"],
    ] {
        for auth in ["spn", "auto"] {
            let said = signs_in(auth, &[], &[(names[0], "id"), (names[1], "s3cret"), (names[2], "tenant")]);
            assert!(said.contains("client_id=id\n") && said.contains("client_secret=s3cret\n"), "{said}");
        }
    }
}

#[test]
fn whoever_is_logged_in_to_the_command_line_will_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let az = folder.path().join("az");
    let answer = r#"{"accessToken":"token-of-the-cli","expiresOn":"2099-01-01 00:00:00.000000","subscription":"s","tenant":"t","tokenType":"Bearer"}"#;
    fs::write(&az, format!("#!/bin/sh\n[ \"$1 $2\" = 'account get-access-token' ] && echo '{answer}'\n"))
        .expect("a script");
    fs::set_permissions(&az, fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    for auth in ["cli", "auto"] {
        let said = signs_in(auth, &[], &[("PATH", &path), ("AZURE_STORAGE_AUTH_TYPE", "azcli")]);
        assert_eq!(said, "", "no token was asked for elsewhere");
    }
}

#[test]
fn a_new_sas_in_its_file_is_taken_without_a_restart() {
    let (server, tiers, container) = own();
    let file = tiers.workspace().join("sas");
    let sas = |signature: &str| format!("?sv=2021-08-06&sp=rwdlac&sig={signature}\n");
    server.tokens().require_signature("first");
    fs::write(&file, sas("first")).expect("a file");
    let key = format!("sas_file = \"{}\"", file.display());
    let mount = Mount::of(&tiers).rules(&patient()).blob_auth("sas").blob_key(&key).start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("blob/f"), "one").expect("a write");
    mount.flush();
    server.tokens().require_signature("second");
    fs::write(mount.path("blob/f"), "two").expect("a write");
    let late = mount.try_tierfs(&["flush", "--timeout", "500ms"]);
    assert_eq!(late.status.code(), Some(4), "{}", told(&late));
    fs::write(&file, sas("second")).expect("a file");
    mount.flush();
    assert_eq!(server.get(&container, "blob/f").as_deref(), Some(&b"two"[..]));
}

/// A secret is in no log, however much is logged, in no process list, in no answer of the daemon and in no error.
#[test]
fn nobody_is_told_a_secret() {
    let key = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA==";
    let kinds = [
        ("key", "key_file", key, key),
        ("sas", "sas_file", "sv=2021-08-06&sp=rwdlac&sig=s3cretSignature%3D", "s3cretSignature"),
        ("spn", "", "s3cretOfThePrincipal", "s3cretOfThePrincipal"),
    ];
    for (auth, file_key, secret, part) in kinds {
        let (server, tiers, _) = own();
        let file = tiers.workspace().join("secret");
        fs::write(&file, secret).expect("a file");
        let mut mount = Mount::of(&tiers).blob_auth(auth).blob_key("deadline = \"300ms\"");
        mount =
            mount.environment("TIERFS_LOG", "trace").environment("AZURE_AUTHORITY_HOST", &server.authority());
        mount = if file_key.is_empty() {
            server.tokens().require(Duration::from_secs(3600));
            let principal =
                [("AZURE_CLIENT_ID", "id"), ("AZURE_CLIENT_SECRET", secret), ("AZURE_TENANT_ID", "t")];
            principal.into_iter().fold(mount, |mount, (name, value)| mount.environment(name, value))
        } else {
            mount.blob_key(&format!("{file_key} = \"{}\"", file.display()))
        };
        let mount = mount.start();
        fs::create_dir(mount.path("blob")).expect("mkdir");
        fs::write(mount.path("blob/f"), "text").expect("a write");
        mount.flush();
        // A rename copies inside the service: the source's address carries the right to read it.
        fs::rename(mount.path("blob/f"), mount.path("blob/g")).expect("a rename");
        mount.flush();
        let mut said = String::new();
        let refusals = [
            Effect::Refuse { status: 403, code: "AuthenticationFailed", retry_after: None },
            Effect::Refuse { status: 400, code: "InvalidHeaderValue", retry_after: None },
            Effect::Drop,
        ];
        for (round, effect) in refusals.into_iter().enumerate() {
            server.fault(When::any(), effect);
            fs::write(mount.path(&format!("h{round}")), "scratch").expect("a write");
            if let Err(error) = fs::read(mount.path("blob/unknown")) {
                said += &error.to_string();
            }
            let _ = fs::write(mount.path(&format!("blob/h{round}")), "text");
            said += &told(&mount.try_tierfs(&["flush", "--timeout", "300ms"]));
            said += &told(&mount.tierfs_at(&["warm", "--timeout", "300ms"], &["blob"]));
            said += &mount.tierstat(&[]);
            said += &mount.tierstat(&["--json"]);
            server.clear_faults();
        }
        said += &String::from_utf8_lossy(&xattr(mount.root(), "user.tierfs.status"));
        let ps = Command::new("ps").args(["-ewwo", "pid,args"]).output().expect("ps");
        said += &String::from_utf8_lossy(&ps.stdout);
        let check =
            crate::support::mount::tierfs().arg("check").arg(mount.config()).output().expect("tierfs check");
        said += &told(&check);
        said += &mount.log();
        assert!(said.contains("AuthenticationFailed"), "{auth}: the refusal was told");
        assert!(mount.log().len() > 10_000, "{auth}: much was logged");
        for token in [part, "token-0", "Bearer token", "sig="] {
            let line = said.lines().find(|line| line.contains(token));
            assert_eq!(line, None, "{auth}: {token} was told");
        }
    }
}
