//! One launch: fork and exec of the application, its first screen, its end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::super::load::FirstScreen;
use super::Runner;

/// A launched application; dropping it ends it.
pub(super) struct Application {
    child: Child,
}

impl Application {
    pub(super) fn start(runner: &Runner<'_>, work_ms: u32, arguments: &[String]) -> anyhow::Result<Self> {
        Self::start_program(&runner.application, runner, work_ms, arguments)
    }

    /// The same under another name: `program` is a link to this program.
    pub(super) fn start_program(
        program: &Path,
        runner: &Runner<'_>,
        work_ms: u32,
        arguments: &[String],
    ) -> anyhow::Result<Self> {
        let workload = runner.workload;
        let mut command = Command::new(program);
        command.args(["load", "--json", "--stay", "--work-ms"]).arg(work_ms.to_string());
        command.arg("--start-up-ms").arg(workload.start_up_ms.to_string());
        command.arg("--threads").arg(workload.threads.to_string());
        command.arg("--turns-per-ms").arg(runner.turns_per_ms.to_string());
        if let Some(bursts) = workload.bursts {
            command.arg("--burst-ms").arg(bursts.work_ms.to_string());
            command.arg("--wait-ms").arg(bursts.wait_ms.to_string());
        }
        let child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Ok(Self { child: child.with_context(|| format!("cannot launch {}", program.display()))? })
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the first screen.
    pub(super) fn first_screen(&mut self) -> anyhow::Result<FirstScreen> {
        let stdout = self.child.stdout.take().context("the application has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        serde_json::from_slice(line.as_bytes()).with_context(|| format!("the application printed {line:?}"))
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
