//! All threads of user space and what each uses, cheap enough to look many times a second.
//!
//! Each thread's `schedstat` stays open, so that a look at it is one system call. Threads that sleep are looked at once a
//! second at first, and every four seconds after a while. New ones are found by their numbers: /proc/loadavg shows the
//! last one given out, so while it stands still nobody need list /proc.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, pread};
use serde::{Deserialize, Serialize};

use super::schedstat::{self, Schedstat, Usage};
use super::{BootTime, DeviceError, Root, descriptors, loadavg, process};

/// A thread that used nothing is looked at again after this long, then after twice and four times as long.
const QUIET_LOOK_NS: u64 = 950_000_000;
const QUIET_DOUBLINGS: u32 = 2;
/// One that was awake is looked at every time for so long: it may only have waited for a moment.
const DOZE: Duration = Duration::from_millis(400);
/// New threads whose files are read in one look; the others have to wait for the next.
const NEW_IN_ONE_LOOK: usize = 512;
/// When more numbers were given out than this, /proc is listed instead of asking for each.
const NUMBERS_TO_ASK_FOR: u32 = 4096;
/// Who has run and waited for more than this part of the time since the last look is asked when it was born.
const BUSY_PART: u64 = 10;
/// The number of the parent of the kernel's own threads, where they can be seen.
const KTHREADD: u32 = 2;

/// What was seen in one look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Threads that ran or waited since they were looked at last, those among them that were born and busy since then.
    pub used: Vec<ThreadUsage>,
    /// Threads that were not known before.
    pub born: Vec<Thread>,
    /// Threads that have ended.
    pub ended: Vec<u32>,
}

/// What one thread used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// The thread.
    pub tid: u32,
    /// Since it was looked at last.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A thread, as it was when it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its process's parent.
    pub parent: u32,
    /// Its name (`comm`).
    pub command: String,
}

/// The threads that are known.
#[derive(Debug)]
pub struct Threads {
    root: Root,
    known: BTreeMap<u32, Known>,
    /// Numbers that may be new threads.
    candidates: VecDeque<u32>,
    last_number: Option<u32>,
    looked_at: Option<BootTime>,
    /// Descriptors that may still be opened.
    descriptors_left: u64,
    /// In a container another process may have that number.
    kthreadd: Option<u32>,
    /// Whoever looks is busy by looking, and waits where all are busy: that says nothing of the others.
    own: Option<u32>,
}

#[derive(Debug)]
struct Known {
    /// `None` where descriptors have run out: it is opened for each look then, and those are seldom.
    file: Option<OwnedFd>,
    last: Schedstat,
    read_at: BootTime,
    /// Up to when it is known to have used something.
    used_at: BootTime,
    /// Looks in a row in which it had used nothing, once it was quiet for a while.
    quiet_looks: u32,
}

impl Threads {
    /// Of the system below `root`; nobody is known yet.
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: BTreeMap::new(),
            candidates: VecDeque::new(),
            last_number: None,
            looked_at: None,
            descriptors_left: descriptors::raise_limit(),
            kthreadd: process::command(root, KTHREADD).ok().filter(|name| name == "kthreadd").map(|_| KTHREADD),
            own: root.is_system().then(std::process::id),
        }
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True when nobody is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Looks at the threads that are there at `now`.
    ///
    /// # Errors
    /// When /proc cannot be read at all; what happens to single threads is part of the look.
    pub fn look(&mut self, now: BootTime) -> Result<Look, DeviceError> {
        let mut look = Look::default();
        let has_met_all = self.candidates.is_empty();
        let are_new = self.find_candidates()?;
        let born_since = self.looked_at.replace(now).filter(|_| has_met_all && are_new);
        self.read_known(now, &mut look);
        for tid in &look.ended {
            if self.known.remove(tid).is_some_and(|known| known.file.is_some()) {
                self.descriptors_left += 1;
            }
        }
        self.meet_candidates(now, born_since, &mut look);
        Ok(look)
    }

    /// Looks at every thread next time, whether it was quiet or not: something has changed.
    pub fn wake_all(&mut self) {
        self.known.values_mut().for_each(|known| known.quiet_looks = 0);
    }

    fn read_known(&mut self, now: BootTime, look: &mut Look) {
        for (&tid, known) in &mut self.known {
            let wall_ns = now.since(known.read_at).as_nanos() as u64;
            if let Some(doublings) = known.quiet_looks.checked_sub(1)
                && wall_ns < QUIET_LOOK_NS << doublings.min(QUIET_DOUBLINGS)
            {
                continue;
            }
            let read = match &known.file {
                Some(file) => read(file),
                None => {
                    File::open(schedstat_path(&self.root, tid)).map(OwnedFd::from).ok().and_then(|file| read(&file))
                }
            };
            let Some(present) = read else {
                look.ended.push(tid);
                continue;
            };
            let usage = present.since(known.last, wall_ns);
            let is_quiet = usage.slices == 0 && usage.run_ns == 0 && usage.wait_ns == 0;
            if !is_quiet {
                (known.used_at, known.quiet_looks) = (now, 0);
            } else if now.since(known.used_at) >= DOZE {
                known.quiet_looks = known.quiet_looks.saturating_add(1);
            }
            known.last = present;
            known.read_at = now;
            if !is_quiet && wall_ns > 0 {
                look.used.push(ThreadUsage { tid, usage });
            }
        }
    }

    /// Adds the numbers that were given out since the last look. False when others may be among them.
    fn find_candidates(&mut self) -> Result<bool, DeviceError> {
        let text = self.root.read("/proc/loadavg").unwrap_or_default();
        let number = loadavg::parse(text.as_bytes()).map(|population| population.last_number);
        let are_new = match (self.last_number, number) {
            (Some(before), Some(number)) if number >= before && number - before <= NUMBERS_TO_ASK_FOR => {
                self.candidates.extend(before + 1..=number);
                true
            }
            _ => {
                self.list_all()?;
                false
            }
        };
        self.last_number = number;
        Ok(are_new)
    }

    fn list_all(&mut self) -> Result<(), DeviceError> {
        let waiting: BTreeSet<u32> = self.candidates.iter().copied().collect();
        for pid in self.root.list("/proc")?.iter().filter_map(|name| name.parse::<u32>().ok()) {
            // A process that has ended has none.
            let tids = self.root.list(format!("/proc/{pid}/task")).unwrap_or_default();
            let new = |tid: &u32| !self.known.contains_key(tid) && !waiting.contains(tid);
            self.candidates.extend(tids.iter().filter_map(|name| name.parse().ok()).filter(new));
        }
        Ok(())
    }

    /// What one that was certainly `born_since` has used is known from its first moment on.
    fn meet_candidates(&mut self, now: BootTime, born_since: Option<BootTime>, look: &mut Look) {
        for _ in 0..NEW_IN_ONE_LOOK {
            let Some(tid) = self.candidates.pop_front() else { break };
            if self.known.contains_key(&tid) {
                continue;
            }
            let Some(thread) = self.meet(now, born_since.is_some(), tid) else { continue };
            look.born.push(thread);
            if let Some(since) = born_since {
                look.used.extend(self.first_usage(tid, since, now));
            }
        }
    }

    /// What thread `tid`, which was born after `since`, has used by `now`, where it was busy.
    fn first_usage(&self, tid: u32, since: BootTime, now: BootTime) -> Option<ThreadUsage> {
        let used = self.known.get(&tid)?.last.since(Schedstat::default(), now.since(since).as_nanos() as u64);
        // Of the others nobody can tell whether they were born just now or have rested.
        if used.run_ns + used.wait_ns < used.wall_ns / BUSY_PART {
            return None;
        }
        let ticks = process::start_time_ticks(&self.root, tid).ok();
        let born_at = ticks.map_or(since, |ticks| BootTime::from_milliseconds(ticks * process::TICK_MS).max(since));
        Some(ThreadUsage { tid, usage: Usage { wall_ns: now.since(born_at).as_nanos() as u64, ..used } })
    }

    /// Gets to know thread `tid`, unless it has ended or is the kernel's own. One that is new is awake.
    fn meet(&mut self, now: BootTime, is_new: bool, tid: u32) -> Option<Thread> {
        let status = self.root.read(format!("/proc/{tid}/status")).ok()?;
        let thread = parse_status(tid, &status)?;
        let is_kernels = |kthreadd| thread.parent == kthreadd || thread.pid == kthreadd;
        if self.kthreadd.is_some_and(is_kernels) || self.own == Some(thread.pid) {
            return None;
        }
        let file: OwnedFd = File::open(schedstat_path(&self.root, tid)).ok()?.into();
        let last = read(&file)?;
        let is_kept = self.descriptors_left > 0;
        self.descriptors_left -= u64::from(is_kept);
        let file = is_kept.then_some(file);
        let used_at = if is_new { now } else { BootTime::default() };
        self.known.insert(tid, Known { file, last, read_at: now, used_at, quiet_looks: 0 });
        Some(thread)
    }
}

fn schedstat_path(root: &Root, tid: u32) -> std::path::PathBuf {
    // Threads other than the first are not listed in /proc, but are there.
    root.path(format!("/proc/{tid}/schedstat"))
}

/// `None` when the thread has ended.
fn read(file: &OwnedFd) -> Option<Schedstat> {
    let mut text = [0u8; 80];
    loop {
        match pread(file, &mut text, 0) {
            Ok(length) => return schedstat::parse(&text[..length]),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// What /proc/TID/status says of a thread; its lines vary by kernel.
pub fn parse_status(tid: u32, status: &str) -> Option<Thread> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let number = |name: &str| field(name)?.parse().ok();
    let command = field("Name:").unwrap_or_default().to_owned();
    Some(Thread { tid, pid: number("Tgid:")?, parent: number("PPid:")?, command })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use super::*;

    struct Device {
        _folder: tempfile::TempDir,
        root: Root,
    }

    impl Device {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let device = Self { root: Root::at(folder.path()), _folder: folder };
            fs::create_dir(device.root.path("/proc")).unwrap();
            device.number(0);
            device
        }

        fn number(&self, number: u32) {
            fs::write(self.root.path("/proc/loadavg"), format!("0.00 0.01 0.05 1/9 {number}\n")).unwrap();
        }

        fn thread(&self, tid: u32, pid: u32, parent: u32, schedstat: &str) {
            let folder = self.root.path(format!("/proc/{tid}"));
            fs::create_dir_all(&folder).unwrap();
            fs::create_dir_all(self.root.path(format!("/proc/{pid}/task/{tid}"))).unwrap();
            let status = format!("Name:\tt{tid}\nTgid:\t{pid}\nPid:\t{tid}\nPPid:\t{parent}\n");
            fs::write(folder.join("status"), status).unwrap();
            self.used(tid, schedstat);
        }

        fn used(&self, tid: u32, schedstat: &str) {
            fs::write(self.root.path(format!("/proc/{tid}/schedstat")), schedstat).unwrap();
        }
    }

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    fn tids(look: &Look) -> (Vec<u32>, Vec<u32>) {
        (look.born.iter().map(|thread| thread.tid).collect(), look.used.iter().map(|used| used.tid).collect())
    }

    #[test]
    fn whoever_looks_is_not_looked_at() {
        let mut threads = Threads::new(&Root::system());
        let mut born = Vec::new();
        while threads.looked_at.is_none() || !threads.candidates.is_empty() {
            born.extend(threads.look(BootTime::now()).unwrap().born);
        }
        assert!(!born.is_empty() && born.iter().all(|thread| thread.pid != std::process::id()), "{born:?}");
    }

    #[test]
    fn new_threads_are_met_and_the_kernels_are_not() {
        let device = Device::new();
        device.thread(1, 1, 0, "5 0 1\n");
        device.thread(2, 2, 0, "0 0 0\n");
        fs::write(device.root.path("/proc/2/comm"), "kthreadd\n").unwrap();
        device.thread(9, 9, 2, "7 0 1\n");
        device.thread(50, 50, 1, "0 0 0\n");
        device.thread(51, 50, 1, "0 0 0\n");
        let mut threads = Threads::new(&device.root);
        let look = threads.look(at(1000)).unwrap();
        assert_eq!(tids(&look), (vec![1, 50, 51], vec![]));
        let expected = Thread { tid: 51, pid: 50, parent: 1, command: "t51".into() };
        assert_eq!(look.born[2], expected);

        device.thread(60, 60, 50, "0 0 0\n");
        assert_eq!(tids(&threads.look(at(1100)).unwrap()).0, [0; 0], "no number was given out, so nobody looks");
        device.number(61);
        device.used(50, "30000000 20000000 4\n");
        let look = threads.look(at(1200)).unwrap();
        assert_eq!(tids(&look), (vec![60], vec![]), "50 was quiet, and is looked at in a second");
        let look = threads.look(at(2200)).unwrap();
        let usage = Usage { wall_ns: 1_100_000_000, run_ns: 30_000_000, wait_ns: 20_000_000, slices: 4 };
        assert_eq!(look.used, [ThreadUsage { tid: 50, usage }]);
        device.used(50, "31000000 20000000 5\n");
        assert_eq!(tids(&threads.look(at(2250)).unwrap()).1, [50], "now it is awake");
        assert_eq!(threads.len(), 4);
    }

    #[test]
    fn who_sleeps_long_is_looked_at_seldom_until_something_changes() {
        let device = Device::new();
        device.thread(5, 5, 1, "1 0 0\n");
        let mut threads = Threads::new(&device.root);
        threads.look(at(0)).unwrap();
        let mut now = 0;
        let mut looks = Vec::new();
        for second in 1..=40 {
            now = second * 1000;
            threads.look(at(now)).unwrap();
            looks.extend((threads.known[&5].read_at == at(now)).then_some(second));
        }
        assert_eq!(looks[..6], [1, 2, 4, 8, 12, 16]);
        device.used(5, "9 0 1\n");
        threads.wake_all();
        assert_eq!(threads.look(at(now + 10)).unwrap().used.len(), 1);
    }

    #[test]
    fn who_waits_for_a_moment_is_not_asleep() {
        let device = Device::new();
        device.thread(5, 5, 1, "1 0 0\n");
        let mut threads = Threads::new(&device.root);
        threads.look(at(1000)).unwrap();
        device.used(5, "9 0 1\n");
        assert_eq!(tids(&threads.look(at(1100)).unwrap()).1, [5]);
        let looks = (12..40).filter(|look| {
            threads.look(at(look * 100)).unwrap();
            threads.known[&5].read_at == at(look * 100)
        });
        assert_eq!(looks.collect::<Vec<_>>(), [12, 13, 14, 15, 25], "then once a second");
    }

    #[test]
    fn a_number_that_began_again_or_leapt_lists_everybody() {
        let device = Device::new();
        device.number(30_000);
        let mut threads = Threads::new(&device.root);
        assert_eq!(tids(&threads.look(at(0)).unwrap()).0, [0; 0]);
        for (number, tid) in [(300, 290), (5, 4), (20_000, 15_000)] {
            device.thread(tid, tid, 1, "0 0 0\n");
            device.number(number);
            assert_eq!(tids(&threads.look(at(u64::from(number))).unwrap()).0, [tid]);
        }
        fs::remove_file(device.root.path("/proc/loadavg")).unwrap();
        device.thread(7, 7, 1, "0 0 0\n");
        assert_eq!(tids(&threads.look(at(40_000)).unwrap()).0, [7], "a kernel that does not tell");
    }

    #[test]
    fn thousands_at_once_are_met_one_look_after_the_other() {
        let device = Device::new();
        let mut threads = Threads::new(&device.root);
        threads.look(at(0)).unwrap();
        (1000..1800).for_each(|tid| device.thread(tid, tid, 1, "0 0 0\n"));
        device.number(1800);
        assert_eq!(threads.look(at(100)).unwrap().born.len(), 0, "the first 512 numbers are nobody's");
        assert_eq!(threads.look(at(200)).unwrap().born.len(), 25);
        let met: usize = (3..6).map(|look| threads.look(at(look * 100)).unwrap().born.len()).sum();
        assert_eq!(met + 25, 800);
    }

    #[test]
    fn what_new_threads_have_used_is_known_from_their_first_moment() {
        let device = Device::new();
        device.thread(5, 5, 1, "9000000000 0 70\n");
        let mut threads = Threads::new(&device.root);
        assert_eq!(threads.look(at(0)).unwrap().used, [], "nobody knows how old it is");
        for tid in 10..=12 {
            device.thread(tid, tid, 1, if tid == 11 { "40000000 0 3\n" } else { "400000000 300000000 9\n" });
        }
        // Fields 3 to 22: it was born 150 ms after boot.
        let zeros = "0 ".repeat(18);
        fs::write(device.root.path("/proc/12/stat"), format!("12 (a b) R {zeros}15 0 0\n")).unwrap();
        device.number(12);
        let look = threads.look(at(900)).unwrap();
        let usage = |wall_ns| Usage { wall_ns, run_ns: 400_000_000, wait_ns: 300_000_000, slices: 9 };
        let used = |(tid, wall_ns)| ThreadUsage { tid, usage: usage(wall_ns) };
        assert_eq!(look.used, [(10, 900_000_000), (12, 750_000_000)].map(used));
        assert_eq!(look.born.len(), 3);

        // More than are met in one look: those that are left are older by the next.
        (1000..1600).for_each(|tid| device.thread(tid, tid, 1, "400000000 300000000 9\n"));
        device.number(1600);
        threads.look(at(1000)).unwrap();
        let looks: Vec<Look> = (11..15).map(|look| threads.look(at(look * 100)).unwrap()).collect();
        assert!(looks.iter().all(|look| look.used.iter().all(|used| used.tid < 1000)), "{looks:?}");
        assert_eq!(looks.iter().map(|look| look.born.len()).sum::<usize>(), 600);
    }

    #[test]
    fn threads_of_this_process_come_and_go() {
        let mut threads = Threads { own: None, ..Threads::new(&Root::system()) };
        let everybody = |threads: &mut Threads| {
            let mut born = Vec::new();
            loop {
                let look = threads.look(BootTime::now()).unwrap();
                if look.born.is_empty() && threads.candidates.is_empty() {
                    return born;
                }
                born.extend(look.born);
            }
        };
        everybody(&mut threads);
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        let born = everybody(&mut threads);
        let found = born.iter().find(|thread| thread.tid == tid).expect("it is met");
        assert_eq!(found.pid, std::process::id());
        drop(end);
        thread.join().unwrap();
        // The kernel takes it off the table a moment after the join.
        loop {
            threads.wake_all();
            if threads.look(BootTime::now()).unwrap().ended.contains(&tid) {
                break;
            }
        }
        assert!(!threads.known.contains_key(&tid));
    }
}
