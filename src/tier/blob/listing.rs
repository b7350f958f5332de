//! Pages of blobs and prefixes as pages of directory entries: each name once over all pages. Pure.
//!
//! A name can be a blob (`x`) and a prefix (`x/`) at once, and between the two other names sort (`x!`, `x.1`), so they
//! may come on different pages. The directory wins, for a blob hides one file and a prefix a whole tree:
//! a marker lends it its attributes, any other blob of the name is hidden and counted. So a blob whose prefix may still
//! come waits in the cursor. Only names that the page's last name starts with can be such, a handful at most.

use super::attributes;
use super::azrest::{Listing, Properties};
use super::names::Names;
use crate::error::{Error, Kind, Result};
use crate::tier::{Archive, Cursor, Entry, Object, Page};
use crate::types::{Attrs, FileKind, Key, Timestamp, Version};
use std::collections::BTreeSet;

/// What one page leaves for the next; the content of a [`Cursor`].
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct State {
    /// The service's marker; none for the first page.
    pub(super) marker: Option<String>,
    /// Blobs whose prefix may still come.
    held: Vec<(String, Properties)>,
    /// The last prefix, should a page boundary repeat it.
    last_prefix: Option<String>,
}

impl State {
    /// From what the caller kept.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if it is no cursor of ours.
    pub(super) fn resume(cursor: Option<Cursor>) -> Result<Self> {
        cursor.map_or_else(
            || Ok(Self::default()),
            |cursor| {
                serde_json::from_str(&cursor.0).map_err(|error| {
                    Error::new(Kind::Invalid, "not a cursor of this tier").with_source(error)
                })
            },
        )
    }

    fn cursor(&self) -> Result<Cursor> {
        serde_json::to_string(self)
            .map(Cursor)
            .map_err(|error| Error::new(Kind::Corrupt, "cursor").with_source(error))
    }
}

/// Which entries a listing is of.
pub(super) struct View<'a> {
    /// The names' rules.
    pub(super) names: &'a Names,
    /// What all names of the directory start with.
    pub(super) directory: &'a str,
    /// The tier's root, where `.tierfs` is not shown.
    pub(super) is_root: bool,
    /// Only components that start so.
    pub(super) start: &'a [u8],
}

/// Most blobs that can wait for their prefix: one a letter of the longest name, and some patience.
const HELD_MAX: usize = 4096;

impl View<'_> {
    /// The entries that are certain after `listing`.
    ///
    /// # Errors
    /// If the state can't be kept.
    pub(super) fn page(&self, state: State, listing: Listing) -> Result<Page> {
        let mut page = Page { hidden: listing.unreadable, ..Page::default() };
        let is_last = listing.next.is_none();
        let last_names = [
            listing.blobs.last().map(|(name, _)| name.clone()).unwrap_or_default(),
            listing.prefixes.last().cloned().unwrap_or_default(),
        ];
        let mut prefixes: BTreeSet<String> = listing.prefixes.into_iter().collect();
        if let Some(last) = &state.last_prefix {
            prefixes.remove(last);
        }
        let last_prefix = prefixes.last().cloned().or(state.last_prefix);
        let mut held = Vec::new();
        for (name, properties) in state.held.into_iter().chain(listing.blobs) {
            let is_prefix = prefixes.remove(&format!("{name}/"));
            let may_be_prefix = !is_last && last_names.iter().any(|last| last.starts_with(&name));
            if properties.etag.is_empty() && !is_prefix {
                // Without a version it would pass for names alone.
                page.hidden += 1;
            } else if is_prefix {
                let is_marker = object_of(&properties).kind == FileKind::Directory;
                let object = if is_marker { object_of(&properties) } else { prefix_only() };
                page.hidden += u64::from(!is_marker);
                self.show(&mut page, &name, object);
            } else if may_be_prefix {
                held.push((name, properties));
            } else if name == self.directory {
                // `dir/`: some tools' marker of the directory itself. With bytes in it, it is a file without a name.
                page.hidden += u64::from(properties.size > 0);
            } else {
                self.show(&mut page, &name, object_of(&properties));
            }
        }
        for prefix in prefixes {
            self.show(&mut page, &prefix[..prefix.len().saturating_sub(1)], prefix_only());
        }
        if held.len() > HELD_MAX {
            return Err(Error::new(Kind::Corrupt, "the list is in no order"));
        }
        if !is_last {
            page.next = Some(State { marker: listing.next, held, last_prefix }.cursor()?);
        }
        Ok(page)
    }

    fn show(&self, page: &mut Page, stored: &str, object: Object) {
        match stored.strip_prefix(self.directory).and_then(|segment| self.names.component(segment)) {
            None => page.hidden += 1,
            Some(name) if self.is_root && name == b".tierfs" => {}
            Some(name) if !name.starts_with(self.start) => {}
            Some(name) => page.entries.push(Entry { name, object }),
        }
    }
}

/// What the service says of a blob, as the tiers' word for it.
pub(super) fn object_of(properties: &Properties) -> Object {
    let (mut kind, target, rdev) = attributes::kind(&properties.metadata, properties.size);
    if properties.is_directory {
        kind = FileKind::Directory;
    }
    Object {
        kind,
        size: if kind == FileKind::Directory { 0 } else { properties.size },
        version: Version::new(&properties.etag),
        modified: properties.modified,
        attrs: attributes::object(&properties.metadata),
        target,
        rdev,
        native: None,
        archive: properties.archive,
    }
}

/// A directory that is there because names below it are.
pub(super) fn prefix_only() -> Object {
    Object {
        kind: FileKind::Directory,
        size: 0,
        version: Version::new([]),
        modified: Timestamp::default(),
        attrs: Attrs::default(),
        target: None,
        rdev: 0,
        native: None,
        archive: Archive::No,
    }
}

/// What a [`View`] needs of `dir`: its prefix, and the prefix of what is asked for.
pub(super) fn prefixes(names: &Names, dir: &Key, start: &[u8]) -> Result<(String, String)> {
    let directory = names.directory(dir)?;
    let wanted = names.starts_with(&directory, start);
    Ok((directory, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn blob(name: &str, size: u64, marker: bool) -> (String, Properties) {
        let mut properties = Properties { size, etag: format!("e-{name}"), ..Properties::default() };
        if marker {
            properties.metadata.insert("hdi_isfolder".into(), "true".into());
        }
        (name.to_owned(), properties)
    }

    /// What a service with these blobs answers, a page at a time.
    fn pages(blobs: &[(String, Properties)], prefix: &str, size: usize) -> Vec<Listing> {
        let mut items: BTreeMap<String, Option<Properties>> = BTreeMap::new();
        for (name, properties) in blobs {
            let Some(rest) = name.strip_prefix(prefix) else { continue };
            match rest.split_once('/') {
                Some((folder, _)) => items.insert(format!("{prefix}{folder}/"), None),
                None => items.insert(name.clone(), Some(properties.clone())),
            };
        }
        let items: Vec<_> = items.into_iter().collect();
        let count = items.chunks(size).len();
        let mut listings: Vec<_> = items
            .chunks(size)
            .enumerate()
            .map(|(at, chunk)| {
                let mut listing =
                    Listing { next: (at + 1 < count).then(|| "m".into()), ..Listing::default() };
                for (name, properties) in chunk {
                    match properties {
                        Some(properties) => listing.blobs.push((name.clone(), properties.clone())),
                        None => listing.prefixes.push(name.clone()),
                    }
                }
                listing
            })
            .collect();
        if listings.is_empty() {
            listings.push(Listing::default());
        }
        listings
    }

    /// All entries as (name, kind, version), sorted, and how many are hidden.
    fn list(
        blobs: &[(String, Properties)],
        prefix: &str,
        size: usize,
    ) -> (Vec<(String, FileKind, String)>, u64) {
        let names = Names::new("");
        let view = View { names: &names, directory: prefix, is_root: prefix.is_empty(), start: b"" };
        let (mut entries, mut hidden, mut cursor) = (Vec::new(), 0, None);
        for listing in pages(blobs, prefix, size) {
            let page = view.page(State::resume(cursor).unwrap(), listing).unwrap();
            hidden += page.hidden;
            entries.extend(page.entries.into_iter().map(|entry| {
                let version = String::from_utf8_lossy(&entry.object.version.0).into_owned();
                (String::from_utf8_lossy(&entry.name).into_owned(), entry.object.kind, version)
            }));
            cursor = page.next;
        }
        assert_eq!(cursor, None);
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        (entries, hidden)
    }

    fn entry(name: &str, kind: FileKind, version: &str) -> (String, FileKind, String) {
        (name.into(), kind, version.into())
    }

    #[test]
    fn a_marker_and_its_prefix_are_one_directory_on_any_pages() {
        let blobs = [
            blob("d/x", 0, true),
            blob("d/x!1", 1, false),
            blob("d/x!2", 1, false),
            blob("d/x/y", 1, false),
            blob("d/x0", 1, false),
        ];
        for size in 1..6 {
            let (entries, hidden) = list(&blobs, "d/", size);
            assert_eq!(entries[0], entry("x", FileKind::Directory, "e-d/x"), "{size}");
            assert_eq!((entries.len(), hidden), (4, 0), "{size}");
        }
    }

    #[test]
    fn a_file_that_is_also_a_prefix_is_hidden_and_counted() {
        let blobs = [blob("x", 5, false), blob("x.1", 1, false), blob("x/y", 1, false)];
        for size in 1..4 {
            let (entries, hidden) = list(&blobs, "", size);
            let expected = [entry("x", FileKind::Directory, ""), entry("x.1", FileKind::Regular, "e-x.1")];
            assert_eq!((entries.as_slice(), hidden), (&expected[..], 1), "{size}");
        }
    }

    #[test]
    fn odd_names_leave_their_siblings_alone() {
        let deep = "s/".repeat(10_000);
        let long = "x".repeat(256);
        let odd = ["/lead", "a//b", "./x", "../x", "tail.", "c\u{1}", "b\\c", "n\0l", &long];
        let mut blobs: Vec<_> = odd.iter().map(|name| blob(name, 1, false)).collect();
        blobs.extend([blob("a/ok", 1, false), blob("ok", 1, false), blob(".tierfs/id", 1, false)]);
        blobs.push(blob(&deep, 1, false));
        let (entries, hidden) = list(&blobs, "", 3);
        let directory = |name| entry(name, FileKind::Directory, "");
        assert_eq!(entries, [directory("a"), entry("ok", FileKind::Regular, "e-ok"), directory("s")]);
        // `a//b` counts where it would be shown.
        assert_eq!((hidden, list(&blobs, "a/", 3).1), (8, 1));
        assert_eq!(list(&[blob("d/.tierfs", 1, false)], "d/", 1).0.len(), 1);
    }

    #[test]
    fn a_marker_with_a_slash_is_understood() {
        let blobs = [blob("d/", 0, false), blob("d/f", 1, false)];
        assert_eq!(list(&blobs, "d/", 5), (vec![entry("f", FileKind::Regular, "e-d/f")], 0));
        assert_eq!(list(&blobs, "", 5).0, [entry("d", FileKind::Directory, "")]);
        assert_eq!(list(&[blob("d/", 9, false)], "d/", 5), (vec![], 1));
    }

    #[test]
    fn a_prefix_that_is_repeated_is_one() {
        let names = Names::new("");
        let view = View { names: &names, directory: "", is_root: true, start: b"" };
        let listing = |next: Option<&str>| Listing {
            prefixes: vec!["p/".into()],
            next: next.map(Into::into),
            ..Listing::default()
        };
        let first = view.page(State::default(), listing(Some("m"))).unwrap();
        let second = view.page(State::resume(first.next).unwrap(), listing(None)).unwrap();
        assert_eq!((first.entries.len(), second.entries.len()), (1, 0));
    }

    #[test]
    fn foreign_cursors_are_refused() {
        assert_eq!(State::resume(Some(Cursor("x".into()))).unwrap_err().kind(), Kind::Invalid);
    }

    proptest! {
        #[test]
        fn page_sizes_do_not_matter(
            names in proptest::collection::btree_set("[ab!/.]{1,5}", 0..25), markers in any::<u32>(), size in 1usize..8,
        ) {
            let marker = |at: usize| markers.checked_shr(u32::try_from(at).unwrap()).is_some_and(|bits| bits & 1 == 1);
            let blobs: Vec<_> = names.iter().enumerate().map(|(at, name)| blob(name, 0, marker(at))).collect();
            for prefix in ["", "a/", "b!/"] {
                let (entries, hidden) = list(&blobs, prefix, size);
                prop_assert_eq!((&entries, hidden), (&list(&blobs, prefix, 100).0, list(&blobs, prefix, 100).1));
                let unique: BTreeSet<_> = entries.iter().map(|entry| &entry.0).collect();
                prop_assert_eq!(unique.len(), entries.len());
            }
        }
    }
}
