//! The system around: its kernel, its properties, its other managers.

pub mod android_properties;
pub mod foreground;
pub mod grant;
pub mod other_managers;
pub mod session;
pub mod trace_events;
