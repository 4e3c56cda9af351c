//! What is remembered by application, of bounded size: the one seen longest ago is dropped.

use std::collections::BTreeMap;

/// Applications that are remembered.
pub const CAPACITY: usize = 256;

/// Makes room in `applications` for one that is not among them; `last` says when one was seen, the least longest ago.
pub fn make_room<T>(applications: &mut BTreeMap<String, T>, last: impl Fn(&T) -> u64) {
    while applications.len() >= CAPACITY {
        let oldest = applications.iter().min_by_key(|(_, it)| last(it)).map(|(name, _)| name.clone());
        let Some(oldest) = oldest else { break };
        applications.remove(&oldest);
    }
}
