//! The system around brisk: its properties, its foreground, its other managers, its trace events.

pub mod android_properties;
pub mod foreground;
pub mod grant;
pub mod other_managers;
pub mod session;
pub mod trace_events;
pub mod trace_pages;
