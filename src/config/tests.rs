//! Whole configs: what is understood, and what is said about mistakes.

use super::*;
use crate::policy::placement::{Fsync, Order, Promote, Subject, Write};
use crate::types::blob::{AccessTier, Auth};
use crate::types::{Ids, Key};
use std::time::Duration;

const GOOD: &str = include_str!("tests/good.toml");

fn environment(name: &str) -> Option<String> {
    match name {
        "TEAM" => Some("blue".into()),
        "AZURE_STORAGE_ACCOUNT" => Some("myaccount".into()),
        "HOSTNAME" => Some("vm1".into()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<(Config, Vec<Warning>), Problems> {
    Config::parse(Path::new("conf/train.toml"), text, Environment::new(&environment))
}

/// All problems (or warnings) as text.
fn said(text: &str) -> String {
    match parse(text) {
        Err(problems) => problems.to_string(),
        Ok((_, warnings)) => warnings.iter().map(|warning| format!("{warning}\n")).collect(),
    }
}

/// The smallest config, with `more` in its only tier, rule or mount section.
fn small(mount: &str, tier: &str, rule: &str) -> String {
    format!(
        "[mount]\n{mount}\n[tier.disk]\nkind = \"local\"\npath = \"/disk\"\n[tier.blob]\nkind = \"blob\"\n\
         url = \"az://box\"\n{tier}\n[[rule]]\npath = \"b/**\"\nhome = \"blob\"\nstage = \"disk\"\n{rule}\n\
         [[rule]]\npath = \"**\"\nhome = \"disk\"\n"
    )
}

#[track_caller]
fn assert_said(text: &str, expected: &str) {
    let said = said(text);
    assert!(said.contains(expected), "expected {expected:?} in:\n{said}\nof:\n{text}");
}

#[test]
fn a_good_config_is_understood() {
    let (config, warnings) = parse(GOOD).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.mount.catalog, Catalog::Sqlite("/var/lib/tierfs/train.db".into()));
    assert_eq!(config.mount.control, Path::new("/run/tierfs/train.sock"));
    assert_eq!((config.mount.memory, config.mount.drain_timeout), (1 << 30, Duration::from_secs(600)));

    let scratch = config.tier("scratch").unwrap();
    assert_eq!((scratch.kind, scratch.capacity), (TierKind::Lustre, Some(120 << 40)));
    assert_eq!(scratch.directory().unwrap().path, Path::new("/lustre/scratch/blue"));
    let Storage::Blob(blob) = &config.tier("blob").unwrap().storage else { panic!("not a blob tier") };
    assert_eq!(blob.auth, Auth::Auto);
    let revalidate = |name| config.tier(name).unwrap().revalidate.map(|time| time.as_secs());
    assert_eq!(
        [revalidate("scratch"), revalidate("share"), revalidate("blob")],
        [Some(1), Some(30), Some(60)]
    );

    let [checkpoints, datasets, models, rest] = config.rules.as_slice() else { panic!("four rules") };
    assert_eq!((checkpoints.stage.as_str(), checkpoints.promote), ("scratch", Promote::Never));
    assert_eq!((datasets.stage.as_str(), datasets.promote), ("nvme", Promote::Heat));
    assert_eq!(
        (datasets.hot.as_slice(), datasets.revalidate),
        (&["nvme".to_owned(), "scratch".into()][..], None)
    );
    assert_eq!((models.stage.as_str(), models.revalidate), ("share", Some(Duration::from_secs(30))));
    assert_eq!((rest.home.as_str(), rest.settle), ("scratch", Duration::from_secs(2)));
}

#[test]
fn rules_get_the_ids_of_their_tiers() {
    let (config, _) = parse(GOOD).unwrap();
    let id = |name: &str| TierId(u32::try_from(name.len()).unwrap());
    let rules = config.rules(id, &Ledger::default());
    let tar = Key::parse("datasets/a.tar").unwrap();
    let rule = rules.rule(Subject::new(&tar, Ids::default()));
    assert_eq!(
        (rule.home, rule.stage, rule.hot.as_slice()),
        (id("blob"), id("nvme"), &[id("nvme"), id("scratch")][..])
    );
    assert_eq!(rules.rule(Subject::new(&Key::parse("x").unwrap(), Ids::default())).home, id("scratch"));
}

#[test]
fn ten_mistakes_are_told_at_once() {
    let found = parse(include_str!("tests/ten_mistakes.toml")).unwrap_err();
    assert_eq!(found.to_string(), include_str!("tests/ten_mistakes.txt").trim_end());
}

#[test]
fn show_tells_where_values_came_from() {
    let (config, _) = parse(GOOD).unwrap();
    assert_eq!(config.show().to_string(), include_str!("tests/good_shown.toml"));
}

#[test]
fn what_show_prints_means_the_same() {
    for text in [GOOD, Example::Train.text(), Example::Serve.text(), Example::Prep.text()] {
        let (config, _) = parse(text).unwrap();
        let (again, _) = parse(&config.show().to_string()).unwrap();
        assert_eq!((&again.mount, &again.tiers, &again.rules), (&config.mount, &config.tiers, &config.rules));
    }
}

#[test]
fn examples_load_without_a_warning() {
    for example in Example::ALL {
        let (_, warnings) =
            parse(example.text()).unwrap_or_else(|found| panic!("{}: {found}", example.name()));
        assert_eq!(warnings, [], "{}", example.name());
    }
}

#[test]
fn words_of_the_table_are_the_words_understood() {
    assert_eq!(TierKind::WORDS.map(|(word, _)| word), keys::KINDS);
    assert!(TierKind::WORDS.iter().all(|(word, kind)| kind.word() == *word));
    assert_eq!(Auth::WORDS.map(|(word, _)| word), keys::AUTHS);
    assert_eq!(AccessTier::WORDS.map(|(word, _)| word), keys::ACCESS_TIERS);
    assert_eq!(checked::PROMOTES.map(|(word, _)| word), keys::PROMOTES);
    assert_eq!(checked::WRITES.map(|(word, _)| word), keys::WRITES);
    assert_eq!(checked::FSYNCS.map(|(word, _)| word), keys::FSYNCS);
    assert_eq!(checked::ORDERS.map(|(word, _)| word), keys::ORDERS);
    assert_eq!(checked::CONFLICTS.map(|(word, _)| word), keys::CONFLICTS);
}

#[test]
fn a_blob_tier_has_knobs() {
    let blob = |keys: &str| {
        let (config, _) = parse(&small("", keys, "")).unwrap_or_else(|problems| panic!("{problems}"));
        let Storage::Blob(blob) = config.tier("blob").unwrap().storage.clone() else {
            panic!("not a blob tier")
        };
        blob
    };
    assert_eq!((blob("").access_tier, blob("").upload_max), (None, None));
    let set = blob("access_tier = \"Cool\"\nupload_max = \"200MB\"\nauth = \"msi\"\nresource_id = \"/r\"");
    assert_eq!(
        (set.access_tier, set.upload_max.map(|rate| rate.get())),
        (Some(AccessTier::Cool), Some(200_000_000))
    );
    assert_eq!(set.resource_id.as_deref(), Some("/r"));
    assert_said(&small("", "access_tier = \"archive\"", ""), "write \"cold\"");
    assert_said(&small("", "access_tier = \"warm\"", ""), "access_tier");
    assert_said(&small("", "upload_max = \"200\"", ""), "has no unit");
    assert_said(
        &small("", "auth = \"sas\"\nresource_id = \"/r\"", ""),
        "`resource_id` is not used with this `auth`",
    );
}

#[test]
fn a_rule_says_what_close_and_fsync_wait_for() {
    let rule = |lines: &str| parse(&small("", "", lines)).unwrap().0.rules[0].clone();
    let back = rule("");
    assert_eq!((back.write, back.fsync, back.order), (Write::Back, Fsync::Stage, Order::Strict));
    assert!(!back.hold.is_empty());
    let home = rule("fsync = \"home\"\nhold = \"**/*.part\"");
    assert_eq!((home.write, home.fsync, home.hold.len()), (Write::Back, Fsync::Home, 1));
    let through = rule("write = \"through\"");
    assert_eq!((through.write, through.order, through.hold), (Write::Through, Order::None, Vec::new()));
    assert_eq!(rule("write = \"through\"\norder = \"strict\"").order, Order::Strict);
    let (config, _) =
        parse(&small("", "", "write = \"through\"\nfsync = \"home\"\nopen_upload = \"5m\"")).unwrap();
    assert_eq!(parse(&config.show().to_string()).unwrap().0.rules, config.rules);
    assert_eq!(
        (home.open_upload, rule("open_upload = \"5m\"").open_upload),
        (None, Some(Duration::from_secs(300)))
    );
    assert_said(&small("", "", "open_upload = \"0.5s\""), "write at least \"1s\"");
    assert_said(&small("", "", "write = \"around\""), "write \"back\" or \"through\"");
    assert_said(
        &small("", "", "write = \"through\"\nhold = \"**/*.tmp\""),
        "hold contradicts write = \"through\"",
    );
    for line in ["write = \"through\"", "fsync = \"home\"", "open_upload = \"5m\""] {
        let in_place = small("", "", "") + line + "\n";
        assert_said(&in_place, "is not used: files at home on disk are written in place; remove it");
    }
}

#[test]
fn a_rule_keeps_groups_hot() {
    let rule = |line: &str| small("", "", &format!("hot = \"disk\"\n{line}"));
    let (config, _) = parse(&rule("keep_hot = { last = 3, group = \"runs/*/*\" }")).unwrap();
    let keep = config.rules[0].keep_hot.clone().unwrap();
    assert_eq!((keep.pattern(), keep.last), ("runs/*/*", 3));
    let shown = config.show().to_string();
    assert!(shown.contains("keep_hot = { group = \"runs/*/*\", last = 3 }"), "{shown}");
    assert_eq!(parse(&shown).unwrap().0.rules, config.rules);
    for (line, expected) in [
        ("keep_hot = { group = \"runs/**\", last = 3 }", "write a `*` for each directory"),
        ("keep_hot = { group = \"runs/*\", last = 0 }", "write a number from 1 on"),
        ("keep_hot = { group = \"runs/*\", last = \"many\" }", "write a number from 1 on"),
        ("keep_hot = { group = \"runs/*\" }", "keep_hot needs both"),
        ("keep_hot = { group = \"runs/*\", last = 3, frist = 1 }", "keep_hot has no `frist`"),
        ("keep_hot = { group = \"runs/*\", last = true }", "write keep_hot = { group"),
        ("keep_hot = \"runs/*\"", "keep_hot is text; write keep_hot = {"),
    ] {
        assert_said(&rule(line), expected);
    }
    assert_said(&small("", "", "keep_hot = { group = \"runs/*\", last = 3 }"), "and this rule makes none");
}

#[test]
fn a_rule_sends_away_what_nobody_uses() {
    let in_place = |text: String| text.replace("home = \"blob\"\nstage = \"disk\"", "home = \"disk\"");
    let rule = |line: &str| in_place(small("", "", line));
    let (config, _) =
        parse(&rule("cold = { idle = \"30d\", tier = \"blob\" }\nmin_size = \"1MiB\"")).unwrap();
    let cold = config.rules[0].cold.clone().unwrap();
    assert_eq!((cold.tier.as_str(), cold.idle.as_secs()), ("blob", 30 * 86_400));
    assert_eq!(cold.revalidate, Some(Duration::from_secs(60)), "the tier's own");
    let shown = config.show().to_string();
    assert!(shown.contains("cold = { tier = \"blob\", idle = \"30d\" }"), "{shown}");
    assert_eq!(parse(&shown).unwrap().0.rules, config.rules);
    let rarer = parse(&rule("cold = { idle = \"30d\", tier = \"blob\" }\nrevalidate = \"5m\"")).unwrap().0;
    assert_eq!(rarer.rules[0].cold.clone().unwrap().revalidate, Some(Duration::from_secs(300)));
    for (line, expected) in [
        ("cold = { tier = \"disk\", idle = \"30d\" }", "is the home already"),
        ("cold = { tier = \"glacier\", idle = \"30d\" }", "cold: tier = \"glacier\" is no tier"),
        ("cold = { tier = \"blob\", idle = \"0s\" }", "write how long nobody must have used them"),
        ("cold = { tier = \"blob\", idle = \"soon\" }", "cold: idle = \"soon\""),
        ("cold = { tier = \"blob\" }", "cold needs both; write cold = {"),
        ("cold = { tier = \"blob\", idle = \"1d\", after = \"x\" }", "cold has no `after`"),
        ("cold = \"blob\"", "cold is text; write cold = {"),
    ] {
        assert_said(&rule(line), expected);
    }
    assert_said(
        &small("", "", "hot = \"disk\"\ncold = { tier = \"disk\", idle = \"1d\" }"),
        "is in `hot` too",
    );
}

#[test]
fn a_rule_says_where_new_files_go_while_home_is_full() {
    let in_place = |text: String| text.replace("home = \"blob\"\nstage = \"disk\"", "home = \"disk\"");
    let rule = |mount: &str, line: &str| {
        let more = "[tier.fast]\nkind = \"local\"\npath = \"/fast\"\n";
        in_place(small(mount, more, line))
            .replace("url = \"az://box\"\n[tier.fast]", "url = \"az://box\"\n\n[tier.fast]")
    };
    let over = |text: String| parse(&text).unwrap().0.rules[0].overflow.clone().unwrap();
    let direct = over(rule("", "overflow = \"fast\""));
    assert_eq!((direct.tier.as_str(), direct.stage.as_str()), ("fast", "fast"));
    let on_blob = rule("stage = \"fast\"", "overflow = \"blob\"");
    let staged = over(on_blob.clone());
    assert_eq!(staged.revalidate, Some(Duration::from_secs(60)), "the tier's own");
    let config = parse(&on_blob).unwrap().0;
    assert!(config.rules[0].hold.contains(&"**/*.tmp".to_owned()), "{:?}", config.rules[0].hold);
    let shown = config.show().to_string();
    assert!(shown.contains("overflow = \"blob\""), "{shown}");
    assert_eq!(parse(&shown).unwrap().0.rules, config.rules);
    let both = "cold = { tier = \"blob\", idle = \"30d\" }\noverflow = \"blob\"";
    assert_eq!(over(rule("stage = \"fast\"", both)), staged);
    assert_eq!((staged.tier.as_str(), staged.stage.as_str()), ("blob", "fast"));
    for (mount, line, expected) in [
        ("", "overflow = \"disk\"", "is the home already"),
        ("", "overflow = \"nowhere\"", "overflow = \"nowhere\" is no tier"),
        ("", "overflow = \"blob\"", "needs a stage that is not the home"),
        ("stage = \"disk\"", "overflow = \"blob\"", "needs a stage that is not the home"),
    ] {
        assert_said(&rule(mount, line), expected);
    }
    assert_said(&small("", "", "overflow = \"disk\""), "a blob home has no high water");
}

#[test]
fn every_key_is_unique_and_has_a_readable_default() {
    for (at, key) in keys::KEYS.iter().enumerate() {
        assert!(!keys::KEYS[..at].iter().any(|other| (other.section, other.name) == (key.section, key.name)));
        assert!(!key.doc.contains('|') && !key.doc.ends_with('.'), "{}", key.name);
    }
}

#[test]
fn the_readme_has_the_table_of_keys() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let Ok(readme) = std::fs::read_to_string(readme) else { return };
    let section = readme
        .split_once("<!-- config-keys -->")
        .and_then(|(_, rest)| rest.split_once("<!-- /config-keys -->"));
    let (section, _) = section.expect("README.md has the markers of the table of keys");
    assert_eq!(
        section.trim(),
        keys::markdown().trim(),
        "put the output of `tierfs config keys` between the markers"
    );
}

#[test]
fn mistakes_in_syntax_hide_no_others() {
    assert_said(
        "[mount]\nmemory = 512MiB\nstage = \"nobody\"\n",
        "conf/train.toml:2: `512MiB` is not in quotes; write \"512MiB\"",
    );
    assert_said(
        "[mount]\nmemory = 512MiB\nstage = \"nobody\"\n",
        "conf/train.toml:3: stage = \"nobody\" is no tier",
    );
    assert_said("[mount]\nmemory = \"1\nx = 1\n", "conf/train.toml:2: not TOML");
    assert_said("[mount]\nmemory = \"1GB\"\nmemory = \"2GB\"\n", ":3: `memory` is given twice; keep one");
    assert_said("[tier.a\nkind = \"local\"\n", ":1: not TOML");
    assert!(
        !said("[tier.a\nkind = \"local\"\n").contains("there is no tier"),
        "it may be the unreadable one"
    );
}

#[test]
fn wrong_sections_are_told() {
    assert_said("[mounts]\n", ":1: section [mounts] is unknown; did you mean [mount]?");
    assert_said("[tiers.a]\nkind = \"local\"\n", "did you mean [tier.NAME]?");
    assert_said("[[rules]]\npath = \"**\"\n", "section [[rules]] is unknown; did you mean [[rule]]?");
    assert_said("[rule]\npath = \"**\"\n", "section [rule] is not written that way; write [[rule]]");
    assert_said("[tier]\nkind = \"local\"\n", "write it below [tier.NAME]");
    assert_said("[logging]\n", "sections are [mount], [tier.NAME] and [[rule]]");
    assert_said("memory = \"1GiB\"\n", ":1: `memory` stands outside any section; write it below [mount]");
}

#[test]
fn wrong_keys_are_told() {
    assert_said(
        &small("memroy = \"1GiB\"", "", ""),
        ":2: unknown key `memroy` in [mount]; did you mean `memory`?",
    );
    assert_said(&small("home = \"disk\"", "", ""), "`home` is no key of [mount]; write it below [[rule]]");
    assert_said(&small("", "colour = \"red\"", ""), "keys are kind, path, url");
    assert_said(
        &small("memory = 5", "", ""),
        "`memory` is a bare number; write text in quotes, such as memory = \"512MiB\"",
    );
    assert_said(&small("", "", "hot = [\"disk\", 1]"), "`hot` is a bare number");
    assert_said(&small("", "path = \"/x\"", ""), "`path` means nothing to a tier of kind blob; remove it");
    assert_said(&small("", "high_water = \"80%\"", ""), "`high_water` means nothing to a tier of kind blob");
}

#[test]
fn secrets_are_refused_and_not_repeated() {
    for (tier, better) in [
        ("key = \"SECRET\"", "key_file = "),
        ("account_key = \"SECRET\"", "AZURE_STORAGE_ACCESS_KEY"),
        ("sas_token = \"SECRET\"", "sas_file = "),
        ("client_secret = \"SECRET\"", "AZURE_STORAGE_SPN_CLIENT_SECRET"),
        ("Key = SECRET", "key_file = "),
    ] {
        let text = small("", tier, "");
        assert_said(&text, better);
    }
    let text = small("", "", "").replace("az://box", "https://a.blob.core.windows.net/box?sv=1&sig=SECRET");
    assert_said(&text, "sas_file = ");
    assert!(!said(&text).contains("SECRET"));
}

#[test]
fn sign_in_needs_its_secret_and_only_that() {
    assert_said(&small("", "auth = \"key\"", ""), "needs a secret; write key_file");
    assert_said(&small("", "auth = \"sas\"", ""), "AZURE_STORAGE_SAS_TOKEN");
    assert_said(
        &small("", "auth = \"msi\"\nkey_file = \"/k\"", ""),
        "`key_file` is not used with this `auth`; write auth = \"key\"",
    );
    assert_said(&small("", "sas_file = \"/s\"\nkey_file = \"/k\"", ""), "exclude each other");
    assert_said(&small("", "auth = \"managed\"", ""), "auth = \"managed\" is unknown; write \"auto\"");
    assert_eq!(said(&small("", "auth = \"key\"\nkey_file = \"/k\"", "")), "");
    let emulator =
        small("", "auth = \"key\"", "").replace("az://box", "http://127.0.0.1:10000/devstoreaccount1/box");
    assert_eq!(said(&emulator), "");
}

#[test]
fn overlapping_tiers_are_refused() {
    let tiers = |first: &str, second: &str| {
        format!(
            "{first}\n{second}\n[[rule]]\npath = \"a/**\"\nhome = \"a\"\nstage = \"d\"\n[[rule]]\npath = \"b/**\"\nhome = \"b\"\nstage = \"d\"\n\
                 [tier.d]\nkind = \"local\"\npath = \"/d\"\n[[rule]]\npath = \"**\"\nhome = \"d\"\n"
        )
    };
    let directory = |name: &str, path: &str| format!("[tier.{name}]\nkind = \"local\"\npath = \"{path}\"");
    let blob = |name: &str, url: &str| format!("[tier.{name}]\nkind = \"blob\"\nurl = \"{url}\"");
    for (second, how) in [
        ("/x", "is the same place as"),
        ("/x/", "is the same place as"),
        ("/x/y", "lies inside"),
        ("/", "root of the machine"),
    ] {
        let text = tiers(&directory("a", "/x"), &directory("b", second)).replace("stage = \"d\"\n", "");
        assert_said(&text, how);
    }
    for (first, second, how) in [
        ("az://box", "az://box/p", "tier b lies inside tier a (line 1)"),
        ("az://box/p/q", "https://myaccount.blob.core.windows.net/box/p", "tier b holds tier a"),
        ("az://box/p", "az://box/p/", "is the same place as"),
        ("file:///x", "file:///x/y", "lies inside"),
        ("file:///d/x", "az://box", "tier d (line 13)"),
    ] {
        if how.contains("line 13") {
            assert_said(&tiers(&blob("a", first), &blob("b", second)), "tier d holds tier a");
        } else {
            assert_said(&tiers(&blob("a", first), &blob("b", second)), how);
        }
    }
    assert_eq!(said(&tiers(&blob("a", "az://box/p"), &blob("b", "az://box/pq"))), "");
    assert_eq!(said(&tiers(&blob("a", "az://box/p"), &blob("b", "az://bix/p"))), "");
}

#[test]
fn own_files_stay_out_of_tiers() {
    assert_said(
        &small("catalog = \"sqlite:///disk/t.db\"", "", ""),
        "[mount] catalog (/disk/t.db) lies inside tier disk",
    );
    assert_said(
        &small("control = \"/disk/t.sock\"", "", ""),
        "[mount] control (/disk/t.sock) lies inside tier disk",
    );
    assert_eq!(said(&small("catalog = \"sqlite:///disk/.tierfs/t.db\"", "", "")), "");
}

#[test]
fn metrics_are_this_machines_own_unless_told() {
    let served = |value: &str| {
        let text = small(&format!("metrics = \"{value}\""), "", "");
        parse(&text).unwrap().0.mount.metrics.map(|address| address.to_string())
    };
    assert_eq!(parse(&small("", "", "")).unwrap().0.mount.metrics, None);
    for own in ["9123", ":9123", "localhost:9123", "127.0.0.1:9123"] {
        assert_eq!(served(own).as_deref(), Some("127.0.0.1:9123"), "{own}");
    }
    assert_eq!(served("0.0.0.0:9123").as_deref(), Some("0.0.0.0:9123"));
    assert_eq!(served("[::1]:9").as_deref(), Some("[::1]:9"));
    for wrong in ["everywhere", "99999", "127.0.0.1", "host:80", ""] {
        assert_said(&small(&format!("metrics = \"{wrong}\""), "", ""), "write \"9123\" or");
    }
}

#[test]
fn catalogs_are_databases_or_memory() {
    assert_eq!(parse(&small("catalog = \"memory\"", "", "")).unwrap().0.mount.catalog, Catalog::Memory);
    assert_said(&small("catalog = \"/var/t.db\"", "", ""), "write \"sqlite:///var/t.db\"");
    assert_said(
        &small("catalog = \"sqlite://var/t.db\"", "", ""),
        "write three slashes: \"sqlite:///var/t.db\"",
    );
    assert_said(&small("catalog = \"postgres://x\"", "", ""), "is no catalog");
    assert_said(&small("memory = \"63MiB\"", "", ""), "write at least \"64MiB\"");
    assert_said(
        &small("control = \"run/x.sock\"", "", ""),
        "is relative; write the whole path, such as \"/run/x.sock\"",
    );
}

#[test]
fn rules_refer_to_fitting_tiers() {
    assert_said(&small("", "", "hot = \"dsk\""), "hot = \"dsk\" is no tier; did you mean \"disk\"?");
    assert_said(
        &small("", "", "hot = \"blob\""),
        "hot = \"blob\" is a blob tier, but a tier for hot copies must be a directory; write \"disk\"",
    );
    assert_said(&small("", "", "hot = [\"disk\", \"disk\"]"), "twice");
    assert_said(&small("", "", "promote = \"on-read\""), "nowhere to promote to");
    assert_said(
        &small("", "", "promote = \"warm\""),
        "promote = \"warm\" is unknown; write \"heat\", \"on-read\" or \"never\"",
    );
    assert_said(
        &small("stage = \"blob\"", "", ""),
        ":2: stage = \"blob\" is a blob tier, but a stage must be a directory",
    );
    let no_stage = small("", "", "").replace("stage = \"disk\"\n", "");
    assert_said(&no_stage, ":10: [[rule]] needs a stage");
    assert_eq!(
        said(&small("stage = \"disk\"", "", "").replace("stage = \"disk\"\n\n[[rule]]", "\n[[rule]]")),
        ""
    );
    let in_place = small("", "", "") + "hot = \"disk\"\n";
    assert_said(&in_place, "hot = \"disk\" is the home already");
    let second = "[tier.two]\nkind = \"local\"\npath = \"/two\"\n";
    assert_said(
        &(second.to_owned() + &small("", "", "") + "stage = \"two\"\n"),
        "files at home on disk are written in place; remove it",
    );
}

#[test]
fn rules_must_cover_everything() {
    assert_said(
        "[tier.a]\nkind = \"local\"\npath = \"/a\"\n",
        "there is no rule, so no file has a home; add [[rule]] with path = \"**\" and home = \"a\"",
    );
    assert_said(
        "[tier.a]\nkind = \"local\"\npath = \"/a\"\n[[rule]]\npath = \"x/**\"\nhome = \"a\"\n",
        ":5: the last rule does not match everything",
    );
    assert_said("", "there is no tier");
    assert_said(&small("", "", "").replace("b/**", "/b/"), "path = \"/b/\" starts with `/`");
}

#[test]
fn what_can_never_happen_is_warned_of() {
    let text = small("", "", "").replace("\"b/**\"", "\"**\"");
    assert_said(
        &text,
        ":16: warning: rule \"**\" never matches: the rule \"**\" (line 10) matches all of it",
    );
    let bare = small("", "", "").replace("\"b/**\"", "\"b/data\"");
    assert_said(
        &bare,
        ":11: warning: rule \"b/data\" matches nothing but that name; if it is a directory, write \"b/data/**\"",
    );
    let unused = small("", "", "") + "[tier.two]\nkind = \"local\"\npath = \"/two\"\n";
    assert_said(&unused, "warning: no rule uses tier two");
}

#[test]
fn a_mount_stays_out_of_tiers() {
    let (config, _) = parse(GOOD).unwrap();
    for (place, how) in [
        ("/lustre/scratch/blue", "lies in tier scratch"),
        ("/lustre/scratch/blue/mnt", "lies in tier scratch"),
        ("/lustre", "lies below mount point /lustre"),
    ] {
        let found = config.check_mountpoint(Path::new(place)).unwrap_err().to_string();
        assert!(found.starts_with("conf/train.toml: ") && found.contains(how), "{found}");
    }
    config.check_mountpoint(Path::new("/lustre/scratch/bluebell")).unwrap();
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let found = Config::load(Path::new("/nonexistent/x.toml")).unwrap_err().to_string();
    assert!(found.starts_with("/nonexistent/x.toml: can't read the config: No such file"), "{found}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"[mount]\n# \xff\n").unwrap();
    assert!(Config::load(file.path()).unwrap_err().to_string().contains(":2: not UTF-8"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_input_panics(lines in proptest::collection::vec("\\PC{0,40}|\\[+[a-z.]{0,8}\\]*|(path|home|hot|url|kind|memory|stage) ?=? ?[\"\\[]?[a-z0-9:/*%${}.,\"\\]]{0,20}\"?", 0..12)) {
        let _ = said(&lines.join("\n"));
    }
}

#[test]
fn changes_are_told_key_by_key() {
    let change = |before: &str, after: &str| -> Vec<(String, bool)> {
        let (before, after) = (parse(before).unwrap().0, parse(after).unwrap().0);
        let changes = before.changes(&after).into_iter();
        changes.map(|change| (change.what, change.reload == keys::Reload::WhileMounted)).collect()
    };
    let plain = small("", "", "");
    assert_eq!(change(&plain, &plain), []);
    assert_eq!(change(&plain, &small("memory = \"1GiB\"", "", "")), [("[mount] memory".to_owned(), false)]);
    assert_eq!(change(&plain, &small("", "", "settle = \"1s\"")), [("[[rule]]".to_owned(), true)]);
    assert_eq!(
        change(&plain, &small("drain_timeout = \"1s\"", "upload_max = \"1MiB\"", "")),
        [("[mount] drain_timeout".to_owned(), true), ("[tier.blob] upload_max".to_owned(), true)]
    );
    let more = format!("{plain}[tier.more]\nkind = \"local\"\npath = \"/more\"\n");
    let came = ("[tier.more]".to_owned(), false);
    assert_eq!([change(&plain, &more), change(&more, &plain)], [vec![came.clone()], vec![came]]);
    // What a tier says holds for its rules.
    let said: Vec<String> =
        change(&plain, &small("", "revalidate = \"5s\"", "")).into_iter().map(|(what, _)| what).collect();
    assert_eq!(said, ["[tier.blob] revalidate", "[[rule]]"]);
}

#[test]
fn conditions_of_rules_are_understood() {
    let text =
        small("", "", "uid = [\"1000\", \"0\"]\ngid = \"7\"\nmin_size = \"1MiB\"\nmax_size = \"2MiB\"");
    let (config, warnings) = parse(&text).unwrap();
    assert_eq!(warnings, []);
    let rule = &config.rules[0];
    assert_eq!(
        (rule.owners.uids.as_slice(), rule.owners.gids.as_slice()),
        ([1000, 0].as_slice(), [7].as_slice())
    );
    assert_eq!((*rule.sizes.start(), *rule.sizes.end()), (1 << 20, 2 << 20));
    assert_said(
        &small("", "", "uid = \"alice\""),
        "uid = \"alice\" is no number; write the id, as `id -u NAME` prints it",
    );
    assert_said(&small("", "", "uid = 1000"), "uid");
    assert_said(&small("", "", "gid = []"), "gid names nobody; write an id, or remove it");
    assert_said(&small("", "", "min_size = \"2MiB\"\nmax_size = \"1MiB\""), "min_size is above max_size");
    let last = small("", "", "").replace("path = \"**\"", "path = \"**\"\nuid = \"5\"");
    assert_said(&last, "the last rule does not match everything");
}

#[test]
fn a_rule_behind_one_for_all_owners_never_matches() {
    let with = |first: &str, second: &str| {
        small("", "", "").replace("home = \"blob\"", &format!("home = \"blob\"\n{first}")).replace(
            "[[rule]]\npath = \"**\"",
            &format!("[[rule]]\npath = \"b/x/**\"\nhome = \"disk\"\n{second}\n[[rule]]\npath = \"**\""),
        )
    };
    assert_said(&with("", ""), "rule \"b/x/**\" never matches");
    assert_said(&with("", "uid = \"5\""), "rule \"b/x/**\" never matches");
    assert_said(&with("uid = [\"5\", \"6\"]", "uid = \"5\""), "rule \"b/x/**\" never matches");
    assert_eq!(said(&with("uid = \"5\"", "")), "");
}
