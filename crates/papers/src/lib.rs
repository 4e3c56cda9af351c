//! The five papers as data (`papers/`), and how their tables and figures compare with what is measured here.
//!
//! [`paper`] reads the data, [`results`] the measurements, [`verdict`] decides what a row shows, and [`comparison`] joins the
//! three; the rest writes the comparison as text, as a page of HTML and as a page of the
//! book. All of it is pure.

pub mod built_in;
pub mod comparison;
pub mod html;
pub mod markdown;
pub mod paper;
pub mod plot;
pub mod results;
pub mod text;
pub mod verdict;
