//! What stands on nothing but the standard library.

pub mod insertion_sort;
pub mod notes;
pub mod random;
pub mod work;
