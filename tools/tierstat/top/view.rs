//! The screen of `tierstat top`. Knows no terminal: it draws into a frame of any size.

use super::rates::{self, Rates};
use super::source::{Looked, Sample};
use crate::summary::wrapped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use tierfs::cli::text;
use tierfs::control::protocol::{Phase, QueueRow, QueueState};
use tierfs::control::status::{Status, TierState, TierStatus};

/// Lines of what needs a person.
const ATTENTION_MAX: usize = 4;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const WARN: Style = Style::new().fg(Color::Yellow);

/// What was seen last, and what it says.
#[derive(Default)]
pub struct View {
    last: Option<Sample>,
    rates: Vec<Rates>,
    trouble: Option<String>,
}

impl View {
    /// Another look.
    pub fn take(&mut self, looked: Looked) {
        match looked {
            Ok(sample) => {
                self.rates = match &self.last {
                    Some(last) => {
                        let seconds = sample.at.duration_since(last.at).as_secs_f64();
                        rates::of_tiers(&last.status, &sample.status, seconds)
                    }
                    None => vec![Rates::default(); sample.status.tiers.len()],
                };
                (self.last, self.trouble) = (Some(sample), None);
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let Some(Sample { status, queue, .. }) = &self.last else {
            let said = self.trouble.as_deref().unwrap_or("looking…");
            return frame.render_widget(Paragraph::new(text::printable(said)), frame.area());
        };
        let attention = self.attention(status, frame.area().width);
        let heights = [
            lines(attention.lines.len()),
            Constraint::Length(1),
            lines(status.tiers.len() + 2),
            Constraint::Length(3),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [top, head, tiers, sums, steps, foot] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(attention).style(BAD), top);
        frame.render_widget(Paragraph::new(heading(status)).style(BOLD), head);
        frame.render_widget(self.tiers(status, tiers), tiers);
        frame.render_widget(Paragraph::new(self.sums(status)), sums);
        frame.render_widget(queue_table(queue.as_deref(), steps), steps);
        frame.render_widget(Paragraph::new("q quits").style(DIM), foot);
    }

    fn attention(&self, status: &Status, width: u16) -> Text<'static> {
        let said = self.trouble.iter().chain(&status.attention);
        let lines = said.flat_map(|said| wrapped(&format!("! {said}"), usize::from(width.max(20))));
        Text::from_iter(lines.take(ATTENTION_MAX))
    }

    fn tiers(&self, status: &Status, area: Rect) -> Table<'static> {
        let rows = status.tiers.iter().zip(&self.rates).map(|(tier, rates)| tier_row(tier, *rates));
        let heading = ["TIER", "STATE", "READ/s", "WRITE/s", "CALLS/s", "ERRORS/s", "DIRTY", "HOT", "FREE"];
        let widths = [12, 6, 9, 9, 8, 8, 8, 8, 8];
        let shown = columns(&widths, area.width);
        let heading = Row::new(heading.into_iter().take(shown).map(Cell::from)).style(BOLD);
        Table::new(rows, widths[..shown].iter().map(|width| Constraint::Length(*width))).header(heading)
    }

    fn sums(&self, status: &Status) -> Vec<Line<'static>> {
        let (dirty, queue) = (&status.dirty, &status.queue);
        let age =
            dirty.oldest_age_s.map_or_else(String::new, |age| format!(", oldest {}", text::seconds(age)));
        let hits = status.reads.hit_ratio();
        let hits = hits.map_or_else(String::new, |ratio| format!(", {:.0}% of opens near", ratio * 100.0));
        vec![
            Line::from(format!(
                "dirty {} in {}{age}",
                text::bytes(dirty.bytes),
                text::counted(dirty.files, "file")
            )),
            Line::from(format!(
                "queue {}, {} running, {} to be tried again{hits}",
                text::counted(queue.length, "step"),
                text::number(queue.running),
                text::number(queue.retrying)
            )),
        ]
    }
}

fn lines(count: usize) -> Constraint {
    Constraint::Length(u16::try_from(count).unwrap_or(u16::MAX))
}

/// How many of the columns fit, with a space between them; the first always does.
fn columns(widths: &[u16], room: u16) -> usize {
    let mut used = 0;
    let fits = widths.iter().take_while(|width| {
        used += **width + 1;
        used <= room + 1
    });
    fits.count().max(1)
}

fn heading(status: &Status) -> String {
    let phase = match status.phase {
        Phase::Starting => "starting, ",
        Phase::Serving => "",
        Phase::Draining => "draining, ",
    };
    let point = text::printable(&status.mountpoint.to_string());
    format!("{point}  {phase}up {}", text::seconds(status.uptime_s))
}

fn tier_row(tier: &TierStatus, rates: Rates) -> Row<'static> {
    let (state, style) = match tier.state {
        TierState::Ok => ("ok", Style::new()),
        TierState::Sick => ("SICK", BAD),
        TierState::Absent => ("ABSENT", BAD),
    };
    let cells = [
        text::fit(&tier.name, 12),
        state.to_owned(),
        amount(rates.read),
        amount(rates.written),
        count(rates.requests),
        count(rates.errors),
        amount_of(tier.dirty_bytes),
        amount_of(tier.hot_bytes),
        tier.free.map_or_else(|| "-".to_owned(), text::bytes),
    ];
    let style = if rates.errors > 0.0 && tier.state == TierState::Ok { WARN } else { style };
    Row::new(cells).style(style)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "three figures for people")]
fn amount(rate: f64) -> String {
    amount_of(rate.round() as u64)
}

fn amount_of(bytes: u64) -> String {
    if bytes == 0 { "-".to_owned() } else { text::bytes(bytes) }
}

fn count(rate: f64) -> String {
    if rate < 0.05 { "-".to_owned() } else { format!("{rate:.1}") }
}

fn queue_table(queue: Option<&[QueueRow]>, area: Rect) -> Table<'static> {
    let widths = [Constraint::Length(9), Constraint::Length(8), Constraint::Length(8), Constraint::Fill(1)];
    let Some(steps) = queue else {
        let said = Row::new(["the queue is not in sight from here"]).style(DIM);
        return Table::new([said], [Constraint::Fill(1)]);
    };
    let heading = Row::new(["STATE", "AGE", "BYTES", "PATH"]).style(BOLD);
    let rows = steps.iter().take(usize::from(area.height)).map(|step| {
        let path = text::printable(&step.path.to_string());
        let said =
            step.error.as_ref().map_or_else(String::new, |said| format!(": {}", text::printable(said)));
        let cells = [
            step.state.word().to_owned(),
            text::seconds(step.age_s),
            amount_of(step.bytes),
            format!("{path}{said}"),
        ];
        Row::new(cells).style(look(step.state))
    });
    let table = Table::new(rows, widths);
    if steps.is_empty() { table } else { table.header(heading) }
}

fn look(state: QueueState) -> Style {
    match state {
        QueueState::Blocked => BAD,
        QueueState::Retrying => WARN,
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests;
