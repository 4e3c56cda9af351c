//! Runs the real `brisk boot hold` during an arm: it restores the governors when the arm's boot has completed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::Signal;

use brisk_mechanism::boot::governor_hold::PERFORMANCE;
use brisk_sys::Root;
use brisk_sys::cpu::cpufreq::Policies;
use brisk_sys::cpu::governor;
use brisk_sys::process::parent_death;

/// A running `brisk boot hold`; dropping it kills it, and its guardian restores what it holds.
pub(super) struct BootHold {
    child: Child,
    root: Root,
    completed: PathBuf,
    /// The policies' governors and tunables before.
    before: Vec<String>,
    /// The governor that replaces the kernel's own `performance`.
    then: Option<String>,
}

impl BootHold {
    /// Starts it, beside what the boot does next, as a device's init does. With `then`, the kernel has started under performance,
    /// and `then` is set at the end.
    pub(super) fn start(root: &Root, folder: &Path, then: Option<&str>) -> anyhow::Result<Self> {
        let completed = folder.join("boot-completed");
        let _ = fs::remove_file(&completed);
        let before = governors(root)?;
        if then.is_some() && before.iter().any(|governor| governor != PERFORMANCE) {
            bail!("the kernel started under {before:?} and not under performance: see the scenario's command line");
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--root").arg(root.path("/")).args(["boot", "hold", "--timeout-s", "600", "--until"]);
        command.arg(format!("file:{}", completed.display()));
        command.args(then.iter().flat_map(|governor| ["--then", governor]));
        parent_death::die_with_parent(&mut command, Signal::TERM);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.context("cannot start brisk boot hold")?;
        Ok(Self { child, root: root.clone(), completed, before, then: then.map(str::to_owned) })
    }

    /// Marks the boot as completed, and checks that every governor was held, and is restored or is the one to set then.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        let held = governors(&self.root)?;
        if held.iter().any(|governor| governor != PERFORMANCE) {
            bail!("brisk boot hold does not hold the governors at the end of the boot: {held:?}");
        }
        fs::write(&self.completed, "").with_context(|| format!("cannot write {}", self.completed.display()))?;
        let status = self.child.wait()?;
        let _ = fs::remove_file(&self.completed);
        if !status.success() {
            bail!("brisk boot hold ended with {status}");
        }
        let after = governors(&self.root)?;
        let is_as_expected = match &self.then {
            Some(governor) => after.iter().all(|value| value.split('\t').next() == Some(governor)),
            None => after == self.before,
        };
        if !is_as_expected {
            bail!("the governors were {:?} and are {after:?}", self.before);
        }
        Ok(())
    }
}

fn governors(root: &Root) -> anyhow::Result<Vec<String>> {
    let policies = Policies::read(root).list;
    policies.iter().map(|policy| Ok(governor::read(root, &policy.folder)?)).collect()
}

impl Drop for BootHold {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
