//! Any order of leases, releases, writes by other tools and kills.

use std::fs;

use proptest::prelude::*;

use super::*;

/// One thing that happens to the device or the daemon.
#[derive(Debug, Clone)]
enum Step {
    Lease {
        tunable: usize,
        value: u32,
        seconds: u64,
    },
    Release {
        tunable: usize,
    },
    Expire {
        seconds: u64,
    },
    Foreign {
        tunable: usize,
        value: u32,
    },
    Vanish {
        tunable: usize,
    },
    /// The daemon is killed during a lease or release, and another process may write before the replay.
    Kill {
        during: Box<Step>,
        cut: prop::sample::Index,
        foreign: Option<(usize, u32)>,
    },
}

const TUNABLES: [&str; 3] = ["a", "folder/b", "scaling_min_freq"];

/// Leased values are even and those of other tools odd, so that neither writes the other's value by chance.
fn step() -> impl Strategy<Value = Step> {
    let tunable = 0..TUNABLES.len();
    let ours = (0u32..1 << 20).prop_map(|value| value * 2);
    let theirs = (0u32..1 << 20).prop_map(|value| value * 2 + 1);
    let lease = (tunable.clone(), ours, 0u64..10);
    let lease = lease.prop_map(|(tunable, value, seconds)| Step::Lease { tunable, value, seconds });
    let release = tunable.clone().prop_map(|tunable| Step::Release { tunable });
    let write = (tunable.clone(), theirs);
    let foreign = write.clone().prop_map(|(tunable, value)| Step::Foreign { tunable, value });
    let during = prop_oneof![3 => lease.clone(), 1 => release.clone()].prop_map(Box::new);
    let kill = (during, any::<prop::sample::Index>(), prop::option::of(write))
        .prop_map(|(during, cut, foreign)| Step::Kill { during, cut, foreign });
    prop_oneof![
        4 => lease,
        2 => release,
        1 => (0u64..10).prop_map(|seconds| Step::Expire { seconds }),
        2 => foreign,
        1 => tunable.prop_map(|tunable| Step::Vanish { tunable }),
        3 => kill,
    ]
}

/// The expected values when nothing is leased: the last ones that a tool other than brisk wrote.
struct Model {
    device: Device,
    journal: Option<Journal>,
    now: BootTime,
    theirs: Vec<String>,
}

impl Model {
    fn new() -> Self {
        let device = Device::new(&TUNABLES.map(|name| (name, "1")));
        let journal = Some(device.open());
        Self { device, journal, now: SECOND, theirs: vec!["1".into(); TUNABLES.len()] }
    }

    fn values(&self) -> Vec<String> {
        TUNABLES.iter().map(|name| self.device.get(name)).collect()
    }

    fn foreign(&mut self, tunable: usize, value: u32) {
        self.device.set(TUNABLES[tunable], &value.to_string());
        self.theirs[tunable] = value.to_string();
    }

    fn apply(&mut self, step: &Step) {
        let journal = self.journal.as_mut().unwrap();
        match *step {
            Step::Lease { tunable, value, seconds } => {
                let until = self.now + Duration::from_secs(seconds);
                journal.lease(self.now, &target(TUNABLES[tunable]), &value.to_string(), until, "property").unwrap();
            }
            Step::Release { tunable } => match journal.release(self.now, &target(TUNABLES[tunable])) {
                Ok(restoration) => assert!(restoration.outcome.is_final()),
                Err(error) => assert!(matches!(error, JournalError::NotLeased { .. })),
            },
            Step::Expire { seconds } => {
                self.now = self.now + Duration::from_secs(seconds);
                journal.expire(self.now);
                assert!(journal.leases().iter().all(|lease| lease.until > self.now));
            }
            Step::Foreign { tunable, value } => self.foreign(tunable, value),
            Step::Vanish { tunable } => {
                // Another governor is chosen, and the tunable exists again later with its default.
                fs::remove_file(self.device.path(TUNABLES[tunable])).unwrap();
                self.foreign(tunable, 77_777);
            }
            Step::Kill { ref during, cut, foreign } => self.kill(during, cut, foreign),
        }
    }

    /// Applies `during`, then makes the device look as if the daemon had died at some point of it.
    fn kill(&mut self, during: &Step, cut: prop::sample::Index, foreign: Option<(usize, u32)>) {
        let (log_before, values_before) = (self.device.log(), self.values());
        self.apply(during);
        let (log_after, values_after) = (self.device.log(), self.values());
        self.journal.take().unwrap().die();
        let log_path = self.device.journal().join("journal");
        let restore = |values: &[String]| {
            for (name, value) in TUNABLES.iter().zip(values) {
                self.device.set(name, value);
            }
        };
        if log_after.starts_with(&log_before) {
            // Killed within the appended bytes. Nothing is written to the target before the first line is complete.
            let appended = &log_after[log_before.len()..];
            let kept = cut.index(appended.len() + 1);
            let intent = appended.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            fs::write(&log_path, &log_after[..log_before.len() + kept]).unwrap();
            if kept < intent || (kept == intent && cut.index(2) == 0) {
                restore(if matches!(during, Step::Release { .. }) { &values_after } else { &values_before });
            }
        } else if cut.index(2) == 0 {
            // The last lease was released; killed between the restoration and its record, or before both.
            fs::write(&log_path, &log_before).unwrap();
            restore(if cut.index(3) == 0 { &values_before } else { &values_after });
        }
        let allowed_original = foreign.map(|(tunable, _)| (tunable, self.theirs[tunable].clone()));
        if let Some((tunable, value)) = foreign {
            self.foreign(tunable, value);
        }
        let replay = self.device.replay();
        assert!(replay.is_complete() && replay.malformed_lines == 0, "{replay:?}");
        if let Some((tunable, original)) = allowed_original {
            // Without the record of the value read back, a later write cannot be told from brisk's own.
            if self.device.get(TUNABLES[tunable]) == original {
                self.theirs[tunable] = original;
            }
        }
        assert_eq!(self.values(), self.theirs, "after the replay every target holds its original or a later write");
        self.journal = Some(self.device.open());
        assert!(self.journal.as_ref().unwrap().replayed().restorations.is_empty(), "a replay leaves nothing to do");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    // Verifies UNDO-3.
    #[test]
    fn writes_by_other_tools_survive_any_order_of_events(steps in prop::collection::vec(step(), 1..25)) {
        let mut model = Model::new();
        for step in &steps {
            model.apply(step);
        }
        drop(model.journal.take());
        prop_assert_eq!(model.values(), model.theirs);
    }

    // Verifies SECURITY-1.
    #[test]
    fn no_log_panics_a_replay(log in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>(), flip in any::<u8>()) {
        let _ = record::parse(&log);
        let device = Device::new(&[("a", "1")]);
        let mut journal = device.open();
        journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
        journal.die();
        let mut damaged = device.log();
        let index = cut.index(damaged.len());
        damaged[index] ^= flip;
        fs::write(device.journal().join("journal"), &damaged).unwrap();
        let _ = Replay::of(Holder::Daemon, &device.journal(), &device.root);
    }
}
