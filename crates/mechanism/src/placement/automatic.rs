//! Whether placement is on: as the user says, or automatically where a gain needs no trial and no other manager sets priorities:
//! where sessions (autogroups) or units of systemd compete as one, because those of bulk threads are deprioritised as a whole;
//! and with one CPU, because busy background threads are deprioritised while an application opens.

use super::NAME;
use super::config::PlacementConfig;
use crate::Enabled;
use crate::enabled::decide;
use brisk_sys::Root;
use brisk_sys::cgroup::membership::Groups;
use brisk_sys::cpu::hotplug;
use brisk_sys::memory::process_memory::pids;
use brisk_sys::sched::autogroup;
use brisk_sys::sched::scheduling_group::{SchedulingGroup, SchedulingGroups};

/// Placement's other gains show only in trials.
const TRIALS: &str = "what it gains shows only in trials while it runs";
/// CAP_DAC_OVERRIDE (capabilities(7)): /proc/PID/autogroup belongs to the process's user.
const DAC_OVERRIDE: u32 = 1;
/// The service's unit, and the drop-ins that grant it that capability.
const UNITS: [&str; 2] = ["/usr/lib/systemd/system/brisk.service", "/etc/systemd/system/brisk.service"];
const DROP_IN: &str = "/etc/systemd/system/brisk.service.d/placement.conf";
const MEMORY_DROP_IN: &str = "/etc/systemd/system/brisk.service.d/memory.conf";

/// The process that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The daemon, with its own capabilities.
    Daemon,
    /// A command of the user that reports what a daemon would do.
    CommandLine,
}

/// Whether placement is on under `config`, beside the managers `managers`, and why.
pub(super) fn decision(
    root: &Root,
    config: &PlacementConfig,
    managers: Option<&str>,
    caller: Caller,
) -> (bool, String) {
    let (on, why) = decide(NAME, config.enabled, managers);
    if config.enabled != Enabled::Auto || !on {
        return (on, why);
    }
    match gain_without_trial(root, config, caller) {
        Ok(gain) => (true, format!("auto: {gain}")),
        Err(obstacle) => (false, format!("auto: {obstacle}")),
    }
}

/// What may be deprioritised without a trial.
///
/// # Errors
/// Why nothing may.
fn gain_without_trial(root: &Root, config: &PlacementConfig, caller: Caller) -> Result<&'static str, String> {
    let groups = Groups::of(root, &config.groups);
    let has_units = groups.has_units() || groups.has_unreachable_units();
    let has_autogroups = config.sessions && autogroup::is_enabled(root);
    if !has_units && !has_autogroups {
        return match helps_openings(root, config) {
            true => Ok("with one CPU, busy background threads are deprioritised while an application opens"),
            false => Err(TRIALS.to_owned()),
        };
    }
    if !has_units && !any_session_competes(root) {
        return Err(format!("sessions are in control groups of another manager, which override them, and {TRIALS}"));
    }
    let is_refused = match caller {
        Caller::Daemon => groups.has_unreachable_units() || has_dac_override(root) == Some(false),
        Caller::CommandLine => {
            let has_drop_in = [DROP_IN, MEMORY_DROP_IN].iter().any(|drop_in| root.exists(drop_in));
            UNITS.iter().any(|unit| root.exists(unit)) && !has_drop_in
        }
    };
    if is_refused {
        let what = if has_units { "units" } else { "sessions of other users" };
        return Err(format!("the service may not change {what}; copy placement.conf to {DROP_IN} and start it again"));
    }
    Ok(if has_units { "each unit of systemd competes as one" } else { "each session competes as one" })
}

/// True where single threads are deprioritised while an application opens. Between sessions or units that has no effect.
pub(super) fn helps_openings(root: &Root, config: &PlacementConfig) -> bool {
    config.helps_openings() && hotplug::present(root).is_ok_and(|cpus| cpus.len() == 1)
}

/// True where some process competes by its session (autogroup): control groups with a weight take precedence.
fn any_session_competes(root: &Root) -> bool {
    let mut groups = SchedulingGroups::of(root);
    let all = pids(root).unwrap_or_default();
    all.into_iter().any(|pid| matches!(groups.group(pid), SchedulingGroup::Autogroup(_)))
}

/// Whether this process may write the files of other users.
fn has_dac_override(root: &Root) -> Option<bool> {
    let status = root.read("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> DAC_OVERRIDE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::config::Rule;
    use brisk_sys::test_trees::root_of;

    const ON: (&str, &str) = ("/proc/sys/kernel/sched_autogroup_enabled", "1\n");
    const SESSION: (&str, &str) = ("/proc/7/autogroup", "/autogroup-12 nice 0\n");
    const MOUNT: (&str, &str) = ("/proc/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0\n");
    const ALL: (&str, &str) = ("/proc/self/status", "Name:\tbrisk\nCapEff:\t000001ffffffffff\n");
    const NONE: (&str, &str) = ("/proc/self/status", "Name:\tbrisk\nCapEff:\t0000000000801000\n");
    const UNIT: (&str, &str) = ("/usr/lib/systemd/system/brisk.service", "");

    /// A systemd with the cpu controller on.
    const SYSTEMD: [(&str, &str); 3] =
        [("/run/systemd/system/x", ""), MOUNT, ("/sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n")];
    const MANAGER: (&str, &str) = ("/run/systemd/private", "");

    fn decided(
        files: &[(&str, &str)],
        config: &PlacementConfig,
        managers: Option<&str>,
        caller: Caller,
    ) -> (bool, String) {
        let (_folder, root) = root_of(files);
        decision(&root, config, managers, caller)
    }

    // Verifies ON-1, PLACE-8.
    #[test]
    fn auto_is_on_where_sessions_or_units_can_be_lowered() {
        let config = PlacementConfig::default();
        let slice = ("/proc/7/cgroup", "0::/user.slice\n");
        let weight = ("/sys/fs/cgroup/user.slice/cpu.weight", "100\n");
        for (case, files, caller, told) in [
            ("sessions compete", &[ON, SESSION, ALL][..], Caller::Daemon, "auto: each session competes as one"),
            ("they do not", &[SESSION, ALL], Caller::Daemon, "auto: what it gains shows only in trials"),
            ("in no session", &[ON, ALL], Caller::Daemon, "in control groups of another manager"),
            (
                "control groups",
                &[ON, SESSION, ALL, MOUNT, slice, weight],
                Caller::Daemon,
                "in control groups of another",
            ),
            ("without the controller", &[ON, SESSION, ALL, MOUNT, slice], Caller::Daemon, "competes as one"),
            ("without the right", &[ON, SESSION, NONE], Caller::Daemon, "may not change sessions of other users"),
            (
                "units",
                &[&SYSTEMD[..], &[MANAGER, ALL]].concat(),
                Caller::Daemon,
                "auto: each unit of systemd competes as one",
            ),
            (
                "no manager may be called",
                &[&SYSTEMD[..], &[ALL]].concat(),
                Caller::Daemon,
                "may not change units; copy",
            ),
            ("units, its service", &[&SYSTEMD[..], &[UNIT]].concat(), Caller::CommandLine, "copy placement.conf"),
            (
                "with it",
                &[&SYSTEMD[..], &[UNIT, (DROP_IN, "")]].concat(),
                Caller::CommandLine,
                "unit of systemd competes as one",
            ),
            ("its service without", &[ON, SESSION, UNIT], Caller::CommandLine, "copy placement.conf"),
            ("its service with", &[ON, SESSION, UNIT, (DROP_IN, "")], Caller::CommandLine, "competes as one"),
            ("with the other", &[ON, SESSION, UNIT, (MEMORY_DROP_IN, "")], Caller::CommandLine, "competes as one"),
            ("no service", &[ON, SESSION, NONE], Caller::CommandLine, "competes as one"),
        ] {
            let (on, why) = decided(files, &config, None, caller);
            assert_eq!((on, why.contains(told)), (told.ends_with("competes as one"), true), "{case}: {why}");
        }
    }

    // Verifies ON-1.
    #[test]
    fn auto_is_on_with_one_cpu_where_nice_values_apply() {
        let cpus = |list| ("/sys/devices/system/cpu/present", list);
        let default = PlacementConfig::default;
        for (case, files, config, on) in [
            ("one CPU", &[cpus("0\n"), SESSION][..], default(), true),
            ("its sessions are left alone", &[cpus("0\n"), ON, SESSION, NONE], default(), false),
            ("two CPUs", &[cpus("0-1\n"), SESSION], default(), false),
            ("unknown CPUs", &[SESSION], default(), false),
            ("no opening", &[cpus("0\n"), SESSION], PlacementConfig { opening_ms: 0, ..default() }, false),
            ("another rule", &[cpus("0\n"), SESSION], PlacementConfig { rule: Rule::Weight, ..default() }, false),
        ] {
            let (is_on, why) = decided(files, &config, None, Caller::Daemon);
            assert!(is_on == on && why.contains("while an application opens") == on, "{case}: {why}");
        }
    }

    // Verifies ON-1.
    #[test]
    fn an_explicit_setting_takes_precedence() {
        for (enabled, sessions, managers, on, told) in [
            (Enabled::Auto, true, Some("ananicy (x)"), false, "left to ananicy (x)"),
            (Enabled::Auto, false, None, false, "only in trials"),
            (Enabled::On, false, Some("ananicy (x)"), true, "placement.enabled is true"),
            (Enabled::Off, true, None, false, "placement.enabled is false"),
        ] {
            let config = PlacementConfig { enabled, sessions, ..PlacementConfig::default() };
            let (is_on, why) = decided(&[ON, SESSION, ALL], &config, managers, Caller::Daemon);
            assert!(is_on == on && why.contains(told), "{enabled}: {why}");
        }
    }

    #[test]
    fn the_capability_is_read_from_proc_status() {
        for (status, may) in [(ALL.1, Some(true)), (NONE.1, Some(false)), ("", None), ("CapEff:\tx\n", None)] {
            let (_folder, root) = root_of(&[("/proc/self/status", status)]);
            assert_eq!(has_dac_override(&root), may, "{status:?}");
        }
    }
}
