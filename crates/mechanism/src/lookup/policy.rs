//! Replacement policies as a pure model of a lookup cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use serde::{Deserialize, Serialize};

use super::bloom::CountingBloomFilter;
use super::keys::Keys;

/// Which answer is evicted from a full cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one looked up least often since it was stored, the oldest of those: the paper's.
    Lfu,
    /// The one looked up least recently.
    Lru,
}

/// The outcome of one lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupOutcome {
    /// Answered from the cache.
    Hit,
    /// It was not in the cache; it is now.
    Miss {
        /// The Bloom filter excluded it, and no names were compared.
        filtered: bool,
    },
}

/// A cache of at most `capacity` answers to the keys of one course, of fewer than 2^32 lookups.
#[derive(Debug, Clone)]
pub struct Cache<'a> {
    keys: &'a Keys,
    capacity: usize,
    len: usize,
    /// The rank of each key by its number: the lowest is evicted first, and 0 means that no answer is stored.
    ranks: Vec<u64>,
    order: EvictionOrder,
    filter: CountingBloomFilter,
    now: u32,
}

/// How the next answer to evict is found.
#[derive(Debug, Clone)]
enum EvictionOrder {
    /// A rank is the number of lookups since the answer was stored and, in its lower half, when that was. The heap has the
    /// ranks that answers had when they were pushed, with their keys: a rank only grows, so the present one is never smaller.
    /// Forgotten answers stay until they reach the top.
    Lfu(BinaryHeap<Reverse<(u64, u32)>>),
    /// A rank is the moment of the last lookup. `accessed` has the keys of all lookups; the first `passed` of these are no
    /// longer the last lookup of their key.
    Lru { accessed: Vec<u32>, passed: usize },
}

/// One more lookup, in the rank of [`EvictionOrder::Lfu`].
const ONE_LOOKUP: u64 = 1 << 32;

impl<'a> Cache<'a> {
    /// An empty cache for `capacity` answers to `keys`.
    pub fn new(replacement: Replacement, capacity: usize, keys: &'a Keys) -> Self {
        let order = match replacement {
            Replacement::Lfu => EvictionOrder::Lfu(BinaryHeap::new()),
            Replacement::Lru => EvictionOrder::Lru { accessed: Vec::new(), passed: 0 },
        };
        let ranks = vec![0; keys.len()];
        Self { keys, capacity, len: 0, ranks, order, filter: CountingBloomFilter::default(), now: 0 }
    }

    /// Looks up the key `number`; on a miss the answer is fetched and stored, and another one is evicted from a full cache.
    pub fn lookup(&mut self, number: u32) -> LookupOutcome {
        if self.capacity == 0 {
            return LookupOutcome::Miss { filtered: true };
        }
        self.now += 1;
        let rank = &mut self.ranks[number as usize];
        let known = *rank != 0;
        match &mut self.order {
            EvictionOrder::Lfu(_) if known => *rank += ONE_LOOKUP,
            EvictionOrder::Lfu(_) => *rank = ONE_LOOKUP | u64::from(self.now),
            EvictionOrder::Lru { accessed, .. } => {
                *rank = u64::from(self.now);
                accessed.push(number);
            }
        }
        if known {
            return LookupOutcome::Hit;
        }
        let pattern = self.keys.pattern(number);
        let filtered = !self.filter.may_contain(pattern);
        self.admit(number);
        self.filter.insert(pattern);
        LookupOutcome::Miss { filtered }
    }

    /// Stores the key `number`, which has its rank already, and evicts another one from a full cache.
    fn admit(&mut self, number: u32) {
        let new = Reverse((self.ranks[number as usize], number));
        let is_full = self.len == self.capacity;
        match &mut self.order {
            EvictionOrder::Lfu(order) if !is_full => order.push(new),
            EvictionOrder::Lfu(order) => {
                let evicted = replace_lowest(order, &self.ranks, new);
                self.remove(evicted);
            }
            EvictionOrder::Lru { accessed, passed } if is_full => {
                let is_current = |moment: usize| self.ranks[accessed[moment] as usize] == moment as u64 + 1;
                *passed = (*passed..accessed.len()).find(|&moment| is_current(moment)).unwrap_or(accessed.len());
                let evicted = accessed[*passed];
                self.remove(evicted);
            }
            EvictionOrder::Lru { .. } => {}
        }
        self.len += 1;
    }

    fn remove(&mut self, number: u32) {
        self.ranks[number as usize] = 0;
        self.filter.remove(self.keys.pattern(number));
        self.len -= 1;
    }

    /// Forgets every answer about `name`: it was registered again, or its service died.
    pub fn invalidate(&mut self, name: u32) {
        for &number in self.keys.of_name(name) {
            if self.ranks[number as usize] != 0 {
                self.remove(number);
            }
        }
    }

    /// The number of stored answers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The key with the smallest of `ranks`, which `new` replaces in `order`.
fn replace_lowest(order: &mut BinaryHeap<Reverse<(u64, u32)>>, ranks: &[u64], new: Reverse<(u64, u32)>) -> u32 {
    loop {
        let mut first = order.peek_mut().expect("a full cache holds an answer, which is in the order");
        let Reverse((known, number)) = *first;
        let rank = ranks[number as usize];
        if rank == known {
            *first = new;
            return number;
        }
        if rank as u32 == known as u32 {
            *first = Reverse((rank, number));
        } else {
            // Forgotten since; if it was stored again, its new rank is in the heap as well.
            PeekMut::pop(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::key::Key;
    use super::*;

    fn hits(replacement: Replacement, capacity: usize, names: &str) -> String {
        let mut keys = Keys::default();
        let numbers: Vec<u32> =
            names.bytes().map(|name| keys.number(Key { name: u32::from(name), caller: None })).collect();
        let mut cache = Cache::new(replacement, capacity, &keys);
        let letter = |number: u32| if cache.lookup(number) == LookupOutcome::Hit { 'H' } else { '.' };
        numbers.into_iter().map(letter).collect()
    }

    #[test]
    fn each_policy_evicts_the_expected_answer() {
        for (replacement, capacity, names, expected) in [
            // b is looked up less often than a, and c replaces it.
            (Replacement::Lfu, 2, "aabcab", ".H..H."),
            // Equal counts: the older one is evicted.
            (Replacement::Lfu, 2, "abcb", "...H"),
            // A count restarts when a name is stored again.
            (Replacement::Lfu, 1, "aaaba", ".HH.."),
            // a is the least recently looked up when c comes.
            (Replacement::Lru, 2, "aabcab", ".H...."),
            (Replacement::Lru, 2, "abacb", "..H.."),
            (Replacement::Lru, 3, "abcabc", "...HHH"),
            (Replacement::Lru, 0, "aaa", "..."),
        ] {
            assert_eq!(hits(replacement, capacity, names), expected, "{replacement:?} {capacity} {names}");
        }
    }

    #[test]
    fn a_forgotten_name_is_evicted_for_every_caller() {
        let mut keys = Keys::default();
        let numbers = [(1, 1), (1, 2), (2, 1)].map(|(name, caller)| keys.number(Key { name, caller: Some(caller) }));
        let mut cache = Cache::new(Replacement::Lru, 8, &keys);
        for number in numbers {
            cache.lookup(number);
        }
        cache.invalidate(1);
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.lookup(numbers[2]), LookupOutcome::Hit);
        assert_eq!(cache.lookup(numbers[1]), LookupOutcome::Miss { filtered: true });
    }

    /// A list that is searched linearly.
    #[derive(Default)]
    struct Naive {
        /// Key, lookups, moment of storing, moment of the last lookup.
        entries: Vec<(Key, u64, u64, u64)>,
    }

    impl Naive {
        fn lookup(&mut self, replacement: Replacement, capacity: usize, key: Key, now: u64) -> bool {
            if let Some(entry) = self.entries.iter_mut().find(|entry| entry.0 == key) {
                entry.1 += 1;
                entry.3 = now;
                return true;
            }
            if self.entries.len() == capacity {
                let rank = |entry: &(Key, u64, u64, u64)| match replacement {
                    Replacement::Lfu => (entry.1, entry.2),
                    Replacement::Lru => (entry.3, 0),
                };
                let evicted = (0..capacity).min_by_key(|&index| rank(&self.entries[index]));
                if let Some(evicted) = evicted {
                    self.entries.remove(evicted);
                }
            }
            if capacity > 0 {
                self.entries.push((key, 1, now, now));
            }
            false
        }
    }

    proptest! {
        // Verifies LOOKUP-1.
        #[test]
        fn the_cache_agrees_with_a_linear_list(
            lfu in any::<bool>(),
            capacity in 0usize..12,
            steps in prop::collection::vec((0u32..16, prop::option::of(0u32..3), prop::bool::weighted(0.05)), 0..400),
        ) {
            let replacement = if lfu { Replacement::Lfu } else { Replacement::Lru };
            let mut keys = Keys::default();
            for &(name, caller, _) in &steps {
                keys.number(Key { name, caller });
            }
            let mut numbers = keys.clone();
            let (mut cache, mut naive) = (Cache::new(replacement, capacity, &keys), Naive::default());
            for (now, (name, caller, invalidate)) in steps.into_iter().enumerate() {
                if invalidate {
                    cache.invalidate(name);
                    naive.entries.retain(|entry| entry.0.name != name);
                    continue;
                }
                let key = Key { name, caller };
                let known = naive.entries.iter().any(|entry| entry.0 == key);
                let outcome = cache.lookup(numbers.number(key));
                prop_assert_eq!(outcome == LookupOutcome::Hit, naive.lookup(replacement, capacity, key, now as u64));
                // The filter must never exclude a stored key.
                let denied = outcome == LookupOutcome::Miss { filtered: true };
                prop_assert!(!known || !denied);
                prop_assert!(cache.len() <= capacity);
            }
            let mut left: Vec<u32> = naive.entries.iter().map(|entry| numbers.number(entry.0)).collect();
            let mut held: Vec<u32> = (0..keys.len() as u32).filter(|&key| cache.ranks[key as usize] != 0).collect();
            left.sort_unstable();
            held.sort_unstable();
            prop_assert_eq!(held, left);
        }
    }
}
