//! `tierstat cost`: what the stored bytes cost in a month, and what they would cost all on Lustre.

mod sum;

use crate::Failure;
use crate::args::{Cost, Depth, Form};
use crate::walk;
use std::io::{self, Write};
use sum::Sums;
pub use sum::{Bill, Prices};
use tierfs::cli::text::{self, Look, Style};
use tierfs::control::protocol::RowKind;
use tierfs::control::status::Versioned;
use tierfs::control::target::Target;

pub fn show(cost: &Cost, out: &mut dyn Write) -> Result<(), Failure> {
    let target = cost.path.as_deref().map_or_else(Target::implied, Target::of)?;
    let status = target.status()?;
    let prices = Prices::of(&status);
    let bill = if cost.tiers {
        Bill::of_status(&status, &prices)
    } else {
        let mut sums = Sums::new(target.inner.clone());
        walk::walk(&target, Depth::All, &mut |row| {
            if row.kind == RowKind::File {
                sums.add(&row);
            }
            Ok(())
        })?;
        sums.bill(&prices, cost.most)
    };
    match cost.form() {
        Form::Json => writeln!(out, "{}", Versioned::new(&bill).line()?)?,
        Form::Text => render(&bill, Style::for_stdout(), out)?,
    }
    Ok(())
}

fn render(bill: &Bill, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let heading = tier_line(["TIER", "KIND", "$/GiB", "STORED", "$/MONTH"].map(str::to_owned));
    writeln!(out, "{}", style.paint(Look::Bold, &heading))?;
    for tier in &bill.tiers {
        let line = [
            text::fit(&tier.tier, 16),
            text::fit(&tier.kind, 11),
            price(tier.usd_per_gib_month),
            text::bytes(tier.bytes),
            dollars(tier.usd_per_month),
        ];
        writeln!(out, "{}", tier_line(line))?;
    }
    let all = [String::new(), "all".to_owned(), String::new(), String::new(), dollars(bill.usd_per_month)];
    writeln!(out, "{}", style.paint(Look::Bold, &tier_line(all)))?;
    let lustre = [
        String::new(),
        "on Lustre".to_owned(),
        price(bill.lustre_usd_per_gib_month),
        text::bytes(bill.bytes),
        dollars(bill.all_on_lustre_usd_per_month),
    ];
    writeln!(out, "{}", style.paint(Look::Dim, &tier_line(lustre)))?;
    directories(bill, style, out)?;
    writeln!(out)?;
    for line in [
        "Stored bytes at the `price` of each tier in the config; what is provisioned",
        "and empty, requests and traffic are not in it.",
    ] {
        writeln!(out, "{}", style.paint(Look::Dim, line))?;
    }
    Ok(())
}

fn directories(bill: &Bill, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if bill.directories.is_empty() {
        return Ok(());
    }
    let heading = directory_line(["FILES", "STORED", "$/MONTH", "ON LUSTRE", "DIRECTORY"].map(str::to_owned));
    writeln!(out, "\n{}", style.paint(Look::Bold, &heading))?;
    for directory in &bill.directories {
        let line = [
            text::number(directory.files),
            text::bytes(directory.stored_bytes),
            dollars(directory.usd_per_month),
            dollars(directory.all_on_lustre_usd_per_month),
            text::fit(&directory.path.to_string(), 38),
        ];
        writeln!(out, "{}", directory_line(line))?;
    }
    if bill.directories_left > 0 {
        let more = text::number(bill.directories_left);
        writeln!(out, "and {more} more that cost less: --most shows them")?;
    }
    Ok(())
}

fn tier_line(cells: [String; 5]) -> String {
    let [tier, kind, price, stored, month] = cells;
    format!("{tier:<16} {kind:<11} {price:>8} {stored:>9} {month:>12}")
}

fn directory_line(cells: [String; 5]) -> String {
    let [files, stored, month, lustre, path] = cells;
    format!("{files:>9} {stored:>9} {month:>10} {lustre:>10}  {path}")
}

fn price(dollars: f64) -> String {
    let long = format!("{dollars:.6}");
    let short = long.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}00") } else { short.to_owned() }
}

/// `12,345.67`.
pub fn dollars(amount: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no bill has so many cents")]
    let cents = (amount * 100.0).round() as u64;
    format!("{}.{:02}", text::number(cents / 100), cents % 100)
}

#[cfg(test)]
mod tests;
