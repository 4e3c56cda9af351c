//! An open binder device and its mapped buffer: the only place where the driver reads or writes this process's memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use rustix::fs::OFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::abi;
use super::cache::{CacheFlush, CacheProfile, FLUSH, OPT_IN};
use super::returns::Range;
use crate::error::{DeviceError, Operation};

/// An open device and its buffer, into which the driver writes what arrives. To the driver each connection is a process.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    file: File,
    map: NonNull<u8>,
    map_bytes: usize,
}

// SAFETY: the mapping is read-only memory of this process, owned by the connection alone until it is dropped.
unsafe impl Send for Connection {}

/// `struct binder_write_read`.
#[repr(C)]
#[derive(Debug, Default)]
struct WriteRead {
    write_size: u64,
    write_consumed: u64,
    write_buffer: u64,
    read_size: u64,
    read_consumed: u64,
    read_buffer: u64,
}

const _: () = assert!(size_of::<WriteRead>() == abi::payload_bytes(abi::WRITE_READ));

impl Connection {
    /// Opens the binder device at `path` (a real path) with a buffer of `map_bytes`, at most 4 MiB.
    ///
    /// # Errors
    /// [`DeviceError`] when it cannot be opened or mapped, or speaks another protocol.
    pub fn open(path: &Path, map_bytes: usize) -> Result<Self, DeviceError> {
        let fault = |cause: io::Error| DeviceError::io(path, Operation::Open, cause);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(fault)?;
        let mut version = 0i32;
        control(&file, abi::VERSION, &raw mut version).map_err(fault)?;
        if version != abi::PROTOCOL_VERSION {
            return Err(DeviceError::malformed(path, "binder protocol version 8", &version.to_string()));
        }
        // SAFETY: a new mapping at a place that the kernel chooses; nothing else refers to it.
        let map = unsafe {
            mmap(std::ptr::null_mut(), map_bytes, ProtFlags::READ, MapFlags::PRIVATE | MapFlags::NORESERVE, &file, 0)
        };
        let map = map.map_err(|error| fault(error.into()))?;
        let map = NonNull::new(map.cast()).ok_or_else(|| fault(io::ErrorKind::InvalidData.into()))?;
        Ok(Self { path: path.to_owned(), file, map, map_bytes })
    }

    /// The device's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Registers this process as the context manager, which serves handle 0.
    ///
    /// # Errors
    /// [`DeviceError`]: EBUSY when there is one already, EPERM when a security module or an earlier manager's uid forbids it.
    pub fn become_context_manager(&self) -> Result<(), DeviceError> {
        let mut zero = 0i32;
        self.control(abi::SET_CONTEXT_MANAGER, &raw mut zero)
    }

    /// Lets the driver request up to `count` more threads.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn set_max_threads(&self, mut count: u32) -> Result<(), DeviceError> {
        self.control(abi::SET_MAX_THREADS, &raw mut count)
    }

    /// Lets the driver cache the answers that this context manager marks.
    ///
    /// # Errors
    /// [`DeviceError`]: EINVAL from a driver without the cache.
    pub fn opt_into_cache(&self, profile: &CacheProfile) -> Result<(), DeviceError> {
        let mut profile = *profile;
        self.control(OPT_IN, &raw mut profile)
    }

    /// Makes the driver drop its cached answers to the question `key`, or all of them when it is empty.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn flush_cache(&self, key: &[u8]) -> Result<(), DeviceError> {
        let address = if key.is_empty() { 0 } else { key.as_ptr() as u64 };
        let mut flush = CacheFlush { key: address, key_size: key.len() as u32, reserved: 0 };
        self.control(FLUSH, &raw mut flush)
    }

    /// Makes [`Connection::write_read`] block until there is something to read, the default, or fail with EAGAIN.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn set_blocking(&self, blocking: bool) -> Result<(), DeviceError> {
        let flags = if blocking { OFlags::empty() } else { OFlags::NONBLOCK };
        rustix::fs::fcntl_setfl(&self.file, flags).map_err(|error| DeviceError::io(&self.path, Operation::Call, error))
    }

    /// Writes `commands`, then reads returns into `returns` and reports how many bytes of it are filled. It blocks when there
    /// is nothing to read, unless `returns` is empty.
    ///
    /// # Errors
    /// [`DeviceError`] with the driver's answer; an interrupted call is repeated.
    pub fn write_read(&self, commands: &[u8], returns: &mut [u8]) -> Result<usize, DeviceError> {
        let mut write_read = WriteRead {
            write_size: commands.len() as u64,
            write_buffer: commands.as_ptr() as u64,
            read_size: returns.len() as u64,
            read_buffer: returns.as_mut_ptr() as u64,
            ..WriteRead::default()
        };
        loop {
            match control(&self.file, abi::WRITE_READ, &raw mut write_read) {
                Ok(()) => return Ok((write_read.read_consumed as usize).min(returns.len())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DeviceError::io(&self.path, Operation::Call, error)),
            }
        }
    }

    /// Copies a range of the mapped buffer into `copy`, in place of its content.
    ///
    /// # Errors
    /// [`DeviceError`] when the range is not inside the buffer: the driver is faulty.
    pub fn copy(&self, range: Range, copy: &mut Vec<u8>) -> Result<(), DeviceError> {
        copy.clear();
        if range.size == 0 {
            return Ok(());
        }
        let outside = || DeviceError::malformed(&self.path, "data inside the mapped buffer", &format!("{range:?}"));
        let offset = range.address.checked_sub(self.map.as_ptr() as u64).ok_or_else(outside)?;
        let end = offset.checked_add(range.size).filter(|&end| end <= self.map_bytes as u64).ok_or_else(outside)?;
        copy.reserve((end - offset) as usize);
        // SAFETY: `offset..end` lies within the mapping, whose pages the driver has mapped for this message and does not change
        // until it is freed; `copy` has room for them.
        unsafe {
            let from = self.map.as_ptr().add(offset as usize);
            std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), (end - offset) as usize);
            copy.set_len((end - offset) as usize);
        }
        Ok(())
    }

    fn control<T>(&self, request: u32, argument: *mut T) -> Result<(), DeviceError> {
        control(&self.file, request, argument).map_err(|error| DeviceError::io(&self.path, Operation::Call, error))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the mapping is this connection's own, and no reference into it outlives a call of `copy`.
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.map_bytes) };
    }
}

/// ioctl(2) with a pointer to as many bytes as `request` encodes.
fn control<T>(file: &File, request: u32, argument: *mut T) -> io::Result<()> {
    assert_eq!(abi::payload_bytes(request), size_of::<T>(), "the request's size is that of its argument");
    // SAFETY: `argument` points to a live, plain structure of the size that the request's number encodes; the caller borrows
    // the buffers that it points to for the length of the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as libc::Ioctl, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
