//! Launches that a foreground change starts, joins or ends.

use super::*;

fn app(pid: u32) -> Process {
    Process { pid, command: Some(format!("app {pid}")), start_time_ticks: Some(u64::from(pid)), ..Process::default() }
}

fn front(pids: &[u32]) -> Event {
    Event::Foreground { processes: pids.iter().copied().map(app).collect() }
}

fn by_default(config: &mut LaunchConfig) {
    config.triggers = triggers::effective(
        &LaunchConfig::default(),
        &LaunchDevice { process_events: true, ..LaunchDevice::default() },
    );
}

// Verifies LAUNCH-2.
#[test]
fn the_foreground_begins_or_ends_launches_as_configured() {
    let mut begins = policy(|config| config.triggers = vec![Trigger::Foreground], &[kick_actuator()]);
    assert_eq!(ask(&mut begins, at(0), &front(&[7])), KICK);
    assert!(ask(&mut begins, at(10), &front(&[7])).is_empty(), "it was in the foreground already");
    assert_eq!(ask(&mut begins, at(20), &front(&[7, 8])), KICK);
    begins.set_initial_foreground(&[9]);
    assert!(ask(&mut begins, at(30), &front(&[9])).is_empty(), "it was in the foreground before the first event");

    for configure in [|_: &mut LaunchConfig| {}, by_default] {
        let configure = |config: &mut LaunchConfig| {
            config.end.foreground = true;
            configure(config);
        };
        let mut ends = policy(configure, &[lease_actuator()]);
        ask(&mut ends, at(0), &process(ProcessEventKind::Exec, 7, "app 7"));
        assert!(ask(&mut ends, at(50), &front(&[7])).is_empty(), "too early for its first frame");
        assert!(ask(&mut ends, at(90), &front(&[])).is_empty());
        assert_eq!(ask(&mut ends, at(300), &front(&[7])), ["release scaling_min_freq"]);
    }
    let mut resumed = policy(|config| (by_default(config), config.end.foreground = true).1, &[lease_actuator()]);
    assert_eq!(ask(&mut resumed, at(0), &front(&[7])), ["lease scaling_min_freq 1200000 until 3000"]);
    assert!(ask(&mut resumed, at(500), &front(&[7])).is_empty(), "the foreground does not end what it started");
}

// Verifies LAUNCH-1.
#[test]
fn a_resume_is_boosted_and_a_launch_is_boosted_only_once() {
    const FLOOR: &str = "lease scaling_min_freq 1200000 until";
    type Row = (u64, Event, Vec<String>);
    let exec = |pid: u32| process(ProcessEventKind::Exec, pid, &format!("app {pid}"));
    let fork = |pid: u32| process(ProcessEventKind::Fork, pid, "zygote");
    let with_process = |application: &str, pid: u32| Event::LaunchAnnounced {
        process: Some(app(pid)),
        application: application.to_owned(),
    };
    let lease = |until: u64| vec![KICK[0].to_owned(), KICK[1].to_owned(), format!("{FLOOR} {until}")];
    let release = || vec!["release scaling_min_freq".to_owned()];
    let finished = |application: &str| Event::LaunchFinished { application: application.to_owned() };
    let courses: [(&str, Vec<Row>); 7] = [
        (
            "resumed",
            vec![
                (0, front(&[7]), lease(3_000)),
                (3_000, Event::Deadline, release()),
                (9_000, front(&[8]), lease(12_000)),
            ],
        ),
        ("executed", vec![(0, exec(7), lease(3_000)), (400, front(&[7]), vec![])]),
        ("forked by Android's zygote", vec![(0, fork(7), lease(3_000)), (400, front(&[7]), vec![])]),
        ("announced with its process", vec![(0, with_process("mail", 7), lease(3_000)), (400, front(&[7]), vec![])]),
        ("announced by its name", vec![(0, announced("app 7"), lease(3_000)), (400, front(&[7]), vec![])]),
        (
            "in the foreground after its launch, and resumed later",
            vec![
                (0, exec(7), lease(3_000)),
                (400, finished("app 7"), release()),
                (700, front(&[7]), vec![]),
                (800, front(&[]), vec![]),
                (3_000, front(&[7]), lease(6_000)),
            ],
        ),
        (
            "another application in between",
            vec![(0, exec(7), lease(3_000)), (400, front(&[8]), lease(3_400)), (500, front(&[7, 8]), vec![])],
        ),
    ];
    for (name, course) in courses {
        let mut policy = policy(by_default, &[kick_actuator(), lease_actuator()]);
        for (moment, event, expected) in course {
            assert_eq!(ask(&mut policy, at(moment), &event), expected, "{name}, at {moment} ms");
        }
    }
}

// Verifies LAUNCH-1.
#[test]
fn a_process_announced_by_name_is_clamped_in_the_foreground() {
    let mut policy = policy(by_default, &[Actuator::Clamp { minimum: 700 }]);
    assert!(ask(&mut policy, at(0), &announced("app 7")).is_empty(), "its process is not known yet");
    assert_eq!(ask(&mut policy, at(100), &front(&[7])), ["lease clamp 7 700 until 3000"]);
    assert_eq!(policy.launches.len(), 1);
}

// Verifies LAUNCH-1.
#[test]
fn a_reused_pid_is_not_taken_for_the_boosted_process() {
    let mut policy = policy(by_default, &[kick_actuator()]);
    assert_eq!(ask(&mut policy, at(0), &process(ProcessEventKind::Exec, 7, "app 7")), KICK);
    ask(&mut policy, at(100), &Event::LaunchFinished { application: "app 7".to_owned() });
    assert!(ask(&mut policy, at(200), &front(&[7])).is_empty());
    ask(&mut policy, at(300), &front(&[]));
    let other = Process { start_time_ticks: Some(70), ..app(7) };
    assert_eq!(ask(&mut policy, at(400), &Event::Foreground { processes: vec![other] }), KICK);
}

fn named(pid: u32, name: &str) -> Event {
    Event::Foreground { processes: vec![Process { command: Some(name.to_owned()), ..app(pid) }] }
}

/// Android's zygote moves its fork to the foreground before it gives it a name: every application is called "main" then.
// Verifies LAUNCH-2, ANDROID-1.
#[test]
fn a_launch_is_learned_by_the_name_that_its_process_gets_in_the_foreground() {
    let mut policy = policy(|config| config.triggers = vec![Trigger::Fork, Trigger::Foreground], &[lease_actuator()]);
    let low = Event::Load { busy_permille: 0 };
    let starts = [named(1, "main"), process(ProcessEventKind::Fork, 2, "main"), named(3, "main")];
    for (round, start) in starts.iter().enumerate() {
        for (place, (name, length_ms)) in [("mail", 400), ("maps", 1_000)].into_iter().enumerate() {
            let (begin, pid) = ((round * 2 + place) as u64 * 10_000, round as u32 + 1);
            ask(&mut policy, at(begin), &front(&[]));
            let begun = ask(&mut policy, at(begin), start);
            assert_eq!(begun, [format!("lease scaling_min_freq 1200000 until {}", begin + 3_000)], "{name}");
            assert!(ask(&mut policy, at(begin + 50), &named(pid, name)).is_empty(), "{name}");
            assert!(ask(&mut policy, at(begin + length_ms + 100), &low).is_empty(), "{name}");
            assert_eq!(ask(&mut policy, at(begin + length_ms + 200), &low), ["release scaling_min_freq"], "{name}");
        }
    }
    assert_eq!(policy.durations.get("main"), None);
    for (name, mean_ms) in [("mail", 400.0), ("maps", 1_000.0)] {
        let learned = policy.durations.get(name).unwrap();
        assert!(learned.launches == 3 && (learned.mean_ms - mean_ms).abs() < 1.0, "{name}: {learned:?}");
    }
    let limit_ms = policy.durations.limit("mail").unwrap().as_millis() as u64;
    ask(&mut policy, at(100_000), &named(9, "main"));
    assert!(ask(&mut policy, at(100_050), &named(9, "mail")).is_empty());
    assert!(ask(&mut policy, at(100_000 + limit_ms - 1), &Event::Deadline).is_empty());
    assert_eq!(ask(&mut policy, at(100_000 + limit_ms + 1), &Event::Deadline), ["release scaling_min_freq"]);
}

// Verifies LAUNCH-2.
#[test]
fn a_lease_lasts_as_long_as_the_launch_by_its_later_name() {
    let mut policy = policy(|config| config.triggers = vec![Trigger::Foreground], &[lease_actuator()]);
    (0..3).for_each(|_| policy.durations.learn("main", Duration::from_millis(300), false));
    let limit_ms = policy.durations.limit("main").unwrap().as_millis();
    let lease = |until_ms: u128| [format!("lease scaling_min_freq 1200000 until {until_ms}")];
    assert_eq!(ask(&mut policy, at(0), &named(7, "main")), lease(limit_ms));
    assert_eq!(ask(&mut policy, at(50), &named(7, "maps")), lease(3_000));
    assert_eq!(policy.activity().unwrap().1, "boosting the launch of maps (noticed by foreground)");
}

/// Android's zygote changes the user of its fork after it has moved it to the foreground.
// Verifies LAUNCH-1.
#[test]
fn a_process_that_passes_the_filter_later_is_launched_then() {
    let configure = |config: &mut LaunchConfig| {
        config.triggers = vec![Trigger::Foreground];
        config.filter.uids = vec!["10000-19999".parse().unwrap()];
    };
    let mut policy = policy(configure, &[kick_actuator()]);
    let of_user = |uid| Event::Foreground { processes: vec![Process { uid: Some(uid), ..app(7) }] };
    assert!(ask(&mut policy, at(0), &of_user(0)).is_empty());
    assert_eq!(ask(&mut policy, at(50), &of_user(10_061)), KICK);
    assert!(ask(&mut policy, at(100), &of_user(10_061)).is_empty(), "it was in the foreground already");
}

// Verifies LAUNCH-1.
#[test]
fn an_announced_launch_is_joined_by_its_process_when_that_has_its_name() {
    let mut policy = policy(by_default, &[lease_actuator()]);
    ask(&mut policy, at(0), &announced("org.example.browser"));
    ask(&mut policy, at(10), &named(7, "main"));
    assert!(ask(&mut policy, at(50), &named(7, "example.browser")).is_empty());
    assert_eq!(policy.activity().unwrap().1, "boosting the launch of org.example.browser (noticed by announced)");
    assert_eq!(policy.awaited_exits(), [7]);
    let finished = Event::LaunchFinished { application: "org.example.browser".to_owned() };
    assert_eq!(ask(&mut policy, at(400), &finished), ["release scaling_min_freq"]);
    assert!(policy.awaited_exits().is_empty());
}

/// A program that names its main thread is learned by the name that it was executed by, which the next launch begins with.
#[test]
fn an_executed_program_keeps_its_name_in_the_foreground() {
    let mut policy = policy(|_| {}, &[lease_actuator()]);
    ask(&mut policy, at(0), &process(ProcessEventKind::Exec, 7, "browser"));
    assert!(ask(&mut policy, at(50), &named(7, "MainThread")).is_empty());
    assert_eq!(policy.activity().unwrap().1, "boosting the launch of browser (noticed by exec)");
}

// Verifies LAUNCH-1.
#[test]
fn an_announced_application_is_matched_by_its_truncated_name() {
    let launch = |application: &str, process| Launch {
        application: application.to_owned(),
        process,
        trigger: Trigger::Announced,
        began: at(0),
        deadline: at(3_000),
        learned: false,
    };
    for (application, command, expected) in [
        ("browser", Some("browser"), true),
        ("browser", Some("brows"), false),
        ("org.example.browser", Some("org.example.bro"), true),
        ("org.example.browser", Some("example.browser"), true),
        ("org.example.browser", Some("org.example.mai"), false),
        ("browser", None, false),
    ] {
        assert_eq!(launch(application, None).awaits(command), expected, "{application} {command:?}");
        assert!(!launch(application, Some((7, None))).awaits(command), "its process is known");
    }
}
