//! A rule's glob as a small automaton over names: which paths it matches, and what of a subtree it can reach.
//!
//! A state is a set of positions in the segments, one bit each; the position after the last
//! segment accepts. Reading a directory's names leaves the state from which everything below it goes on, so a
//! question about a subtree is a question about one integer.

use super::braces;
use super::segment::Segment;
use crate::types::Key;
use std::collections::HashSet;

/// One bit is the end, the others are segments.
const MAX_SEGMENTS: usize = 63;
/// Where the search for rules in the shadow of others gives up (and finds none).
const MAX_SEARCH: usize = 1_000;

/// A compiled glob: any of its branches may match.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Vec<Branch>);

/// What is left of one branch after some names; 0 once it can't match any more.
type State = u64;

#[derive(Clone, Debug)]
struct Branch {
    segments: Vec<Segment>,
    /// Positions of `**`.
    many: State,
    /// Positions of `*`.
    one: State,
    /// The position after the last segment.
    end: State,
}

impl Pattern {
    /// Compiles a glob: globset's syntax, `**` as a whole segment is any number of names, none included.
    ///
    /// # Errors
    /// What is wrong with it and what to write instead.
    pub(crate) fn parse(glob: &str) -> Result<Self, String> {
        if glob.is_empty() {
            return Err("is empty; write \"**\" for everything".into());
        }
        let relative = glob.trim_matches('/');
        if glob.starts_with('/') {
            return Err(format!("starts with `/`, but is relative to the mount; write \"{relative}\""));
        }
        if glob.ends_with('/') {
            return Err(format!("ends with `/`; write \"{relative}/**\" for the directory and all below it"));
        }
        let branches = braces::alternatives(glob)?.into_iter().map(|texts| Branch::new(texts, glob));
        branches.collect::<Result<_, _>>().map(Self)
    }

    /// Whether it matches `path`.
    pub(crate) fn matches(&self, path: &Key) -> bool {
        self.0.iter().any(|branch| branch.after(path) & branch.end != 0)
    }

    /// How much of what is at or below `dir` it matches.
    pub(crate) fn reach(&self, dir: &Key) -> Reach {
        let mut reach = Reach::Nothing;
        for branch in &self.0 {
            match branch.after(dir) {
                0 => {}
                state if branch.accepts_all_from(state) => return Reach::Everything,
                _ => reach = Reach::Some,
            }
        }
        reach
    }

    /// Whether it matches every path.
    pub(crate) fn matches_everything(&self) -> bool {
        self.reach(&Key::ROOT) == Reach::Everything
    }

    /// Whether for every path `p`, it matches `a/p` exactly if it matches `b/p`.
    pub(crate) fn same_below(&self, a: &Key, b: &Key) -> bool {
        self.0.iter().all(|branch| branch.after(a) == branch.after(b))
    }

    /// Whether `earlier` together match all that this one matches; `false` when in doubt.
    pub(crate) fn is_shadowed_by<'a>(&self, earlier: impl Iterator<Item = &'a Self>) -> bool {
        let shadows: Vec<&Branch> = earlier.flat_map(|pattern| &pattern.0).collect();
        self.0.iter().all(|branch| branch.is_shadowed_by(&shadows))
    }
}

/// How much of a subtree a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nothing.
    Nothing,
    /// It may match something.
    Some,
    /// All of it, the directory itself included.
    Everything,
}

impl Branch {
    fn new(texts: braces::Alternative, glob: &str) -> Result<Self, String> {
        let mut segments: Vec<Segment> = Vec::with_capacity(texts.len());
        for text in texts {
            let segment = Segment::parse(text, glob)?;
            // `**/**` is `**`; so one look ahead closes a state.
            if !(segment.is_many() && segments.last().is_some_and(Segment::is_many)) {
                segments.push(segment);
            }
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(format!("has more than {MAX_SEGMENTS} names"));
        }
        let bits = |wanted: fn(&Segment) -> bool| {
            let matching = segments.iter().enumerate().filter(|(_, segment)| wanted(segment));
            matching.fold(0, |bits, (at, _)| bits | 1 << at)
        };
        let (many, one, end) = (bits(Segment::is_many), bits(Segment::is_one), 1 << segments.len());
        Ok(Self { segments, many, one, end })
    }

    /// The state with every position that `**` reaches by matching no name.
    fn closed(&self, state: State) -> State {
        state | (state & self.many) << 1
    }

    fn start(&self) -> State {
        self.closed(1)
    }

    fn after(&self, path: &Key) -> State {
        let mut state = self.start();
        for name in path.components() {
            state = self.step(state, |segment| segment.matches(name));
            if state == 0 {
                break;
            }
        }
        state
    }

    fn step(&self, state: State, matches: impl Fn(&Segment) -> bool) -> State {
        let mut next = state & self.many;
        let mut todo = state & !self.many & !self.end;
        while todo != 0 {
            let at = todo.trailing_zeros() as usize;
            if matches(&self.segments[at]) {
                next |= 2 << at;
            }
            todo &= todo - 1;
        }
        self.closed(next)
    }

    /// One name of which nothing is known.
    fn step_unknown(&self, state: State) -> State {
        self.closed(state & self.many | (state & self.one) << 1)
    }

    fn accepts_all_from(&self, mut state: State) -> bool {
        // Positions either stay (`**`) or move on, so the state repeats after as many names as there are segments.
        for _ in 0..=self.segments.len() {
            if state & self.end == 0 {
                return false;
            }
            state = self.step_unknown(state);
        }
        state & self.end != 0
    }

    /// Walks all that this branch matches, with the shadows' states beside it.
    fn is_shadowed_by(&self, shadows: &[&Self]) -> bool {
        let mut todo = vec![(0, shadows.iter().map(|shadow| shadow.start()).collect::<Vec<_>>())];
        let mut seen = HashSet::new();
        while let Some((at, states)) = todo.pop() {
            if !seen.insert((at, states.clone())) {
                continue;
            }
            if seen.len() > MAX_SEARCH {
                return false;
            }
            let advance = |step: &dyn Fn(&Self, State) -> State| {
                shadows.iter().zip(&states).map(|(shadow, state)| step(shadow, *state)).collect::<Vec<_>>()
            };
            match self.segments.get(at) {
                None if !shadows.iter().zip(&states).any(|(shadow, state)| state & shadow.end != 0) => {
                    return false;
                }
                None => {}
                Some(segment) if segment.is_many() => {
                    todo.push((at, advance(&Self::step_unknown)));
                    todo.push((at + 1, states));
                }
                Some(segment) => {
                    let next = advance(&|shadow, state| shadow.step(state, |other| other.includes(segment)));
                    todo.push((at + 1, next));
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reach::{Everything, Nothing};

    fn pattern(glob: &str) -> Pattern {
        Pattern::parse(glob).unwrap()
    }

    fn key(path: &str) -> Key {
        Key::parse(path).unwrap()
    }

    #[test]
    fn reach_is_exact_for_the_usual_shapes() {
        for (glob, dir, reach) in [
            ("data/**", "", Reach::Some),
            ("data/**", "data", Everything),
            ("data/**", "data/a/b", Everything),
            ("data/**", "other", Nothing),
            ("data/**", "database", Nothing),
            ("**", "", Everything),
            ("**", "a/b", Everything),
            ("data/*.tar", "data", Reach::Some),
            ("data/*.tar", "data/x", Nothing),
            ("data/*.tar", "data/x.tar", Reach::Some),
            ("data/*.tar", "data/x.tar/y", Nothing),
            ("a/*/b/**", "a", Reach::Some),
            ("a/*/b/**", "a/x", Reach::Some),
            ("a/*/b/**", "a/x/c", Nothing),
            ("a/*/b/**", "a/x/b", Everything),
            ("**/x", "", Reach::Some),
            ("**/x", "a/b", Reach::Some),
            ("**/x/**", "a/x/b", Everything),
            ("a/**/*", "a", Reach::Some),
            ("a/**/*", "a/b", Everything),
            ("{a,b/c}/**", "b/c", Everything),
            ("{a,b/c}/**", "b/d", Nothing),
        ] {
            assert_eq!(pattern(glob).reach(&key(dir)), reach, "{glob} at {dir:?}");
        }
    }

    #[test]
    fn a_subtree_includes_its_top() {
        assert!(pattern("p/**").matches(&key("p")));
        assert!(pattern("a/**/b").matches(&key("a/b")) && pattern("**/x").matches(&key("x")));
        assert!(!pattern("p/*").matches(&key("p")) && !pattern("*").matches_everything());
        assert!(pattern("**").matches_everything() && pattern("{a,**}").matches_everything());
    }

    #[test]
    fn shadows_are_found() {
        for (earlier, later) in [
            (&["a/**"][..], "a/b/*.pt"),
            (&["**/*.pt"], "a/b/x.pt"),
            (&["**/*.pt"], "a/**/*.pt"),
            (&["a/*/**"], "a/x/**"),
            (&["a", "a/*/**"], "a/**"),
            (&["{a,b}/**"], "b/**"),
            (&["a/**", "b/**"], "{a,b}/c"),
        ] {
            let earlier: Vec<_> = earlier.iter().map(|glob| pattern(glob)).collect();
            assert!(pattern(later).is_shadowed_by(earlier.iter()), "{later} is behind {earlier:?}");
        }
        for (earlier, later) in [("a/*", "a/**"), ("**/*.pt", "a/*"), ("a/*/**", "a/**"), ("**/x", "**/x/**")]
        {
            assert!(!pattern(later).is_shadowed_by([pattern(earlier)].iter()), "{later} behind {earlier}");
        }
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (bad, better) in [
            ("/data/**", "\"data/**\""),
            ("data/", "\"data/**\""),
            ("", "\"**\""),
            ("data/**.tar", "\"data/**/*.tar\""),
            ("a//b", "empty name"),
            ("../a", "`..`"),
            ("a[", "`[[]`"),
        ] {
            let said = Pattern::parse(bad).unwrap_err();
            assert!(said.contains(better), "{bad}: {said}");
        }
        assert!(Pattern::parse("a/".repeat(64).trim_end_matches('/')).is_err());
        assert!(Pattern::parse("a/".repeat(63).trim_end_matches('/')).is_ok());
    }
}
