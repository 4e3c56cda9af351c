//! The parts of a file before and beside its events.

use std::io::{self, Cursor, Read, Seek};

use super::format::Functions;
use super::input::{Input, damaged};
use super::pages::Packing;
use super::{CpuData, Header};

/// No kernel has more; a larger count is damage.
const MAX_CPUS: u32 = 8192;

/// Everything up to the events of version 6, one part after the other.
pub fn version_6(input: &mut Input<impl Read + Seek>, header: &mut Header) -> io::Result<()> {
    header.layout.page_bytes = input.u32()?;
    page_header(input, header)?;
    ftrace_formats(input, header)?;
    event_formats(input, header)?;
    functions(input, header)?;
    let printk = input.u32()?;
    input.skip(u64::from(printk))?;
    let bytes = input.u64()?;
    header.command_lines = input.bytes(bytes)?;
    let cpus = input.u32()?;
    if cpus > MAX_CPUS {
        return Err(damaged("it has too many CPUs"));
    }
    let mut kind = input.bytes(10)?;
    if kind == b"options  \0" {
        while let id @ 1.. = input.u16()? {
            let bytes = u64::from(input.u32()?);
            let data = input.bytes(bytes)?;
            option_of_any_version(id, &data, input.is_big_endian, header);
        }
        kind = input.bytes(10)?;
    }
    if kind != b"flyrecord\0" {
        return Err(damaged("it holds no raw events; use `trace-cmd report` and its text"));
    }
    for cpu in 0..cpus as u16 {
        let (offset, bytes) = (input.u64()?, input.u64()?);
        header.cpus.push(CpuData { cpu, offset, bytes });
    }
    Ok(())
}

/// The sections of version 7, which its options name. Returns how its sections are packed.
pub fn version_7(input: &mut Input<impl Read + Seek>, header: &mut Header) -> io::Result<Packing> {
    header.layout.page_bytes = input.u32()?;
    let packing =
        Packing::named(&input.string()?).ok_or_else(|| damaged("its compression is neither zstd nor zlib"))?;
    input.string()?;
    let mut next = input.u64()?;
    let mut buffer = None;
    // A section of options can name a further one; a circle is damage.
    for _ in 0..1000 {
        if next == 0 {
            return buffer_of(input, header, buffer, packing);
        }
        let mut options = section(input, next, packing)?;
        next = 0;
        while let Ok(id) = options.u16() {
            let bytes = u64::from(options.u32()?);
            let data = options.bytes(bytes)?;
            let mut value = inner(data.clone(), input.is_big_endian)?;
            match id {
                0 => {
                    next = value.u64().unwrap_or(0);
                    break;
                }
                // The first is the top instance; others repeat its events.
                3 if buffer.is_none() => buffer = Some(data),
                16 => page_header(&mut section(input, value.u64()?, packing)?, header)?,
                17 => ftrace_formats(&mut section(input, value.u64()?, packing)?, header)?,
                18 => event_formats(&mut section(input, value.u64()?, packing)?, header)?,
                19 => functions(&mut section(input, value.u64()?, packing)?, header)?,
                21 => {
                    let mut lines = section(input, value.u64()?, packing)?;
                    let bytes = lines.u64()?;
                    header.command_lines = lines.bytes(bytes)?;
                }
                _ => option_of_any_version(id, &data, input.is_big_endian, header),
            }
        }
    }
    Err(damaged("its options have no end"))
}

/// VERSION, in which brisk's recorder says until its end that it has not ended, and TSC2NSEC.
fn option_of_any_version(id: u16, data: &[u8], is_big_endian: bool, header: &mut Header) {
    header.is_unfinished |= id == 9 && data == b"brisk recording\0";
    if id == 14 && data.len() >= 8 {
        let number = |bytes: &[u8]| super::input::number(bytes, is_big_endian) as u32;
        let (multiplier, shift) = (number(&data[..4]), number(&data[4..8]));
        if multiplier > 0 && shift < 64 {
            header.cycles = Some((multiplier, shift));
        }
    }
}

type Inner = Input<Cursor<Vec<u8>>>;

fn inner(bytes: Vec<u8>, is_big_endian: bool) -> io::Result<Inner> {
    let mut inner = Input::new(Cursor::new(bytes))?;
    inner.is_big_endian = is_big_endian;
    Ok(inner)
}

/// The content of the section at `offset`, unpacked. The events' section is read otherwise.
fn section(input: &mut Input<impl Read + Seek>, offset: u64, packing: Packing) -> io::Result<Inner> {
    input.go_to(offset)?;
    let (_, is_packed, bytes) = section_header(input)?;
    let content = if is_packed {
        let (packed, unpacked) = (input.u32()?, input.u32()?);
        let packed = input.bytes(u64::from(packed))?;
        packing.unpack(&packed, unpacked)?
    } else {
        input.bytes(bytes)?
    };
    inner(content, input.is_big_endian)
}

/// A section's number, whether it is packed, and its size.
fn section_header(input: &mut Input<impl Read + Seek>) -> io::Result<(u16, bool, u64)> {
    let (id, flags) = (input.u16()?, input.u16()?);
    input.skip(4)?;
    Ok((id, flags & 1 != 0, input.u64()?))
}

/// Where the events of each CPU are.
fn buffer_of(
    input: &mut Input<impl Read + Seek>,
    header: &mut Header,
    buffer: Option<Vec<u8>>,
    packing: Packing,
) -> io::Result<Packing> {
    let Some(buffer) = buffer else {
        return Err(damaged("it holds no raw events; use `trace-cmd report` and its text"));
    };
    let mut buffer = inner(buffer, input.is_big_endian)?;
    let offset = buffer.u64()?;
    let (_instance, _clock) = (buffer.string()?, buffer.string()?);
    header.layout.page_bytes = buffer.u32()?;
    let cpus = buffer.u32()?;
    if cpus > MAX_CPUS {
        return Err(damaged("it has too many CPUs"));
    }
    for _ in 0..cpus {
        let cpu = u16::try_from(buffer.u32()?).map_err(|_| damaged("a CPU's number is too large"))?;
        let (offset, bytes) = (buffer.u64()?, buffer.u64()?);
        header.cpus.push(CpuData { cpu, offset, bytes });
    }
    input.go_to(offset)?;
    let (_, is_packed, _) = section_header(input)?;
    Ok(if is_packed { packing } else { Packing::None })
}

/// How large the kernel's `long` is, and where a page's events begin.
fn page_header(input: &mut Input<impl Read + Seek>, header: &mut Header) -> io::Result<()> {
    if input.string()? != "header_page" {
        return Err(damaged("its header of pages is missing"));
    }
    let bytes = input.u64()?;
    let text = input.bytes(bytes)?;
    let text = String::from_utf8_lossy(&text);
    let value = |name: &str, key: &str| {
        let line = text.lines().find(|line| line.contains(name))?;
        line.split_once(key)?.1.split(';').next()?.trim().parse::<u32>().ok()
    };
    header.layout.long_bytes = value(" commit;", "size:").filter(|bytes| *bytes == 4).unwrap_or(8) as usize;
    header.layout.data_offset = value(" data;", "offset:").unwrap_or(16).clamp(8, 64) as usize;
    if input.string()? != "header_event" {
        return Err(damaged("its header of events is missing"));
    }
    let bytes = input.u64()?;
    input.bytes(bytes).map(drop)
}

fn ftrace_formats(input: &mut Input<impl Read + Seek>, header: &mut Header) -> io::Result<()> {
    for _ in 0..input.u32()? {
        let bytes = input.u64()?;
        header.formats.add(&input.bytes(bytes)?);
    }
    Ok(())
}

fn event_formats(input: &mut Input<impl Read + Seek>, header: &mut Header) -> io::Result<()> {
    for _ in 0..input.u32()? {
        input.string()?;
        for _ in 0..input.u32()? {
            let bytes = input.u64()?;
            header.formats.add(&input.bytes(bytes)?);
        }
    }
    Ok(())
}

fn functions(input: &mut Input<impl Read + Seek>, header: &mut Header) -> io::Result<()> {
    let bytes = u64::from(input.u32()?);
    let text = input.bytes(bytes)?;
    if header.formats.has("sched_blocked_reason") {
        header.functions = Functions::parse(&text);
    }
    Ok(())
}
