//! The mechanisms that the daemon drives: one line each, in the order in which they hear of an event.

use super::Mechanism;
use super::boot::BootWatch;
use super::launch::LaunchPolicy;
use super::lookup::LookupControl;
use super::memory::MemoryPolicy;
use super::placement::PlacementPolicy;

/// All of them, idle until they are told where they work.
pub fn all() -> Vec<Box<dyn Mechanism>> {
    vec![
        Box::<LaunchPolicy>::default(),
        Box::<PlacementPolicy>::default(),
        Box::<MemoryPolicy>::default(),
        Box::<LookupControl>::default(),
        Box::<BootWatch>::default(),
    ]
}
