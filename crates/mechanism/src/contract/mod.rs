//! What the engine and the mechanisms hand each other: events and facts in, decisions and their outcomes, and what is told.

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
