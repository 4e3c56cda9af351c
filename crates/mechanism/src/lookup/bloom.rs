//! A Bloom filter ("Space/time trade-offs in hash coding with allowable errors", 1970) over the few keys of a small cache: a
//! key that it does not contain is not in the cache, so that such a miss compares no names.

use super::key::Key;

/// Bits: 12 for each of the paper's ten entries, rounded up to two words.
const BITS: usize = 128;
/// Bits that a key sets; near the best for 128 bits and ten keys (ln 2 * 128 / 10 = 9), and cheaper to test.
const HASHES: usize = 4;

/// The bits of one key, some of which may be the same.
pub type Pattern = [u8; HASHES];

/// A filter that also supports removal: it counts how many keys set each bit (Fan, Cao, Almeida and Broder, "Summary cache",
/// 2000), so that an evicted key requires no rebuild.
#[derive(Debug, Clone)]
pub struct CountingBloomFilter {
    counts: [u32; BITS],
}

impl Default for CountingBloomFilter {
    fn default() -> Self {
        Self { counts: [0; BITS] }
    }
}

impl CountingBloomFilter {
    /// Adds a key.
    pub fn insert(&mut self, pattern: Pattern) {
        pattern.into_iter().for_each(|bit| self.counts[place(bit)] += 1);
    }

    /// Removes a key, which was added.
    pub fn remove(&mut self, pattern: Pattern) {
        pattern.into_iter().for_each(|bit| self.counts[place(bit)] -= 1);
    }

    /// False when a key is certainly not inside.
    pub fn may_contain(&self, pattern: Pattern) -> bool {
        pattern.into_iter().all(|bit| self.counts[place(bit)] > 0)
    }
}

/// Always below [`BITS`], which spares the check at each access.
fn place(bit: u8) -> usize {
    usize::from(bit) % BITS
}

/// The bits of `key`: slices of one hash (Kirsch and Mitzenmacher, "Less hashing, same performance", 2006).
pub fn pattern(key: Key) -> Pattern {
    let hash = key.hash64();
    std::array::from_fn(|slice| (hash >> (slice * 16)) as u8 % BITS as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter_of(keys: impl IntoIterator<Item = Key>) -> CountingBloomFilter {
        let mut filter = CountingBloomFilter::default();
        keys.into_iter().for_each(|key| filter.insert(pattern(key)));
        filter
    }

    proptest! {
        // Verifies LOOKUP-1.
        #[test]
        fn after_removals_it_equals_a_filter_of_the_remaining_keys(
            names in prop::collection::vec((any::<u32>(), any::<Option<u32>>(), any::<bool>()), 0..40),
        ) {
            let key = |&(name, caller, _): &(u32, Option<u32>, bool)| Key { name, caller };
            let mut filter = filter_of(names.iter().map(key));
            names.iter().filter(|name| name.2).for_each(|name| filter.remove(pattern(key(name))));
            let inside: Vec<Key> = names.iter().filter(|name| !name.2).map(key).collect();
            prop_assert!(inside.iter().all(|&key| filter.may_contain(pattern(key))));
            prop_assert_eq!(filter.counts, filter_of(inside).counts);
        }
    }

    #[test]
    fn ten_names_cause_few_false_positives() {
        let filter = filter_of((0..10).map(|name| Key { name, caller: None }));
        let mistaken = (10..10_010).filter(|&name| filter.may_contain(pattern(Key { name, caller: None }))).count();
        // (1 - e^(-4 * 10 / 128))^4 = 0.5 %.
        assert!(mistaken < 200, "{mistaken} of 10000");
        assert!(!CountingBloomFilter::default().may_contain(pattern(Key { name: 1, caller: Some(2) })));
    }
}
