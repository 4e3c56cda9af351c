//! Turns claims into leases: what is written when an owner claims a target, releases it, or its claim expires.

use super::claims::Claim;
use super::fault::Fault;
use super::{Executor, Sink};
use brisk_mechanism::{Effect, Outcome};
use brisk_sys::{BootTime, Target};
use brisk_undo::journal::{JournalError, Lease, Restoration};

impl Executor {
    /// Adds `owner`'s claim on `target`, and leases the value in force then.
    ///
    /// # Errors
    /// When the lease fails; `owner` has no claim then, and other owners keep their claims or get the outcome of losing them.
    pub(super) fn claim(
        &mut self,
        now: BootTime,
        target: &Target,
        owner: &'static str,
        claim: Claim,
    ) -> Result<(), JournalError> {
        self.claims.put(target, owner, claim);
        let leased = self.lease_effective_value(now, target);
        // Even if it failed, an earlier failed restore of this target is superseded.
        let known = self.known.entry(target.clone()).or_default();
        (known.failed_restores, known.waiting) = (0, Vec::new());
        if leased.is_err() {
            self.claims.remove(target, owner);
            self.fall_back(now, target);
        }
        leased
    }

    /// Ends the claims of `owner` on `targets`. Targets that no other owner claims are restored together, in this order; the
    /// others fall back to the remaining claims.
    pub(super) fn release(&mut self, now: BootTime, owner: &'static str, targets: &[&Target]) -> Vec<Effect> {
        let mut shared = Vec::new();
        let mut restored = Vec::new();
        for &target in targets {
            let was_claimed = self.claims.remove(target, owner).is_some();
            match self.claims.effective(target) {
                Some(_) => shared.push((target, was_claimed)),
                None => restored.push(target),
            }
        }
        let mut effects = self.restore(now, owner, &restored).into_iter();
        let is_shared = |target: &Target| shared.iter().find(|(other, _)| *other == target);
        let mut all = Vec::with_capacity(targets.len());
        for &target in targets {
            all.push(match is_shared(target) {
                Some((_, true)) => {
                    self.fall_back(now, target);
                    Effect::Written
                }
                Some((_, false)) => Effect::Unchanged,
                None => effects.next().unwrap_or(Effect::Unchanged),
            });
        }
        all
    }

    fn restore(&mut self, now: BootTime, owner: &'static str, targets: &[&Target]) -> Vec<Effect> {
        let restorations: Vec<Option<Restoration>> = match &mut self.sink {
            Sink::Device(journal) => journal.release_each(now, targets),
            Sink::DryRun { leases, .. } => {
                let mut end = |target: &Target| {
                    let index = leases.iter().position(|lease| lease.target == *target)?;
                    leases.remove(index);
                    Some(Effect::Written)
                };
                return targets.iter().map(|target| end(target).unwrap_or(Effect::Unchanged)).collect();
            }
        };
        // No lease: it expired before, or it failed when it was claimed.
        let effect = |restored: Option<Restoration>| {
            let Some(restored) = restored else { return Effect::Unchanged };
            let effect = self.report(&restored);
            if matches!(effect, Effect::Refused(_)) {
                self.known.entry(restored.target).or_default().waiting = vec![owner];
            }
            effect
        };
        restorations.into_iter().map(effect).collect()
    }

    /// Ends claims whose deadline has passed while other claims on the same target go on.
    pub(super) fn expire_claims(&mut self, now: BootTime) -> Vec<(&'static str, Outcome)> {
        let mut ended = Vec::new();
        for (target, owner) in self.claims.expire(now) {
            self.fall_back(now, &target);
            ended.push((owner, self.outcome(owner, &target, Effect::Written)));
        }
        ended
    }

    /// Ends all claims behind restored leases, and returns each owner with its outcome.
    pub(super) fn ended(&mut self, restorations: Vec<Restoration>) -> Vec<(&'static str, Outcome)> {
        let mut ended = Vec::new();
        for restoration in restorations {
            let effect = self.report(&restoration);
            ended.extend(self.end(&restoration.target, &effect));
        }
        ended
    }

    /// Removes all claims on `target`, whose lease has ended or whose restore has failed; returns each owner with its outcome.
    fn end(&mut self, target: &Target, effect: &Effect) -> Vec<(&'static str, Outcome)> {
        let is_kept = self.leases().iter().any(|lease| lease.target == *target);
        let known = self.known.entry(target.clone()).or_default();
        let mut owners = std::mem::take(&mut known.waiting);
        owners.extend(self.claims.clear(target));
        if is_kept {
            known.waiting.clone_from(&owners);
        } else {
            self.known.remove(target);
        }
        owners.into_iter().map(|owner| (owner, self.outcome(owner, target, effect.clone()))).collect()
    }

    /// Leases what the remaining claims on `target` give. A value that another tool has written since stays; all claims end.
    fn fall_back(&mut self, now: BootTime, target: &Target) {
        if self.claims.effective(target).is_none() {
            return;
        }
        let restoration = match &mut self.sink {
            Sink::Device(journal) => journal.is_displaced(target).then(|| journal.release(now, target).ok()).flatten(),
            Sink::DryRun { .. } => None,
        };
        let effect = match restoration {
            Some(restoration) => self.report(&restoration),
            None => match self.lease_effective_value(now, target) {
                Ok(()) => return,
                Err(error) => Fault::from(error).effect(),
            },
        };
        let lost = self.end(target, &effect);
        self.lost.extend(lost);
    }

    fn lease_effective_value(&mut self, now: BootTime, target: &Target) -> Result<(), JournalError> {
        let Some(Claim { value, until, reason }) = self.claims.effective(target) else { return Ok(()) };
        match &mut self.sink {
            Sink::Device(journal) => journal.lease(now, target, &value, until, &reason),
            Sink::DryRun { leases, .. } => {
                leases.retain(|lease| lease.target != *target);
                let (target, original, observed) = (target.clone(), String::new(), None);
                leases.push(Lease { target, original, value, observed, since: now, until, reason });
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use brisk_mechanism::{Action, Decision};
    use brisk_sys::Root;
    use brisk_sys::test_trees::root_of;
    use brisk_undo::journal::{Holder, Journal};

    /// The highest claim is in force.
    const FREQUENCY: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq";
    /// The latest claim is in force.
    const THRESHOLD: &str = "/sys/devices/system/cpu/cpufreq/ondemand/up_threshold";
    const OWNERS: [&str; 3] = ["launch", "placement", "example"];

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    fn open(root: &Root) -> Executor {
        let journal = Journal::open(Holder::Daemon, &root.runtime_folder(), root).unwrap();
        Executor::new(root.clone(), Sink::Device(Box::new(journal)))
    }

    fn decide(executor: &mut Executor, now_ms: u64, owner: &'static str, action: Action) -> Outcome {
        let decision = Decision { action, reason: "why".to_owned() };
        executor.execute_each(at(now_ms), owner, &[decision]).remove(0)
    }

    fn lease(
        executor: &mut Executor,
        now_ms: u64,
        owner: &'static str,
        (file, value): (&str, u32),
        until_ms: u64,
    ) -> Outcome {
        let (target, value) = (Target::Tunable(file.into()), value.to_string());
        decide(executor, now_ms, owner, Action::Lease { target, value, until: at(until_ms) })
    }

    fn release(executor: &mut Executor, now_ms: u64, owner: &'static str, file: &str) -> Outcome {
        decide(executor, now_ms, owner, Action::Release { target: Target::Tunable(file.into()) })
    }

    // Verifies UNDO-7.
    #[test]
    fn a_release_falls_back_to_the_next_owner_then_the_original() {
        let (_folder, root) = root_of(&[(FREQUENCY, "1\n")]);
        let mut executor = open(&root);
        assert_eq!(lease(&mut executor, 0, "launch", (FREQUENCY, 9), 90).held.as_deref(), Some("9"));
        let outcome = lease(&mut executor, 1, "placement", (FREQUENCY, 5), 50);
        assert_eq!((outcome.effect, outcome.held.as_deref()), (Effect::Written, Some("9")), "the highest stays");
        let outcome = release(&mut executor, 2, "launch", FREQUENCY);
        assert_eq!((outcome.effect, outcome.held), (Effect::Written, None));
        assert_eq!(root.read(FREQUENCY).unwrap(), "5");
        assert_eq!(release(&mut executor, 3, "example", FREQUENCY).effect, Effect::Unchanged, "it claims nothing");
        assert_eq!(root.read(FREQUENCY).unwrap(), "5");
        release(&mut executor, 4, "placement", FREQUENCY);
        assert_eq!((root.read(FREQUENCY).unwrap().as_str(), executor.leases().len()), ("1", 0));
    }

    // Verifies UNDO-7.
    #[test]
    fn an_expired_claim_ends_alone_and_its_owner_gets_an_outcome() {
        let (_folder, root) = root_of(&[(FREQUENCY, "1\n")]);
        let mut executor = open(&root);
        lease(&mut executor, 0, "launch", (FREQUENCY, 9), 50);
        lease(&mut executor, 0, "placement", (FREQUENCY, 5), 90);
        assert_eq!(executor.next_deadline(), Some(at(50)));
        let ended = executor.expire(at(50));
        assert!(matches!(&ended[..], [("launch", Outcome { held: None, .. })]), "{ended:?}");
        assert_eq!((root.read(FREQUENCY).unwrap().as_str(), executor.next_deadline()), ("5", Some(at(90))));
        let ended = executor.expire(at(90));
        assert!(matches!(&ended[..], [("placement", Outcome { held: None, .. })]), "{ended:?}");
        assert_eq!((root.read(FREQUENCY).unwrap().as_str(), executor.next_deadline()), ("1", None));
    }

    // Verifies UNDO-7.
    #[test]
    fn a_foreign_write_stays_and_all_owners_lose_their_claims() {
        let (_folder, root) = root_of(&[(FREQUENCY, "1\n")]);
        let mut executor = open(&root);
        lease(&mut executor, 0, "launch", (FREQUENCY, 9), 90);
        lease(&mut executor, 0, "placement", (FREQUENCY, 5), 90);
        std::fs::write(root.path(FREQUENCY), "3\n").unwrap();
        release(&mut executor, 1, "launch", FREQUENCY);
        let lost = executor.lost();
        assert!(matches!(&lost[..], [("placement", Outcome { held: None, .. })]), "{lost:?}");
        assert_eq!((root.read(FREQUENCY).unwrap().as_str(), executor.leases().len()), ("3", 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Lease(usize, bool, u32, u64),
        Release(usize, bool),
        /// Time passes, in milliseconds.
        Wait(u64),
        /// The daemon is killed, and another one starts.
        Die,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0usize..3, any::<bool>(), 10u32..99, 1u64..200).prop_map(|(o, f, v, t)| Step::Lease(o, f, v, t)),
            4 => (0usize..3, any::<bool>()).prop_map(|(owner, file)| Step::Release(owner, file)),
            3 => (1u64..80).prop_map(Step::Wait),
            1 => Just(Step::Die),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // Verifies UNDO-7.
        #[test]
        fn a_target_holds_its_claim_or_without_one_its_original(
            steps in prop::collection::vec(step(), 1..30),
        ) {
            let files = [FREQUENCY, THRESHOLD];
            let (_folder, root) = root_of(&[(FREQUENCY, "1\n"), (THRESHOLD, "2\n")]);
            let mut executor = open(&root);
            // Owner, file, value, end: the latest change last.
            let mut model: Vec<(usize, usize, u32, u64)> = Vec::new();
            let mut now_ms = 0;
            for step in steps {
                match step {
                    Step::Lease(owner, file, value, lasts_ms) => {
                        let (file, until_ms) = (usize::from(file), now_ms + lasts_ms);
                        lease(&mut executor, now_ms, OWNERS[owner], (files[file], value), until_ms);
                        let same = model.iter_mut().find(|known| (known.0, known.1, known.2) == (owner, file, value));
                        if let Some(same) = same {
                            same.3 = until_ms;
                        } else {
                            model.retain(|known| (known.0, known.1) != (owner, file));
                            model.push((owner, file, value, until_ms));
                        }
                    }
                    Step::Release(owner, file) => {
                        release(&mut executor, now_ms, OWNERS[owner], files[usize::from(file)]);
                        model.retain(|known| (known.0, known.1) != (owner, usize::from(file)));
                    }
                    Step::Wait(lasts_ms) => {
                        now_ms += lasts_ms;
                        let ended = executor.expire(at(now_ms));
                        let over = model.extract_if(.., |known| known.3 <= now_ms).count();
                        prop_assert_eq!(ended.len(), over);
                    }
                    Step::Die => {
                        let Executor { sink: Sink::Device(journal), .. } = executor else { unreachable!() };
                        journal.close_without_restore();
                        executor = open(&root);
                        model.clear();
                    }
                }
                for (number, file) in files.into_iter().enumerate() {
                    let mut values = model.iter().filter(|known| known.1 == number).map(|known| known.2);
                    let expected = if number == 0 { values.max().unwrap_or(1) } else { values.next_back().unwrap_or(2) };
                    prop_assert_eq!(root.read(file).unwrap(), expected.to_string());
                }
                prop_assert!(executor.lost().is_empty());
            }
            executor.release_all();
            prop_assert_eq!((root.read(FREQUENCY).unwrap(), root.read(THRESHOLD).unwrap()), ("1".into(), "2".into()));
        }
    }
}
