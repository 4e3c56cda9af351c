//! `brisk lab context-manager` and `brisk lab services`: who answers look-ups in the lab, and what is looked up.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::device::binder::WireFormat;
use crate::lab::binder::{ContextManager, names, register_and_serve};

/// What these programs print once they can be used.
pub const READY: &str = "ready";

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

/// Arguments of `brisk lab context-manager`.
#[derive(Debug, Args)]
#[command(after_help = "It prints `ready` and stays until it is ended.")]
pub struct ManagerArguments {
    #[command(flatten)]
    context: ContextArguments,
    /// Let the driver's cache keep answers for every caller that is not isolated
    #[arg(long)]
    cooperate: bool,
}

/// Arguments of `brisk lab services`.
#[derive(Debug, Args)]
#[command(after_help = "It prints `ready` once all are registered, and stays until it is ended.")]
pub struct ServicesArguments {
    #[command(flatten)]
    context: ContextArguments,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
}

/// The wire format called `name`.
///
/// # Errors
/// Those that are known, in words.
pub fn wire_format(name: &str) -> Result<&'static WireFormat, String> {
    let known = || WireFormat::all().iter().map(|format| format.name.as_str()).collect::<Vec<_>>().join(", ");
    WireFormat::named(name).ok_or_else(|| format!("known are {}", known()))
}

/// Serves a context.
///
/// # Errors
/// When it has a manager already, or the driver fails.
pub fn manage(arguments: &ManagerArguments) -> anyhow::Result<ExitCode> {
    let ManagerArguments { context, cooperate } = arguments;
    match ContextManager::run(&context.device, context.format, *cooperate, &mut say_ready)? {}
}

/// Registers services and serves them.
///
/// # Errors
/// When there is no context manager, or it refuses.
pub fn serve(arguments: &ServicesArguments) -> anyhow::Result<ExitCode> {
    let ServicesArguments { context, count } = arguments;
    match register_and_serve(&context.device, context.format, &names(*count), &mut say_ready)? {}
}

fn say_ready() {
    // Nobody listens when this fails, and nothing else depends on it.
    let _ = writeln!(std::io::stdout(), "{READY}").and_then(|()| std::io::stdout().flush());
}
