//! `tierfs demo`: a real mount over three local directories that stand for the three tiers, told step by step.

mod content;
mod ground;
mod steps;
mod tell;
mod tools;

use crate::cli::failure::Failure;
use ground::Ground;
use std::path::PathBuf;
use std::sync::Arc;
use tell::Teller;
use tools::Tools;

/// Runs the demo in `dir`, which is kept, or in a temporary directory, which is not.
///
/// # Errors
/// [`Failure`] with what the step said; what was mounted is unmounted.
pub fn run(dir: Option<PathBuf>) -> Result<(), Failure> {
    super::mount::preflight::fuse()?;
    let ground = Arc::new(Ground::lay(dir)?);
    clean_up_on_ctrl_c(&ground)?;
    let mut show = steps::Show { ground: &ground, tools: Tools::find(&ground)?, tell: Teller::new() };
    let ran = show.run();
    // The thread that waits for Ctrl-C holds the ground too: its drop never comes.
    ground.clear();
    ran.map_err(|failure| ground.with_log(failure))?;
    show.tell.end(&ground.farewell());
    Ok(())
}

fn clean_up_on_ctrl_c(ground: &Arc<Ground>) -> Result<(), Failure> {
    let waiter = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("demo: {error}")))?;
    let ground = Arc::clone(ground);
    std::thread::spawn(move || {
        if waiter.block_on(tokio::signal::ctrl_c()).is_ok() {
            ground.clear();
            std::process::exit(130);
        }
    });
    Ok(())
}
