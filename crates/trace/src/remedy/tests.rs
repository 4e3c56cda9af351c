//! Traces of known truth: what each mechanism would have removed of them, and properties of all traces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::explain::{Cause, explain};
use crate::read::read_bytes;
use crate::sample::{any_event, interrupt, khz, line, switch, timelines, waking};
use crate::target::{Wanted, find};
use crate::threads::resolve;
use brisk_mechanism::launch::LaunchDevice;
use brisk_mechanism::launch::config::ScalingMinFreqConfig;
use brisk_mechanism::launch::probe::PolicyFacts;
use brisk_mechanism::lookup::config::CacheMode;
use brisk_sys::cgroup::hierarchy::Hierarchy;
use brisk_sys::cgroup::membership::{Membership, Memberships};
use brisk_sys::cgroup::weight::WeightedGroup;
use brisk_sys::sched::autogroup::Autogroup;
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;

const EXAMPLE: &str = include_str!("../../../../tests/cli/trace.in/launch.txt");

/// Estimates for thread 7, from a time in microseconds on.
fn of_7(text: &str, from_us: Option<u64>, remedies: &Remedies) -> (Explanation, WhatIf) {
    let (trace, timelines) = timelines(text);
    estimates(&trace, &timelines, from_us.map(|us| 1_000_000_000 + us * 1000), remedies)
}

fn estimates(trace: &Trace, timelines: &Timelines, from_ns: Option<u64>, remedies: &Remedies) -> (Explanation, WhatIf) {
    let (window, _) = find(trace, timelines, &Wanted::Thread(7), from_ns, None).unwrap();
    let explanation = explain(trace, timelines, window);
    let what_if = what_if(trace, timelines, (window, &explanation), remedies);
    (explanation, what_if)
}

fn with(mechanism: Mechanism) -> Remedies {
    Remedies { with: vec![mechanism], ..Remedies::default() }
}

/// Nanoseconds of the only estimate, or why there are none.
fn removed(what_if: &WhatIf) -> Result<u64, &str> {
    let estimate = &what_if.estimates[0];
    match (estimate.removed_ns, &estimate.because) {
        (Some(ns), None) => Ok(ns),
        (_, because) => Err(because.as_deref().unwrap()),
    }
}

/// Thread 7 runs from 0 to 60 ms; the frequency rises from a quarter to the highest at 40 ms, and falls to a half at 50 ms.
fn ramp() -> String {
    khz(0, 0, 500_000)
        + &switch(0, 0, 0, "R", 7)
        + &khz(40_000, 0, 2_000_000)
        + &khz(50_000, 0, 1_000_000)
        + &switch(0, 60_000, 7, "S", 0)
}

/// A device whose governor can be made to sample.
fn ondemand() -> Device {
    ondemand_of(100_000)
}

fn ondemand_of(sampling_rate_us: u64) -> Device {
    let policy = PolicyFacts {
        name: "policy0".to_owned(),
        folder: "/sys/devices/system/cpu/cpufreq/policy0".into(),
        governor: "ondemand".to_owned(),
        tunables: Some("/sys/devices/system/cpu/cpufreq/policy0/ondemand".into()),
        frequencies_khz: vec![500_000, 1_000_000, 2_000_000],
        sampling_rate_us: Some(sampling_rate_us),
        ..PolicyFacts::default()
    };
    let facts = LaunchDevice {
        policies: vec![policy],
        cpu_count: 1,
        kernel: Some((6, 1)),
        process_events: true,
        ..LaunchDevice::default()
    };
    Device { facts, cpus: BTreeMap::from([("policy0".to_owned(), vec![0])]), ..Device::default() }
}

// Verifies TRACE-9.
#[test]
fn launch_removes_the_ramp_from_its_detection_on() {
    let half =
        LaunchConfig { scaling_min_freq: ScalingMinFreqConfig { percent_of_maximum: 50 }, ..LaunchConfig::default() };
    let forked = switch(1, 0, 0, "R", 5)
        + &line(1, 0, 5, "sched_process_fork: comm=t5 pid=5 child_comm=t7 child_pid=7")
        + &line(1, 0, 5, "sched_wakeup_new: comm=t7 pid=7 prio=120 target_cpu=000");
    let forked = forked + &ramp();
    // From 1.25 ms on: three quarters of 38.75 ms, and half of 10 ms.
    let whole_ns = 29_062_500 + 5_000_000;
    for (why, text, remedies, expected_ns) in [
        ("the lowest frequency is held", ramp(), with(Mechanism::Launch), whole_ns),
        (
            "half of the highest: half of 38.75 ms",
            ramp(),
            Remedies { launch: half, ..with(Mechanism::Launch) },
            19_375_000,
        ),
        (
            "the next sample of a governor that samples once is later than the end",
            ramp(),
            Remedies { device: Some(ondemand()), ..with(Mechanism::Launch) },
            whole_ns,
        ),
        (
            "a governor that samples again lowers the frequency",
            ramp(),
            Remedies { device: Some(ondemand_of(40_000)), ..with(Mechanism::Launch) },
            29_062_500,
        ),
        ("forked in the trace", forked, with(Mechanism::Launch), whole_ns),
    ] {
        let (explanation, what_if) = of_7(&text, None, &remedies);
        assert_eq!(removed(&what_if), Ok(expected_ns), "{why}");
        let slowed = explanation.parts.iter().position(|part| part.cause == Cause::Frequency).unwrap();
        assert_eq!(what_if.estimates[0].of_part(slowed), expected_ns, "{why}");
        assert_eq!(what_if.left_ns[slowed], explanation.parts[slowed].ns - expected_ns, "{why}");
        assert!(!what_if.estimates[0].assumes.is_empty(), "{why}");
    }
}

// Verifies TRACE-9.
#[test]
fn what_a_trace_cannot_tell_is_said() {
    use Mechanism::{Launch, Lookup, Memory, Placement};
    let no_frequency = switch(0, 0, 0, "R", 7) + &switch(0, 9_000, 7, "S", 0);
    let short = switch(0, 0, 0, "R", 8) + &switch(0, 4_000, 8, "R", 7) + &switch(0, 9_000, 7, "S", 0);
    let reclaim = line(0, 1_000, 7, "mm_vmscan_direct_reclaim_begin: order=0")
        + &line(0, 5_000, 7, "mm_vmscan_direct_reclaim_end: nr_reclaimed=32");
    let queued = waking(1, 1_000, 9, 7, 0);
    let completed = "block_rq_complete: 8,0 R () 0 + 8 [0]";
    let read = switch(0, 0, 0, "R", 7)
        + &switch(0, 2_000, 7, "D", 0)
        + &line(0, 4_000, 0, completed)
        + &interrupt(0, 4_000, 0, 7, 0)
        + &switch(0, 4_100, 0, "R", 7)
        + &switch(0, 9_000, 7, "S", 0);
    let again = |us, pages: u32| line(1, us, 9, &format!("tracing_mark_write: C|9|pages read again|{pages}"));
    let full_speed = khz(0, 0, 2_000_000) + &no_frequency;
    let conservative = |mut device: Device| {
        device.facts.policies[0].governor = "conservative".to_owned();
        device.facts.policies[0].freq_step_percent = Some(5);
        Remedies { device: Some(device), ..with(Launch) }
    };
    let mut performance = ondemand();
    performance.facts.policies[0].governor = "performance".to_owned();
    for (text, remedies, is_unknown, expected) in [
        (no_frequency.clone(), with(Launch), true, "does not tell the frequency"),
        (full_speed, with(Launch), false, "no run of the path was slowed"),
        (ramp(), conservative(ondemand()), true, "conservative climbs by steps"),
        (ramp(), Remedies { device: Some(performance), ..with(Launch) }, false, "holds the maximum already"),
        (no_frequency.clone(), with(Placement), false, "behind no other thread"),
        (short + &queued, with(Placement), true, "shorter than one sample of placement (100 ms)"),
        (no_frequency.clone(), with(Lookup), true, "no calls of binder"),
        (no_frequency.clone(), with(Memory), false, "no direct reclaim and no swap-in"),
        (reclaim + &no_frequency, with(Memory), true, "4.00 ms went to reclaim"),
        (read.clone(), with(Memory), true, "2.00 ms went to reads, perhaps of pages that had been evicted"),
        (again(0, 100) + &read + &again(9_100, 104), with(Memory), true, "had at most 4 pages read again meanwhile"),
        (again(0, 100) + &read, with(Memory), false, "no direct reclaim and no swap-in"),
    ] {
        let (_, what_if) = of_7(&text, None, &remedies);
        let estimate = &what_if.estimates[0];
        assert_eq!(estimate.removed_ns, if is_unknown { None } else { Some(0) }, "{estimate:?}");
        assert!(estimate.because.as_ref().unwrap().contains(expected), "{estimate:?}");
        assert_eq!((what_if.removed_ns, &estimate.parts), (0, &Vec::new()));
    }
}

/// Thread 7 comes to the foreground at 1 s and runs in turn with thread 8, 4 ms each, for 400 ms. Before, 19 of each 20 ms
/// are of thread 8.
fn beside() -> String {
    let (mut text, cpu) = (String::new(), 0);
    for round in 0..50 {
        let at = round * 20_000;
        let woken = interrupt(cpu, at, 0, 8, cpu);
        text += &(woken + &switch(cpu, at, 0, "R", 8) + &switch(cpu, at + 19_000, 8, "S", 0));
    }
    text + &interrupt(cpu, 1_000_000, 0, 8, cpu) + &in_turn(0, 1_000_000, &[8, 7])
}

/// Thread 7 comes to the foreground after `from_us`; from then on, threads run for 4 ms each by this `round`, until thread 7 has run
/// for 200 ms. Then the others stop; `before` ran before it.
fn in_turn(before: u32, from_us: u64, round: &[u32]) -> String {
    let mut text = interrupt(0, from_us, before, 7, 0) + &switch(0, from_us, before, "R", 7);
    let rounds = 50 / round.iter().filter(|&&tid| tid == 7).count();
    let (mut at, mut runs) = (from_us, 7);
    for &next in round.iter().cycle().take(rounds * round.len()) {
        at += 4_000;
        text += &switch(0, at, runs, "R+", next);
        runs = next;
    }
    at += 4_000;
    let others: BTreeSet<u32> = round.iter().copied().filter(|&tid| tid != 7).collect();
    for next in others {
        text += &switch(0, at, runs, "S", next);
        (runs, at) = (next, at + 48_000);
    }
    text + &switch(0, at, runs, "S", 0)
}

// Verifies TRACE-9.
#[test]
fn placement_removes_the_waits_behind_a_busy_thread() {
    let (explanation, what_if) = of_7(&beside(), Some(1_000_000), &with(Mechanism::Placement));
    let waited = explanation.parts.iter().find(|part| part.cause == Cause::Runnable).unwrap();
    assert_eq!((waited.ns, waited.subject.as_deref()), (200_000_000, Some("t8")));
    // Nice 10 leaves a ninth.
    let share = removed(&what_if).unwrap() as f64 / waited.ns as f64;
    assert!((0.85..0.90).contains(&share), "{share}: {what_if:?}");
    assert_eq!(what_if.removed_ns, removed(&what_if).unwrap());
}

/// Thread 7 comes to the foreground at 1 s and runs for 36 of each 48 ms; thread 8 works for the other 12 ms, in three slices, and
/// then sleeps.
fn beside_a_download() -> String {
    let (mut text, cpu) = (interrupt(0, 0, 0, 8, 0), 0);
    text += &switch(cpu, 0, 0, "R", 8);
    for round in 0..30 {
        let at = round * 40_000;
        text += &(switch(cpu, at + 15_000, 8, "S", 0) + &interrupt(cpu, at + 40_000, 0, 8, cpu));
        text += &switch(cpu, at + 40_000, 0, "R", 8);
    }
    text += &(switch(cpu, 1_210_000, 8, "S", 0) + &interrupt(cpu, 1_300_000, 0, 7, cpu));
    text += &switch(cpu, 1_300_000, 0, "R", 7);
    for round in 0..10 {
        let at = 1_300_000 + round * 48_000;
        text += &interrupt(cpu, at, 7, 8, cpu);
        for (slice, left) in [(4_000, "R+"), (12_000, "R+"), (20_000, "S")] {
            text += &(switch(cpu, at + slice, 7, "R+", 8) + &switch(cpu, at + slice + 4_000, 8, left, 7));
        }
    }
    text + &switch(cpu, 1_780_000, 7, "S", 0)
}

// Verifies TRACE-9.
#[test]
fn what_a_deprioritised_thread_could_not_do_it_does_later() {
    let (explanation, what_if) = of_7(&beside_a_download(), Some(1_300_000), &with(Mechanism::Placement));
    let waited = explanation.parts.iter().find(|part| part.cause == Cause::Runnable).unwrap();
    assert_eq!((waited.ns, waited.subject.as_deref()), (120_000_000, Some("t8")));
    // Nice 10 leaves it a ninth of the 360 ms in which thread 7 runs.
    let left_ms = (waited.ns - removed(&what_if).unwrap()) as f64 / 1e6;
    assert!((38.0..42.0).contains(&left_ms), "{left_ms}: {what_if:?}");
}

// Verifies TRACE-9.
#[test]
fn a_thread_is_known_from_its_birth_on_if_it_was_busy() {
    // Thread 5 forks thread 8, which no sample has met before that of the whole first second.
    let text = switch(0, 0, 0, "R", 5)
        + &line(0, 300_000, 5, "sched_process_fork: comm=t5 pid=5 child_comm=t8 child_pid=8")
        + &line(0, 300_000, 5, "sched_wakeup_new: comm=t8 pid=8 prio=120 target_cpu=000")
        + &switch(0, 300_000, 5, "S", 8)
        + &in_turn(8, 1_300_000, &[8, 7]);
    let (explanation, what_if) = of_7(&text, Some(1_300_000), &with(Mechanism::Placement));
    let waited = explanation.parts.iter().find(|part| part.cause == Cause::Runnable).unwrap();
    assert_eq!((waited.ns, waited.subject.as_deref()), (200_000_000, Some("t8")));
    // Nice 10 leaves a ninth from the first wait on.
    let left_ms = (waited.ns - removed(&what_if).unwrap()) as f64 / 1e6;
    assert!((21.0..22.0).contains(&left_ms), "{left_ms}: {what_if:?}");
}

/// A thread at the root of all groups, in no session.
fn at_root(tid: u32) -> ThreadFacts {
    ThreadFacts {
        tid,
        start_time_ticks: u64::from(tid),
        allowed: vec![0],
        priority: Priority { policy: SchedulingPolicy::Other, nice: 0 },
        groups: Memberships::default(),
        scheduling_group: SchedulingGroup::default(),
        weighed: Vec::new(),
        children_ticks: 0,
    }
}

fn of_session(tid: u32, id: u64) -> ThreadFacts {
    let session = Autogroup { id, nice: 0, is_own: false };
    ThreadFacts { scheduling_group: SchedulingGroup::Autogroup(session), ..at_root(tid) }
}

/// Threads 8 and 9 have a CPU for themselves by turns, until thread 7 takes its share of it by this `round`.
fn after_turns(round: &[u32]) -> String {
    let woken: String = [7, 8, 9].map(|tid| interrupt(0, 0, 0, tid, 0)).concat();
    let met = woken + &switch(0, 0, 0, "R", 7) + &switch(0, 1_000, 7, "S", 8);
    let by_turns: String = (0..50)
        .map(|round| (1_000 + round * 20_000, 1_000 + round * 20_000 + 10_000))
        .map(|(of_8, of_9)| switch(0, of_9, 8, "R+", 9) + &switch(0, of_8 + 20_000, 9, "R+", 8))
        .collect();
    met + &by_turns + &in_turn(8, 1_001_000, round)
}

// Verifies TRACE-9.
#[test]
fn groups_of_the_device_share_one_weight() {
    let movable = |tid, hierarchy| {
        let (group, taken_into) = ("/".to_owned(), "/cgroup/brisk-threads".into());
        let taken_as = "/brisk-threads".to_owned();
        let cpu = Some(Membership { hierarchy, group, taken_into, taken_as, whole_process: false });
        ThreadFacts { groups: Memberships { cpu, cpuset: None }, ..at_root(tid) }
    };
    let of_unit = |tid, unit: &str| {
        let [top, unit] = [("/cgroup".into(), None), (PathBuf::from("/cgroup").join(unit), Some(100))]
            .map(|(folder, weight)| WeightedGroup { folder, weight });
        let scheduling_group = SchedulingGroup::Cgroup(unit.folder.clone());
        ThreadFacts { scheduling_group, weighed: vec![top, unit], ..at_root(tid) }
    };
    let bound = |tid| ThreadFacts { allowed: vec![1], ..movable(tid, Hierarchy::Unified) };
    // A third of the CPU, or half of it beside a group that has the others.
    let (a_third, half) = (after_turns(&[9, 8, 7]), after_turns(&[9, 7, 8, 7]));
    // While thread 7 runs for 200 ms, a lower weight gets a ninth of that.
    let (one_ms, weight_11_ms) = (200.0 / 9.31, 22.0);
    for (case, threads, text, expected_ms) in [
        ("nothing is known", None, &a_third, 2.0 * one_ms),
        ("they may not be moved", Some([7, 8, 9].map(at_root)), &a_third, 2.0 * one_ms),
        ("version 2", Some([7, 8, 9].map(|tid| movable(tid, Hierarchy::Unified))), &a_third, weight_11_ms),
        ("version 1", Some([7, 8, 9].map(|tid| movable(tid, Hierarchy::Cpu))), &a_third, one_ms),
        ("threads bound to CPUs stay where they are", Some([7, 8, 9].map(bound)), &a_third, 2.0 * one_ms),
        ("one session", Some([7, 8, 9].map(|tid| of_session(tid, 1))), &a_third, 2.0 * one_ms),
        ("another session", Some([(7, 1), (8, 2), (9, 2)].map(|(tid, id)| of_session(tid, id))), &half, one_ms),
        ("two sessions", Some([(7, 1), (8, 2), (9, 3)].map(|(tid, id)| of_session(tid, id))), &a_third, one_ms),
        ("another unit", Some([(7, "a"), (8, "b"), (9, "b")].map(|(tid, id)| of_unit(tid, id))), &half, weight_11_ms),
    ] {
        let device = threads.map(|threads| Device { threads: threads.to_vec(), ..ondemand() });
        let remedies = Remedies { device, ..with(Mechanism::Placement) };
        let (explanation, what_if) = of_7(text, Some(1_001_000), &remedies);
        let waited = explanation.parts.iter().filter(|part| part.cause == Cause::Runnable).map(|part| part.ns);
        let left_ms = (waited.sum::<u64>() - removed(&what_if).unwrap()) as f64 / 1e6;
        assert!((0.95..1.05).contains(&(left_ms / expected_ms)), "{case}: {left_ms} ms, not {expected_ms}");
    }
}

// Verifies TRACE-9.
#[test]
fn a_nice_value_decides_nothing_between_sessions() {
    let placement = PlacementConfig { excluded_commands: vec!["t9".parse().unwrap()], ..PlacementConfig::default() };
    for (case, sessions, helps) in [("one session", [1, 1, 1], true), ("another one, kept for t9", [1, 2, 2], false)] {
        let [of_7, of_8, of_9] = sessions;
        let threads = vec![of_session(7, of_7), of_session(8, of_8), of_session(9, of_9)];
        let device = Some(Device { threads, ..ondemand() });
        let remedies = Remedies { device, placement: placement.clone(), ..with(Mechanism::Placement) };
        let (_, what_if) = self::of_7(&after_turns(&[9, 8, 7]), Some(1_001_000), &remedies);
        let removed = removed(&what_if);
        assert_eq!(removed.is_ok(), helps, "{case}: {removed:?}");
        assert!(helps || removed.unwrap_err().starts_with("nice values do not apply between"), "{case}: {removed:?}");
    }
}

// Verifies TRACE-9.
#[test]
fn an_application_is_in_the_foreground_from_its_program_on() {
    let executed = line(0, 1_040_000, 7, "sched_process_exec: filename=/bin/app pid=7 old_pid=7");
    let left_ms = |text: &str| {
        let (explanation, what_if) = of_7(text, Some(1_000_000), &with(Mechanism::Placement));
        let waited = explanation.parts.iter().find(|part| part.cause == Cause::Runnable).unwrap();
        (waited.ns - removed(&what_if).unwrap()) as f64 / 1e6
    };
    let difference_ms = left_ms(&(beside() + &executed)) - left_ms(&beside());
    // Of the waits in the 40 ms before, 20 ms are left instead of a ninth of them.
    assert!((17.0..18.5).contains(&difference_ms), "{difference_ms}");
}

// Verifies TRACE-9.
#[test]
fn nice_values_of_the_trace_count() {
    let of_8 = |text: String, to: u8| {
        text.replace("next_comm=t8 next_pid=8 next_prio=120", &format!("next_comm=t8 next_pid=8 next_prio={to}"))
    };
    let left_ms = |text: String| {
        let (explanation, what_if) = of_7(&text, Some(1_000_000), &with(Mechanism::Placement));
        let waited = explanation.parts.iter().find(|part| part.cause == Cause::Runnable).unwrap();
        ((waited.ns - removed(&what_if).unwrap_or(0)) as f64 / 1e6, waited.class.clone())
    };
    let (usual, niced, real_time) = (left_ms(beside()), left_ms(of_8(beside(), 123)), left_ms(of_8(beside(), 50)));
    assert_eq!((usual.1, niced.1.as_deref(), real_time.1.as_deref()), (None, Some("nice 3"), Some("real-time")));
    // Ten levels more leave it a ninth of what it took, whichever nice value it had; a real-time thread is left alone.
    assert!((0.95..1.01).contains(&(niced.0 / usual.0)), "{} and {}", niced.0, usual.0);
    assert_eq!(real_time.0, 200.0);
}

// Verifies TRACE-9.
#[test]
fn placement_leaves_alone_what_it_would_not_touch() {
    // A thread of the kernel, which the daemon does not see, at the same times.
    let text = beside().replace("t8", "kworker/0:1");
    let (_, what_if) = of_7(&text, Some(1_000_000), &with(Mechanism::Placement));
    assert!(removed(&what_if).is_err(), "{what_if:?}");
    // With two CPUs nothing is done before there is enough evidence.
    let two = beside() + &switch(1, 1_500_000, 0, "S", 9);
    let (explanation, what_if) = of_7(&two, Some(1_000_000), &with(Mechanism::Placement));
    let waited = explanation.parts.iter().find(|part| part.cause == Cause::Runnable).unwrap().ns;
    let least_ns = waited - removed(&what_if).unwrap_or(0);
    assert!(least_ns > 40_000_000, "the first 100 ms of the window are evidence: {what_if:?}");
}

// Verifies TRACE-3, TRACE-9.
#[test]
fn a_gap_of_years_is_no_work() {
    const YEARS_US: u64 = 300_000_000_000_000;
    let text = beside() + &interrupt(0, YEARS_US, 0, 7, 0) + &switch(0, YEARS_US, 0, "R", 7);
    let (explanation, what_if) = of_7(&text, None, &Remedies { with: Mechanism::ALL.to_vec(), ..Remedies::default() });
    assert_bounded(&explanation, &what_if);
    assert!(what_if.estimates[1].removed_ns.is_some_and(|ns| ns > 0), "{what_if:?}");
}

// Verifies TRACE-9.
#[test]
fn lookup_removes_the_wait_but_not_the_hit() {
    let trace = read_bytes(std::path::Path::new("a"), EXAMPLE.as_bytes()).unwrap();
    let timelines = resolve(&trace);
    let (explanation, what_if) = estimates(&trace, &timelines, None, &with(Mechanism::Lookup));
    let of_lookup = |part: &&crate::explain::Part| part.on_behalf.as_ref().is_some_and(|it| it.is_service_lookup());
    let waited_ns: u64 = explanation.parts.iter().filter(of_lookup).map(|part| part.ns).sum();
    assert_eq!(waited_ns, 7_900_000);
    // The thread itself was 0.3 ms in the driver, and runnable for 0.1 ms. A hit and eight events at 2000 MHz; 99.8 % hits.
    let expected_ns = (8_300_000.0 - 2_500.0 - 4_400.0) * 0.998;
    let removed_ns = removed(&what_if).unwrap() as f64;
    assert!((removed_ns / expected_ns - 1.0).abs() < 0.002, "{removed_ns} {expected_ns}");
    let small = LookupConfig { entries: 1, ..LookupConfig::default() };
    let (_, less) = estimates(&trace, &timelines, None, &Remedies { lookup: small, ..with(Mechanism::Lookup) });
    assert!(removed(&less).unwrap() < removed(&what_if).unwrap() / 2, "one entry answers few lookups: {less:?}");
    let transparent = LookupConfig { mode: CacheMode::Transparent, entries: 128, ..LookupConfig::default() };
    let (_, own) = estimates(&trace, &timelines, None, &Remedies { lookup: transparent, ..with(Mechanism::Lookup) });
    assert!(removed(&own).unwrap() < removed(&what_if).unwrap() / 2, "answers are for one caller: {own:?}");
}

/// Each estimate is within its part, and what is left adds up.
fn assert_bounded(explanation: &Explanation, what_if: &WhatIf) {
    let window_ns = explanation.to_ns - explanation.from_ns;
    assert_eq!(what_if.left_ns.iter().sum::<u64>() + what_if.removed_ns, window_ns);
    for estimate in &what_if.estimates {
        let sum: u64 = estimate.parts.iter().map(|removed| removed.ns).sum();
        assert_eq!(estimate.removed_ns.unwrap_or(0), sum);
        assert!(estimate.parts.iter().all(|removed| removed.ns <= explanation.parts[removed.part].ns), "{estimate:?}");
        assert!(sum <= what_if.removed_ns + explanation.parts.len() as u64, "together is at least the most of one");
        assert_eq!(estimate.because.is_some(), sum == 0, "{estimate:?}");
    }
    let sum: u64 = what_if.estimates.iter().filter_map(|estimate| estimate.removed_ns).sum();
    assert!(what_if.removed_ns <= sum + explanation.parts.len() as u64, "together is at most the sum");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // Verifies TRACE-9.
    #[test]
    fn no_estimate_of_any_trace_exceeds_its_part(
        lines in prop::collection::vec(any_event(), 1..120),
        from in 0u64..2_000,
        is_known_device: bool,
    ) {
        let text = switch(0, 0, 0, "R", 1) + &lines.concat() + &switch(1, 204_001, 2, "S", 0);
        let (trace, timelines) = timelines(&text);
        let device = is_known_device.then(ondemand);
        let remedies = Remedies { with: Mechanism::ALL.to_vec(), device, ..Remedies::default() };
        for thread in 0..timelines.threads.len() as u32 {
            let window = Window { thread, from_ns: trace.start_ns() + from * 1000 + 7, to_ns: trace.end_ns() - 100_000_000 };
            let explanation = explain(&trace, &timelines, window);
            assert_bounded(&explanation, &what_if(&trace, &timelines, (window, &explanation), &remedies));
        }
    }
}
