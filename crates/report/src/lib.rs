//! What people and programs read: HTML, SVG, tables, JSON, OpenMetrics.
//!
//! Nothing here measures or decides: a [`Proof`](crate::proof::Proof) goes in, text comes out. No input
//! makes it panic, and whatever a name holds is escaped.

pub mod brief;
pub mod course;
pub mod figure;
pub mod finding;
pub mod html;
pub mod json;
pub mod open_metrics;
pub mod plot;
pub mod proof;
pub mod status;
pub mod summary;
pub mod svg;
pub mod table;
