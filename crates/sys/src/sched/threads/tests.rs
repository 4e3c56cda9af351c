use std::fs;
use std::sync::mpsc;

use super::*;
use crate::bpf::task::Task;

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

/// True when some threads may not have been sampled yet.
fn are_left(threads: &Threads) -> bool {
    matches!(&threads.sensor, Sensor::Files(files) if !files.candidates.is_empty())
}

fn at(milliseconds: u64) -> BootTime {
    BootTime::from_milliseconds(milliseconds)
}

fn tids(sample: &Sample) -> (Vec<u32>, Vec<u32>) {
    (sample.born.iter().map(|thread| thread.tid).collect(), sample.used.iter().map(|used| used.tid).collect())
}

// Verifies PLACE-3.
#[test]
fn the_sampling_thread_is_not_sampled() {
    let mut threads = Threads::new(&Root::system());
    let mut born = Vec::new();
    while threads.sampled_at.is_none() || are_left(&threads) {
        born.extend(threads.sample(BootTime::now()).unwrap().born);
    }
    assert!(!born.is_empty() && born.iter().all(|thread| thread.pid != std::process::id()), "{born:?}");
}

#[test]
fn new_threads_are_found_and_kernel_threads_left_out() {
    let device = Device::new();
    device.thread(1, 1, 0, "5 0 1\n");
    device.thread(2, 2, 0, "0 0 0\n");
    fs::write(device.root.path("/proc/2/comm"), "kthreadd\n").unwrap();
    device.thread(9, 9, 2, "7 0 1\n");
    device.thread(50, 50, 1, "0 0 0\n");
    device.thread(51, 50, 1, "0 0 0\n");
    let mut threads = Threads::new(&device.root);
    let sample = threads.sample(at(1000)).unwrap();
    assert_eq!(tids(&sample), (vec![1, 50, 51], vec![]));
    let expected = Thread { tid: 51, pid: 50, parent: 1, command: "t51".into() };
    assert_eq!(sample.born[2], expected);

    device.thread(60, 60, 50, "0 0 0\n");
    assert_eq!(tids(&threads.sample(at(1100)).unwrap()).0, [0; 0], "no number was given out, so /proc is not listed");
    device.number(61);
    device.used(50, "30000000 20000000 4\n");
    let sample = threads.sample(at(1200)).unwrap();
    assert_eq!(tids(&sample), (vec![60], vec![]), "50 was quiet, and is sampled in a second");
    let sample = threads.sample(at(2200)).unwrap();
    let usage = Usage { wall_ns: 1_100_000_000, run_ns: 30_000_000, wait_ns: 20_000_000, slices: 4 };
    assert_eq!(sample.used, [ThreadUsage { tid: 50, usage }]);
    device.used(50, "31000000 20000000 5\n");
    assert_eq!(tids(&threads.sample(at(2250)).unwrap()).1, [50], "now it is awake");
    assert_eq!(threads.len(), 4);
}

#[test]
fn sleeping_threads_are_sampled_rarely_until_woken() {
    let device = Device::new();
    device.thread(5, 5, 1, "1 0 0\n");
    let mut threads = Threads::new(&device.root);
    threads.sample(at(0)).unwrap();
    let mut now = 0;
    let mut samples = Vec::new();
    for second in 1..=40 {
        now = second * 1000;
        threads.sample(at(now)).unwrap();
        samples.extend((threads.known[&5].read_at == at(now)).then_some(second));
    }
    assert_eq!(samples[..6], [1, 2, 4, 8, 12, 16]);
    device.used(5, "9 0 1\n");
    threads.wake_all();
    assert_eq!(threads.sample(at(now + 10)).unwrap().used.len(), 1);
}

// Verifies PLACE-1.
#[test]
fn a_thread_that_blocks_briefly_is_not_asleep() {
    let device = Device::new();
    device.thread(5, 5, 1, "1 0 0\n");
    let mut threads = Threads::new(&device.root);
    threads.sample(at(1000)).unwrap();
    device.used(5, "9 0 1\n");
    assert_eq!(tids(&threads.sample(at(1100)).unwrap()).1, [5]);
    let samples = (12..40).filter(|sample| {
        threads.sample(at(sample * 100)).unwrap();
        threads.known[&5].read_at == at(sample * 100)
    });
    assert_eq!(samples.collect::<Vec<_>>(), [12, 13, 14, 15, 25], "then once a second");
}

#[test]
fn a_number_that_wrapped_or_leapt_lists_all_threads() {
    let device = Device::new();
    device.number(30_000);
    let mut threads = Threads::new(&device.root);
    assert_eq!(tids(&threads.sample(at(0)).unwrap()).0, [0; 0]);
    for (number, tid) in [(300, 290), (5, 4), (20_000, 15_000)] {
        device.thread(tid, tid, 1, "0 0 0\n");
        device.number(number);
        assert_eq!(tids(&threads.sample(at(u64::from(number))).unwrap()).0, [tid]);
    }
    fs::remove_file(device.root.path("/proc/loadavg")).unwrap();
    device.thread(7, 7, 1, "0 0 0\n");
    assert_eq!(tids(&threads.sample(at(40_000)).unwrap()).0, [7], "without /proc/loadavg");
}

/// The kernel assigns a number before its thread is visible, and other tasks may run in between.
// Verifies PLACE-1.
#[test]
fn a_thread_that_appears_after_its_number_is_found() {
    for (comes_ms, met_ms) in [(200, Some(200)), (300, Some(1200)), (1200, Some(1200)), (1300, None)] {
        let device = Device::new();
        let mut threads = Threads::new(&device.root);
        threads.sample(at(0)).unwrap();
        device.number(7);
        let mut samples = Vec::new();
        for now_ms in (100..=4000).step_by(100) {
            if now_ms == comes_ms {
                device.thread(7, 7, 1, "30000000 0 3\n");
            }
            let sample = threads.sample(at(now_ms)).unwrap();
            samples.extend((sample != Sample::default()).then_some((now_ms, sample)));
        }
        assert_eq!(samples.first().map(|(met_ms, _)| *met_ms), met_ms, "came at {comes_ms} ms");
        let Some((_, sample)) = samples.first() else { continue };
        // It did not exist in the sample before, and has not run before that.
        let usage = Usage { wall_ns: 100_000_000, run_ns: 30_000_000, wait_ns: 0, slices: 3 };
        let used = (comes_ms == 200).then_some(ThreadUsage { tid: 7, usage });
        assert_eq!((tids(sample).0, &sample.used), (vec![7], &used.into_iter().collect()));
    }
}

#[test]
fn thousands_of_new_threads_take_several_samples() {
    let device = Device::new();
    let mut threads = Threads::new(&device.root);
    threads.sample(at(0)).unwrap();
    (1000..1800).for_each(|tid| device.thread(tid, tid, 1, "0 0 0\n"));
    device.number(1800);
    assert_eq!(threads.sample(at(100)).unwrap().born.len(), 0, "the first 512 numbers belong to no thread");
    assert_eq!(threads.sample(at(200)).unwrap().born.len(), 25);
    let met: usize = (3..6).map(|sample| threads.sample(at(sample * 100)).unwrap().born.len()).sum();
    assert_eq!(met + 25, 800);
}

// Verifies PLACE-1.
#[test]
fn usage_of_new_threads_is_known_from_their_creation_on() {
    let device = Device::new();
    device.thread(5, 5, 1, "9000000000 0 70\n");
    let mut threads = Threads::new(&device.root);
    assert_eq!(threads.sample(at(0)).unwrap().used, [], "its age is not known");
    for tid in 10..=12 {
        device.thread(tid, tid, 1, if tid == 11 { "40000000 0 3\n" } else { "400000000 300000000 9\n" });
    }
    // Fields 3 to 22: it was created 150 ms after boot.
    let zeros = "0 ".repeat(18);
    fs::write(device.root.path("/proc/12/stat"), format!("12 (a b) R {zeros}15 0 0\n")).unwrap();
    device.number(12);
    let sample = threads.sample(at(900)).unwrap();
    let usage = |wall_ns| Usage { wall_ns, run_ns: 400_000_000, wait_ns: 300_000_000, slices: 9 };
    let used = |(tid, wall_ns)| ThreadUsage { tid, usage: usage(wall_ns) };
    assert_eq!(sample.used, [(10, 900_000_000), (12, 750_000_000)].map(used));
    assert_eq!(sample.born.len(), 3);

    // More threads than one sample adds: the rest are older by the next sample.
    (1000..1600).for_each(|tid| device.thread(tid, tid, 1, "400000000 300000000 9\n"));
    device.number(1600);
    threads.sample(at(1000)).unwrap();
    let samples: Vec<Sample> = (11..15).map(|sample| threads.sample(at(sample * 100)).unwrap()).collect();
    assert!(samples.iter().all(|sample| sample.used.iter().all(|used| used.tid < 1000)), "{samples:?}");
    assert_eq!(samples.iter().map(|sample| sample.born.len()).sum::<usize>(), 600);
}

// Verifies PLACE-1.
#[test]
fn without_a_task_iterator_files_are_sampled() {
    let device = Device::new();
    device.thread(1, 1, 0, "5 0 1\n");
    let mut threads = Threads::by(&device.root, Sensing::Bpf);
    assert_eq!(threads.sensing(), Sensing::Schedstat);
    assert_eq!(tids(&threads.sample(at(1000)).unwrap()).0, [1]);
    assert_eq!(unsupported_reason(&device.root, Sensing::Bpf).unwrap().to_string(), "this is not the running system");
    assert!(unsupported_reason(&device.root, Sensing::Schedstat).is_none());
}

// Verifies PLACE-1.
#[test]
fn known_threads_stay_known_when_the_sensor_changes() {
    let device = Device::new();
    device.thread(50, 50, 1, "5 0 1\n");
    device.thread(51, 50, 1, "5 0 1\n");
    let mut threads = Threads::new(&device.root);
    assert_eq!(tids(&threads.sample(at(1000)).unwrap()).0, [50, 51]);
    let tasks = [Task::of(50, (50, 1), 900, (5, 0, 2)), Task::of(60, (60, 1), 900, (1, 0, 1))];
    let mut sample = Sample::default();
    tasks::take(&mut threads.known, &tasks, (Some(at(1000)), at(1100)), threads.excluded, &mut sample);
    assert_eq!((tids(&sample), sample.ended), ((vec![60], vec![50]), vec![51]));

    device.thread(60, 60, 1, "1000000 0 1\n");
    device.thread(70, 70, 1, "1 0 1\n");
    device.used(50, "9000000 0 3\n");
    threads.sensor = Sensor::Files(Files::new(&device.root));
    fs::remove_dir_all(device.root.path("/proc/50/task/51")).unwrap();
    let sample = threads.sample(at(1200)).unwrap();
    assert_eq!(tids(&sample), (vec![70], vec![50]), "{sample:?}");
    assert!(threads.known.values().all(|known| known.file.is_some()));
}

// Verifies PLACE-1.
#[test]
fn both_sensors_see_the_same() {
    let root = Root::system();
    if let Some(unsupported_reason) = unsupported_reason(&root, Sensing::Bpf) {
        eprintln!("skipped: {unsupported_reason}");
        return;
    }
    let known = |sensing| {
        let mut threads = Threads::by(&root, sensing);
        assert_eq!(threads.sensing(), sensing);
        let mut born = Vec::new();
        while threads.sampled_at.is_none() || are_left(&threads) {
            born.extend(threads.sample(BootTime::now()).unwrap().born);
        }
        // A sandbox may hide its first process.
        born.retain(|thread| thread.pid != 1);
        born
    };
    // A thread that appears or exits meanwhile is seen by one sensor only; while a host builds a program there are many.
    let mut attempts = (0..5).map(|_| {
        let (files, tasks) = (known(Sensing::Schedstat), known(Sensing::Bpf));
        let common = files.iter().filter(|thread| tasks.contains(thread)).count();
        let most = files.len().max(tasks.len());
        let agree = common > 0 && common + most / 5 >= most;
        if agree { Ok(()) } else { Err(format!("{files:?}\n{tasks:?}")) }
    });
    assert!(attempts.any(|attempt| attempt.inspect_err(|lists| eprintln!("{lists}")).is_ok()));
}

#[test]
fn threads_of_this_process_come_and_go() {
    let mut threads = Threads::new(&Root::system());
    threads.excluded.own = None;
    let meet_all = |threads: &mut Threads| {
        let mut born = Vec::new();
        loop {
            let sample = threads.sample(BootTime::now()).unwrap();
            if sample.born.is_empty() && !are_left(threads) {
                return born;
            }
            born.extend(sample.born);
        }
    };
    meet_all(&mut threads);
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        let _ = ended.recv();
    });
    let tid = told.recv().unwrap();
    let born = meet_all(&mut threads);
    let found = born.iter().find(|thread| thread.tid == tid).expect("it is found");
    assert_eq!(found.pid, std::process::id());
    drop(end);
    thread.join().unwrap();
    // The kernel may remove its entry only after the join.
    loop {
        threads.wake_all();
        if threads.sample(BootTime::now()).unwrap().ended.contains(&tid) {
            break;
        }
    }
    assert!(!threads.known.contains_key(&tid));
}

// Verifies COST-2.
#[test]
fn a_quiet_thread_is_sampled_seldom_while_cpus_are_idle() {
    let device = Device::new();
    fs::create_dir_all(device.root.path("/sys/devices/system/cpu")).unwrap();
    fs::write(device.root.path("/sys/devices/system/cpu/online"), "0\n").unwrap();
    device.thread(50, 50, 1, "0 0 0\n");
    let mut threads = Threads::new(&device.root);
    let mut idle_ms = 0;
    let mut sample = |now_s: u64, is_idle: bool| {
        idle_ms += if is_idle { 1000 } else { 0 };
        fs::write(device.root.path("/proc/uptime"), format!("9.0 {:.2}\n", idle_ms as f64 / 1000.0)).unwrap();
        threads.sample(at(now_s * 1000)).unwrap().used.len()
    };
    assert_eq!((1..=200).map(|now_s| sample(now_s, true)).sum::<usize>(), 0);
    // It runs a little, which is noticed within a minute; more would be noticed by the CPUs' idle time.
    device.used(50, "9000000 0 1\n");
    let noticed = (201..=262).find(|&now_s| sample(now_s, true) > 0).unwrap();
    assert!(noticed > 205, "{noticed}");
    let used: usize = (263..=400).map(|now_s| sample(now_s, true)).sum();
    assert_eq!(used, 0);
    device.used(50, "900000000 0 9\n");
    assert_eq!(sample(401, false), 1);
}
