//! `brisk replicate`: runs a plan of `brisk prove` on the device where it is started.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use brisk_experiment::plan::{Line, Plan};
use brisk_experiment::runner;
use brisk_sys::Root;

/// Run a plan on this device and print one JSON line for each replicate
#[derive(Debug, Args)]
pub struct Arguments {
    /// The plan, as `brisk prove` writes it; `-` is stdin
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
}

/// Runs the plan.
///
/// # Errors
/// When the plan cannot be read or the device cannot run it.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let path = &arguments.plan;
    let text = if path.as_os_str() == "-" { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.with_context(|| format!("cannot read the plan {}", path.display()))?;
    let plan: Plan =
        serde_json::from_slice(text.as_bytes()).with_context(|| format!("{} is not a plan", path.display()))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut print = |line: &Line| {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        io::stdout().write_all(text.as_bytes())?;
        Ok(io::stdout().flush()?)
    };
    runner::run(&plan, root, &interrupted, &mut print).inspect_err(|error| {
        // The reader may have exited; the exit status reports the failure as well.
        let _ = print(&Line::Failed { failed: format!("{error:#}") });
    })?;
    Ok(ExitCode::SUCCESS)
}
