//! The data that the engine and the mechanisms exchange: events and facts, decisions and their outcomes, and reports.

pub mod action;
pub mod demand;
pub mod event;
pub mod facts;
pub mod foreseen;
pub mod interest;
pub mod news;
pub mod outcome;
pub mod support;
pub mod surroundings;
