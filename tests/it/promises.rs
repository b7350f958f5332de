//! The README's promises: all of them are there, and each names tests that exist.

use std::path::Path;

const PROMISES: [&str; 15] = [
    "acknowledged_bytes_survive",
    "one_version_or_the_other",
    "commits_keep_close_order",
    "rename_is_atomic",
    "native_layout",
    "outside_changes_are_seen",
    "no_silent_overwrite",
    "posix",
    "errors_tell_the_truth",
    "a_sick_tier_stays_alone",
    "bounded",
    "catalog_can_be_lost",
    "stays_inside",
    "unmount_drains",
    "scratch_can_be_wiped",
];

fn read(relative: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)).expect("a file")
}

/// The section's tables: rows of cells, headings and rulers left out.
fn rows(readme: &str) -> Vec<Vec<&str>> {
    let section = readme.split("\n## What it promises\n").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let section = section.split("\n### ").next().unwrap_or(section);
    let lines = section.lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The source of `a::b`, a module of this binary.
fn module(path: &[&str]) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    std::fs::read_to_string(folder.join(path.join("/")).with_extension("rs")).ok()
}

/// Whether `path` is a test, or a module with tests.
fn is_test(path: &str) -> bool {
    let segments: Vec<&str> = path.split("::").collect();
    let Some((name, parents)) = segments.split_last() else { return false };
    if let Some(code) = module(&segments) {
        return code.contains("#[test]");
    }
    module(parents).is_some_and(|code| defines(&code, name))
}

/// As a function with the attribute, or as one of a list that a macro makes tests of.
fn defines(code: &str, name: &str) -> bool {
    let mut before = "";
    code.lines().any(|line| {
        let function = [format!("fn {name}("), format!("async fn {name}(")];
        let is_one = function.iter().any(|start| line.starts_with(start.as_str()))
            && ["#[test", "#[tokio::test"].iter().any(|start| before.starts_with(start));
        let is_listed = line.trim_start().starts_with(&format!("{name}: ")) && code.contains("#[test] fn $");
        before = line;
        is_one || is_listed
    })
}

#[test]
fn every_promise_names_tests_that_exist() {
    let readme = read("README.md");
    let rows = rows(&readme);
    let promised: Vec<&str> =
        rows.iter().filter(|row| row.len() == 3).filter_map(|row| quoted(row[0]).next()).collect();
    assert_eq!(promised, PROMISES);
    for row in rows.iter().filter(|row| row[0].starts_with('`')) {
        let promise = quoted(row[0]).next().unwrap_or_default();
        let first = quoted(row[2]).next().unwrap_or_default();
        assert_eq!(first.rsplit("::").next(), Some(promise), "the first test has the promise's name");
    }
    let named: Vec<&str> =
        rows.iter().flatten().flat_map(|cell| quoted(cell)).filter(|name| name.contains("::")).collect();
    let missing: Vec<&&str> = named.iter().filter(|name| !is_test(name)).collect();
    assert!(missing.is_empty(), "the README names tests that are not there: {missing:?}");
    let survives: Vec<_> = rows.iter().filter(|row| row.len() == 5).collect();
    let held = survives.iter().find(|row| row[0] == "held by").expect("what holds the table of survivors");
    assert!(
        held[1..].iter().all(|cell| quoted(cell).next().is_some()),
        "each tier kind has a test: {held:?}"
    );
}

#[test]
fn the_check_itself_can_fail() {
    assert!(is_test("promises::the_check_itself_can_fail") && is_test("mounted::posix"));
    for none in
        ["promises::rows", "promises::nothing", "nowhere::nothing", "promises", "mounted::stress::stressors"]
    {
        assert_eq!(is_test(none), none == "promises", "{none}");
    }
    assert!(defines("#[tokio::test]\nasync fn a() {}", "a") && !defines("async fn a() {}", "a"));
}
