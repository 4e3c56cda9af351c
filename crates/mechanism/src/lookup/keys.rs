//! The keys of a simulated course, numbered.

use std::collections::HashMap;

use super::bloom::{Pattern, pattern};
use super::key::{Key, KeyHasher};

/// The keys of one course, numbered from 0 in the order of their first use, so that caches of all sizes can keep a table
/// indexed by these numbers.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    numbers: HashMap<Key, u32, KeyHasher>,
    patterns: Vec<Pattern>,
    by_name: HashMap<u32, Vec<u32>>,
}

impl Keys {
    /// The number of `key`; a new key gets a new one.
    pub fn number(&mut self, key: Key) -> u32 {
        *self.numbers.entry(key).or_insert_with(|| {
            let number = self.patterns.len() as u32;
            self.patterns.push(pattern(key));
            self.by_name.entry(key.name).or_default().push(number);
            number
        })
    }

    /// The numbers of all keys with the name `name`.
    pub fn of_name(&self, name: u32) -> &[u32] {
        self.by_name.get(&name).map_or(&[], Vec::as_slice)
    }

    /// The Bloom filter's bits of the key `number`.
    pub fn pattern(&self, number: u32) -> Pattern {
        self.patterns[number as usize]
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.patterns.len()
    }
}
