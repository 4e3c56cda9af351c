//! The telemetry of many devices: exports become a data set of Parquet files, which DuckDB and Spark ask the questions of
//! `questions/`.
//!
//! [`export`] reads what a device wrote and decides whether it is good, [`document`] does the same for proofs, recordings and
//! explanations; [`import`] brings the rows of good files into a [`dataset`], each once. [`question`] has the SQL, [`duckdb`] runs
//! it, [`report`] makes a page of the answers, and [`simulate`] draws a fleet of which the truth is known.

pub mod answers;
pub mod dataset;
pub mod device;
pub mod document;
pub mod duckdb;
pub mod evidence;
pub mod export;
pub mod fault;
pub mod import;
mod parallel;
pub mod parquet_file;
pub mod partition;
pub mod question;
pub mod report;
pub mod simulate;
pub mod state;
pub mod table;

/// The version of the exports' format that is read.
pub const FORMAT: u64 = 1;
/// A larger file is no export: a device keeps far less.
pub const LIMIT_BYTES: u64 = 256 << 20;
