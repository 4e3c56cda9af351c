//! Which applications are swapped out before memory is short, and how far: pure. The killer carries it out.

use super::config::PageoutConfig;
use super::victim::Candidate;
use brisk_base::insertion_sort::insertion_sort;

/// Applications with less than this in memory are skipped.
pub const WORTHWHILE_KIB: u64 = 1 << 10;

/// True when less than the target is free, and swap is free.
pub fn is_short(config: &PageoutConfig, free_kib: u64, swap_free_kib: u64) -> bool {
    free_kib < config.target_kib && swap_free_kib > config.step_kib()
}

/// Sorts applications in the order in which they are swapped out: the one that was in the foreground longest ago has the highest
/// `oom_score_adj`.
pub fn sort(found: &mut [Candidate]) {
    insertion_sort(found, |one, next| one.oom_score_adj < next.oom_score_adj);
}

/// True for an application that is worth to be swapped out.
pub fn is_worthwhile(candidate: &Candidate) -> bool {
    candidate.rss_anonymous_kib >= WORTHWHILE_KIB
}

/// What swapping out leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct PageoutResult {
    /// The free memory then.
    pub free_kib: u64,
    /// What was swapped out of each application, in order.
    pub taken: Vec<(String, u64)>,
}

/// What swapping out `candidates` leads to where so much is free, a byte on swap costs `swap_ratio` of memory, and the CPUs are
/// idle for long enough.
pub fn predict(
    config: &PageoutConfig,
    (free_kib, swap_free_kib): (u64, u64),
    swap_ratio: f64,
    candidates: &[Candidate],
) -> PageoutResult {
    let mut found: Vec<Candidate> =
        candidates.iter().filter(|it| it.oom_score_adj >= config.lowest_adj && is_worthwhile(it)).cloned().collect();
    sort(&mut found);
    let mut result = PageoutResult { free_kib, taken: Vec::new() };
    let (mut swap_free_kib, won) = (swap_free_kib, (1.0 - swap_ratio).clamp(0.0, 1.0));
    for candidate in found {
        if !is_short(config, result.free_kib, swap_free_kib) || won == 0.0 {
            break;
        }
        let missing_kib = ((config.target_kib - result.free_kib) as f64 / won).ceil() as u64;
        let room_kib = swap_free_kib - config.step_kib();
        let taken_kib = candidate.rss_anonymous_kib.min(missing_kib).min(room_kib);
        result.free_kib += (taken_kib as f64 * won) as u64;
        swap_free_kib -= taken_kib;
        result.taken.push((candidate.name, taken_kib));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(name: &str, oom_score_adj: i16, rss_anonymous_kib: u64) -> Candidate {
        Candidate { name: name.to_owned(), oom_score_adj, rss_anonymous_kib, ..Candidate::default() }
    }

    // Verifies MEMORY-5.
    #[test]
    fn applications_are_swapped_out_until_the_target_is_free() {
        let all = [
            cached("mail", 900, 20_000),
            cached("maps", 910, 8_000),
            cached("tiny", 915, 1_023),
            cached("shop", 0, 90_000),
        ];
        let config = |target_kib| PageoutConfig { target_kib, ..PageoutConfig::default() };
        for (target_kib, free_kib, swap_free_kib, ratio, expected_kib, taken) in [
            (0, 5_000, 90_000, 0.5, 5_000, vec![]),
            (5_000, 5_000, 90_000, 0.5, 5_000, vec![]),
            (8_000, 5_000, 90_000, 0.5, 8_000, vec![("maps", 6_000)]),
            (12_000, 5_000, 90_000, 0.5, 12_000, vec![("maps", 8_000), ("mail", 6_000)]),
            // All that they hold is not enough.
            (40_000, 5_000, 90_000, 0.5, 19_000, vec![("maps", 8_000), ("mail", 20_000)]),
            // A quarter of the target stays free on swap.
            (40_000, 5_000, 15_000, 0.5, 7_500, vec![("maps", 5_000)]),
            (40_000, 5_000, 10_000, 0.5, 5_000, vec![]),
            // A disk costs no memory; what does not compress frees none.
            (8_000, 5_000, 90_000, 0.0, 8_000, vec![("maps", 3_000)]),
            (8_000, 5_000, 90_000, 1.2, 5_000, vec![]),
        ] {
            let found = predict(&config(target_kib), (free_kib, swap_free_kib), ratio, &all);
            let taken: Vec<(String, u64)> = taken.into_iter().map(|(name, kib)| (name.to_owned(), kib)).collect();
            assert_eq!(
                found,
                PageoutResult { free_kib: expected_kib, taken },
                "{target_kib} {free_kib} {swap_free_kib} {ratio}"
            );
        }
    }
}
