//! `brisk fleet simulate`: a fleet of which the truth is known.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use crate::cli::output;
use brisk_base::notes::note;
use brisk_fleet::simulate::{self, MODELS, Outcome, Plan, Slower};

/// Arguments of `brisk fleet simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Draws devices with their hardware, loads and habits, lets them export once a day, and
imports these exports. What a launch loses to its governor is what brisk's policy
predicts for the model. The same arguments make the same rows.

Examples:
  brisk fleet simulate --devices 2000 --days 30 --to fleet
  brisk fleet simulate --devices 2000 --days 30 --to fleet \\
      --slower-build 3 --model board-a --percent 6")]
pub struct Arguments {
    /// How many devices
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    devices: u32,
    /// How many days, from 2026-01-01 on
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(i64).range(2..=300))]
    days: i64,
    /// Of everything that is drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Builds that follow each other in that time
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    builds: u16,
    /// The data set, which is created; one with rows is refused
    #[arg(long, value_name = "DATASET")]
    to: PathBuf,
    /// The build with slower launches, counted from 1
    #[arg(long, value_name = "B", requires = "model", requires = "percent")]
    slower_build: Option<u16>,
    /// The model on which it is slower
    #[arg(long, value_name = "MODEL", requires = "slower_build")]
    model: Option<String>,
    /// By how much
    #[arg(long, value_name = "PERCENT", requires = "slower_build")]
    percent: Option<f64>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Simulates.
///
/// # Errors
/// When build or model do not exist, or the data set cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        devices: arguments.devices as usize,
        days: arguments.days,
        seed: arguments.seed,
        builds: arguments.builds.into(),
        slower: slower(arguments)?,
    };
    if i64::from(arguments.builds) > arguments.days {
        bail!("{} builds need as many days; there are {}", arguments.builds, arguments.days);
    }
    let outcome = simulate::run(&plan, &arguments.to, |day, outcome| {
        note!("day {day} of {}: {} rows", plan.days, outcome.rows);
    })?;
    output::print(&outcome, arguments.json, text)?;
    Ok(ExitCode::SUCCESS)
}

fn slower(arguments: &Arguments) -> anyhow::Result<Option<Slower>> {
    let (Some(build), Some(model), Some(percent)) = (arguments.slower_build, &arguments.model, arguments.percent)
    else {
        return Ok(None);
    };
    if !(2..=arguments.builds).contains(&build) {
        bail!("build {build} is not compared with one before it; choose 2 to {}", arguments.builds);
    }
    if !MODELS.iter().any(|known| known.name == model) {
        bail!("there is no model {model:?}; there are {}", MODELS.map(|known| known.name).join(", "));
    }
    // At -100 % launches would take no time. No range contains a NaN.
    if !(-99.0..=1_000.0).contains(&percent) {
        bail!("--percent {percent} is not between -99 and 1000");
    }
    Ok(Some(Slower { build: usize::from(build) - 1, model: model.clone(), percent }))
}

fn text(outcome: &Outcome) -> String {
    let rate = outcome.rows as f64 / outcome.importing_s.max(1e-9);
    format!(
        "{} rows in {} exports of {} MiB\nimported in {:.1} s, {rate:.0} rows a second; drawn in {:.1} s\n",
        outcome.rows,
        outcome.exports,
        outcome.bytes >> 20,
        outcome.importing_s,
        outcome.generating_s,
    )
}
