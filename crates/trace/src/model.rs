//! A trace as events in the order of time, and what the file says about itself.

use std::collections::{BTreeMap, HashMap};

use brisk_mechanism::memory::victim::Candidate;

/// A thread's number as the kernel shows it in the first PID namespace. Numbers are used again.
pub type Tid = u32;

/// In [`Event::tid`] where the file does not tell which thread ran; the kernel's numbers are below 2^22.
pub const NO_TID: Tid = Tid::MAX;

/// The kernel's priority of nice 0. Those of other nice values are beside it, and those below [`REAL_TIME_BELOW`] are real-time.
pub const NICE_0: u8 = 120;
/// Priorities below it are of real-time threads.
pub const REAL_TIME_BELOW: u8 = 100;

/// An interned string: a name, or a function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);

/// What interrupted code an event is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Context {
    /// The file does not tell.
    #[default]
    Unknown,
    /// The thread itself ran.
    Thread,
    /// A hard or soft interrupt ran; the event's thread is only the interrupted one.
    Interrupt,
}

/// The state in which a thread leaves a CPU (`prev_state` of sched_switch).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// R or R+: preempted, or it yielded.
    Runnable,
    /// S or I: waits, and a signal could end that; or an idle kernel thread.
    Sleeping,
    /// D: waits, and no signal ends that.
    Uninterruptible,
    /// T, t or P: stopped, traced or parked.
    Stopped,
    /// X, x or Z.
    Dead,
    /// The number 64 until the whole file is read: dead before Linux 4.14, parked since.
    DeadOrParked,
}

/// One call of binder (`binder_transaction`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The number of the transaction.
    pub id: u32,
    /// The process that is called.
    pub process: Tid,
    /// Whether it answers another call.
    pub is_reply: bool,
    /// Whether the caller waits for no answer (TF_ONE_WAY).
    pub is_one_way: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// sched_switch; the event's thread is the one that leaves.
    Switch { next: Tid, leaving: Leaving },
    /// sched_waking: recorded by the waker.
    Waking { target: Tid, cpu: Option<u16> },
    /// sched_wakeup or sched_wakeup_new: may be recorded in an interrupt of the CPU that the target will run on.
    Woken { target: Tid, cpu: Option<u16>, is_new: bool },
    /// sched_migrate_task.
    Migrated { target: Tid, cpu: u16 },
    /// cpu_frequency.
    Frequency { cpu: u16, khz: u32 },
    /// The frequency when the recording began, as brisk's recorder notes it.
    FrequencyAtStart { cpu: u16, khz: u32 },
    /// The maximum of cpu_frequency_limits.
    FrequencyLimit { cpu: u16, khz: u32 },
    /// sched_blocked_reason of Android's kernels: why the thread's last wait was uninterruptible; or a note of brisk's recorder: what
    /// for it waits.
    BlockedReason { target: Tid, is_io: bool, function: Option<Symbol> },
    /// mm_vmscan_direct_reclaim_begin.
    ReclaimBegin,
    /// mm_vmscan_direct_reclaim_end.
    ReclaimEnd,
    /// exceptions:page_fault_user.
    PageFault,
    /// The thread enters futex(2), or waits for a lock of the kernel (contention_begin).
    LockBegin,
    /// It has left futex(2), or has the lock (contention_end).
    LockEnd,
    /// block_rq_issue; `device` is major << 20 | minor.
    BlockIssue { device: u32 },
    /// block_rq_complete.
    BlockComplete { device: u32 },
    /// The thread reads this file, or none any more: android_fs_dataread_start and _end, and those of f2fs. Brief: until it comes to a
    /// CPU again, as it has added a page of the file to the page cache (mm_filemap_add_to_page_cache).
    Reads { file: Option<Symbol>, is_brief: bool },
    /// binder_transaction.
    BinderCall(Call),
    /// binder_transaction_received.
    BinderReceived { id: u32 },

    /// sched_process_fork or task_newtask.
    Fork { child: Tid },
    /// sched_process_exit.
    Exit,
    /// A slice of atrace begins on this thread; it may be a wait for a monitor of ART.
    SliceBegin { is_lock: bool },
    /// The slice that began last on this thread ends.
    SliceEnd,

    /// The kernel or the recorder lost events of this CPU since its event before this one.
    Lost,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// On the trace's clock.
    pub time_ns: u64,
    /// The thread that ran on the CPU; 0 for its idle task, or [`NO_TID`].
    pub tid: Tid,
    /// The CPU that recorded the event.
    pub cpu: u16,
    pub context: Context,
    pub kind: Kind,
}

/// The kinds of events that answers depend on, for what a trace can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    pub switches: u64,
    pub wakings: u64,
    pub wakeups: u64,
    pub frequencies: u64,
    pub blocked_reasons: u64,
    pub block_requests: u64,
    pub reclaims: u64,
    pub binder_calls: u64,
    /// Events that the reader knows no use for.
    pub others: u64,
}

/// A name that a thread had from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    pub time_ns: u64,
    pub name: Symbol,
}

/// What a marker of atrace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerKind {
    /// A slice of the thread begins.
    Begin,
    /// A slice of the process begins, which any thread may end.
    AsyncBegin,
    AsyncEnd,
    Instant,
}

/// A marker of atrace that tells of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    pub time_ns: u64,
    pub tid: Tid,
    /// The process that the marker names.
    pub process: Tid,
    pub kind: MarkerKind,
    pub name: Symbol,
}

/// A thread executed a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exec {
    pub time_ns: u64,
    pub tid: Tid,
    /// The program's file, without its folder.
    pub name: Symbol,
}

/// What the kernel counts of memory, of all processes since boot. brisk's recorder notes changes, ten times a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryCounter {
    /// Pages of files that were read again after they were evicted.
    ReadAgain,
    SwappedIn,
    /// Microseconds in which a process waited for memory (PSI).
    StalledUs,
    /// Pages that are free; alone it also falls.
    Free,
    /// Pages that reclaim has freed.
    Reclaimed,
    SwappedOut,
}

impl MemoryCounter {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::ReadAgain, Self::SwappedIn, Self::StalledUs, Self::Free, Self::Reclaimed, Self::SwappedOut];

    /// Its name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadAgain => "pages read again",
            Self::SwappedIn => "pages swapped in",
            Self::StalledUs => "stalled for memory (us)",
            Self::Free => "pages free",
            Self::Reclaimed => "pages reclaimed",
            Self::SwappedOut => "pages swapped out",
        }
    }
}

/// A counter from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryCount {
    pub time_ns: u64,
    /// The recorder.
    pub tid: Tid,
    pub counter: MemoryCounter,
    pub value: u64,
}

/// What the device told of its memory at a moment, as brisk's recorder notes it when it begins and ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryFacts {
    pub time_ns: u64,
    pub page_kib: u64,
    pub total_kib: u64,
    pub free_kib: u64,
    pub swap_total_kib: u64,
    pub swap_free_kib: u64,
    /// The memory that a byte on swap costs; `None` where too little is stored there to measure it.
    pub swap_ratio: Option<f64>,
    /// Those with the highest `oom_score_adj` first, without what estimates do not use.
    pub processes: Vec<Candidate>,
}

/// A file, read.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// What the file is, for users: `trace-cmd v6`.
    pub format: &'static str,
    /// In the order of time.
    pub events: Vec<Event>,
    pub counts: Counts,
    /// The interned strings.
    pub symbols: Symbols,
    /// Each number's names in the order of time: a thread can rename itself, and a number can be used again.
    pub names: HashMap<Tid, Vec<Naming>>,
    /// The kernel's priority from a time on, of numbers that had another one than [`NICE_0`].
    pub priorities: HashMap<Tid, Vec<(u64, u8)>>,
    /// The process of each thread, where the file tells.
    pub processes: HashMap<Tid, Tid>,
    /// Longer names of processes (their command lines), where the file has them.
    pub commands: BTreeMap<Tid, String>,
    /// Those of launches, in the order of time.
    pub markers: Vec<Marker>,
    /// In the order of time.
    pub execs: Vec<Exec>,
    /// In the order of time.
    pub memory: Vec<MemoryCount>,
    /// In the order of time.
    pub memory_facts: Vec<MemoryFacts>,
    /// What is missing or wrong, in words, in the order in which it was found.
    pub faults: Vec<String>,
}

impl Trace {
    /// The time of the first event, 0 for none.
    pub fn start_ns(&self) -> u64 {
        self.events.first().map_or(0, |event| event.time_ns)
    }

    /// The time of the last event, 0 for none.
    pub fn end_ns(&self) -> u64 {
        self.events.last().map_or(0, |event| event.time_ns)
    }

    /// The time of position `at`; that after the last event is the end.
    pub fn time_ns(&self, at: u32) -> u64 {
        self.events.get(at as usize).map_or_else(|| self.end_ns(), |event| event.time_ns)
    }

    /// The kernel's priority with which `tid` was last switched to before or at `time_ns`; else that of nice 0.
    pub fn priority_at(&self, tid: Tid, time_ns: u64) -> u8 {
        let priorities = self.priorities.get(&tid).map_or(&[][..], Vec::as_slice);
        let after = priorities.partition_point(|(since_ns, _)| *since_ns <= time_ns);
        after.checked_sub(1).map_or(NICE_0, |place| priorities[place].1)
    }

    /// By how much a counter rose in a window, at most, as only some of its values are known; `None` where none is.
    pub fn rise(&self, counter: MemoryCounter, from_ns: u64, to_ns: u64) -> Option<u64> {
        let [before, after] = self.around(counter, from_ns, to_ns)?;
        Some(after.value.saturating_sub(before.value))
    }

    /// The known values of a counter around a window, the nearest ones; `None` where none is.
    pub fn around(&self, counter: MemoryCounter, from_ns: u64, to_ns: u64) -> Option<[MemoryCount; 2]> {
        let counts = || self.memory.iter().filter(|count| count.counter == counter);
        let before = counts().take_while(|count| count.time_ns <= from_ns).last().or_else(|| counts().next())?;
        let after = counts().find(|count| count.time_ns >= to_ns).or_else(|| counts().next_back())?;
        Some([*before, *after])
    }

    /// The facts of memory that are nearest to a window.
    pub fn memory_facts_near(&self, from_ns: u64, to_ns: u64) -> Option<&MemoryFacts> {
        self.memory_facts.iter().min_by_key(|facts| facts.time_ns.abs_diff(facts.time_ns.clamp(from_ns, to_ns)))
    }

    /// The name that `tid` had last before or at `time_ns`, or else its first.
    pub fn name_at(&self, tid: Tid, time_ns: u64) -> Option<&str> {
        let names = self.names.get(&tid)?;
        let after = names.partition_point(|naming| naming.time_ns <= time_ns);
        let naming = names.get(after.saturating_sub(1))?;
        Some(self.symbols.text(naming.name))
    }
}

/// Strings, each stored once.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Symbols {
    /// The symbol of `text`, which is stored if it is new.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(&number) = self.numbers.get(text) {
            return Symbol(number);
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        Symbol(number)
    }

    /// The string of `symbol`, which is of this table.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.0 as usize).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_rises_between_the_values_around_a_window() {
        use MemoryCounter::{ReadAgain, StalledUs, SwappedIn};
        let count = |time_ns, counter, value| MemoryCount { time_ns, tid: 9, counter, value };
        let memory = vec![
            count(10, ReadAgain, 5),
            count(10, SwappedIn, 1),
            count(20, ReadAgain, 7),
            count(30, ReadAgain, 17),
            count(40, ReadAgain, 20),
        ];
        let trace = Trace { memory, ..Trace::default() };
        for (counter, from_ns, to_ns, expected) in [
            (ReadAgain, 20, 30, Some(10)),
            (ReadAgain, 25, 26, Some(10)),
            (ReadAgain, 0, 15, Some(2)),
            (ReadAgain, 35, 90, Some(3)),
            (ReadAgain, 50, 90, Some(0)),
            (SwappedIn, 0, 90, Some(0)),
            (StalledUs, 0, 90, None),
        ] {
            assert_eq!(trace.rise(counter, from_ns, to_ns), expected, "{counter:?} {from_ns} {to_ns}");
        }
    }

    #[test]
    fn an_event_takes_32_bytes() {
        assert_eq!(size_of::<Event>(), 32);
    }
}
