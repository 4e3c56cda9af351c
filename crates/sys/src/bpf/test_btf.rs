//! BTF of a kernel that does not exist, for tests.

use super::btf::{ARRAY, HEADER_BYTES, INTEGER};

/// A table of types, as a kernel would write it.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { strings: vec![0], ..Self::default() }
    }

    pub(super) fn word(&mut self, word: u32) {
        self.types.extend(word.to_le_bytes());
    }

    pub(super) fn name(&mut self, name: &str) {
        let begin = if name.is_empty() { 0 } else { self.strings.len() as u32 };
        self.word(begin);
        if begin > 0 {
            self.strings.extend(name.bytes().chain([0]));
        }
    }

    /// Returns its number.
    pub(super) fn entry(&mut self, name: &str, kind: u32, count: u32, value: u32) -> u32 {
        self.name(name);
        self.word(kind << 24 | count);
        self.word(value);
        self.count += 1;
        self.count
    }

    pub(super) fn integer(&mut self, bytes: u32) -> u32 {
        let number = self.entry("number", INTEGER, 0, bytes);
        self.word(8 * bytes);
        number
    }

    pub(super) fn array(&mut self, element: u32, count: u32) -> u32 {
        let number = self.entry("", ARRAY, 0, 0);
        [element, element, count].into_iter().for_each(|word| self.word(word));
        number
    }

    /// Each member has a name, a type, and an offset in bits.
    pub(super) fn structure(&mut self, name: &str, kind: u32, members: &[(&str, u32, u32)]) -> u32 {
        let number = self.entry(name, kind, members.len() as u32, 0);
        for &(name, type_number, bits) in members {
            self.name(name);
            self.word(type_number);
            self.word(bits);
        }
        number
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let [types, strings] = [&self.types, &self.strings].map(|section| section.len() as u32);
        [HEADER_BYTES as u32, 0, types, types, strings].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        [bytes, self.types.clone(), self.strings.clone()].concat()
    }
}
