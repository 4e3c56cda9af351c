//! What each TCP connection has sent, and to which control group of version 2 its socket belongs (sock_diag(7)): the group of
//! the process that created it, wherever that is now. The same group's BPF programs see its packets.

use std::io;

use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;
use serde::{Deserialize, Serialize};

use super::netlink::{attribute, dump, part};
use crate::Root;

/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `AF_INET` and `AF_INET6`
const FAMILIES: [u8; 2] = [2, 10];
/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// `struct inet_diag_req_v2` and `struct inet_diag_msg`, and in the latter the socket's cookie.
const REQUEST_BYTES: usize = 56;
const MESSAGE_BYTES: usize = 72;
const COOKIE: usize = 44;
/// `INET_DIAG_INFO`, and the bit that asks for it; `INET_DIAG_CGROUP_ID` comes unasked (Linux 5.8).
const INFO: u16 = 2;
const INFO_WANTED: u8 = 1 << (INFO - 1);
const GROUP: u16 = 21;
/// `tcpi_bytes_sent` of `struct tcp_info`.
const SENT_BYTES: usize = 200;
/// `TCP_ESTABLISHED`, `TCP_FIN_WAIT1`, `TCP_CLOSE_WAIT`, `TCP_LAST_ACK` and `TCP_CLOSING`: the states in which a socket sends.
const SENDING: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    /// The kernel's number of it, which no other socket gets until the next boot.
    pub cookie: u64,
    /// Its control group: see [`crate::cgroup::id`].
    pub group: u64,
    /// All that it has sent, repeated packets included.
    pub sent_bytes: u64,
}

/// All connections that have sent anything.
///
/// # Errors
/// ENOENT where the kernel has no tcp_diag, `Unsupported` where it does not report control groups.
pub fn read(root: &Root) -> io::Result<Vec<Socket>> {
    if !root.is_system() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (mut sockets, mut is_grouped) = (Vec::new(), true);
    let mut take = |body: &[u8]| match parse(body) {
        Some(socket) if socket.sent_bytes > 0 => sockets.push(socket),
        Some(_) => {}
        None => is_grouped = false,
    };
    for family in FAMILIES {
        match dump(Some(SOCK_DIAG), BY_FAMILY, &request(family), &mut take) {
            // A kernel without IPv6.
            Err(error) if family != FAMILIES[0] && Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
            outcome => outcome?,
        }
    }
    if is_grouped { Ok(sockets) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn request(family: u8) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[..3].copy_from_slice(&[family, TCP, INFO_WANTED]);
    request[4..8].copy_from_slice(&SENDING.to_ne_bytes());
    request
}

/// Parses the body of an answer; `None` where it lacks the group or what was sent.
pub fn parse(body: &[u8]) -> Option<Socket> {
    let attributes = body.get(MESSAGE_BYTES..)?;
    Some(Socket {
        cookie: u64::from_ne_bytes(part(body, COOKIE)?),
        group: u64::from_ne_bytes(part(attribute(attributes, GROUP)?, 0)?),
        sent_bytes: u64::from_ne_bytes(part(attribute(attributes, INFO)?, SENT_BYTES)?),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::super::netlink::append_attribute;
    use super::*;

    // Verifies PLACE-2.
    #[test]
    fn a_connection_has_a_group_and_what_it_sent() {
        let mut information = vec![0; SENT_BYTES + 24];
        information[SENT_BYTES..SENT_BYTES + 8].copy_from_slice(&5_000_000_000u64.to_ne_bytes());
        let mut body = vec![0; MESSAGE_BYTES];
        body[COOKIE..COOKIE + 8].copy_from_slice(&77u64.to_ne_bytes());
        append_attribute(&mut body, INFO, &information);
        assert_eq!(parse(&body), None, "a kernel before 5.8");
        append_attribute(&mut body, GROUP, &4242u64.to_ne_bytes());
        assert_eq!(parse(&body), Some(Socket { cookie: 77, group: 4242, sent_bytes: 5_000_000_000 }));
        for length in 0..body.len() {
            assert_eq!(parse(&body[..length]), None, "{length} bytes");
        }
    }

    // Verifies PLACE-2.
    #[test]
    fn this_kernel_counts_what_a_connection_sends() {
        let before = match read(&Root::system()) {
            Ok(before) => before,
            // A container may have no tcp_diag.
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(&[7; 12_345]).unwrap();
        let after = read(&Root::system()).unwrap();
        let is_new = |socket: &&Socket| !before.iter().any(|known| known.cookie == socket.cookie);
        assert!(after.iter().filter(is_new).any(|socket| socket.sent_bytes == 12_345), "{after:?}");
    }
}
