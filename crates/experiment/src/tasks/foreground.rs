//! The foreground: a known amount of work, or paced work for a known time.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Seek, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use super::messages::exchange;
use super::periodic::{FRAMES, PeriodicWork, p95, sleep_until};
use super::{ForegroundReport, JOBS, PIECE_MS, TaskRunner, join_thread, milliseconds, spawn_named};
use crate::spec::Foreground;
use crate::statistics::median;
use brisk_sys::process::schedstat;
use brisk_sys::sched::thread_switches;
use brisk_sys::{BootTime, Root};

/// A script computes for this long, then allocates this much memory and leaves this much work to a helper.
const SLICE_MS: u64 = 10;
const ALLOCATION_BYTES: usize = 256 * 1024;
const HELPER_MS: u64 = 2;
/// What is written and read back between two pieces of work.
const WRITTEN_BYTES: usize = 64 * 1024;
const WRITER_MS: u64 = 5;
/// The work of a scene, and of a second thread to show it.
const SCENE_MS: u64 = 6;
const SHOWN_MS: u64 = 3;
/// The work of a task that is posted to a worker, and of the script for its answer.
const POSTED_MS: u64 = 4;
const ANSWER_MS: u64 = 1;
/// The period of requests, one to each worker, and their work.
const REQUEST_PERIOD: Duration = Duration::from_millis(20);
const REQUEST_MS: u64 = 3;
const REQUEST_WORKERS: usize = 4;
/// Periods and work as in rt-app's examples.
const PERIODIC: [PeriodicWork; 3] = [
    PeriodicWork { period: Duration::from_millis(20), work_us: 6000 },
    PeriodicWork { period: Duration::from_millis(33), work_us: 10_000 },
    PeriodicWork { period: Duration::from_millis(50), work_us: 8000 },
];
/// In the thesis's class that is guaranteed half a core, and by any sampling period below its bound of 50 %.
const HALF_CORE: PeriodicWork = PeriodicWork { period: Duration::from_millis(20), work_us: 7000 };
const MEMORY_PAGE_BYTES: usize = 4096;

impl TaskRunner {
    /// Runs as the foreground `what`, which sends `rounds` of messages where it sends any.
    ///
    /// # Errors
    /// When a thread, a socket or a process cannot be created.
    pub fn run_foreground(&self, what: Foreground, rounds: u32) -> io::Result<ForegroundReport> {
        let begun = Instant::now();
        let duration_ms = u64::from(what.duration_ms());
        let length = Duration::from_millis(duration_ms);
        let mut median_ms = None;
        let mut quantiles = |responses_ms: Vec<f64>| {
            median_ms = Some(median(&responses_ms));
            Some(p95(responses_ms))
        };
        let p95_ms = match what {
            Foreground::Thread => {
                self.work(duration_ms);
                None
            }
            Foreground::Threads => {
                thread::scope(|scope| -> io::Result<()> {
                    spawn_named(scope, "second", || self.work(duration_ms))?;
                    self.work(duration_ms);
                    Ok(())
                })?;
                None
            }
            Foreground::Script => {
                self.run_script(duration_ms / SLICE_MS)?;
                None
            }
            Foreground::Workers => {
                self.post_to_workers(duration_ms / POSTED_MS)?;
                None
            }
            Foreground::Messages => {
                exchange(|round| round < rounds)?;
                None
            }
            Foreground::Compile => {
                self.compile(u32::try_from(duration_ms / PIECE_MS).unwrap_or(u32::MAX))?;
                None
            }
            Foreground::Mixed => {
                self.run_mixed(duration_ms / 4)?;
                None
            }
            Foreground::Suite => return Err(io::Error::other("a JavaScript engine runs the suite, not brisk")),
            Foreground::Frames => Some(p95(self.run_periodic_for(FRAMES, length).responses_ms)),
            Foreground::Periodic => Some(self.run_all_periodic(length)?),
            Foreground::HalfCore => Some(p95(self.run_periodic_for(HALF_CORE, length).responses_ms)),
            Foreground::Browsing => Some(self.browse(length)?),
            Foreground::Requests => Some(self.answer_requests(length)?),
            Foreground::Opening => self.open_application().map(|()| None)?,
            Foreground::Reads => quantiles(self.read_blocks(length)?),
            Foreground::WorkingSet => quantiles(self.use_working_set(length)?),
            Foreground::Exchanges => quantiles(self.exchange_with_server(length)?),
            Foreground::Fetches => self.fetch_files().map(|()| None)?,
        };
        let foreground_ms = p95_ms.unwrap_or_else(|| milliseconds(begun.elapsed()));
        Ok(ForegroundReport {
            foreground_ms,
            median_ms,
            switches: thread_switches::of_process(&Root::system(), std::process::id()),
            cpu_while_runnable_percent: (what == Foreground::HalfCore).then(cpu_while_runnable_percent).flatten(),
        })
    }

    /// Computes and allocates memory, while a helper frees it.
    fn run_script(&self, slices: u64) -> io::Result<()> {
        let (collect, garbage) = mpsc::channel::<Vec<u8>>();
        thread::scope(|scope| {
            spawn_named(scope, "helper", || {
                for touched_memory in garbage {
                    self.work(HELPER_MS);
                    drop(touched_memory);
                }
            })?;
            for _ in 0..slices {
                self.work(SLICE_MS);
                if collect.send(touched_memory()).is_err() {
                    break;
                }
            }
            drop(collect);
            Ok(())
        })
    }

    /// Computes, allocates memory, writes and reads, and draws, for `part_ms` each.
    fn run_mixed(&self, part_ms: u64) -> io::Result<()> {
        self.work(part_ms);
        for _ in 0..part_ms / SLICE_MS {
            self.work(SLICE_MS);
            drop(touched_memory());
        }
        self.write_and_read(part_ms / WRITER_MS)?;
        self.draw(part_ms / SCENE_MS)
    }

    /// Writes a file in memory and reads it back between two pieces of work.
    fn write_and_read(&self, pieces: u64) -> io::Result<()> {
        let mut file = File::from(memfd_create("written", MemfdFlags::CLOEXEC)?);
        let mut bytes = vec![7; WRITTEN_BYTES];
        for _ in 0..pieces {
            self.work(WRITER_MS);
            file.rewind()?;
            file.write_all(&bytes)?;
            file.rewind()?;
            file.read_exact(&mut bytes)?;
        }
        Ok(())
    }

    /// Draws scenes, one ahead of a second thread that shows them.
    fn draw(&self, scenes: u64) -> io::Result<()> {
        let (show, shown) = mpsc::sync_channel::<()>(1);
        thread::scope(|scope| {
            spawn_named(scope, "show", move || shown.iter().for_each(|()| self.work(SHOWN_MS)))?;
            for _ in 0..scenes {
                self.work(SCENE_MS);
                if show.send(()).is_err() {
                    break;
                }
            }
            drop(show);
            Ok(())
        })
    }

    /// Posts `tasks` to each of two workers, a few ahead, and works on each answer.
    fn post_to_workers(&self, tasks: u64) -> io::Result<()> {
        const AHEAD: usize = 2;
        let (answer, answers) = mpsc::channel();
        thread::scope(|scope| {
            let mut posts = Vec::new();
            for worker in 0..2usize {
                let (post, posted) = mpsc::channel::<()>();
                let answer = answer.clone();
                spawn_named(scope, "worker", move || {
                    for () in posted {
                        self.work(POSTED_MS);
                        if answer.send(worker).is_err() {
                            break;
                        }
                    }
                })?;
                posts.push((post, tasks));
            }
            drop(answer);
            let send = |(post, left): &mut (mpsc::Sender<()>, u64)| {
                if *left > 0 && post.send(()).is_ok() {
                    *left -= 1;
                }
            };
            for _ in 0..AHEAD {
                posts.iter_mut().for_each(send);
            }
            for _ in 0..tasks * 2 {
                let Ok(worker) = answers.recv() else { break };
                send(&mut posts[worker]);
                self.work(ANSWER_MS);
            }
            drop(posts);
            Ok(())
        })
    }

    /// Starts `count` short-lived processes, a few at a time.
    fn compile(&self, count: u32) -> io::Result<()> {
        let next = AtomicU32::new(0);
        thread::scope(|scope| {
            let job = || -> io::Result<()> {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    self.compile_one()?;
                }
                Ok(())
            };
            let jobs = (0..JOBS).map(|_| spawn_named(scope, "job", job)).collect::<io::Result<Vec<_>>>()?;
            jobs.into_iter().try_for_each(join_thread)
        })
    }

    /// Runs all of [`PERIODIC`], each in a thread; returns the 95th percentile of all responses.
    fn run_all_periodic(&self, length: Duration) -> io::Result<f64> {
        thread::scope(|scope| {
            let run_periodic = |pace: PeriodicWork| move || Ok(self.run_periodic_for(pace, length).responses_ms);
            let handles = PERIODIC
                .iter()
                .map(|&pace| spawn_named(scope, "periodic", run_periodic(pace)))
                .collect::<io::Result<Vec<_>>>()?;
            let responses = handles.into_iter().map(join_thread).collect::<io::Result<Vec<Vec<f64>>>>()?;
            Ok(p95(responses.concat()))
        })
    }

    /// Sends requests to all workers at once; returns the 95th percentile of the time until each is answered.
    fn answer_requests(&self, length: Duration) -> io::Result<f64> {
        let (answer, answers) = mpsc::channel::<f64>();
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for _ in 0..REQUEST_WORKERS {
                let (request, requests) = mpsc::channel::<BootTime>();
                let answer = answer.clone();
                spawn_named(scope, "worker", move || {
                    for sent in requests {
                        self.work(REQUEST_MS);
                        // The receiver goes away only at the end.
                        let _ = answer.send(milliseconds(BootTime::now().since(sent)));
                    }
                })?;
                workers.push(request);
            }
            drop(answer);
            let begun = BootTime::now();
            for round in 1..=(length.as_millis() / REQUEST_PERIOD.as_millis()) as u32 {
                let due = begun + REQUEST_PERIOD * round;
                sleep_until(due);
                for worker in &workers {
                    // A worker ends early only by a panic, which the scope reports.
                    let _ = worker.send(due);
                }
            }
            drop(workers);
            Ok(p95(answers.iter().collect()))
        })
    }
}

/// The CPU time of this process's main thread as a share of the time in which it was runnable; `None` where the kernel does not
/// report its run-queue delay.
fn cpu_while_runnable_percent() -> Option<f64> {
    let counters = schedstat::parse(Root::system().read("/proc/self/schedstat").ok()?.as_bytes())?;
    let runnable_ns = counters.run_ns + counters.wait_ns;
    (runnable_ns > 0).then(|| 100.0 * counters.run_ns as f64 / runnable_ns as f64)
}

/// Memory that was written to.
fn touched_memory() -> Vec<u8> {
    let mut touched_memory = vec![0; ALLOCATION_BYTES];
    touched_memory.iter_mut().step_by(MEMORY_PAGE_BYTES).for_each(|byte| *byte = 1);
    black_box(touched_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PROVE-2.
    #[test]
    fn every_foreground_ends_and_has_a_figure() {
        // All at once, so that paced work takes its time together.
        let runner = &TaskRunner::of_tests("none".as_ref());
        thread::scope(|scope| {
            // Exchanges take half a minute.
            let short = Foreground::ALL.into_iter().filter(|what| *what != Foreground::Exchanges);
            let handles = short.map(|what| (what, scope.spawn(move || runner.run_foreground(what, 3))));
            for (what, handle) in handles.collect::<Vec<_>>() {
                let played = handle.join().unwrap();
                let needs_program = [Foreground::Compile, Foreground::Browsing, Foreground::Suite].contains(&what);
                let is_refused = needs_program || what.uses_disk();
                assert_eq!(played.is_err(), is_refused, "there is no such program, no engine and no disk");
                assert!(is_refused || played.is_ok_and(|front| front.foreground_ms > 0.0), "{what:?}");
            }
        });
    }
}
