//! Requests to the kernel's netlink families and their answers (netlink(7)): a dump of all objects, or one change.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// `NLM_F_ACK`
const ACKNOWLEDGE: u16 = 4;
/// `NLM_F_ROOT | NLM_F_MATCH`
const DUMP: u16 = 0x300;
/// `NLM_F_CREATE | NLM_F_REPLACE`
const CREATE: u16 = 0x500;
/// The two flags of an attribute's kind: nested, and in network byte order.
const KIND_MASK: u16 = 0x3fff;
/// The kernel's dumps come in datagrams of at most this size.
const DATAGRAM_BYTES: usize = 32 << 10;
/// The kernel answers at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Appends an attribute of `kind` to `attributes`.
pub fn append_attribute(attributes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
    attributes.extend([length.to_ne_bytes(), kind.to_ne_bytes()].as_flattened());
    attributes.extend(value);
    attributes.resize(attributes.len().next_multiple_of(4), 0);
}

/// The attributes in `bytes`, each with its kind; ends at the first that is malformed.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(part(bytes, 0)?));
        let kind = u16::from_ne_bytes(part(bytes, 2)?) & KIND_MASK;
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the attribute of `kind` in `bytes`.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// The `BYTES` bytes of `bytes` from `place` on.
pub(super) fn part<const BYTES: usize>(bytes: &[u8], place: usize) -> Option<[u8; BYTES]> {
    bytes.get(place..place + BYTES)?.try_into().ok()
}

/// A message of `kind`: its fixed part, then its attributes.
fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + body.len()) as u32;
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(length.to_ne_bytes());
    message.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].as_flattened());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Passes the body of each message in `datagram` to `take`; true after the last one of the answer.
///
/// # Errors
/// The kernel's answer, or `InvalidData` for a message that is not as documented.
pub fn parse(datagram: &[u8], take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let length = part(rest, 0).map_or(0, u32::from_ne_bytes) as usize;
        let body = rest.get(HEADER_BYTES..length).ok_or(io::ErrorKind::InvalidData)?;
        let kind = u16::from_ne_bytes(part(rest, 4).ok_or(io::ErrorKind::InvalidData)?);
        match (kind, part(body, 0).map(i32::from_ne_bytes)) {
            (ERROR | DONE, Some(negated)) if negated < 0 => return Err(io::Error::from_raw_os_error(-negated)),
            (ERROR | DONE, _) => return Ok(true),
            _ => take(body),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Passes the body of each object in the answer to the request `kind` with `body` to `take`. `protocol` is the netlink family;
/// `None` is NETLINK_ROUTE.
///
/// # Errors
/// The kernel's answer: ENOENT or EPROTONOSUPPORT where it lacks what was asked for.
pub fn dump(protocol: Option<Protocol>, kind: u16, body: &[u8], take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    ask(protocol, &message(kind, REQUEST | DUMP, body), take)
}

/// Changes an object of NETLINK_ROUTE by the request `kind` with `body`.
///
/// # Errors
/// The kernel's answer.
pub fn change(kind: u16, body: &[u8]) -> io::Result<()> {
    ask(None, &message(kind, REQUEST | ACKNOWLEDGE, body), &mut |_| ())
}

/// The same; makes the object where there is none, or in the place of another.
///
/// # Errors
/// The kernel's answer.
pub fn create(kind: u16, body: &[u8]) -> io::Result<()> {
    ask(None, &message(kind, REQUEST | ACKNOWLEDGE | CREATE, body), &mut |_| ())
}

fn ask(protocol: Option<Protocol>, request: &[u8], take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
    send(&socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        match recv(&socket, &mut buffer[..], RecvFlags::TRUNC) {
            Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, length)) if length > buffer.len() => return Err(io::ErrorKind::InvalidData.into()),
            Ok((_, length)) => {
                if parse(&buffer[..length], take)? {
                    return Ok(());
                }
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        append_attribute(&mut bytes, 1, b"prio\0");
        append_attribute(&mut bytes, 0x8002, &[7; 4]);
        assert_eq!(bytes.len(), 12 + 8);
        assert_eq!(attributes(&bytes).collect::<Vec<_>>(), [(1, &b"prio\0"[..]), (2, &[7; 4])]);
        assert_eq!((attribute(&bytes, 2), attribute(&bytes, 3)), (Some(&[7; 4][..]), None));
        for cut in [&bytes[..3], &bytes[..8], &[3, 0, 1, 0, 9, 9]] {
            assert_eq!(attributes(cut).count(), 0, "{cut:?}");
        }
    }

    // Verifies SECURITY-3.
    #[test]
    fn an_answer_ends_with_its_last_message_or_an_error() {
        let object = message(36, 0, &[1, 2, 3, 4]);
        let done = message(DONE, 0, &[0; 4]);
        let failed = message(ERROR, 0, &(-2i32).to_ne_bytes());
        let late = message(DONE, 0, &(-12i32).to_ne_bytes());
        for (datagram, objects, end) in [
            (object.clone(), 1, Ok(false)),
            ([&object[..], &object, &done].concat(), 2, Ok(true)),
            ([&object[..], &failed].concat(), 1, Err(Some(2))),
            (late, 0, Err(Some(12))),
            (object[..17].to_vec(), 0, Err(None)),
            (vec![0; 16], 0, Err(None)),
            (vec![1], 0, Err(None)),
        ] {
            let mut found = 0;
            let outcome = parse(&datagram, &mut |_| found += 1).map_err(|error| error.raw_os_error());
            assert_eq!((found, outcome), (objects, end), "{datagram:?}");
        }
    }
}
