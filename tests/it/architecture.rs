//! Calls go down, results come back up: who may name whom, checked over the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Longest file that can still be one subject.
const MAX_LINES: usize = 700;

/// What every module may name: the leaves, which themselves know nothing of the rest.
const LEAVES: [&str; 5] = ["types", "error", "clock", "metrics", "failpoint"];

/// Module → the modules it may name besides the leaves.
const MAY_NAME: [(&str, &[&str]); 19] = [
    ("types", &[]),
    ("error", &["types"]),
    ("clock", &["types"]),
    ("metrics", &[]),
    ("failpoint", &[]),
    ("host", &[]),
    ("policy", &["types"]),
    ("heat", &["policy"]),
    ("fullness", &[]),
    ("tier", &[]),
    ("config", &["policy"]),
    ("catalog", &["policy"]),
    ("data", &["tier", "catalog", "policy"]),
    ("mover", &["policy", "heat", "fullness", "catalog", "tier", "data"]),
    ("repair", &["policy", "catalog", "tier", "data"]),
    ("vfs", &["catalog", "data", "heat", "fullness", "tier", "policy"]),
    ("fuse", &["vfs"]),
    ("control", &["vfs", "mover", "catalog", "data", "tier", "policy", "config", "host"]),
    // Composition root and commands: they may name all, and nobody names them.
    ("mount", &["*"]),
];

/// Plain data of a lower module that another may speak of without knowing the module itself.
const WORDS: [(&str, &str, &[&str]); 2] = [
    ("catalog", "tier", &["Entry", "NativeId", "Object", "RenameMode", "Special"]),
    ("fuse", "tier", &["RenameMode"]),
];

/// Crates that one folder alone may name.
const FENCED: [(&str, &[&str]); 5] = [
    ("fuser", &["src/fuse"]),
    ("object_store", &["src/tier/blob", "src/tier/azrest"]),
    ("rusqlite", &["src/catalog"]),
    ("clap", &["src/cli", "tools"]),
    ("hyper", &["src/control"]),
];

struct Source {
    path: String,
    code: String,
    lines: usize,
}

impl Source {
    /// `src/tier/blob.rs` → `tier`; `lib.rs` and `main.rs` name what they like.
    fn module(&self) -> Option<&str> {
        let name = self.path.strip_prefix("src/")?.split('/').next()?.trim_end_matches(".rs");
        (!matches!(name, "lib" | "main")).then_some(name)
    }

    fn is_inside(&self, folder: &str) -> bool {
        self.path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/') || rest == ".rs" || rest.is_empty())
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).expect("a source folder").map(|entry| entry.expect("an entry"))
        {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
                found.push(Source {
                    path,
                    lines: text.lines().count(),
                    code: without_comments_and_tests(&text),
                });
            }
        }
    }
    found
}

/// Tests may name what they need, comments and documentation too.
fn without_comments_and_tests(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text);
    code.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// `code` without the `use` lines of what [`WORDS`] lets `module` speak of.
fn without_words(module: &str, code: &str) -> String {
    let is_word = |line: &str| {
        WORDS.iter().any(|(of, from, words)| {
            let names = line
                .strip_prefix(&format!("use crate::{from}::"))
                .map(|names| names.trim_matches(|c| "{};".contains(c)));
            *of == module
                && names.is_some_and(|names| names.split(',').all(|name| words.contains(&name.trim())))
        })
    };
    code.lines().filter(|line| !is_word(line)).collect::<Vec<_>>().join("\n")
}

/// The first path segments after every `crate::`, those in `use crate::{a::…, b}` too.
fn named_modules(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '$') {
            continue;
        }
        let rest = &code[at + found.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            named.extend(heads_of_group(group));
        } else {
            named.insert(identifier(rest));
        }
    }
    named.remove("");
    named
}

/// `a::{b, c}, d}` → `a`, `d`.
fn heads_of_group(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut depth = 0;
    let mut at_start = true;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            letter if at_start && !letter.is_whitespace() => {
                heads.push(identifier(&group[at..]));
                at_start = false;
            }
            _ => {}
        }
    }
    heads
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let bounded = before.is_none_or(|letter| !(letter.is_alphanumeric() || "_:\".".contains(letter)));
        bounded && code[at + name.len()..].starts_with("::")
    })
}

/// Problems with one module's names, as sentences.
fn wrong_direction(
    module: &str,
    path: &str,
    named: &BTreeSet<String>,
    modules: &BTreeSet<&str>,
) -> Vec<String> {
    if matches!(module, "mount" | "cli") {
        return Vec::new();
    }
    let table: BTreeMap<&str, &[&str]> = MAY_NAME.into_iter().collect();
    let Some(allowed) = table.get(module) else {
        return vec![format!("{path}: module `{module}` has no line in MAY_NAME: say what it may know")];
    };
    let may = |name: &str| {
        name == module || allowed.contains(&name) || (LEAVES.contains(&name) && !LEAVES.contains(&module))
    };
    named
        .iter()
        .filter(|name| modules.contains(name.as_str()) && !may(name))
        .map(|name| format!("{path}: `{module}` must not know `{name}`"))
        .collect()
}

#[test]
fn imports_go_down_only() {
    let sources = sources("src");
    let modules: BTreeSet<&str> = sources.iter().filter_map(Source::module).collect();
    let problems: Vec<String> = sources
        .iter()
        .filter_map(|source| Some((source.module()?, source)))
        .flat_map(|(module, source)| {
            let named = named_modules(&without_words(module, &source.code));
            wrong_direction(module, &source.path, &named, &modules)
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn each_outside_crate_stays_in_its_folder() {
    let problems: Vec<String> = sources("src")
        .iter()
        .filter(|source| source.path != "src/main.rs")
        .flat_map(|source| FENCED.iter().map(move |fence| (source, fence)))
        .filter(|(source, (name, folders))| {
            names_crate(&source.code, name) && !folders.iter().any(|folder| source.is_inside(folder))
        })
        .map(|(source, (name, folders))| format!("{}: only {} names {name}", source.path, folders.join(", ")))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn files_are_one_subject() {
    let long: Vec<String> = ["src", "tests", "tools"]
        .into_iter()
        .flat_map(sources)
        .filter(|source| source.lines > MAX_LINES)
        .map(|source| format!("{}: {} lines", source.path, source.lines))
        .collect();
    assert!(long.is_empty(), "split by subject (at most {MAX_LINES} lines):\n{}", long.join("\n"));
}

#[test]
fn the_check_itself_can_fail() {
    let modules = BTreeSet::from(["tier", "catalog", "types", "fuse", "vfs"]);
    let code = without_comments_and_tests(
        "use crate::{types::{Key, Ino}, catalog};\n// crate::vfs\nfn f() { $crate::vfs::x(); }\n#[cfg(test)]\nmod tests { use crate::fuse; }",
    );
    let named = named_modules(&code);
    assert_eq!(named, BTreeSet::from(["catalog".to_owned(), "types".to_owned()]));
    assert_eq!(
        wrong_direction("tier", "src/tier.rs", &named, &modules),
        ["src/tier.rs: `tier` must not know `catalog`"]
    );
    assert_eq!(wrong_direction("new", "src/new.rs", &named, &modules).len(), 1);
    let words =
        without_words("catalog", "use crate::tier::{Entry, NativeId};\nuse crate::tier::{Entry, Tier};");
    assert_eq!(words, "use crate::tier::{Entry, Tier};");
    assert!(names_crate("use fuser::Session;", "fuser") && !names_crate("crate::fuser::x", "fuser"));
}
