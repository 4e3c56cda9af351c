//! What starts a launch on this device: the configured triggers, or those that the device supports.

use super::config::{LaunchConfig, Trigger};
use super::filter::FilterConfig;
use super::probe::LaunchDevice;
use crate::{ProcessEventKind, ProcessEventKinds, ProcessFacts};

/// The source of foreground changes where Android moves applications between cpusets.
pub const TOP_APP: &str = "the top-app cpuset";

/// The triggers of `config`; if it has none, those that the device supports.
pub fn effective(config: &LaunchConfig, facts: &LaunchDevice) -> Vec<Trigger> {
    if !config.triggers.is_empty() {
        return config.triggers.clone();
    }
    // A resumed application comes to the foreground and starts no process. Where no cpuset shows that, a client may report it.
    let client_triggers = [Trigger::Foreground, Trigger::Announced];
    let by_events: &[Trigger] = if facts.process_events { &[Trigger::Fork, Trigger::Exec] } else { &[] };
    by_events.iter().copied().chain(client_triggers).collect()
}

/// The kinds of process events that `triggers` need.
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

/// The facts that `filter` needs about a forked process, and its start time where it gets its own clamp.
pub(super) fn facts_of_forks(filter: &FilterConfig, clamps: bool) -> ProcessFacts {
    ProcessFacts {
        stat: clamps || !filter.commands.is_empty() || !filter.excluded_commands.is_empty(),
        parent_command: !filter.parents.is_empty(),
        uid: !filter.uids.is_empty(),
        cgroup: !filter.cgroups.is_empty(),
    }
}

/// How launches are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// By the device, from this source.
    ByDevice(&'static str),
    /// Only if a program reports them.
    ReportedOnly,
    /// No trigger works here.
    Never,
}

/// How `triggers` detect a launch on a device with `facts`.
pub fn detection(triggers: &[Trigger], facts: &LaunchDevice) -> Detection {
    let has = |wanted: fn(&Trigger) -> bool| triggers.iter().any(wanted);
    if facts.process_events && has(|trigger| !trigger.is_client_report()) {
        Detection::ByDevice("process events")
    } else if facts.top_app && has(|trigger| *trigger == Trigger::Foreground) {
        Detection::ByDevice(TOP_APP)
    } else if has(Trigger::is_client_report) {
        Detection::ReportedOnly
    } else {
        Detection::Never
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
            (facts(true, false), &[Fork, Exec, Foreground, Announced][..], Detection::ByDevice("process events")),
            (facts(true, true), &[Fork, Exec, Foreground, Announced], Detection::ByDevice("process events")),
            (facts(false, true), &[Foreground, Announced], Detection::ByDevice(TOP_APP)),
            (facts(false, false), &[Foreground, Announced], Detection::ReportedOnly),
        ] {
            let triggers = effective(&LaunchConfig::default(), &facts);
            assert_eq!(triggers, expected, "{facts:?}");
            assert_eq!(detection(&triggers, &facts), noticed, "{facts:?}");
            let config = LaunchConfig { triggers: vec![Exec], ..LaunchConfig::default() };
            assert_eq!(effective(&config, &facts), [Exec], "what is configured is not changed");
            let noticed = if facts.process_events { noticed } else { Detection::Never };
            assert_eq!(detection(&[Exec], &facts), noticed, "{facts:?}");
        }
    }
}
