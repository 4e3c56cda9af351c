//! Two explanations of the same launch, part by part.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::explain::{Cause, Explanation, OnBehalf};
use crate::words::{ms, phrase};

/// How many parts the sentence names.
const IN_SENTENCE: usize = 4;

/// A part of either explanation, or of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub cause: Cause,
    pub subject: Option<String>,
    pub on_behalf: Option<OnBehalf>,
    pub a_ns: u64,
    pub b_ns: u64,
    /// What B takes more than A.
    pub difference_ns: i64,
}

/// The difference of two windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    pub a_ns: u64,
    pub b_ns: u64,
    pub difference_ns: i64,
    /// The largest difference first, else the longest in A. They add up to the windows and to their difference.
    pub parts: Vec<Row>,
}

/// Compares the parts of the same cause, subject and behalf. Threads are compared by their names, because their numbers differ.
pub fn compare(a: &Explanation, b: &Explanation) -> Comparison {
    let mut times: BTreeMap<_, [u64; 2]> = BTreeMap::new();
    for (side, explanation) in [a, b].into_iter().enumerate() {
        for part in &explanation.parts {
            times.entry((part.cause, &part.subject, &part.on_behalf)).or_default()[side] += part.ns;
        }
    }
    let row = |((cause, subject, on_behalf), [a_ns, b_ns]): ((_, &Option<_>, &Option<_>), [u64; 2])| Row {
        cause,
        subject: subject.clone(),
        on_behalf: on_behalf.clone(),
        a_ns,
        b_ns,
        difference_ns: difference(a_ns, b_ns),
    };
    let mut parts: Vec<Row> = times.into_iter().map(row).collect();
    parts.sort_by_key(|row| std::cmp::Reverse((row.difference_ns.unsigned_abs(), row.a_ns)));
    let [a_ns, b_ns] = [a, b].map(|explanation| explanation.to_ns - explanation.from_ns);
    Comparison { a_ns, b_ns, difference_ns: difference(a_ns, b_ns), parts }
}

/// A recording is shorter than the 292 years of an `i64`; forged times saturate.
fn difference(a_ns: u64, b_ns: u64) -> i64 {
    let apart = i64::try_from(a_ns.abs_diff(b_ns)).unwrap_or(i64::MAX);
    if b_ns < a_ns { -apart } else { apart }
}

impl Row {
    /// The part in words.
    pub fn words(&self) -> String {
        let text = phrase(self.cause, self.subject.as_deref());
        match &self.on_behalf {
            Some(on_behalf) => format!("{}: {}: {text}", on_behalf.wait, on_behalf.of),
            None => text,
        }
    }
}

/// Milliseconds with their sign.
pub fn signed(ns: i64) -> String {
    let sign = match ns {
        0 => "",
        _ if ns < 0 => "-",
        _ => "+",
    };
    format!("{sign}{}", ms(ns.unsigned_abs()))
}

fn more_or_less(ns: i64) -> String {
    format!("{} {}", ms(ns.unsigned_abs()), if ns < 0 { "less" } else { "more" })
}

/// By how much they differ, and where most of it is.
pub fn sentence(comparison: &Comparison) -> String {
    let Comparison { a_ns, b_ns, difference_ns, parts } = comparison;
    let all = match difference_ns {
        0 => "A and B take the same time".to_owned(),
        _ => format!("B takes {} than A", more_or_less(*difference_ns)),
    };
    let differing = parts.iter().filter(|row| row.difference_ns != 0).take(IN_SENTENCE);
    let named: Vec<String> =
        differing.map(|row| format!("{} {}", more_or_less(row.difference_ns), row.words())).collect();
    let colon = if named.is_empty() { "" } else { ": " };
    format!("{all} ({}, {}){colon}{}", ms(*a_ns), ms(*b_ns), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Part;

    fn explanation(parts: &[(Cause, Option<&str>, Option<&OnBehalf>, u64)]) -> Explanation {
        let part = |&(cause, subject, on_behalf, ms): &(Cause, Option<&str>, Option<&OnBehalf>, u64)| Part {
            cause,
            subject: subject.map(str::to_owned),
            class: None,
            on_behalf: on_behalf.cloned(),
            ns: ms * 1_000_000,
            times: 1,
        };
        let parts: Vec<Part> = parts.iter().map(part).collect();
        Explanation {
            thread: "a".to_owned(),
            tid: 7,
            process: 7,
            from_ns: 1000,
            to_ns: 1000 + parts.iter().map(|part| part.ns).sum::<u64>(),
            parts,
            path: Vec::new(),
            waits: BTreeMap::new(),
        }
    }

    // Verifies TRACE-8.
    #[test]
    fn the_largest_differences_come_first_and_add_up() {
        let server = OnBehalf { wait: "binder", of: "server".to_owned() };
        let a = explanation(&[
            (Cause::Runnable, Some("dex2oat"), None, 40),
            (Cause::FullSpeed, None, None, 30),
            (Cause::FullSpeed, None, Some(&server), 20),
            (Cause::Storage, Some("179,0"), None, 5),
        ]);
        let b = explanation(&[
            (Cause::FullSpeed, None, None, 30),
            (Cause::FullSpeed, None, Some(&server), 23),
            (Cause::Runnable, Some("dex2oat"), None, 4),
            (Cause::Runnable, Some("hog"), None, 7),
        ]);
        let comparison = compare(&a, &b);
        let rows: Vec<(String, i64)> =
            comparison.parts.iter().map(|row| (row.words(), row.difference_ns / 1_000_000)).collect();
        let expected = [
            ("runnable behind dex2oat", -36),
            ("runnable behind hog", 7),
            ("waiting for storage (device 179,0)", -5),
            ("binder: server: running at full speed", 3),
            ("running at full speed", 0),
        ];
        assert_eq!(rows, expected.map(|(words, ms)| (words.to_owned(), ms)));
        let sums = |of: fn(&Row) -> i64| comparison.parts.iter().map(of).sum::<i64>();
        assert_eq!(sums(|row| row.difference_ns), comparison.difference_ns);
        assert_eq!((sums(|row| row.a_ns as i64), sums(|row| row.b_ns as i64)), (95_000_000, 64_000_000));
        assert_eq!(
            sentence(&comparison),
            "B takes 31.00 ms less than A (95.00 ms, 64.00 ms): 36.00 ms less runnable behind dex2oat, \
             7.00 ms more runnable behind hog, 5.00 ms less waiting for storage (device 179,0), \
             3.00 ms more binder: server: running at full speed"
        );
        assert_eq!(sentence(&compare(&a, &a)), "A and B take the same time (95.00 ms, 95.00 ms)");
    }

    #[test]
    fn differences_have_signs() {
        for (ns, expected) in [(0, "0.000 ms"), (-1_500_000, "-1.50 ms"), (2_000_000, "+2.00 ms")] {
            assert_eq!(signed(ns), expected);
        }
        assert_eq!((difference(0, u64::MAX), difference(u64::MAX, 0)), (i64::MAX, -i64::MAX));
    }
}
