//! `brisk lab context-manager` and `brisk lab services`: who answers look-ups in the lab, and what is looked up.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use super::lookup::context::ContextArguments;
use crate::lab::binder::{ContextManager, register_and_serve};
use crate::mechanism::lookup::services::names;

/// What these programs print once they can be used.
pub const READY: &str = "ready";

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
