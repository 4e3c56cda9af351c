//! The arguments that select a binder context.

use std::path::PathBuf;

use clap::Args;

use brisk_sys::binder::WireFormat;

/// The binder device and its context manager's wire format.
#[derive(Debug, Args)]
pub struct ContextArguments {
    /// The binder device
    #[arg(long, value_name = "FILE", default_value = "/dev/binder")]
    pub device: PathBuf,
    /// The wire format of the context manager: android-5 to android-16
    #[arg(long, value_name = "FORMAT", default_value = "android-16", value_parser = wire_format)]
    pub format: &'static WireFormat,
}

/// The wire format called `name`.
///
/// # Errors
/// A message that lists the known formats.
pub fn wire_format(name: &str) -> Result<&'static WireFormat, String> {
    let known = || WireFormat::all().iter().map(|format| format.name.as_str()).collect::<Vec<_>>().join(", ");
    WireFormat::named(name).ok_or_else(|| format!("known are {}", known()))
}
