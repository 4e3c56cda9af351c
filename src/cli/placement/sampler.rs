//! Samples threads in this process, where no daemon does placement, and shows what a daemon would do. It changes nothing.

use anyhow::Context as _;

use brisk_config::layers::Layers;
use brisk_mechanism::placement::{PlacementConfig, PlacementPolicy, PlacementSnapshot, probe};
use brisk_mechanism::{Enabled, Event, Policy as _, Process, SupportState, ThreadDemand};
use brisk_sys::cgroup::membership::Groups;
use brisk_sys::cpu::hotplug;
use brisk_sys::sched::thread_facts;
use brisk_sys::sched::threads::Threads;
use brisk_sys::{BootTime, Root};

/// A policy whose decisions are discarded.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    policy: PlacementPolicy,
    threads: Threads,
    groups: Groups,
}

impl Sampler {
    /// A sampler with the processes `foreground_pids` as the foreground.
    ///
    /// # Errors
    /// When the configuration is invalid.
    pub fn new(root: &Root, foreground_pids: &[u32]) -> anyhow::Result<Self> {
        let config = PlacementConfig { enabled: Enabled::On, ..Layers::read(root)?.config.placement };
        let (machine, groups) = (probe::machine(root), Groups::of(root, &config.groups));
        let support = probe::support(root, &config, &machine, &(true, "sampled".to_owned()));
        let threads = Threads::by(root, config.sensing);
        let policy = PlacementPolicy::new(config, support, machine);
        let mut sampler = Self { root: root.clone(), policy, threads, groups };
        let processes = foreground_pids.iter().map(|&pid| Process { pid, ..Process::default() }).collect();
        sampler.deliver(BootTime::now(), &Event::Foreground { processes });
        Ok(sampler)
    }

    /// True if the device supports placement.
    pub fn can_sample(&self) -> bool {
        self.policy.support().state == SupportState::Active
    }

    /// Takes one sample.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn sample(&mut self) -> anyhow::Result<()> {
        let now = BootTime::now();
        let sample = self.threads.sample(now).context("cannot sample threads")?;
        let mut demand = ThreadDemand::default();
        self.policy.demand_threads(&mut demand);
        let facts = thread_facts::of_each(&self.root, &demand.facts, &self.groups);
        let online = hotplug::online(&self.root).unwrap_or_default();
        self.deliver(now, &Event::Threads { sample, facts, online });
        Ok(())
    }

    /// The policy's present state.
    pub fn snapshot(&self) -> PlacementSnapshot {
        self.policy.snapshot()
    }

    fn deliver(&mut self, now: BootTime, event: &Event) {
        // Decisions are discarded; the snapshot shows them.
        self.policy.on_event(now, event, &mut Vec::new());
    }
}
