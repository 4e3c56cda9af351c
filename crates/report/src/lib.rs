//! Output for users and programs: HTML, SVG, tables, JSON, OpenMetrics.
//!
//! This crate neither measures nor decides: it turns a [`Proof`](crate::proof::Proof) into text. No input makes it panic, and
//! all names are escaped.

pub mod brief;
mod course_charts;
pub mod evidence;
pub mod figure;
pub mod finding;
pub mod html;
pub mod json;
pub mod open_metrics;
pub mod plot;
pub mod process_plot;
pub mod proof;
pub mod status;
pub mod step_plot;
pub mod summary;
pub mod svg;
pub mod table;
