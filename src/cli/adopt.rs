//! `tierfs adopt` and `tierfs rescue`: what a mount that died, with its machine or its catalog, has left on a stage.

use crate::cli::args::{AdoptArgs, RescueArgs};
use crate::cli::failure::Failure;
use crate::cli::rebuild::line;
use crate::cli::{mount, say, text};
use crate::data::Elsewhere;
use crate::error::{Error, Kind};
use crate::mount::{adopt, rescue};

/// Takes a stage over, and says what became of what.
///
/// # Errors
/// [`Failure`]; what was taken over by then stays so, and the next call goes on.
pub fn run_adopt(args: &AdoptArgs) -> Result<(), Failure> {
    let config = mount::load(&args.config)?;
    let mut count = 0;
    let emptied = adopt(&config, &args.stage, elsewhere(args.owner_is_gone), &mut |file| {
        count += 1;
        say::out(format!("taken over: {}", line(file)));
    });
    let emptied = emptied.map_err(failure)?;
    let files = text::counted(count, "file");
    say::out(format!(
        "{files} taken over; what was closed goes to its home with the next mount, in the order of the closes"
    ));
    if !emptied {
        say::out(format!("something else lies in {}: it is left there", args.stage.display()));
    }
    Ok(())
}

/// Copies what is on a stage, and says under which names.
///
/// # Errors
/// [`Failure`]; what was copied by then stays.
pub fn run_rescue(args: &RescueArgs) -> Result<(), Failure> {
    let mut count = 0;
    let rescued = rescue(&args.stage, &args.to, elsewhere(args.owner_is_gone), &mut |file| {
        count += 1;
        say::out(format!("copied: {}", line(file)));
    });
    rescued.map_err(failure)?;
    say::out(format!(
        "{} copied to {}; the stage is as it was",
        text::counted(count, "file"),
        args.to.display()
    ));
    Ok(())
}

fn elsewhere(owner_is_gone: bool) -> Elsewhere {
    if owner_is_gone { Elsewhere::IsGone } else { Elsewhere::MayLive }
}

fn failure(error: Error) -> Failure {
    match error.kind() {
        Kind::Invalid | Kind::Exists => Failure::usage(error.to_string()),
        _ => error.into(),
    }
}
