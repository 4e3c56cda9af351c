//! The colours of causes: each is a class of the page's and the drawing's style.

use crate::explain::Cause;

/// The variables of both, light and dark, and the classes.
pub const STYLE: &str = include_str!("../templates/colours.css");

/// The class of a part's colour, and what the legend says of it.
pub const COLOURS: [(&str, &str); 10] = [
    ("full", "running at full speed"),
    ("frequency", "slowed by frequency"),
    ("core", "slowed by a smaller core"),
    ("running", "running, frequency unknown"),
    ("runnable", "runnable, waiting for a CPU"),
    ("storage", "storage"),
    ("memory", "page faults, reclaim"),
    ("wait", "locks, binder, waits in the kernel"),
    ("sleep", "sleeping"),
    ("unknown", "unknown, stopped or not existing"),
];

/// The place in [`COLOURS`].
pub fn colour(cause: Cause) -> usize {
    match cause {
        Cause::FullSpeed => 0,
        Cause::Frequency => 1,
        Cause::SmallerCore => 2,
        Cause::Running => 3,
        Cause::Runnable | Cause::IdleExit => 4,
        Cause::Storage => 5,
        Cause::PageFault | Cause::SwapIn | Cause::Reclaim => 6,
        Cause::Binder | Cause::Lock | Cause::Uninterruptible => 7,
        Cause::Sleeping => 8,
        Cause::Stopped | Cause::Absent | Cause::Unknown => 9,
    }
}
