//! All processes and their CPU time, sampled many times a second, for less than one percent of a CPU.
//!
//! /proc/PID/stat of each process stays open. An idle process is sampled with exponential back-off, and rarely while the
//! processes that are sampled each time account for all CPU time: its counters show afterwards what it used meanwhile. /proc is
//! listed only when /proc/loadavg shows that threads were created or have exited. A process is identified by its number and its
//! start time, because numbers are reused.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

use crate::cpu::loadavg;
use crate::cpu::loadavg::TaskCounts;
use crate::fields::{Fields, number};
use crate::open_file::OpenFile;
use crate::{DeviceError, Operation, Root, descriptors};

/// At most this many samples pass between two samples of a process.
pub const MAX_GAP_SAMPLES: u32 = 128;
/// And this many while a process uses CPU time and it is not known which.
const ALERT_GAP_SAMPLES: u32 = 16;
/// CPU time that no sampled process has used, in clock ticks, from which the quiet processes are sampled.
const UNATTRIBUTED_LIMIT_TICKS: u64 = 5;
/// A process that did nothing in this many samples in a row is quiet.
const QUIET_AFTER_SAMPLES: u32 = 3;
/// New processes that are added per sample; in a fork storm the rest wait for the next sample, and most exit before.
const NEW_IN_ONE_SAMPLE: usize = 64;
/// Names are truncated to this. A name that is too long for comm (proc_pid_comm(5)) is in the command line.
const NAME_LIMIT_BYTES: usize = 256;
/// The parent of kernel threads, which have no command line. In a container another process may have this number; its children
/// are then named by their comm.
const KTHREADD: u32 = 2;
const LISTING_BYTES: usize = 32 * 1024;

/// An event of a sample.
#[derive(Debug, PartialEq, Eq)]
pub enum ProcessChange<'a> {
    /// A process that was not known before.
    Started {
        /// Its number.
        pid: u32,
        /// Its parent's.
        parent: u32,
        /// When it started, in clock ticks since boot.
        start_ticks: u64,
        /// The program of its command line, else its comm.
        name: &'a str,
    },
    /// Its name has changed: usually it has executed another program.
    Renamed {
        /// Its number.
        pid: u32,
        /// The new one.
        name: &'a str,
    },
    /// It was sampled: after `Started`, and whenever something has changed.
    Sampled {
        /// Its number.
        pid: u32,
        /// The letter of its state.
        state: u8,
        /// Time in user space since it started, in clock ticks; all its threads.
        user_ticks: u64,
        /// Time in the kernel.
        system_ticks: u64,
        /// Samples since its last sample; 1 when that was the previous one.
        samples: u32,
    },
    /// It has ended.
    Ended {
        /// Its number.
        pid: u32,
    },
}

/// The known processes.
#[derive(Debug)]
pub struct ProcessWatch {
    root: Root,
    known: BTreeMap<u32, TrackedProcess>,
    folder: OwnedFd,
    loadavg: Option<OpenFile>,
    task_counts: Option<TaskCounts>,
    pending_new: usize,
    passed_over: u64,
    descriptors_left: u64,
    now: u32,
    /// Of all CPUs, when last reported.
    busy_ticks: Option<u64>,
    attributed_ticks: u64,
    unattributed_ticks: u64,
    /// Until this sample the quiet processes are sampled too.
    alert_until: u32,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct TrackedProcess {
    /// `None` where descriptors have run out.
    file: Option<OpenFile>,
    facts: StatFacts,
    comm: Vec<u8>,
    name: String,
    sampled_at: u32,
    due: u32,
    quiet_samples: u32,
    /// The last sample whose listing contained it.
    listed: u32,
}

/// The fields of /proc/PID/stat that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatFacts {
    /// Field 3.
    pub state: u8,
    /// Field 4.
    pub parent: u32,
    /// Field 14, in clock ticks.
    pub user_ticks: u64,
    /// Field 15.
    pub system_ticks: u64,
    /// Field 22.
    pub start_ticks: u64,
}

impl ProcessWatch {
    /// For the system below `root`; no process is known yet.
    ///
    /// # Errors
    /// When /proc cannot be opened.
    pub fn new(root: &Root) -> Result<Self, DeviceError> {
        let path = root.path("/proc");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty());
        Ok(Self {
            root: root.clone(),
            known: BTreeMap::new(),
            folder: folder.map_err(|error| DeviceError::io(&path, Operation::List, error))?,
            loadavg: OpenFile::open(root, "/proc/loadavg").ok(),
            task_counts: None,
            pending_new: 0,
            passed_over: 0,
            descriptors_left: descriptors::raise_limit(),
            now: 0,
            busy_ticks: None,
            attributed_ticks: 0,
            unattributed_ticks: 0,
            alert_until: u32::MAX,
            buffer: Vec::new(),
        })
    }

    /// The number of known processes.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True when no process is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// How often a new process had to wait for the next sample, because too many appeared at once.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Takes one sample, and passes its events to `each`. `busy_ticks` is the time since boot that all CPUs together have spent
    /// on processes, where it is known.
    pub fn sample(&mut self, busy_ticks: Option<u64>, each: &mut dyn FnMut(ProcessChange<'_>)) {
        self.now += 1;
        self.update_alert(busy_ticks);
        self.sample_known(each);
        if self.task_counts_changed() {
            self.list(each);
        }
    }

    /// Decides whether the quiet processes are sampled.
    fn update_alert(&mut self, busy_ticks: Option<u64>) {
        let before = std::mem::replace(&mut self.busy_ticks, busy_ticks);
        let explained = std::mem::take(&mut self.attributed_ticks);
        let (Some(before), Some(busy_ticks)) = (before, busy_ticks) else {
            self.alert_until = if busy_ticks.is_some() { 0 } else { u32::MAX };
            return;
        };
        let worked = self.unattributed_ticks + busy_ticks.saturating_sub(before);
        self.unattributed_ticks = worked.saturating_sub(explained);
        if self.unattributed_ticks >= UNATTRIBUTED_LIMIT_TICKS {
            self.unattributed_ticks = 0;
            self.alert_until = self.now + ALERT_GAP_SAMPLES;
        }
    }

    fn sample_known(&mut self, each: &mut dyn FnMut(ProcessChange<'_>)) {
        let now = self.now;
        let alert = now <= self.alert_until;
        let mut ended = Vec::new();
        for (&pid, known) in self.known.iter_mut().filter(|(_, known)| known.is_due(now, alert)) {
            let opened = if known.file.is_some() { None } else { open(&self.root, pid) };
            let file = known.file.as_ref().or(opened.as_ref());
            let text = file.and_then(|file| file.read(&mut self.buffer).ok());
            let Some((comm, facts)) = text.and_then(parse).filter(|(_, it)| it.start_ticks == known.facts.start_ticks)
            else {
                ended.push(pid);
                continue;
            };
            if comm != known.comm.as_slice() {
                known.comm = comm.to_vec();
                known.name = name(&self.root, pid, comm, facts.parent);
                each(ProcessChange::Renamed { pid, name: &known.name });
            }
            self.attributed_ticks += known.sample(facts, now, pid, each);
        }
        for pid in ended {
            self.remove_process(pid, each);
        }
    }

    fn remove_process(&mut self, pid: u32, each: &mut dyn FnMut(ProcessChange<'_>)) {
        if self.known.remove(&pid).is_some_and(|known| known.file.is_some()) {
            self.descriptors_left += 1;
        }
        // Its number may have been reused already.
        self.task_counts = None;
        each(ProcessChange::Ended { pid });
    }

    fn task_counts_changed(&mut self) -> bool {
        let text = self.loadavg.as_ref().and_then(|file| file.read(&mut self.buffer).ok());
        let task_counts = text.and_then(loadavg::parse);
        let changed = task_counts.is_none() || task_counts != self.task_counts || self.pending_new > 0;
        self.task_counts = task_counts;
        changed
    }

    /// Lists /proc: adds new processes, and forgets those that have exited.
    fn list(&mut self, each: &mut dyn FnMut(ProcessChange<'_>)) {
        let mut new = Vec::new();
        let mut listing = [MaybeUninit::uninit(); LISTING_BYTES];
        if rustix::fs::seek(&self.folder, SeekFrom::Start(0)).is_err() {
            return;
        }
        let mut entries = RawDir::new(&self.folder, &mut listing);
        let mut complete = true;
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else {
                complete = false;
                break;
            };
            let Some(pid) = number(entry.file_name().to_bytes()).and_then(|pid| u32::try_from(pid).ok()) else {
                continue;
            };
            match self.known.get_mut(&pid) {
                Some(known) => known.listed = self.now,
                None => new.push(pid),
            }
        }
        if complete {
            let gone = self.known.iter().filter(|(_, known)| known.listed != self.now).map(|(&pid, _)| pid);
            for pid in gone.collect::<Vec<_>>() {
                let task_counts = self.task_counts;
                self.remove_process(pid, each);
                self.task_counts = task_counts;
            }
        }
        // In the first sample all processes are new.
        let most = if self.now == 1 { usize::MAX } else { NEW_IN_ONE_SAMPLE };
        self.pending_new = new.len().saturating_sub(most);
        self.passed_over += self.pending_new as u64;
        for pid in new.into_iter().take(most) {
            self.add_process(pid, each);
        }
    }

    fn add_process(&mut self, pid: u32, each: &mut dyn FnMut(ProcessChange<'_>)) {
        let Some(file) = open(&self.root, pid) else { return };
        let Ok(text) = file.read(&mut self.buffer) else { return };
        let Some((comm, facts)) = parse(text) else { return };
        let comm = comm.to_vec();
        let name = name(&self.root, pid, &comm, facts.parent);
        each(ProcessChange::Started { pid, parent: facts.parent, start_ticks: facts.start_ticks, name: &name });
        let StatFacts { state, user_ticks, system_ticks, .. } = facts;
        each(ProcessChange::Sampled { pid, state, user_ticks, system_ticks, samples: 1 });
        self.attributed_ticks += user_ticks.saturating_add(system_ticks);
        let file = (self.descriptors_left > 0).then_some(file);
        self.descriptors_left -= u64::from(file.is_some());
        let now = self.now;
        let known =
            TrackedProcess { file, facts, comm, name, sampled_at: now, due: now + 1, quiet_samples: 0, listed: now };
        self.known.insert(pid, known);
    }
}

impl TrackedProcess {
    fn is_due(&self, now: u32, alert: bool) -> bool {
        let is_quiet = self.quiet_samples > QUIET_AFTER_SAMPLES;
        self.due <= now && (alert || !is_quiet || now - self.sampled_at >= MAX_GAP_SAMPLES)
    }

    /// Records the current facts, and returns the CPU time used since the last sample, in clock ticks.
    fn sample(&mut self, facts: StatFacts, now: u32, pid: u32, each: &mut dyn FnMut(ProcessChange<'_>)) -> u64 {
        let StatFacts { state, user_ticks, system_ticks, .. } = facts;
        let samples = now - self.sampled_at;
        if facts != self.facts {
            each(ProcessChange::Sampled { pid, state, user_ticks, system_ticks, samples });
        }
        let is_quiet = matches!(state, b'S' | b'I' | b'Z' | b'T' | b't')
            && (user_ticks, system_ticks) == (self.facts.user_ticks, self.facts.system_ticks);
        self.quiet_samples = if is_quiet { self.quiet_samples + 1 } else { 0 };
        let doublings = self.quiet_samples.saturating_sub(QUIET_AFTER_SAMPLES).min(ALERT_GAP_SAMPLES.ilog2());
        self.due = now + (1 << doublings);
        self.sampled_at = now;
        let before = std::mem::replace(&mut self.facts, facts);
        let total = |facts: &StatFacts| facts.user_ticks.saturating_add(facts.system_ticks);
        total(&facts).saturating_sub(total(&before))
    }
}

fn open(root: &Root, pid: u32) -> Option<OpenFile> {
    OpenFile::open(root, format!("/proc/{pid}/stat")).ok()
}

/// The name to show: the program of its command line, as in Android's own recorder, else its comm. Characters that would break
/// a line of a log are replaced.
fn name(root: &Root, pid: u32, comm: &[u8], parent: u32) -> String {
    if parent == KTHREADD {
        return printable(comm);
    }
    // A process that has exited and a kernel thread have none.
    let mut buffer = Vec::new();
    let file = OpenFile::open(root, format!("/proc/{pid}/cmdline")).ok();
    let line = file.as_ref().and_then(|file| file.read(&mut buffer).ok()).unwrap_or_default();
    let program = line.split(|&byte| byte == 0).next().unwrap_or_default();
    printable(if program.is_empty() { comm } else { program })
}

fn printable(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(&name[..name.len().min(NAME_LIMIT_BYTES)]);
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// The name between the parentheses, and the other fields that are used.
pub fn parse(text: &[u8]) -> Option<(&[u8], StatFacts)> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let comm = text.get(open + 1..close)?;
    let mut fields = Fields::of(text.get(close + 1..)?.trim_ascii_end());
    let &[state] = fields.next()? else { return None };
    let parent = u32::try_from(fields.number()?).ok()?;
    fields.skip_fields(9)?;
    let (user_ticks, system_ticks) = (fields.number()?, fields.number()?);
    fields.skip_fields(6)?;
    Some((comm, StatFacts { state, parent, user_ticks, system_ticks, start_ticks: fields.number()? }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Tree {
        folder: tempfile::TempDir,
        watch: ProcessWatch,
    }

    impl Tree {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("proc")).unwrap();
            let watch = ProcessWatch::new(&Root::at(folder.path())).unwrap();
            Self { folder, watch }
        }

        fn process(&self, pid: u32, comm: &str, state: char, ticks: u64, start: u64) {
            let folder = self.folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            let text =
                format!("{pid} ({comm}) {state} 1 0 0 0 -1 64 0 0 0 0 {ticks} 1 0 0 20 0 1 0 {start} 4096 5 0\n");
            fs::write(folder.join("stat"), text).unwrap();
        }

        fn sample(&mut self) -> Vec<String> {
            self.read_while(None)
        }

        fn read_while(&mut self, busy_ticks: Option<u64>) -> Vec<String> {
            let mut seen = Vec::new();
            self.watch.sample(busy_ticks, &mut |it| {
                seen.push(match it {
                    ProcessChange::Started { pid, name, start_ticks, .. } => format!("born {pid} {name} {start_ticks}"),
                    ProcessChange::Renamed { pid, name } => format!("renamed {pid} {name}"),
                    ProcessChange::Sampled { pid, state, user_ticks, samples, .. } => {
                        format!("ran {pid} {} {user_ticks} {samples}", char::from(state))
                    }
                    ProcessChange::Ended { pid } => format!("ended {pid}"),
                });
            });
            seen
        }
    }

    // Verifies BOOT-1.
    #[test]
    fn lives_are_distinguished_and_only_changes_reported() {
        let mut tree = Tree::new();
        tree.process(7, "sh) (x", 'R', 3, 100);
        assert_eq!(tree.sample(), ["born 7 sh) (x 100", "ran 7 R 3 1"]);
        assert_eq!(tree.sample(), Vec::<String>::new());
        tree.process(7, "zygote", 'D', 5, 100);
        assert_eq!(tree.sample(), ["renamed 7 zygote", "ran 7 D 5 1"]);
        tree.process(7, "other", 'S', 0, 250);
        assert_eq!(tree.sample(), ["ended 7", "born 7 other 250", "ran 7 S 0 1"], "its number was reused");
        fs::remove_dir_all(tree.folder.path().join("proc/7")).unwrap();
        assert_eq!(tree.sample(), ["ended 7"]);
        assert!(tree.watch.is_empty());
    }

    // Verifies BOOT-1.
    #[test]
    fn idle_processes_are_sampled_less_often_without_loss() {
        let mut tree = Tree::new();
        tree.process(7, "idle", 'S', 3, 100);
        tree.sample();
        for _ in 0..80 {
            assert_eq!(tree.sample(), Vec::<String>::new());
        }
        tree.process(7, "idle", 'S', 9, 100);
        let (samples, seen) = (1..).map(|samples| (samples, tree.sample())).find(|(_, seen)| !seen.is_empty()).unwrap();
        assert!(samples <= ALERT_GAP_SAMPLES, "{samples}");
        assert_eq!(seen, ["ran 7 S 9 16"]);
        tree.process(7, "idle", 'S', 10, 100);
        assert_eq!(tree.sample(), ["ran 7 S 10 1"], "an active process is sampled each time");
    }

    // Verifies BOOT-1.
    #[test]
    fn quiet_processes_are_not_sampled_while_the_rest_is_idle() {
        let mut tree = Tree::new();
        tree.process(7, "idle", 'S', 3, 100);
        let mut busy_ticks = 50;
        let mut hog_ticks = 0;
        let mut step = |tree: &mut Tree, others: u64| {
            hog_ticks += 4;
            busy_ticks += 4 + others;
            tree.process(8, "hog", 'R', hog_ticks, 100);
            tree.read_while(Some(busy_ticks)).into_iter().find(|it| it.starts_with("ran 7"))
        };
        for _ in 0..20 {
            step(&mut tree, 0);
        }
        tree.process(7, "idle", 'S', 9, 100);
        for _ in 0..20 {
            assert_eq!(step(&mut tree, 0), None, "the hog accounts for all CPU time");
        }
        let late = (0..MAX_GAP_SAMPLES).find_map(|_| step(&mut tree, 0));
        assert!(late.is_some_and(|it| it.starts_with("ran 7 S 9 ")), "it is sampled in the end");
        for _ in 0..30 {
            step(&mut tree, 0);
        }
        tree.process(7, "idle", 'S', 14, 100);
        assert_eq!(step(&mut tree, 0), None);
        assert!((0..3).any(|_| step(&mut tree, 5).is_some()), "a process other than the hog uses CPU time");
    }

    // Verifies BOOT-1.
    #[test]
    fn in_a_fork_storm_some_wait_for_the_next_sample() {
        let mut tree = Tree::new();
        tree.sample();
        for pid in 1..=100 {
            tree.process(pid, "storm", 'R', 0, 5);
        }
        assert_eq!(tree.sample().len(), 2 * NEW_IN_ONE_SAMPLE);
        assert_eq!((tree.watch.len(), tree.watch.passed_over()), (64, 36));
        assert_eq!(tree.sample().len(), 2 * 36);
        assert_eq!((tree.watch.len(), tree.watch.passed_over()), (100, 36));
    }

    #[test]
    fn this_process_is_seen() {
        let mut watch = ProcessWatch::new(&Root::system()).unwrap();
        let me = std::process::id();
        let mut found = false;
        while !found {
            watch.sample(None, &mut |seen| {
                found |= matches!(seen, ProcessChange::Started { pid, name, .. } if pid == me && name.contains('/'));
            });
        }
    }
}
