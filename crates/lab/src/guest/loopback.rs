//! The loopback interface, which a kernel starts with but leaves down: one message of rtnetlink(7).

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// `LOOPBACK_IFINDEX`: the first interface of every network namespace.
const LOOPBACK: u32 = 1;
const NEW_LINK: u16 = 16;
const ERROR: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_ACK`
const FLAGS: u16 = 1 | 4;
/// `IFF_UP`
const UP: u32 = 1;
const HEADER_BYTES: usize = 16;
const MESSAGE_BYTES: usize = 32;

/// Sets it up; the kernel then gives it its address.
///
/// # Errors
/// When the kernel has no network or refuses.
pub fn set_up() -> anyhow::Result<()> {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .context("the kernel has no rtnetlink")?;
    send(&socket, &request(), SendFlags::empty()).context("cannot ask for the loopback interface")?;
    let mut buffer = [0; 256];
    let (_, length) = recv(&socket, &mut buffer, RecvFlags::empty()).context("rtnetlink does not answer")?;
    match errno(&buffer[..length]) {
        Some(0) => Ok(()),
        Some(errno) => Err(Errno::from_raw_os_error(errno)).context("the loopback interface stays down"),
        None => bail!("rtnetlink answered something else"),
    }
}

/// `struct nlmsghdr`, then `struct ifinfomsg`.
fn request() -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(MESSAGE_BYTES as u32).to_ne_bytes());
    put(4, &NEW_LINK.to_ne_bytes());
    put(6, &FLAGS.to_ne_bytes());
    put(HEADER_BYTES + 4, &LOOPBACK.to_ne_bytes());
    put(HEADER_BYTES + 8, &UP.to_ne_bytes());
    // The mask of the flags that change.
    put(HEADER_BYTES + 12, &UP.to_ne_bytes());
    message
}

/// The errno of an acknowledgement, zero for success; `None` for another message.
fn errno(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let negated = i32::from_ne_bytes(answer.get(HEADER_BYTES..HEADER_BYTES + 4)?.try_into().ok()?);
    (kind == ERROR).then_some(-negated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_sets_one_flag_of_the_first_interface() {
        let words: Vec<u32> = request().chunks(4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap())).collect();
        let header = u32::from_ne_bytes([&16u16.to_ne_bytes()[..], &5u16.to_ne_bytes()].concat().try_into().unwrap());
        assert_eq!(words, [32, header, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn an_answer_has_an_errno() {
        let answer = |kind: u16, errno: i32| {
            let mut bytes = [0; 20];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes[16..].copy_from_slice(&(-errno).to_ne_bytes());
            bytes
        };
        for (answer, expected) in [(answer(2, 0), Some(0)), (answer(2, 1), Some(1)), (answer(3, 0), None)] {
            assert_eq!(errno(&answer), expected);
        }
        assert_eq!(errno(&answer(2, 0)[..19]), None);
    }
}
