use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::launch::actuator::Choice;
use crate::launch::config::ActuatorKind;
use crate::launch::prediction::{Governor, Help, Prediction};
use crate::simulated::Kernel;
use crate::{Action, Effect};
use brisk_base::random::Random;

mod foreground;
mod managers;

fn tunable(name: &str) -> Target {
    Target::Tunable(format!("/sys/devices/system/cpu/cpufreq/{name}").into())
}

fn plan(actuators: &[Actuator]) -> Plan {
    let prediction = Prediction::of(
        Governor::Ondemand { sampling_rate_us: 100_000, hooked: true },
        &[200_000, 1_200_000],
        Help::Sample,
    );
    let choice = |actuator: &Actuator| Choice {
        kind: ActuatorKind::Kick,
        actuator: actuator.clone(),
        serves: vec![("policy0".to_owned(), prediction)],
    };
    let state = if actuators.is_empty() { SupportState::Available } else { SupportState::Active };
    let support = Support { state, reason: String::new(), advice: String::new() };
    Plan { choices: actuators.iter().map(choice).collect(), support }
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

/// What the policy asks for, in short: `rewrite sampling_rate`, `lease scaling_min_freq 1200000 until 13000`.
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

// Verifies LAUNCH-1.
#[test]
fn what_begins_a_launch() {
    use ProcessEventKind::{Comm, Exec, Exit, Fork, Uid};
    type Configure = fn(&mut LaunchConfig);
    let only = |trigger: Trigger| -> Configure {
        match trigger {
            Trigger::Uid => |config| config.triggers = vec![Trigger::Uid],
            Trigger::Comm => |config| config.triggers = vec![Trigger::Comm],
            _ => |config| config.triggers = vec![Trigger::Exec],
        }
    };
    let cases: [(&str, Configure, Event, bool); 14] = [
        ("a fork", |_| {}, process(Fork, 5, "shell"), true),
        ("an exec", |_| {}, process(Exec, 5, "browser"), true),
        ("an exit", |_| {}, process(Exit, 5, "browser"), false),
        ("a fork that is no trigger", only(Trigger::Exec), process(Fork, 5, "shell"), false),
        ("a change of user", only(Trigger::Uid), process(Uid, 5, "zygote"), true),
        ("a change of name", only(Trigger::Comm), process(Comm, 5, "browser"), true),
        ("an announcement", |_| {}, announced("browser"), true),
        ("an announcement that is no trigger", only(Trigger::Exec), announced("browser"), false),
        (
            "another parent",
            |config| config.filter.parents = vec!["zygote*".parse().unwrap()],
            process(Exec, 5, "browser"),
            false,
        ),
        (
            "the right parent",
            |config| config.filter.parents = vec!["zygote*".parse().unwrap(), "launch*".parse().unwrap()],
            process(Exec, 5, "browser"),
            true,
        ),
        (
            "another user",
            |config| config.filter.uids = vec!["10000-19999".parse().unwrap()],
            process(Exec, 5, "browser"),
            false,
        ),
        (
            "another cgroup",
            |config| config.filter.cgroups = vec!["/system.slice*".parse().unwrap()],
            process(Exec, 5, "browser"),
            false,
        ),
        (
            "an excluded command",
            |config| config.filter.excluded_commands = vec!["bro*".parse().unwrap()],
            process(Exec, 5, "browser"),
            false,
        ),
        ("a mechanism that is off", |config| config.triggers.clear(), process(Exec, 5, "browser"), false),
    ];
    for (name, configure, event, begins) in cases {
        let mut policy = policy(configure, &[kick_actuator()]);
        let expected: &[&str] = if begins { &KICK } else { &[] };
        assert_eq!(ask(&mut policy, at(0), &event), expected, "{name}");
        assert_eq!(policy.activity().is_some(), begins, "{name}");
    }
}

// Verifies LAUNCH-1.
#[test]
fn a_fact_that_could_not_be_had_fits_no_filter() {
    let mut policy = policy(|config| config.filter.uids = vec!["0-4294967295".parse().unwrap()], &[kick_actuator()]);
    let gone = Event::Process(ProcessEvent {
        kind: ProcessEventKind::Exec,
        process: Process { pid: 5, ..Process::default() },
    });
    assert!(ask(&mut policy, at(0), &gone).is_empty());
}

#[test]
fn fork_and_exec_of_a_process_are_one_launch_by_its_last_name() {
    let mut policy = policy(|_| {}, &[kick_actuator(), lease_actuator()]);
    let begun = ask(&mut policy, at(0), &process(ProcessEventKind::Fork, 5, "shell"));
    assert_eq!(begun, [&KICK[..], &["lease scaling_min_freq 1200000 until 3000"]].concat());
    assert_eq!(
        ask(&mut policy, at(3), &process(ProcessEventKind::Exec, 5, "browser")),
        KICK,
        "kicked again, leased once"
    );
    assert_eq!(policy.activity().unwrap().1, "boosting the launch of browser (noticed by exec)");
    assert_eq!(policy.awaited_exits(), [5]);
    assert_eq!(ask(&mut policy, at(500), &process(ProcessEventKind::Exit, 5, "")), ["release scaling_min_freq"]);
    assert_eq!(policy.activity(), None);
    assert!(policy.awaited_exits().is_empty());
}

#[test]
fn an_application_announced_before_its_process_ends_with_it() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    ask(&mut policy, at(0), &announced("browser"));
    let process = Some(Process { pid: 5, ..Process::default() });
    assert!(ask(&mut policy, at(5), &Event::LaunchAnnounced { process, application: "browser".to_owned() }).is_empty());
    assert_eq!(policy.awaited_exits(), [5]);
    assert_eq!(ask(&mut policy, at(50), &self::process(ProcessEventKind::Exit, 5, "")), ["release scaling_min_freq"]);
}

// Verifies LAUNCH-2.
#[test]
fn overlapping_launches_share_one_boost() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    assert_eq!(ask(&mut policy, at(0), &announced("one")), ["lease scaling_min_freq 1200000 until 3000"]);
    assert_eq!(ask(&mut policy, at(1_000), &announced("two")), ["lease scaling_min_freq 1200000 until 4000"]);
    let finished = Event::LaunchFinished { application: "one".to_owned() };
    assert!(ask(&mut policy, at(1_500), &finished).is_empty(), "the other goes on");
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
    assert!((learned.mean_ms - 200.0).abs() < 1.0, "over when the quiet began: {learned:?}");
}

#[test]
fn a_kick_alone_needs_no_look_at_the_load() {
    let mut policy = policy(|_| {}, &[kick_actuator()]);
    ask(&mut policy, at(0), &announced("browser"));
    assert_eq!(policy.interest().load_period, None);
    ask(&mut policy, at(3_000), &Event::Deadline);
    assert_eq!(policy.durations, LearnedDurations::default(), "a deadline is no duration");
}

// Verifies LAUNCH-1.
#[test]
fn the_exec_right_after_a_kicked_fork_is_not_looked_up() {
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
        assert_eq!(policy.awaited_exits(), awaited, "the end of a kicked launch is of no use");
    }
}

#[test]
fn later_kicks_and_pulses_come_at_their_moments() {
    let pulse = Actuator::Pulse {
        target: tunable("interactive/boostpulse"),
        value: "1".to_owned(),
        lasting: Some(Duration::from_millis(80)),
    };
    let mut policy = policy(|config| config.kick.at_us = vec![0, 4_000, 20_000], &[kick_actuator(), pulse]);
    let begun = ask(&mut policy, at(0), &announced("browser"));
    assert_eq!(begun, [&KICK[..], &["pulse boostpulse 1"]].concat());
    assert_eq!(policy.deadline(), Some(at(4)));
    assert!(ask(&mut policy, at(3), &Event::Deadline).is_empty());
    assert_eq!(ask(&mut policy, at(4), &Event::Deadline), KICK);
    assert_eq!(policy.deadline(), Some(at(20)));
    assert_eq!(ask(&mut policy, at(25), &Event::Deadline), KICK);
    assert_eq!(policy.deadline(), Some(at(72)), "a pulse follows before the last one ends");
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
    assert!(policy.durations.get("browser").unwrap().mean_ms > before.mean_ms, "cut off: it takes longer than thought");
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
    assert!(ask(&mut policy, at(1), &announced("browser")).is_empty(), "noticed, and nothing done");
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
fn another_plan_takes_over_while_a_launch_goes_on() {
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

/// Its end is not followed, so it may have ended; and a service would be refused, because the tunables of a governor that is
/// chosen again are not granted to it yet.
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
    assert_eq!(ask(&mut policy, at(200), &announced("editor")), KICK, "the next one is");
}

#[derive(Debug, Clone)]
enum Step {
    Event(ProcessEventKind, u32),
    Announce(u8),
    Finish(u8),
    Load(u16),
    Foreground(Vec<u32>),
    Lost,
    Deadline,
    Replace(bool),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    use ProcessEventKind::{Comm, Exec, Exit, Fork, Uid};
    let kind = prop_oneof![Just(Fork), Just(Exec), Just(Comm), Just(Uid), Just(Exit)];
    let step = prop_oneof![
        4 => (kind, 1u32..8).prop_map(|(kind, pid)| Step::Event(kind, pid)),
        1 => (0u8..4).prop_map(Step::Announce),
        1 => (0u8..4).prop_map(Step::Finish),
        2 => (0u16..=1000).prop_map(Step::Load),
        1 => proptest::collection::vec(1u32..8, 0..3).prop_map(Step::Foreground),
        1 => Just(Step::Lost),
        2 => Just(Step::Deadline),
        1 => any::<bool>().prop_map(Step::Replace),
    ];
    proptest::collection::vec((0u64..800, step), 0..120)
}

/// A policy and the kernel that answers it.
struct Simulation {
    policy: LaunchPolicy,
    kernel: Kernel,
    longest: Duration,
}

impl Simulation {
    fn dispatch(&mut self, now: BootTime, event: &Event) {
        let mut decisions = Vec::new();
        self.policy.on_event(now, event, &mut decisions);
        self.carry_out(now, decisions);
    }

    fn carry_out(&mut self, now: BootTime, mut decisions: Vec<Decision>) {
        while !decisions.is_empty() {
            for decision in &decisions {
                if let Action::Lease { until, .. } = &decision.action {
                    assert!(until.since(now) <= self.longest, "a lease beyond the deadline");
                }
            }
            let carry_out = |decision| self.kernel.carry_out(now, decision, &mut |_| Ok(()));
            let outcomes: Vec<_> = decisions.iter().map(carry_out).collect();
            decisions.clear();
            self.policy.on_outcomes(now, &outcomes, &mut decisions);
        }
        let believed = self.policy.leases.held().map(|(target, value)| (target.clone(), value.to_owned()));
        assert_eq!(believed.collect::<BTreeMap<_, _>>(), self.kernel.held(), "what it believes is what is held");
    }

    /// Lets time pass: the engine ends what is due and keeps the policy's deadlines.
    fn pass(&mut self, mut now: BootTime, next: BootTime) {
        while let Some(deadline) = self.policy.deadline().filter(|&deadline| deadline <= next) {
            now = now.max(deadline);
            self.dispatch(now, &Event::Deadline);
            assert!(self.policy.deadline().is_none_or(|later| later > now), "a deadline that stays");
        }
        let ended = self.kernel.expire(next, &mut |_| Ok(()));
        self.policy.on_outcomes(next, &ended, &mut Vec::new());
    }
}

proptest! {
    // Verifies UNDO-2, UNDO-6.
    #[test]
    fn whatever_happens_and_is_refused_leases_end(steps in steps(), end_foreground in any::<bool>(), seed in 0u64..9) {
        let actuators = [kick_actuator(), lease_actuator(), Actuator::Clamp { minimum: 512 }];
        let configure = |config: &mut LaunchConfig| {
            config.triggers = vec![Trigger::Fork, Trigger::Exec, Trigger::Announced];
            if !end_foreground {
                config.triggers.push(Trigger::Foreground);
            }
            config.end.foreground = end_foreground;
            config.kick.at_us = vec![0, 3_000];
        };
        let policy = policy(configure, &actuators);
        let longest = Duration::from_millis(policy.config.end.deadline_ms);
        let mut random = Random::new(seed);
        // By kind, by target, by time.
        let refuses = move |now: BootTime, action: &Action| {
            let (second, kind) = (now.since(at(0)).as_secs(), random.below(8));
            let is_refused = match action {
                Action::Lease { target: Target::UtilizationClampMinimum { pid, .. }, .. } => pid % 3 == seed as u32 % 3,
                Action::Lease { .. } => second % 4 == seed % 4,
                Action::Release { .. } => kind == 0,
                _ => kind == 1,
            };
            (is_refused && seed > 0 && second < 1000).then(|| Effect::Refused("EPERM".to_owned()))
        };
        let mut simulation = Simulation { policy, kernel: Kernel::refusing(refuses), longest };
        let mut now = at(0);
        for (pause_ms, step) in steps {
            let next = now + Duration::from_millis(pause_ms);
            simulation.pass(now, next);
            now = next;
            let event = match step {
                Step::Event(kind, pid) => process(kind, pid, &format!("app {}", pid % 3)),
                Step::Announce(number) => announced(&format!("app {number}")),
                Step::Finish(number) => Event::LaunchFinished { application: format!("app {number}") },
                Step::Load(busy_permille) => Event::Load { busy_permille },
                Step::Foreground(pids) => Event::Foreground {
                    processes: pids.into_iter().map(|pid| Process { pid, ..Process::default() }).collect(),
                },
                Step::Lost => Event::ProcessEventsLost,
                Step::Deadline => Event::Deadline,
                Step::Replace(on) => {
                    let mut decisions = Vec::new();
                    let config = simulation.policy.config.clone();
                    simulation.policy.replace(now, config, plan(if on { &actuators } else { &[] }), 2, &mut decisions);
                    simulation.carry_out(now, decisions);
                    continue;
                }
            };
            simulation.dispatch(now, &event);
            let Simulation { policy, .. } = &simulation;
            prop_assert!(!policy.launches.is_empty() || policy.leases.is_empty(), "leases without a launch");
        }
        // From then on nothing is refused any more.
        let end = at(1_000_000) + longest;
        simulation.pass(now, end);
        simulation.dispatch(end, &Event::Deadline);
        simulation.pass(end, end + longest);
        prop_assert!(simulation.kernel.held().is_empty(), "still leased after the end");
        prop_assert!(simulation.policy.launches.is_empty() && simulation.policy.pids.is_empty());
    }
}

// Verifies UNDO-6.
#[test]
fn what_is_refused_is_not_said_to_help() {
    let error = "cannot write scaling_min_freq: EACCES";
    for (is_refused, expected) in [
        (false, "boosting the launch of browser (noticed by announced)".to_owned()),
        (true, format!("boosting the launch of browser (noticed by announced), in vain: {error}")),
    ] {
        let policy = policy(|_| {}, &[lease_actuator()]);
        let kernel = Kernel::refusing(move |_, _| is_refused.then(|| Effect::Refused(error.to_owned())));
        let mut simulation = Simulation { policy, kernel, longest: Duration::from_secs(60) };
        simulation.dispatch(at(0), &announced("browser"));
        assert_eq!(simulation.policy.activity().unwrap().1, expected);
        assert_eq!(simulation.policy.leases.is_empty(), is_refused);
    }
}

// Verifies UNDO-6.
#[test]
fn the_next_launch_retries_a_refused_action() {
    let policy = policy(|_| {}, &[lease_actuator()]);
    let kernel = Kernel::refusing(|now, _| (now < at(100)).then(|| Effect::Refused("EACCES".to_owned())));
    let mut simulation = Simulation { policy, kernel, longest: Duration::from_secs(60) };
    let mut begin = |milliseconds, application: &str| {
        simulation.dispatch(at(milliseconds), &announced(application));
        simulation.policy.leases.held().count()
    };
    assert_eq!(begin(0, "browser"), 0);
    assert_eq!(begin(100, "editor"), 1);
}

// Verifies UNDO-6.
#[test]
fn a_refused_action_is_not_retried_once_the_process_is_known() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    assert_eq!(ask(&mut policy, at(0), &announced("browser")).len(), 1);
    let effect = Effect::Refused("EACCES".to_owned());
    let outcome = Outcome { target: tunable("policy0/scaling_min_freq"), effect, held: None };
    policy.on_outcomes(at(0), &[outcome], &mut Vec::new());
    let process = Process { pid: 7, ..Process::default() };
    let again = Event::LaunchAnnounced { process: Some(process), application: "browser".to_owned() };
    assert!(ask(&mut policy, at(1), &again).is_empty());
}
