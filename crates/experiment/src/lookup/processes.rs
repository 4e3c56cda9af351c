//! The processes of a lookup measurement: a context manager, and a process with services.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};

use super::client::Client;
use brisk_sys::binder::{CallError, Connection, WireFormat};

/// Number and interval of the checks for a context manager.
const MAX_POLLS: u32 = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Which context manager is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manager {
    /// brisk's own (`brisk lab context-manager`), which searches a list as Android 5's did.
    Own {
        /// Whether it lets the driver cache its answers.
        cooperate: bool,
    },
    /// Another program, with its arguments; it needs some time until it answers.
    Program(Vec<String>),
}

impl Manager {
    /// `own`, `cooperating` (own, and it lets the driver cache its answers), or a command.
    pub fn named(text: &str) -> Self {
        match text {
            "own" => Self::Own { cooperate: false },
            "cooperating" => Self::Own { cooperate: true },
            command => Self::Program(command.split_whitespace().map(str::to_owned).collect()),
        }
    }

    /// The program that is started, if it is not brisk itself.
    pub fn program(&self) -> Option<&str> {
        match self {
            Self::Own { .. } => None,
            Self::Program(words) => words.first().map(String::as_str),
        }
    }
}

/// Child processes; dropping this value kills them.
#[derive(Debug)]
pub struct LookupProcesses {
    /// The services come first: the context ends with its manager.
    children: Vec<Child>,
}

impl LookupProcesses {
    /// Starts `manager` for the context of `device`, and a process that registers `services` there.
    ///
    /// # Errors
    /// When one of them does not start, or does not become ready.
    pub fn start(device: &Path, format: &WireFormat, manager: &Manager, services: usize) -> anyhow::Result<Self> {
        let mut processes = Self::start_manager(device, format, manager)?;
        let mut command = own_command("services", device, format)?;
        command.args(["--count", &services.to_string()]);
        processes.start_ready(command, "the process with the services")?;
        Ok(processes)
    }

    /// Starts `manager` alone, once the context of `device` is free.
    ///
    /// # Errors
    /// When it does not start, or does not become ready.
    pub fn start_manager(device: &Path, format: &WireFormat, manager: &Manager) -> anyhow::Result<Self> {
        let mut processes = Self { children: Vec::new() };
        wait_until_free(device)?;
        match manager {
            Manager::Own { cooperate } => {
                let mut command = own_command("context-manager", device, format)?;
                command.args(cooperate.then_some("--cooperate"));
                processes.start_ready(command, "the context manager")?;
            }
            Manager::Program(words) => {
                let (program, arguments) = words.split_first().context("no context manager was named")?;
                let child = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
                processes.children.push(child.with_context(|| format!("cannot start {program}"))?);
                processes.wait_for_manager(device)?;
            }
        }
        Ok(processes)
    }

    /// Starts a program and waits until it prints `ready`.
    fn start_ready(&mut self, mut command: Command, what: &str) -> anyhow::Result<()> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start {what}"))?;
        let stdout = child.stdout.take();
        self.children.insert(0, child);
        let mut line = String::new();
        BufReader::new(stdout.context("the child has no stdout")?).read_line(&mut line)?;
        if line.trim_end() != "ready" {
            bail!("{what} did not become ready; see its message above");
        }
        Ok(())
    }

    /// Waits until a process answers for handle 0.
    fn wait_for_manager(&mut self, device: &Path) -> anyhow::Result<()> {
        for _ in 0..MAX_POLLS {
            if has_manager(device)? {
                return Ok(());
            }
            if let Some(status) = self.children[0].try_wait()? {
                bail!("the context manager ended with {status}; see its message above");
            }
            sleep(POLL_INTERVAL);
        }
        bail!("no context manager answers at handle 0 of {}", device.display())
    }
}

/// `brisk lab NAME` for the context of `device`.
fn own_command(name: &str, device: &Path, format: &WireFormat) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(own);
    command.args(["lab", name, "--format", &format.name, "--device"]).arg(device);
    Ok(command)
}

/// The driver releases a context some time after its manager has exited.
fn wait_until_free(device: &Path) -> anyhow::Result<()> {
    for _ in 0..MAX_POLLS {
        if !has_manager(device)? {
            return Ok(());
        }
        sleep(POLL_INTERVAL);
    }
    bail!("{} has a context manager already: measure that one, without --manager", device.display())
}

fn has_manager(device: &Path) -> anyhow::Result<bool> {
    const MAP_BYTES: usize = 8192;
    let format = WireFormat::all().first().context("no wire format")?;
    match Client::new(Connection::open(device, MAP_BYTES)?, format).ping() {
        Ok(()) => Ok(true),
        Err(CallError::Dead | CallError::Failed) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Drop for LookupProcesses {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
