//! A Bloom filter ("Space/time trade-offs in hash coding with allowable errors", 1970) over the few keys of a small
//! cache: what it does not know is certainly not there, so that a miss compares no names.

use super::key::Key;

/// Bits: 12 for each of the paper's ten entries, rounded up to two words.
const BITS: u32 = 128;
/// Bits that a key sets; near the best for 128 bits and ten keys (ln 2 * 128 / 10 = 9), and cheaper to test.
const HASHES: u32 = 4;

/// The filter. It forgets nothing, so it is built again when a key leaves the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BloomFilter {
    bits: u128,
}

impl BloomFilter {
    /// The filter that knows `keys`.
    pub fn of(keys: impl Iterator<Item = Key>) -> Self {
        Self { bits: keys.fold(0, |bits, key| bits | pattern(key)) }
    }

    /// Adds `key`.
    pub fn insert(&mut self, key: Key) {
        self.bits |= pattern(key);
    }

    /// False when `key` was certainly never added.
    pub fn may_contain(&self, key: Key) -> bool {
        let pattern = pattern(key);
        self.bits & pattern == pattern
    }
}

/// The bits of `key`: slices of one hash (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).
fn pattern(key: Key) -> u128 {
    let mut hash = u64::from(key.name) << 32 | u64::from(key.caller.map_or(0, |caller| caller.wrapping_add(1)));
    // The finaliser of MurmurHash3: every bit of the key reaches every slice.
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    (0..HASHES).fold(0, |bits, slice| bits | 1 << (hash >> (slice * 16) & u64::from(BITS - 1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_added_is_always_known(names in prop::collection::vec(any::<(u32, Option<u32>)>(), 0..40)) {
            let keys: Vec<Key> = names.into_iter().map(|(name, caller)| Key { name, caller }).collect();
            let filter = BloomFilter::of(keys.iter().copied());
            prop_assert!(keys.iter().all(|&key| filter.may_contain(key)));
        }
    }

    #[test]
    fn ten_names_are_rarely_taken_for_others() {
        let filter = BloomFilter::of((0..10).map(|name| Key { name, caller: None }));
        let mistaken = (10..10_010).filter(|&name| filter.may_contain(Key { name, caller: None })).count();
        // (1 - e^(-4 * 10 / 128))^4 = 0.5 %.
        assert!(mistaken < 200, "{mistaken} of 10000");
        assert!(!BloomFilter::default().may_contain(Key { name: 1, caller: Some(2) }));
    }
}
