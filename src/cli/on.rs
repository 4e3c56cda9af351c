//! `--on`: a subcommand runs on other devices, several at a time, and leaves nothing there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use brisk_base::notes::{self, note};
use brisk_remote::error::RemoteError;
use brisk_remote::program::Programs;
use brisk_remote::session::{self, Ended, Job};
use brisk_remote::target::Target;
use brisk_sys::Root;

/// The options that select devices.
#[derive(Debug, Clone, Default, Args)]
pub struct OnArguments {
    /// Do it on another device, ssh:[USER@]HOST[:PORT] or adb:SERIAL; repeat it for several
    #[arg(long, value_name = "DEVICE")]
    pub on: Vec<Target>,
    /// The static program for these devices; repeat it for each architecture [default:
    /// brisk-ARCHITECTURE beside this program]
    #[arg(long, value_name = "FILE", requires = "on")]
    binary: Vec<PathBuf>,
}

/// What is printed for programs, with what is known of each device.
#[derive(Debug, Serialize)]
pub struct Answer<Device> {
    schema: u32,
    /// In the order in which they were given.
    pub devices: Vec<Device>,
}

impl<Device> Answer<Device> {
    /// That of `devices`.
    pub fn of(devices: Vec<Device>) -> Self {
        Self { schema: 1, devices }
    }
}

/// What all devices do.
#[derive(Debug, Default)]
pub struct Order<'a> {
    /// brisk's arguments on a device.
    pub words: Vec<String>,
    /// Files that they name: the names there, and where they are here.
    pub files: Vec<(String, PathBuf)>,
    /// For each device the empty folder for its results, if there are any.
    pub results: Vec<&'a Path>,
}

impl OnArguments {
    /// Runs `order` on all devices at once; the outcomes are in the order of the devices.
    ///
    /// # Errors
    /// When a program is not what it should be, or a device is named twice.
    pub fn run(&self, order: Order<'_>, root: &Root) -> anyhow::Result<Vec<Result<Ended, RemoteError>>> {
        for (index, target) in self.on.iter().enumerate() {
            let is_twice = self.on[..index].iter().any(|other| other.folder_name() == target.folder_name());
            ensure!(!is_twice, "--on {target} is given twice");
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        let own = std::env::current_exe().context("cannot find this program")?;
        let programs = Programs::at_hand(&self.binary, &own)?;
        let mut words = Vec::new();
        if root.path("/") != Path::new("/") {
            words.extend(["--root".to_owned(), root.path("/").display().to_string()]);
        }
        words.extend(notes::are_silent().then(|| "--quiet".to_owned()));
        words.extend(order.words);
        let job = Job { programs: &programs, files: &order.files, words: &words, results: None };
        let results = order.results.iter().copied().map(Some).chain(std::iter::repeat(None));
        Ok(thread::scope(|scope| {
            let interrupted = &interrupted;
            let start = |(target, results)| {
                scope.spawn(move || {
                    note!("{target}: begins");
                    let say = |line: &str| eprintln!("{target}: {line}");
                    let ended = session::run(target, Job { results, ..job }, interrupted, &say);
                    ended.inspect_err(|error| eprintln!("brisk: {error}"))
                })
            };
            let threads: Vec<_> = self.on.iter().zip(results).map(start).collect();
            let outcomes = threads.into_iter().map(|thread| thread.join());
            outcomes.map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        }))
    }
}

/// The exit status of a device's job: 2 if it could not be done.
pub fn status(outcome: &Result<Ended, RemoteError>) -> u8 {
    outcome.as_ref().map_or(2, |ended| ended.status)
}
