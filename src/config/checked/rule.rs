//! `[[rule]]`

use super::cold::{self, ColdConfig};
use super::overflow::{self, OverflowConfig};
use super::{mount, some_text, tier, word};
use crate::config::raw::Section;
use crate::config::report::{Findings, WHOLE_FILE};
use crate::config::section::{Located, Reader, quoted};
use crate::config::show::{Origin, Shown};
use crate::config::units;
use crate::policy::placement::{Conflict, Fsync, KeepHot, Order, Owners, Pattern, Promote, Write};
use std::ops::RangeInclusive;
use std::time::Duration;

/// `[[rule]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleConfig {
    /// Which paths.
    pub path: String,
    /// Whose files.
    pub owners: Owners,
    /// The tier that must end up with the durable copy.
    pub home: String,
    /// The directory tier that takes new bytes first; `home` itself if that is one.
    pub stage: String,
    /// Where files go that nobody has used for long.
    pub cold: Option<ColdConfig>,
    /// Where new files go while home is too full.
    pub overflow: Option<OverflowConfig>,
    /// Tiers for hot copies, nearest first.
    pub hot: Vec<String>,
    /// When a hot copy is made.
    pub promote: Promote,
    /// How large a file must be for a hot copy or to go where nobody uses it, at least and at most.
    pub sizes: RangeInclusive<u64>,
    /// Groups whose newest keep their hot copies.
    pub keep_hot: Option<KeepHot>,
    /// What close waits for.
    pub write: Write,
    /// What fsync waits for.
    pub fsync: Fsync,
    /// How often what is open for writing is brought home as it is; `None`: never.
    pub open_upload: Option<Duration>,
    /// Which commits keep their order.
    pub order: Order,
    /// Directories with an order of their own.
    pub order_by: Option<String>,
    /// Names that are not committed as long as they are such; none where files are written in place.
    pub hold: Vec<String>,
    /// How long a name is held at most.
    pub hold_max: Duration,
    /// What becomes of both versions after an outside change.
    pub conflict: Conflict,
    /// Bytes not at home above which opens for writing wait; `None`: any number.
    pub dirty_max: Option<u64>,
    /// How long an upload waits after close.
    pub settle: Duration,
    /// How long changes by other tools may stay unseen; `None`: for ever.
    pub revalidate: Option<Duration>,
}

impl RuleConfig {
    /// Whether files of the rule may be on this tier for good.
    #[must_use]
    pub fn keeps_on(&self, tier: &str) -> bool {
        let others =
            [self.cold.as_ref().map(|cold| &cold.tier), self.overflow.as_ref().map(|over| &over.tier)];
        self.home == tier || others.into_iter().flatten().any(|other| other == tier)
    }

    /// Whether new bytes of the rule may be on this tier first.
    #[must_use]
    pub fn stages_on(&self, tier: &str) -> bool {
        self.stage == tier || self.overflow.as_ref().is_some_and(|over| over.stage == tier)
    }
}

pub(in crate::config) const PROMOTES: [(&str, Promote); 3] =
    [("heat", Promote::Heat), ("on-read", Promote::OnRead), ("never", Promote::Never)];

pub(in crate::config) const ORDERS: [(&str, Order); 3] =
    [("strict", Order::Strict), ("barrier", Order::Barrier), ("none", Order::None)];

pub(in crate::config) const WRITES: [(&str, Write); 2] = [("back", Write::Back), ("through", Write::Through)];

pub(in crate::config) const FSYNCS: [(&str, Fsync); 2] = [("stage", Fsync::Stage), ("home", Fsync::Home)];

/// What is open is not brought home more often.
const OPEN_UPLOAD_MIN: Duration = Duration::from_secs(1);

/// Names that programs give to what they are still to rename.
const HELD: [&str; 4] = ["**/tmp-*/**", "**/*.tmp", "**/*.incomplete", "**/_temporary/**"];

pub(in crate::config) const CONFLICTS: [(&str, Conflict); 2] =
    [("keep-both", Conflict::KeepBoth), ("overwrite", Conflict::Overwrite)];

/// What is known of a rule while the rest is checked.
pub(super) struct Draft {
    line: usize,
    path: Option<Located<Compiled>>,
    home: Option<String>,
    stage: Option<String>,
    /// The rest; `path`, `home` and `stage` in it are still empty.
    value: RuleConfig,
}

type Compiled = (String, Pattern);

impl Draft {
    pub(super) fn uses(&self, tier: &str) -> bool {
        let tiers = [&self.home, &self.stage].into_iter().flatten().chain(&self.value.hot);
        let cold = self.value.cold.as_ref().map(|cold| &cold.tier);
        let over = self.value.overflow.iter().flat_map(|over| [&over.tier, &over.stage]);
        tiers.chain(cold).chain(over).any(|used| used == tier)
    }

    pub(super) fn finish(self) -> Option<RuleConfig> {
        let (path, home, stage) = (self.path?.value.0, self.home?, self.stage?);
        Some(RuleConfig { path, home, stage, ..self.value })
    }
}

pub(super) struct Rules {
    pub(super) drafts: Vec<Draft>,
    pub(super) shown: Vec<Shown>,
}

pub(super) fn read_all(
    sections: Vec<Section>,
    tiers: &[tier::Draft],
    mount: &mount::Draft,
    findings: &mut Findings,
) -> Rules {
    let read = sections.into_iter().map(|section| read(section, tiers, mount, findings));
    let (drafts, shown): (Vec<_>, Vec<_>) = read.unzip();
    check_last(&drafts, tiers, findings);
    warn_of_shadowed(&drafts, findings);
    warn_of_bare_names(&drafts, findings);
    Rules { drafts, shown }
}

fn read(
    section: Section,
    tiers: &[tier::Draft],
    mount: &mount::Draft,
    findings: &mut Findings,
) -> (Draft, Shown) {
    let mut reader = Reader::new(section, findings);
    for (key, better) in [("path", "\"datasets/**\""), ("home", "\"the tier that keeps these files\"")] {
        if !reader.has(key) {
            reader.missing(&format!("has no `{key}`; write {key} = {better}"));
        }
    }
    let path = reader.given("path", &|text| Ok((text.to_owned(), Pattern::parse(text)?)));
    let home = reader.given("home", &|name| match tiers.iter().find(|tier| tier.name == name) {
        Some(tier) => Ok(tier),
        None => Err(tier::unknown(name, tiers)),
    });
    let home = home.map(|home| home.value);
    let hot = read_hot(&mut reader, tiers, home);
    let mut cold = cold::read(&mut reader, tiers, home, &hot);
    let mut overflow = overflow::read(&mut reader, tiers, mount, home);
    let stage = read_stage(&mut reader, tiers, mount, home, &hot);
    let owners = read_owners(&mut reader);
    let sizes = read_sizes(&mut reader);
    let promote = read_promote(&mut reader);
    let keep_hot = read_keep_hot(&mut reader);
    let write = read_waits(&mut reader, home, "write", &WRITES);
    let fsync = read_waits(&mut reader, home, "fsync", &FSYNCS);
    let open_upload = read_open_upload(&mut reader, home);
    let order = read_order(&mut reader, write);
    let order_by = reader.given("order_by", &glob).map(|given| given.value);
    // What is written in place is never committed.
    let in_place = home.is_none_or(|home| home.kind.is_none_or(tier::TierKind::is_directory));
    let in_place = in_place && !overflow.as_ref().is_some_and(OverflowConfig::is_staged);
    let hold = read_hold(&mut reader, if in_place { Commits::Never } else { Commits::Do }, write);
    let hold_max = reader.value("hold_max", &units::duration).value;
    let conflict = reader.value("conflict", &|text| word(text, &CONFLICTS)).value;
    let dirty_max = reader.value("dirty_max", &units::size_or_unlimited).value;
    let settle = reader.value("settle", &units::duration).value;
    let revalidate = read_revalidate(&mut reader, home);
    let cold_window = cold.as_mut().map(|cold| &mut cold.revalidate);
    for window in cold_window.into_iter().chain(overflow.as_mut().map(|over| &mut over.revalidate)) {
        // Not more often than it is worth there.
        *window = revalidate.and_then(|own| window.map(|there| own.max(there)));
    }
    let (line, home) = (reader.line(), home.map(|home| home.name.clone()));
    let value = RuleConfig {
        path: String::new(),
        owners,
        home: String::new(),
        stage: String::new(),
        cold,
        overflow,
        hot,
        promote,
        sizes,
        keep_hot,
        write,
        fsync,
        open_upload,
        order,
        order_by,
        hold,
        hold_max,
        conflict,
        dirty_max,
        settle,
        revalidate,
    };
    let draft = Draft { line, path, home, stage, value };
    (draft, reader.finish())
}

fn read_owners(reader: &mut Reader<'_>) -> Owners {
    let mut ids = |key| {
        let given = reader.list(key, &id);
        if reader.is_empty_list(key) {
            reader.problem(reader.line_of(key), format!("{key} names nobody; write an id, or remove it"));
        }
        given.into_iter().map(|given| given.value).collect()
    };
    Owners { uids: ids("uid"), gids: ids("gid") }
}

fn id(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_no_number: std::num::ParseIntError| {
        "is no number; write the id, as `id -u NAME` prints it".to_owned()
    })
}

fn read_sizes(reader: &mut Reader<'_>) -> RangeInclusive<u64> {
    let min = reader.given("min_size", &units::size);
    let max = reader.given("max_size", &units::size);
    let (from, to) = (min.as_ref().map_or(0, |min| min.value), max.map_or(u64::MAX, |max| max.value));
    if let Some(min) = min.filter(|_| from > to) {
        reader.problem(min.line, "min_size is above max_size, so no file fits; swap them");
    }
    from..=to
}

fn glob(text: &str) -> Result<String, String> {
    Pattern::parse(text).map(|_| text.to_owned())
}

/// What a call waits for, which is a question only where files are not written in place.
fn read_waits<T: Copy + Default + PartialEq>(
    reader: &mut Reader<'_>,
    home: Option<&tier::Draft>,
    key: &'static str,
    words: &[(&str, T)],
) -> T {
    let in_place = home.filter(|home| home.kind.is_some_and(tier::TierKind::is_directory));
    if in_place.is_some() && !reader.has(key) {
        return T::default();
    }
    let Located { value, line } = reader.value(key, &|text| word(text, words));
    if let Some(home) = in_place.filter(|_| value != T::default()) {
        let wrong =
            format!("{key} is not used: files at home on {} are written in place; remove it", home.name);
        reader.problem(line, wrong);
    }
    value
}

fn read_open_upload(reader: &mut Reader<'_>, home: Option<&tier::Draft>) -> Option<Duration> {
    let in_place = home.filter(|home| home.kind.is_some_and(tier::TierKind::is_directory));
    if in_place.is_some() && !reader.has("open_upload") {
        return None;
    }
    let Located { value, line } = reader.value("open_upload", &units::duration_or_never);
    if let (Some(home), Some(_)) = (in_place, value) {
        let wrong = format!(
            "open_upload is not used: files at home on {} are written in place; remove it",
            home.name
        );
        reader.problem(line, wrong);
    }
    if value.is_some_and(|every| every < OPEN_UPLOAD_MIN) {
        reader.problem(line, "open_upload would upload without end; write at least \"1s\"");
    }
    value
}

/// Who waits for each commit orders them by itself.
fn read_order(reader: &mut Reader<'_>, write: Write) -> Order {
    let default = if write == Write::Through { "none" } else { "strict" };
    reader.value_or("order", default, Origin::Default, &|text| word(text, &ORDERS)).value
}

/// Whether files of a rule are committed at all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commits {
    Do,
    Never,
}

fn read_hold(reader: &mut Reader<'_>, commits: Commits, write: Write) -> Vec<String> {
    if reader.has("hold") {
        let hold: Vec<_> = reader.list("hold", &glob);
        if let (Some(first), Write::Through) = (hold.first(), write) {
            reader.problem(
                first.line,
                "hold contradicts write = \"through\", where every close waits for its commit; remove one of them",
            );
        }
        return hold.into_iter().map(|given| given.value).collect();
    }
    if write == Write::Through {
        return Vec::new();
    }
    if commits == Commits::Never {
        return Vec::new();
    }
    let shown: Vec<String> = HELD.iter().map(|glob| quoted(glob)).collect();
    reader.note("hold", format!("[{}]", shown.join(", ")), Origin::Default);
    HELD.map(str::to_owned).to_vec()
}

fn read_hot(reader: &mut Reader<'_>, tiers: &[tier::Draft], home: Option<&tier::Draft>) -> Vec<String> {
    let given =
        reader.list("hot", &|name| match tier::must_be_directory(name, tiers, "a tier for hot copies") {
            Some(wrong) => Err(wrong),
            None if home.is_some_and(|home| home.name == name) => {
                Err("is the home already; remove it".into())
            }
            None => Ok(name.to_owned()),
        });
    let mut hot: Vec<String> = Vec::new();
    for Located { value, line } in given {
        if hot.contains(&value) {
            reader.problem(line, format!("hot names tier {value} twice; keep one"));
        } else {
            hot.push(value);
        }
    }
    hot
}

fn read_stage(
    reader: &mut Reader<'_>,
    tiers: &[tier::Draft],
    mount: &mount::Draft,
    home: Option<&tier::Draft>,
    hot: &[String],
) -> Option<String> {
    let in_place = home
        .filter(|home| home.kind.is_some_and(tier::TierKind::is_directory))
        .map(|home| home.name.as_str());
    let given =
        reader.given("stage", &|name| match (tier::must_be_directory(name, tiers, "a stage"), in_place) {
            (Some(wrong), _) => Err(wrong),
            (None, Some(home)) if home != name => {
                Err(format!("is not used: files at home on {home} are written in place; remove it"))
            }
            (None, _) => some_text(name),
        });
    if let Some(home) = in_place {
        return Some(home.to_owned());
    }
    if given.is_some() || reader.has("stage") {
        return given.map(|given| given.value);
    }
    let (stage, from) = match (hot.first(), &mount.stage) {
        (Some(first), _) => (first.clone(), "`hot`".to_owned()),
        (None, Some(stage)) => (stage.value.clone(), format!("[mount] stage, line {}", stage.line)),
        // What was given for it is wrong already.
        (None, None) if reader.has("hot") || home.is_none_or(|home| home.kind.is_none()) => return None,
        (None, None) => {
            reader.missing("needs a stage, for a blob tier takes no bytes until a file is closed; write stage = \"a directory tier\" here or in [mount]");
            return None;
        }
    };
    reader.note("stage", quoted(&stage), Origin::Inherited { from });
    Some(stage)
}

fn read_promote(reader: &mut Reader<'_>) -> Promote {
    let default = if reader.has("hot") { "heat" } else { "never" };
    let promote = reader.value_or("promote", default, Origin::Default, &|text| word(text, &PROMOTES));
    if promote.value != Promote::Never && !reader.has("hot") {
        reader.problem(promote.line, "promote has nowhere to promote to; write hot = \"a directory tier\"");
    }
    promote.value
}

fn read_keep_hot(reader: &mut Reader<'_>) -> Option<KeepHot> {
    let Located { value: entries, line } = reader.table("keep_hot")?;
    let (mut group, mut last) = (None, None);
    let mut names = Vec::new();
    for (name, text) in &entries {
        match name.as_str() {
            "group" => group = Some(text),
            "last" => last = Some(text),
            other => {
                let other = other.escape_debug();
                reader.problem(text.line, format!("keep_hot has no `{other}`; it has `group` and `last`"));
            }
        }
        names.extend(text.names.clone());
    }
    let (Some(group), Some(last)) = (group, last) else {
        reader
            .problem(line, "keep_hot needs both; write keep_hot = { group = \"checkpoints/*/*\", last = 3 }");
        return None;
    };
    if !reader.has("hot") {
        reader.problem(
            line,
            "keep_hot keeps hot copies, and this rule makes none; write hot = \"a directory tier\"",
        );
    }
    let Some(count) = last.value.parse().ok().filter(|count| *count > 0) else {
        let given = last.value.escape_debug();
        reader
            .problem(last.line, format!("keep_hot: last = {given} is not a count; write a number from 1 on"));
        return None;
    };
    match KeepHot::new(&group.value, count) {
        Ok(keep) => {
            let shown = format!("{{ group = {}, last = {count} }}", quoted(&group.value));
            reader.note("keep_hot", shown, Origin::Line { line, names });
            Some(keep)
        }
        Err(wrong) => {
            reader.problem(group.line, format!("keep_hot: group = {} {wrong}", quoted(&group.value)));
            None
        }
    }
}

fn read_revalidate(reader: &mut Reader<'_>, home: Option<&tier::Draft>) -> Option<Duration> {
    let given = reader.given("revalidate", &units::duration_or_never);
    match (given, home) {
        (Some(given), _) => given.value,
        (None, Some(home)) => {
            let from = format!("[tier.{}]", home.name);
            if let Some(value) = home.shown.value("revalidate") {
                reader.note("revalidate", value.to_owned(), Origin::Inherited { from });
            }
            home.revalidate.value
        }
        (None, None) => None,
    }
}

fn check_last(rules: &[Draft], tiers: &[tier::Draft], findings: &mut Findings) {
    let likely =
        tiers.iter().find(|tier| tier.kind.is_some_and(tier::TierKind::is_directory)).or(tiers.first());
    let likely = likely.map_or("a tier", |tier| tier.name.as_str());
    let better = format!("[[rule]] with path = \"**\" and home = \"{likely}\"");
    match rules.last() {
        None => {
            findings.missing(WHOLE_FILE, format!("there is no rule, so no file has a home; add {better}"))
        }
        Some(last) => {
            let Some(path) = &last.path else { return };
            if !path.value.1.matches_everything() || !last.value.owners.are_all() {
                findings.missing(path.line, format!("the last rule does not match everything, so some files have no home; add {better} after it"));
            }
        }
    }
}

fn warn_of_shadowed(rules: &[Draft], findings: &mut Findings) {
    for (at, rule) in rules.iter().enumerate() {
        let Some(path) = &rule.path else { continue };
        let takes_all = |earlier: &&Draft| earlier.value.owners.include(&rule.value.owners);
        let earlier = || {
            let earlier = rules[..at].iter().filter(takes_all);
            earlier.filter_map(|rule| Some((rule.line, &rule.path.as_ref()?.value)))
        };
        if !path.value.1.is_shadowed_by(earlier().map(|(_, (_, pattern))| pattern)) {
            continue;
        }
        let alone = earlier().find(|(_, (_, pattern))| path.value.1.is_shadowed_by(std::iter::once(pattern)));
        let by = alone.map_or_else(
            || "the rules before it match".into(),
            |(line, (text, _))| format!("the rule \"{text}\" (line {line}) matches"),
        );
        findings.warning(
            path.line,
            format!("rule \"{}\" never matches: {by} all of it; put it first, or remove it", path.value.0),
        );
    }
}

/// `datasets` where `datasets/**` was meant.
fn warn_of_bare_names(rules: &[Draft], findings: &mut Findings) {
    for path in rules.iter().filter_map(|rule| rule.path.as_ref()) {
        let text = &path.value.0;
        let last = text.rsplit('/').next().unwrap_or(text);
        if !last.contains(['*', '?', '[', '{', '\\', '}', '.']) {
            let better = format!("if it is a directory, write \"{text}/**\" for it and all below it");
            findings.warning(path.line, format!("rule \"{text}\" matches nothing but that name; {better}"));
        }
    }
}
