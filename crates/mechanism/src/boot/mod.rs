//! Boot: what the recorder keeps, when a boot has completed, and which governors are held until then.

pub mod completion;
mod driver;
pub mod governor_hold;
pub mod logs;
mod probe;
pub mod support;
pub mod tape;
pub mod watch;
pub mod zygote;

pub use completion::{CompletionSign, RecordingEnd};
pub use support::support;
pub use tape::Tape;
pub use watch::BootWatch;
