//! One call to a systemd over its private socket: D-Bus without a broker (D-Bus Specification, "Message Protocol").

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A manager answers within a millisecond; while it reloads its units it takes longer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// No answer that is used here is longer.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// The longest answer to an authentication.
const MAX_LINE_BYTES: usize = 256;

const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
/// The length of the fixed start of every message, up to the length of its header fields.
const FIXED_HEADER_BYTES: usize = 16;
const FIELD_PATH: u8 = 1;
const FIELD_INTERFACE: u8 = 2;
const FIELD_MEMBER: u8 = 3;
const FIELD_ERROR: u8 = 4;
const FIELD_DESTINATION: u8 = 6;
const FIELD_SIGNATURE: u8 = 8;
/// A manager's answer about a unit that it does not know.
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// Makes the manager at `socket` set a property of a unit until the next boot.
///
/// # Errors
/// With the manager's message; [`io::ErrorKind::NotFound`] where it knows no such unit, or is not running.
pub(super) fn set_unit_property(socket: &Path, unit: &str, property: (&str, u64)) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    authenticate(&mut stream)?;
    call(&mut stream, &set_unit_properties(unit, property))?;
    // The manager answers before it writes to the group, and handles the next call after that.
    call(&mut stream, &ping())
}

/// Sends a call and waits for its answer.
fn call(stream: &mut UnixStream, message: &[u8]) -> io::Result<()> {
    stream.write_all(message)?;
    loop {
        let message = receive(stream)?;
        match message.get(1) {
            Some(&RETURN) => return Ok(()),
            Some(&ERROR) => return Err(error_from_reply(&message)),
            // It may send signals about units meanwhile.
            _ => {}
        }
    }
}

/// Sends this user's ID; the manager already has it from the kernel.
fn authenticate(stream: &mut UnixStream) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw().to_string();
    let user: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
    stream.write_all(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
        if line.len() > MAX_LINE_BYTES {
            break;
        }
    }
    if !line.starts_with(b"OK ") {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "systemd refuses this user"));
    }
    stream.write_all(b"BEGIN\r\n")
}

/// A message being encoded, little-endian.
#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn align(&mut self, size: usize) {
        self.0.resize(self.0.len().next_multiple_of(size), 0);
    }

    fn u32(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.align(8);
        self.0.extend(number.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.0.extend(text.bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(text.len() as u8);
        self.0.extend(text.bytes());
        self.0.push(0);
    }

    /// An array whose items begin at multiples of 8: its length, not counting the padding before the first.
    fn array(&mut self, items: impl FnOnce(&mut Self)) {
        self.u32(0);
        let length_at = self.0.len() - 4;
        self.align(8);
        let begin = self.0.len();
        items(self);
        let length = (self.0.len() - begin) as u32;
        self.0[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// `SetUnitProperties(unit, runtime, [(property, number)])`.
fn set_unit_properties(unit: &str, (property, number): (&str, u64)) -> Vec<u8> {
    let mut body = Encoder::default();
    body.string(unit);
    body.u32(1);
    body.array(|body| {
        body.align(8);
        body.string(property);
        body.signature("t");
        body.u64(number);
    });
    method_call(1, ("org.freedesktop.systemd1.Manager", "SetUnitProperties"), ("sba(sv)", body))
}

/// A call that has no effect other than its answer.
fn ping() -> Vec<u8> {
    method_call(2, ("org.freedesktop.DBus.Peer", "Ping"), ("", Encoder::default()))
}

/// Call number `serial` of a manager's method, with a body of this signature.
fn method_call(serial: u32, (interface, member): (&str, &str), (signature, mut body): (&str, Encoder)) -> Vec<u8> {
    let mut message = Encoder::default();
    // Little-endian, no flags, version 1.
    message.0.extend([b'l', CALL, 0, 1]);
    message.u32(body.0.len() as u32);
    message.u32(serial);
    message.array(|header| {
        for (field, kind, text) in [
            (FIELD_PATH, "o", "/org/freedesktop/systemd1"),
            (FIELD_INTERFACE, "s", interface),
            (FIELD_MEMBER, "s", member),
            (FIELD_DESTINATION, "s", "org.freedesktop.systemd1"),
            (FIELD_SIGNATURE, "g", signature),
        ] {
            header.align(8);
            header.0.push(field);
            header.signature(kind);
            if kind == "g" { header.signature(text) } else { header.string(text) }
        }
    });
    message.align(8);
    message.0.append(&mut body.0);
    message.0
}

/// The number at `at` of a message, whose first byte gives the byte order.
fn number(message: &[u8], at: usize) -> Option<usize> {
    let bytes = message.get(at..at.checked_add(4)?)?.try_into().ok()?;
    let number = if message.first() == Some(&b'l') { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
    usize::try_from(number).ok()
}

/// One whole message.
fn receive(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut message = vec![0; FIXED_HEADER_BYTES];
    stream.read_exact(&mut message)?;
    let rest = number(&message, 4).zip(number(&message, 12));
    let rest = rest.and_then(|(body, fields)| body.checked_add(fields.next_multiple_of(8)));
    let rest = rest.filter(|rest| *rest <= MAX_MESSAGE_BYTES);
    let rest = rest.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "systemd sent no message of D-Bus"))?;
    message.resize(FIXED_HEADER_BYTES + rest, 0);
    stream.read_exact(&mut message[FIXED_HEADER_BYTES..])?;
    Ok(message)
}

/// The error that the message of kind ERROR reports.
fn error_from_reply(message: &[u8]) -> io::Error {
    let name = error_name(message).unwrap_or("an error without a name");
    let text = body_text(message).unwrap_or_default();
    let kind = match name {
        NO_SUCH_UNIT => io::ErrorKind::NotFound,
        _ if name.ends_with("AccessDenied") || name.ends_with("AuthorizationRequired") => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("systemd: {text} ({name})"))
}

/// The text at `at` of a message: a length, and as many bytes.
fn text(message: &[u8], at: usize) -> Option<&str> {
    let begin = at.checked_add(4)?;
    std::str::from_utf8(message.get(begin..begin.checked_add(number(message, at)?)?)?).ok()
}

fn error_name(message: &[u8]) -> Option<&str> {
    let end = FIXED_HEADER_BYTES.checked_add(number(message, 12)?)?;
    let mut at = FIXED_HEADER_BYTES;
    while at < end {
        // Field, length of the signature, signature, zero: each signature here has one letter.
        let (field, kind) = (*message.get(at)?, *message.get(at + 2)?);
        let value = at + 4;
        if field == FIELD_ERROR {
            return text(message, value);
        }
        let length = match kind {
            b'g' => 2 + usize::from(*message.get(value)?),
            b's' | b'o' => 5 + number(message, value)?,
            b'u' => 4,
            _ => return None,
        };
        at = value.checked_add(length)?.checked_next_multiple_of(8)?;
    }
    None
}

/// The text that an error's body begins with.
fn body_text(message: &[u8]) -> Option<&str> {
    let begin = FIXED_HEADER_BYTES.checked_add(number(message, 12)?)?.checked_next_multiple_of(8)?;
    text(message, begin)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An error as systemd 252 sends it.
    fn error(name: &str, words: &str) -> Vec<u8> {
        let mut message = Encoder::default();
        message.0.extend([b'l', ERROR, 1, 1]);
        message.u32(words.len() as u32 + 5);
        message.u32(7);
        message.array(|header| {
            header.0.push(FIELD_SIGNATURE);
            header.signature("g");
            header.signature("s");
            header.align(8);
            header.0.push(FIELD_ERROR);
            header.signature("s");
            header.string(name);
            header.align(8);
            // The serial number of the call.
            header.0.push(5);
            header.signature("u");
            header.u32(1);
        });
        message.align(8);
        message.string(words);
        message.0
    }

    // Verifies PLACE-4.
    #[test]
    fn a_call_has_the_layout_of_the_specification() {
        let message = set_unit_properties("a.service", ("CPUWeight", 10));
        let (body, fields) = (number(&message, 4).unwrap(), number(&message, 12).unwrap());
        assert_eq!(message.len(), FIXED_HEADER_BYTES + fields.next_multiple_of(8) + body);
        let expected: &[u8] = &[
            9, 0, 0, 0, b'a', b'.', b's', b'e', b'r', b'v', b'i', b'c', b'e', 0, 0,
            0, // the unit, and up to a multiple of 4
            1, 0, 0, 0, // at runtime
            32, 0, 0, 0, // the array
            9, 0, 0, 0, b'C', b'P', b'U', b'W', b'e', b'i', b'g', b'h', b't', 0, // the property
            1, b't', 0, 0, 0, 0, 0, 0, 0, 0, // the kind of its value, and up to a multiple of 8
            10, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(&message[message.len() - body..], expected);
    }

    // Verifies PLACE-4.
    #[test]
    fn an_error_has_the_managers_message() {
        for (name, kind) in [
            (NO_SUCH_UNIT, io::ErrorKind::NotFound),
            ("org.freedesktop.DBus.Error.AccessDenied", io::ErrorKind::PermissionDenied),
            ("org.freedesktop.DBus.Error.InvalidArgs", io::ErrorKind::Other),
        ] {
            let message = error(name, "Unit x is not there");
            assert_eq!(receive(&mut &message[..]).unwrap(), message);
            let error = error_from_reply(&message);
            assert_eq!((error.kind(), error.to_string()), (kind, format!("systemd: Unit x is not there ({name})")));
        }
    }

    proptest! {
        // Verifies PLACE-4.
        #[test]
        fn any_bytes_are_an_answer_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..120) {
            let _ = receive(&mut &bytes[..]).map(|message| error_from_reply(&message));
            let whole = error(NO_SUCH_UNIT, "x");
            let _ = error_from_reply(&whole[..cut.min(whole.len())]);
        }
    }
}
