//! Credentials that end while the mount lives.

use super::*;
use crate::support::wait;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
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
