//! `brisk lookup profile`: the wire format that the driver's cache needs for a context manager that does not cooperate.

use std::io::Write as _;
use std::process::ExitCode;

use super::context::wire_format;
use brisk_sys::binder::WireFormat;

/// Arguments of `brisk lookup profile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, as root, on Android 14:
  cd /sys/kernel/binder_cache/binder
  brisk lookup profile android-14 > profile && echo transparent > mode")]
pub struct Arguments {
    /// The wire format; without it, the known formats are listed
    #[arg(value_name = "FORMAT", value_parser = wire_format)]
    format: Option<&'static WireFormat>,
}

/// Prints the profile, or the formats.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    match arguments.format {
        Some(format) => writeln!(out, "{}", format.transparent_profile())?,
        None => {
            for format in WireFormat::all() {
                writeln!(out, "{:<12}Android {}", format.name, format.releases)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
