//! Long leases, and refusals by the kernel.

use super::*;
use crate::simulated::Kernel;

/// Leases expire after 90 s: the policy renews those that it still wants.
// Verifies UNDO-2.
#[test]
fn what_is_wanted_for_longer_than_a_lease_is_renewed() {
    let mut device = cell(&equal(4), PlacementConfig { rule: Rule::Thesis, ..config() }, &[HOG, HOG], &[HOG, DOWNLOAD]);
    device.run(5000);
    assert_eq!(format_list(&device.threads[&FRONT].mask).len(), 1, "a core of its own");
    let mut without_ms = 0;
    for _ in 0..200 {
        device.run(1000);
        without_ms += 1000 * u64::from(device.threads[&FRONT].mask.len() > 1);
    }
    assert_eq!(without_ms, 0, "it has lost its core: {}", device.policy.reason);
}

/// Refused values are not reported as held, and are not retried with every sample.
// Verifies UNDO-6.
#[test]
fn a_kernel_refusal_is_reported_and_not_retried_at_once() {
    for refused in [vec![200], vec![200, 201]] {
        let mut device = Device::new(&equal(2), PlacementConfig { rule: Rule::Weight, ..config() });
        let all = refused.clone();
        device.kernel = Kernel::refusing(move |_, action| match action {
            Action::Lease { target, .. } if target.thread().is_some_and(|tid| all.contains(&tid)) => {
                Some(Effect::Refused("cannot set the priority: EPERM".to_owned()))
            }
            _ => None,
        });
        let mut device = played(device, &[HOG, HOG], &[HOG, HOG]);
        device.run(5000);
        let snapshot = device.policy.snapshot();
        for tid in [200, 201] {
            let view = snapshot.threads.iter().find(|view| view.tid == tid).unwrap();
            let is_refused = refused.contains(&tid);
            assert_eq!(view.leased.is_none(), is_refused, "{view:?}");
            assert_eq!(
                view.reason.contains("the device refused: cannot set the priority: EPERM"),
                is_refused,
                "{view:?}"
            );
        }
        assert_eq!(device.treated().len(), 2 - refused.len());
        let activity = device.policy.activity().map(|(_, text)| text);
        match refused.len() {
            1 => assert!(activity.is_some_and(|text| text.ends_with("(1 changed)"))),
            _ => assert!(activity.is_none() && snapshot.reason.contains("the device refused"), "{}", snapshot.reason),
        }
        let asked = |(_, it): &&(u64, Decision)| matches!(&it.action, Action::Lease { target, .. } if target.thread() == Some(200));
        assert_eq!(device.decisions.iter().filter(asked).count(), 1);
        device.run(8000);
        assert_eq!(device.decisions.iter().filter(asked).count(), 2, "it is retried");
    }
}

/// Refusals by kind, by target and by time; a restore may be refused as well.
fn refusals(seed: u64) -> Kernel {
    let mut random = Random::new(seed);
    Kernel::refusing(move |now, action| {
        let second = now.since(BootTime::default()).as_secs();
        let is_refused = match action {
            Action::Lease { target: Target::Group(_), .. } => seed % 5 == 1,
            Action::Lease { target: Target::GroupMember { .. }, .. } => random.below(6) == 0,
            Action::Lease { target: Target::CpuAffinity { tid, .. }, .. } => u64::from(*tid) % 4 == seed % 4,
            Action::Lease { .. } => second % 4 == seed % 4,
            Action::Release { .. } => random.below(10) == 0,
            _ => false,
        };
        (is_refused && second < 1_000_000).then(|| Effect::Refused("EPERM".to_owned()))
    })
}

// Verifies UNDO-6, PLACE-4.
#[test]
fn after_any_events_and_refusals_leases_end_and_masks_are_valid() {
    let mut random = Random::new(5);
    let habits = [HOG, FRAMES, MUSIC, DOWNLOAD, MESSAGE];
    for rule in [Rule::Brisk, Rule::Weight, Rule::Thesis] {
        for case in 0..6u64 {
            let cores = if random.below(2) == 0 { equal(4) } else { unequal(8) };
            let config = if case % 2 == 0 { with_groups() } else { config() };
            let mut device = Device::new(&cores, PlacementConfig { rule, ..config });
            if case % 3 != 0 {
                device.kernel = refusals(case);
            }
            for round in 0..25 {
                let tid = 100 + random.below(20) as u32;
                match random.below(6) {
                    0 | 1 if !device.threads.contains_key(&tid) => {
                        let parent = 100 + random.below(20) as u32;
                        device.start(tid, tid - tid % 3, parent, habits[random.below(habits.len())]);
                    }
                    2 if device.threads.contains_key(&tid) => device.end(tid),
                    3 => device.put_in_foreground(&[tid - tid % 3]),
                    4 if round % 4 == 0 => device.put_in_foreground(&[]),
                    5 => {
                        let left = 1 + random.below(cores.len());
                        device.online = cores[..left].iter().map(|&(cpu, _)| cpu).collect();
                    }
                    _ => {}
                }
                device.run(random.below(1500) as u64);
            }
            let mut decisions = Vec::new();
            device.policy.stop(&mut decisions);
            device.carry_out(decisions);
            // Refused restores are retried; by then nothing is refused.
            device.now_ms = 1_000_000_000;
            device.expire();
            device.now_ms += 2000;
            device.expire();
            assert_eq!(device.kernel.held(), BTreeMap::new());
            assert_eq!(device.treated(), [0; 0]);
            assert!(device.groups.is_empty() && device.members.is_empty(), "{:?}", device.groups);
        }
    }
}
