//! The kernel's own types: the BPF Type Format (Documentation/bpf/btf.rst), as in /sys/kernel/btf/vmlinux.
//!
//! Its content is not trusted: every access is bounds-checked, and circular references end at a limit.

use thiserror::Error;

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;
const MEMBER_BYTES: usize = 12;
const POINTER_BYTES: u32 = 8;

pub(super) const INTEGER: u32 = 1;
pub(super) const POINTER: u32 = 2;
pub(super) const ARRAY: u32 = 3;
pub(super) const STRUCT: u32 = 4;
pub(super) const UNION: u32 = 5;
const ENUM: u32 = 6;
pub(super) const FORWARD: u32 = 7;
pub(super) const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
pub(super) const CONST: u32 = 10;
const RESTRICT: u32 = 11;
/// What a program can attach to.
pub(super) const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;
const FLOAT: u32 = 16;
const DECLARATION_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM_64: u32 = 19;

/// Longest chain of names for one type; a longer one is circular.
const MAX_CHAIN: u32 = 32;
/// Deepest nesting of unnamed structures.
const MAX_DEPTH: u32 = 8;
/// Most members that are searched for one name, including those of unnamed structures. `task_struct` has some 300.
const MAX_MEMBERS: u32 = 10_000;

/// Why bytes are not a kernel's BTF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BtfError {
    /// The header is of a big-endian kernel or a later version, or it is not BTF.
    #[error("it does not begin like BTF of version 1")]
    Header,
    /// It is truncated, or refers to something beyond its end.
    #[error("it refers beyond its end")]
    Truncated,
    /// An unknown kind of type, whose length and thus the start of the next type are unknown.
    #[error("it has types of the unknown kind {0}")]
    Kind(u32),
    /// There is no such type, or it has no such member.
    #[error("it does not contain {0}")]
    Missing(&'static str),
    /// A member has an unexpected size, or an offset that cannot be read.
    #[error("{0} is not as expected")]
    Mismatch(&'static str),
}

/// Where a member lies in a structure, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldPlace {
    /// From the structure's beginning, in bytes.
    pub offset: u32,
    /// The member's size in bytes.
    pub size: u32,
}

/// A kernel's types.
#[derive(Debug)]
pub struct Types<'bytes> {
    types: &'bytes [u8],
    strings: &'bytes [u8],
    /// Where each type begins in `types`; the first type has number 1, as 0 is `void`.
    begins: Vec<u32>,
}

/// One type in the table.
#[derive(Debug, Clone, Copy)]
struct Entry {
    name: u32,
    kind: u32,
    /// The number of members, parameters and the like that follow.
    count: u32,
    /// The upper byte of a member's offset holds its size as a bit field.
    has_bitfields: bool,
    /// Its size, or the number of the type that it refers to.
    value: u32,
    /// Where the data that follows begins.
    rest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    offset: u32,
    type_number: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// How many bytes follow a type of `kind` with `count` members.
fn trailing_bytes(kind: u32, count: u32) -> Option<usize> {
    let count = count as usize;
    Some(match kind {
        INTEGER | VARIABLE | DECLARATION_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | SECTION | ENUM_64 => 12 * count,
        ENUM | PROTOTYPE => 8 * count,
        POINTER | FORWARD | TYPEDEF | VOLATILE | CONST | RESTRICT | FUNCTION | FLOAT | TYPE_TAG => 0,
        _ => return None,
    })
}

impl<'bytes> Types<'bytes> {
    /// Indexes the beginning of each type.
    ///
    /// # Errors
    /// What is wrong with `bytes`.
    pub fn parse(bytes: &'bytes [u8]) -> Result<Self, BtfError> {
        let word = |at| u32_at(bytes, at).ok_or(BtfError::Header);
        let first = word(0)?.to_le_bytes();
        let header_bytes = word(4)? as usize;
        if u16::from_le_bytes([first[0], first[1]]) != MAGIC || first[2] != VERSION || header_bytes < HEADER_BYTES {
            return Err(BtfError::Header);
        }
        let section = |at| {
            let begin = header_bytes.checked_add(word(at)? as usize).ok_or(BtfError::Truncated)?;
            let end = begin.checked_add(word(at + 4)? as usize).ok_or(BtfError::Truncated)?;
            bytes.get(begin..end).ok_or(BtfError::Truncated)
        };
        let mut found = Self { types: section(8)?, strings: section(16)?, begins: vec![0] };
        let mut begin = 0;
        while begin < found.types.len() {
            let entry = found.entry_at(begin).ok_or(BtfError::Truncated)?;
            found.begins.push(u32::try_from(begin).map_err(|_| BtfError::Truncated)?);
            let behind = trailing_bytes(entry.kind, entry.count).ok_or(BtfError::Kind(entry.kind))?;
            begin = entry.rest + behind;
        }
        if begin == found.types.len() { Ok(found) } else { Err(BtfError::Truncated) }
    }

    /// The number of the function `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn function(&self, name: &'static str) -> Result<u32, BtfError> {
        self.find(FUNCTION, name).ok_or(BtfError::Missing(name))
    }

    /// The number of the structure `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn structure(&self, name: &'static str) -> Result<u32, BtfError> {
        self.find(STRUCT, name).ok_or(BtfError::Missing(name))
    }

    /// Where the member `path` lies in `structure`, through nested structures: `["se", "sum_exec_runtime"]`.
    ///
    /// # Errors
    /// When there is no such member, or it is a bit field.
    pub fn member(&self, structure: u32, path: &[&'static str]) -> Result<FieldPlace, BtfError> {
        let (mut type_number, mut offset, mut last) = (structure, 0u32, "");
        for &part in path {
            let mut left = MAX_MEMBERS;
            let member = self.member_of(type_number, part, MAX_DEPTH, &mut left).ok_or(BtfError::Missing(part))?;
            offset = offset.checked_add(member.offset).ok_or(BtfError::Mismatch(part))?;
            (type_number, last) = (member.type_number, part);
        }
        Ok(FieldPlace { offset, size: self.size(type_number, MAX_DEPTH).ok_or(BtfError::Mismatch(last))? })
    }

    fn find(&self, kind: u32, name: &str) -> Option<u32> {
        (1..self.begins.len() as u32).find(|&number| {
            self.entry(number).is_some_and(|entry| entry.kind == kind && self.name_equals(entry.name, name))
        })
    }

    fn entry_at(&self, begin: usize) -> Option<Entry> {
        let word = |number: usize| u32_at(self.types, begin + 4 * number);
        let information = word(1)?;
        Some(Entry {
            name: word(0)?,
            kind: information >> 24 & 0x1f,
            count: information & 0xffff,
            has_bitfields: information >> 31 == 1,
            value: word(2)?,
            rest: begin + TYPE_BYTES,
        })
    }

    /// `None` for `void` and for numbers outside the table.
    fn entry(&self, number: u32) -> Option<Entry> {
        let number = usize::try_from(number).ok().filter(|&number| number > 0)?;
        self.entry_at(*self.begins.get(number)? as usize)
    }

    /// True when the string that begins at `begin` is `name`.
    fn name_equals(&self, begin: u32, name: &str) -> bool {
        let rest = self.strings.get(begin as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The type behind `number`, without typedefs and qualifiers.
    fn resolved(&self, mut number: u32) -> Option<Entry> {
        for _ in 0..MAX_CHAIN {
            let entry = self.entry(number)?;
            match entry.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => number = entry.value,
                _ => return Some(entry),
            }
        }
        None
    }

    fn size(&self, number: u32, depth: u32) -> Option<u32> {
        let entry = self.resolved(number)?;
        match entry.kind {
            POINTER => Some(POINTER_BYTES),
            ARRAY => {
                let [element, _, count] = [0, 4, 8].map(|at| u32_at(self.types, entry.rest + at));
                self.size(element?, depth.checked_sub(1)?)?.checked_mul(count?)
            }
            INTEGER | STRUCT | UNION | ENUM | ENUM_64 | FLOAT => Some(entry.value),
            _ => None,
        }
    }

    /// The member `name` of the structure or union `number`, or of an unnamed one inside it; searches at most `left` members. A
    /// bit field does not match.
    fn member_of(&self, number: u32, name: &str, depth: u32, left: &mut u32) -> Option<Member> {
        let entry = self.resolved(number).filter(|entry| [STRUCT, UNION].contains(&entry.kind))?;
        for index in 0..entry.count as usize {
            *left = left.checked_sub(1)?;
            let [member_name, type_number, place] =
                [0, 4, 8].map(|at| u32_at(self.types, entry.rest + index * MEMBER_BYTES + at));
            let (member_name, type_number, place) = (member_name?, type_number?, place?);
            let is_bitfield = entry.has_bitfields && place >> 24 != 0;
            let bits = if entry.has_bitfields { place & 0xff_ffff } else { place };
            if is_bitfield || bits % 8 != 0 {
                continue;
            }
            if self.name_equals(member_name, name) {
                return Some(Member { offset: bits / 8, type_number });
            }
            if self.name_equals(member_name, "")
                && depth > 0
                && let Some(inner) = self.member_of(type_number, name, depth - 1, left)
            {
                return Some(Member { offset: (bits / 8).checked_add(inner.offset)?, ..inner });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::test_btf::Writer;

    // Verifies PLACE-1.
    #[test]
    fn members_are_found_wherever_they_lie() {
        let mut writer = Writer::new();
        let (four, eight) = (writer.integer(4), writer.integer(8));
        let name = writer.entry("pid_t", TYPEDEF, 0, four);
        let fixed = writer.entry("", CONST, 0, name);
        let pointer = writer.entry("", POINTER, 0, 99);
        let text = writer.array(four, 4);
        let rows = writer.array(text, 2);
        let inner = writer.structure("sched_entity", STRUCT, &[("load", eight, 0), ("sum", eight, 64)]);
        let either = writer.structure("", UNION, &[("first", four, 0), ("second", eight, 0)]);
        let unnamed = writer.structure("", STRUCT, &[("other", four, 0), ("", either, 64)]);
        // Types of different kinds may have the same name.
        writer.entry("task", FORWARD, 0, 0);
        let members =
            [("pid", fixed, 32), ("se", inner, 128), ("", unnamed, 512), ("next", pointer, 640), ("rows", rows, 704)];
        writer.structure("task", STRUCT, &members);
        let hook = writer.entry("hook", FUNCTION, 1, 7);
        let bytes = writer.bytes();
        let types = Types::parse(&bytes).unwrap();
        let task = types.structure("task").unwrap();
        let cases: [(&[&str], (u32, u32)); 7] = [
            (&["pid"], (4, 4)),
            (&["se"], (16, 0)),
            (&["se", "sum"], (24, 8)),
            (&["other"], (64, 4)),
            (&["second"], (72, 8)),
            (&["next"], (80, 8)),
            (&["rows"], (88, 32)),
        ];
        for (path, (offset, size)) in cases {
            assert_eq!(types.member(task, path), Ok(FieldPlace { offset, size }), "{path:?}");
        }
        assert_eq!(types.function("hook"), Ok(hook));
        assert_eq!(types.function("task"), Err(BtfError::Missing("task")));
        assert_eq!(types.structure("absent"), Err(BtfError::Missing("absent")));
        assert_eq!(types.member(task, &["pid", "pid"]), Err(BtfError::Missing("pid")), "a number has no members");
        assert_eq!(types.member(task, &["su"]), Err(BtfError::Missing("su")), "a name is a whole one");
        assert_eq!(types.structure("hook"), Err(BtfError::Missing("hook")));
        assert_eq!(types.member(hook, &["pid"]), Err(BtfError::Missing("pid")));
        assert_eq!(types.member(0, &["pid"]), Err(BtfError::Missing("pid")), "type 0 is void");
    }

    // Verifies PLACE-1.
    #[test]
    fn bit_fields_are_no_members() {
        let mut writer = Writer::new();
        let four = writer.integer(4);
        writer.name("task");
        writer.word(1 << 31 | STRUCT << 24 | 2);
        writer.word(8);
        for (name, size, bits) in [("bits", 3, 8), ("whole", 0, 32)] {
            writer.name(name);
            writer.word(four);
            writer.word(size << 24 | bits);
        }
        let bytes = writer.bytes();
        let types = Types::parse(&bytes).unwrap();
        let task = types.structure("task").unwrap();
        assert_eq!(types.member(task, &["bits"]), Err(BtfError::Missing("bits")));
        assert_eq!(types.member(task, &["whole"]), Ok(FieldPlace { offset: 4, size: 4 }));
    }

    // Verifies PLACE-1.
    #[test]
    fn circular_types_are_refused() {
        let mut writer = Writer::new();
        // Type 1 is a typedef of itself, 2 an array of arrays of itself, and 3 holds itself twice without a name.
        writer.entry("again", TYPEDEF, 0, 1);
        writer.array(2, 1);
        writer.structure("", STRUCT, &[("", 3, 0), ("", 3, 0), ("much", 1, u32::MAX - 7)]);
        writer.structure("task", STRUCT, &[("name", 1, 0), ("rows", 2, 0), ("", 3, u32::MAX - 7)]);
        let bytes = writer.bytes();
        let types = Types::parse(&bytes).unwrap();
        let task = types.structure("task").unwrap();
        for path in ["name", "rows", "much"] {
            assert_eq!(types.member(task, &[path]), Err(BtfError::Mismatch(path)), "{path}");
        }
        assert_eq!(types.member(task, &["nothing"]), Err(BtfError::Missing("nothing")));
    }

    // Verifies PLACE-1.
    #[test]
    fn truncated_and_unknown_types_are_refused() {
        let mut writer = Writer::new();
        let four = writer.integer(4);
        writer.structure("task", STRUCT, &[("pid", four, 0)]);
        let bytes = writer.bytes();
        for length in 0..bytes.len() {
            assert!(Types::parse(&bytes[..length]).is_err(), "{length}");
        }
        for (at, value, mistake) in [
            (0, 0xeb, BtfError::Header),
            (2, 2, BtfError::Header),
            (4, 20, BtfError::Header),
            (11, 0xff, BtfError::Truncated),
            (HEADER_BYTES + 7, 0, BtfError::Kind(0)),
            (HEADER_BYTES + 7, 20, BtfError::Kind(20)),
            // A structure with more members than there are bytes.
            (HEADER_BYTES + 16 + 5, 0xff, BtfError::Truncated),
        ] {
            let mut broken = bytes.clone();
            broken[at] = value;
            assert_eq!(Types::parse(&broken).unwrap_err(), mistake, "{at}: {value}");
        }
    }
}
