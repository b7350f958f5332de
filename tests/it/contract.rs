//! What every tier and every decorator must do. Differences are read from `Capabilities`, never
//! from the tier's kind.
//!
//! A tier joins with one test: `contract::run(|| async { Subject::new(tier) }).await`, each call
//! of which answers an empty tier; one that lives on this machine also with `contract::run_resident`.

mod attrs;
mod conditions;
mod listing;
mod names;
mod objects;
mod resident;
mod uploads;

use crate::support::tiers::Subject;
use futures::StreamExt;
use futures::future::BoxFuture;
use std::future::Future;
use std::sync::Arc;
use tierfs::error::{Kind, Result};
use tierfs::tier::{Object, Tier};
use tierfs::types::{Attrs, Condition, Key, Version};

/// A case by its name.
pub type Case = (&'static str, fn(Arc<dyn Tier>) -> BoxFuture<'static, ()>);

/// Lists async functions as cases.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// The cases of this file.
        pub const CASES: &[$crate::contract::Case] =
            &[$((concat!(module_path!(), "::", stringify!($name)), |tier| Box::pin($name(tier)))),*];
    };
}
use cases;

/// Runs every case on a tier of its own and names those that fail.
pub async fn run<F: Future<Output = Subject>>(make: impl Fn() -> F) {
    let families =
        [objects::CASES, listing::CASES, conditions::CASES, uploads::CASES, attrs::CASES, names::CASES];
    run_cases(&families.concat(), make).await;
}

/// All but the large directories, where every file costs a disk its time.
pub async fn run_small<F: Future<Output = Subject>>(make: impl Fn() -> F) {
    let families = [objects::CASES, conditions::CASES, uploads::CASES, attrs::CASES, names::CASES];
    run_cases(&families.concat(), make).await;
}

/// The same for what a tier does as files of this machine.
pub async fn run_resident<F: Future<Output = Subject>>(make: impl Fn() -> F) {
    run_cases(resident::CASES, make).await;
}

async fn run_cases<F: Future<Output = Subject>>(cases: &[Case], make: impl Fn() -> F) {
    let mut failed = Vec::new();
    for (name, case) in cases {
        let subject = make().await;
        if let Err(error) = tokio::spawn(case(Arc::clone(&subject.tier))).await {
            failed.push(format!("{name}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

// ---- what the cases share

fn key(path: &str) -> Key {
    Key::parse(path).expect("a valid key")
}

fn no_attrs() -> Attrs {
    Attrs::default()
}

fn write_id(id: &str) -> Attrs {
    Attrs { write_id: Some(id.into()), ..Attrs::default() }
}

async fn put(tier: &dyn Tier, path: &str, bytes: &str) -> Version {
    let bytes = bytes.as_bytes().to_vec().into();
    tier.put(&key(path), bytes, &no_attrs(), &Condition::Always).await.expect("put")
}

/// Many small files, a few at a time.
async fn put_all(tier: &Arc<dyn Tier>, paths: impl IntoIterator<Item = String>) {
    let puts = paths.into_iter().map(|path| {
        let tier = Arc::clone(tier);
        async move { put(&*tier, &path, &path).await }
    });
    futures::stream::iter(puts).buffer_unordered(32).for_each(async |_| ()).await;
}

async fn head(tier: &dyn Tier, path: &str) -> Object {
    tier.head(&key(path)).await.expect("head")
}

async fn read(tier: &dyn Tier, path: &str) -> Vec<u8> {
    let object = head(tier, path).await;
    read_range(tier, path, 0..object.size, &object.version).await.expect("read")
}

async fn read_range(
    tier: &dyn Tier,
    path: &str,
    range: std::ops::Range<u64>,
    version: &Version,
) -> Result<Vec<u8>> {
    let mut stream = tier.read(&key(path), range, version).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

/// All names of a directory, sorted, over as many pages as it takes.
async fn names(tier: &dyn Tier, dir: &str, prefix: &[u8], limit: usize) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut from = None;
    loop {
        let page = tier.list(&key(dir), prefix, from, limit).await.expect("list");
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        from = page.next;
        if from.is_none() {
            names.sort();
            return names;
        }
    }
}

#[track_caller]
fn assert_kind<T: std::fmt::Debug>(result: Result<T>, expected: &[Kind]) {
    match result {
        Ok(value) => panic!("expected one of {expected:?}, got {value:?}"),
        Err(error) => {
            assert!(expected.contains(&error.kind()), "expected one of {expected:?}, got {error:?}")
        }
    }
}
