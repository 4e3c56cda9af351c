//! Estimates in words, beside those of the explanation.

use super::{Estimate, WhatIf};
use crate::explain::Explanation;
use crate::words::{self, Group, ms};

/// The sentence of the explanation, with what each mechanism would have removed of each group.
pub fn sentence(explanation: &Explanation, what_if: Option<&WhatIf>) -> String {
    words::sentence(explanation, |group| remark(group, what_if))
}

/// What each mechanism would have removed of the group, in brackets.
fn remark(group: &Group, what_if: Option<&WhatIf>) -> String {
    let estimates = what_if.map_or(&[][..], |what_if| &what_if.estimates);
    let removed = estimates.iter().filter_map(|estimate| {
        let removed_ns: u64 = group.parts.iter().map(|&part| estimate.of_part(part)).sum();
        (removed_ns > 0).then(|| format!("{}: about {} less", estimate.mechanism.name(), about(removed_ns)))
    });
    let removed: Vec<String> = removed.collect();
    if removed.is_empty() { String::new() } else { format!(" ({})", removed.join(", ")) }
}

/// What all would have removed together; `None` where that is nothing.
pub fn together(explanation: &Explanation, what_if: &WhatIf) -> Option<String> {
    let left_ns = explanation.to_ns - explanation.from_ns - what_if.removed_ns;
    let acted = what_if.estimates.iter().filter(|estimate| estimate.removed_ns.is_some_and(|ns| ns > 0));
    let acted: Vec<&str> = acted.map(|estimate| estimate.mechanism.name()).collect();
    let (removed, left) = (about(what_if.removed_ns), ms(left_ns));
    match acted.as_slice() {
        [] => None,
        [one] => Some(format!("With {one} it would have taken about {removed} less: {left}")),
        [all @ .., last] => {
            Some(format!("With {} and {last} it would have taken about {removed} less: {left}", all.join(", ")))
        }
    }
}

/// What one mechanism would have removed, and why nothing or not known.
pub fn outcome(estimate: &Estimate) -> String {
    match (estimate.removed_ns, estimate.because.as_deref().unwrap_or("it was given nothing to do")) {
        (None, why) => format!("cannot be estimated, because {why}"),
        (Some(0), why) => format!("nothing: {why}"),
        (Some(ns), _) => format!("about {} less", about(ns)),
    }
}

/// Milliseconds with two digits that count.
pub fn about(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    let digits = 1 - (ms.max(0.001).log10().floor() as i32);
    let scale = 10_f64.powi(digits);
    format!("{:.*} ms", digits.max(0) as usize, (ms * scale).round() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_shows_no_more_digits_than_it_has() {
        for (ns, expected) in [
            (96_432_000, "96 ms"),
            (2_434_000, "2.4 ms"),
            (9_960_000, "10.0 ms"),
            (243_400, "0.24 ms"),
            (412_900_000, "410 ms"),
            (1_234_000_000, "1200 ms"),
            (500, "0.0005 ms"),
        ] {
            assert_eq!(about(ns), expected);
        }
    }
}
