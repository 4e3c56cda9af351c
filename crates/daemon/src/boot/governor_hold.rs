//! Holds every governor at `performance` until the boot has completed, as leases in its own journal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::geteuid;

use brisk_mechanism::boot::governor_hold::{HandOverStep, PERFORMANCE, step};
use brisk_sys::cpu::cpufreq::Policies;
use brisk_sys::process::first_process::is_runtime_folder_mounted;
use brisk_sys::{BootTime, Root, Target};
use brisk_undo::guardian::Guardian;
use brisk_undo::journal::{Holder, Journal, JournalError, Replay, Restoration, RestoreOutcome};

/// A cpufreq driver may be loaded late in a boot, so new policies are searched for; more often while there are none.
const SEARCH_PERIOD: Duration = Duration::from_secs(1);
const FIRST_SEARCH_PERIOD: Duration = Duration::from_millis(100);
const REASON: &str = "the boot has not completed";

/// Restores the governors of a boot whose holder and guardian were killed; a living holder keeps them. Root owns the journal:
/// a daemon without root leaves that to `brisk grant`.
pub fn restore_stale_governors(root: &Root) {
    if !geteuid().is_root() {
        return;
    }
    match Replay::of(Holder::Boot, &Holder::Boot.folder(root), root) {
        Ok(replay) => {
            for Restoration { target, original, outcome } in &replay.restorations {
                tracing::warn!("the boot left {target} leased, its original is {original}: {outcome:?}");
            }
        }
        Err(JournalError::Locked { .. }) => {}
        Err(error) => tracing::warn!("cannot restore governors that a boot may hold: {error}"),
    }
}

/// The governors that are held.
#[derive(Debug)]
pub struct GovernorHold {
    root: Root,
    /// The root of the booting system, if it differs from this process's.
    init_root: Option<Root>,
    journal: Journal,
    _guardian: Option<Guardian>,
    /// The last warning about a journal that cannot move, so that it is not repeated.
    last_warning: String,
    then: Option<String>,
    until: BootTime,
    known: BTreeSet<PathBuf>,
    next_search: BootTime,
}

impl GovernorHold {
    /// Opens the journal, and holds the present policies. A guardian restores everything when this process dies, and at
    /// `until` when it hangs. If only this process sees its runtime folder, the journal moves to that of `init_root` as soon as
    /// it exists: if the guardian dies as well, other processes must find the journal.
    ///
    /// # Errors
    /// When the journal cannot be used, or the guardian cannot be started: nothing is changed then.
    pub fn begin(
        root: &Root,
        init_root: Option<&Root>,
        then: Option<&str>,
        now: BootTime,
        until: BootTime,
    ) -> anyhow::Result<Self> {
        let folder = Holder::Boot.folder(root);
        let journal = Journal::open(Holder::Boot, &folder, root)?;
        let guardian = Guardian::start(Holder::Boot, &folder, root)?;
        let mut hand_over = Self {
            root: root.clone(),
            init_root: init_root.cloned(),
            journal,
            _guardian: Some(guardian),
            last_warning: String::new(),
            then: then.map(ToOwned::to_owned),
            until,
            known: BTreeSet::new(),
            next_search: BootTime::default(),
        };
        hand_over.hold_new(now);
        Ok(hand_over)
    }

    /// Holds policies that have appeared since; each only once, so that another program's later choice stays.
    pub fn hold_new(&mut self, now: BootTime) {
        if now < self.next_search {
            return;
        }
        for policy in Policies::read(&self.root).list {
            if !self.known.insert(policy.folder.clone()) {
                continue;
            }
            let target = Target::Governor(policy.folder.clone());
            let held = match step(&policy, self.then.as_deref()) {
                HandOverStep::Hold => self.journal.lease(now, &target, PERFORMANCE, self.until, REASON),
                HandOverStep::Adopt { governor } => {
                    self.journal.adopt(now, &target, PERFORMANCE, &governor, self.until, REASON)
                }
                HandOverStep::Skip(reason) => {
                    tracing::info!("{reason}");
                    continue;
                }
            };
            if let Err(error) = held {
                tracing::warn!("{}: {error}", policy.name);
            }
        }
        if let Err(error) = self.move_journal_to_runtime_folder() {
            let message = format!("only the guardian can restore the governors: {error:#}");
            if message != self.last_warning {
                tracing::warn!("{message}");
                self.last_warning = message;
            }
        }
        self.next_search = now + if self.known.is_empty() { FIRST_SEARCH_PERIOD } else { SEARCH_PERIOD };
    }

    /// Moves the journal to the runtime folder of the booting system, but not to one in an initramfs, which does not last.
    fn move_journal_to_runtime_folder(&mut self) -> anyhow::Result<()> {
        let Some(init_root) = self.init_root.as_ref().filter(|init_root| is_runtime_folder_mounted(init_root)) else {
            return Ok(());
        };
        let folder = Holder::Boot.folder(init_root);
        if self.journal.is_in(&folder) {
            return Ok(());
        }
        let duplicate = self.journal.duplicate(&folder, &self.root)?;
        match Guardian::start(Holder::Boot, &folder, &self.root) {
            Ok(guardian) => {
                std::mem::replace(&mut self.journal, duplicate).discard();
                // The previous guardian finds an empty journal and exits.
                self._guardian = Some(guardian);
                Ok(())
            }
            Err(error) => {
                duplicate.discard();
                Err(error.into())
            }
        }
    }

    /// The held policies.
    pub fn held(&self) -> Vec<String> {
        let name = |path: &PathBuf| {
            // Before Linux 4.2 the folder is `cpu0/cpufreq`.
            let mut parts = path.components().rev().map(|part| part.as_os_str().to_string_lossy().into_owned());
            parts.find(|part| part != "cpufreq").unwrap_or_default()
        };
        let folder = |target: &Target| match target {
            Target::Governor(folder) => Some(name(folder)),
            _ => None,
        };
        self.journal.leases().iter().filter_map(|lease| folder(&lease.target)).collect()
    }

    /// Restores all governors. A failed restore is reported and left to `brisk restore`.
    pub fn end(mut self) -> Vec<Restoration> {
        let restorations = self.journal.release_all();
        for Restoration { target, outcome, .. } in &restorations {
            if let RestoreOutcome::Refused { error } = outcome {
                tracing::error!("{target}: {error}; `brisk restore` tries again");
            }
        }
        restorations
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

    fn policy(root: &Root, number: u32, governor: &str) {
        let folder = format!("{POLICIES}/policy{number}");
        fs::create_dir_all(root.path(format!("{folder}/ondemand"))).unwrap();
        for (file, text) in [
            ("affected_cpus", number.to_string()),
            ("scaling_governor", governor.to_owned()),
            ("scaling_available_governors", "ondemand performance".to_owned()),
            ("ondemand/sampling_rate", "20000".to_owned()),
        ] {
            fs::write(root.path(format!("{folder}/{file}")), text).unwrap();
        }
    }

    fn governor(root: &Root, number: u32) -> String {
        root.read(format!("{POLICIES}/policy{number}/scaling_governor")).unwrap()
    }

    // Verifies BOOT-2.
    #[test]
    fn present_and_later_policies_are_held_and_restored() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        policy(&root, 0, "ondemand");
        policy(&root, 1, "performance");
        let at = BootTime::from_milliseconds;
        // Without a guardian: it would be this program, and a test binary cannot be one.
        let mut hand_over = GovernorHold {
            root: root.clone(),
            init_root: None,
            journal: Journal::open(Holder::Boot, &Holder::Boot.folder(&root), &root).unwrap(),
            _guardian: None,
            last_warning: String::new(),
            then: Some("ondemand".to_owned()),
            until: at(60_000),
            known: BTreeSet::new(),
            next_search: BootTime::default(),
        };
        hand_over.hold_new(at(1000));
        assert_eq!((governor(&root, 0).as_str(), governor(&root, 1).as_str()), ("performance", "performance"));
        policy(&root, 4, "ondemand");
        hand_over.hold_new(at(1500));
        assert_eq!(governor(&root, 4), "ondemand", "too soon");
        hand_over.hold_new(at(2000));
        assert_eq!(
            (governor(&root, 4).as_str(), hand_over.held().join(" ").as_str()),
            ("performance", "policy0 policy1 policy4")
        );
        fs::write(root.path(format!("{POLICIES}/policy4/scaling_governor")), "powersave").unwrap();
        hand_over.hold_new(at(9000));
        assert_eq!(governor(&root, 4), "powersave", "another program's choice stays");
        let outcomes = hand_over.end();
        assert_eq!(outcomes.len(), 3);
        assert_eq!([0, 1, 4].map(|number| governor(&root, number)), ["ondemand", "ondemand", "powersave"]);
    }
}
