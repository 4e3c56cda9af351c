//! The program that experiments launch: a known amount of CPU work between its start and its first screen.
//!
//! As in Jo and Suh 2017, section IV: a load given by parameter, on several threads so that every CPU is busy. One thread does
//! the first part, the start-up work of every application; the rest is the generated load. "Basic launch time" is the launch
//! time without the time of the generated load.

use std::io::{self, Read, Write};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(feature = "lab")]
use brisk_base::random::Random;
use brisk_base::work::Work;
use brisk_sys::BootTime;

/// The words of a page, and those of them that do not repeat others.
#[cfg(feature = "lab")]
const PAGE_WORDS: usize = 512;
#[cfg(feature = "lab")]
const RANDOM_WORDS: usize = PAGE_WORDS * 3 / 10;

/// The work of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// CPU time of the main thread's whole work at the highest frequency, in milliseconds.
    pub work_ms: u32,
    /// The part of it that is start-up, in milliseconds.
    pub start_up_ms: u32,
    /// Threads of the generated load; each does all of it.
    pub threads: u32,
    /// Turns of the work loop in a millisecond at the highest frequency.
    pub turns_per_ms: u64,
    /// CPU time of a burst and the sleep after it, in milliseconds; without, all the work is one burst.
    pub bursts: Option<(u32, u32)>,
    /// Memory that the main thread fills evenly over its generated load, which has no bursts then.
    #[cfg(feature = "lab")]
    pub fill_kib: u64,
}

/// What the load prints at its first screen: one JSON line on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FirstScreen {
    /// When it was reached, on CLOCK_BOOTTIME.
    pub first_screen_ns: u64,
    /// How long the generated load took.
    pub generated_ns: u64,
}

impl FirstScreen {
    /// Launch time since `started`.
    pub fn launch_ms(&self, started: BootTime) -> f64 {
        BootTime::from_nanoseconds(self.first_screen_ns).since(started).as_secs_f64() * 1000.0
    }

    /// Launch time since `started` without the time of the generated load.
    pub fn basic_ms(&self, started: BootTime) -> f64 {
        self.launch_ms(started) - self.generated_ns as f64 / 1e6
    }
}

impl Load {
    /// Does the work.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn run(&self) -> io::Result<FirstScreen> {
        let generated_ms = self.work_ms - self.start_up_ms.min(self.work_ms);
        self.work(self.start_up_ms.min(self.work_ms));
        let generated_from = BootTime::now();
        thread::scope(|scope| -> io::Result<()> {
            for _ in 1..self.threads {
                thread::Builder::new().spawn_scoped(scope, || self.work(generated_ms))?;
            }
            #[cfg(feature = "lab")]
            if self.fill_kib > 0 {
                self.work_and_fill(generated_ms);
                return Ok(());
            }
            self.work(generated_ms);
            Ok(())
        })?;
        let first_screen = BootTime::now();
        let generated_ns = first_screen.since(generated_from).as_nanos() as u64;
        Ok(FirstScreen { first_screen_ns: first_screen.nanoseconds(), generated_ns })
    }
}

impl Load {
    fn work(&self, work_ms: u32) {
        let turns = |ms: u32| Work::of_turns(u64::from(ms) * self.turns_per_ms);
        let Some((burst_ms, wait_ms)) = self.bursts else { return turns(work_ms).run() };
        let mut left_ms = work_ms;
        while left_ms > 0 {
            let burst_ms = burst_ms.clamp(1, left_ms);
            turns(burst_ms).run();
            thread::sleep(Duration::from_millis(wait_ms.into()));
            left_ms -= burst_ms;
        }
    }
}

#[cfg(feature = "lab")]
impl Load {
    /// Works, and after each millisecond of it fills its share of memory, which the process keeps.
    fn work_and_fill(&self, work_ms: u32) {
        let memory = vec![0u64; self.fill_kib as usize * 1024 / 8].leak();
        let mut random = Random::new(self.fill_kib);
        let pages = memory.len() / PAGE_WORDS;
        let mut pages_left = memory.chunks_exact_mut(PAGE_WORDS);
        for done_ms in 0..work_ms as usize {
            Work::of_turns(self.turns_per_ms).run();
            let share = pages * (done_ms + 1) / work_ms as usize - pages * done_ms / work_ms as usize;
            pages_left.by_ref().take(share).for_each(|page| fill(page, &mut random));
        }
    }
}

/// Fills a page that compresses: as in `memory-workload.toml`, a part of it is random and the rest repeats that.
#[cfg(feature = "lab")]
fn fill(page: &mut [u64], random: &mut Random) {
    page[..RANDOM_WORDS].fill_with(|| random.bits());
    for index in RANDOM_WORDS..page.len() {
        page[index] = page[index - RANDOM_WORDS];
    }
}

/// Turns of the work loop in a millisecond at the present frequency: the fastest of three measurements, because a disturbance
/// only makes one longer.
pub fn turns_per_ms() -> u64 {
    const LENGTH: Duration = Duration::from_millis(50);
    let work = Work::calibrated_for(LENGTH);
    let fastest = (0..3).map(|_| work.time()).min().unwrap_or(LENGTH);
    ((work.turns() as f64 / (fastest.as_secs_f64() * 1000.0)) as u64).max(1)
}

/// Prints the first screen, then stays alive until `input` ends, as an application does.
///
/// # Errors
/// When stdout cannot be written or `input` cannot be read.
pub fn print_and_wait(first_screen: &FirstScreen, input: &mut dyn Read) -> io::Result<()> {
    let mut line = serde_json::to_string(first_screen)?;
    line.push('\n');
    io::stdout().write_all(line.as_bytes())?;
    io::stdout().flush()?;
    io::copy(input, &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_time_excludes_the_generated_load() {
        let screen = FirstScreen { first_screen_ns: 350_000_000, generated_ns: 120_000_000 };
        let started = BootTime::from_milliseconds(100);
        assert_eq!((screen.launch_ms(started), screen.basic_ms(started)), (250.0, 130.0));
    }

    #[test]
    fn there_is_a_wait_after_each_burst() {
        // Three bursts, the last of which is shorter.
        let load = Load { work_ms: 5, start_up_ms: 0, threads: 1, turns_per_ms: 10, bursts: Some((2, 4)), fill_kib: 0 };
        assert!(load.run().unwrap().generated_ns >= 3 * 4_000_000);
    }

    #[test]
    fn every_thread_does_the_whole_load() {
        for threads in [1, 3] {
            let load = Load { work_ms: 4, start_up_ms: 1, threads, turns_per_ms: 1000, bursts: None, fill_kib: 0 };
            let started = BootTime::now();
            let screen = load.run().unwrap();
            assert!(screen.generated_ns > 0 && screen.basic_ms(started) >= 0.0);
            assert!(screen.launch_ms(started) <= started.since(BootTime::default()).as_secs_f64() * 1e3);
        }
        let only_start_up =
            Load { work_ms: 1, start_up_ms: 5, threads: 1, turns_per_ms: 10, bursts: None, fill_kib: 0 };
        only_start_up.run().unwrap();
    }

    #[test]
    fn a_page_repeats_its_random_part() {
        let mut page = [0; PAGE_WORDS];
        fill(&mut page, &mut Random::new(3));
        assert!(page.iter().zip(&page[RANDOM_WORDS..]).all(|(word, repeated)| word == repeated));
        assert_ne!(page[0], page[1]);
    }
}
