use super::*;
use crate::launch::config::Trigger;

fn ondemand(sampling_rate_us: u64) -> PolicyFacts {
    PolicyFacts {
        name: "policy0".to_owned(),
        folder: "/sys/devices/system/cpu/cpufreq/policy0".into(),
        governor: "ondemand".to_owned(),
        tunables: Some("/sys/devices/system/cpu/cpufreq/policy0/ondemand".into()),
        frequencies_khz: vec![200_000, 500_000, 800_000, 1_000_000, 1_200_000],
        sampling_rate_us: Some(sampling_rate_us),
        io_is_busy: true,
        ..PolicyFacts::default()
    }
}

fn schedutil(capacity: Option<u64>) -> PolicyFacts {
    PolicyFacts {
        governor: "schedutil".to_owned(),
        tunables: Some("/sys/devices/system/cpu/cpufreq/policy0/schedutil".into()),
        sampling_rate_us: None,
        io_is_busy: false,
        rate_limit: Some(("rate_limit_us", 10_000)),
        capacity,
        ..ondemand(0)
    }
}

fn interactive() -> PolicyFacts {
    PolicyFacts {
        governor: "interactive".to_owned(),
        tunables: Some("/sys/devices/system/cpu/cpufreq/interactive".into()),
        sampling_rate_us: None,
        boostpulse: true,
        boostpulse_duration_us: Some(80_000),
        hispeed_khz: Some(1_000_000),
        timer_rate_us: Some(20_000),
        above_hispeed_delay_us: Some(20_000),
        ..ondemand(0)
    }
}

fn device(policies: &[PolicyFacts]) -> LaunchDevice {
    LaunchDevice { policies: policies.to_vec(), cpu_count: 2, kernel: Some((6, 1)), ..LaunchDevice::default() }
}

fn kinds(facts: &LaunchDevice, config: &LaunchConfig) -> Vec<ActuatorKind> {
    LaunchPlan::of(facts, config).choices.iter().map(|choice| choice.kind).collect()
}

#[test]
fn each_device_gets_the_safest_good_enough_actuator() {
    use ActuatorKind::{Boostpulse, Flexrate, Kick, SamplingRate, ScalingMinFreq, Uclamp};
    let on = |kernel, uclamp, policy: PolicyFacts| LaunchDevice { kernel, uclamp, ..device(&[policy]) };
    let cases: [(&str, LaunchDevice, &[ActuatorKind]); 14] = [
        ("ondemand of 6.1", on(Some((6, 1)), false, ondemand(100_000)), &[Kick]),
        ("of an unknown version", on(None, false, ondemand(100_000)), &[Kick]),
        ("before the scheduler's hook", on(Some((4, 6)), false, ondemand(100_000)), &[SamplingRate]),
        (
            "Samsung's",
            on(Some((3, 0)), false, PolicyFacts { flexrate_request: true, ..ondemand(100_000) }),
            &[Flexrate],
        ),
        ("already fast", on(Some((6, 1)), false, ondemand(10_000)), &[]),
        ("interactive", on(Some((3, 10)), false, interactive()), &[Boostpulse]),
        ("schedutil", on(Some((6, 1)), false, schedutil(None)), &[ScalingMinFreq]),
        (
            "small and big CPUs with clamps",
            LaunchDevice {
                policies: vec![
                    schedutil(Some(300)),
                    PolicyFacts { name: "policy4".to_owned(), ..schedutil(Some(1024)) },
                ],
                ..on(Some((5, 15)), true, schedutil(None))
            },
            &[Uclamp],
        ),
        ("equal CPUs, schedutil with frequency invariance", on(Some((5, 15)), true, schedutil(Some(1024))), &[]),
        (
            "performance",
            on(Some((6, 1)), false, PolicyFacts { governor: "performance".to_owned(), ..ondemand(100_000) }),
            &[],
        ),
        (
            "one frequency",
            on(Some((6, 1)), false, PolicyFacts { frequencies_khz: vec![1_200_000], ..ondemand(100_000) }),
            &[],
        ),
        (
            "limits that cannot be read",
            on(Some((6, 1)), false, PolicyFacts { frequencies_khz: Vec::new(), ..ondemand(100_000) }),
            &[],
        ),
        (
            "a governor without tunables",
            on(
                Some((6, 1)),
                false,
                PolicyFacts { governor: "sprint".to_owned(), ..PolicyFacts { sampling_rate_us: None, ..ondemand(0) } },
            ),
            &[],
        ),
        ("no policy", LaunchDevice::default(), &[]),
    ];
    for (name, facts, expected) in cases {
        let plan = LaunchPlan::of(&facts, &LaunchConfig::default());
        assert_eq!(kinds(&facts, &LaunchConfig::default()), expected, "{name}: {}", plan.support.reason);
        assert_eq!(plan.support.state == SupportState::Active, !expected.is_empty(), "{name}");
        assert!(plan.support.state == SupportState::Active || !plan.support.advice.is_empty(), "{name}");
    }
}

#[test]
fn every_kind_of_actuator_can_be_used_alone() {
    let ask = |kind, policy: PolicyFacts, kernel| {
        let config = LaunchConfig { actuators: vec![kind], force: true, ..LaunchConfig::default() };
        let facts = LaunchDevice { kernel: Some(kernel), uclamp: true, ..device(&[policy]) };
        LaunchPlan::of(&facts, &config).choices.first().map(|choice| choice.actuator.clone())
    };
    let tunable = |path: &str| Target::Tunable(format!("/sys/devices/system/cpu/cpufreq/{path}").into());
    let lease = |path: &str, value: &str| Some(Actuator::Lease { target: tunable(path), value: value.to_owned() });
    assert_eq!(
        ask(ActuatorKind::Kick, ondemand(100_000), (6, 1)),
        Some(Actuator::Kick {
            window: Some(tunable("policy0/ondemand/io_is_busy")),
            sample: tunable("policy0/ondemand/sampling_rate")
        })
    );
    assert_eq!(
        ask(ActuatorKind::SamplingRate, ondemand(100_000), (3, 0)),
        lease("policy0/ondemand/sampling_rate", "10000")
    );
    let bounded = PolicyFacts { sampling_rate_minimum_us: Some(40_000), ..ondemand(100_000) };
    assert_eq!(ask(ActuatorKind::SamplingRate, bounded, (3, 0)), lease("policy0/ondemand/sampling_rate", "40000"));
    assert_eq!(
        ask(ActuatorKind::ScalingMinFreq, ondemand(100_000), (6, 1)),
        lease("policy0/scaling_min_freq", "1200000")
    );
    assert_eq!(
        ask(ActuatorKind::Boostpulse, interactive(), (3, 10)),
        Some(Actuator::Pulse {
            target: tunable("interactive/boostpulse"),
            value: "1".to_owned(),
            duration: Some(Duration::from_millis(80))
        })
    );
    assert_eq!(ask(ActuatorKind::Uclamp, schedutil(Some(1024)), (5, 15)), Some(Actuator::Clamp { minimum: 1024 }));
    let flexrate = PolicyFacts { flexrate_request: true, ..ondemand(100_000) };
    assert_eq!(
        ask(ActuatorKind::Flexrate, flexrate, (3, 0)),
        Some(Actuator::Pulse {
            target: tunable("policy0/ondemand/flexrate_request"),
            value: "10000 10".to_owned(),
            duration: Some(Duration::from_millis(100))
        })
    );
    assert_eq!(ask(ActuatorKind::Uclamp, ondemand(100_000), (6, 1)), None, "ondemand ignores utilisation clamps");
    let short = LaunchConfig { actuators: vec![ActuatorKind::SamplingRate], ..LaunchConfig::default() };
    assert!(kinds(&device(&[ondemand(10_000)]), &short).is_empty(), "the period is already that short");
}

#[test]
fn the_papers_arm_is_a_lease_of_50_ms() {
    let mut config = LaunchConfig { actuators: vec![ActuatorKind::SamplingRate], ..LaunchConfig::default() };
    config.sampling_rate.sampling_rate_us = 50_000;
    let plan = LaunchPlan::of(&LaunchDevice { kernel: Some((3, 0)), ..device(&[ondemand(100_000)]) }, &config);
    assert!(matches!(&plan.choices[0].actuator, Actuator::Lease { value, .. } if value == "50000"), "{plan:?}");
    // The paper's own range is 2 to 5 %.
    assert!((2.0..5.0).contains(&plan.choices[0].serves[0].1.gain_percent()), "{}", plan.support.reason);
}

#[test]
fn a_tunable_that_needs_no_change_is_reported() {
    let only = |kind| LaunchConfig { actuators: vec![kind], ..LaunchConfig::default() };
    for (kind, policy, said) in [
        (ActuatorKind::SamplingRate, ondemand(10_000), "policy0 needs no help: its sampling_rate is 10000 us"),
        (
            ActuatorKind::RateLimit,
            PolicyFacts { rate_limit: Some(("rate_limit_us", 0)), ..schedutil(None) },
            "policy0 needs no help: its rate_limit_us is 0 us",
        ),
        (ActuatorKind::SamplingRate, schedutil(None), "none of launch.actuators exists on this device"),
    ] {
        let support = LaunchPlan::of(&device(&[policy]), &only(kind)).support;
        assert_eq!(support.state, SupportState::Available);
        assert!(support.reason.starts_with(said), "{}", support.reason);
    }
}

#[test]
fn force_acts_without_a_predicted_gain() {
    let facts = device(&[ondemand(10_000)]);
    let off = LaunchPlan::of(&facts, &LaunchConfig::default());
    assert_eq!(off.support.state, SupportState::Available);
    assert!(
        off.support.reason.starts_with("nothing to gain on policy0: a typical launch loses 10.0 ms"),
        "{:?}",
        off.support
    );
    assert!(off.support.advice.contains("force = true"));
    let config = LaunchConfig { force: true, ..LaunchConfig::default() };
    assert_eq!(kinds(&facts, &config), [ActuatorKind::Kick]);
    let config = LaunchConfig { enabled: Enabled::Off, ..config };
    assert_eq!(LaunchPlan::of(&facts, &config).support.state, SupportState::Available, "off is off");
}

#[test]
fn clusters_get_separate_choices_and_one_common_report() {
    let named = |policy: PolicyFacts, name: &str, tunables: &str| PolicyFacts {
        name: name.to_owned(),
        folder: format!("/sys/devices/system/cpu/cpufreq/{name}").into(),
        tunables: Some(tunables.into()),
        ..policy
    };
    let shared = "/sys/devices/system/cpu/cpufreq/ondemand";
    let both = device(&[named(ondemand(100_000), "policy0", shared), named(ondemand(100_000), "policy4", shared)]);
    let plan = LaunchPlan::of(&both, &LaunchConfig::default());
    assert_eq!(plan.choices.len(), 1, "global tunables are written once");
    assert!(plan.support.reason.starts_with("kick on policy0 and policy4: "), "{}", plan.support.reason);
    assert_eq!(plan.tunables().len(), 2);

    let own = device(&[
        named(ondemand(100_000), "policy0", "/sys/devices/system/cpu/cpufreq/policy0/ondemand"),
        named(ondemand(100_000), "policy4", "/sys/devices/system/cpu/cpufreq/policy4/ondemand"),
        named(ondemand(10_000), "policy6", "/sys/devices/system/cpu/cpufreq/policy6/ondemand"),
    ]);
    let plan = LaunchPlan::of(&own, &LaunchConfig::default());
    assert_eq!(plan.choices.len(), 2);
    assert_eq!(plan.support.reason.matches("typical launch").count(), 1, "{}", plan.support.reason);
    assert_eq!(plan.tunables().len(), 4);
}

// Verifies ANDROID-1.
#[test]
fn what_nothing_can_begin_is_not_offered() {
    let phone = LaunchDevice { top_app: true, ..device(&[ondemand(100_000)]) };
    let with = |triggers: &[Trigger]| LaunchConfig { triggers: triggers.to_vec(), ..LaunchConfig::default() };
    let support = |config: &LaunchConfig| LaunchPlan::of(&phone, config).support;
    for (triggers, state, noticed) in [
        (&[][..], SupportState::Active, "by the top-app cpuset"),
        (&[Trigger::Announced], SupportState::Active, "by announcements alone"),
        (
            &[Trigger::Fork, Trigger::Uid],
            SupportState::Unsupported,
            "by nothing: launch.triggers has only process events",
        ),
    ] {
        let support = support(&with(triggers));
        assert!(support.state == state && support.reason.ends_with(noticed), "{support:?}");
        assert_eq!(support.advice.is_empty(), triggers.is_empty(), "{support:?}");
    }
    assert!(LaunchPlan::of(&phone, &with(&[Trigger::Exec])).choices.is_empty());
}

// Verifies ON-1.
#[test]
fn frequencies_are_left_to_another_manager_unless_configured() {
    let beside_tuned = LaunchDevice { managers: Some("tuned (process 7)".to_owned()), ..device(&[ondemand(100_000)]) };
    let plan = LaunchPlan::of(&beside_tuned, &LaunchConfig::default());
    assert!(plan.choices.is_empty() && plan.support.state == SupportState::Available, "{:?}", plan.support);
    assert!(plan.support.reason.starts_with("auto: this is left to tuned (process 7); kick on policy0"));
    assert_eq!(plan.support.advice, "Set launch.enabled = true to act beside it.");
    let wanted = LaunchConfig { enabled: Enabled::On, ..LaunchConfig::default() };
    assert_eq!(LaunchPlan::of(&beside_tuned, &wanted).support.state, SupportState::Active);
}
