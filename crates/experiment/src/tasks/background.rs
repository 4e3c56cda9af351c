//! The background programs, which run until standard input ends.

use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::messages::exchange;
use super::periodic::{MUSIC, PeriodicResult};
use super::{BackgroundReport, DISK_THREADS, JOBS, TaskRunner, UPLOAD_THREADS, join_thread, spawn_named};
use crate::spec::BackgroundProgram;
use brisk_sys::Root;
use brisk_sys::process::{self, TICK_MS};

/// The work of a download, and its wait after that.
const DOWNLOAD_MS: u64 = 15;
const DOWNLOAD_WAIT: Duration = Duration::from_millis(25);
/// Pieces of a burst, and the rest after it.
const BURST_PIECES: u32 = 13;
const BURST_REST: Duration = Duration::from_secs(2);
/// A hog checks whether it has to stop after this much work.
const HOG_MS: u64 = 5;

/// A neighbour's counts since its start command.
#[derive(Debug, Default)]
pub(super) struct Tally {
    stopped: AtomicBool,
    periods: Mutex<Periods>,
    moved_bytes: AtomicU64,
    threads: AtomicUsize,
}

/// The number of due moments, and of missed ones.
#[derive(Debug, Default, Clone, Copy)]
struct Periods {
    all: u32,
    missed: u32,
}

impl Tally {
    pub(super) fn should_run(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Does `piece` after `piece` until it is to stop.
    fn repeat(&self, mut piece: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        while self.should_run() {
            piece()?;
        }
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The number of the calling thread, in the order of these calls.
    pub(super) fn next_thread(&self) -> usize {
        self.threads.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add_moved(&self, bytes: usize) {
        self.moved_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The bytes moved since the start command.
    pub(super) fn moved(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    fn periods(&self) -> MutexGuard<'_, Periods> {
        self.periods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts after each period, and says whether there is to be another.
    fn counting(&self) -> impl FnMut(&PeriodicResult) -> bool {
        let mut missed_before = 0;
        move |paced| {
            let missed = paced.missed - missed_before;
            missed_before = paced.missed;
            let mut periods = self.periods();
            periods.all += 1 + missed;
            periods.missed += missed;
            self.should_run()
        }
    }
}

impl TaskRunner {
    /// Runs as `what`. A line of `commands` starts the reported time; their end ends it.
    ///
    /// # Errors
    /// When a thread, a socket or a process cannot be created, or the kernel does not report this process's CPU time.
    pub fn run_background(&self, what: BackgroundProgram, commands: &mut dyn BufRead) -> io::Result<BackgroundReport> {
        let tally = Tally::default();
        thread::scope(|scope| {
            let threads = match what {
                BackgroundProgram::Compile => JOBS,
                BackgroundProgram::Backup | BackgroundProgram::Update => DISK_THREADS,
                BackgroundProgram::Upload => UPLOAD_THREADS,
                _ => 1,
            };
            let body = || self.run_until_stopped(what, &tally);
            let handles =
                (0..threads).map(|_| spawn_named(scope, what.name(), body)).collect::<io::Result<Vec<_>>>()?;
            let report = collect_report(&tally, commands);
            let moved_bytes = what.is_bulk().then(|| tally.moved());
            tally.stop();
            handles.into_iter().try_for_each(join_thread)?;
            report.map(|report| BackgroundReport { moved_bytes, ..report })
        })
    }

    fn run_until_stopped(&self, what: BackgroundProgram, tally: &Tally) -> io::Result<()> {
        match what {
            BackgroundProgram::Music => drop(self.run_periodic(MUSIC, tally.counting())),
            BackgroundProgram::Player => self.play(tally.counting())?,
            BackgroundProgram::Messages => exchange(|_| tally.should_run())?,
            BackgroundProgram::Backup => self.back_up(tally)?,
            BackgroundProgram::Update => self.update(tally)?,
            BackgroundProgram::Growth => self.grow(tally),
            BackgroundProgram::Compile => tally.repeat(|| self.compile_one())?,
            BackgroundProgram::Transfer => tally.repeat(|| self.transfer(tally))?,
            BackgroundProgram::Upload => tally.repeat(|| self.upload_file(tally))?,
            BackgroundProgram::Download => tally.repeat(|| {
                self.work(DOWNLOAD_MS);
                self.wait(DOWNLOAD_WAIT);
                Ok(())
            })?,
            BackgroundProgram::Bursts => tally.repeat(|| {
                (0..BURST_PIECES).take_while(|_| tally.should_run()).for_each(|_| self.work(DOWNLOAD_MS));
                // In pieces, so that a stop is noticed during the rest.
                let rest = DOWNLOAD_WAIT;
                let pieces = (BURST_REST.as_millis() / rest.as_millis()) as u32;
                (0..pieces).take_while(|_| tally.should_run()).for_each(|_| self.wait(rest));
                Ok(())
            })?,
            BackgroundProgram::Hog => tally.repeat(|| {
                self.work(HOG_MS);
                Ok(())
            })?,
        }
        Ok(())
    }
}

/// Counts from the last command until there are no more, and returns the counts.
fn collect_report(tally: &Tally, commands: &mut dyn BufRead) -> io::Result<BackgroundReport> {
    let mut used_ms = used_ms()?;
    for command in commands.lines() {
        command?;
        used_ms = self::used_ms()?;
        *tally.periods() = Periods::default();
        tally.moved_bytes.store(0, Ordering::Relaxed);
    }
    let Periods { all, missed } = *tally.periods();
    Ok(BackgroundReport { cpu_ms: self::used_ms()? - used_ms, periods: all, missed, moved_bytes: None })
}

/// CPU time of this process and of its exited children so far.
fn used_ms() -> io::Result<f64> {
    let stat = process::stat(&Root::system(), std::process::id()).map_err(io::Error::other)?;
    Ok(((stat.cpu_ticks + stat.children_ticks) * TICK_MS) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies PROVE-2.
    #[test]
    fn all_neighbours_end_when_commands_do() {
        let folder = tempfile::tempdir().unwrap();
        let runner = TaskRunner::of_tests(folder.path());
        for what in [
            BackgroundProgram::Music,
            BackgroundProgram::Player,
            BackgroundProgram::Download,
            BackgroundProgram::Transfer,
            BackgroundProgram::Bursts,
            BackgroundProgram::Hog,
            BackgroundProgram::Messages,
            BackgroundProgram::Growth,
            BackgroundProgram::Upload,
        ] {
            let report = runner.run_background(what, &mut "begin\n".as_bytes()).unwrap();
            assert!(report.cpu_ms >= 0.0 && report.missed <= report.periods, "{report:?}");
        }
        let dilated = TaskRunner { time_dilation: 4, ..runner.clone() };
        let played = dilated.run_periodic_for(MUSIC, Duration::from_millis(200));
        assert!(played.responses_ms.len() <= 2, "a buffer of 80 ms: {played:?}");
        let compiled = runner.run_until_stopped(BackgroundProgram::Compile, &Tally::default());
        assert!(compiled.is_err(), "there is no such program");
    }
}
