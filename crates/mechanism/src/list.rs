//! The mechanisms that the daemon drives: one line each, in the order in which they receive events.

use super::Mechanism;
use super::boot::BootWatch;
use super::launch::LaunchPolicy;
use super::lookup::LookupControl;
use super::memory::MemoryPolicy;
use super::placement::PlacementPolicy;

/// All mechanisms, idle until their first `reconfigure`.
pub fn all() -> Vec<Box<dyn Mechanism>> {
    vec![
        Box::<LaunchPolicy>::default(),
        Box::<PlacementPolicy>::default(),
        Box::<MemoryPolicy>::default(),
        Box::<LookupControl>::default(),
        Box::<BootWatch>::default(),
    ]
}
