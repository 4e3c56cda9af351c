use super::*;
use crate::launch::actuator::ActuatorChoice;
use crate::launch::config::ActuatorKind;
use crate::launch::loss::LaunchLoss;
use crate::launch::prediction::{ActuatorEffect, Governor, Prediction};
use crate::{Action, Effect};

mod beginning;
mod foreground;
mod managers;
mod observations;
mod refusals;

fn tunable(name: &str) -> Target {
    Target::Tunable(format!("/sys/devices/system/cpu/cpufreq/{name}").into())
}

fn plan(actuators: &[Actuator]) -> LaunchPlan {
    let prediction = Prediction::of(
        Governor::Ondemand { sampling_rate_us: 100_000, hooked: true },
        &[200_000, 1_200_000],
        ActuatorEffect::Sample,
    );
    let choice = |actuator: &Actuator| ActuatorChoice {
        kind: ActuatorKind::Kick,
        actuator: actuator.clone(),
        serves: vec![("policy0".to_owned(), prediction)],
    };
    let state = if actuators.is_empty() { SupportState::Available } else { SupportState::Active };
    let support = Support { state, reason: String::new(), advice: String::new() };
    let governor = Governor::Ondemand { sampling_rate_us: 100_000, hooked: true };
    let loss = LaunchLoss::new("ondemand", Some(governor), &[200_000, 1_200_000], ActuatorEffect::Sample);
    LaunchPlan { choices: actuators.iter().map(choice).collect(), support, loss }
}

fn kick_actuator() -> Actuator {
    Actuator::Kick { window: Some(tunable("ondemand/io_is_busy")), sample: tunable("ondemand/sampling_rate") }
}

fn lease_actuator() -> Actuator {
    Actuator::Lease { target: tunable("policy0/scaling_min_freq"), value: "1200000".to_owned() }
}

fn policy(configure: impl FnOnce(&mut LaunchConfig), actuators: &[Actuator]) -> LaunchPolicy {
    let triggers = vec![Trigger::Fork, Trigger::Exec, Trigger::Announced];
    let mut config = LaunchConfig { triggers, ..LaunchConfig::default() };
    configure(&mut config);
    LaunchPolicy::new(config, plan(actuators), 2, LearnedDurations::default())
}

fn at(milliseconds: u64) -> BootTime {
    BootTime::from_milliseconds(10_000 + milliseconds)
}

fn process(kind: ProcessEventKind, pid: u32, command: &str) -> Event {
    let process = Process {
        pid,
        command: Some(command.to_owned()),
        parent_command: Some("launcher".to_owned()),
        uid: Some(1_000),
        cgroup: Some("/user.slice".to_owned()),
        start_time_ticks: Some(u64::from(pid)),
        ..Process::default()
    };
    Event::Process(ProcessEvent { kind, process })
}

fn announced(application: &str) -> Event {
    Event::LaunchAnnounced { process: None, application: application.to_owned() }
}

/// The policy's decisions in short form: `rewrite sampling_rate`, `lease scaling_min_freq 1200000 until 13000`.
fn ask(policy: &mut LaunchPolicy, now: BootTime, event: &Event) -> Vec<String> {
    let mut decisions = Vec::new();
    policy.on_event(now, event, &mut decisions);
    decisions.iter().map(|decision| short(&decision.action)).collect()
}

fn short(action: &Action) -> String {
    let name = |target: &Target| match target {
        Target::Tunable(path) => path.file_name().unwrap().to_string_lossy().into_owned(),
        Target::UtilizationClampMinimum { pid, .. } => format!("clamp {pid}"),
        other => panic!("{other} is not launch's"),
    };
    match action {
        Action::Lease { target, value, until } => {
            format!("lease {} {value} until {}", name(target), until.since(at(0)).as_millis())
        }
        Action::Release { target } => format!("release {}", name(target)),
        Action::Rewrite { target } => format!("rewrite {}", name(target)),
        Action::Pulse { target, value } => format!("pulse {} {value}", name(target)),
        Action::Disinherit { .. } => panic!("{action:?} is not launch's"),
    }
}

const KICK: [&str; 2] = ["rewrite io_is_busy", "rewrite sampling_rate"];

// Verifies LAUNCH-2.
#[test]
fn overlapping_launches_share_one_boost() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    assert_eq!(ask(&mut policy, at(0), &announced("one")), ["lease scaling_min_freq 1200000 until 3000"]);
    assert_eq!(ask(&mut policy, at(1_000), &announced("two")), ["lease scaling_min_freq 1200000 until 4000"]);
    let finished = Event::LaunchFinished { application: "one".to_owned() };
    assert!(ask(&mut policy, at(1_500), &finished).is_empty(), "the other launch continues");
    assert!(ask(&mut policy, at(3_000), &Event::Deadline).is_empty());
    assert_eq!(policy.deadline(), Some(at(4_000)));
    assert_eq!(ask(&mut policy, at(4_000), &Event::Deadline), ["release scaling_min_freq"]);
    assert_eq!(policy.deadline(), None);
}

// Verifies LAUNCH-2.
#[test]
fn falling_load_ends_a_launch_but_not_at_once() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    ask(&mut policy, at(0), &announced("browser"));
    assert_eq!(policy.interest().load_period, Some(Duration::from_millis(100)));
    // Two CPUs: 100 permille are a fifth of one CPU, below the 30 %; 200 permille are above.
    for (moment, busy_permille, ends) in [(100, 100, false), (200, 200, false), (300, 100, false), (400, 100, true)] {
        let asked = ask(&mut policy, at(moment), &Event::Load { busy_permille });
        assert_eq!(!asked.is_empty(), ends, "{moment}");
    }
    assert_eq!(policy.interest().load_period, None);
    let learned = policy.durations.get("browser").unwrap();
    assert!((learned.mean_ms - 200.0).abs() < 1.0, "over when the load fell: {learned:?}");
}

/// The launch paper's rule: without load, learned duration and foreground, the period is restored when the application exits.
// Verifies LAUNCH-2, LAUNCH-6.
#[test]
fn a_launch_can_last_until_its_process_exits() {
    let paper = "deadline_ms = 600_000\nlearn = false\nload_below_cpu_percent = 0";
    for (name, end, [after_load, after_5_s]) in
        [("the paper's rule", paper, [false, false]), ("the default", "learn = false", [true, true])]
    {
        let target = tunable("ondemand30/sampling_rate");
        let lease = Actuator::Lease { target, value: "50000".to_owned() };
        let mut policy = policy(|config| config.end = toml::from_str(end).unwrap(), &[lease]);
        let begun = ask(&mut policy, at(0), &process(ProcessEventKind::Exec, 5, "browser"));
        assert!(begun[0].starts_with("lease sampling_rate 50000 until "), "{name}: {begun:?}");
        let mut is_restored = |moment_ms, event: &Event| {
            let asked = ask(&mut policy, at(moment_ms), event);
            assert!(asked.is_empty() || asked == ["release sampling_rate"], "{name}: {asked:?}");
            !asked.is_empty()
        };
        let low = Event::Load { busy_permille: 0 };
        let fell = [200, 300, 400].map(|moment_ms| is_restored(moment_ms, &low)).contains(&true);
        assert_eq!(fell, after_load, "{name}");
        let by_time = is_restored(5_000, &Event::Deadline) || is_restored(599_000, &Event::Deadline);
        assert_eq!(fell || by_time, after_5_s, "{name}");
        let at_exit = is_restored(599_500, &process(ProcessEventKind::Exit, 5, ""));
        assert_eq!(at_exit, !after_5_s, "{name}: restored once");
    }
}

#[test]
fn the_load_is_not_sampled_for_a_kick_alone() {
    let mut policy = policy(|_| {}, &[kick_actuator()]);
    ask(&mut policy, at(0), &announced("browser"));
    assert_eq!(policy.interest().load_period, None);
    ask(&mut policy, at(3_000), &Event::Deadline);
    assert_eq!(policy.durations, LearnedDurations::default(), "a deadline teaches no duration");
}

// Verifies LAUNCH-1.
#[test]
fn an_exec_right_after_a_kicked_fork_is_not_inspected() {
    let (fork, exec) = (ProcessEventKind::Fork, ProcessEventKind::Exec);
    let rows = [
        // actuator, kind, pid, at: ignored?
        (kick_actuator(), exec, 7, 5, true),
        (kick_actuator(), exec, 7, 500, false),
        (kick_actuator(), exec, 8, 5, false),
        (kick_actuator(), fork, 7, 5, false),
        (lease_actuator(), exec, 7, 5, false),
    ];
    for (actuator, kind, pid, moment, ignored) in rows {
        let mut policy = policy(|_| {}, std::slice::from_ref(&actuator));
        ask(&mut policy, at(0), &process(fork, 7, "launcher"));
        assert_eq!(policy.ignores(at(moment), kind, pid), ignored, "{actuator:?} {kind:?} {pid} {moment}");
        let awaited: &[u32] = if actuator == lease_actuator() { &[7] } else { &[] };
        assert_eq!(policy.awaited_exits(), awaited, "the end of a kicked launch is not needed");
    }
}

#[test]
fn later_kicks_and_pulses_come_when_due() {
    let pulse = Actuator::Pulse {
        target: tunable("interactive/boostpulse"),
        value: "1".to_owned(),
        duration: Some(Duration::from_millis(80)),
    };
    let mut policy = policy(|config| config.kick.at_us = vec![0, 4_000, 20_000], &[kick_actuator(), pulse]);
    let begun = ask(&mut policy, at(0), &announced("browser"));
    assert_eq!(begun, [&KICK[..], &["pulse boostpulse 1"]].concat());
    assert_eq!(policy.deadline(), Some(at(4)));
    assert!(ask(&mut policy, at(3), &Event::Deadline).is_empty());
    assert_eq!(ask(&mut policy, at(4), &Event::Deadline), KICK);
    assert_eq!(policy.deadline(), Some(at(20)));
    assert_eq!(ask(&mut policy, at(25), &Event::Deadline), KICK);
    assert_eq!(policy.deadline(), Some(at(72)), "the next pulse comes before the last one ends");
    assert_eq!(ask(&mut policy, at(72), &Event::Deadline), ["pulse boostpulse 1"]);
    assert!(ask(&mut policy, at(3_000), &Event::Deadline).is_empty(), "the launch is over");
    assert_eq!(policy.deadline(), None);
}

#[test]
fn each_launched_process_has_its_own_clamp() {
    let mut policy = policy(|config| config.triggers = vec![Trigger::Exec], &[Actuator::Clamp { minimum: 700 }]);
    let first = ask(&mut policy, at(0), &process(ProcessEventKind::Exec, 5, "one"));
    assert_eq!(first, ["lease clamp 5 700 until 3000"]);
    assert_eq!(ask(&mut policy, at(10), &process(ProcessEventKind::Exec, 6, "two")), ["lease clamp 6 700 until 3010"]);
    assert_eq!(ask(&mut policy, at(100), &process(ProcessEventKind::Exit, 5, "one")), ["release clamp 5"]);
    assert_eq!(ask(&mut policy, at(3_010), &Event::Deadline), ["release clamp 6"]);
}

// Verifies COST-1.
#[test]
fn a_storm_is_muted_in_the_kernel_and_heard_again() {
    let mut policy =
        policy(|config| (config.maximum_launches_per_minute, config.burst_launches) = (60, 2), &[kick_actuator()]);
    assert!(policy.interest().kinds.contains(ProcessEventKind::Exec));
    ask(&mut policy, at(0), &process(ProcessEventKind::Exec, 5, "one"));
    assert_eq!(ask(&mut policy, at(1), &process(ProcessEventKind::Exec, 6, "two")), KICK);
    assert!(policy.interest().kinds.is_empty());
    assert!(ask(&mut policy, at(2), &process(ProcessEventKind::Exec, 7, "three")).is_empty());
    assert_eq!(policy.deadline(), Some(at(1_000)));
    ask(&mut policy, at(1_000), &Event::Deadline);
    assert!(policy.interest().kinds.contains(ProcessEventKind::Exec));
}

// Verifies LAUNCH-2.
#[test]
fn a_learned_duration_ends_a_launch_sooner_than_the_deadline() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    for round in 0..5 {
        let begin = round * 10_000;
        ask(&mut policy, at(begin), &announced("browser"));
        ask(&mut policy, at(begin + 400), &Event::LaunchFinished { application: "browser".to_owned() });
    }
    let asked = ask(&mut policy, at(100_000), &announced("browser"));
    let limit_ms = policy.durations.limit("browser").unwrap().as_millis();
    assert!((500..1_000).contains(&limit_ms), "{limit_ms}");
    assert_eq!(asked, [format!("lease scaling_min_freq 1200000 until {}", 100_000 + limit_ms)]);
    let before = *policy.durations.get("browser").unwrap();
    ask(&mut policy, at(102_000), &Event::Deadline);
    assert!(policy.durations.get("browser").unwrap().mean_ms > before.mean_ms, "a cut-off launch raises the mean");
}

// Verifies LAUNCH-3.
#[test]
fn nothing_is_wanted_without_a_gain_unless_a_client_watches() {
    let mut policy = policy(|_| {}, &[]);
    assert_eq!(policy.interest(), Interest::default());
    assert!(ask(&mut policy, at(0), &announced("browser")).is_empty());
    assert_eq!(policy.activity(), None);
    policy.set_watched(true);
    assert!(policy.interest().kinds.contains(ProcessEventKind::Exec));
    assert!(ask(&mut policy, at(1), &announced("browser")).is_empty(), "detected, but nothing is done");
    assert_eq!(policy.activity().unwrap().1, "watching the launch of browser (noticed by announced)");
}

#[test]
fn facts_are_fetched_only_for_filters_names_and_clamps() {
    let stat = ProcessFacts { stat: true, ..ProcessFacts::default() };
    let plain = policy(|_| {}, &[kick_actuator()]).interest();
    assert_eq!((plain.fork_facts, plain.facts), (ProcessFacts::default(), stat));
    let clamped = policy(|_| {}, &[Actuator::Clamp { minimum: 1 }]).interest();
    assert_eq!(clamped.fork_facts, stat);
    let filtered = policy(|config| config.filter.uids = vec!["1".parse().unwrap()], &[kick_actuator()]).interest();
    assert_eq!(filtered.fork_facts, ProcessFacts { uid: true, ..ProcessFacts::default() });
}

#[test]
fn a_new_plan_takes_over_a_running_launch() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    ask(&mut policy, at(0), &announced("browser"));
    let mut decisions = Vec::new();
    policy.replace(at(10), LaunchConfig::default(), plan(&[kick_actuator()]), 1, &mut decisions);
    let asked: Vec<_> = decisions.iter().map(|decision| short(&decision.action)).collect();
    assert_eq!(asked, [&["release scaling_min_freq"], &KICK[..]].concat());
    decisions.clear();
    policy.replace(
        at(20),
        LaunchConfig { enabled: Enabled::Off, ..LaunchConfig::default() },
        plan(&[]),
        1,
        &mut decisions,
    );
    assert!(decisions.is_empty(), "{decisions:?}");
    assert_eq!((policy.activity(), policy.deadline()), (None, None));
}

/// Its end is not tracked, so it may have ended. A service's write would also fail, because the tunables of a governor that
/// was just selected are not granted to it yet.
// Verifies LAUNCH-2.
#[test]
fn a_kicked_launch_is_not_kicked_again_by_a_device_change() {
    let mut policy = policy(|_| {}, &[kick_actuator()]);
    assert_eq!(ask(&mut policy, at(0), &announced("browser")), KICK);
    let mut decisions = Vec::new();
    policy.release(&mut decisions, CHANGED);
    policy.replace(at(100), policy.config.clone(), plan(&[kick_actuator()]), 1, &mut decisions);
    assert!(decisions.is_empty(), "{decisions:?}");
    assert_eq!((policy.activity(), policy.deadline()), (None, None));
    assert_eq!(ask(&mut policy, at(200), &announced("editor")), KICK, "the next launch is kicked");
}
