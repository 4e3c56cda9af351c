//! Plays one application: it launches, fills its memory, resumes on command, and is killed like any other.
//!
//! `resume` on its standard input is the user's tap. `screen N AT LOOKED_UP MEDIAN` on its standard output is the N-th screen,
//! of which the launch is the first (0): its time on CLOCK_BOOTTIME, the sum and the median of its lookups' times, all in
//! nanoseconds.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use super::workload::{Application, Applications};
use crate::lookup::{Client, Lookups};
use brisk_base::random::Random;
use brisk_base::work::Work;
use brisk_sys::BootTime;

const PAGE_BYTES: usize = 4096;
const WORDS: usize = PAGE_BYTES / 8;
/// Allocation step of a growing task.
const GROWTH_KIB: u64 = 1024;
/// Pages that the first screen needs alternate with others in runs of this length, like objects of one kind.
const RUN_PAGES: usize = 16;

/// The inputs of an application.
#[derive(Debug)]
pub struct SimulatedApplication<'a> {
    /// All applications.
    pub workload: &'a Applications,
    /// The application's index.
    pub number: usize,
    /// Seed of its memory's contents.
    pub seed: u64,
    /// Turns of the work loop in a millisecond.
    pub turns_per_ms: u64,
    /// The file that holds the framework and all applications' files.
    pub storage: &'a File,
    /// The services that it looks up at each opening, if any.
    pub services: Option<Services>,
}

/// Services that an application looks up.
#[derive(Debug)]
pub struct Services {
    /// Its own connection, as every process has one.
    pub client: Client,
    /// The transaction code of a lookup.
    pub code: u32,
    /// Their names, most popular first.
    pub names: Vec<String>,
    /// Lookups of an opening.
    pub count: usize,
}

/// Durations of an opening's lookups.
#[derive(Debug, Clone, Copy, Default)]
struct LookupTime {
    all: Duration,
    /// Of the single lookups: swap-in of the application's pages prolongs one or two of them.
    median: Duration,
}

impl Services {
    /// Makes the lookups of opening `screen`, and returns their durations.
    fn lookup(&mut self, seed: u64, screen: u32) -> io::Result<LookupTime> {
        let lookups = Lookups { code: self.code, names: &self.names, count: self.count, seed };
        let began = BootTime::now();
        let timings = lookups.run(&mut self.client, screen.into()).map_err(io::Error::other)?;
        let all = BootTime::now().since(began);
        let mut ticks: Vec<u64> = timings.iter().map(|timing| timing.request + timing.call + timing.answer).collect();
        ticks.sort_unstable();
        let sum: u64 = ticks.iter().sum();
        let median = ticks.get(ticks.len() / 2).map_or(0.0, |&median| median as f64 / sum.max(1) as f64);
        Ok(LookupTime { all, median: all.mul_f64(median) })
    }
}

impl SimulatedApplication<'_> {
    /// Runs until standard input ends.
    ///
    /// # Errors
    /// When memory cannot be mapped or standard output cannot be written.
    pub fn play(&mut self) -> io::Result<()> {
        let application = &self.workload.list[self.number];
        let framework = Region::of_file(self.storage, 0, application.framework_kib)?;
        let file = Region::of_file(self.storage, self.workload.file_offset_kib(self.number), application.file_kib)?;
        let mut memory = Region::anonymous(application.anonymous_kib)?;
        let mut contents = Contents::new(self.seed, self.number as u64, application, self.workload.random_share);

        self.work(application.launch_ms / 2);
        let lookup_time = self.lookup(0)?;
        framework.read_all();
        file.read_all();
        let (first, rest): (Vec<usize>, Vec<usize>) =
            (0..memory.pages()).partition(|&page| is_for_screen(page, application));
        first.iter().for_each(|&page| contents.fill(memory.page(page)));
        self.work(application.launch_ms - application.launch_ms / 2);
        show(0, lookup_time)?;
        rest.iter().for_each(|&page| contents.fill(memory.page(page)));

        let mut random = Random::stream(self.seed, self.number as u64);
        for (screen, command) in (1..).zip(io::stdin().lock().lines()) {
            command?;
            let lookup_time = self.lookup(screen)?;
            framework.read_all();
            file.read_all();
            for &page in &first {
                let written = random.unit() < self.workload.written_share;
                touch(memory.page(page), written);
            }
            self.work(application.resume_ms);
            show(screen, lookup_time)?;
        }
        Ok(())
    }

    /// Allocates memory and prints `grown KIB` at every MiB, until it is killed or an allocation fails.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn grow(&self) -> io::Result<()> {
        let application = &self.workload.list[self.number];
        let mut contents = Contents::new(self.seed, self.number as u64, application, self.workload.random_share);
        for step in 1u64.. {
            let Ok(mut memory) = Region::anonymous(GROWTH_KIB) else { break };
            (0..memory.pages()).for_each(|page| contents.fill(memory.page(page)));
            let mut out = io::stdout().lock();
            writeln!(out, "grown {}", step * GROWTH_KIB)?;
            out.flush()?;
        }
        Ok(())
    }

    fn lookup(&mut self, screen: u32) -> io::Result<LookupTime> {
        // Each application looks up in its own order.
        let seed = self.seed ^ (self.number as u64) << 32;
        self.services.as_mut().map_or(Ok(LookupTime::default()), |services| services.lookup(seed, screen))
    }

    fn work(&self, milliseconds: u64) {
        Work::of_turns(milliseconds * self.turns_per_ms).run();
    }
}

fn show(screen: u32, LookupTime { all, median }: LookupTime) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "screen {screen} {} {} {}", BootTime::now().nanoseconds(), all.as_nanos(), median.as_nanos())?;
    out.flush()
}

/// True for the pages that a first screen needs: a share of `touched`, spread over the whole.
fn is_for_screen(page: usize, application: &Application) -> bool {
    let run = page / RUN_PAGES;
    let before = |run: usize| (run as f64 * application.touched) as usize;
    before(run + 1) > before(run)
}

fn touch(page: &mut [u64], written: bool) {
    // A read that the compiler must not remove.
    let word = std::hint::black_box(page[0]);
    if written {
        page[0] = word.wrapping_add(1);
    }
}

/// Memory of this process that lasts as long as the process.
struct Region {
    words: &'static mut [u64],
}

/// ENOMEM where an address space is smaller than that.
fn bytes_of(kib: u64) -> io::Result<usize> {
    let bytes = kib.checked_mul(1024).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| Errno::NOMEM.into())
}

impl Region {
    fn anonymous(kib: u64) -> io::Result<Self> {
        let bytes = bytes_of(kib)?;
        // SAFETY: a new private mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        // SAFETY: the mapping has this length, is never unmapped, and nothing else refers to it.
        Ok(Self { words: unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes / 8) } })
    }

    fn of_file(file: &File, offset_kib: u64, kib: u64) -> io::Result<Self> {
        let bytes = bytes_of(kib)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address that the kernel chooses; it is never written through.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE, file.as_fd(), offset_kib * 1024)?
        };
        // SAFETY: as above; no process writes the file.
        Ok(Self { words: unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes / 8) } })
    }

    fn pages(&self) -> usize {
        self.words.len() / WORDS
    }

    fn page(&mut self, number: usize) -> &mut [u64] {
        &mut self.words[number * WORDS..(number + 1) * WORDS]
    }

    fn read_all(&self) {
        for page in self.words.chunks(WORDS) {
            std::hint::black_box(page[0]);
        }
    }
}

/// The contents of an application's pages.
struct Contents {
    random: Random,
    incompressible: f64,
    random_words: usize,
}

impl Contents {
    fn new(seed: u64, number: u64, application: &Application, random_share: f64) -> Self {
        let random_words = ((WORDS as f64 * random_share) as usize).clamp(1, WORDS);
        Self {
            random: Random::stream(seed, number | 1 << 32),
            incompressible: application.incompressible,
            random_words,
        }
    }

    fn fill(&mut self, page: &mut [u64]) {
        let random_words = if self.random.unit() < self.incompressible { page.len() } else { self.random_words };
        for word in &mut page[..random_words] {
            *word = self.random.bits();
        }
        for index in random_words..page.len() {
            page[index] = page[index - random_words];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_random_as_the_workload_says() {
        let workload = Applications::standard().unwrap();
        for application in &workload.list {
            let mut contents = Contents::new(3, 0, application, workload.random_share);
            let mut page = [0u64; WORDS];
            let mut whole = 0;
            for _ in 0..2000 {
                contents.fill(&mut page);
                whole += u32::from(page[0] != page[153]);
                assert_ne!(page[0], page[1]);
            }
            let share = f64::from(whole) / 2000.0;
            assert!((share - application.incompressible).abs() < 0.04, "{}: {share}", application.name);
        }
    }

    #[test]
    fn the_first_screen_needs_its_share_spread_over_all() {
        let workload = Applications::standard().unwrap();
        for application in &workload.list {
            let pages = application.anonymous_kib as usize / 4;
            let share = |range: std::ops::Range<usize>| {
                let length = range.len() as f64;
                range.filter(|&page| is_for_screen(page, application)).count() as f64 / length
            };
            for range in [0..pages, 0..pages / 2, pages / 2..pages] {
                assert!((share(range) - application.touched).abs() < 0.02, "{}", application.name);
            }
        }
    }
}
