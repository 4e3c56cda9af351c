//! The part of a file of trace-cmd, version 6 (trace-cmd.dat.v6(5)), before its events.
//!
//! What is known at the end only has its place from the beginning on: the names of threads, the state of the recording, and how many
//! bytes each CPU has.

use brisk_sys::system::trace_pages::PageLayout;

/// Room for the names of threads, which are known at the end.
pub const NAMES_BYTES: usize = 16 * 1024;
/// What the file's version says while it is written, and after that; equally long.
pub const UNFINISHED: &str = "brisk recording";
pub const FINISHED: &str = "brisk completed";

/// Options of the file: the clock, and the version of its writer.
const CLOCK: u16 = 4;
const VERSION: u16 = 9;

/// What a reader needs to know of the kernel.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// The text of `events/header_page`.
    pub page: String,
    /// The text of `events/header_event`.
    pub event: String,
    /// The format of ftrace's own event for text that programs write; empty where none is written.
    pub print: String,
    /// Each subsystem with the formats of its events.
    pub formats: Vec<(String, Vec<String>)>,
    /// `/proc/kallsyms`, as far as it is needed.
    pub functions: Vec<u8>,
    /// The text of `trace_clock`.
    pub clock: String,
}

/// The bytes, and the places in them that are written later.
#[derive(Debug, Clone)]
pub struct Header {
    pub bytes: Vec<u8>,
    pub names_at: u64,
    pub state_at: u64,
    /// Where the offset and the size of each CPU's events are, 8 bytes each.
    pub table_at: u64,
}

/// Lays out the header of a file with this many CPUs, whose table is empty.
pub fn lay_out(parts: &Parts, layout: PageLayout, cpus: u16) -> Header {
    let mut bytes = b"\x17\x08\x44tracing6\0".to_vec();
    bytes.extend([u8::from(cfg!(target_endian = "big")), layout.long_bytes as u8]);
    number(&mut bytes, layout.page_bytes as u32);
    bytes.extend(b"header_page\0");
    sized(&mut bytes, &parts.page);
    bytes.extend(b"header_event\0");
    sized(&mut bytes, &parts.event);
    number(&mut bytes, u32::from(!parts.print.is_empty()));
    if !parts.print.is_empty() {
        sized(&mut bytes, &parts.print);
    }
    number(&mut bytes, parts.formats.len() as u32);
    for (subsystem, formats) in &parts.formats {
        bytes.extend(subsystem.as_bytes());
        bytes.push(0);
        number(&mut bytes, formats.len() as u32);
        formats.iter().for_each(|format| sized(&mut bytes, format));
    }
    number(&mut bytes, parts.functions.len() as u32);
    bytes.extend(&parts.functions);
    // No formats of trace_printk().
    number(&mut bytes, 0);
    bytes.extend((NAMES_BYTES as u64).to_ne_bytes());
    let names_at = bytes.len() as u64;
    bytes.extend(names("").as_bytes());
    number(&mut bytes, cpus.into());
    bytes.extend(b"options  \0");
    option(&mut bytes, CLOCK, &parts.clock);
    option(&mut bytes, VERSION, UNFINISHED);
    let state_at = (bytes.len() - UNFINISHED.len() - 1) as u64;
    bytes.extend(0_u16.to_ne_bytes());
    bytes.extend(b"flyrecord\0");
    let table_at = bytes.len() as u64;
    bytes.resize(bytes.len() + usize::from(cpus) * 16, 0);
    Header { bytes, names_at, state_at, table_at }
}

/// The lines of `text` that fit into their place, filled up with empty ones, which readers skip.
pub fn names(text: &str) -> String {
    let fits = |end: &usize| *end <= NAMES_BYTES;
    let end = text.match_indices('\n').map(|(at, _)| at + 1).take_while(fits).last().unwrap_or(0);
    format!("{}{}", &text[..end], "\n".repeat(NAMES_BYTES - end))
}

fn number(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_ne_bytes());
}

fn sized(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_ne_bytes());
    bytes.extend(text.as_bytes());
}

fn option(bytes: &mut Vec<u8>, id: u16, text: &str) {
    bytes.extend(id.to_ne_bytes());
    number(bytes, text.len() as u32 + 1);
    bytes.extend(text.as_bytes());
    bytes.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_later_has_its_place() {
        assert_eq!(UNFINISHED.len(), FINISHED.len());
        let layout = PageLayout { page_bytes: 4096, long_bytes: 8 };
        let parts = Parts { clock: "local [boot]".to_owned(), ..Parts::default() };
        let header = lay_out(&parts, layout, 3);
        let at = |place: u64| &header.bytes[place as usize..];
        assert!(at(header.state_at).starts_with(b"brisk recording\0"));
        assert!(at(header.names_at)[..NAMES_BYTES].iter().all(|byte| *byte == b'\n'));
        assert_eq!(at(header.names_at)[NAMES_BYTES..][..4], 3_u32.to_ne_bytes());
        assert_eq!(at(header.table_at), [0; 48]);
        assert!(header.bytes[..header.table_at as usize].ends_with(b"flyrecord\0"));
    }

    #[test]
    fn names_are_cut_at_a_line_and_filled_up() {
        let many = "4711 a-thread\n".repeat(5000);
        for (text, kept) in [("", 0), ("7 sh\n8 ls\n", 10), ("7 sh\n8 l", 5), (&many, NAMES_BYTES / 14 * 14)] {
            let names = names(text);
            assert_eq!((names.len(), &names[..kept]), (NAMES_BYTES, &text[..kept]));
            assert!(names[kept..].bytes().all(|byte| byte == b'\n'));
        }
    }
}
