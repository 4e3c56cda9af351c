//! The lab's own users of binder: a context manager as Android 5's was, and a process that registers services.

mod context_manager;
mod services;

pub use context_manager::{ContextManager, Registry};
pub use services::register_and_serve;
