//! `tierstat ls`: a line a file.

use crate::Failure;
use crate::args::{Form, Ls};
use crate::letters::Letters;
use crate::order::{self, SORT_MAX};
use crate::walk;
use std::io::Write;
use tierfs::cli::text::{self, Look, Style};
use tierfs::control::protocol::{Row, RowKind, RowState};
use tierfs::control::status::Versioned;
use tierfs::control::target::Target;

pub fn show(ls: &Ls, out: &mut dyn Write) -> Result<(), Failure> {
    let target = Target::of(&ls.path)?;
    match ls.form() {
        Form::Json => rows(ls, &target, &mut |row| Ok(writeln!(out, "{}", Versioned::new(&row).line()?)?)),
        Form::Text => as_text(ls, &target, out),
    }
}

fn as_text(ls: &Ls, target: &Target, out: &mut dyn Write) -> Result<(), Failure> {
    let status = target.status()?;
    let letters = Letters::of(status.tiers.iter().map(|tier| tier.name.as_str()));
    let table = Table { letters, base: target.inner.0.clone(), style: Style::for_stdout() };
    writeln!(out, "{}", table.heading())?;
    rows(ls, target, &mut |row| Ok(writeln!(out, "{}", table.line(&row))?))?;
    writeln!(out, "{}", table.style.paint(Look::Dim, &table.letters.legend()))?;
    Ok(())
}

fn rows(ls: &Ls, target: &Target, each: &mut dyn FnMut(Row) -> Result<(), Failure>) -> Result<(), Failure> {
    let Some(by) = ls.sort else { return walk::walk(target, ls.depth(), each) };
    let mut all = Vec::new();
    walk::walk(target, ls.depth(), &mut |row| {
        if all.len() == SORT_MAX {
            return Err(Failure::Said(format!(
                "more than {} files: list a smaller directory, or without --sort",
                text::number(SORT_MAX as u64)
            )));
        }
        all.push(row);
        Ok(())
    })?;
    order::sort(&mut all, by);
    all.into_iter().try_for_each(each)
}

struct Table {
    letters: Letters,
    base: Vec<u8>,
    style: Style,
}

impl Table {
    fn tiers_width(&self) -> usize {
        self.letters.width().max("TIERS".len())
    }

    fn heading(&self) -> String {
        let width = self.tiers_width();
        let line = format!("{:<width$}  {:<7}  {:>7}  {:>8}  NAME", "TIERS", "STATE", "HEAT", "SIZE");
        self.style.paint(Look::Bold, &line)
    }

    fn line(&self, row: &Row) -> String {
        let width = self.tiers_width();
        let name = self.name(row);
        if row.kind == RowKind::Directory {
            return format!("{:<width$}  {:<7}  {:>7}  {:>8}  {name}", "", "", "", "");
        }
        let strip = format!("{:<width$}", self.letters.strip(&row.held));
        let state = self.style.paint(look(row.state), &format!("{:<7}", row.state.word()));
        let heat = row.heat.map_or_else(|| "-".to_owned(), heat);
        format!("{strip}  {state}  {heat:>7}  {:>8}  {name}", text::bytes(row.size))
    }

    fn name(&self, row: &Row) -> String {
        let path = &row.path.0;
        let inside = path.strip_prefix(self.base.as_slice()).unwrap_or(path);
        let inside = inside.strip_prefix(b"/").unwrap_or(inside);
        let own = || path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let shown = String::from_utf8_lossy(if inside.is_empty() { own() } else { inside }).into_owned();
        let mark = match row.kind {
            RowKind::Directory => "/",
            RowKind::Symlink => "@",
            RowKind::Special => "|",
            RowKind::File => "",
        };
        format!("{}{mark}", text::printable(&shown))
    }
}

fn look(state: RowState) -> Look {
    match state {
        RowState::Blocked => Look::Bad,
        RowState::Writing | RowState::Moving | RowState::Dirty => Look::Warn,
        RowState::Clean => Look::Good,
    }
}

fn heat(a_day: f64) -> String {
    if a_day < 0.05 { "cold".to_owned() } else { format!("{a_day:.1}/d") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierfs::control::protocol::{Held, Role, WirePath};

    fn table() -> Table {
        Table {
            letters: Letters::of(["scratch", "share", "blob"]),
            base: b"d".to_vec(),
            style: Style::plain(),
        }
    }

    fn row(path: &[u8], kind: RowKind) -> Row {
        let held = vec![Held { tier: "blob".into(), role: Role::Home }];
        let path = WirePath(path.to_vec());
        Row { path, kind, size: 1 << 20, mtime_ns: 0, state: RowState::Clean, held, heat: Some(2.0) }
    }

    #[test]
    fn a_file_is_one_line_of_columns() {
        assert_eq!(table().heading(), "TIERS  STATE       HEAT      SIZE  NAME");
        assert_eq!(table().line(&row(b"d/a", RowKind::File)), "--B    clean      2.0/d   1.0 MiB  a");
        assert_eq!(table().line(&row(b"d/s", RowKind::Directory)).trim(), "s/");
    }

    #[test]
    fn names_are_relative_and_harmless() {
        assert_eq!(table().name(&row(b"d/s/a\n", RowKind::File)), "s/a\\n");
        assert_eq!(table().name(&row(b"d", RowKind::File)), "d");
        assert_eq!(table().name(&row(b"d/l", RowKind::Symlink)), "l@");
    }
}
