//! Other managers of priorities that start and stop while the daemon runs.

use std::any::Any;

use super::*;
use crate::placement::NAME;
use crate::{Facts, Mechanism, ProbeContext, Settings};
use brisk_sys::Root;
use brisk_sys::io::io_priority::{IoClass, IoPriority};
use brisk_sys::network::queues::InterfaceQueue;
use brisk_sys::network::sockets::Socket;
use brisk_sys::sched::threads::Thread;
use brisk_sys::system::other_managers::{FoundManager, OtherManager};
use brisk_sys::test_trees::root_of;

struct Section(PlacementConfig);

impl Settings for Section {
    fn section(&self, name: &str) -> Option<&dyn Any> {
        (name == NAME).then_some(&self.0 as &dyn Any)
    }
}

fn at(seconds: u64) -> BootTime {
    BootTime::from_milliseconds(seconds * 1000)
}

fn reconfigure(policy: &mut PlacementPolicy, now: BootTime, root: &Root, enabled: Enabled, is_new_configuration: bool) {
    let settings = Section(PlacementConfig { enabled, ..PlacementConfig::default() });
    let probe_context = ProbeContext { root, settings: &settings, is_new_configuration };
    policy.reconfigure(now, &probe_context, &mut Vec::new());
}

/// The decisions when these managers run.
fn find(policy: &mut PlacementPolicy, now: BootTime, managers: &[OtherManager]) -> Vec<Decision> {
    let found = managers.iter().map(|&name| FoundManager { name, evidence: "process 7".to_owned() }).collect();
    let mut decisions = Vec::new();
    policy.on_event(now, &Event::Facts(Facts::OtherManagers { found }), &mut decisions);
    decisions
}

fn asks(policy: &mut PlacementPolicy) -> Vec<Question> {
    let mut questions = Vec::new();
    policy.take_questions(&mut questions);
    questions
}

/// A device on which each session competes as one.
fn device() -> (tempfile::TempDir, Root) {
    root_of(&[
        ("/proc/sys/kernel/sched_autogroup_enabled", "1\n"),
        ("/proc/7/autogroup", "/autogroup-12 nice 0\n"),
        ("/proc/self/schedstat", "0 0 0\n"),
    ])
}

// Verifies ON-2.
#[test]
fn priorities_are_left_to_a_manager_that_starts() {
    let (_folder, root) = device();
    let mut policy = PlacementPolicy::default();
    reconfigure(&mut policy, at(0), &root, Enabled::Auto, true);
    assert!(policy.is_on(), "{:?}", policy.support);
    assert!(find(&mut policy, at(1), &[OtherManager::Tuned]).is_empty() && policy.is_on(), "another job");
    policy.leased.lease(at(1), (&Target::Autogroup(12), "10"), at(90), "why", &mut Vec::new());
    let decisions = find(&mut policy, at(2), &[OtherManager::Ananicy]);
    assert_eq!(decisions.len(), 1);
    assert_eq!(decisions[0].action, Action::Release { target: Target::Autogroup(12) });
    assert_eq!(decisions[0].reason, "ananicy has started");
    let reason = &policy.support.reason;
    assert!(reason.starts_with("auto: this is left to ananicy (process 7)"), "{reason}");
    assert!(!policy.is_on() && policy.interest() == Interest::default());

    // The manager restarts: nothing is switched. After 120 s without it, the device is probed again.
    for (seconds, managers) in [(63, &[][..]), (123, &[OtherManager::Ananicy]), (183, &[]), (243, &[])] {
        find(&mut policy, at(seconds), managers);
        assert!(!policy.is_on() && !policy.take_probe_request(), "at {seconds} s");
    }
    find(&mut policy, at(303), &[]);
    assert!(policy.take_probe_request() && !policy.take_probe_request());
    reconfigure(&mut policy, at(304), &root, Enabled::Auto, false);
    assert!(policy.is_on(), "{:?}", policy.support);
}

/// Storage and the network are not sampled either, and a group's packets have their priority again.
// Verifies ON-2.
#[test]
fn what_the_foreground_waits_for_is_left_alone_as_well() {
    let (_folder, root) = device();
    let mut policy = PlacementPolicy::default();
    reconfigure(&mut policy, at(0), &root, Enabled::Auto, true);
    let lowest = IoPriority { class: IoClass::BestEffort, data: 7 };
    policy.configure(Some(lowest), true, &PlacementConfig::default());
    let mut decisions = Vec::new();
    policy.on_event(at(1), &Event::Session { pids: vec![1] }, &mut decisions);
    let queue = InterfaceQueue {
        interface: "wwan0".to_owned(),
        discipline: "pfifo_fast".to_owned(),
        has_bands: true,
        sent_bytes: 0,
        waiting_bytes: 40 << 10,
    };
    for (second, sent_kib) in [(1, 0), (2, 1000)] {
        let sockets = Some(vec![Socket { cookie: 2, group: 20, sent_bytes: sent_kib << 10 }]);
        let queues = vec![InterfaceQueue { sent_bytes: sent_kib << 10, ..queue.clone() }];
        let facts = Facts::NetworkUse { queues, sockets, groups: vec![(10, "/apps/browser".into())] };
        policy.on_event(at(second), &Event::Facts(facts), &mut decisions);
    }
    let groups = Facts::ControlGroups { mount: "/cg".into(), groups: vec![(20, "/apps/backup".into())] };
    policy.on_event(at(2), &Event::Facts(groups), &mut decisions);
    let target = Target::EgressPriority("/cg/apps/backup".into());
    assert!(decisions.iter().any(|it| matches!(&it.action, Action::Lease { target: of, .. } if *of == target)));
    assert!(policy.deadline().is_some_and(|next| next <= at(3)));

    let decisions = find(&mut policy, at(3), &[OtherManager::Ananicy]);
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(decisions[0].action, Action::Release { target });
    assert!(policy.deadline().is_none_or(|next| next > at(60)), "{:?}", policy.deadline());
}

// Verifies ON-2.
#[test]
fn managers_are_searched_unless_the_user_has_decided() {
    let (_folder, root) = device();
    for (enabled, asked) in [(Enabled::Auto, 1), (Enabled::On, 0), (Enabled::Off, 0)] {
        let mut policy = PlacementPolicy::default();
        reconfigure(&mut policy, at(0), &root, enabled, true);
        assert_eq!(policy.is_on(), enabled != Enabled::Off, "{:?}", policy.support);
        policy.on_event(at(60), &Event::Deadline, &mut Vec::new());
        assert_eq!(asks(&mut policy).len(), asked, "{enabled}");
        find(&mut policy, at(60), &[]);
        // A process named like a manager is checked soon after its start.
        let born = vec![Thread { tid: 9, pid: 9, parent: 1, command: "ananicy-cpp".into() }];
        let sample = Sample { born, ..Sample::default() };
        let event = Event::Threads { sample, facts: Vec::new(), online: vec![0] };
        policy.on_event(at(70), &event, &mut Vec::new());
        policy.on_event(at(71), &Event::Deadline, &mut Vec::new());
        assert_eq!(asks(&mut policy).len(), asked, "{enabled}");
        assert_eq!(find(&mut policy, at(72), &[OtherManager::Ananicy]).len(), 0);
        assert_eq!(policy.is_on(), enabled == Enabled::On, "{enabled}: {:?}", policy.support);
    }
}
