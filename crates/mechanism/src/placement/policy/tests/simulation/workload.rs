//! Random workloads: what happens on a device in some tens of seconds, as data, so that it can be played with and without the
//! policy, and made smaller when it fails.

use super::super::super::*;
use super::super::thread::{DOWNLOAD, FRAMES, HOG, Habit, MESSAGE, MUSIC};
use super::scheduler::Mask;
use super::system::{Build, Grouping, Hardware, System};
use crate::Action;
use crate::simulated::Kernel;
use brisk_base::random::Random;

/// Works for long, then rests for long.
pub const BURST: Habit = Habit { work_ms: 200, sleep_ms: 1800, period_ms: 0 };
/// Hardly ever wakes.
pub const SLEEPER: Habit = Habit { work_ms: 1, sleep_ms: 2000, period_ms: 0 };

/// When the first foreground comes.
pub const BEGINS_MS: u64 = 3000;

/// Something that happens on the device.
#[derive(Debug, Clone)]
pub enum Happening {
    /// A process of one thread starts in a group.
    Start {
        pid: u32,
        parent: u32,
        habit: Habit,
        group: usize,
    },
    /// A thread of `pid` creates a thread or a process, which inherits its attributes.
    Create {
        tid: u32,
        pid: u32,
        by: u32,
        habit: Habit,
    },
    /// A process runs jobs.
    Build {
        pid: u32,
        build: Build,
    },
    End {
        pid: u32,
    },
    EndThread {
        tid: u32,
    },
    Foreground {
        pids: Vec<u32>,
    },
    Online {
        cpu: usize,
        is_online: bool,
    },
    /// A user changes a thread.
    SetNice {
        tid: u32,
        nice: i32,
    },
    SetMask {
        tid: u32,
        mask: Mask,
    },
    /// The daemon probes the device again.
    Probe,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub hardware: Hardware,
    pub grouping: Grouping,
    /// What happens, by its time in milliseconds.
    pub events: Vec<(u64, Happening)>,
    pub until_ms: u64,
    /// Refuses by this seed.
    pub refusals: Option<u64>,
    pub seed: u64,
}

impl Scenario {
    /// Nothing happens.
    pub fn new(hardware: Hardware, grouping: Grouping, seed: u64) -> Self {
        Self { hardware, grouping, events: Vec::new(), until_ms: 30_000, refusals: None, seed }
    }

    #[must_use]
    pub fn with(mut self, at_ms: u64, event: Happening) -> Self {
        self.events.push((at_ms, event));
        self
    }

    /// Foreground threads of process 100 with these habits, and background processes from 200 on, each with its habit and group.
    pub fn beside(self, front: &[Habit], background: &[(Habit, usize)]) -> Self {
        let start = |pid, habit, group| Happening::Start { pid, parent: 1, habit, group };
        let mut all = self;
        for (pid, &(habit, group)) in (200..).zip(background) {
            all = all.with(0, start(pid, habit, group));
        }
        all = all.with(BEGINS_MS, start(100, front[0], 1));
        for (tid, &habit) in (101..).zip(&front[1..]) {
            all = all.with(BEGINS_MS, Happening::Create { tid, pid: 100, by: 100, habit });
        }
        all.with(BEGINS_MS, Happening::Foreground { pids: vec![100] })
    }

    pub fn play(&self, is_on: bool) -> System {
        let mut system = System::new(&self.hardware, self.grouping, is_on, self.seed);
        if let Some(seed) = self.refusals {
            (system.kernel, system.may_refuse) = (refusing(seed), true);
        }
        for (at_ms, event) in &self.events {
            system.run_until(*at_ms);
            happen(&mut system, event, &self.hardware);
        }
        system.run_until(self.until_ms);
        system.settle();
        system
    }
}

/// Refuses leases and restores by kind, thread and time, and has targets vanish.
fn refusing(seed: u64) -> Kernel {
    let mut random = Random::new(seed);
    Kernel::refusing(move |now, action| {
        let second = now.since(BootTime::default()).as_secs();
        let refused = || Some(Effect::Refused("EPERM".to_owned()));
        match action {
            _ if second > 100_000 => None,
            Action::Lease { target, .. } => match target {
                Target::CpuAffinity { tid, .. } if u64::from(*tid) % 4 == seed % 8 => refused(),
                Target::Autogroup(_) | Target::GroupWeight(_) if seed.is_multiple_of(3) && second % 4 < 2 => refused(),
                _ if second % 5 == seed % 5 && random.below(2) == 0 => refused(),
                _ if target.thread().is_some() && random.below(40) == 0 => Some(Effect::Missing("ESRCH".to_owned())),
                _ => None,
            },
            Action::Release { .. } if random.below(12) == 0 => refused(),
            _ => None,
        }
    })
}

fn happen(system: &mut System, event: &Happening, hardware: &Hardware) {
    let lives = |system: &System, tid: u32| system.threads.contains_key(&tid);
    let is_process = |system: &System, pid: u32| system.threads.get(&pid).is_some_and(|it| it.thread.pid == pid);
    // Facts are up to five seconds old: what a user changed meanwhile is not known of a creator.
    let may_create = |system: &System, tid: u32| system.threads.get(&tid).is_some_and(|it| !it.is_set_by_user);
    match *event {
        Happening::Start { pid, parent, habit, group } => system.start((pid, pid, parent), habit, group, None),
        Happening::Create { tid, pid, by, habit } if may_create(system, by) => {
            let creator = system.threads[&by].thread.clone();
            let (pid, parent) = if pid == tid { (pid, creator.pid) } else { (creator.pid, creator.parent) };
            system.start((tid, pid, parent), habit, 0, Some(by));
        }
        Happening::Build { pid, build } if is_process(system, pid) => system.build(pid, build),
        // A child whose creator ends before the next sample keeps what it inherited: the two cannot be related.
        Happening::End { pid } if !system.has_unseen_children(pid) => system.end_process(pid),
        // The first thread of a process stays until the process ends.
        Happening::EndThread { tid } if !is_process(system, tid) && !system.has_unseen_children(tid) => system.end(tid),
        Happening::Foreground { ref pids } => system.put_in_foreground(pids),
        Happening::Online { cpu, is_online } => system.set_online(cpu, is_online),
        Happening::SetNice { tid, nice } if lives(system, tid) => system.set_by_user(tid, |it| it.priority.nice = nice),
        Happening::SetMask { tid, mask } if lives(system, tid) => system.set_by_user(tid, |it| it.mask = mask),
        Happening::Probe => system.probe(hardware),
        _ => {}
    }
}

/// A random machine.
pub fn hardware(random: &mut Random) -> Hardware {
    match random.below(7) {
        0 => Hardware::equal(1),
        1 | 2 => Hardware::equal(2),
        3 => Hardware::equal(4),
        4 => Hardware::siblings(2),
        5 => Hardware::siblings(4),
        _ => Hardware {
            cpus: (0..8).map(|cpu| ([400, 400, 400, 400, 760, 760, 1024, 1024][cpu as usize], cpu)).collect(),
        },
    }
}

/// A foreground beside a background that stays: nothing else happens.
pub fn steady(seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let hardware = hardware(&mut random);
    let grouping = [Grouping::Root, Grouping::Sessions, Grouping::Units][random.below(3)];
    let habits = [HOG, HOG, FRAMES, MUSIC, DOWNLOAD, MESSAGE, BURST];
    let most = hardware.cpus.len() + 2;
    let mut pick =
        |most: usize| -> Vec<Habit> { (0..=random.below(most)).map(|_| habits[random.below(habits.len())]).collect() };
    let (front, background) = (pick(most.min(6)), pick(most * 2));
    let background: Vec<_> = background.into_iter().map(|habit| (habit, 2 + random.below(3))).collect();
    let mut scenario = Scenario::new(hardware, grouping, seed).beside(&front, &background);
    if random.below(3) == 0 {
        let build = Build { jobs: 1 + random.below(3) as u32, work_ms: [20, 60, 300][random.below(3)] };
        let start = Happening::Start { pid: 190, parent: 1, habit: SLEEPER, group: 2 };
        scenario.events.insert(0, (0, Happening::Build { pid: 190, build }));
        scenario.events.insert(0, (0, start));
    }
    scenario
}

/// The same, and then everything happens: processes come and go, CPUs go offline, a user changes threads, the kernel refuses.
pub fn eventful(seed: u64) -> Scenario {
    let mut random = Random::stream(seed, 1);
    let mut scenario = steady(seed);
    scenario.refusals = (random.below(3) == 0).then_some(seed);
    let cpus = scenario.hardware.cpus.len();
    let habits = [HOG, FRAMES, MUSIC, DOWNLOAD, BURST, SLEEPER];
    let (mut at_ms, mut next) = (BEGINS_MS, 1000);
    let mut known: Vec<u32> = vec![100, 100, 190, 200, 200, 201, 202, 203];
    for _ in 0..random.below(30) {
        at_ms += random.below(1500) as u64;
        let (tid, habit) = (known[random.below(known.len())], habits[random.below(habits.len())]);
        next += 1;
        let event = match random.below(16) {
            0 | 1 => Happening::Create { tid: next, pid: tid, by: tid, habit },
            2..=4 => Happening::Create { tid: next, pid: next, by: tid, habit },
            5 => Happening::Start { pid: next, parent: 1, habit, group: 1 + random.below(4) },
            6 => Happening::EndThread { tid },
            7 | 8 => Happening::End { pid: tid },
            9 => Happening::Foreground { pids: vec![tid] },
            10 => Happening::Foreground { pids: Vec::new() },
            11 if cpus > 1 => Happening::Online { cpu: 1 + random.below(cpus - 1), is_online: random.below(2) == 0 },
            // Values that brisk never sets: whose they are could not be told from it.
            12 => Happening::SetNice { tid, nice: [-5, 0, 5, 7, 15][random.below(5)] },
            13 => {
                // Any other CPU may be what a reservation leaves. The draw keeps the seeds.
                random.below(cpus);
                Happening::SetMask { tid, mask: 1 << (cpus - 1) }
            }
            14 => Happening::Probe,
            _ => Happening::Build { pid: tid, build: Build { jobs: 2, work_ms: 60 } },
        };
        if matches!(event, Happening::Create { .. } | Happening::Start { .. }) {
            known.push(next);
        }
        scenario.events.push((at_ms, event));
    }
    scenario.until_ms = at_ms + 3000;
    scenario
}
