//! Detects CPU hotplug, and changes of a governor or of its limits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, WatchFlags};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use brisk_sys::Root;
use brisk_sys::cpu::cpufreq::Policies;

/// The files that programs write to change a policy; inotify reports such writes in sysfs as well.
const WATCHED: [&str; 2] = ["scaling_governor", "scaling_max_freq"];
/// Both sensors read everything pending, with at most this many reads in a row.
const READS_AT_ONCE: usize = 64;

/// A watch on the files that select governor and maximum frequency.
#[derive(Debug)]
pub struct CpufreqFiles {
    watch: OwnedFd,
}

impl CpufreqFiles {
    /// Watches the policies in the folders `policies`.
    ///
    /// # Errors
    /// When the kernel has no inotify, or its limit of watches is reached.
    pub fn watch(root: &Root, policies: &[impl AsRef<Path>]) -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        for folder in policies {
            for name in WATCHED {
                match inotify::add_watch(&watch, root.path(folder.as_ref().join(name)), WatchFlags::MODIFY) {
                    Ok(_) | Err(Errno::NOENT | Errno::ACCESS) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(Self { watch })
    }

    /// Discards all pending events without blocking: they only mean that something changed.
    pub fn drain(&self) {
        drain(|buffer| rustix::io::read(&self.watch, buffer));
    }
}

impl AsFd for CpufreqFiles {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// The kernel's uevents (`NETLINK_KOBJECT_UEVENT`), of which only those about CPUs matter.
#[derive(Debug)]
pub struct Uevents {
    socket: OwnedFd,
}

impl Uevents {
    /// Subscribes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<Self> {
        /// The multicast group of the kernel's own messages; the other one is udev's.
        const KERNEL_GROUP: u32 = 1;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::KOBJECT_UEVENT))?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
        Ok(Self { socket })
    }

    /// Reads all pending messages without blocking: true when one is about CPUs, or when messages were lost.
    pub fn drain(&self) -> bool {
        let mut changed = false;
        drain(|buffer| match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) => {
                changed |= is_cpu_uevent(&buffer[..length]);
                Ok(length)
            }
            Err(Errno::NOBUFS) => {
                changed = true;
                Ok(1)
            }
            Err(error) => Err(error),
        });
        changed
    }
}

impl AsFd for Uevents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn drain(mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) {
    let mut buffer = [0u8; 8192];
    for _ in 0..READS_AT_ONCE {
        match read(&mut buffer) {
            Ok(0) | Err(Errno::AGAIN) => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return tracing::debug!("cannot read changes of the device: {error}"),
        }
    }
}

/// A message begins with `ACTION@DEVPATH` and a zero byte: `online@/devices/system/cpu/cpu1`.
pub fn is_cpu_uevent(message: &[u8]) -> bool {
    let header = message.split(|&byte| byte == 0).next().unwrap_or_default();
    let path = header.iter().position(|&byte| byte == b'@').map(|at| &header[at + 1..]);
    path.is_some_and(|path| path.starts_with(b"/devices/system/cpu/"))
}

/// The folders of all cpufreq policies.
pub fn policy_folders(root: &Root) -> Vec<std::path::PathBuf> {
    Policies::read(root).list.into_iter().map(|policy| policy.folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uevents_about_cpus_matter() {
        for (message, matters) in [
            (&b"online@/devices/system/cpu/cpu1\0ACTION=online\0"[..], true),
            (b"add@/devices/system/cpu/cpufreq/policy0\0", true),
            (b"change@/devices/virtual/power_supply/battery\0", false),
            (b"libudev\0\xfe\xed\xca\xfe", false),
            (b"", false),
        ] {
            assert_eq!(is_cpu_uevent(message), matters, "{}", String::from_utf8_lossy(message));
        }
    }
}
