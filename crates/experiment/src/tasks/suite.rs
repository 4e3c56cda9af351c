//! JavaScript under node: a suite of small programs, like those that browser engines were compared by.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use super::ForegroundReport;

const SUITE: &str = include_str!("suite.js");
/// The program that runs the suite.
pub const ENGINE: &str = "node";

/// The suite as a file, and how often it is run.
#[derive(Debug)]
pub struct Suite {
    file: PathBuf,
    rounds: u32,
}

impl Suite {
    /// Writes it into `folder`, and measures how many rounds take about `length` undisturbed.
    ///
    /// # Errors
    /// When the file cannot be written, or node cannot run it.
    pub fn calibrate(length: Duration, folder: &Path) -> anyhow::Result<Self> {
        const TRIAL: u32 = 40;
        let file = folder.join("suite.js");
        fs::write(&file, SUITE).with_context(|| format!("cannot write {}", file.display()))?;
        let trial = Self { file, rounds: TRIAL };
        let output = trial.command().output().with_context(|| format!("cannot run {ENGINE}: install nodejs"))?;
        if !output.status.success() {
            bail!("{ENGINE} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        let front: ForegroundReport =
            serde_json::from_slice(&output.stdout).context("the suite did not report its time")?;
        let rounds = length.as_secs_f64() * 1000.0 / (front.foreground_ms / f64::from(TRIAL));
        Ok(Self { rounds: (rounds as u32).max(1), ..trial })
    }

    /// The command that runs it once, for all its rounds; it prints a [`ForegroundReport`].
    pub fn command(&self) -> Command {
        let mut command = Command::new(ENGINE);
        command.arg(&self.file).arg(self.rounds.to_string()).stdin(Stdio::null());
        command
    }
}
