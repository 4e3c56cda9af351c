//! Service lookup: which answers of the context manager a cache should hold, and for which callers.
//!
//! `policy` is the cache as a pure model, `trace` generates lookups from a description (`traces.toml`), `simulation` runs one
//! through the other, and `recording` holds the lookups of a real device. The daemon drives `control`, which configures the
//! driver. Paper: "Design and Implementation of Kernel Binder Cache for Accelerating Android IPC" (2016).

mod bloom;
pub mod config;
pub mod control;
mod driver;
mod key;
mod keys;
pub mod policy;
pub mod recording;
pub mod services;
pub mod simulation;
mod support;
pub mod trace;

pub use config::LookupConfig;
pub use control::LookupControl;
pub use key::Key;
pub use policy::{Cache, Replacement};
pub use simulation::{Scope, SimulatedCache, Tally};
pub use support::support;
pub use trace::{Lookup, Trace, TraceEvent, Traces};
