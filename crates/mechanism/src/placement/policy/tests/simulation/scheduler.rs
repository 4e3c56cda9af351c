//! A model of the kernel's fair scheduler: each CPU divides its time by weight, first among groups, then among the threads of
//! each. It goes from event to event, so that an hour costs what happens in it. Times are in microseconds.

use brisk_sys::process::schedstat::Schedstat;

/// A set of CPUs: bit n is CPU n.
pub type Mask = u64;

/// A thread that others wait for is preempted after this long (the kernel's base slice on eight CPUs).
const SLICE_US: u64 = 3_000;
/// A thread that wakes starts at most this much virtual time ahead of those that are runnable.
const MOST_CREDIT: f64 = 3_000.0;
/// A thread that wakes preempts one that is ahead by more than this.
const WAKE_UP_GRANULARITY: f64 = 1_000.0;
/// How often waiting threads are moved to CPUs with less load.
const BALANCE_US: u64 = 16_000;
/// The speed of a CPU while its core's other thread runs.
const SHARED_CORE_SPEED: f64 = 0.6;
const NICE_0: f64 = 1024.0;
/// The index of the root group: its threads compete with groups.
pub const ROOT: usize = 0;

#[derive(Debug, Clone)]
pub struct Cpu {
    pub capacity: u32,
    pub is_online: bool,
    /// Runnable tasks, with the one that runs.
    queue: Vec<usize>,
    current: Option<usize>,
    accounted_us: u64,
    slice_ends_us: u64,
    next_us: u64,
    floor: f64,
    groups: Vec<GroupQueue>,
    siblings: Vec<usize>,
}

/// A group's tasks on one CPU.
#[derive(Debug, Clone, Copy, Default)]
struct GroupQueue {
    time: f64,
    floor: f64,
    load: f64,
}

/// A group's weight, and the weights of its runnable tasks.
#[derive(Debug, Clone, Copy)]
struct Group {
    weight: f64,
    load: f64,
}

/// What the scheduler knows of a thread.
#[derive(Debug, Clone)]
pub struct Task {
    pub mask: Mask,
    pub weight: f64,
    /// SCHED_IDLE.
    pub is_idle: bool,
    pub group: usize,
    pub counters: Schedstat,
    /// Work done at full capacity.
    pub progress_us: f64,
    cpu: usize,
    is_runnable: bool,
    time: f64,
    work_left_us: f64,
    queued_us: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Scheduler {
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<Task>,
    groups: Vec<Group>,
    pub now_us: u64,
    balance_us: u64,
    /// Tasks that have done their work and sleep.
    pub finished: Vec<usize>,
}

impl Scheduler {
    /// CPUs of `(capacity, core)`, and `groups` groups besides the root.
    pub fn new(cpus: &[(u32, u32)], groups: usize) -> Self {
        let siblings = |cpu: usize, core: u32| {
            let all = cpus.iter().enumerate();
            all.filter(|&(other, it)| other != cpu && it.1 == core).map(|(other, _)| other).collect()
        };
        let cpu = |(cpu, &(capacity, core)): (usize, &(u32, u32))| Cpu {
            capacity,
            siblings: siblings(cpu, core),
            is_online: true,
            queue: Vec::new(),
            current: None,
            accounted_us: 0,
            slice_ends_us: 0,
            next_us: u64::MAX,
            floor: 0.0,
            groups: vec![GroupQueue::default(); groups + 1],
        };
        Self {
            cpus: cpus.iter().enumerate().map(cpu).collect(),
            groups: vec![Group { weight: NICE_0, load: 0.0 }; groups + 1],
            balance_us: BALANCE_US,
            ..Self::default()
        }
    }

    /// A task that sleeps.
    pub fn add(&mut self, mask: Mask, group: usize) -> usize {
        self.tasks.push(Task {
            mask,
            weight: NICE_0,
            is_idle: false,
            group,
            counters: Schedstat::default(),
            progress_us: 0.0,
            cpu: self.tasks.len() % self.cpus.len(),
            is_runnable: false,
            time: 0.0,
            work_left_us: 0.0,
            queued_us: 0,
        });
        self.tasks.len() - 1
    }

    pub fn online(&self) -> Mask {
        self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_online).map(|(cpu, _)| 1 << cpu).sum()
    }

    /// Where a task may run: on all CPUs where none of its own is online.
    fn allowed(&self, task: usize) -> Mask {
        let online = self.online();
        Some(self.tasks[task].mask & online).filter(|&mask| mask != 0).unwrap_or(online)
    }

    /// When something happens next without a wake-up.
    pub fn next_us(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.next_us).min().unwrap_or(u64::MAX).min(self.balance_us)
    }

    /// Runs until `now_us`, no later than [`Scheduler::next_us`].
    pub fn advance(&mut self, now_us: u64) {
        self.now_us = now_us;
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].next_us > now_us {
                continue;
            }
            self.account(cpu);
            if let Some(task) = self.cpus[cpu].current.filter(|&task| self.tasks[task].work_left_us < 1.0) {
                self.dequeue(task);
                self.finished.push(task);
            }
            self.pick(cpu);
        }
        if self.balance_us <= now_us {
            self.balance();
            self.balance_us = now_us + BALANCE_US;
        }
    }

    /// Accounts what ran up to now.
    pub fn account_all(&mut self) {
        (0..self.cpus.len()).for_each(|cpu| self.account(cpu));
    }

    fn speed(&self, cpu: usize) -> f64 {
        let shared = if self.is_core_shared(cpu) { SHARED_CORE_SPEED } else { 1.0 };
        f64::from(self.cpus[cpu].capacity) / 1024.0 * shared
    }

    /// True while another thread of this CPU's core runs.
    fn is_core_shared(&self, cpu: usize) -> bool {
        self.cpus[cpu].siblings.iter().any(|&sibling| self.cpus[sibling].current.is_some())
    }

    fn account(&mut self, cpu: usize) {
        let elapsed_us = self.now_us - self.cpus[cpu].accounted_us;
        let Some(current) = self.cpus[cpu].current.filter(|_| elapsed_us > 0) else {
            self.cpus[cpu].accounted_us = self.now_us;
            return;
        };
        let done_us = elapsed_us as f64 * self.speed(cpu);
        let task = &mut self.tasks[current];
        task.counters.run_ns += elapsed_us * 1000;
        task.progress_us += done_us;
        task.work_left_us -= done_us;
        task.time += elapsed_us as f64 * NICE_0 / task.weight;
        let of = &mut self.cpus[cpu];
        of.accounted_us = self.now_us;
        if task.group != ROOT {
            let queue = &mut of.groups[task.group];
            let group = self.groups[task.group];
            queue.time += elapsed_us as f64 * NICE_0 / (group.weight * queue.load / group.load).max(2.0);
        }
        let tasks = &self.tasks;
        let entity = |of: &Cpu, task: &usize| match tasks[*task].group {
            ROOT => tasks[*task].time,
            group => of.groups[group].time,
        };
        let least = of.queue.iter().map(|task| entity(of, task)).fold(f64::INFINITY, f64::min);
        of.floor = of.floor.max(least);
        if self.tasks[current].group != ROOT {
            let group = self.tasks[current].group;
            let members = of.queue.iter().filter(|&&task| tasks[task].group == group);
            let least = members.map(|&task| tasks[task].time).fold(f64::INFINITY, f64::min);
            of.groups[group].floor = of.groups[group].floor.max(least);
        }
    }

    /// The virtual time by which the task competes on `cpu` at the top.
    fn entity_time(&self, cpu: usize, task: usize) -> f64 {
        match self.tasks[task].group {
            ROOT => self.tasks[task].time,
            group => self.cpus[cpu].groups[group].time,
        }
    }

    fn floor(&self, cpu: usize, group: usize) -> f64 {
        if group == ROOT { self.cpus[cpu].floor } else { self.cpus[cpu].groups[group].floor }
    }

    /// Chooses what runs on `cpu` from now on.
    fn pick(&mut self, cpu: usize) {
        self.account(cpu);
        if self.cpus[cpu].queue.is_empty() && self.cpus[cpu].is_online {
            self.pull(cpu);
        }
        let before = self.cpus[cpu].current;
        let key = |task: usize| (self.entity_time(cpu, task), self.tasks[task].time);
        let queue = self.cpus[cpu].queue.iter().copied();
        let best = queue.min_by(|&one, &other| {
            let (one, other) = (key(one), key(other));
            one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let now_us = self.now_us;
        if best != before {
            if let Some(before) = before.filter(|before| self.cpus[cpu].queue.contains(before)) {
                self.tasks[before].queued_us = now_us;
            }
            if let Some(best) = best {
                let task = &mut self.tasks[best];
                task.counters.wait_ns += (now_us - task.queued_us) * 1000;
                task.counters.slices += 1;
            }
        }
        self.account_siblings(cpu);
        self.cpus[cpu].current = best;
        self.cpus[cpu].slice_ends_us = now_us + SLICE_US;
        self.plan(cpu);
        for at in 0..self.cpus[cpu].siblings.len() {
            self.plan(self.cpus[cpu].siblings[at]);
        }
    }

    fn account_siblings(&mut self, cpu: usize) {
        for at in 0..self.cpus[cpu].siblings.len() {
            self.account(self.cpus[cpu].siblings[at]);
        }
    }

    /// When something happens on `cpu` next.
    fn plan(&mut self, cpu: usize) {
        let of = &self.cpus[cpu];
        let finishes_us = |task: usize| {
            let left_us = (self.tasks[task].work_left_us / self.speed(cpu)).ceil().max(1.0);
            if left_us.is_finite() { self.now_us + left_us as u64 } else { u64::MAX }
        };
        let slice_us = if of.queue.len() > 1 { of.slice_ends_us.max(self.now_us + 1) } else { u64::MAX };
        self.cpus[cpu].next_us = of.current.map_or(u64::MAX, |task| finishes_us(task).min(slice_us));
    }

    /// Wakes a task that sleeps, with so much work; infinite is endless.
    pub fn wake(&mut self, task: usize, work_us: f64) {
        assert!(!self.tasks[task].is_runnable, "task {task} is awake");
        self.tasks[task].work_left_us = work_us;
        let cpu = self.select(task);
        self.enqueue(task, cpu);
    }

    /// A task ends, in any state.
    pub fn end(&mut self, task: usize) {
        let cpu = self.tasks[task].cpu;
        self.account(cpu);
        if self.tasks[task].is_runnable {
            self.dequeue(task);
            self.pick(cpu);
        }
    }

    /// Changes a task, which then continues where it may.
    pub fn change(&mut self, task: usize, change: impl FnOnce(&mut Task)) {
        let cpu = self.tasks[task].cpu;
        self.account(cpu);
        if !self.tasks[task].is_runnable {
            return change(&mut self.tasks[task]);
        }
        self.dequeue(task);
        change(&mut self.tasks[task]);
        let stays = self.allowed(task) >> cpu & 1 == 1;
        let next = if stays { cpu } else { self.select(task) };
        self.enqueue(task, next);
        if next != cpu {
            self.pick(cpu);
        }
    }

    pub fn set_group_weight(&mut self, group: usize, weight: f64) {
        self.account_all();
        self.groups[group].weight = weight;
    }

    pub fn set_online(&mut self, cpu: usize, is_online: bool) {
        self.account_all();
        self.cpus[cpu].is_online = is_online;
        if is_online {
            return;
        }
        for task in self.cpus[cpu].queue.clone() {
            self.dequeue(task);
            let next = self.select(task);
            self.enqueue(task, next);
        }
        self.pick(cpu);
    }

    /// The CPU for a task that wakes: an idle one, else the previous one, else the one with the fewest tasks.
    fn select(&self, task: usize) -> usize {
        let allowed = self.allowed(task);
        let of = &self.tasks[task];
        let may = |cpu: &usize| allowed >> cpu & 1 == 1;
        let rank = |cpu: usize| {
            let is_core_busy = self.is_core_shared(cpu);
            (is_core_busy, std::cmp::Reverse(self.cpus[cpu].capacity), cpu != of.cpu)
        };
        let idle = (0..self.cpus.len()).filter(may).filter(|&cpu| self.cpus[cpu].queue.is_empty());
        idle.min_by_key(|&cpu| rank(cpu)).unwrap_or_else(|| {
            let all = (0..self.cpus.len()).filter(may);
            if may(&of.cpu) { of.cpu } else { all.min_by_key(|&cpu| self.cpus[cpu].queue.len()).unwrap_or(0) }
        })
    }

    fn enqueue(&mut self, task: usize, cpu: usize) {
        self.account(cpu);
        let (group, weight, from) = (self.tasks[task].group, self.tasks[task].weight, self.tasks[task].cpu);
        let moved = if from == cpu { 0.0 } else { self.floor(cpu, group) - self.floor(from, group) };
        self.tasks[task].cpu = cpu;
        if group != ROOT {
            let floor = self.cpus[cpu].floor;
            let queue = &mut self.cpus[cpu].groups[group];
            if queue.load == 0.0 {
                queue.time = queue.time.max(floor - MOST_CREDIT);
            }
            queue.load += weight;
            self.groups[group].load += weight;
        }
        let floor = self.floor(cpu, group);
        let of = &mut self.tasks[task];
        of.time = (of.time + moved).max(floor - MOST_CREDIT);
        (of.is_runnable, of.queued_us) = (true, self.now_us);
        self.cpus[cpu].queue.push(task);
        match self.cpus[cpu].current {
            Some(current) if !self.preempts(cpu, task, current) => self.plan(cpu),
            _ => self.pick(cpu),
        }
    }

    fn preempts(&self, cpu: usize, task: usize, current: usize) -> bool {
        let (of, running) = (&self.tasks[task], &self.tasks[current]);
        if of.group != running.group {
            return self.entity_time(cpu, task) + WAKE_UP_GRANULARITY < self.entity_time(cpu, current);
        }
        if of.is_idle != running.is_idle {
            return running.is_idle;
        }
        of.time + WAKE_UP_GRANULARITY * NICE_0 / of.weight < running.time
    }

    fn dequeue(&mut self, task: usize) {
        let Task { cpu, group, weight, .. } = self.tasks[task];
        self.tasks[task].is_runnable = false;
        self.account_siblings(cpu);
        let of = &mut self.cpus[cpu];
        of.queue.retain(|&queued| queued != task);
        if of.current == Some(task) {
            of.current = None;
        } else {
            // The kernel accounts a wait when the task leaves the queue as well.
            let waited_us = self.now_us - self.tasks[task].queued_us;
            self.tasks[task].counters.wait_ns += waited_us * 1000;
        }
        if group != ROOT {
            let queue = &mut self.cpus[cpu].groups[group];
            queue.load = if queue.load - weight < 0.5 { 0.0 } else { queue.load - weight };
            self.groups[group].load = (self.groups[group].load - weight).max(0.0);
        }
    }

    /// A CPU without work takes a task that waits elsewhere.
    fn pull(&mut self, cpu: usize) {
        let waiting = |from: &usize| self.cpus[*from].queue.len() > 1;
        let mut busy: Vec<usize> = (0..self.cpus.len()).filter(waiting).collect();
        busy.sort_by_key(|&from| std::cmp::Reverse(self.cpus[from].queue.len()));
        let found = busy.into_iter().find_map(|from| self.movable(from, cpu).map(|task| (from, task)));
        if let Some((_, task)) = found {
            self.dequeue(task);
            self.enqueue(task, cpu);
        }
    }

    /// A task that waits on `from` and may run on `cpu`.
    fn movable(&self, from: usize, cpu: usize) -> Option<usize> {
        let mut waiting = self.cpus[from].queue.iter().filter(|&&task| Some(task) != self.cpus[from].current);
        waiting.find(|&&task| self.allowed(task) >> cpu & 1 == 1).copied()
    }

    /// The load that a task is for its CPU.
    fn load_of(&self, task: usize) -> f64 {
        let Task { group, weight, .. } = self.tasks[task];
        let within = if group == ROOT { 1.0 } else { self.groups[group].weight / self.groups[group].load.max(1.0) };
        weight * within
    }

    /// Evens out loads, and moves a task that runs alone on a slow CPU, or beside another on one core, to a faster idle one.
    fn balance(&mut self) {
        let load = |it: &Self, cpu: usize| {
            let sum: f64 = it.cpus[cpu].queue.iter().map(|&task| it.load_of(task)).sum();
            sum / f64::from(it.cpus[cpu].capacity.max(1))
        };
        for cpu in (0..self.cpus.len()).filter(|&cpu| self.cpus[cpu].is_online).collect::<Vec<_>>() {
            if self.cpus[cpu].queue.is_empty() {
                self.pick(cpu);
                self.take_from_slower(cpu);
                continue;
            }
            let busiest = (0..self.cpus.len()).max_by(|&one, &other| load(self, one).total_cmp(&load(self, other)));
            let Some(busiest) = busiest.filter(|&busiest| busiest != cpu) else { continue };
            let gap = (load(self, busiest) - load(self, cpu)) * f64::from(self.cpus[cpu].capacity);
            let Some(task) = self.movable(busiest, cpu).filter(|&task| self.load_of(task) < gap) else { continue };
            self.dequeue(task);
            self.enqueue(task, cpu);
            self.plan(busiest);
        }
    }

    fn take_from_slower(&mut self, cpu: usize) {
        if self.cpus[cpu].current.is_some() || self.is_core_shared(cpu) {
            return;
        }
        let capacity = self.cpus[cpu].capacity;
        let slower = (0..self.cpus.len()).find(|&other| {
            let is_sibling = other == cpu || self.cpus[cpu].siblings.contains(&other);
            let Some(task) = self.cpus[other].current.filter(|_| !is_sibling) else { return false };
            let is_faster = f64::from(capacity) / 1024.0 > self.speed(other) * 1.2;
            is_faster && self.allowed(task) >> cpu & 1 == 1
        });
        let Some((slower, task)) = slower.and_then(|slower| Some((slower, self.cpus[slower].current?))) else { return };
        self.account(slower);
        self.dequeue(task);
        self.enqueue(task, cpu);
        self.pick(slower);
    }
}
