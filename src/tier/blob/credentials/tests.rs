use super::*;
use crate::types::Key;
use crate::types::blob::BlobLocation;

const KEY: &str = "a2V5";
const SAS: &str = "?sv=2020-12-06&sp=rl&sig=s3cret%3D";

fn resolve(options: &BlobOptions, emulator: bool, env: &[(&str, &str)]) -> Result<Credentials> {
    let find = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let account = if emulator { EMULATOR_ACCOUNT } else { "acc" };
    let options = BlobOptions { location: at(account), ..options.clone() };
    Credentials::resolve(&options, account, &find, &Transport::new().unwrap())
}

fn at(account: &str) -> BlobLocation {
    let endpoint = match account {
        EMULATOR_ACCOUNT => format!("http://127.0.0.1:10000/{account}"),
        _ => format!("https://{account}.blob.core.windows.net"),
    };
    BlobLocation::Azure { endpoint, account: account.into(), container: "c".into(), prefix: Key::ROOT }
}

fn auto() -> BlobOptions {
    BlobOptions::new("b", at("acc"))
}

fn now(credentials: &Credentials) -> Arc<AzureCredential> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(credentials.get()).unwrap()
}

fn with(auth: Auth) -> BlobOptions {
    BlobOptions { auth, ..auto() }
}

#[test]
fn the_first_that_is_there_is_taken() {
    let auto = auto();
    let key = resolve(&auto, false, &[("AZURE_STORAGE_ACCESS_KEY", KEY), ("AZURE_STORAGE_SAS_TOKEN", SAS)])
        .unwrap();
    assert!(matches!(*now(&key), AzureCredential::AccessKey(_)));
    assert_eq!(key.account_key().as_deref(), Some(&b"key"[..]));
    let sas = resolve(&auto, false, &[("AZURE_STORAGE_SAS_TOKEN", SAS)]).unwrap();
    assert!(matches!(&*now(&sas), AzureCredential::SASToken(pairs) if pairs.len() == 3));
    let wanted = resolve(
        &auto,
        false,
        &[
            ("AZURE_STORAGE_AUTH_TYPE", "SAS"),
            ("AZURE_STORAGE_ACCESS_KEY", KEY),
            ("AZURE_STORAGE_SAS_TOKEN", SAS),
        ],
    );
    assert!(matches!(*now(&wanted.unwrap()), AzureCredential::SASToken(_)));
    assert!(matches!(resolve(&auto, false, &[]).unwrap(), Credentials::Token(_)));
    assert!(matches!(resolve(&auto, true, &[]).unwrap(), Credentials::Fixed(_)));
}

#[test]
fn names_of_the_other_tools_are_known() {
    let auto = auto();
    for name in KEY_NAMES {
        let found = resolve(&auto, false, &[(name, KEY)]).unwrap();
        assert!(matches!(*now(&found), AzureCredential::AccessKey(_)), "{name}");
    }
    for name in SAS_NAMES {
        let found = resolve(&auto, false, &[(name, SAS)]).unwrap();
        assert!(matches!(*now(&found), AzureCredential::SASToken(_)), "{name}");
    }
    for (name, auth) in Auth::WORDS.into_iter().chain([("azcli", Auth::Cli)]) {
        assert_eq!(
            automatic(&auto, &|asked| (asked == "AZURE_STORAGE_AUTH_TYPE").then(|| name.to_owned())).unwrap(),
            Some(auth)
        );
    }
    assert!(auth_type("password").unwrap_err().to_string().contains("workload"));
}

#[test]
fn tokens_need_their_parts() {
    let full = [
        ("AZURE_CLIENT_ID", "id"),
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_FEDERATED_TOKEN_FILE", "/t"),
        ("AZURE_CLIENT_SECRET", "secret"),
    ];
    for auth in [Auth::Workload, Auth::Spn, Auth::Cli, Auth::Msi] {
        assert!(matches!(resolve(&with(auth), false, &full).unwrap(), Credentials::Token(_)));
    }
    for (auth, says) in [
        (Auth::Workload, "AZURE_CLIENT_ID"),
        (Auth::Spn, "client_id"),
        (Auth::Key, "key_file"),
        (Auth::Sas, "AZURE_STORAGE_SAS_TOKEN"),
    ] {
        let error = resolve(&with(auth), false, &[]).unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_bad_secret_is_not_repeated() {
    for (auth, name) in [(Auth::Key, "AZURE_STORAGE_ACCESS_KEY"), (Auth::Sas, "AZURE_STORAGE_SAS_TOKEN")] {
        let error = resolve(&with(auth), false, &[(name, "s3cret!")]).unwrap_err();
        assert!(
            error.kind() == Kind::Invalid && !format!("{error} {error:?}").contains("s3cret"),
            "{error:?}"
        );
    }
    let key = resolve(&with(Auth::Key), false, &[("AZURE_STORAGE_ACCESS_KEY", KEY)]).unwrap();
    assert!(!format!("{key:?}").contains("107"));
}

#[test]
fn files_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sas");
    std::fs::write(&path, SAS).unwrap();
    let options = BlobOptions { sas_file: Some(path.clone()), ..auto() };
    let credentials = resolve(&options, false, &[]).unwrap();
    let old = now(&credentials);
    std::fs::write(&path, format!("{SAS}&x=1\n")).unwrap();
    let new = now(&credentials);
    assert_ne!(old, new);
    // A file that is half-way replaced, or gone, leaves the last good one.
    std::fs::write(&path, "nonsense").unwrap();
    assert_eq!(now(&credentials), new);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(now(&credentials), new);
    std::fs::write(&path, SAS).unwrap();
    let renewed = |used: &AzureCredential| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(credentials.renewed(used))
    };
    // Whoever was refused with the old one finds the new one, however many they are.
    assert!(renewed(&new) && renewed(&new) && !renewed(&old));
}

/// A metadata service that hands out a token to whoever asks rightly, and counts.
fn token_service(answers: usize, lives_for: u64) -> (String, std::thread::JoinHandle<Vec<String>>) {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let answer = |at: usize| {
            let (mut stream, _) = listener.accept().unwrap();
            let lines: Vec<String> = BufReader::new(&stream)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let until =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + lives_for;
            let body = format!(
                r#"{{"access_token":"t{at}","expires_on":"{until}","expires_in":"{lives_for}","resource":"r","token_type":"Bearer"}}"#
            );
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
            lines[0].clone()
        };
        (0..answers).map(answer).collect()
    });
    (url, served)
}

#[test]
fn a_token_is_fetched_kept_and_renewed_before_it_expires() {
    let options = BlobOptions { auth: Auth::Msi, client_id: Some("id-1".into()), ..auto() };
    let token = |credentials: &Credentials| match &*now(credentials) {
        AzureCredential::BearerToken(token) => token.clone(),
        _ => panic!("no token"),
    };
    let (url, served) = token_service(1, 3600);
    let credentials = resolve(&options, false, &[("IDENTITY_ENDPOINT", &url)]).unwrap();
    assert_eq!((token(&credentials), token(&credentials)), ("t0".into(), "t0".into()));
    assert!(served.join().unwrap()[0].contains("client_id=id-1"));
    // Within five minutes of its end a token is not used any more.
    let (url, served) = token_service(2, 60);
    let credentials = resolve(&options, false, &[("MSI_ENDPOINT", &url)]).unwrap();
    let first = token(&credentials);
    let renewed = (0..1_000_000).map(|_| token(&credentials)).find(|token| *token != first);
    assert_eq!((first.as_str(), renewed.as_deref()), ("t0", Some("t1")));
    assert_eq!(served.join().unwrap().len(), 2);
}
