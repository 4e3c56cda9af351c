//! Maps other managers to the mechanism that does the same job: two programs that do one job undo each other's work.

use std::fmt;

use brisk_sys::system::other_managers::{FoundManager, OtherManager};

/// A job that only one program should do on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Setting governors and their tunables, or boosting frequencies temporarily.
    Frequency,
    /// Setting priorities of processes and threads.
    Priorities,
    /// Killing when memory is short.
    Killing,
    /// Setting up zram.
    Zram,
}

impl Job {
    /// The job of `manager`.
    pub fn of(manager: OtherManager) -> Self {
        match manager {
            OtherManager::Tuned
            | OtherManager::PowerProfilesDaemon
            | OtherManager::Tlp
            | OtherManager::AutoCpufreq
            | OtherManager::GameMode
            | OtherManager::PowerHal => Self::Frequency,
            OtherManager::Ananicy => Self::Priorities,
            OtherManager::Earlyoom | OtherManager::SystemdOomd | OtherManager::Nohang | OtherManager::Lmkd => {
                Self::Killing
            }
            OtherManager::ZramGenerator | OtherManager::Zramswap | OtherManager::Mmd => Self::Zram,
        }
    }

    /// The configuration's name of the mechanism that does this job.
    pub fn mechanism(self) -> &'static str {
        match self {
            Self::Frequency => "launch",
            Self::Priorities => "placement",
            Self::Killing => "memory.killer",
            Self::Zram => "memory.zram",
        }
    }

    /// The managers of `found` that do this job, with their evidence: `tuned (process 7) and TLP (/run/tlp exists)`.
    pub fn managers(self, found: &[FoundManager]) -> Option<String> {
        let managers: Vec<String> = found
            .iter()
            .filter(|found| Self::of(found.name) == self)
            .map(|found| format!("{} ({})", found.name, found.evidence))
            .collect();
        (!managers.is_empty()).then(|| managers.join(" and "))
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frequency => "sets CPU frequencies or their governors",
            Self::Priorities => "sets priorities of processes",
            Self::Killing => "kills when memory is short",
            Self::Zram => "sets up zram",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ON-2.
    #[test]
    fn each_manager_does_the_job_of_one_mechanism() {
        for (manager, mechanism) in [
            (OtherManager::Tuned, "launch"),
            (OtherManager::PowerProfilesDaemon, "launch"),
            (OtherManager::Tlp, "launch"),
            (OtherManager::AutoCpufreq, "launch"),
            (OtherManager::GameMode, "launch"),
            (OtherManager::PowerHal, "launch"),
            (OtherManager::Ananicy, "placement"),
            (OtherManager::Earlyoom, "memory.killer"),
            (OtherManager::SystemdOomd, "memory.killer"),
            (OtherManager::Nohang, "memory.killer"),
            (OtherManager::Lmkd, "memory.killer"),
            (OtherManager::ZramGenerator, "memory.zram"),
            (OtherManager::Zramswap, "memory.zram"),
            (OtherManager::Mmd, "memory.zram"),
        ] {
            assert_eq!(Job::of(manager).mechanism(), mechanism, "{manager}");
        }
    }

    #[test]
    fn doers_are_listed_with_their_evidence() {
        let found = [(OtherManager::Tuned, "a"), (OtherManager::Lmkd, "b"), (OtherManager::Tlp, "c")]
            .map(|(name, evidence)| FoundManager { name, evidence: evidence.to_owned() });
        assert_eq!(Job::Frequency.managers(&found).as_deref(), Some("tuned (a) and TLP (c)"));
        assert_eq!(Job::Zram.managers(&found), None);
    }
}
