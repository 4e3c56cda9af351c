//! Collects the events of a file, whichever its format, in the order of time.

use std::collections::HashMap;

use brisk_mechanism::memory::victim::Candidate;

use crate::model::{
    Call, Context, Counts, Event, Exec, Kind, Leaving, Marker, MemoryCount, MemoryFacts, NICE_0, Naming, Symbol, Tid,
    Trace,
};

/// More than any recording that a workstation could explain; it bounds memory to some 4 GiB.
const MAX_EVENTS: usize = 50_000_000;
/// A step back of a CPU's clock from which on it is no reordering of lines.
const CLOCK_STEP_NS: u64 = 10_000_000;
/// How many names and priorities threads can have; more would be forged.
const MAX_NAMES: usize = 4_000_000;
/// How many markers and programs are kept; more would be forged.
const MAX_MARKERS: usize = 1_000_000;
/// How many facts of memory are kept, and processes of each; more would be forged.
const MAX_MEMORY_FACTS: usize = 1000;
const MAX_PROCESSES: usize = 1000;

/// More events than [`MAX_EVENTS`].
#[derive(Debug, thiserror::Error)]
#[error("more than {MAX_EVENTS} events; record or cut a shorter time")]
pub struct TooManyEvents;

/// What each reader fills.
#[derive(Debug, Default)]
pub struct Collector {
    trace: Trace,
    /// By CPU: the time of its last event, and whether events were lost after it.
    cpus: HashMap<u16, Cpu>,
    latest_ns: u64,
    out_of_order: u64,
    names: usize,
    lost: u64,
    is_lossy: bool,
    is_before_4_14: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    last_ns: u64,
    is_lossy: bool,
    /// The largest step back, and the time from which it went.
    step_back: Option<(u64, u64)>,
}

impl Collector {
    /// An empty collector for a file of this format.
    pub fn new(format: &'static str) -> Self {
        Self { trace: Trace { format, ..Trace::default() }, ..Self::default() }
    }

    /// Corrects what the file is, when only its later content tells.
    pub fn set_format(&mut self, format: &'static str) {
        self.trace.format = format;
    }

    /// A state by its number. Numbers above 256 (preempted) are of kernels before 4.14 only.
    pub fn leaving(&mut self, state: u64) -> Leaving {
        self.is_before_4_14 |= state > 256;
        leaving_of_number(state)
    }

    /// Adds an event.
    ///
    /// # Errors
    /// When there are too many.
    pub fn push(&mut self, event: Event) -> Result<(), TooManyEvents> {
        let cpu = self.cpus.entry(event.cpu).or_default();
        let back_ns = cpu.last_ns.saturating_sub(event.time_ns);
        if back_ns >= CLOCK_STEP_NS && cpu.step_back.is_none_or(|(most, _)| back_ns > most) {
            cpu.step_back = Some((back_ns, cpu.last_ns));
        }
        cpu.last_ns = event.time_ns;
        let is_lossy = std::mem::take(&mut cpu.is_lossy);
        if event.time_ns < self.latest_ns {
            self.out_of_order += 1;
        }
        self.latest_ns = self.latest_ns.max(event.time_ns);
        if self.trace.events.len() + 2 > MAX_EVENTS {
            return Err(TooManyEvents);
        }
        if is_lossy {
            self.trace.events.push(Event { kind: Kind::Lost, context: Context::Unknown, ..event });
        }
        count(&mut self.trace.counts, &event.kind);
        self.trace.events.push(event);
        Ok(())
    }

    /// An event that has no use here.
    pub fn skip(&mut self) {
        self.trace.counts.others += 1;
    }

    /// Notes that events of `cpu` were lost between its last event and its next one; `count` is 0 where unknown.
    pub fn lost(&mut self, cpu: u16, count: u64) {
        self.cpus.entry(cpu).or_default().is_lossy = true;
        self.is_lossy = true;
        self.lost = self.lost.saturating_add(count);
    }

    /// Notes a thread's name; `<...>` and the empty name say nothing.
    pub fn name(&mut self, tid: Tid, time_ns: u64, name: &str) {
        if name.is_empty() || name == "<...>" || tid == 0 {
            return;
        }
        let symbol = self.trace.symbols.intern(name);
        let names = self.trace.names.entry(tid).or_default();
        if names.last().is_none_or(|last| last.name != symbol) && self.names < MAX_NAMES {
            names.push(Naming { time_ns, name: symbol });
            self.names += 1;
        }
    }

    /// Notes the kernel's priority of a thread that comes to a CPU; that of deadlines is below 0.
    pub fn priority(&mut self, tid: Tid, time_ns: u64, priority: i64) {
        let Ok(priority) = u8::try_from(priority.max(0)) else { return };
        if tid == 0 || priority == NICE_0 && !self.trace.priorities.contains_key(&tid) {
            return;
        }
        let priorities = self.trace.priorities.entry(tid).or_default();
        if priorities.last().is_none_or(|last| last.1 != priority) && self.names < MAX_NAMES {
            priorities.push((time_ns, priority));
            self.names += 1;
        }
    }

    /// Notes the process of a thread.
    pub fn process_of(&mut self, tid: Tid, process: Tid) {
        if tid != 0 && process != 0 {
            self.trace.processes.insert(tid, process);
        }
    }

    /// A thread executes the program at `path`: the kernel calls it by its file's name.
    pub fn executed(&mut self, tid: Tid, time_ns: u64, path: &str) {
        let name = path.rsplit('/').next().unwrap_or(path);
        // The kernel keeps 15 bytes of it.
        let end = (0..=15.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        self.name(tid, time_ns, &name[..end]);
        if self.trace.execs.len() < MAX_MARKERS {
            let name = self.symbol(name);
            self.trace.execs.push(Exec { time_ns, tid, name });
        }
    }

    /// Notes a marker of a launch.
    pub fn mark(&mut self, marker: Marker) {
        if self.trace.markers.len() < MAX_MARKERS {
            self.trace.markers.push(marker);
        }
    }

    /// Notes a counter of memory.
    pub fn count_memory(&mut self, count: MemoryCount) {
        if self.trace.memory.len() < MAX_MARKERS {
            self.trace.memory.push(count);
        }
    }

    /// Notes facts of memory.
    pub fn know_memory(&mut self, facts: MemoryFacts) {
        if self.trace.memory_facts.len() < MAX_MEMORY_FACTS {
            self.trace.memory_facts.push(facts);
        }
    }

    /// Notes a process that held memory at the time of the last facts.
    pub fn know_process(&mut self, process: Candidate) {
        if let Some(facts) = self.trace.memory_facts.last_mut().filter(|facts| facts.processes.len() < MAX_PROCESSES) {
            facts.processes.push(process);
        }
    }

    /// A thread is born by clone(2) with these flags.
    pub fn born(&mut self, child: Tid, parent: Tid, flags: u64) {
        const CLONE_THREAD: u64 = 0x10000;
        let of_parent = self.trace.processes.get(&parent).copied().unwrap_or(parent);
        self.process_of(child, if flags & CLONE_THREAD != 0 { of_parent } else { child });
    }

    /// The name of a thread that no event names.
    pub fn name_unknown(&mut self, tid: Tid, name: &str) {
        if !self.trace.names.contains_key(&tid) {
            self.name(tid, 0, name);
        }
    }

    /// Notes the command line of a process.
    pub fn command(&mut self, process: Tid, command: &str) {
        if !command.is_empty() {
            self.trace.commands.insert(process, command.to_owned());
        }
    }

    /// The symbol of `text`.
    pub fn symbol(&mut self, text: &str) -> Symbol {
        self.trace.symbols.intern(text)
    }

    /// Notes what is missing or wrong, for the user.
    pub fn fault(&mut self, what: String) {
        self.trace.faults.push(what);
    }

    /// Sorts the events and names what is missing.
    pub fn finish(mut self) -> Trace {
        if self.out_of_order > 0 && !self.is_binary() {
            self.trace.faults.push(format!("{} events were out of order and have been sorted", self.out_of_order));
        }
        // Readers of binary files take one CPU after the other. The sort keeps the order of equal times.
        if self.out_of_order > 0 {
            self.trace.events.sort_by_key(|event| event.time_ns);
            self.trace.names.values_mut().for_each(|names| names.sort_by_key(|naming| naming.time_ns));
            self.trace.priorities.values_mut().for_each(|priorities| priorities.sort_by_key(|it| it.0));
        }
        self.trace.markers.sort_by_key(|marker| marker.time_ns);
        self.trace.execs.sort_by_key(|exec| exec.time_ns);
        self.trace.memory.sort_by_key(|count| count.time_ns);
        self.trace.memory_facts.sort_by_key(|facts| facts.time_ns);
        let mut steps: Vec<(u16, u64, u64)> =
            self.cpus.iter().filter_map(|(&cpu, it)| it.step_back.map(|(back, from)| (cpu, back, from))).collect();
        steps.sort_unstable();
        for (cpu, back_ns, from_ns) in steps {
            self.trace.faults.push(format!(
                "the clock of CPU {cpu} steps back by {:.3} s at {:.6} s: times around it are not reliable",
                back_ns as f64 / 1e9,
                from_ns as f64 / 1e9
            ));
        }
        if self.is_lossy {
            let count = if self.lost > 0 { self.lost.to_string() } else { "some".to_owned() };
            self.trace.faults.push(format!("{count} events were lost while recording: a larger buffer avoids that"));
        }
        let ambiguous = if self.is_before_4_14 { Leaving::Dead } else { Leaving::Stopped };
        for event in &mut self.trace.events {
            if let Kind::Switch { leaving: leaving @ Leaving::DeadOrParked, .. } = &mut event.kind {
                *leaving = ambiguous;
            }
        }
        self.name_what_the_trace_lacks();
        self.trace.events.shrink_to_fit();
        self.trace
    }

    fn is_binary(&self) -> bool {
        !self.trace.format.contains("text") && !self.trace.format.contains("HTML")
    }

    fn name_what_the_trace_lacks(&mut self) {
        let counts = self.trace.counts;
        let mut lacks = |is_missing: bool, what: &str| {
            if is_missing && counts.switches > 0 {
                self.trace.faults.push(what.to_owned());
            }
        };
        lacks(
            counts.wakings + counts.wakeups == 0,
            "no sched_waking events: a wait ends when its thread runs, and no waker is known",
        );
        lacks(
            counts.wakings == 0 && counts.wakeups > 0,
            "sched_wakeup events only: a waker on another CPU may be missed; record sched_waking",
        );
        lacks(counts.frequencies == 0, "no cpu_frequency events: running time is not split by frequency");
    }
}

fn count(counts: &mut Counts, kind: &Kind) {
    let counter = match kind {
        Kind::Switch { .. } => &mut counts.switches,
        Kind::Waking { .. } => &mut counts.wakings,
        Kind::Woken { .. } => &mut counts.wakeups,
        Kind::Frequency { .. } | Kind::FrequencyAtStart { .. } => &mut counts.frequencies,
        Kind::BlockedReason { .. } => &mut counts.blocked_reasons,
        Kind::BlockIssue { .. } | Kind::BlockComplete { .. } => &mut counts.block_requests,
        Kind::ReclaimBegin => &mut counts.reclaims,
        Kind::BinderCall(_) => &mut counts.binder_calls,
        _ => return,
    };
    *counter += 1;
}

/// A state by its letters, as the kernel prints them: `S`, `R+`, `D|K`. `None` for other text.
pub fn leaving_of_letters(state: &str) -> Option<Leaving> {
    Some(match state.as_bytes().first()? {
        b'R' => Leaving::Runnable,
        b'S' | b'I' => Leaving::Sleeping,
        b'D' => Leaving::Uninterruptible,
        b'T' | b't' | b'P' => Leaving::Stopped,
        b'X' | b'x' | b'Z' => Leaving::Dead,
        // Only flags, as in W and K.
        _ => return None,
    })
}

/// A state by its number.
fn leaving_of_number(state: u64) -> Leaving {
    match state {
        _ if state & 1 != 0 => Leaving::Sleeping,
        _ if state & 2 != 0 => Leaving::Uninterruptible,
        _ if state & (4 | 8) != 0 => Leaving::Stopped,
        _ if state & (16 | 32) != 0 => Leaving::Dead,
        _ if state & 64 != 0 => Leaving::DeadOrParked,
        // 128 is the idle state of kernel threads since 4.14.
        128 => Leaving::Sleeping,
        _ => Leaving::Runnable,
    }
}

/// The call that a transaction's fields describe; `flags` is binder's.
pub fn call(id: u32, process: Tid, reply: u64, flags: u64) -> Call {
    Call { id, process, is_reply: reply != 0, is_one_way: flags & 1 != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(cpu: u16, time_ns: u64) -> Event {
        let kind = Kind::Woken { target: 7, cpu: None, is_new: false };
        Event { time_ns, tid: 1, cpu, context: Context::Unknown, kind }
    }

    // Verifies TRACE-3.
    #[test]
    fn a_frequency_that_never_changes_is_known_from_the_start() {
        for (kind, is_known) in [
            (Kind::PageFault, false),
            (Kind::FrequencyAtStart { cpu: 0, khz: 1 }, true),
            (Kind::Frequency { cpu: 0, khz: 1 }, true),
        ] {
            let mut collector = Collector::new("text");
            collector.push(Event { kind, ..woken(0, 10) }).unwrap();
            let switch = Kind::Switch { next: 0, leaving: Leaving::Sleeping };
            collector.push(Event { kind: switch, ..woken(0, 20) }).unwrap();
            let faults = collector.finish().faults;
            assert_eq!(!faults.iter().any(|fault| fault.contains("cpu_frequency")), is_known, "{kind:?}: {faults:?}");
        }
    }

    #[test]
    fn events_are_sorted_and_losses_come_before_the_next_event() {
        let mut collector = Collector::new("text");
        for (cpu, time_ns) in [(0, 10), (1, 30), (0, 20)] {
            if time_ns == 20 {
                collector.lost(0, 3);
            }
            collector.push(woken(cpu, time_ns)).unwrap();
        }
        let trace = collector.finish();
        let found: Vec<(u64, bool)> =
            trace.events.iter().map(|event| (event.time_ns, event.kind == Kind::Lost)).collect();
        assert_eq!(found, [(10, false), (20, true), (20, false), (30, false)]);
        assert!(trace.faults[0].contains("1 events were out of order"), "{:?}", trace.faults);
        assert!(trace.faults[1].contains("3 events were lost"), "{:?}", trace.faults);
    }

    #[test]
    fn a_clock_that_steps_back_is_named() {
        let mut collector = Collector::new("text");
        for time_ns in [5_000_000_000, 2_000_000_000] {
            collector.push(woken(3, time_ns)).unwrap();
        }
        let faults = collector.finish().faults.join("\n");
        assert!(faults.contains("the clock of CPU 3 steps back by 3.000 s at 5.000000 s"), "{faults}");
    }

    #[test]
    fn states_are_read_as_letters_and_as_numbers() {
        for (letters, number, expected) in [
            ("R", 0, Leaving::Runnable),
            ("R+", 256, Leaving::Runnable),
            ("R+", 4096, Leaving::Runnable),
            ("S", 1, Leaving::Sleeping),
            ("S|W", 1, Leaving::Sleeping),
            ("I", 128, Leaving::Sleeping),
            ("D|K", 2 | 256, Leaving::Uninterruptible),
            ("T", 4, Leaving::Stopped),
            ("t", 8, Leaving::Stopped),
            ("X", 16, Leaving::Dead),
            ("Z", 32, Leaving::Dead),
        ] {
            assert_eq!(leaving_of_letters(letters), Some(expected), "{letters}");
            assert_eq!(leaving_of_number(number), expected, "{number}");
        }
        assert_eq!(leaving_of_letters(""), None);
        assert_eq!(leaving_of_letters("?"), None);
    }

    #[test]
    fn the_number_64_is_dead_only_for_old_kernels() {
        for (other, expected) in [(256, Leaving::Stopped), (1024, Leaving::Dead)] {
            let mut collector = Collector::new("text");
            for state in [64, other] {
                let kind = Kind::Switch { next: 0, leaving: collector.leaving(state) };
                collector.push(Event { kind, ..woken(0, 1) }).unwrap();
            }
            let kind = collector.finish().events[0].kind;
            assert_eq!(kind, Kind::Switch { next: 0, leaving: expected });
        }
    }

    #[test]
    fn a_name_without_meaning_is_not_kept() {
        let mut collector = Collector::new("text");
        for (time_ns, name) in [(1, "<...>"), (2, "sh"), (3, "sh"), (4, ""), (5, "ls")] {
            collector.name(7, time_ns, name);
        }
        let trace = collector.finish();
        for (time_ns, expected) in [(0, "sh"), (2, "sh"), (4, "sh"), (5, "ls"), (9, "ls")] {
            assert_eq!(trace.name_at(7, time_ns), Some(expected), "{time_ns}");
        }
        assert_eq!(trace.name_at(8, 0), None);
    }
}
