//! Programs that wait for a disk. All but one drop from the page cache what they have read or written, so that every access reaches
//! the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use super::background::Tally;
use super::{DISK_THREADS, TaskRunner, join_thread, spawn_named};
use brisk_base::random::Random;

/// What the foreground reads at a time, and how often a read is due.
const BLOCK_BYTES: usize = 4096;
const READ_PERIOD: Duration = Duration::from_millis(100);
/// The blocks of an opening, and the work after each.
const OPENING_BLOCKS: u32 = 300;
const OPENING_WORK_US: u64 = 500;
/// What the foreground keeps in the page cache, and the period and the blocks of a request to it.
const WORKING_SET_BYTES: usize = 48 << 20;
const REQUEST_PERIOD: Duration = Duration::from_millis(50);
const REQUEST_BLOCKS: u32 = 8;
/// The threads of a warm-up, and the blocks that each of them reads.
const WARM_UP_THREADS: usize = 4;
const WARM_UP_BLOCKS: usize = 100;
/// What each thread of a background program moves at a time, and after how many pieces it waits until they are written.
const PIECE_BYTES: usize = 64 * 1024;
const PIECES_WRITTEN_TOGETHER: usize = 16;

/// An open disk.
struct Disk {
    file: File,
    bytes: usize,
}

impl Disk {
    /// # Errors
    /// When it cannot be opened, or is too small for the pieces of all threads.
    fn open(path: &Path, is_written: bool) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(is_written).open(path)?;
        let bytes = usize::try_from(file.seek(SeekFrom::End(0))?).unwrap_or(usize::MAX);
        if bytes < DISK_THREADS * PIECE_BYTES {
            return Err(io::Error::other(format!("{} is too small", path.display())));
        }
        // Only what is asked for is read.
        fadvise(&file, 0, None, Advice::Random)?;
        Ok(Self { file, bytes })
    }

    /// Reads a block at a random place.
    fn read_block(&self, random: &mut Random) -> io::Result<()> {
        self.read_block_at(random.below(self.bytes / BLOCK_BYTES) * BLOCK_BYTES)
    }

    fn read_block_at(&self, offset: usize) -> io::Result<()> {
        self.read(&mut [0; BLOCK_BYTES], offset)?;
        self.forget(offset, BLOCK_BYTES)
    }

    fn read(&self, buffer: &mut [u8], offset: usize) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset as u64)
    }

    /// Reads [`REQUEST_BLOCKS`] blocks of the first `bytes`.
    fn request(&self, bytes: usize, random: &mut Random) -> io::Result<()> {
        (0..REQUEST_BLOCKS).try_for_each(|_| {
            let offset = random.below(bytes / BLOCK_BYTES) * BLOCK_BYTES;
            self.read(&mut [0; BLOCK_BYTES], offset)
        })
    }

    fn forget(&self, offset: usize, bytes: usize) -> io::Result<()> {
        Ok(fadvise(&self.file, offset as u64, NonZeroU64::new(bytes as u64), Advice::DontNeed)?)
    }

    /// The offsets of the pieces in the part of thread `number`, again and again.
    fn pieces(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        let part = self.bytes / DISK_THREADS / PIECE_BYTES * PIECE_BYTES;
        let start = number % DISK_THREADS * part;
        (start..start + part).step_by(PIECE_BYTES).cycle()
    }
}

/// Reads the first blocks of the disk `device`, in several threads, so that its scheduler learns how it serves requests.
///
/// # Errors
/// When the disk cannot be read, or a thread cannot be created.
pub(crate) fn warm_up_disk(device: &Path) -> io::Result<()> {
    let disk = &Disk::open(device, false)?;
    let read_part = |part: usize| {
        let mut blocks = part * WARM_UP_BLOCKS..(part + 1) * WARM_UP_BLOCKS;
        blocks.try_for_each(|block| disk.read_block_at(block * BLOCK_BYTES))
    };
    thread::scope(|scope| {
        let readers = (0..WARM_UP_THREADS).map(|part| spawn_named(scope, "warm-up", move || read_part(part)));
        readers.collect::<io::Result<Vec<_>>>()?.into_iter().try_for_each(join_thread)
    })
}

impl TaskRunner {
    /// Reads a block each [`READ_PERIOD`] for `length`; returns the times from when each was due until it was read, in
    /// milliseconds.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub(super) fn read_blocks(&self, length: Duration) -> io::Result<Vec<f64>> {
        let disk = Disk::open(&self.disk, false)?;
        let mut random = Random::new(0);
        self.try_at_period_for(READ_PERIOD, length, || disk.read_block(&mut random))
    }

    /// Reads a part of the disk into the page cache, and then some blocks of it each [`REQUEST_PERIOD`] for `length`; returns the
    /// times from when each request was due until it was answered, in milliseconds.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub(super) fn use_working_set(&self, length: Duration) -> io::Result<Vec<f64>> {
        let disk = Disk::open(&self.disk, false)?;
        let bytes = WORKING_SET_BYTES.min(disk.bytes) / PIECE_BYTES * PIECE_BYTES;
        let mut piece = vec![0; PIECE_BYTES];
        // Read twice, pages are active to the kernel.
        for offset in (0..bytes).step_by(PIECE_BYTES).chain((0..bytes).step_by(PIECE_BYTES)) {
            disk.read(&mut piece, offset)?;
        }
        let mut random = Random::new(2);
        self.try_at_period_for(REQUEST_PERIOD, length, || disk.request(bytes, &mut random))
    }

    /// Does a piece every `period` for `length`, until one fails; returns their times in milliseconds.
    pub(super) fn try_at_period_for(
        &self,
        period: Duration,
        length: Duration,
        mut piece: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Vec<f64>> {
        let mut outcome = Ok(());
        let paced = self.run_at_period_for(period, length, || {
            if outcome.is_ok() {
                outcome = piece();
            }
        });
        outcome.map(|()| paced.responses_ms)
    }

    /// Reads the blocks of an opening one after the other, and works after each.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub(super) fn open_application(&self) -> io::Result<()> {
        let disk = Disk::open(&self.disk, false)?;
        let mut random = Random::new(1);
        for _ in 0..OPENING_BLOCKS {
            disk.read_block(&mut random)?;
            self.work_us(OPENING_WORK_US);
        }
        Ok(())
    }

    /// Reads a part of the disk, piece by piece.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub(super) fn back_up(&self, tally: &Tally) -> io::Result<()> {
        let disk = Disk::open(&self.disk, false)?;
        let mut piece = vec![0; PIECE_BYTES];
        for offset in disk.pieces(tally.next_thread()).take_while(|_| tally.should_run()) {
            disk.read(&mut piece, offset)?;
            disk.forget(offset, PIECE_BYTES)?;
            tally.add_moved(PIECE_BYTES);
        }
        Ok(())
    }

    /// Writes a part of the disk, some pieces at a time.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub(super) fn update(&self, tally: &Tally) -> io::Result<()> {
        let disk = Disk::open(&self.disk, true)?;
        let piece = vec![0x5a; PIECE_BYTES];
        let mut written = Vec::with_capacity(PIECES_WRITTEN_TOGETHER);
        for offset in disk.pieces(tally.next_thread()).take_while(|_| tally.should_run()) {
            disk.file.write_all_at(&piece, offset as u64)?;
            written.push(offset);
            if written.len() == PIECES_WRITTEN_TOGETHER {
                disk.file.sync_data()?;
                tally.add_moved(PIECE_BYTES * PIECES_WRITTEN_TOGETHER);
                written.drain(..).try_for_each(|offset| disk.forget(offset, PIECE_BYTES))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A file that stands for the disk, of four pieces for each thread.
    fn runner() -> (tempfile::TempDir, TaskRunner) {
        let folder = tempfile::tempdir().unwrap();
        let runner = TaskRunner::of_tests(folder.path());
        File::create(&runner.disk).unwrap().set_len((4 * DISK_THREADS * PIECE_BYTES) as u64).unwrap();
        (folder, runner)
    }

    #[test]
    fn each_thread_has_a_part_of_the_disk() {
        let (_folder, runner) = runner();
        let disk = Disk::open(&runner.disk, false).unwrap();
        let part = 4 * PIECE_BYTES;
        for (number, first) in [(0, 0), (1, part), (7, 7 * part), (8, 0)] {
            let offsets: Vec<usize> = disk.pieces(number).take(5).collect();
            let expected = [0, 1, 2, 3, 0].map(|piece| first + piece * PIECE_BYTES);
            assert_eq!(offsets, expected, "thread {number}");
        }
    }

    // Verifies PROVE-2.
    #[test]
    fn the_foreground_reads_and_the_background_moves_data_until_it_is_stopped() {
        let (_folder, runner) = runner();
        assert_eq!(runner.read_blocks(READ_PERIOD).unwrap().len(), 1);
        assert_eq!(runner.use_working_set(REQUEST_PERIOD).unwrap().len(), 1);
        runner.open_application().unwrap();
        warm_up_disk(&runner.disk).unwrap();
        for program in [TaskRunner::back_up, TaskRunner::update] {
            let (tally, begun) = (Tally::default(), Instant::now());
            thread::scope(|scope| {
                let handle = scope.spawn(|| program(&runner, &tally));
                while tally.moved() < (PIECE_BYTES * PIECES_WRITTEN_TOGETHER) as u64 && begun.elapsed() < PATIENCE {
                    thread::yield_now();
                }
                assert!(!handle.is_finished(), "it ended without being stopped");
                tally.stop();
                handle.join().unwrap().unwrap();
            });
            assert!(tally.moved() > 0);
        }
        assert!(std::fs::read(&runner.disk).unwrap().starts_with(&[0x5a; PIECE_BYTES]));
    }

    #[test]
    fn a_small_or_missing_disk_is_refused() {
        let (_folder, runner) = runner();
        OpenOptions::new().write(true).open(&runner.disk).unwrap().set_len(PIECE_BYTES as u64).unwrap();
        assert!(runner.open_application().unwrap_err().to_string().ends_with("is too small"));
        let missing = TaskRunner { disk: "none".into(), ..runner };
        assert_eq!(missing.read_blocks(READ_PERIOD).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
