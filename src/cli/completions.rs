//! `brisk completions`: the completion script of a shell.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;

/// Arguments of `brisk completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Packages install these scripts already.

Examples:
  brisk completions bash >~/.local/share/bash-completion/completions/brisk
  brisk completions fish >~/.config/fish/completions/brisk.fish")]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "brisk", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
