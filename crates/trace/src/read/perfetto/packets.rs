//! The packets of a file, one by one: each is a key, a length and a message.

use std::io::{self, BufRead, Read as _};

/// The key of a packet: field 1, with a length.
pub const KEY: u8 = 0x0a;
/// More than any packet of ftrace has; others (heap dumps) are skipped.
const LARGEST_PACKET: u64 = 16 << 20;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Packet(Vec<u8>),
    /// It was skipped.
    TooLarge,
    End,
}

/// Reads one packet.
pub fn next(input: &mut dyn BufRead) -> io::Result<Next> {
    match input.fill_buf()?.first() {
        None => return Ok(Next::End),
        Some(&KEY) => input.consume(1),
        Some(_) => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no packet begins where the next one should"));
        }
    }
    let bytes = length(input)?;
    let mut packet = input.take(bytes);
    if bytes > LARGEST_PACKET {
        let skipped = io::copy(&mut packet, &mut io::sink())?;
        return if skipped == bytes { Ok(Next::TooLarge) } else { Err(cut()) };
    }
    // A forged length takes no memory before its bytes come.
    let mut content = Vec::with_capacity((bytes as usize).min(64 * 1024));
    packet.read_to_end(&mut content)?;
    if content.len() as u64 == bytes { Ok(Next::Packet(content)) } else { Err(cut()) }
}

/// A number in groups of seven bits, the lowest first.
fn length(input: &mut dyn BufRead) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let Some(&byte) = input.fill_buf()?.first() else { return Err(cut()) };
        input.consume(1);
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a packet's length is no length"))
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a packet")
}

/// Whether a file that begins with these bytes is a sequence of packets. Text can begin with an empty line, which is [`KEY`] too.
pub fn are_at(start: &[u8]) -> bool {
    let start = &start[..start.len().min(10)];
    let mut rest = start;
    let mut number = || {
        let mut byte = [0];
        let mut number = 0_u64;
        for shift in (0..35).step_by(7) {
            rest.read_exact(&mut byte).ok()?;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    };
    if start.first() != Some(&KEY) || number().is_none() || number().is_none_or(|bytes| bytes == 0) {
        return false;
    }
    // Numbers, or a message: packets have no other fields.
    let is_field = number().is_some_and(|key| (1..=2000).contains(&(key >> 3)) && matches!(key & 7, 0 | 2));
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    is_field && !start.iter().all(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_from_text() {
        for (bytes, expected) in [
            (&b"\x0a\x24\x32\x20\x0a\x08\x08\x06\x10\x01"[..], true),
            (b"\x0a\x80\x08\x0a\xfd\x07\x08\x01", true),
            (b"\x0a\x06\x50\x01\x40\x7f", true),
            (b"\x0a\x04\xca\x05\x01\x01", true),
            (b"\x0a", false),
            (b"\x0a\x00\x0a\x00", false),
            (b"\x0a\xff\xff\xff\xff\xff\xff", false),
            (b"\n# tracer: nop\n", false),
            (b"\n\n\n\n  sh-7 [000]", false),
            (b"  sh-7 [000]", false),
            (b"", false),
        ] {
            assert_eq!(are_at(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn packets_are_read_up_to_a_fault() {
        let read = |bytes: &[u8]| {
            let (mut input, mut packets) = (bytes, Vec::new());
            loop {
                match next(&mut input) {
                    Ok(Next::End) => return (packets, None),
                    Ok(Next::Packet(packet)) => packets.push(packet),
                    Ok(Next::TooLarge) => packets.push(b"too large".to_vec()),
                    Err(cause) => return (packets, Some(cause.to_string())),
                }
            }
        };
        let large =
            [&[KEY, 0x81, 0x80, 0x80, 0x08][..], &vec![0; (LARGEST_PACKET + 1) as usize], &[KEY, 1, 7]].concat();
        let cut = Some("it ends within a packet".to_owned());
        let none = Some("no packet begins where the next one should".to_owned());
        for (bytes, packets, fault) in [
            (&[KEY, 2, 8, 1, KEY, 0][..], vec![vec![8, 1], vec![]], None),
            (&[KEY, 2, 8], vec![], cut.clone()),
            (&[KEY, 1, 8, KEY], vec![vec![8]], cut.clone()),
            (&[KEY, 1, 8, 0x12, 1, 1], vec![vec![8]], none),
            (&large, vec![b"too large".to_vec(), vec![7]], None),
            (&large[..900], vec![], cut),
        ] {
            assert_eq!(read(bytes), (packets, fault));
        }
        assert_eq!(read(&[KEY, 255, 255, 255, 255, 255, 1]).1, Some("a packet's length is no length".to_owned()));
    }
}
