//! One boot, recorded: read from a bootchart log, judged, compared and drawn.
//!
//! [`read`] turns an archive or a folder into a [`Boot`]; everything else is a pure function of that.

pub mod columns;
pub mod compare;
pub mod diagnose;
pub mod fold;
pub mod generate;
pub mod html;
pub mod json;
pub mod model;
pub mod perfetto;
pub mod png;
pub mod read;
#[cfg(test)]
mod sample;
pub mod summary;
pub mod svg;

pub use model::Boot;
