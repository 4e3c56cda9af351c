//! What this device offers to placement: its CPUs and their capacities, and whether the kernel reports run-queue delay.

use super::automatic::helps_openings;
use super::config::PlacementConfig;
use super::cores::{Core, FULL_CAPACITY, Machine};
use crate::{Support, SupportState};
use brisk_sys::Root;
use brisk_sys::bpf::egress;
use brisk_sys::cgroup::membership::Groups;
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::cpu::{capacity, hotplug, topology};
use brisk_sys::io::io_priority::{self, IoPriority};
use brisk_sys::network::queues::{self, InterfaceQueue};
use brisk_sys::network::sockets;
use brisk_sys::sched::autogroup;
use brisk_sys::sched::threads::{self, Sensing};
use brisk_sys::system::foreground;

/// The lowest I/O priority that a thread can get under `config` where placement is `on`; `None` where nothing is done about
/// storage.
pub(super) fn lowest_io_priority(root: &Root, config: &PlacementConfig, on: bool) -> Option<IoPriority> {
    if !on || !config.storage {
        return None;
    }
    let lowest = io_priority::lowest(root);
    if lowest.is_none() {
        tracing::warn!(
            "placement: no thread's I/O priority is lowered: no disk has bfq or mq-deadline as its scheduler"
        );
    }
    lowest
}

/// Whether packets of background groups may get a lower priority under `config` where placement is `on`.
pub(super) fn acts_on_network(root: &Root, config: &PlacementConfig, on: bool) -> bool {
    on && config.network
        && network_obstacle(root)
            .inspect(|(obstacle, _)| tracing::warn!("placement: no packet's priority is lowered: {obstacle}"))
            .is_none()
}

/// Why no packet's priority can be lowered on this device, with advice.
fn network_obstacle(root: &Root) -> Option<(String, &'static str)> {
    let sockets = || {
        let error = sockets::read(root).err()?;
        let reason = format!("the kernel does not report what the sockets of control groups send: {error}");
        Some((reason, "Use Linux 5.8 or newer with CONFIG_INET_TCP_DIAG."))
    };
    egress::unsupported_reason(root).or_else(sockets)
}

/// What is done for the network, and advice.
fn network(root: &Root, config: &PlacementConfig) -> (String, &'static str) {
    if !config.network {
        return (String::new(), "");
    }
    if let Some((obstacle, advice)) = network_obstacle(root) {
        return (format!("; no packet's priority is lowered: {obstacle}"), advice);
    }
    of_queues(&queues::read(root).unwrap_or_default())
}

/// What the priority of packets can do before these queues, and advice.
fn of_queues(queues: &[InterfaceQueue]) -> (String, &'static str) {
    let list = |has_bands: bool| -> Vec<String> {
        let listed = queues.iter().filter(|queue| queue.has_bands == has_bands);
        listed.map(|queue| format!("{} ({})", queue.interface, queue.discipline)).collect()
    };
    let (with_bands, others) = (list(true).join(", "), list(false).join(", "));
    match (with_bands.is_empty(), others.is_empty()) {
        (false, _) => {
            (format!("; packets of background groups that fill a queue get the lowest band on {with_bands}"), "")
        }
        (true, false) => (
            format!("; no network queue has bands, so that no packet's priority counts: {others}"),
            "fq_codel and cake share a link among flows themselves; elsewhere choose pfifo_fast or prio (tc-prio(8)).",
        ),
        (true, true) => ("; no network interface has a queue".to_owned(), ""),
    }
}

/// The online CPUs with their capacities. A device that does not report its CPUs has one.
pub fn machine(root: &Root) -> Machine {
    let online = hotplug::online(root).unwrap_or_else(|_| vec![0]);
    let capacities = capacity::of(root, &online);
    let core = |&cpu: &u32| Core { cpu, capacity: capacities.get(&cpu).copied().unwrap_or(FULL_CAPACITY) };
    let siblings = online.iter().filter_map(|&cpu| Some((cpu, topology::first_sibling(root, cpu)?))).collect();
    Machine::new(online.iter().map(core).collect()).with_siblings(siblings)
}

/// The support on this device under `config`; `decision` is whether placement is on, and why.
pub fn support(root: &Root, config: &PlacementConfig, machine: &Machine, decision: &(bool, String)) -> Support {
    const FILE: &str = "/proc/self/schedstat";
    let support = |state, reason: String, advice: &str| Support { state, reason, advice: advice.to_owned() };
    if !root.exists(FILE) {
        let reason = format!("{FILE} does not exist: the kernel does not tell what a thread waits for a CPU");
        return support(SupportState::Unsupported, reason, "Build the kernel with CONFIG_SCHED_INFO.");
    }
    let cores = machine.cores();
    let unequal = cores.iter().any(|core| core.capacity != cores[0].capacity);
    let what = match (cores.len(), unequal) {
        (1, _) => "1 CPU is online".to_owned(),
        (count, true) => format!("{count} unequal CPUs are online"),
        (count, false) => format!("{count} CPUs are online"),
    };
    let (is_on, why) = decision;
    if !is_on {
        let reason = format!("{what}; {why}");
        let is_reported = foreground::group(root).is_some();
        let advice = if is_reported { "" } else { ", and tell what is in the foreground" };
        return support(SupportState::Available, reason, &format!("Set placement.enabled = true{advice}."));
    }
    let groups = Groups::of(root, &config.groups);
    let by = match &groups.unsupported_reason {
        None => format!("groups ({})", groups.describe()),
        Some(_) => "masks and nice values".to_owned(),
    };
    let smallest =
        machine.smallest_cores().map(|cpus| format!(" and to the smallest cores (CPU {})", format_list(&cpus)));
    let smallest = smallest.unwrap_or_default();
    let (seen, advice) = sensing(root, config.sensing);
    let (network, network_advice) = network(root, config);
    let whole = without_trial(root, config, &groups);
    let unused = groups.unused_tree(&config.groups).map(|why| format!("; {why}")).unwrap_or_default();
    let reason = format!(
        "{what}; bulk threads are restricted by {by}{smallest} where a trial shows that it helps{whole}{unused}{seen}{network}"
    );
    support(SupportState::Active, reason, if advice.is_empty() { network_advice } else { &advice })
}

/// What is deprioritised without a trial.
fn without_trial(root: &Root, config: &PlacementConfig, groups: &Groups) -> String {
    let mut text = String::new();
    if config.sessions && autogroup::is_enabled(root) {
        text += "; sessions as a whole by their autogroups' nice values, without a trial";
    }
    if groups.has_units() {
        text += "; units of systemd by their weights, without a trial";
    }
    if groups.has_process_groups() {
        text += "; Android's groups of processes by their weights, without a trial";
    }
    if helps_openings(root, config) {
        text += "; while an application opens, without a trial";
    }
    text
}

/// The interface for samples of threads where it is not the default, and advice where it is not the configured one.
fn sensing(root: &Root, asked: Sensing) -> (String, String) {
    match (asked, threads::unsupported_reason(root, asked)) {
        (Sensing::Schedstat, _) => (String::new(), String::new()),
        (_, None) => ("; threads are seen by BPF".to_owned(), String::new()),
        (_, Some(unsupported_reason)) => {
            let advice = if asked == Sensing::Bpf { unsupported_reason.advice() } else { "" };
            (format!("; threads are seen by schedstat and not by BPF: {unsupported_reason}"), advice.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Enabled;
    use crate::placement::automatic::{Caller, decision};
    use brisk_sys::test_trees::root_of;

    fn support_of(root: &Root, config: &PlacementConfig) -> Support {
        support(root, config, &machine(root), &decision(root, config, None, Caller::Daemon))
    }

    #[test]
    fn states_follow_the_device_and_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let enabled = PlacementConfig { enabled: Enabled::On, ..PlacementConfig::default() };
        let state = |config: &PlacementConfig| support_of(&root, config).state;
        assert_eq!(state(&enabled), SupportState::Unsupported);
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        fs::write(root.path("/proc/self/schedstat"), "1 2 3\n").unwrap();
        assert_eq!(state(&enabled), SupportState::Active);
        assert_eq!(state(&PlacementConfig::default()), SupportState::Available);
    }

    // Verifies ON-4.
    #[test]
    fn steps_without_a_trial_and_an_unused_tree_are_told() {
        let enabled = PlacementConfig { enabled: Enabled::On, ..PlacementConfig::default() };
        let tree = PlacementConfig { groups: "/tmp/x".parse().unwrap(), ..enabled.clone() };
        let masks = "bulk threads are restricted by masks and nice values where a trial shows that it helps";
        let sessions = "; sessions as a whole by their autogroups' nice values, without a trial";
        let openings = "; while an application opens, without a trial";
        let unused = "; placement.groups = \"/tmp/x\" is not used: /tmp/x is in no mounted cgroup v2 hierarchy";
        for (config, cpus, has_autogroups, expected) in [
            (&enabled, "0-1", false, format!("2 CPUs are online; {masks}")),
            (&enabled, "0-1", true, format!("{masks}{sessions}")),
            (&enabled, "0", false, format!("1 CPU is online; {masks}{openings}")),
            (&PlacementConfig { opening_ms: 0, ..enabled.clone() }, "0", false, masks.to_owned()),
            (&PlacementConfig { sessions: false, ..enabled.clone() }, "0-1", true, masks.to_owned()),
            (&tree, "0-1", true, format!("{masks}{sessions}{unused}")),
        ] {
            let autogroup = if has_autogroups { "1\n" } else { "0\n" };
            let files = [
                ("proc/self/schedstat", "1 2 3\n"),
                ("proc/sys/kernel/sched_autogroup_enabled", autogroup),
                ("sys/devices/system/cpu/present", cpus),
                ("sys/devices/system/cpu/online", cpus),
            ];
            let (_folder, root) = root_of(&files);
            let reason = support_of(&root, config).reason;
            assert!(reason.ends_with(&expected), "{reason}");
        }
    }

    // Verifies PLACE-1.
    #[test]
    fn where_threads_cannot_be_seen_by_bpf_the_reason_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("/proc/self")).unwrap();
        fs::write(root.path("/proc/self/schedstat"), "1 2 3\n").unwrap();
        for (sensing, told) in [(Sensing::Schedstat, false), (Sensing::Bpf, true), (Sensing::Auto, true)] {
            let config = PlacementConfig { enabled: Enabled::On, sensing, ..PlacementConfig::default() };
            let support = support_of(&root, &config);
            let reason = "seen by schedstat and not by BPF: this is not the running system";
            assert_eq!((support.state, support.reason.contains(reason)), (SupportState::Active, told), "{support:?}");
        }
    }

    // Verifies ON-4.
    #[test]
    fn what_the_priority_of_packets_can_do_is_told() {
        let queue = |interface: &str, discipline: &str, has_bands| InterfaceQueue {
            interface: interface.to_owned(),
            discipline: discipline.to_owned(),
            has_bands,
            sent_bytes: 0,
            waiting_bytes: 0,
        };
        let (lo, eth, wwan) =
            (queue("lo", "noqueue", false), queue("eth0", "fq_codel", false), queue("wwan0", "pfifo_fast", true));
        for (queues, told, is_advised) in [
            (&[lo.clone(), wwan][..], "get the lowest band on wwan0 (pfifo_fast)", false),
            (&[lo, eth], "no packet's priority counts: lo (noqueue), eth0 (fq_codel)", true),
            (&[], "no network interface has a queue", false),
        ] {
            let (found, advice) = of_queues(queues);
            assert!(found.ends_with(told) && advice.is_empty() != is_advised, "{found}: {advice}");
        }
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let config = PlacementConfig { network: true, ..PlacementConfig::default() };
        assert!(network(&root, &config).0.ends_with("no packet's priority is lowered: this is not the running system"));
        assert!(!acts_on_network(&root, &config, true) && network(&root, &PlacementConfig::default()).0.is_empty());
    }

    // Verifies PLACE-4.
    #[test]
    fn a_machine_is_what_is_online() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(machine(&root), Machine::equal(1));
        let write = |path: std::path::PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let cpu = |file: &str| root.path(hotplug::CPU_FOLDER).join(file);
        for (file, text) in [("online", "0,2-3"), ("cpu2/cpu_capacity", "446"), ("cpu0/cpu_capacity", "446")] {
            write(cpu(file), text);
        }
        let unequal = Machine::of(&[(0, 446), (2, 446), (3, 1024)]);
        assert_eq!(machine(&root), unequal);
        write(root.path("/proc/self/schedstat"), "1 2 3");
        let enabled = PlacementConfig { enabled: Enabled::On, ..PlacementConfig::default() };
        write(cpu("cpu2/topology/thread_siblings_list"), "2-3");
        write(cpu("cpu3/topology/thread_siblings_list"), "2-3");
        let reserved = machine(&root).reserve_cores(1).unwrap();
        assert_eq!((reserved.reserved, reserved.rest), (vec![2, 3], vec![0]), "CPU 0 is a core of its own");
        let support = support_of(&root, &enabled);
        assert!(support.reason.contains("nice values and to the smallest cores (CPU 0,2)"), "{support:?}");
    }
}
