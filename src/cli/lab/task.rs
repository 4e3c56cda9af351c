//! `brisk task`: plays a program of an experiment about placement. Started by experiments.

use std::ffi::CString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;

use brisk_experiment::spec::{BackgroundProgram, Foreground};
use brisk_experiment::tasks::TaskRunner;

/// Arguments of `brisk task`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["front", "beside", "piece", "renderer"]))]
pub struct Arguments {
    /// Play the foreground
    #[arg(long, value_name = "NAME", value_parser = named(&Foreground::ALL, Foreground::name))]
    front: Option<Foreground>,
    /// Play a background program
    #[arg(long, value_name = "NAME", value_parser = named(&BackgroundProgram::ALL, BackgroundProgram::name))]
    beside: Option<BackgroundProgram>,
    /// Play one short-lived process of a build
    #[arg(long)]
    piece: bool,
    /// Play the second process of a browser
    #[arg(long)]
    renderer: bool,
    /// Rounds of messages, if the program sends any
    #[arg(long, value_name = "N", default_value_t = 0)]
    rounds: u32,
    /// Iterations of the work loop in a millisecond
    #[arg(long, value_name = "N")]
    turns_per_ms: u64,
    /// How many times longer work and periods of a background program take
    #[arg(long, value_name = "N", default_value_t = 1)]
    time_dilation: u32,
    /// Where a download is written
    #[arg(long, value_name = "FOLDER", default_value = "/tmp")]
    folder: PathBuf,
    /// The block device of a program that waits for a disk, which an update overwrites
    #[arg(long, value_name = "FILE", default_value = "/dev/null")]
    disk: PathBuf,
}

fn named<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl clap::builder::TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|&one| name(one)))
        .try_map(move |text| all.iter().copied().find(|&one| name(one) == text).ok_or("unknown name"))
}

/// Plays the program, then prints the result as one JSON line.
///
/// # Errors
/// When a thread, a socket or a process cannot be created.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let Arguments { turns_per_ms, time_dilation, .. } = *arguments;
    let Arguments { folder, disk, .. } = arguments;
    let runner = TaskRunner { turns_per_ms, time_dilation, program, folder: folder.clone(), disk: disk.clone() };
    if arguments.piece {
        rustix::thread::set_name(c"compiler")?;
        runner.compile_piece();
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.renderer {
        rustix::thread::set_name(c"renderer")?;
        runner.render(io::stdin().lock(), io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Like a user's programs, each has its own session, which autogroup schedules as one.
    rustix::process::setsid().context("cannot begin a session")?;
    let line = if let Some(what) = arguments.front {
        // The kernel and programs that list threads show this name.
        rustix::thread::set_name(&CString::new(what.name())?)?;
        serde_json::to_string(&runner.run_foreground(what, arguments.rounds)?)?
    } else if let Some(what) = arguments.beside {
        rustix::thread::set_name(&CString::new(what.name())?)?;
        serde_json::to_string(&runner.run_background(what, &mut io::stdin().lock())?)?
    } else {
        anyhow::bail!("no task was named: give --front, --beside, --piece or --renderer")
    };
    writeln!(io::stdout(), "{line}")?;
    Ok(ExitCode::SUCCESS)
}
