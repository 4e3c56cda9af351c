//! What `enabled` means on this device: which mechanisms a daemon under this configuration would switch on, and why.

use serde::Serialize;

use super::Config;
use brisk_mechanism::memory::parts::{self, KillerState, ZramState};
use brisk_mechanism::{Enabled, Job, Part, SupportState, launch, lookup, memory, placement};
use brisk_sys::Root;
use brisk_sys::binder::cache;
use brisk_sys::system::other_managers::FoundManager;

/// Every mechanism that has an `enabled`, by its section in the configuration.
pub const SWITCHABLE: [&str; 5] = ["launch", "placement", parts::ZRAM, parts::KILLER, "lookup"];

/// One mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Activation {
    /// One of [`SWITCHABLE`].
    pub mechanism: &'static str,
    /// What is configured.
    pub enabled: Enabled,
    /// Whether that switches it on here.
    pub on: bool,
    /// Why.
    pub reason: String,
    /// What it gains, as far as that is known before it runs.
    pub gain: String,
    /// What it changes while it is on.
    pub changes: String,
}

impl Activation {
    /// The reason, to follow a mention of `enabled = "auto"` or the word "on" or "off".
    pub fn why(&self) -> &str {
        self.reason.strip_prefix("auto: ").unwrap_or(&self.reason)
    }
}

/// What `config` switches on below `root`, where the managers `found` run.
pub fn activations(root: &Root, config: &Config, found: &[FoundManager]) -> [Activation; 5] {
    [
        of_launch(root, config, found),
        of_placement(root, config, found),
        of_zram(root, config, found),
        of_killer(config, found),
        of_lookup(root, config),
    ]
}

fn of_launch(root: &Root, config: &Config, found: &[FoundManager]) -> Activation {
    let config = &config.launch;
    let managers = if config.defers() { Job::Frequency.managers(found) } else { None };
    let facts = launch::LaunchDevice { managers, ..launch::LaunchDevice::probe(root) };
    let plan = launch::LaunchPlan::of(&facts, config);
    let on = plan.support.state == SupportState::Active;
    let reason = root.with_device_paths(&plan.support.reason);
    // What it would gain and change is shown also where the user has disabled it or another manager does its job.
    let plan = launch::LaunchPlan::of(&facts, &launch::LaunchConfig { enabled: Enabled::On, ..config.clone() });
    let gains = plan.choices.iter().flat_map(|choice| &choice.serves).map(|(_, prediction)| prediction.gain_percent());
    let gain = match gains.reduce(f64::max) {
        Some(percent) => format!("a typical launch is {percent:.1} % shorter (predicted)"),
        None => "none is predicted as the device is now".to_owned(),
    };
    let written: Vec<String> = plan.tunables().iter().map(ToString::to_string).collect();
    let changes = match (plan.choices.is_empty(), written.is_empty()) {
        (true, _) => "nothing".to_owned(),
        (false, true) => "utilisation clamps of launched processes, for a launch".to_owned(),
        (false, false) => format!("{}, for a launch", written.join(", ")),
    };
    Activation { mechanism: launch::NAME, enabled: config.enabled, on, reason, gain, changes }
}

fn of_placement(root: &Root, config: &Config, found: &[FoundManager]) -> Activation {
    let enabled = config.placement.enabled;
    let managers = Job::Priorities.managers(found);
    let (on, reason) = placement::decision(root, &config.placement, managers.as_deref());
    let support = placement::support(root, &config.placement, true, managers.as_deref());
    let (on, reason) = match support.state {
        SupportState::Active | SupportState::Available => (on, reason),
        SupportState::Unsupported => (false, root.with_device_paths(&support.reason)),
    };
    let (gain, changes) = match on && enabled == Enabled::Auto {
        true => (
            "the foreground waits less for CPU-bound sessions or units, and with one CPU while an application opens; each other step is \
             tried, and reverted where it does not help",
            "nice values of sessions, weights of units; masks, nice values and control groups of threads in the background",
        ),
        false => (
            "not known before it runs: each step is tried, and reverted where it does not help",
            "masks, nice values and control groups of threads in the background",
        ),
    };
    let (gain, changes) = (gain.to_owned(), changes.to_owned());
    Activation { mechanism: placement::NAME, enabled, on, reason, gain, changes }
}

fn of_zram(root: &Root, config: &Config, found: &[FoundManager]) -> Activation {
    let config = &config.memory.zram;
    let facts = memory::MemoryDevice::probe(root);
    let (managers, obstacle) = (Job::Zram.managers(found), parts::obstacle(&facts, config));
    let state = ZramState { managers: managers.as_deref(), obstacle: obstacle.as_deref(), ..ZramState::default() };
    let Part { on, reason, .. } = parts::zram(config, state);
    let plan = memory::MemoryPlan::from_config(&facts, config);
    let planned: Vec<String> = plan
        .changes()
        .map(|setting| format!("{} {}", setting.name, setting.planned.as_deref().unwrap_or_default()))
        .collect();
    let is_nothing = planned.is_empty() || plan.refusal().is_some();
    let changes = if is_nothing { "nothing".to_owned() } else { planned.join(", ") };
    let gain = "more applications stay in memory; how many depends on them".to_owned();
    Activation { mechanism: parts::ZRAM, enabled: config.enabled, on, reason, gain, changes }
}

fn of_killer(config: &Config, found: &[FoundManager]) -> Activation {
    let config = &config.memory.killer;
    let Part { on, reason, .. } = parts::killer(config, Job::Killing.managers(found).as_deref(), KillerState::Unknown);
    let gain = "the device answers where it would wait for memory; how often depends on the applications".to_owned();
    let changes = "kills processes when memory is short".to_owned();
    Activation { mechanism: parts::KILLER, enabled: config.enabled, on, reason, gain, changes }
}

fn of_lookup(root: &Root, config: &Config) -> Activation {
    let config = &config.lookup;
    let (wanted, reason) = lookup::control::decision(config);
    let support = lookup::support(root);
    let changes = lookup::control::changes(config, &cache::status(root).unwrap_or_default());
    let (on, reason) = match (&changes, support.state) {
        (_, SupportState::Unsupported) => (false, root.with_device_paths(&support.reason)),
        (Err(obstacle), _) if wanted => (false, obstacle.clone()),
        _ => (wanted, reason),
    };
    let planned: Vec<String> = changes.unwrap_or_default().iter().map(|change| change.target.to_string()).collect();
    let changes = if on && !planned.is_empty() { planned.join(", ") } else { "nothing".to_owned() };
    let gain = "a lookup that the driver answers does not wait for the context manager; how many do is what \
                `brisk lookup record` tells";
    Activation { mechanism: lookup::control::NAME, enabled: config.enabled, on, reason, gain: gain.to_owned(), changes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::system::other_managers;
    use brisk_sys::test_trees::{ONDEMAND, root_of};

    const BINDER: [(&str, &str); 6] = [
        ("dev/binder", ""),
        ("sys/kernel/binder_cache/binder/mode", "off\n"),
        ("sys/kernel/binder_cache/binder/state", "waiting\n"),
        ("sys/kernel/binder_cache/binder/policy", "lru\n"),
        ("sys/kernel/binder_cache/binder/capacity", "2048\n"),
        ("sys/kernel/binder_cache/binder/stats", "hits 0\nmisses 0\n"),
    ];
    const ZRAM: [(&str, &str); 3] = [
        ("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n"),
        ("sys/block/zram0/disksize", "0\n"),
        ("sys/block/zram0/comp_algorithm", "lzo [lz4]\n"),
    ];
    const TUNED: (&str, &str) = ("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "7\n");

    type File = (&'static str, &'static str);

    /// A device under ondemand with schedstat, and `more`.
    fn device(more: &[File]) -> Vec<File> {
        [&[("proc/self/schedstat", "1 2 3\n")], &ONDEMAND[..], more].concat()
    }

    fn on(files: &[File], text: &str) -> Vec<(&'static str, bool)> {
        let (_folder, root) = root_of(files);
        let config = Config::parse(text).unwrap();
        let found = other_managers::find(&root);
        activations(&root, &config, &found).into_iter().map(|it| (it.mechanism, it.on)).collect()
    }

    // Verifies ON-1.
    #[test]
    fn auto_enables_only_what_should_help_and_can_be_undone() {
        let off = SWITCHABLE.map(|name| (name, false));
        assert_eq!(on(&[], ""), off);
        let mut launch_alone = off;
        launch_alone[0].1 = true;
        assert_eq!(on(&device(&[]), ""), launch_alone);
        let beside_tuned = device(&[TUNED]);
        assert_eq!(on(&beside_tuned, ""), off);
        for text in ["[launch]\nenabled = true", "[launch]\nforce = true"] {
            assert_eq!(on(&beside_tuned, text), launch_alone, "the user's setting takes precedence: {text}");
        }
    }

    // Verifies ON-3.
    #[test]
    fn a_disabled_launch_shows_what_it_would_gain() {
        let (_folder, root) = root_of(&device(&[]));
        let of = |text: &str| of_launch(&root, &Config::parse(text).unwrap(), &[]);
        let (auto, off) = (of(""), of("launch.enabled = false"));
        assert!(auto.on && !off.on && off.reason.contains("launch.enabled = false"), "{off:?}");
        assert_eq!((&off.gain, &off.changes), (&auto.gain, &auto.changes));
        assert!(off.gain.contains("shorter (predicted)") && off.changes.contains("sampling_rate"), "{off:?}");
    }

    // Verifies ON-1.
    #[test]
    fn auto_enables_placement_where_sessions_compete() {
        let sessions =
            [("proc/sys/kernel/sched_autogroup_enabled", "1\n"), ("proc/7/autogroup", "/autogroup-12 nice 0\n")];
        let ananicy = ("sys/fs/cgroup/system.slice/ananicy.service/cgroup.procs", "7\n");
        for (files, text, expected) in [
            (&sessions[..], "", true),
            (&[], "", false),
            (&[sessions[0], sessions[1], ananicy], "", false),
            (&[sessions[0], sessions[1], ananicy], "placement.enabled = true", true),
            (&sessions, "placement.enabled = false", false),
            (&sessions, "placement.sessions = false", false),
        ] {
            assert_eq!(on(&device(files), text)[1], ("placement", expected), "{files:?} {text}");
        }
    }

    // Verifies ON-1.
    #[test]
    fn what_the_user_enables_is_on_where_the_kernel_allows_it() {
        let all = "placement.enabled = true\nmemory.zram.enabled = true\nmemory.killer.enabled = true\nlookup.enabled = true\n";
        let with_binder = device(&[&BINDER[..], &ZRAM].concat());
        assert_eq!(on(&with_binder, all), SWITCHABLE.map(|name| (name, true)));
        assert!(!on(&device(&[]), all)[4].1, "without the driver's cache nothing is set");
        for text in ["mode = \"off\"", "context = \"hwbinder\""] {
            let text = format!("[lookup]\nenabled = true\n{text}\n");
            assert!(!on(&with_binder, &text)[4].1, "{text}");
        }
        assert!(!on(&[], all)[1].1, "without schedstat no thread can be sampled");
        assert!(!on(&device(&[]), all)[2].1, "without zram nothing is set up");
    }
}
