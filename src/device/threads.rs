//! All threads of user space and what each uses, cheap enough to look many times a second.
//!
//! Two sensors see them: files of /proc that stay open ([`Files`]), and a program in the kernel ([`Tasks`]). Who is known,
//! who is new and what counts as used is the same with both.

mod files;
mod known;
mod tasks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::files::Files;
pub use self::files::parse_status;
use self::known::Known;
use super::bpf::{Refusal, Tasks};
use super::schedstat::Usage;
use super::{BootTime, DeviceError, Root, process};

/// The number of the parent of the kernel's own threads, where they can be seen.
const KTHREADD: u32 = 2;
/// Threads that may be new in a sample, for which there is room beside those that are known.
const ROOM_FOR_NEW: usize = 64;

/// By what threads are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sensing {
    /// Their `schedstat`.
    #[default]
    Schedstat,
    /// A program that the kernel's iterator of tasks runs, where it can be had; else their `schedstat`.
    Bpf,
    /// The same, and nothing need be done where it cannot be had.
    Auto,
}

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
    looked_at: Option<BootTime>,
    left_out: LeftOut,
    sensor: Sensor,
}

#[derive(Debug)]
enum Sensor {
    Files(Files),
    Tasks(Tasks),
}

/// Whose threads nobody looks at.
#[derive(Debug, Clone, Copy)]
struct LeftOut {
    /// In a container another process may have that number.
    kthreadd: Option<u32>,
    /// The sampling thread is busy by sampling, and waits where all are busy: that says nothing of the others.
    own: Option<u32>,
}

impl LeftOut {
    fn has(self, pid: u32, parent: u32) -> bool {
        self.kthreadd.is_some_and(|kthreadd| [pid, parent].contains(&kthreadd)) || self.own == Some(pid)
    }
}

impl Threads {
    /// Of the system below `root`, by their files; nobody is known yet.
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            known: BTreeMap::new(),
            looked_at: None,
            left_out: LeftOut {
                kthreadd: process::command(root, KTHREADD).ok().filter(|name| name == "kthreadd").map(|_| KTHREADD),
                own: root.is_system().then(std::process::id),
            },
            sensor: Sensor::Files(Files::new(root)),
        }
    }

    /// Of the system below `root`, by what `sensing` says as far as it can be had, which [`refusal`] tells.
    pub fn by(root: &Root, sensing: Sensing) -> Self {
        let mut threads = Self::new(root);
        threads.turn_to(sensing);
        threads
    }

    /// Looks by what `sensing` says from now on, as far as it can be had, and still knows who is known.
    pub fn turn_to(&mut self, sensing: Sensing) {
        let tasks = match sensing {
            Sensing::Schedstat => None,
            Sensing::Bpf | Sensing::Auto => Tasks::open(&self.root, std::process::id())
                .inspect_err(|refusal| tracing::debug!("threads are looked at by their files: {refusal}"))
                .ok(),
        };
        match (tasks, &self.sensor) {
            (Some(tasks), _) => {
                self.known.values_mut().for_each(|known| known.file = None);
                self.sensor = Sensor::Tasks(tasks);
            }
            (None, Sensor::Tasks(_)) => self.sensor = Sensor::Files(Files::new(&self.root)),
            (None, Sensor::Files(_)) => {}
        }
    }

    /// By what they are looked at now.
    pub fn sensing(&self) -> Sensing {
        match self.sensor {
            Sensor::Files(_) => Sensing::Schedstat,
            Sensor::Tasks(_) => Sensing::Bpf,
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
        let looked_at = self.looked_at.replace(now);
        if let Sensor::Tasks(tasks) = &self.sensor {
            match tasks.look(self.known.len() + ROOM_FOR_NEW) {
                Ok(tasks) => {
                    tasks::take(&mut self.known, &tasks, (looked_at, now), self.left_out, &mut look);
                    return Ok(look);
                }
                Err(error) => {
                    tracing::warn!(
                        "threads are looked at by their files from now on: the kernel's iterator says {error}"
                    );
                    self.turn_to(Sensing::Schedstat);
                }
            }
        }
        if let Sensor::Files(files) = &mut self.sensor {
            files.look(&mut self.known, (looked_at, now), self.left_out, &mut look)?;
        }
        Ok(look)
    }

    /// Looks at every thread next time, whether it was quiet or not: something has changed.
    pub fn wake_all(&mut self) {
        self.known.values_mut().for_each(Known::wake);
    }
}

/// Why threads of the system below `root` cannot be looked at as `sensing` says; `None` where they can.
pub fn refusal(root: &Root, sensing: Sensing) -> Option<Refusal> {
    match sensing {
        Sensing::Schedstat => None,
        Sensing::Bpf | Sensing::Auto => Tasks::open(root, std::process::id()).err(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use super::*;
    use crate::device::bpf::task::Task;

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

    /// True when some may be there that were not looked at yet.
    fn are_left(threads: &Threads) -> bool {
        matches!(&threads.sensor, Sensor::Files(files) if !files.candidates.is_empty())
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
        while threads.looked_at.is_none() || are_left(&threads) {
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

    /// The kernel gives a number out before its thread is there, and may let others run in between.
    #[test]
    fn a_thread_that_comes_after_its_number_is_met() {
        for (comes_ms, met_ms) in [(200, Some(200)), (300, Some(1200)), (1200, Some(1200)), (1300, None)] {
            let device = Device::new();
            let mut threads = Threads::new(&device.root);
            threads.look(at(0)).unwrap();
            device.number(7);
            let mut looks = Vec::new();
            for now_ms in (100..=4000).step_by(100) {
                if now_ms == comes_ms {
                    device.thread(7, 7, 1, "30000000 0 3\n");
                }
                let look = threads.look(at(now_ms)).unwrap();
                looks.extend((look != Look::default()).then_some((now_ms, look)));
            }
            assert_eq!(looks.first().map(|(met_ms, _)| *met_ms), met_ms, "came at {comes_ms} ms");
            let Some((_, look)) = looks.first() else { continue };
            // It was not there at the look before, and has not run before that.
            let usage = Usage { wall_ns: 100_000_000, run_ns: 30_000_000, wait_ns: 0, slices: 3 };
            let used = (comes_ms == 200).then_some(ThreadUsage { tid: 7, usage });
            assert_eq!((tids(look).0, &look.used), (vec![7], &used.into_iter().collect()));
        }
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
    fn where_the_kernel_has_no_iterator_files_are_looked_at() {
        let device = Device::new();
        device.thread(1, 1, 0, "5 0 1\n");
        let mut threads = Threads::by(&device.root, Sensing::Bpf);
        assert_eq!(threads.sensing(), Sensing::Schedstat);
        assert_eq!(tids(&threads.look(at(1000)).unwrap()).0, [1]);
        assert_eq!(refusal(&device.root, Sensing::Bpf).unwrap().to_string(), "this is not the running system");
        assert!(refusal(&device.root, Sensing::Schedstat).is_none());
    }

    #[test]
    fn who_is_known_stays_so_whatever_looks() {
        let device = Device::new();
        device.thread(50, 50, 1, "5 0 1\n");
        device.thread(51, 50, 1, "5 0 1\n");
        let mut threads = Threads::new(&device.root);
        assert_eq!(tids(&threads.look(at(1000)).unwrap()).0, [50, 51]);
        let tasks = [Task::of(50, (50, 1), 900, (5, 0, 2)), Task::of(60, (60, 1), 900, (1, 0, 1))];
        let mut look = Look::default();
        tasks::take(&mut threads.known, &tasks, (Some(at(1000)), at(1100)), threads.left_out, &mut look);
        assert_eq!((tids(&look), look.ended), ((vec![60], vec![50]), vec![51]));

        device.thread(60, 60, 1, "1000000 0 1\n");
        device.thread(70, 70, 1, "1 0 1\n");
        device.used(50, "9000000 0 3\n");
        threads.sensor = Sensor::Files(Files::new(&device.root));
        fs::remove_dir_all(device.root.path("/proc/50/task/51")).unwrap();
        let look = threads.look(at(1200)).unwrap();
        assert_eq!(tids(&look), (vec![70], vec![50]), "{look:?}");
        assert!(threads.known.values().all(|known| known.file.is_some()));
    }

    #[test]
    fn both_sensors_see_the_same() {
        let root = Root::system();
        if let Some(refusal) = refusal(&root, Sensing::Bpf) {
            eprintln!("skipped: {refusal}");
            return;
        }
        let [files, tasks] = [Sensing::Schedstat, Sensing::Bpf].map(|sensing| {
            let mut threads = Threads::by(&root, sensing);
            assert_eq!(threads.sensing(), sensing);
            let mut born = Vec::new();
            while threads.looked_at.is_none() || are_left(&threads) {
                born.extend(threads.look(BootTime::now()).unwrap().born);
            }
            born
        });
        // A sandbox may keep its first process to itself; what comes or goes meanwhile is seen by one of them only.
        let count = |threads: &[Thread]| threads.iter().filter(|thread| thread.pid != 1).count();
        let common: Vec<&Thread> = files.iter().filter(|thread| thread.pid != 1 && tasks.contains(thread)).collect();
        let most = count(&files).max(count(&tasks));
        assert!(!common.is_empty() && common.len() + most / 5 >= most, "{files:?}\n{tasks:?}");
    }

    #[test]
    fn threads_of_this_process_come_and_go() {
        let mut threads = Threads::new(&Root::system());
        threads.left_out.own = None;
        let everybody = |threads: &mut Threads| {
            let mut born = Vec::new();
            loop {
                let look = threads.look(BootTime::now()).unwrap();
                if look.born.is_empty() && !are_left(threads) {
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
