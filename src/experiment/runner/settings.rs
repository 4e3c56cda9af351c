//! An arm's governor, tunables and limits on the device, each held and given back.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::super::spec::Arm;
use crate::device::Root;
use crate::device::cpufreq::{Policies, Policy, governor_tunables};

/// What the runner has changed.
#[derive(Debug)]
pub(super) struct Settings {
    root: Root,
    /// Governors that were changed: their file and original.
    governors: Vec<(PathBuf, String)>,
    /// Everything else that was changed, in the order of changing.
    values: Vec<(PathBuf, String)>,
}

impl Settings {
    pub(super) fn new(root: &Root) -> Self {
        Self { root: root.clone(), governors: Vec::new(), values: Vec::new() }
    }

    /// The device's cpufreq policies.
    ///
    /// # Errors
    /// When it has none: nothing can be measured here.
    pub(super) fn policies(root: &Root) -> anyhow::Result<Vec<Policy>> {
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

    /// Makes the device what `arm` says, from whatever arm it was.
    pub(super) fn apply(&mut self, arm: &Arm) -> anyhow::Result<()> {
        self.give_back_values();
        for policy in Self::policies(&self.root)? {
            self.govern(&policy, arm.governor.as_deref())?;
        }
        for policy in Self::policies(&self.root)? {
            self.tune(&policy, arm)?;
        }
        Ok(())
    }

    /// Pins every policy at its highest frequency, whatever its governor.
    pub(super) fn pin_at_maximum(&mut self) -> anyhow::Result<()> {
        self.give_back_values();
        for policy in Self::policies(&self.root)? {
            self.hold(&policy.folder.join("scaling_min_freq"), &maximum(&policy)?)?;
        }
        Ok(())
    }

    /// Gives everything back.
    pub(super) fn give_back(&mut self) {
        self.give_back_values();
        for (file, original) in self.governors.drain(..).rev() {
            let _ = self.root.write(&file, &original);
        }
    }

    fn govern(&mut self, policy: &Policy, wanted: Option<&str>) -> anyhow::Result<()> {
        let file = policy.folder.join("scaling_governor");
        let place = self.governors.iter().position(|(held, _)| *held == file);
        match (wanted, place) {
            (Some(governor), _) if governor == policy.governor => Ok(()),
            (Some(governor), held) => {
                self.root.write(&file, governor).with_context(|| {
                    format!(
                        "{} cannot be governed by {governor}; it offers {}",
                        policy.name,
                        policy.available_governors.join(", ")
                    )
                })?;
                if held.is_none() {
                    self.governors.push((file, policy.governor.clone()));
                }
                Ok(())
            }
            (None, Some(place)) => {
                let (file, original) = self.governors.remove(place);
                Ok(self.root.write(&file, &original)?)
            }
            (None, None) => Ok(()),
        }
    }

    fn tune(&mut self, policy: &Policy, arm: &Arm) -> anyhow::Result<()> {
        for (name, value) in &arm.tunables {
            let folder = governor_tunables(&self.root, policy).with_context(|| {
                format!("arm {}: the governor {} of {} has no tunables", arm.name, policy.governor, policy.name)
            })?;
            self.hold(&folder.join(name), value)?;
        }
        for (name, value) in &arm.policy {
            let value = if value == "maximum" { maximum(policy)? } else { value.clone() };
            self.hold(&policy.folder.join(name), &value)?;
        }
        Ok(())
    }

    fn hold(&mut self, file: &Path, value: &str) -> anyhow::Result<()> {
        let original = self.root.read(file)?;
        if original == value {
            return Ok(());
        }
        self.root.write(file, value)?;
        self.values.push((file.to_owned(), original));
        Ok(())
    }

    fn give_back_values(&mut self) {
        for (file, original) in self.values.drain(..).rev() {
            let _ = self.root.write(&file, &original);
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn maximum(policy: &Policy) -> anyhow::Result<String> {
    let khz =
        policy.maximum_khz.with_context(|| format!("{}/scaling_max_freq has no number", policy.folder.display()))?;
    Ok(khz.to_string())
}
