//! Benchmarks: figures are ratios of subjects measured in turn on the same machine in the same run.
//!
//! Run by `tools/bench/run.sh`; exit code 1 if a figure misses its limit, 0 otherwise (a void one says nothing).

mod bare;
mod bursts;
mod harness;
mod movement;
mod names;
mod peers;
mod rows;
#[path = "../../tests/it/support/mod.rs"]
mod support;
mod table;
mod work;

use clap::Parser;
use harness::{Effort, Verdict};
use rows::ROWS;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// First argument of this program in the role of the null daemon.
const NULL_DAEMON: &str = "--null-daemon";

/// Measures tierfs against what it stands beside.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rows to run; all without.
    rows: Vec<String>,
    /// Says which rows there are.
    #[arg(long)]
    list: bool,
    /// Runs every row once and small: does it run?
    #[arg(long)]
    smoke: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Repetitions of every subject.
    #[arg(long, default_value_t = 9)]
    repeat: usize,
    /// Where the tiers are: memory keeps disks out of it.
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Said by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, role, source, mountpoint] = &words[..]
        && role == NULL_DAEMON
    {
        support::mirror::run(Path::new(source), Path::new(mountpoint)).expect("the null daemon");
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::parse();
    if arguments.list {
        ROWS.iter().for_each(|(number, what, _)| println!("{number:<4} {what}"));
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = arguments.rows.iter().find(|row| ROWS.iter().all(|(number, ..)| number != row)) {
        eprintln!("error: there is no row {unknown}; --list says which there are");
        return ExitCode::from(2);
    }
    run(&arguments)
}

fn run(arguments: &Arguments) -> ExitCode {
    tempfile::env::override_temp_dir(&arguments.dir).expect("set only here");
    let effort = match arguments.smoke {
        true => Effort { repetitions: 1, shrink: 64 },
        false => Effort { repetitions: arguments.repeat, shrink: 1 },
    };
    let mut outcomes = Vec::new();
    for (number, what, measure) in ROWS {
        if arguments.rows.is_empty() || arguments.rows.iter().any(|row| row == number) {
            eprintln!("row {number}: {what}");
            outcomes.extend(measure(effort));
        }
    }
    print!("{}", if arguments.json { table::json(&outcomes) + "\n" } else { table::text(&outcomes) });
    // Small runs say that a row works, not how fast it is.
    let missed = !arguments.smoke && outcomes.iter().any(|outcome| outcome.verdict() == Verdict::Missed);
    ExitCode::from(u8::from(missed))
}
