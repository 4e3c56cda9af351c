//! The data that the engine and the mechanisms exchange: events and facts, decisions and their outcomes, and reports.

pub mod action;
pub mod demand;
pub mod event;
pub mod facts;
pub mod interest;
pub mod notification;
pub mod observation;
pub mod outcome;
pub mod preview;
pub mod probe_context;
pub mod support;
