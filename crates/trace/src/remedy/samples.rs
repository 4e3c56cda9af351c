//! The samples of threads that the daemon would have taken while the trace was recorded.

use std::collections::HashMap;
use std::time::Duration;

use crate::model::{NO_TID, Tid, Trace};
use crate::threads::{Index, State, Timelines, readable};
use brisk_sys::process::schedstat::Usage;
use brisk_sys::sched::threads::{NEW_AND_BUSY_DIVISOR, Sample, Thread, ThreadUsage};

/// How the kernel's own threads begin, which the daemon leaves alone: a trace does not tell them otherwise.
const KERNEL_THREADS: [&str; 11] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "cpuhp/",
    "irq/",
    "jbd2/",
    "rcu",
    "kswapd",
    "kcompactd",
    "kthreadd",
    "sugov:",
];

/// Reads the threads of a trace period by period.
pub(super) struct Sampler<'t> {
    trace: &'t Trace,
    timelines: &'t Timelines,
    alive: Vec<Life>,
    /// The last one is born next.
    unborn: Vec<Life>,
    pub living: HashMap<Tid, Index>,
    sampled_ns: u64,
}

/// A thread, and the transition that holds when it was last sampled.
#[derive(Debug, Clone, Copy)]
struct Life {
    thread: Index,
    born_ns: u64,
    dies_ns: u64,
    at: usize,
}

impl<'t> Sampler<'t> {
    pub fn new(trace: &'t Trace, timelines: &'t Timelines) -> Self {
        let mut unborn: Vec<Life> = Vec::new();
        for (number, thread) in timelines.threads.iter().enumerate() {
            let is_sampled = thread.tid != 0 && thread.tid != NO_TID && !is_of_kernel(trace, thread.tid);
            if is_sampled {
                let (first, last) = thread.life(trace);
                let dies_ns = if last < trace.events.len() as u32 { trace.time_ns(last) } else { u64::MAX };
                unborn.push(Life { thread: number as Index, born_ns: trace.time_ns(first), dies_ns, at: 0 });
            }
        }
        unborn.sort_by_key(|life| std::cmp::Reverse(life.born_ns));
        let (alive, living) = (Vec::new(), HashMap::new());
        Self { trace, timelines, alive, unborn, living, sampled_ns: trace.start_ns() }
    }

    /// The threads that exist when the trace begins, as born.
    pub fn first(&mut self) -> Sample {
        let start_ns = self.trace.start_ns();
        let mut sample = Sample::default();
        self.alive = self.take_born(start_ns, &mut sample);
        sample
    }

    /// A sample of `period` before the trace, in which each thread is as busy as in the whole trace.
    pub fn before(&self, period: Duration) -> Sample {
        let (start_ns, end_ns) = (self.trace.start_ns(), self.trace.end_ns());
        let used = self.alive.iter().filter_map(|life| {
            let lived_ns = end_ns.min(life.dies_ns).saturating_sub(start_ns).max(1);
            let usage = self.usage(&mut life.clone(), (start_ns, end_ns), |_, from_ns, to_ns| to_ns - from_ns);
            let share = |ns: u64| (u128::from(ns) * period.as_nanos() / u128::from(lived_ns)) as u64;
            let (run_ns, wait_ns) = (share(usage.run_ns), share(usage.wait_ns));
            let slices = share(u64::from(usage.slices)).max(u64::from(run_ns > 0)) as u32;
            let usage = Usage { wall_ns: period.as_nanos() as u64, run_ns, wait_ns, slices };
            (run_ns + wait_ns > 0).then(|| ThreadUsage { tid: self.timelines.threads[life.thread as usize].tid, usage })
        });
        Sample { used: used.collect(), ..Sample::default() }
    }

    /// The sample from the last one to `to_ns`, also of those that are met in it and were busy since their birth. `waited` tells how
    /// much of a thread's time in the queue of a CPU is left.
    pub fn take(&mut self, to_ns: u64, mut waited: impl FnMut(Index, u16, u64, u64) -> u64) -> Sample {
        let from_ns = std::mem::replace(&mut self.sampled_ns, to_ns);
        let mut sample = Sample::default();
        let mut alive = std::mem::take(&mut self.alive);
        alive.retain_mut(|life| {
            let (thread, tid) = (life.thread, self.timelines.threads[life.thread as usize].tid);
            if life.dies_ns <= to_ns {
                sample.ended.push(tid);
                self.living.remove(&tid);
                return false;
            }
            let usage = self.usage(life, (from_ns, to_ns), |cpu, from_ns, to_ns| waited(thread, cpu, from_ns, to_ns));
            if usage.run_ns + usage.wait_ns > 0 {
                sample.used.push(ThreadUsage { tid, usage });
            }
            true
        });
        for mut life in self.take_born(to_ns, &mut sample) {
            let (thread, since_ns) = (life.thread, life.born_ns.max(from_ns));
            let waited = |cpu, from_ns, to_ns| waited(thread, cpu, from_ns, to_ns);
            let usage = self.usage(&mut life, (since_ns, to_ns), waited);
            if usage.wall_ns > 0 && usage.run_ns + usage.wait_ns >= (to_ns - from_ns) / NEW_AND_BUSY_DIVISOR {
                sample.used.push(ThreadUsage { tid: self.timelines.threads[thread as usize].tid, usage });
            }
            alive.push(life);
        }
        self.alive = alive;
        sample
    }

    /// The time of the last sample.
    pub fn sampled_ns(&self) -> u64 {
        self.sampled_ns
    }

    fn take_born(&mut self, to_ns: u64, sample: &mut Sample) -> Vec<Life> {
        let mut born = Vec::new();
        while let Some(life) = self.unborn.pop_if(|life| life.born_ns <= to_ns) {
            if life.dies_ns <= to_ns {
                continue;
            }
            let thread = &self.timelines.threads[life.thread as usize];
            let parent = thread.parent.map_or(1, |parent| self.timelines.threads[parent as usize].process);
            let command = self.trace.name_at(thread.tid, to_ns).map(readable).unwrap_or_default();
            sample.born.push(Thread { tid: thread.tid, pid: thread.process, parent, command });
            self.living.insert(thread.tid, life.thread);
            born.push(life);
        }
        born
    }

    fn usage(
        &self,
        life: &mut Life,
        (from_ns, to_ns): (u64, u64),
        mut waited: impl FnMut(u16, u64, u64) -> u64,
    ) -> Usage {
        let transitions = &self.timelines.threads[life.thread as usize].transitions;
        let mut usage = Usage { wall_ns: to_ns - from_ns, ..Usage::default() };
        while let Some(transition) = transitions.get(life.at) {
            let next = transitions.get(life.at + 1).map(|next| self.trace.time_ns(next.at));
            let since_ns = self.trace.time_ns(transition.at);
            let (begins, ends) = (since_ns.max(from_ns), next.unwrap_or(to_ns).min(to_ns));
            if begins < ends {
                match transition.state {
                    State::Running { .. } => {
                        usage.run_ns += ends - begins;
                        usage.slices += u32::from(since_ns >= from_ns);
                    }
                    State::Runnable { cpu } => usage.wait_ns += waited(cpu, begins, ends),
                    _ => {}
                }
            }
            if next.is_none_or(|next| next > to_ns) {
                break;
            }
            life.at += 1;
        }
        usage
    }
}

fn is_of_kernel(trace: &Trace, tid: Tid) -> bool {
    let name = trace.name_at(tid, trace.end_ns()).unwrap_or_default();
    KERNEL_THREADS.iter().any(|it| name.starts_with(it))
}
