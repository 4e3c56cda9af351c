//! What starts a launch, and what belongs to a running one.

use super::*;

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
        ("a fork that is not a trigger", only(Trigger::Exec), process(Fork, 5, "shell"), false),
        ("a change of user", only(Trigger::Uid), process(Uid, 5, "zygote"), true),
        ("a change of name", only(Trigger::Comm), process(Comm, 5, "browser"), true),
        ("an announcement", |_| {}, announced("browser"), true),
        ("an announcement that is not a trigger", only(Trigger::Exec), announced("browser"), false),
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
