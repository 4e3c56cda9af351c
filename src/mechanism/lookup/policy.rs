//! Replacement policies as a pure model of a cache of look-ups: who stays when there is no room for all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use serde::{Deserialize, Serialize};

use super::bloom::CountingBloomFilter;
use super::key::{Key, KeyHasher};

/// Who leaves a full cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one looked up least often since it came in, the oldest of those: the paper's.
    Lfu,
    /// The one not looked up for the longest time.
    Lru,
}

/// What became of one look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the cache.
    Hit,
    /// Not there; it is now.
    Miss {
        /// The Bloom filter said so, and no names were compared.
        filtered: bool,
    },
}

/// A cache of at most `capacity` answers.
#[derive(Debug, Clone)]
pub struct Cache {
    replacement: Replacement,
    capacity: usize,
    entries: HashMap<Key, Entry, KeyHasher>,
    /// The entries with the places that they had when they were put here. A place only grows, so the present one is
    /// never smaller. What was forgotten stays until it is popped.
    order: BinaryHeap<Reverse<(Entry, Key)>>,
    filter: CountingBloomFilter,
    now: u64,
}

/// One answer. The smallest place leaves first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// LFU: look-ups since it came in. LRU: when it was last looked up.
    place: u64,
    /// When it came in, which no other entry did.
    since: u64,
}

impl Cache {
    /// An empty cache for `capacity` answers.
    pub fn new(replacement: Replacement, capacity: usize) -> Self {
        Self {
            replacement,
            capacity,
            entries: HashMap::default(),
            order: BinaryHeap::new(),
            filter: CountingBloomFilter::default(),
            now: 0,
        }
    }

    /// Looks `key` up; on a miss the answer is fetched and stored, and another one leaves when there is no room.
    pub fn look_up(&mut self, key: Key) -> Outcome {
        self.now += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = match self.replacement {
                Replacement::Lfu => entry.place + 1,
                Replacement::Lru => self.now,
            };
            return Outcome::Hit;
        }
        let filtered = !self.filter.may_contain(key);
        if self.capacity > 0 {
            if self.entries.len() == self.capacity {
                self.evict();
            }
            let place = if self.replacement == Replacement::Lfu { 1 } else { self.now };
            let entry = Entry { place, since: self.now };
            self.entries.insert(key, entry);
            self.order.push(Reverse((entry, key)));
            self.filter.insert(key);
        }
        Outcome::Miss { filtered }
    }

    /// Removes the key with the smallest place.
    fn evict(&mut self) {
        while let Some(Reverse((known, key))) = self.order.pop() {
            // Forgotten since; if it came back, that entry is in the order as well.
            let Some(&entry) = self.entries.get(&key).filter(|entry| entry.since == known.since) else { continue };
            if entry.place == known.place {
                self.entries.remove(&key);
                self.filter.remove(key);
                return;
            }
            self.order.push(Reverse((entry, key)));
        }
    }

    /// Forgets every answer about `name`: it was registered again, or its service died.
    pub fn forget(&mut self, name: u32) {
        let filter = &mut self.filter;
        self.entries.retain(|key, _| {
            let stays = key.name != name;
            if !stays {
                filter.remove(*key);
            }
            stays
        });
    }

    /// Answers that it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hits(cache: &mut Cache, names: &str) -> String {
        let letter = |name: u8| {
            let key = Key { name: u32::from(name), caller: None };
            if cache.look_up(key) == Outcome::Hit { 'H' } else { '.' }
        };
        names.bytes().map(letter).collect()
    }

    #[test]
    fn who_stays() {
        for (replacement, capacity, names, expected) in [
            // b is looked up less often than a, and c comes in its place.
            (Replacement::Lfu, 2, "aabcab", ".H..H."),
            // Equal counts: the older one leaves.
            (Replacement::Lfu, 2, "abcb", "...H"),
            // A count begins anew when a name comes back.
            (Replacement::Lfu, 1, "aaaba", ".HH.."),
            // a is the one not looked up for the longest time when c comes.
            (Replacement::Lru, 2, "aabcab", ".H...."),
            (Replacement::Lru, 2, "abacb", "..H.."),
            (Replacement::Lru, 3, "abcabc", "...HHH"),
            (Replacement::Lru, 0, "aaa", "..."),
        ] {
            let mut cache = Cache::new(replacement, capacity);
            assert_eq!(hits(&mut cache, names), expected, "{replacement:?} {capacity} {names}");
        }
    }

    #[test]
    fn a_forgotten_name_is_gone_for_every_caller() {
        let mut cache = Cache::new(Replacement::Lru, 8);
        let key = |name, caller| Key { name, caller: Some(caller) };
        for key in [key(1, 1), key(1, 2), key(2, 1)] {
            cache.look_up(key);
        }
        cache.forget(1);
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.look_up(key(2, 1)), Outcome::Hit);
        assert_eq!(cache.look_up(key(1, 2)), Outcome::Miss { filtered: true });
    }

    /// A list that is searched from end to end.
    #[derive(Default)]
    struct Naive {
        /// Key, look-ups, moment of coming in, moment of the last look-up.
        entries: Vec<(Key, u64, u64, u64)>,
    }

    impl Naive {
        fn look_up(&mut self, replacement: Replacement, capacity: usize, key: Key, now: u64) -> bool {
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
                let leaving = (0..capacity).min_by_key(|&index| rank(&self.entries[index]));
                if let Some(leaving) = leaving {
                    self.entries.remove(leaving);
                }
            }
            if capacity > 0 {
                self.entries.push((key, 1, now, now));
            }
            false
        }
    }

    proptest! {
        #[test]
        fn the_cache_does_what_a_searched_list_does(
            lfu in any::<bool>(),
            capacity in 0usize..12,
            steps in prop::collection::vec((0u32..16, prop::option::of(0u32..3), prop::bool::weighted(0.05)), 0..400),
        ) {
            let replacement = if lfu { Replacement::Lfu } else { Replacement::Lru };
            let (mut cache, mut naive) = (Cache::new(replacement, capacity), Naive::default());
            for (now, (name, caller, forget)) in steps.into_iter().enumerate() {
                if forget {
                    cache.forget(name);
                    naive.entries.retain(|entry| entry.0.name != name);
                    continue;
                }
                let key = Key { name, caller };
                let known = naive.entries.iter().any(|entry| entry.0 == key);
                let outcome = cache.look_up(key);
                prop_assert_eq!(outcome == Outcome::Hit, naive.look_up(replacement, capacity, key, now as u64));
                // The filter may only say "not there" when it is not there.
                let denied = outcome == Outcome::Miss { filtered: true };
                prop_assert!(!known || !denied);
                prop_assert!(cache.len() <= capacity);
            }
            let mut left: Vec<Key> = naive.entries.iter().map(|entry| entry.0).collect();
            let mut held: Vec<Key> = cache.entries.keys().copied().collect();
            left.sort_unstable();
            held.sort_unstable();
            prop_assert_eq!(held, left);
        }
    }
}
