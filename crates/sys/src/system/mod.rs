//! The system around: its kernel, its properties, its other managers.

pub mod android_properties;
pub mod grant;
pub mod kernel;
pub mod other_managers;
pub mod trace_events;
