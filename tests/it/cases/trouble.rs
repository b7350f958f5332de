//! A service that is busy, loses answers, or is gone.

use super::*;
use crate::support::blob_server::{Effect, Operation, When};
use crate::support::{noise, wait};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const READS: [Operation; 3] = [Operation::Head, Operation::Get, Operation::List];

/// C100
#[test]
fn a_busy_service_is_waited_for_and_never_an_absence() {
    let (server, tiers, _) = own();
    let count = 320;
    for i in 0..count {
        tiers.put_blob(&format!("blob/d{}/f{i}", i % 8), &noise(i, 3000));
    }
    let mount = Mount::of(&tiers).rules(&patient()).start();
    server.fault(When::operation(&READS).percent(30), Effect::busy(1));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if i >= count {
                        break;
                    }
                    let read = fs::read(mount.path(&format!("blob/d{}/f{i}", i % 8)));
                    assert!(read.unwrap_or_else(|error| panic!("f{i}: {error}")) == noise(i, 3000), "f{i}");
                }
            });
        }
    });
    assert!(server.requests().iter().any(|request| request.status.is_some_and(|status| status == 503)));
}

#[test]
fn a_service_that_is_always_busy_is_an_error_and_never_an_absence() {
    let (server, tiers, _) = own();
    for name in ["known", "unknown", "d/f"] {
        tiers.put_blob(&format!("blob/{name}"), name.as_bytes());
    }
    let mount = Mount::of(&tiers).blob_key("deadline = \"1s\"").start();
    assert_eq!(fs::read(mount.path("blob/known")).expect("a read"), b"known");
    server.fault(When::operation(&READS), Effect::busy(1));
    for name in ["blob/unknown", "blob/d/f", "blob/none"] {
        let found = errno(fs::read(mount.path(name)));
        assert!([libc::EIO, libc::EAGAIN, libc::ETIMEDOUT].contains(&found), "{name}: errno {found}");
    }
    server.clear_faults();
    // No answer was kept that nobody gave.
    for name in ["known", "unknown", "d/f"] {
        assert_eq!(fs::read_to_string(mount.path(&format!("blob/{name}"))).expect("a read"), name);
    }
    assert_eq!(errno(fs::read(mount.path("blob/none"))), libc::ENOENT);
}

/// A caller of a tier that says nothing, or breaks off, waits for its deadline and no longer.
#[test]
fn readers_give_up_at_the_deadline() {
    let (server, tiers, _) = own();
    let bytes = noise(3, 1 << 20);
    for name in ["a", "b", "c"] {
        tiers.put_blob(&format!("blob/{name}"), &bytes);
    }
    let mount = Mount::of(&tiers).rules(&patient()).blob_key("deadline = \"1s\"").start();
    assert_eq!(fs::read_dir(mount.path("blob")).expect("a directory").count(), 3);
    let hangs = Effect::Latency(Duration::from_secs(3600));
    for (name, effect) in [("a", hangs), ("b", Effect::Drop), ("c", Effect::CutAfter(0))] {
        server.fault(When::operation(&[Operation::Get]), effect.clone());
        let began = Instant::now();
        let found = errno(fs::read(mount.path(&format!("blob/{name}"))));
        assert!([libc::EIO, libc::ETIMEDOUT].contains(&found), "{effect:?}: errno {found}");
        assert!(began.elapsed() < Duration::from_secs(10), "{effect:?}: {:?}", began.elapsed());
        server.clear_faults();
    }
    for name in ["a", "b", "c"] {
        wait::until("the tier to be back", || {
            fs::read(mount.path(&format!("blob/{name}"))).is_ok_and(|found| found == bytes)
        });
    }
}

/// Uploads outlast every deadline: what was closed waits on the stage for as long as it takes, and nobody need ask again.
#[test]
fn uploads_never_give_up() {
    let (server, tiers, container) = own();
    let mount = Mount::of(&tiers).blob_key("deadline = \"300ms\"").start();
    fs::create_dir(mount.path("blob")).expect("mkdir");
    mount.flush();
    let big = noise(4, 20 << 20);
    let denied = Effect::Refuse { status: 403, code: "AuthorizationFailure", retry_after: None };
    let all = [Operation::PutBlob, Operation::PutBlock, Operation::PutBlockList];
    for (round, effect) in [Effect::busy(0), Effect::Drop, denied].into_iter().enumerate() {
        server.fault(When::operation(&all), effect.clone());
        fs::write(mount.path(&format!("blob/small{round}")), "small").expect("a write");
        fs::write(mount.path(&format!("blob/big{round}")), &big).expect("a write");
        let late = mount.try_tierfs(&["flush", "--timeout", "1500ms"]);
        assert_eq!(late.status.code(), Some(4), "{effect:?}: {}", crate::support::mount::told(&late));
        assert!(fs::read(mount.path(&format!("blob/big{round}"))).expect("it is on the stage") == big);
        server.clear_faults();
        let name = format!("blob/big{round}");
        wait::until("the upload to go on by itself", || {
            server.get(&container, &name).is_some_and(|found| found == big)
        });
        assert_eq!(server.get(&container, &format!("blob/small{round}")).as_deref(), Some(&b"small"[..]));
    }
    mount.flush();
}

/// What was sent before a crash, or before the service failed, is not sent again.
#[test]
fn an_upload_goes_on_where_it_ended() {
    let (server, tiers, container) = own();
    let mut mount = Mount::of(&tiers).environment("TIERFS_CRASH_AT", "blocks_sent").start();
    let big = noise(5, (40 << 20) + 5);
    fs::create_dir(mount.path("blob")).expect("mkdir");
    fs::write(mount.path("blob/big"), &big).expect("a write");
    mount.wait_for_end();
    assert_eq!(server.count(Operation::PutBlock), 6);
    assert_eq!(server.get(&container, "blob/big"), None);
    // The service fails for a while, too.
    server.fault(When::operation(&[Operation::PutBlockList]).times(2), Effect::busy(0));
    mount.set_environment("TIERFS_CRASH_AT", "");
    mount.remount();
    mount.flush();
    assert!(server.get(&container, "blob/big").is_some_and(|found| found == big));
    assert_eq!(server.count(Operation::PutBlock), 6, "blocks were sent again");

    // Other bytes under the same name have nothing in common with what was sent.
    server.fault(When::operation(&[Operation::PutBlockList]), Effect::busy(0));
    fs::write(mount.path("blob/big"), noise(6, big.len())).expect("a write");
    assert_eq!(mount.try_tierfs(&["flush", "--timeout", "1500ms"]).status.code(), Some(4));
    let newest = noise(7, big.len());
    fs::write(mount.path("blob/big"), &newest).expect("a write");
    server.clear_faults();
    mount.flush();
    assert!(server.get(&container, "blob/big").is_some_and(|found| found == newest));
}

#[test]
fn lost_answers_and_broken_bodies_do_no_harm() {
    let (server, tiers, container) = own();
    let mount = Mount::of(&tiers).start();
    let bytes = noise(1, 20 << 20);
    fs::create_dir(mount.path("blob")).expect("mkdir");
    server.fault(When::operation(&[Operation::PutBlob]).times(2), Effect::ApplyThenDrop);
    server.fault(When::operation(&[Operation::PutBlockList]).times(1), Effect::ApplyThenDrop);
    server.fault(When::operation(&[Operation::PutBlock]).times(2), Effect::Drop);
    fs::write(mount.path("blob/small"), "small").expect("a write");
    fs::write(mount.path("blob/big"), &bytes).expect("a write");
    mount.flush();
    let mut names = tiers.blob_file_names();
    names.sort();
    assert_eq!(names, ["blob/big", "blob/small"], "no conflict with ourselves");
    assert!(server.get(&container, "blob/big").is_some_and(|found| found == bytes));

    let other = Mount::of(&tiers).named("other").start();
    server.fault(When::operation(&[Operation::Get]).times(3), Effect::CutAfter(300_000));
    assert!(fs::read(other.path("blob/big")).expect("a read") == bytes);
}

#[test]
fn a_dead_endpoint_slows_nothing_else() {
    let (server, tiers, _) = own();
    let bytes = noise(2, 1 << 20);
    tiers.put_blob("hot/data", &bytes);
    tiers.put_blob("blob/cold", b"cold");
    let mount = Mount::of(&tiers).blob_key("deadline = \"1s\"").start();
    assert!(fs::read(mount.path("hot/data")).expect("a read") == bytes);
    wait::until("the hot copy", || tiers.hot_copies().len() == 1);
    fs::create_dir(mount.path("d")).expect("mkdir");
    server.fault(When::any(), Effect::Drop);
    // Until the tier counts as sick, a caller waits for its deadline.
    wait::until("the tier to count as sick", || {
        let began = Instant::now();
        let failed = fs::read(mount.path("blob/cold")).is_err();
        failed && began.elapsed() < Duration::from_millis(200)
    });
    let began = Instant::now();
    for i in 0..50 {
        fs::write(mount.path(&format!("d/f{i}")), "scratch goes on").expect("a write");
        assert_eq!(fs::read(mount.path(&format!("d/f{i}"))).expect("a read"), b"scratch goes on");
    }
    assert!(fs::read(mount.path("hot/data")).expect("hot copies go on") == bytes);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    server.clear_faults();
    wait::until("the tier to be back", || {
        fs::read(mount.path("blob/cold")).is_ok_and(|text| text == b"cold")
    });
}
