//! `brisk boot record`: records a boot from the first process to completion.

use std::io;
use std::path::{self, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tracing::Level;

use super::watch::{UntilArguments, report};
use crate::cli::log;
use brisk_daemon::boot::{DEFAULT_OUTPUTS, Hold, HoldOptions, Recording, watch};
use brisk_sys::Root;

/// Arguments of `brisk boot record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
There are three ways to start it:
  by the kernel, with this on its command line:
      init=/usr/bin/brisk -- boot record --init=/sbin/init
      The recorder is a child and the real init is process 1: init is executed
      whatever happens to the recorder. Words without -- go to init. With an
      initial RAM disk (Android): rdinit=/brisk -- boot record --init=/init
  by systemd, after systemctl enable brisk-boot-record
  by Android's init, with androidboot.brisk=record on the kernel's command line

It ends when the boot has completed: when sys.boot_completed is set (Android), when systemd has no start
jobs left, when /run/brisk-boot-completed exists, or at the time-out; --until replaces these. SIGTERM
ends it at once. The samples stay in memory until then.

Without --output the recording is /var/log/brisk-boot.tgz, on Android /data/misc/brisk/boot.tgz, or
/run/brisk-boot.tgz where neither can be written. It says which one it wrote.

`brisk boot chart`, `diagnose` and `compare` read the recording; so do bootchart's own tools.

Exit code 0 when a recording was written, 2 when it was not.

Examples:
  brisk boot record --output /data/boot.tgz
  brisk boot record --until process:launcher --performance
  brisk boot record --timeout-s 10          ten seconds of a running system")]
pub struct Arguments {
    /// Write the recording to FILE; with several, to the first that is writable
    #[arg(long, short, value_name = "FILE")]
    output: Vec<PathBuf>,
    /// Take this many samples a second
    #[arg(long, value_name = "HZ", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=50))]
    rate: u32,
    /// Limit the memory for samples
    #[arg(long, value_name = "KIB", default_value_t = 16 * 1024, value_parser = clap::value_parser!(u32).range(64..=1024 * 1024))]
    memory_kib: u32,
    /// Wait this long for a writable place
    #[arg(long, value_name = "S", default_value_t = 60)]
    patience_s: u32,
    /// Also hold the governors at performance, like `brisk boot hold`
    #[arg(long)]
    performance: bool,
    #[command(flatten)]
    until: UntilArguments,
}

impl Arguments {
    /// The files from `--output` as absolute paths: the recorder resolves them below the root of init, not in the caller's
    /// working directory.
    fn outputs(&self) -> io::Result<Vec<PathBuf>> {
        self.output.iter().map(path::absolute).collect()
    }
}

/// Records the boot.
///
/// # Errors
/// When nothing can be recorded, or no place is writable.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    log::start(Level::WARN);
    let outputs = arguments.outputs()?;
    let recording = Recording {
        period: Duration::from_secs(1) / arguments.rate,
        limit_bytes: arguments.memory_kib as usize * 1024,
        outputs: if outputs.is_empty() { DEFAULT_OUTPUTS.map(PathBuf::from).to_vec() } else { outputs },
        patience: Duration::from_secs(arguments.patience_s.into()),
    };
    let hold = arguments.performance.then(|| Hold { then: arguments.until.then.clone() });
    let options = HoldOptions { recording: Some(recording), hold, ..arguments.until.options(root) };
    report(&watch(&options)?, arguments.until.json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_relative_output_begins_at_the_working_directory() {
        let command = Command::parse_from(["record", "--output", "now.tgz", "--output", "/run/now.tgz"]);
        let here = std::env::current_dir().unwrap();
        assert_eq!(command.arguments.outputs().unwrap(), [here.join("now.tgz"), "/run/now.tgz".into()]);
    }
}
