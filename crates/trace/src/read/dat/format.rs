//! How the fields of an event lie (`events/*/*/format`), and which function an address is in.

use std::collections::HashMap;
use std::ops::Range;

use super::input::number;

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: Box<str>,
    offset: usize,
    /// 0 for an array up to the event's end.
    bytes: usize,
    /// The field holds where its text lies.
    is_located: bool,
}

/// One kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Format {
    pub name: String,
    fields: Vec<Field>,
}

/// The formats of a file, by the event's number.
#[derive(Debug, Default)]
pub struct Formats(HashMap<u16, Format>);

impl Formats {
    /// Adds the text of a format file; a damaged one is left out, and its events are then of no use.
    pub fn add(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let mut format = Format::default();
        let mut id = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("name: ") {
                name.clone_into(&mut format.name);
            } else if let Some(number) = line.strip_prefix("ID: ") {
                id = number.trim().parse().ok();
            } else if let Some(field) = line.trim_start().strip_prefix("field:") {
                format.fields.extend(parse_field(field));
            }
        }
        if let Some(id) = id {
            self.0.insert(id, format);
        }
    }

    pub fn get(&self, id: u16) -> Option<&Format> {
        self.0.get(&id)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.values().any(|format| format.name == name)
    }
}

/// A name with its length, an offset, a size and a sign, each before a semicolon.
fn parse_field(text: &str) -> Option<Field> {
    let (declaration, rest) = text.split_once(';')?;
    let value = |key: &str| rest.split_once(key)?.1.split(';').next()?.trim().parse::<usize>().ok();
    let name = declaration.trim().rsplit([' ', '\t', '*']).next()?;
    let name = name.split('[').next()?;
    let is_located = declaration.contains("__data_loc");
    Some(Field { name: name.into(), offset: value("offset:")?, bytes: value("size:")?, is_located })
}

/// The bytes of one event.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub format: &'a Format,
    pub bytes: &'a [u8],
    pub is_big_endian: bool,
}

impl<'a> Record<'a> {
    fn field(&self, name: &str) -> Option<(&Field, &'a [u8])> {
        let field = self.format.fields.iter().find(|field| *field.name == *name)?;
        let end = if field.bytes == 0 { self.bytes.len() } else { field.offset.checked_add(field.bytes)? };
        Some((field, self.bytes.get(field.offset..end)?))
    }

    /// A number without sign, truncated as `T` needs.
    pub fn number(&self, name: &str) -> Option<u64> {
        let (_, bytes) = self.field(name)?;
        (bytes.len() <= 8).then(|| number(bytes, self.is_big_endian))
    }

    pub fn u32(&self, name: &str) -> Option<u32> {
        self.number(name).map(|number| number as u32)
    }

    pub fn u16(&self, name: &str) -> Option<u16> {
        self.number(name).and_then(|number| u16::try_from(number).ok())
    }

    /// Text up to its zero.
    pub fn text(&self, name: &str) -> Option<std::borrow::Cow<'a, str>> {
        let (field, mut bytes) = self.field(name)?;
        if field.is_located {
            let place = number(bytes.get(..4)?, self.is_big_endian) as usize;
            let range: Range<usize> = (place & 0xffff)..(place & 0xffff) + (place >> 16);
            bytes = self.bytes.get(range)?;
        }
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]))
    }
}

/// The functions of the kernel, by address.
#[derive(Debug, Default)]
pub struct Functions(Vec<(u64, Box<str>)>);

impl Functions {
    /// Parses `/proc/kallsyms`.
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let function = |line: &str| {
            let mut words = line.split([' ', '\t']);
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.nth(1)?.into()))
        };
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|(address, _)| *address);
        Self(functions)
    }

    /// The function that holds `address`. Without the right to see addresses all are 0.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.0.get(after.checked_sub(1)?)?;
        (*start > 0).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_both_byte_orders() {
        let mut formats = Formats::default();
        formats.add(
            b"name: a\nID: 300\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
              \tfield:char comm[4];\toffset:8;\tsize:4;\tsigned:1;\n\
              \tfield:__data_loc char[] filename;\toffset:12;\tsize:4;\tsigned:1;\n\
              \tfield:void * caller;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:char buf;\toffset:24;\tsize:0;\tsigned:0;\n",
        );
        let format = formats.get(300).unwrap();
        let little = b"\0\0\0\0\x07\x01\0\0ab\0c\x18\0\x03\0\x01\0\0\0\0\0\0\x80xyz\0";
        let record = Record { format, bytes: little, is_big_endian: false };
        assert_eq!(record.u32("common_pid"), Some(0x107));
        assert_eq!(record.text("comm").as_deref(), Some("ab"));
        assert_eq!(record.text("filename").as_deref(), Some("xyz"));
        assert_eq!(record.text("buf").as_deref(), Some("xyz"));
        assert_eq!(record.number("caller"), Some(0x8000_0000_0000_0001));
        assert_eq!(record.number("other"), None);
        let big = b"\0\0\0\0\0\0\x01\x07";
        assert_eq!(Record { format, bytes: big, is_big_endian: true }.u32("common_pid"), Some(0x107));
        assert_eq!(Record { format, bytes: big, is_big_endian: true }.text("comm"), None);
    }

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let functions = Functions::parse(b"ffff0010 T io_schedule\nffff0000 t mutex_lock\t[m]\nbad\n");
        for (address, expected) in
            [(0xffff_0008, Some("mutex_lock")), (0xffff_0010, Some("io_schedule")), (0xfffe_0000, None)]
        {
            assert_eq!(functions.name(address), expected, "{address:x}");
        }
        assert_eq!(Functions::parse(b"0 T a\n0 T b\n").name(7), None);
    }
}
