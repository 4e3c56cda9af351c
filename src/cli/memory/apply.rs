//! `brisk memory apply`: applies the plan, and reverts it when the command is stopped.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use brisk_config::Layers;
use brisk_mechanism::memory::apply::changes;
use brisk_mechanism::memory::{MemoryDevice, MemoryPlan, ZramPlan};
use brisk_sys::{BootTime, Root};
use brisk_undo::guardian::Guardian;
use brisk_undo::journal::{Holder, Journal, RestoreOutcome};

/// Arguments of `brisk memory apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Applies the whole plan or nothing, until this command is stopped (Ctrl-C, SIGTERM); after SIGKILL its
guardian reverts it. If the contents of swap do not fit into memory, swap stays on, with a message;
`brisk restore` tries again.

Exit code 0 when the plan was applied or changes nothing, 2 when it cannot be applied.

Examples:
  sudo brisk memory apply                   until Ctrl-C
  sudo brisk memory apply --keep            until `brisk restore`
  sudo brisk memory apply --variant paper   zram of 15 % of memory with lzo")]
pub struct Arguments {
    /// Apply this variant [default: that of the configuration]
    #[arg(long, alias = "arm", value_enum)]
    variant: Option<ZramPlan>,
    /// Override the plan's size of the zram device
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u64).range(4..=67_108_864))]
    size_kib: Option<u64>,
    /// Override the plan's algorithm
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,
    /// Exit and leave the plan applied; `brisk restore` reverts it
    #[arg(long)]
    keep: bool,
}

/// Applies the plan.
///
/// # Errors
/// When a setting cannot be applied; all changes are then reverted.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    super::super::log::start(tracing::Level::INFO);
    let mut zram_config = Layers::read(root)?.config.memory.zram;
    zram_config.plan = arguments.variant.unwrap_or(zram_config.plan);
    zram_config.size_kib = arguments.size_kib.unwrap_or(zram_config.size_kib);
    zram_config.algorithm = arguments.algorithm.clone().unwrap_or(zram_config.algorithm);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let folder = Holder::Memory.folder(root);
    // Opening the journal restores what an earlier run left, so that the plan is computed from the device's own values.
    let mut journal = Journal::open(Holder::Memory, &folder, root)?;
    let plan = MemoryPlan::from_config(&MemoryDevice::probe(root), &zram_config);
    let changes = changes(&plan).map_err(|reason| anyhow!(reason))?;
    if changes.is_empty() {
        writeln!(std::io::stdout(), "Nothing to do: `brisk memory plan` gives the reasons.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let guardian = if arguments.keep { None } else { Some(Guardian::start(Holder::Memory, &folder, root)?) };
    for change in &changes {
        let held = journal.lease(BootTime::now(), &change.target, &change.value, BootTime::FOR_EVER, &change.reason);
        held.context("cannot apply the plan; all its changes are reverted")?;
        writeln!(std::io::stdout(), "{} is {}", change.target, change.target.with_unit(&change.value))?;
    }
    if arguments.keep {
        journal.close_without_restore();
        return Ok(ExitCode::SUCCESS);
    }
    let _ = signals.forever().next();
    let mut code = ExitCode::SUCCESS;
    for restoration in journal.release_all() {
        if let RestoreOutcome::Refused { error } = restoration.outcome {
            tracing::error!("{}: {error}", restoration.target);
            code = ExitCode::from(2);
        }
    }
    journal.close_without_restore();
    drop(guardian);
    Ok(code)
}
