//! What begins a launch on this device: as configured or, where that is left to the device, what it tells of.

use super::config::{LaunchConfig, Trigger};
use super::filter::FilterConfig;
use super::probe::LaunchDevice;
use crate::{ProcessEventKind, ProcessEventKinds, ProcessFacts};

/// What tells of launches where Android moves applications between cpusets.
pub const TOP_APP: &str = "the top-app cpuset";

/// The triggers of `config`; none in it are those that the device has.
pub fn chosen(config: &LaunchConfig, facts: &LaunchDevice) -> Vec<Trigger> {
    if !config.triggers.is_empty() {
        return config.triggers.clone();
    }
    // An application that is resumed comes to the foreground and starts no process. Where no cpuset tells of that, a client may.
    let told = [Trigger::Foreground, Trigger::Announced];
    let by_events: &[Trigger] = if facts.process_events { &[Trigger::Fork, Trigger::Exec] } else { &[] };
    by_events.iter().copied().chain(told).collect()
}

/// The kinds of process events that `triggers` go by.
pub(super) fn kinds(triggers: &[Trigger]) -> ProcessEventKinds {
    let kind_of = |trigger: &Trigger| match trigger {
        Trigger::Fork => Some(ProcessEventKind::Fork),
        Trigger::Exec => Some(ProcessEventKind::Exec),
        Trigger::Comm => Some(ProcessEventKind::Comm),
        Trigger::Uid => Some(ProcessEventKind::Uid),
        Trigger::Foreground | Trigger::Announced => None,
    };
    triggers.iter().filter_map(kind_of).fold(ProcessEventKinds::default(), ProcessEventKinds::with)
}

/// What `filter` asks about a forked process, and, where it gets a clamp of its own, which life of its number it is.
pub(super) fn facts_of_forks(filter: &FilterConfig, clamps: bool) -> ProcessFacts {
    ProcessFacts {
        stat: clamps || !filter.commands.is_empty() || !filter.excluded_commands.is_empty(),
        parent_command: !filter.parents.is_empty(),
        uid: !filter.uids.is_empty(),
        cgroup: !filter.cgroups.is_empty(),
    }
}

/// How launches are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noticing {
    /// The device tells of them, in this way.
    ByDevice(&'static str),
    /// A program has to tell of them.
    WhenTold,
    /// By none of the triggers.
    Never,
}

/// How `triggers` notice a launch on a device of `facts`.
pub fn noticing(triggers: &[Trigger], facts: &LaunchDevice) -> Noticing {
    let has = |wanted: fn(&Trigger) -> bool| triggers.iter().any(wanted);
    if facts.process_events && has(|trigger| !trigger.can_be_told()) {
        Noticing::ByDevice("process events")
    } else if facts.top_app && has(|trigger| *trigger == Trigger::Foreground) {
        Noticing::ByDevice(TOP_APP)
    } else if has(Trigger::can_be_told) {
        Noticing::WhenTold
    } else {
        Noticing::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ANDROID-1.
    #[test]
    fn the_default_follows_the_device() {
        use Trigger::{Announced, Exec, Foreground, Fork};
        let facts = |process_events, top_app| LaunchDevice { process_events, top_app, ..LaunchDevice::default() };
        for (facts, expected, noticed) in [
            (facts(true, false), &[Fork, Exec, Foreground, Announced][..], Noticing::ByDevice("process events")),
            (facts(true, true), &[Fork, Exec, Foreground, Announced], Noticing::ByDevice("process events")),
            (facts(false, true), &[Foreground, Announced], Noticing::ByDevice(TOP_APP)),
            (facts(false, false), &[Foreground, Announced], Noticing::WhenTold),
        ] {
            let triggers = chosen(&LaunchConfig::default(), &facts);
            assert_eq!(triggers, expected, "{facts:?}");
            assert_eq!(noticing(&triggers, &facts), noticed, "{facts:?}");
            let config = LaunchConfig { triggers: vec![Exec], ..LaunchConfig::default() };
            assert_eq!(chosen(&config, &facts), [Exec], "what is configured is not changed");
            let noticed = if facts.process_events { noticed } else { Noticing::Never };
            assert_eq!(noticing(&[Exec], &facts), noticed, "{facts:?}");
        }
    }
}
