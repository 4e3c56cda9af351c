use std::any::Any;

use super::*;
use crate::simulated::Kernel;
use crate::{Enabled, Mechanism, ProbeContext, Settings};
use brisk_sys::Root;
use brisk_sys::test_trees::root_of;

struct Section(MemoryConfig);

impl Settings for Section {
    fn section(&self, name: &str) -> Option<&dyn Any> {
        (name == NAME).then_some(&self.0 as &dyn Any)
    }
}

fn at(seconds: u64) -> BootTime {
    BootTime::from_milliseconds(seconds * 1000)
}

fn zram(value: &str) -> Change {
    let target = match value {
        "lz4" => Target::ZramAlgorithm("zram0".into()),
        "4096" => Target::ZramSize("zram0".into()),
        _ => Target::ZramSwap("zram0".into()),
    };
    Change { target, value: value.to_owned(), reason: "the plan".to_owned() }
}

fn with_killer(daily_kib: u64) -> MemoryConfig {
    let mut config = MemoryConfig::default();
    config.killer.enabled = Enabled::On;
    config.killer.prefetch = true;
    config.killer.writeback.daily_kib = daily_kib;
    config
}

/// The policy on a simulated device that refuses the given values and releases.
struct Device {
    policy: MemoryPolicy,
    kernel: Kernel,
    actions: Vec<String>,
}

impl Device {
    fn refusing(refuses: &'static [&'static str]) -> Self {
        let refuses = move |_: BootTime, action: &Action| {
            let name = match action {
                Action::Lease { value, .. } => value.clone(),
                Action::Release { target } => format!("release {target}"),
                _ => String::new(),
            };
            refuses.contains(&name.as_str()).then(|| Effect::Refused("EBUSY".to_owned()))
        };
        Self { policy: MemoryPolicy::default(), kernel: Kernel::refusing(refuses), actions: Vec::new() }
    }

    fn carry_out(&mut self, mut decisions: Vec<Decision>) {
        while !decisions.is_empty() {
            let carry_out = |decision| self.kernel.carry_out(at(1), decision, &mut |_| Ok(()));
            let outcomes: Vec<_> = decisions.iter().map(carry_out).collect();
            self.actions.extend(decisions.iter().map(|decision| match &decision.action {
                Action::Lease { value, .. } => value.clone(),
                Action::Release { target } => format!("release {target}"),
                other => panic!("{other:?}"),
            }));
            decisions.clear();
            self.policy.on_outcomes(at(1), &outcomes, &mut decisions);
        }
    }

    fn plan(&mut self, values: &[&str]) {
        let mut decisions = Vec::new();
        self.policy.plan.begin(values.iter().map(|value| zram(value)).collect());
        self.policy.advance(&mut decisions);
        self.carry_out(decisions);
    }

    /// Applies another configuration on a device that offers nothing.
    fn configure(&mut self, config: MemoryConfig) {
        self.probe(&[], config, true);
    }

    /// Probes a device that has `files`.
    fn probe(&mut self, files: &[(&str, &str)], config: MemoryConfig, is_new_configuration: bool) {
        let (_folder, root) = root_of(files);
        let settings = Section(config);
        let probe_context = ProbeContext { root: &root, settings: &settings, is_new_configuration };
        for step in [
            MemoryPolicy::prepare_reconfigure,
            |policy: &mut MemoryPolicy, around: &ProbeContext<'_>, decisions: &mut _| {
                policy.reconfigure(at(2), around, decisions);
            },
        ] {
            let mut decisions = Vec::new();
            step(&mut self.policy, &probe_context, &mut decisions);
            self.carry_out(decisions);
        }
    }

    fn send(&mut self, now: BootTime, event: &Event) {
        let mut decisions = Vec::new();
        self.policy.on_event(now, event, &mut decisions);
        self.carry_out(decisions);
    }

    /// Lines of the killer are observations where telemetry is on.
    fn observed_kills(&mut self) {
        let record = r#"{"at":5,"pid":9,"name":"mail","oom_score_adj":900,"mode":"brisk","cause":"c","reason":"r","headroom_kib":-7,
            "predicted_kib":50,"returned_kib":40,"rss_kib":80,"rss_anonymous_kib":50,"swap_kib":10,"swap_ratio":0.25,"pss_kib":null,
            "swap_pss_kib":null,"estimated_in_ns":null,"audited_in_ns":null,"decided_after_us":900,"by_event":true,"back_after_us":null}"#;
        let kill = Observation::Kill {
            application: "mail".to_owned(),
            freed_kib: Some(40),
            oom_score_adj: 900,
            headroom_kib: -7,
        };
        for (is_observed, line, expected) in [
            (false, format!("killed {record}"), vec![]),
            (true, format!("killed {record}"), vec![kill]),
            (true, "ready".to_owned(), vec![]),
            (true, "killed {}".to_owned(), vec![]),
        ] {
            self.policy.observe(is_observed);
            self.send(at(3), &Event::ChildSaid { line });
            let mut observations = Vec::new();
            self.policy.take_observations(&mut observations);
            assert_eq!(observations, expected);
        }
    }

    fn asked(&mut self) -> Vec<Question> {
        let mut questions = Vec::new();
        self.policy.take_questions(&mut questions);
        questions
    }
}

// Verifies MEMORY-2.
#[test]
fn the_plan_is_held_one_change_after_the_other() {
    let mut device = Device::refusing(&[]);
    device.plan(&["lz4", "4096", "on 100"]);
    assert_eq!(device.actions, ["lz4", "4096", "on 100"]);
    assert_eq!(device.kernel.held().len(), 3);
    let reason = &device.policy.support().reason;
    assert!(reason.contains("zram0") && reason.contains("is lz4") && reason.contains("is on 100"), "{reason}");
    assert_eq!(device.policy.support().state, SupportState::Active);
    device.configure(MemoryConfig {
        zram: super::super::config::ZramConfig { size_kib: 1, ..Default::default() },
        ..Default::default()
    });
    let released: Vec<&String> = device.actions.iter().filter(|action| action.starts_with("release")).collect();
    assert_eq!(released.len(), 3);
    assert!(
        device.kernel.held().is_empty() && device.actions[3].contains("swap"),
        "the latest first: {:?}",
        device.actions
    );
    assert_ne!(device.policy.support().state, SupportState::Active);
}

// Verifies MEMORY-2.
#[test]
fn zram_is_set_up_when_its_owner_has_left_it() {
    const SWAPS: (&str, &str) = ("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
    const OWNED: (&str, &str) =
        ("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 262140 90000 100\n");
    let device_with = |swaps, disk_size| {
        [
            swaps,
            ("/proc/meminfo", "MemTotal: 500000 kB\nMemFree: 300000 kB\nMemAvailable: 400000 kB\n"),
            ("/proc/sys/vm/swappiness", "60\n"),
            ("/sys/block/zram0/disksize", disk_size),
            ("/sys/block/zram0/comp_algorithm", "[lzo] lz4\n"),
        ]
    };
    let (owned, free) = (device_with(OWNED, "268435456\n"), device_with(SWAPS, "0\n"));
    let mut config = with_killer(0);
    config.zram.enabled = Enabled::On;
    let mut device = Device::refusing(&[]);
    device.probe(&owned, config.clone(), true);
    let killer = device.policy.child().cloned();
    device.probe(&owned, config.clone(), false);
    assert_eq!((device.actions.join(" ").as_str(), device.policy.child().cloned()), ("100", killer.clone()));
    device.probe(&free, config.clone(), false);
    let swap = Target::ZramSwap("zram0".into());
    assert!(device.kernel.held().contains_key(&swap), "{:?}", device.actions);
    assert!(device.actions[1].starts_with("release /proc/sys/vm/swappiness"), "{:?}", device.actions);
    assert_ne!(device.policy.child().cloned(), killer, "the killer starts again, beside the new device");
    let count = device.actions.len();
    device.probe(&free, config, false);
    assert_eq!(device.actions.len(), count, "once");
}

// Verifies MEMORY-2.
#[test]
fn a_refusal_ends_the_plan_and_restores_what_was_done() {
    let mut device = Device::refusing(&["4096"]);
    device.plan(&["lz4", "4096", "on 100"]);
    assert_eq!(device.actions[..2], ["lz4", "4096"]);
    assert!(device.actions[2].starts_with("release") && device.actions.len() == 3, "{:?}", device.actions);
    assert!(device.kernel.held().is_empty() && device.policy.activity().is_none());
}

// Verifies MEMORY-2.
#[test]
fn a_failed_restore_is_reported_until_it_succeeds() {
    let algorithm = Target::ZramAlgorithm("zram0".into());
    let release: &'static str = format!("release {algorithm}").leak();
    let mut device = Device::refusing(vec!["4096", release].leak());
    device.plan(&["lz4", "4096"]);
    let reason = device.policy.support().reason.clone();
    assert!(reason.contains("is still lz4: restore failed"), "{reason}");
    device.policy.on_outcomes(
        at(9),
        &[Outcome { target: algorithm, effect: Effect::Written, held: None }],
        &mut Vec::new(),
    );
    assert_ne!(device.policy.support().state, SupportState::Active);
}

// Verifies MEMORY-2.
#[test]
fn the_killer_starts_after_the_plan_and_on_a_new_configuration() {
    let mut device = Device::refusing(&[]);
    device.configure(with_killer(0));
    let child = device.policy.child().unwrap().clone();
    assert_eq!((child.subcommand, child.arguments.len()), (KILLER, 2));
    device.send(at(3), &Event::Child { pid: Some(7) });
    assert_eq!(device.policy.support().reason, "the killer is process 7");
    device.observed_kills();
    // The killer fetches the foreground's pages back from swap.
    let foreground = Event::Foreground { processes: vec![Process { pid: 9, ..Process::default() }] };
    device.send(at(4), &foreground);
    let mut lines = Vec::new();
    device.policy.take_child_input(&mut lines);
    assert_eq!(lines, ["front 9"]);
    device.configure(with_killer(0));
    assert_eq!(device.policy.child(), Some(&child), "nothing has changed");
    device.configure(MemoryConfig { restraint_s: 60, ..with_killer(0) });
    assert!(device.policy.child().is_some_and(|other| *other != child), "a new configuration starts a new killer");
    device.configure(MemoryConfig::default());
    assert_eq!(device.policy.child(), None);
    assert!(!device.policy.interest().foreground);
}

// Verifies MEMORY-2.
#[test]
fn the_kernel_limits_writeback_where_no_other_limit_is_set() {
    const SWITCH: &str = "/sys/block/zram0/writeback_limit_enable";
    let switch = Target::Tunable(SWITCH.into());
    for (found, refuses, limits) in
        [(Some(switch.clone()), &[][..], true), (Some(switch.clone()), &["1"][..], false), (None, &[][..], false)]
    {
        let mut device = Device::refusing(refuses);
        device.configure(with_killer(1024));
        assert_eq!(device.policy.child(), None, "the kernel's limit comes first");
        assert_eq!(device.asked(), [Question::WritebackLimit]);
        device.send(at(3), &Event::Facts(Facts::WritebackLimit { switch: found }));
        let arguments = &device.policy.child().unwrap().arguments;
        assert_eq!(arguments.contains(&"--limits".to_owned()), limits, "{arguments:?}");
        assert_eq!(device.kernel.held().contains_key(&switch), limits);
        device.configure(MemoryConfig::default());
        assert!(device.kernel.held().is_empty() && device.policy.child().is_none());
    }
}

// Verifies MEMORY-6.
#[test]
fn the_killer_is_told_if_a_backing_device_is_configured() {
    for backing_device in ["", "/dev/mmcblk0p9"] {
        let mut device = Device::refusing(&[]);
        let mut config = with_killer(1024);
        config.zram.backing_device = backing_device.to_owned();
        device.configure(config);
        device.send(at(3), &Event::Facts(Facts::WritebackLimit { switch: None }));
        let arguments = &device.policy.child().unwrap().arguments;
        assert_eq!(arguments.contains(&"--names-backing".to_owned()), !backing_device.is_empty(), "{arguments:?}");
    }
}

// Verifies MEMORY-2.
#[test]
fn groups_are_limited_once_while_tasks_wait_for_memory() {
    let mut device = Device::refusing(&[]);
    device.configure(MemoryConfig { restraint_s: 60, ..MemoryConfig::default() });
    assert_eq!(device.policy.interest().stall, Some(STALL));
    device.send(at(3), &Event::StallsWatched { is_on: true });
    assert!(device.policy.support().reason.contains("held back"));
    let group = |folder: &str, resident_kib, stalled_us, lowest_adj| GroupSample {
        folder: folder.into(),
        resident_kib,
        swap_kib: 0,
        stalled_us,
        is_free: true,
        lowest_adj,
    };
    for second in 1..=4u64 {
        device.send(at(second), &Event::MemoryStall);
        assert_eq!(device.asked(), [Question::MemoryGroups]);
        let groups = vec![group("/cg/front", 9000, second * 500_000, 0), group("/cg/back", second * 20_000, 0, 900)];
        device.send(at(second), &Event::Facts(Facts::MemoryGroups { groups }));
    }
    assert_eq!(device.actions, [((40_000u64 + 1024) << 10).to_string()], "once, while it is held");
}

// Verifies ON-4.
#[test]
fn what_is_off_is_called_off() {
    let zram = [
        ("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n"),
        ("proc/meminfo", "MemTotal: 1000000 kB\nMemFree: 500000 kB\n"),
        ("sys/block/zram0/disksize", "0\n"),
        ("sys/block/zram0/comp_algorithm", "lzo [lz4]\n"),
    ];
    let mut config = MemoryConfig::default();
    config.zram.size_kib = 65_536;
    let mut device = Device::refusing(&[]);
    device.probe(&zram, config.clone(), true);
    let reason = device.policy.support().reason.clone();
    let expected = "off (zram, killer); zram0 is there and not in use; `brisk memory apply` would set ";
    assert!(reason.starts_with(expected) && reason.contains("zram size 65536 KiB"), "{reason}");
    config.zram.enabled = Enabled::On;
    device.probe(&zram, config, true);
    let reason = device.policy.support().reason.clone();
    assert!(reason.contains("size of zram0 is 65536 KiB") && !reason.contains("off"), "{reason}");
}

// Verifies ON-4.
#[test]
fn each_part_reports_whether_it_is_on_and_why() {
    let mut device = Device::refusing(&[]);
    let parts = |device: &Device| -> Vec<(String, bool)> {
        device.policy.parts().iter().map(|part| (part.reason.clone(), part.on)).collect()
    };
    device.configure(MemoryConfig::default());
    assert!(parts(&device).iter().all(|(reason, on)| !on && reason.starts_with("auto: ")), "{:?}", parts(&device));
    let mut both = with_killer(0);
    both.zram.enabled = Enabled::On;
    device.configure(both);
    let [(zram, zram_on), (killer, killer_on)] = &parts(&device)[..] else { panic!() };
    assert!(!zram_on && zram.contains("memory.zram.enabled is true, but /proc/swaps does not exist"), "{zram}");
    assert!(!killer_on && killer.contains("does not run yet"), "{killer}");
    device.send(at(3), &Event::Child { pid: Some(7) });
    assert_eq!(parts(&device)[1], ("memory.killer.enabled is true; it is process 7".to_owned(), true));
}

// Verifies ON-4.
#[test]
fn other_managers_are_read_again_when_a_client_asks() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let mut device = Device::refusing(&[]);
    device.configure(MemoryConfig::default());
    let mut killer_at = |seconds| {
        device.policy.refresh(at(seconds), &root);
        device.policy.parts()[1].reason.clone()
    };
    assert!(killer_at(10).contains("cannot be restored"));
    let group = folder.path().join("sys/fs/cgroup/system.slice/earlyoom.service");
    std::fs::create_dir_all(&group).unwrap();
    std::fs::write(group.join("cgroup.procs"), "7\n").unwrap();
    assert!(killer_at(11).contains("cannot be restored"), "/proc is not read for each request");
    assert!(killer_at(15).contains("left to earlyoom (/sys/fs/cgroup/system.slice/earlyoom.service)"));
    std::fs::remove_dir_all(&group).unwrap();
    assert!(killer_at(20).contains("cannot be restored"));
}
