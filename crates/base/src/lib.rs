//! Helpers that depend on no other crate of brisk.

pub mod insertion_sort;
pub mod notes;
pub mod random;
pub mod ready;
pub mod toml_text;
pub mod work;
