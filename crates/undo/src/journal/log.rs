//! The log file: locked by its writer, appended with one system call per record.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FlockOperation, OFlags, chownat, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::JournalError;
use super::error::Writer;
use super::record::{self, Contents, JournalRecord, Tenure};
use brisk_sys::locked_file::LockedFile;
use brisk_sys::process;

/// The log's name in its folder.
const FILE: &str = "journal";
/// Longer than a reader such as `brisk doctor` holds the lock.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(50);
/// How long a dead writer's lock is waited for. Its guardian holds the lock while it restores the leases, which may include
/// swapoff(2); a child between fork and exec holds it as well.
const DEAD_WRITER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than a launch is boosted by default.
const PASSING_WRITER_TIMEOUT: Duration = Duration::from_secs(20);
const LOCK_POLL_PERIOD: Duration = Duration::from_millis(1);
/// Far more than any number of leases needs: brisk has not written a larger log.
const READ_LIMIT_BYTES: u64 = 16 << 20;

/// The locked log. The kernel releases the lock when the process ends, even by SIGKILL.
#[derive(Debug)]
pub(super) struct Log {
    file: LockedFile,
    path: PathBuf,
    /// Bytes of complete records, to which a failed append is truncated.
    length: u64,
    /// The header, and whether the file starts with it: not when it follows the leases of a dead writer.
    header: Vec<u8>,
    starts_with_header: bool,
    /// True when a failed append could not be truncated, so the next one must end that line first.
    torn: bool,
}

impl Log {
    /// Creates folder and file if they are missing, takes the lock for `tenure`, and reads the log.
    pub(super) fn lock(folder: &Path, tenure: Tenure) -> Result<(Self, Contents), JournalError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| unusable(folder, error))?;
        let path = folder.join(FILE);
        own(folder, &path)?;
        let file = open(&path, true).map_err(|error| unusable(&path, error))?;
        let mut file = wait_for_lock(file, &path, tenure)?;
        let log = read(&mut file).map_err(|error| unusable(&path, error))?;
        let length = log.len() as u64;
        let contents = record::parse(&log);
        let torn = contents.torn;
        Ok((Self { file, path, length, header: Vec::new(), starts_with_header: false, torn }, contents))
    }

    /// Reads the log without the lock; `None` when there is no log.
    pub(super) fn peek(folder: &Path) -> Result<Option<Contents>, JournalError> {
        let path = folder.join(FILE);
        match open(&path, false).and_then(|mut file| read(&mut file)) {
            Ok(log) => Ok(Some(record::parse(&log))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, error)),
        }
    }

    /// True when a process has locked the log in `folder`, which must exist.
    pub(super) fn is_locked(folder: &Path) -> bool {
        // The lock taken here is shared, and is released when the file is closed at the end of this expression.
        open(&folder.join(FILE), false)
            .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
    }

    /// True when the log in `folder` is this file, by device and inode.
    pub(super) fn is_in(&self, folder: &Path) -> bool {
        let there = folder.join(FILE).symlink_metadata();
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        self.file.metadata().ok().map(identity) == there.ok().map(identity)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Truncates the log and writes its header: nothing is leased.
    pub(super) fn begin(&mut self, header: &JournalRecord) -> io::Result<()> {
        self.clear()?;
        self.header = record::line(header);
        self.append(header)?;
        self.starts_with_header = true;
        Ok(())
    }

    /// Appends the header to the lines of a dead writer, because some of its leases are still held.
    pub(super) fn resume(&mut self, header: &JournalRecord) -> io::Result<()> {
        self.header = record::line(header);
        self.append(header)
    }

    /// Appends one record with one system call; a record that was written only in part is truncated.
    pub(super) fn append(&mut self, record: &JournalRecord) -> io::Result<()> {
        self.append_line(record::line(record))
    }

    fn append_line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        if self.torn {
            line.insert(0, b'\n');
        }
        let outcome = match self.file.write(&line) {
            Ok(written) if written == line.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::StorageFull.into()),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                self.length += line.len() as u64;
                self.torn = false;
            }
            Err(_) => self.torn |= self.file.set_len(self.length).is_err(),
        }
        outcome
    }

    /// Removes every record but the header, when nothing is leased any more.
    pub(super) fn discard(&mut self) -> io::Result<()> {
        if !self.starts_with_header {
            self.clear()?;
            self.append_line(self.header.clone())?;
            self.starts_with_header = true;
        }
        let header_bytes = self.header.len() as u64;
        self.file.set_len(header_bytes)?;
        self.length = header_bytes;
        Ok(())
    }

    /// Empties the log.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.length, self.starts_with_header, self.torn) = (0, false, false);
        Ok(())
    }
}

/// Takes the lock, or returns which process has it. Waits if the writer has died, since its guardian or a forked child may hold
/// the lock. A lasting opener also waits for a passing one, which ends with its launch.
fn wait_for_lock(mut file: File, path: &Path, tenure: Tenure) -> Result<LockedFile, JournalError> {
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        file = match LockedFile::try_lock(file).map_err(|error| unusable(path, error))? {
            Ok(locked) => return Ok(locked),
            Err(file) => file,
        };
        // A new writer replaces the pid; a log without a pid is being created or was just emptied.
        let (pid, its) = read(&mut file).map_or((None, Tenure::Lasting), |log| {
            let Contents { writer, tenure, .. } = record::parse(&log);
            (writer, tenure)
        });
        let has_ended = pid.is_some_and(process::has_ended);
        let timeout = match (tenure, its) {
            _ if pid.is_none() || has_ended => DEAD_WRITER_TIMEOUT,
            (Tenure::Lasting, Tenure::Passing) => PASSING_WRITER_TIMEOUT,
            _ => LOCK_TIMEOUT,
        };
        let waited = begun.elapsed();
        if waited >= timeout {
            return Err(JournalError::Locked { path: path.to_owned(), pid, has_ended, tenure: its });
        }
        if waited >= LOCK_TIMEOUT && !std::mem::replace(&mut is_told, true) {
            let who = Writer { pid, has_ended, tenure: its };
            tracing::info!(
                "waiting up to {} s for {}, in use by another brisk{who}",
                timeout.as_secs(),
                path.display()
            );
        }
        sleep(LOCK_POLL_PERIOD);
    }
}

/// Ensures that no other user can put another log, or a link, into `folder` at `path`. Root takes over the folder of a
/// service's user if its log holds no leases.
fn own(folder: &Path, path: &Path) -> Result<(), JournalError> {
    let metadata = folder.symlink_metadata().map_err(|error| unusable(folder, error))?;
    let refused = |why| Err(unusable(folder, io::Error::new(io::ErrorKind::PermissionDenied, why)));
    if !metadata.is_dir() || metadata.mode() & 0o022 != 0 {
        return refused("other users can write it, so it is not trusted");
    }
    let (owner, us) = (metadata.uid(), geteuid());
    if owner == us.as_raw() || !us.is_root() {
        return Ok(());
    }
    if let Some(Contents { leases, writer, tenure, .. }) = Log::peek(folder)? {
        if Log::is_locked(folder) {
            let has_ended = writer.is_some_and(process::has_ended);
            return Err(JournalError::Locked { path: path.to_owned(), pid: writer, has_ended, tenure });
        }
        if !leases.is_empty() {
            return refused("another user has left changes on record there: run `brisk restore` first");
        }
    }
    let taken = chownat(CWD, folder, Some(us), None, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from);
    // From here on only root can create another log there.
    let emptied = taken.and_then(|()| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    });
    emptied.map_err(|error| unusable(folder, error))
}

fn unusable(path: &Path, cause: io::Error) -> JournalError {
    JournalError::Unusable { path: path.to_owned(), cause }
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    // This file decides what root writes to /proc and /sys at the next replay, so no link to it is followed.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).append(write).create(write).mode(0o600).custom_flags(flags.bits() as i32);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let is_trusted = owner == 0 || owner == geteuid().as_raw() || (!write && owns_folder(path, owner));
    if metadata.mode() & 0o022 != 0 || !is_trusted {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users can write it, so it is not trusted"));
    }
    Ok(file)
}

/// True for the journal of a service with its own user: root may read it, and becomes that user to restore it.
fn owns_folder(path: &Path, owner: u32) -> bool {
    let folder = path.parent().and_then(|folder| folder.symlink_metadata().ok());
    folder.is_some_and(|folder| folder.uid() == owner && folder.mode() & 0o022 == 0)
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut log = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(READ_LIMIT_BYTES).read_to_end(&mut log)?;
    Ok(log)
}

#[cfg(test)]
impl Log {
    /// A log that writes its records to `path`, for example /dev/full.
    pub(super) fn on(path: &Path) -> Self {
        let file = LockedFile::on(OpenOptions::new().write(true).open(path).unwrap());
        Self { file, path: path.to_owned(), length: 0, header: Vec::new(), starts_with_header: true, torn: false }
    }

    /// The descriptor that a child would inherit.
    pub(super) fn descriptor(&self) -> File {
        self.file.try_clone().unwrap()
    }

    /// Closes the descriptor without unlocking, as the kernel does for a killed process.
    pub(super) fn lose(&mut self) {
        self.file.lose(File::open("/dev/null").unwrap());
    }
}
