//! The process at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::sockopt::socket_peercred;

/// The credentials of the process that connected, as the kernel recorded them at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its process id.
    pub pid: i32,
    /// Its effective user id.
    pub uid: u32,
    /// Its effective group id.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Queries the kernel (SO_PEERCRED and SO_PEERGROUPS, unix(7)). Kernels before 4.13 report no supplementary groups.
    ///
    /// # Errors
    /// When the socket is not connected.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let credentials = socket_peercred(&socket)?;
        Ok(Self {
            pid: credentials.pid.as_raw_nonzero().get(),
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
            groups: groups(socket).unwrap_or_default(),
        })
    }

    /// True for members of group `gid`.
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

fn groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    /// NGROUPS_MAX is 65536; no user that should use this socket is in more groups than this.
    const LIMIT: usize = 1024;
    let mut groups = vec![0u32; LIMIT];
    let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `groups`, which is that large, and the length into `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(length as usize / size_of::<u32>());
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id() as i32);
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert!(peer.is_in(rustix::process::getegid().as_raw()));
        let own: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer.groups, own);
    }
}
