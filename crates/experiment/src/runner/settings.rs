//! An arm's governor, tunables and limits on the device: each a lease of the runner's own journal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use super::super::spec::Arm;
use brisk_sys::cpu::cpufreq::{FrequencyPolicy, Policies, governor_tunables};
use brisk_sys::{BootTime, Root, Target};
use brisk_undo::journal::{Holder, Journal, RestoreOutcome};

/// Longer than any replicate; each replicate first extends the leases that it needs.
const LEASE: Duration = Duration::from_secs(900);

/// What the runner has changed; dropping it restores everything.
#[derive(Debug)]
pub(super) struct RunnerSettings {
    root: Root,
    journal: Journal,
}

impl RunnerSettings {
    /// Takes the journal in `folder`, and first restores what a killed runner has left changed.
    pub(super) fn open(folder: &Path, root: &Root) -> anyhow::Result<Self> {
        Ok(Self { root: root.clone(), journal: Journal::open(Holder::Experiment, folder, root)? })
    }

    /// Applies the settings of `arm`, whichever arm was set before.
    pub(super) fn apply(&mut self, arm: &Arm) -> anyhow::Result<()> {
        self.release_all_but_governors()?;
        for policy in policies(&self.root)? {
            self.set_governor(&policy, arm)?;
        }
        // Another governor has other tunables.
        for policy in policies(&self.root)? {
            self.set_tunables(&policy, arm)?;
        }
        Ok(())
    }

    /// Pins every policy at its highest frequency, whatever its governor.
    pub(super) fn pin_at_maximum(&mut self) -> anyhow::Result<()> {
        for policy in policies(&self.root)? {
            self.lease(policy.folder.join("scaling_min_freq"), &maximum(&policy)?, "calibration")?;
        }
        Ok(())
    }

    /// Restores everything.
    ///
    /// # Errors
    /// Names what could not be restored.
    pub(super) fn restore(&mut self) -> anyhow::Result<()> {
        let refused = self.journal.release_all().into_iter().find_map(|restoration| match restoration.outcome {
            RestoreOutcome::Refused { error } => Some(format!("{}: {error}", restoration.target)),
            _ => None,
        });
        refused.map_or(Ok(()), |refusal| bail!("could not be restored: {refusal}; `brisk restore` tries again"))
    }

    fn set_governor(&mut self, policy: &FrequencyPolicy, arm: &Arm) -> anyhow::Result<()> {
        let file = policy.folder.join("scaling_governor");
        match &arm.governor {
            None => self.release(&Target::Tunable(file)),
            Some(governor) if *governor == policy.governor => Ok(()),
            Some(governor) => self.lease(file, governor, &arm.name).with_context(|| {
                let offered = policy.available_governors.join(", ");
                format!("{} cannot be governed by {governor}; it offers {offered}", policy.name)
            }),
        }
    }

    fn set_tunables(&mut self, policy: &FrequencyPolicy, arm: &Arm) -> anyhow::Result<()> {
        if !arm.tunables.is_empty() {
            let folder = governor_tunables(&self.root, policy)
                .with_context(|| format!("the governor {} of {} has no tunables", policy.governor, policy.name))?;
            for (name, value) in &arm.tunables {
                self.lease(folder.join(name), value, &arm.name)?;
            }
        }
        for (name, value) in &arm.policy {
            let value = if value == "maximum" { maximum(policy)? } else { value.clone() };
            self.lease(policy.folder.join(name), &value, &arm.name)?;
        }
        Ok(())
    }

    fn lease(&mut self, file: PathBuf, value: &str, arm: &str) -> anyhow::Result<()> {
        let now = BootTime::now();
        let reason = format!("experiment, {arm}");
        Ok(self.journal.lease(now, &Target::Tunable(file), value, now + LEASE, &reason)?)
    }

    fn release_all_but_governors(&mut self) -> anyhow::Result<()> {
        let is_governor =
            |target: &Target| matches!(target, Target::Tunable(path) if path.ends_with("scaling_governor"));
        let targets: Vec<Target> = self.journal.leases().iter().map(|lease| lease.target.clone()).collect();
        targets.iter().rev().filter(|target| !is_governor(target)).try_for_each(|target| self.release(target))
    }

    fn release(&mut self, target: &Target) -> anyhow::Result<()> {
        if self.journal.leases().iter().all(|lease| lease.target != *target) {
            return Ok(());
        }
        match self.journal.release(BootTime::now(), target)?.outcome {
            RestoreOutcome::Refused { error } => bail!("{target} could not be restored: {error}"),
            _ => Ok(()),
        }
    }
}

/// The device's cpufreq policies.
///
/// # Errors
/// When it has none: nothing can be measured here.
fn policies(root: &Root) -> anyhow::Result<Vec<FrequencyPolicy>> {
    let policies = Policies::read(root);
    if let Some(fault) = policies.faults.into_iter().next() {
        return Err(fault).context("this device's cpufreq cannot be read");
    }
    if policies.list.is_empty() {
        bail!(
            "this device has no CPU frequency scaling: {} holds no policy. Run on a device with a cpufreq driver \
             (a virtual machine has none), or in the lab: brisk prove --lab",
            root.path("/sys/devices/system/cpu/cpufreq").display()
        );
    }
    Ok(policies.list)
}

fn maximum(policy: &FrequencyPolicy) -> anyhow::Result<String> {
    let file = policy.folder.join("scaling_max_freq");
    Ok(policy.maximum_khz.with_context(|| format!("{} holds no number", file.display()))?.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A device with one policy under ondemand at 20 ms.
    fn device() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("policy0/affected_cpus", "0"),
            ("policy0/scaling_governor", "ondemand"),
            ("policy0/scaling_available_governors", "ondemand performance"),
            ("policy0/scaling_min_freq", "200000"),
            ("policy0/scaling_max_freq", "1200000"),
            ("ondemand/sampling_rate", "20000"),
        ] {
            let path = folder.path().join("sys/devices/system/cpu/cpufreq").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    fn arm(text: &str) -> Arm {
        toml::from_str(&format!("name = \"a\"\ntitle = \"a\"\n{text}")).unwrap()
    }

    fn values(root: &Root) -> [String; 3] {
        ["policy0/scaling_governor", "policy0/scaling_min_freq", "ondemand/sampling_rate"]
            .map(|file| root.read(format!("/sys/devices/system/cpu/cpufreq/{file}")).unwrap())
    }

    #[test]
    fn arms_replace_each_other_and_everything_is_restored() {
        let (folder, root) = device();
        let before = values(&root);
        let mut settings = RunnerSettings::open(&folder.path().join("run"), &root).unwrap();
        for (text, expected) in [
            ("tunables = { sampling_rate = 100_000 }", ["ondemand", "200000", "100000"]),
            ("policy = { scaling_min_freq = \"maximum\" }", ["ondemand", "1200000", "20000"]),
            ("governor = \"performance\"", ["performance", "200000", "20000"]),
            ("governor = \"ondemand\"\ntunables = { sampling_rate = \"50000\" }", ["ondemand", "200000", "50000"]),
            ("", ["ondemand", "200000", "20000"]),
        ] {
            settings.apply(&arm(text)).unwrap();
            assert_eq!(values(&root), expected, "{text}");
        }
        settings.pin_at_maximum().unwrap();
        settings.apply(&arm("governor = \"performance\"")).unwrap();
        settings.restore().unwrap();
        assert_eq!(values(&root), before);
        settings.apply(&arm("governor = \"performance\"")).unwrap();
        drop(settings);
        assert_eq!(values(&root), before, "dropped without restoring");
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_the_reason() {
        let (folder, root) = device();
        let mut settings = RunnerSettings::open(&folder.path().join("run"), &root).unwrap();
        let refused = settings.apply(&arm("tunables = { up_threshold = 5 }")).unwrap_err();
        assert!(format!("{refused:#}").contains("ondemand/up_threshold"), "{refused:#}");
        root.write("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance").unwrap();
        let refused = settings.apply(&arm("tunables = { sampling_rate = 5 }")).unwrap_err();
        assert!(format!("{refused:#}").contains("the governor performance of policy0 has no tunables"), "{refused:#}");

        let empty = tempfile::tempdir().unwrap();
        let refused =
            RunnerSettings::open(&empty.path().join("run"), &Root::at(empty.path())).unwrap().pin_at_maximum();
        assert!(refused.unwrap_err().to_string().contains("brisk prove --lab"));
    }
}
