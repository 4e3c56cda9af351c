use super::*;
use crate::Effect;
use crate::simulated::Kernel;

const LAST: IoPriority = IoPriority { class: IoClass::BestEffort, data: 7 };
const NONE: IoPriority = IoPriority { class: IoClass::None, data: 0 };
const MIB: u64 = 1 << 20;

fn life(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start_time_ticks: 100 }
}

fn target(tid: u32) -> Target {
    Target::IoPriority { tid, start_time_ticks: 100 }
}

/// A device on which the foreground (process 1) and process 2 read, and process 3 does not.
struct Device {
    policy: StoragePolicy,
    now: BootTime,
    sample: StorageSample,
    kernel: Kernel,
    said: Vec<String>,
    priority: IoPriority,
}

impl Device {
    fn new() -> Self {
        let moved = [1, 2, 3].map(|pid| (life(pid), 0)).into();
        Self {
            policy: StoragePolicy::new(6.0, LAST),
            now: BootTime::from_milliseconds(1000),
            sample: StorageSample { moved, ..StorageSample::default() },
            kernel: Kernel::default(),
            said: Vec::new(),
            priority: NONE,
        }
    }

    fn carry_out(&mut self, decisions: Vec<Decision>) {
        for decision in &decisions {
            if let Action::Lease { value, until, .. } = &decision.action {
                assert_eq!((value.as_str(), *until), ("best-effort 7", self.now + LEASE));
            }
        }
        let carry_out = |decision| self.kernel.carry_out(self.now, decision, &mut |_| Ok(()));
        let outcomes: Vec<_> = decisions.iter().map(carry_out).collect();
        self.said.extend(decisions.into_iter().map(|decision| decision.reason));
        self.policy.on_outcomes(self.now, &outcomes);
    }

    fn held(&self) -> Vec<Target> {
        self.kernel.held().into_keys().collect()
    }

    /// A second in which the foreground waits `waited_ms` and moves `front_mib`, and process 2 moves `bulk_mib`.
    fn second(&mut self, waited_ms: u64, front_mib: u64, bulk_mib: u64) {
        self.now = self.now + Duration::from_secs(1);
        let ended = self.kernel.expire(self.now, &mut |_| Ok(()));
        self.policy.on_outcomes(self.now, &ended);
        self.sample.waited += Duration::from_millis(waited_ms);
        self.sample.busy += Duration::from_secs(1);
        for (pid, mib) in [(1, front_mib), (2, bulk_mib)] {
            if let Some(bytes) = self.sample.moved.get_mut(&life(pid)) {
                *bytes += mib * MIB;
            }
        }
        let mut decisions = Vec::new();
        let wanted = self.policy.take(self.now, self.sample.clone(), &[1].into(), &mut decisions);
        let threads = wanted.iter().map(|life| StorageThread {
            tid: life.pid,
            start_time_ticks: life.start_time_ticks,
            priority: self.priority,
        });
        let threads: Vec<_> = threads.collect();
        if !threads.is_empty() {
            self.policy.lower_priorities(self.now, &threads, &mut decisions);
        }
        self.carry_out(decisions);
    }

    fn seconds(&mut self, count: u32, waited_ms: u64, front_mib: u64, bulk_mib: u64) {
        (0..count).for_each(|_| self.second(waited_ms, front_mib, bulk_mib));
    }

    fn is_held(&self) -> bool {
        let believed: Vec<Target> = self.policy.leases.held().map(|(target, _)| target.clone()).collect();
        assert_eq!(believed, self.held(), "{:?}", self.said);
        assert_eq!(self.policy.parents().next().is_some(), !believed.is_empty());
        !believed.is_empty()
    }
}

// Verifies PLACE-2.
#[test]
fn a_process_that_delays_the_foregrounds_io_gets_a_lower_rank() {
    for (waited_ms, front_mib, bulk_mib, expected) in [
        (900, 10, 40, true),
        // It waits, but hardly for other processes.
        (900, 40, 1, false),
        (900, 0, 0, false),
        // It waits less than the minimum gain.
        (59, 1, 40, false),
        (61, 1, 40, true),
    ] {
        let mut device = Device::new();
        device.seconds(3, waited_ms, front_mib, bulk_mib);
        assert!(!device.is_held(), "too few samples");
        device.second(waited_ms, front_mib, bulk_mib);
        assert_eq!(device.is_held(), expected, "{waited_ms} ms, {front_mib} and {bulk_mib} MiB");
        assert!(!expected || device.held() == [target(2)]);
    }
}

// Verifies UNDO-6.
#[test]
fn what_the_kernel_refuses_is_no_trial_and_is_tried_again_later() {
    let refused = |now: BootTime, action: &Action| {
        let is_lease = matches!(action, Action::Lease { .. });
        (is_lease && now < BootTime::from_milliseconds(20_000)).then(|| Effect::Refused("EPERM".to_owned()))
    };
    let mut device = Device { kernel: Kernel::refusing(refused), ..Device::new() };
    device.seconds(18, 900, 10, 40);
    assert!(!device.is_held(), "{:?}", device.said);
    assert!(device.said.len() <= 2, "not at every sample: {:?}", device.said);
    device.seconds(20, 500, 10, 40);
    assert!(device.is_held(), "{:?}", device.said);
}

// Verifies PLACE-2.
#[test]
fn a_useless_step_is_reverted_and_retried_with_back_off() {
    let mut device = Device::new();
    device.seconds(4, 900, 10, 40);
    let mut begun = vec![device.now];
    for _ in 0..100 {
        let before = device.is_held();
        device.second(900, 10, 40);
        if device.is_held() && !before {
            begun.push(device.now);
        }
    }
    let pauses: Vec<u64> = begun.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(pauses, [15, 24, 45], "{:?}", device.said);
}

// Verifies PLACE-2.
#[test]
fn a_useful_step_is_held_for_a_minute() {
    for (waited_ms, front_mib, expected) in [
        // A reader that always waits reads more.
        (900, 20, true),
        (900, 11, false),
        // A reader that waits now and then waits less.
        (500, 10, true),
        (0, 0, true),
    ] {
        let mut device = Device::new();
        device.seconds(4, 900, 10, 40);
        device.seconds(3, waited_ms, front_mib, 20);
        assert_eq!(device.is_held(), expected, "{waited_ms} ms, {front_mib} MiB: {:?}", device.said);
        if expected {
            device.seconds(56, waited_ms, front_mib, 20);
            assert!(device.is_held());
            device.seconds(4, waited_ms, front_mib, 20);
            assert!(device.said.iter().any(|said| said.contains("chosen again")), "{:?}", device.said);
        }
    }
}

#[test]
fn a_foreground_change_ends_the_step_and_allows_a_new_trial() {
    let mut device = Device::new();
    device.seconds(4, 900, 10, 40);
    let mut decisions = Vec::new();
    device.policy.reset("the foreground changed", &mut decisions);
    device.carry_out(decisions);
    assert!(!device.is_held());
    device.seconds(3, 900, 10, 40);
    assert!(!device.is_held());
    device.second(900, 10, 40);
    assert!(device.is_held());
}

// Verifies PLACE-2.
#[test]
fn a_rank_that_another_process_set_stays() {
    let of = |class, data| IoPriority { class, data };
    for (priority, expected) in [
        (NONE, true),
        (of(IoClass::BestEffort, 4), true),
        (LAST, false),
        (of(IoClass::Idle, 0), false),
        (of(IoClass::RealTime, 4), false),
    ] {
        let mut device = Device { priority, ..Device::new() };
        device.seconds(4, 900, 10, 40);
        assert_eq!(device.is_held(), expected, "{priority}");
    }
}

// Verifies PLACE-2.
#[test]
fn an_ended_foreground_leaves_no_thread_ranked_last() {
    let mut device = Device::new();
    device.seconds(4, 900, 10, 40);
    let child = Kin { tid: 77, start_time_ticks: 500 };
    assert_eq!(device.policy.parents().map(|(life, _)| life.pid).collect::<Vec<_>>(), [2]);
    device.policy.note_kin(life(2), [child]);
    device.sample.moved.remove(&life(2));
    device.now = device.now + Duration::from_secs(1);
    let mut decisions = Vec::new();
    device.policy.take(device.now, device.sample.clone(), &[1].into(), &mut decisions);
    let freed = Target::IoPriority { tid: 77, start_time_ticks: 500 };
    let (inherited, original) = ("best-effort 7".to_owned(), "none 0".to_owned());
    let [Decision { action, .. }] = &decisions[..] else { panic!("{decisions:?}") };
    assert_eq!(*action, Action::Disinherit { target: freed, inherited, original });
    device.seconds(3, 0, 10, 0);
    assert!(!device.is_held(), "{:?}", device.said);
}

// Verifies PLACE-2.
#[test]
fn all_are_sampled_only_while_the_foreground_waits() {
    let mut policy = StoragePolicy::new(6.0, LAST);
    let mut wants = |seconds: u64, waited_ms| {
        policy.wants_sample(BootTime::from_milliseconds(seconds * 1000), Duration::from_millis(waited_ms))
    };
    let found = [(1, 500), (2, 559), (3, 620), (5, 700), (6, 760)].map(|(second, waited)| wants(second, waited));
    assert_eq!(found, [false, false, true, false, true]);
}

#[test]
fn samples_before_a_pause_of_the_daemon_are_dropped() {
    let mut device = Device::new();
    device.seconds(3, 900, 10, 40);
    device.now = device.now + Duration::from_secs(60);
    device.seconds(3, 900, 10, 40);
    assert!(!device.is_held());
}
