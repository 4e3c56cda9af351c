//! Bounded per-application state: the least recently seen application is evicted.

use std::collections::BTreeMap;

/// The most applications that are kept.
pub const CAPACITY: usize = 256;

/// Evicts applications until one more fits; `last` is the sequence number of an application's last sighting.
pub fn evict_least_recent<T>(applications: &mut BTreeMap<String, T>, last: impl Fn(&T) -> u64) {
    while applications.len() >= CAPACITY {
        let oldest = applications.iter().min_by_key(|(_, it)| last(it)).map(|(name, _)| name.clone());
        let Some(oldest) = oldest else { break };
        applications.remove(&oldest);
    }
}
