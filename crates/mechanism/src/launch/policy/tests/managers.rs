//! Other frequency managers that start and stop while the daemon runs.

use std::any::Any;

use super::*;
use crate::{Mechanism, ProbeContext, Settings};
use brisk_sys::Root;
use brisk_sys::system::other_managers::OtherManager;
use brisk_sys::test_trees::{ONDEMAND, root_of};

/// A device with process events and a slow ondemand.
fn device() -> (tempfile::TempDir, Root) {
    root_of(&[&ONDEMAND[..], &[("proc/net/connector", "Name ID\ncn_proc 1:1\n")]].concat())
}

struct Section(LaunchConfig);

impl Settings for Section {
    fn section(&self, name: &str) -> Option<&dyn Any> {
        (name == NAME).then_some(&self.0 as &dyn Any)
    }
}

/// The policy on a device below `root`, under a configuration that holds a frequency floor during launches.
struct Daemon<'a> {
    policy: LaunchPolicy,
    root: &'a Root,
    settings: Section,
}

impl<'a> Daemon<'a> {
    fn at(root: &'a Root, enabled: Enabled) -> Self {
        let config = LaunchConfig { enabled, actuators: vec![ActuatorKind::ScalingMinFreq], ..LaunchConfig::default() };
        let mut daemon = Self { policy: LaunchPolicy::default(), root, settings: Section(config) };
        daemon.reconfigure(at(0), true);
        daemon
    }

    fn reconfigure(&mut self, now: BootTime, is_new_configuration: bool) {
        let probe_context = ProbeContext { root: self.root, settings: &self.settings, is_new_configuration };
        self.policy.reconfigure(now, &probe_context, &mut Vec::new());
    }

    /// The decisions when these managers run.
    fn find(&mut self, seconds: u64, managers: &[OtherManager]) -> Vec<String> {
        let found = managers.iter().map(|&name| FoundManager { name, evidence: "process 7".to_owned() }).collect();
        ask(&mut self.policy, at(seconds * 1000), &Event::Facts(Facts::OtherManagers { found }))
    }

    fn asks(&mut self) -> Vec<Question> {
        let mut questions = Vec::new();
        self.policy.take_questions(&mut questions);
        questions
    }

    fn is_on(&self) -> bool {
        self.policy.support().state == SupportState::Active
    }
}

// Verifies ON-2.
#[test]
fn defers_to_a_new_manager_until_it_has_been_gone_for_a_while() {
    let (_folder, root) = device();
    let mut daemon = Daemon::at(&root, Enabled::Auto);
    assert!(daemon.is_on(), "{:?}", daemon.policy.support());
    let begun = ask(&mut daemon.policy, at(1_000), &process(ProcessEventKind::Exec, 5, "browser"));
    assert_eq!(begun, ["lease scaling_min_freq 1200000 until 4000"]);
    assert_eq!(daemon.find(2, &[OtherManager::Earlyoom]), [""; 0], "another job");
    let mut decisions = Vec::new();
    let found = vec![FoundManager { name: OtherManager::Tuned, evidence: "process 7".to_owned() }];
    daemon.policy.on_event(at(3_000), &Event::Facts(Facts::OtherManagers { found }), &mut decisions);
    assert_eq!(
        decisions.iter().map(|decision| short(&decision.action)).collect::<Vec<_>>(),
        ["release scaling_min_freq"]
    );
    assert_eq!(decisions[0].reason, "tuned has started");
    let reason = daemon.policy.support().reason.clone();
    assert!(reason.starts_with("auto: this is left to tuned (process 7), which has started; "), "{reason}");
    assert!(!daemon.is_on() && daemon.policy.activity().is_none());
    assert_eq!(daemon.policy.interest(), Interest::default(), "only the timer wakes the daemon");
    assert!(ask(&mut daemon.policy, at(4_000), &process(ProcessEventKind::Exec, 6, "mail")).is_empty());

    // The manager restarts: nothing is switched.
    for (seconds, managers) in [(63, &[][..]), (123, &[OtherManager::Tuned]), (183, &[]), (243, &[])] {
        assert!(daemon.find(seconds, managers).is_empty() && !daemon.is_on(), "at {seconds} s");
        assert!(!daemon.policy.take_probe_request(), "at {seconds} s");
    }
    assert!(daemon.policy.support().reason.contains("which has gone; this is taken over after 120 s without"));
    daemon.reconfigure(at(250_000), false);
    assert!(!daemon.is_on(), "a device change does not shorten the wait");
    daemon.find(303, &[]);
    assert!(
        daemon.policy.take_probe_request() && !daemon.policy.take_probe_request(),
        "the device is probed again, once"
    );
    daemon.reconfigure(at(303_020), false);
    assert!(daemon.is_on(), "{:?}", daemon.policy.support());
    let helped = ask(&mut daemon.policy, at(310_000), &process(ProcessEventKind::Exec, 8, "browser"));
    assert_eq!(helped, ["lease scaling_min_freq 1200000 until 313000"]);
}

// Verifies ON-2.
#[test]
fn managers_are_probed_after_process_starts_unless_configured() {
    let (_folder, root) = device();
    let mut daemon = Daemon::at(&root, Enabled::Auto);
    let exec = |pid, command| process(ProcessEventKind::Exec, pid, command);
    assert_eq!(daemon.policy.deadline(), Some(at(60_000)));
    ask(&mut daemon.policy, at(60_000), &Event::Deadline);
    assert_eq!((daemon.asks(), daemon.policy.deadline()), (vec![Question::OtherManagers], None));
    daemon.find(60, &[]);
    ask(&mut daemon.policy, at(70_000), &exec(5, "make"));
    assert!(daemon.asks().is_empty());
    ask(&mut daemon.policy, at(71_000), &exec(6, "gamemoded"));
    assert_eq!(daemon.asks(), [Question::OtherManagers], "at once: the name is a manager's");
    for enabled in [Enabled::On, Enabled::Off] {
        let mut decided = Daemon::at(&root, enabled);
        ask(&mut decided.policy, at(70_000), &exec(6, "gamemoded"));
        ask(&mut decided.policy, at(90_000), &Event::Deadline);
        assert!(decided.asks().is_empty() && decided.find(91, &[OtherManager::Tuned]).is_empty(), "{enabled}");
        assert_eq!(decided.is_on(), enabled == Enabled::On);
    }
}
