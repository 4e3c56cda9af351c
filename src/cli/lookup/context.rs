//! Which binder context a command is about.

use std::path::PathBuf;

use clap::Args;

use brisk_sys::binder::WireFormat;

/// Which device, and how it is spoken to.
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
/// Those that are known, in words.
pub fn wire_format(name: &str) -> Result<&'static WireFormat, String> {
    let known = || WireFormat::all().iter().map(|format| format.name.as_str()).collect::<Vec<_>>().join(", ");
    WireFormat::named(name).ok_or_else(|| format!("known are {}", known()))
}
