//! Properties of rules over random patterns and paths.

use super::*;
use crate::types::Ids;
use globset::GlobBuilder;
use proptest::prelude::*;

fn rule(index: usize, pattern: &str, home: u32) -> Rule {
    Rule {
        index,
        pattern: pattern.into(),
        owners: Owners::default(),
        home: TierId(home),
        cold: None,
        overflow: None,
        stage: TierId(home),
        hot: Vec::new(),
        promote: Promote::Never,
        sizes: 0..=u64::MAX,
        revalidate: None,
        settle: Duration::ZERO,
        order: Order::default(),
        order_by: None,
        hold: Vec::new(),
        write: crate::policy::placement::Write::Back,
        fsync: crate::policy::placement::Fsync::Stage,
        open_upload: None,
        hold_max: Duration::MAX,
        conflict: Conflict::default(),
        dirty_max: None,
        keep_hot: None,
    }
}

fn rules(patterns: &[(&str, u32)]) -> Rules {
    Rules::new(patterns.iter().enumerate().map(|(at, (glob, home))| rule(at, glob, *home)).collect()).unwrap()
}

fn key(path: &str) -> Key {
    Key::parse(path).unwrap()
}

/// Root's.
fn of(path: &Key) -> Subject<'_> {
    Subject::new(path, Ids::default())
}

fn homes(tiers: Vec<TierId>) -> Vec<u32> {
    tiers.into_iter().map(|tier| tier.0).collect()
}

#[test]
fn the_first_match_wins() {
    let rules = rules(&[("a/*.pt", 1), ("a/**", 2), ("**", 3)]);
    let home = |path| rules.rule(of(&key(path))).home.0;
    assert_eq!([home("a/x.pt"), home("a/b/x.pt"), home("a"), home("b"), home("")], [1, 2, 2, 3, 3]);
    assert_eq!(rules.domain(of(&key("a/b"))), "rule1");
}

#[test]
fn a_domain_has_the_order_of_its_rule() {
    let mut loose = rule(0, "a/**", 1);
    loose.order = Order::None;
    let rules = Rules::new(vec![loose, rule(1, "**", 2)]).unwrap();
    let order = |path| rules.order(&rules.domain(of(&key(path))));
    assert_eq!([order("a/b"), order("b")], [Order::None, Order::Strict]);
    for unknown in ["rule2", "rule", "", "a"] {
        assert_eq!(rules.order(unknown), Order::Strict, "{unknown}");
    }
}

#[test]
fn tiers_under_stops_where_a_rule_covers_all() {
    let rules = rules(&[("a/b/**", 1), ("a/**", 2), ("**/*.pt", 4), ("a/c/**", 5), ("**", 3)]);
    let under = |path| homes(rules.tiers_under(&key(path)));
    assert_eq!(under(""), [1, 2, 4, 3], "a/c/** is in the shadow of a/**");
    assert_eq!(under("a"), [1, 2]);
    assert_eq!(under("a/b"), [1]);
    assert_eq!(under("a/c"), [2]);
    assert_eq!(under("z"), [4, 3]);
}

#[test]
fn every_tier_is_named_once() {
    let rules = rules(&[("a/**", 1), ("b/**", 2), ("c/**", 1), ("**", 2)]);
    assert_eq!(homes(rules.tiers_under(&Key::ROOT)), [1, 2]);
}

#[test]
fn equal_placement_of_subtrees() {
    let rules = rules(&[("tmp/*/x/**", 9), ("a/**", 1), ("b/**", 1), ("**/*.pt", 2), ("**", 3)]);
    assert!(rules.same_under(&key("a/d"), &key("a/e")));
    assert!(rules.same_under(&key("a/d"), &key("b/d")), "two rules of one home");
    assert!(rules.same_under(&key("y"), &key("z")), "the same rules apply in the same way");
    assert!(rules.same_under(&key("tmp/1"), &key("tmp/2")));
    assert!(!rules.same_under(&key("tmp/1"), &key("y")));
    assert!(!rules.same_under(&key("a/d"), &key("y")));
}

#[test]
fn rules_must_match_everything() {
    assert_eq!(Rules::new(Vec::new()).unwrap_err().0, 0);
    assert_eq!(Rules::new(vec![rule(0, "**", 1), rule(1, "a/**", 1)]).unwrap_err().0, 1);
    assert_eq!(Rules::new(vec![rule(0, "a[", 1), rule(1, "**", 1)]).unwrap_err().0, 0);
}

/// Names and segments from an alphabet so small that they meet often.
fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abx]{1,2}(\\.pt)?", 0..5).prop_map(|names| names.join("/"))
}

fn glob() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        3 => "[abx]{1,2}",
        2 => Just("**".to_owned()),
        2 => Just("*".to_owned()),
        1 => "\\*\\.pt|a\\*|\\*b\\*|a\\?|[ab]\\*[ab]|\\[!a\\]\\*|\\[ab\\]|\\\\a|\\{a,b\\}|\\{a/b,\\*\\}|\\{\\*\\*/a,b\\}"
    ];
    proptest::collection::vec(segment, 1..5).prop_map(|segments| segments.join("/"))
}

fn some_rules() -> impl Strategy<Value = Rules> {
    proptest::collection::vec((glob(), 0..4_u32), 0..6).prop_map(|mut list| {
        list.push(("**".into(), 9));
        rules(&list.iter().map(|(glob, home)| (glob.as_str(), *home)).collect::<Vec<_>>())
    })
}

/// The path and all directories above it.
fn ancestors(path: &Key) -> Vec<Key> {
    std::iter::successors(Some(path.clone()), |key| key.split().map(|(parent, _)| parent)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_tier_is_missed(rules in some_rules(), path in path()) {
        let path = key(&path);
        let home = rules.rule(of(&path)).home;
        for dir in ancestors(&path) {
            prop_assert!(rules.tiers_under(&dir).contains(&home), "{path} below {dir:?}");
        }
    }

    #[test]
    fn same_under_means_the_same_placement(rules in some_rules(), a in path(), b in path(), below in path()) {
        let at = |dir: &str| key([dir, &below].map(str::to_owned).join("/").trim_matches('/'));
        if rules.same_under(&key(&a), &key(&b)) {
            prop_assert_eq!(rules.rule(of(&at(&a))).home, rules.rule(of(&at(&b))).home);
        }
    }

    #[test]
    fn patterns_match_as_globset_does(glob in glob(), path in path()) {
        let theirs = |glob: &str| {
            let glob = GlobBuilder::new(glob).literal_separator(true).empty_alternates(true).build().unwrap();
            glob.compile_matcher().is_match(&path)
        };
        let ours = Pattern::parse(&glob).unwrap().matches(&key(&path));
        // To globset a trailing `/**` leaves out the directory itself, and `**` in braces has rules of its own.
        let directory = glob.trim_end_matches("/**");
        if !path.is_empty() && !glob.contains("{**") {
            prop_assert_eq!(ours, theirs(&glob) || theirs(directory));
        }
    }

    #[test]
    fn everything_reached_is_matched(glob in glob(), dir in path(), below in path()) {
        let pattern = Pattern::parse(&glob).unwrap();
        let path = key([dir.as_str(), &below].join("/").trim_matches('/'));
        match pattern.reach(&key(&dir)) {
            Reach::Everything => prop_assert!(pattern.matches(&path)),
            Reach::Nothing => prop_assert!(!pattern.matches(&path)),
            Reach::Some => {}
        }
    }

    #[test]
    fn what_is_shadowed_never_matches_first(earlier in proptest::collection::vec(glob(), 1..4), later in glob(), path in path()) {
        let earlier: Vec<_> = earlier.iter().map(|glob| Pattern::parse(glob).unwrap()).collect();
        let later = Pattern::parse(&later).unwrap();
        let path = key(&path);
        if later.is_shadowed_by(earlier.iter()) && later.matches(&path) {
            prop_assert!(earlier.iter().any(|pattern| pattern.matches(&path)));
        }
    }
}

#[test]
fn groups_are_directories_of_one_depth() {
    let keep = KeepHot::new("checkpoints/*/step-*", 3).unwrap();
    let key = |path: &str| Key::parse(path).unwrap();
    assert!(keep.is_group(&key("checkpoints/run/step-1")) && !keep.is_group(&key("checkpoints/run/tmp")));
    assert!(!keep.is_group(&key("checkpoints/run")) && !keep.is_group(&key("checkpoints/run/step-1/x")));
    assert!(keep.is_above_groups(&Key::ROOT) && keep.is_above_groups(&key("checkpoints/run")));
    assert!(!keep.is_above_groups(&key("other")));
    assert!(KeepHot::new("a/**", 1).unwrap_err().contains("write a `*`"));
}

#[test]
fn files_of_one_run_keep_one_order() {
    let mut runs = rule(0, "ck/**", 1);
    runs.order_by = Some("ck/*".into());
    let rules = Rules::new(vec![runs, rule(1, "**", 2)]).unwrap();
    let domain = |path| rules.domain(of(&key(path)));
    assert_eq!([domain("ck/a/x"), domain("ck/a/b/y")], ["rule0:ck/a", "rule0:ck/a"]);
    assert_eq!([domain("ck/latest"), domain("ck"), domain("x")], ["rule0", "rule0", "rule1"]);
    assert_eq!(rules.directory_domain(of(&key("ck/a"))), "rule0:ck/a");
    let below = |from, to| rules.domains_below(&key(from), of(&key(to)));
    assert_eq!(below("ck/a/tmp-1", "ck/a/1"), None, "one domain before and after");
    assert_eq!(below("ck/a", "ck/b").as_deref(), Some("0"));
    assert_eq!(below("x", "ck/b").as_deref(), Some("1"));
    assert_eq!(below("x", "y"), None);
    let from = RuleSet::from("0,3");
    let made = ["rule0", "rule0:ck/a", "rule3", "rule1", "rule30", ""].map(|domain| from.makes(domain));
    assert_eq!(made, [true, true, true, false, false, true]);
}

#[test]
fn held_names_are_those_of_the_rule_of_the_path() {
    let mut held = rule(0, "ck/**", 1);
    held.hold = vec!["**/tmp-*/**".into(), "**/*.tmp".into()];
    let rules = Rules::new(vec![held, rule(1, "**", 2)]).unwrap();
    let is_held = |path| rules.is_held(of(&key(path)));
    assert_eq!(["ck/tmp-1", "ck/tmp-1/a/b", "ck/a.tmp"].map(is_held), [true; 3]);
    assert_eq!(["ck/a", "tmp-1/a", "a.tmp"].map(is_held), [false; 3]);
}

#[test]
fn rules_keep_their_numbers_while_the_config_changes_around_them() {
    let numbers = |rules: &[Rule]| rules.iter().map(|rule| rule.index).collect::<Vec<_>>();
    let specs = |patterns: &[(&str, u32)]| -> Vec<Rule> {
        patterns.iter().map(|(glob, home)| rule(99, glob, *home)).collect()
    };
    let first = Ledger::default().number(specs(&[("a/**", 1), ("**", 2)]));
    assert_eq!(numbers(&first), [0, 1]);
    let ledger = Ledger::default().of(&Rules::new(first).unwrap());
    let second = ledger.number(specs(&[("b/**", 1), ("a/**", 3), ("**", 2)]));
    assert_eq!(numbers(&second), [2, 0, 1]);
    let second = Rules::new(second).unwrap();
    assert_eq!(second.domain(of(&key("a/x"))), "rule0");
    assert_eq!(second.order("rule0"), Order::Strict);
    // The number of a rule that went is nobody's.
    let third = ledger.of(&second).number(specs(&[("**", 2)]));
    let ledger = ledger.of(&second).of(&Rules::new(third).unwrap());
    assert_eq!(numbers(&ledger.number(specs(&[("c/**", 1), ("**", 2)]))), [3, 1]);
}

#[test]
fn files_are_found_at_former_homes_too() {
    let before = Ledger::default().of(&rules(&[("a/x/**", 4), ("a/**", 1), ("**", 2)]));
    let after = rules(&[("a/**", 3), ("**", 2)]);
    assert!(before.places_otherwise(&Ledger::default().of(&after)));
    assert!(!before.places_otherwise(&before) && !Ledger::default().places_otherwise(&before));
    assert_eq!(homes(after.found_under(&key("a"))), [3]);
    let after = after.after(&[before]);
    let also = |path| [1, 2, 4].map(|tier| after.is_also_on(of(&key(path)), TierId(tier)));
    assert_eq!(
        [also("a/b"), also("a/x/y"), also("c")],
        [[true, false, false], [false, false, true], [false, true, false]]
    );
    assert_eq!(homes(after.found_under(&key("a"))), [3, 4, 1]);
    assert_eq!(homes(after.found_under(&key("c"))), [2]);
    assert_eq!(homes(after.tiers_under(&key("a"))), [3]);
}

fn owned(index: usize, pattern: &str, home: u32, owners: &Owners) -> Rule {
    Rule { owners: owners.clone(), ..rule(index, pattern, home) }
}

fn users(uids: &[u32]) -> Owners {
    Owners { uids: uids.to_vec(), ..Owners::default() }
}

#[test]
fn the_owner_chooses_among_rules_that_match() {
    let group = Owners { gids: vec![7], ..Owners::default() };
    let rules = Rules::new(vec![
        owned(0, "a/**", 1, &users(&[5, 6])),
        owned(1, "**", 2, &group),
        rule(2, "a/b/**", 3),
        rule(3, "**", 4),
    ]);
    let rules = rules.unwrap();
    let home = |path, uid, gid| rules.rule(Subject::new(&key(path), Ids { uid, gid })).home.0;
    assert_eq!([home("a/x", 5, 0), home("a/x", 5, 7), home("x", 5, 7), home("a/x", 4, 7)], [1, 1, 2, 2]);
    assert_eq!([home("a/b/x", 0, 0), home("a/x", 0, 0)], [3, 4]);
    assert_eq!(homes(rules.tiers_under(&key("a/b"))), [1, 2, 3]);
    assert_eq!(homes(rules.tiers_under(&key("c"))), [2, 4]);
    assert!(!rules.same_under(&key("a"), &key("c")) && rules.same_under(&key("c"), &key("d")));
    let last = Rules::new(vec![owned(0, "**", 1, &group)]).unwrap_err();
    assert!(last.1.contains("without uid and gid"), "{last:?}");
}

#[test]
fn a_rule_for_some_owners_shadows_only_theirs() {
    let shadowed = |first: &Owners, second: &Owners| {
        let rules =
            Rules::new(vec![owned(0, "a/**", 1, first), owned(1, "a/b", 2, second), rule(2, "**", 3)]);
        !rules.unwrap().tiers_under(&key("a/b")).contains(&TierId(2))
    };
    let all = Owners::default();
    assert!(shadowed(&all, &all) && shadowed(&all, &users(&[1])) && shadowed(&users(&[1, 2]), &users(&[2])));
    assert!(!shadowed(&users(&[1]), &all) && !shadowed(&users(&[1]), &users(&[1, 2])));
    let group = Owners { gids: vec![1], ..users(&[1]) };
    assert!(shadowed(&users(&[1]), &group) && !shadowed(&group, &users(&[1])));
}

#[test]
fn names_are_believed_as_long_as_every_owner_may() {
    let window = |rule: Rule, seconds| Rule { revalidate: Some(Duration::from_secs(seconds)), ..rule };
    let rules = vec![
        window(owned(0, "a/**", 1, &users(&[5])), 9),
        window(rule(1, "a/**", 1), 3),
        window(rule(2, "**", 1), 1),
    ];
    let rules = Rules::new(rules).unwrap();
    assert_eq!(rules.revalidate(&key("a/x")), Some(Duration::from_secs(3)));
    assert_eq!(rules.revalidate(&key("b")), Some(Duration::from_secs(1)));
    assert_eq!(rules.revalidate_below(&key("b")), Some(Some(Duration::from_secs(1))));
    assert_eq!(rules.revalidate_below(&key("a")), None, "rules there differ");
}

fn with_cold(mut rule: Rule, tier: u32) -> Rule {
    rule.cold =
        Some(Cold { tier: TierId(tier), idle: Duration::from_secs(60), revalidate: Some(Duration::MAX) });
    rule
}

#[test]
fn a_file_lives_where_it_was_sent_as_long_as_its_rule_sends_files_there() {
    let all = vec![with_cold(rule(0, "m/**", 1), 3), rule(1, "**", 2)];
    let rules = Rules::new(all).unwrap();
    let (here, there) = (key("m/a"), key("x/a"));
    let sent = |path, tier| Subject { path, ids: Ids::default(), away: Some(TierId(tier)) };
    assert_eq!(rules.rule(Subject::new(&here, Ids::default())).home, TierId(1));
    assert_eq!(rules.rule(sent(&here, 3)).home, TierId(3));
    assert_eq!(rules.rule(sent(&here, 2)).home, TierId(1), "sent by another rule");
    assert_eq!(rules.rule(sent(&there, 3)).home, TierId(2));
    assert!(rules.is_away(sent(&here, 3)) && !rules.is_away(sent(&there, 3)));
    assert_eq!(rules.tiers_under(&key("m")), [TierId(1), TierId(3)]);
    assert_eq!(rules.tiers_under(&key("x")), [TierId(2)]);
    assert!(!rules.same_under(&key("m"), &key("x")));
    let role = |path, tier| rules.role(FileKind::Regular, Subject::new(path, Ids::default()), TierId(tier));
    assert_eq!([role(&here, 1), role(&here, 3), role(&here, 2)], [Role::Home, Role::Cold, Role::None]);
    assert!(rules.is_only_away(&here, TierId(3)) && !rules.is_only_away(&here, TierId(1)));
    assert!(rules.sends_away_under(&key("m/deep")) && !rules.sends_away_under(&key("x")));
    assert!(rules.sends_away_under(&Key::ROOT));
    assert_eq!(rules.revalidate_on(&here, TierId(3)), Some(Duration::MAX));
}

#[test]
fn sizes_choose_what_goes_cold() {
    let mut large = with_cold(rule(0, "**", 1), 3);
    large.sizes = 10..=20;
    let goes: Vec<u64> = (8..24).filter(|size| large.cold_for(*size).is_some()).collect();
    assert_eq!(goes, (10..=20).collect::<Vec<_>>());
}

#[test]
fn a_rule_that_sends_nothing_away_any_more_is_remembered() {
    let (before, now) = (Rules::new(vec![with_cold(rule(0, "**", 1), 3)]).unwrap(), rules(&[("**", 1)]));
    let (old, new) = (Ledger::default().of(&before), Ledger::default().of(&now));
    assert!(old.places_otherwise(&new));
    let text = serde_json::to_string(&old).unwrap();
    assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), old);
    let now = now.after(&[old]);
    let path = key("a/b");
    let role = |tier| now.role(FileKind::Regular, Subject::new(&path, Ids::default()), TierId(tier));
    assert_eq!([role(1), role(3), role(2)], [Role::Home, Role::Former, Role::None]);
    assert_eq!(now.found_under(&key("a")), [TierId(1), TierId(3)]);
}

#[test]
fn a_file_that_home_had_no_room_for_has_its_own_stage() {
    let mut full = with_cold(rule(0, "**", 1), 3);
    full.overflow = Some(Overflow { tier: TierId(4), stage: TierId(2), revalidate: Some(Duration::MAX) });
    let rules = Rules::new(vec![full]).unwrap();
    let path = key("a");
    let sent = |tier| Subject { path: &path, ids: Ids::default(), away: Some(TierId(tier)) };
    let place = |tier| (rules.rule(sent(tier)).home, rules.rule(sent(tier)).stage);
    assert_eq!(
        [place(4), place(3), place(9)],
        [(TierId(4), TierId(2)), (TierId(3), TierId(1)), (TierId(1), TierId(1))]
    );
    assert_eq!(rules.tiers_under(&Key::ROOT), [TierId(1), TierId(3), TierId(4)]);
    assert_eq!(rules.overflowing(), [TierId(1)]);
    assert!(rules.at_rest().overflowing().is_empty());
    assert!(rules.is_only_away(&path, TierId(4)) && !rules.is_only_away(&path, TierId(1)));
    assert_eq!(rules.revalidate_on(&path, TierId(4)), Some(Duration::MAX));
    assert!(rules.iter().all(|rule| rule.stages_on(TierId(2)) && !rule.stages_on(TierId(1))));
    let known = Ledger::default().of(&rules);
    let now = Rules::new(vec![rule(0, "**", 1)]).unwrap().after(&[known]);
    let role = |tier| now.role(FileKind::Regular, Subject::new(&path, Ids::default()), TierId(tier));
    assert_eq!([role(3), role(4), role(2)], [Role::Former, Role::Former, Role::None], "it is remembered");
    let role = |tier| rules.role(FileKind::Regular, Subject::new(&path, Ids::default()), TierId(tier));
    assert_eq!([role(1), role(3), role(4)], [Role::Home, Role::Cold, Role::Overflow]);
}
