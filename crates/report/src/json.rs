//! The machine-readable proof: the schema of [`crate::proof`], indented, in a stable order.

use crate::proof::Proof;

/// Writes `proof` as indented JSON with a final newline.
///
/// Keys come in the order of the schema, so that two proofs can be compared by `diff`. A figure that is not available is
/// `null`, as JSON knows neither NaN nor infinity.
pub fn render(proof: &Proof) -> String {
    // A Proof has only string keys and plain data: it can always be serialised.
    let mut text = serde_json::to_string_pretty(proof).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads what [`render`] wrote.
///
/// # Errors
///
/// Text that is not JSON, or not this schema, with line and column.
pub fn parse(text: &str) -> Result<Proof, serde_json::Error> {
    serde_json::from_slice(text.as_bytes())
}
