//! Another project's program that runs during an arm: another killer.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

/// A program that rejects its arguments exits within this time.
const SETTLING: Duration = Duration::from_millis(200);

/// A running program, until it is dropped; nothing where an arm has none.
#[derive(Debug)]
pub(super) struct CompanionProgram {
    child: Option<Child>,
}

impl CompanionProgram {
    /// Starts `words`, a program and its arguments.
    pub(super) fn start(words: &[String]) -> anyhow::Result<Self> {
        let Some((program, arguments)) = words.split_first() else { return Ok(Self { child: None }) };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        std::thread::sleep(SETTLING);
        if let Some(status) = child.try_wait()? {
            bail!("{program} ended at once with {status}; see its message on stderr");
        }
        Ok(Self { child: Some(child) })
    }
}

impl Drop for CompanionProgram {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
