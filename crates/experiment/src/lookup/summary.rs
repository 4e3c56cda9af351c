//! The summary of a distribution.

use serde::Serialize;

use crate::statistics::{mean, quantile};

/// Summary of lookups, in the unit of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    pub mean: f64,
}

/// The figures of `values`.
pub(super) fn figures(mut values: Vec<f64>) -> Summary {
    values.sort_unstable_by(f64::total_cmp);
    Summary { p50: quantile(&values, 0.5), p99: quantile(&values, 0.99), mean: mean(&values) }
}
