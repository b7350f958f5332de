//! The order of a sorted listing.

use crate::args::Sort;
use std::cmp::{Ordering, Reverse};
use tierfs::control::protocol::Row;

/// Most rows that are sorted; more would be memory without a limit.
pub const SORT_MAX: usize = 1_000_000;

/// Sorts `rows` by `by`, then by path.
pub fn sort(rows: &mut [Row], by: Sort) {
    rows.sort_by(|a, b| compare(a, b, by).then_with(|| a.path.cmp(&b.path)));
}

fn compare(a: &Row, b: &Row, by: Sort) -> Ordering {
    match by {
        Sort::Name => Ordering::Equal,
        Sort::Size => Reverse(a.size).cmp(&Reverse(b.size)),
        Sort::State => a.state.cmp(&b.state),
        Sort::Time => Reverse(a.mtime_ns).cmp(&Reverse(b.mtime_ns)),
        Sort::Heat => b.heat.unwrap_or(0.0).total_cmp(&a.heat.unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierfs::control::protocol::{RowKind, RowState, WirePath};

    fn row(path: &str, size: u64, state: RowState, heat: Option<f64>) -> Row {
        let path = WirePath(path.into());
        Row { path, kind: RowKind::File, size, mtime_ns: 0, state, held: vec![], heat }
    }

    #[test]
    fn each_order_puts_the_greatest_first() {
        let mut rows = [
            row("c", 1, RowState::Clean, None),
            row("a", 3, RowState::Clean, Some(1.0)),
            row("b", 1, RowState::Blocked, Some(2.0)),
        ];
        let mut by = |sort_by| {
            sort(&mut rows, sort_by);
            rows.iter().map(|row| row.path.to_string()).collect::<String>()
        };
        assert_eq!(by(Sort::Name), "abc");
        assert_eq!(by(Sort::Size), "abc");
        assert_eq!(by(Sort::State), "bac");
        assert_eq!(by(Sort::Heat), "bac");
    }
}
