//! The lab's own users of binder: a context manager like Android 5's, a process that registers services, and random programs.

mod context_manager;
pub mod programs;
mod services;

pub use context_manager::{ContextManager, Registry};
pub use services::register_and_serve;
