//! What `enabled` means on this device: which mechanisms a daemon under this configuration would switch on, and why.

use serde::Serialize;

use super::Config;
use crate::device::Root;
use crate::device::other_managers::Found;
use crate::mechanism::enabled::decide;
use crate::mechanism::{Enabled, Job, SupportState, launch, placement};

/// Every mechanism that has an `enabled`, by its section in the configuration.
pub const SWITCHED: [&str; 4] = ["launch", "placement", "memory.zram", "memory.killer"];

/// One mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// One of [`SWITCHED`].
    pub mechanism: &'static str,
    /// What is configured.
    pub enabled: Enabled,
    /// Whether that switches it on here.
    pub on: bool,
    /// Why.
    pub reason: String,
}

/// What `config` switches on below `root`, where the managers `found` are there.
pub fn standings(root: &Root, config: &Config, found: &[Found]) -> [Standing; 4] {
    let zram = ("memory.zram", config.memory.zram.enabled, Job::Zram);
    let killer = ("memory.killer", config.memory.killer.enabled, Job::Killing);
    let decided = |(mechanism, enabled, job): (&'static str, Enabled, Job)| {
        let (on, reason) = decide(mechanism, enabled, job.doers(found).as_deref());
        Standing { mechanism, enabled, on, reason }
    };
    [of_launch(root, config, found), of_placement(root, config, found), decided(zram), decided(killer)]
}

fn of_launch(root: &Root, config: &Config, found: &[Found]) -> Standing {
    let config = &config.launch;
    let is_asked = config.enabled == Enabled::Auto && !config.force;
    let doers = if is_asked { Job::Frequency.doers(found) } else { None };
    let facts = launch::DeviceFacts { doers, ..launch::DeviceFacts::probe(root) };
    let support = launch::Plan::of(&facts, config).support;
    let on = support.state == SupportState::Active;
    Standing { mechanism: launch::NAME, enabled: config.enabled, on, reason: root.as_on_device(&support.reason) }
}

fn of_placement(root: &Root, config: &Config, found: &[Found]) -> Standing {
    let enabled = config.placement.enabled;
    let (on, reason) = decide(placement::NAME, enabled, Job::Priorities.doers(found).as_deref());
    let support = placement::support(root, &config.placement, true);
    match support.state {
        SupportState::Active | SupportState::Available => Standing { mechanism: placement::NAME, enabled, on, reason },
        SupportState::Unsupported => {
            Standing { mechanism: placement::NAME, enabled, on: false, reason: root.as_on_device(&support.reason) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::other_managers;
    use crate::device::root::root_of;

    const ONDEMAND: [(&str, &str); 7] = [
        ("proc/self/schedstat", "1 2 3\n"),
        ("sys/devices/system/cpu/online", "0\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "200000\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1200000\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate", "100000\n"),
    ];
    const TUNED: (&str, &str) = ("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "7\n");

    fn on(files: &[(&str, &str)], text: &str) -> Vec<(&'static str, bool)> {
        let (_folder, root) = root_of(files);
        let config = Config::parse(text).unwrap();
        let found = other_managers::find(&root);
        standings(&root, &config, &found).into_iter().map(|it| (it.mechanism, it.on)).collect()
    }

    #[test]
    fn by_itself_only_what_is_predicted_to_help_and_can_be_undone_is_on() {
        let off = SWITCHED.map(|name| (name, false));
        assert_eq!(on(&[], ""), off);
        let mut launch_alone = off;
        launch_alone[0].1 = true;
        assert_eq!(on(&ONDEMAND, ""), launch_alone);
        let beside_tuned: Vec<_> = ONDEMAND.into_iter().chain([TUNED]).collect();
        assert_eq!(on(&beside_tuned, ""), off);
        for text in ["[launch]\nenabled = true", "[launch]\nforce = true"] {
            assert_eq!(on(&beside_tuned, text), launch_alone, "a person's word counts: {text}");
        }
    }

    #[test]
    fn what_a_person_switches_on_is_on_where_the_kernel_allows_it() {
        let all = "placement.enabled = true\nmemory.zram.enabled = true\nmemory.killer.enabled = true\n";
        assert_eq!(on(&ONDEMAND, all), SWITCHED.map(|name| (name, true)));
        assert!(!on(&[], all)[1].1, "without schedstat nobody is seen");
    }
}
