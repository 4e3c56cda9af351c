//! A Bloom filter ("Space/time trade-offs in hash coding with allowable errors", 1970) over the few keys of a small
//! cache: what it does not know is certainly not there, so that a miss compares no names.

use super::key::Key;

/// Bits: 12 for each of the paper's ten entries, rounded up to two words.
const BITS: u32 = 128;
/// Bits that a key sets; near the best for 128 bits and ten keys (ln 2 * 128 / 10 = 9), and cheaper to test.
const HASHES: u32 = 4;

/// A filter that says at each moment what one says that was built from the keys inside: it counts how many of them set
/// each bit (Fan, Cao, Almeida and Broder, "Summary cache", 2000), so that a key that leaves costs no rebuild.
#[derive(Debug, Clone)]
pub struct CountingBloomFilter {
    bits: u128,
    counts: [u32; BITS as usize],
}

impl Default for CountingBloomFilter {
    fn default() -> Self {
        Self { bits: 0, counts: [0; BITS as usize] }
    }
}

impl CountingBloomFilter {
    /// Adds `key`.
    pub fn insert(&mut self, key: Key) {
        let pattern = pattern(key);
        self.bits |= pattern;
        ones(pattern).for_each(|bit| self.counts[bit] += 1);
    }

    /// Removes `key`, which was added.
    pub fn remove(&mut self, key: Key) {
        for bit in ones(pattern(key)) {
            self.counts[bit] -= 1;
            if self.counts[bit] == 0 {
                self.bits &= !(1 << bit);
            }
        }
    }

    /// False when `key` is certainly not inside.
    pub fn may_contain(&self, key: Key) -> bool {
        let pattern = pattern(key);
        self.bits & pattern == pattern
    }
}

/// The places of the bits that are set.
fn ones(mut pattern: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (pattern != 0).then(|| pattern.trailing_zeros() as usize)?;
        pattern &= pattern - 1;
        Some(bit)
    })
}

/// The bits of `key`: slices of one hash (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).
fn pattern(key: Key) -> u128 {
    let hash = key.hash64();
    (0..HASHES).fold(0, |bits, slice| bits | 1 << (hash >> (slice * 16) & u64::from(BITS - 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter_of(keys: impl IntoIterator<Item = Key>) -> CountingBloomFilter {
        let mut filter = CountingBloomFilter::default();
        keys.into_iter().for_each(|key| filter.insert(key));
        filter
    }

    proptest! {
        #[test]
        fn it_says_what_a_filter_of_the_keys_inside_says(
            names in prop::collection::vec((any::<u32>(), any::<Option<u32>>(), any::<bool>()), 0..40),
        ) {
            let key = |&(name, caller, _): &(u32, Option<u32>, bool)| Key { name, caller };
            let mut filter = filter_of(names.iter().map(key));
            names.iter().filter(|name| name.2).for_each(|name| filter.remove(key(name)));
            let inside: Vec<Key> = names.iter().filter(|name| !name.2).map(key).collect();
            prop_assert!(inside.iter().all(|&key| filter.may_contain(key)));
            prop_assert_eq!(filter.bits, inside.into_iter().fold(0, |bits, key| bits | pattern(key)));
        }
    }

    #[test]
    fn ten_names_are_rarely_taken_for_others() {
        let filter = filter_of((0..10).map(|name| Key { name, caller: None }));
        let mistaken = (10..10_010).filter(|&name| filter.may_contain(Key { name, caller: None })).count();
        // (1 - e^(-4 * 10 / 128))^4 = 0.5 %.
        assert!(mistaken < 200, "{mistaken} of 10000");
        assert!(!CountingBloomFilter::default().may_contain(Key { name: 1, caller: Some(2) }));
    }
}
