//! The user's own device: a child runs the plan, and can still restore when this process is interrupted or crashes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::super::conduct::Testbed;
use super::super::plan::{Line, Plan};
use super::super::spec::Experiment;
use brisk_report::proof::SelfCheck;
use brisk_sys::process::parent_death;
use brisk_sys::{Root, process};

/// The device that brisk is on.
#[derive(Debug, Clone)]
pub struct LocalDevice {
    /// Its root, as given to `brisk --root`.
    pub root: PathBuf,
}

impl LocalDevice {
    /// Its kernel's release and version.
    pub fn kernel(&self) -> String {
        let root = Root::at(&self.root);
        let line = |file| root.read(file).unwrap_or_default().trim().to_owned();
        ["/proc/sys/kernel/osrelease", "/proc/sys/kernel/version"].map(line).join(" ")
    }
}

impl Testbed for LocalDevice {
    fn devices(&self, _experiment: &Experiment) -> u32 {
        1
    }

    fn program(&self) -> anyhow::Result<String> {
        super::digest([Path::new("/proc/self/exe")])
    }

    fn prepare(&self, _experiment: &Experiment, _plan: &Plan) -> anyhow::Result<String> {
        Ok(self.kernel())
    }

    fn run(
        &self,
        _experiment: &Experiment,
        plan: &Plan,
        _device: u32,
        interrupted: &AtomicBool,
        on_line: &mut dyn FnMut(Line),
    ) -> anyhow::Result<Vec<SelfCheck>> {
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.arg("--root").arg(&self.root).args(["replicate", "--plan", "-"]);
        parent_death::die_with_parent(&mut command, Signal::TERM);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start a child")?;
        let mut stdin = child.stdin.take().context("the child has no stdin")?;
        let stdout = child.stdout.take().context("the child has no stdout")?;
        // A child that refuses at once does not read its plan; its exit status shows that.
        let _ = stdin.write_all(&serde_json::to_vec(plan)?);
        drop(stdin);
        let finished = AtomicBool::new(false);
        let mut reason = None;
        let status = std::thread::scope(|scope| -> anyhow::Result<_> {
            let pid = process::id(child.id());
            let finished = &finished;
            scope.spawn(move || forward_interrupt(pid, interrupted, finished));
            let read = forward_lines(stdout, &mut |line| match line {
                Line::Failed { failed } => reason = Some(failed),
                line => on_line(line),
            });
            let status = wait(&mut child);
            finished.store(true, Ordering::Relaxed);
            read.and(status)
        })?;
        if !status.success() {
            bail!(reason.unwrap_or_else(|| format!("the measuring child ended with {status}; see its message above")));
        }
        Ok(Vec::new())
    }
}

fn forward_lines(stdout: impl std::io::Read, on_line: &mut dyn FnMut(Line)) -> anyhow::Result<()> {
    for text in BufReader::new(stdout).lines() {
        let text = text?;
        on_line(serde_json::from_slice(text.as_bytes()).with_context(|| format!("the child printed {text:?}"))?);
    }
    Ok(())
}

fn wait(child: &mut Child) -> anyhow::Result<std::process::ExitStatus> {
    Ok(child.wait()?)
}

/// Passes an interrupt of this program on to the child, once.
fn forward_interrupt(pid: Option<Pid>, interrupted: &AtomicBool, finished: &AtomicBool) {
    while !finished.load(Ordering::Relaxed) {
        if interrupted.load(Ordering::Relaxed) {
            if let Some(pid) = pid {
                let _ = kill_process(pid, Signal::TERM);
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
