//! Traces of known reclaim: what memory would have removed of it.

use super::super::{Mechanism, Remedies, WhatIf, what_if};
use crate::explain::{Cause, Explanation, explain};
use crate::sample::{line, switch, timelines};
use crate::target::{Wanted, find};
use brisk_mechanism::memory::MemoryConfig;
use brisk_mechanism::memory::config::{KillerConfig, PageoutConfig};

const DEVICE: &str = "brisk_memory: page_kib=4 total_kib=500000 free_kib=8000 swap_total_kib=200000 swap_free_kib=150000 \
                      swap_ratio_percent=50";

fn noted(us: u64, text: &str) -> String {
    line(1, us, 9, &format!("tracing_mark_write: {text}"))
}

fn process(adj: i16, kib: u64, name: &str) -> String {
    noted(0, &format!("brisk_process: pid=5 oom_score_adj={adj} anonymous_kib={kib} swapped_kib=0 comm={name}"))
}

fn reclaimed(us: u64, pages: u64) -> String {
    noted(us, &format!("C|9|pages reclaimed|{pages}"))
}

/// Thread 7 runs for 20 ms: it reclaims from 1 to 5 ms itself, and waits behind kswapd from 6 to 10 ms.
fn launch() -> String {
    let reclaim = |us, event: &str| line(0, us, 7, &format!("mm_vmscan_direct_reclaim_{event}"));
    let behind_kswapd = switch(0, 6_000, 7, "R", 30) + &switch(0, 10_000, 30, "S", 7);
    switch(0, 0, 0, "R", 7)
        + &reclaim(1_000, "begin: order=0")
        + &reclaim(5_000, "end: nr_reclaimed=1000")
        + &behind_kswapd.replace("t30", "kswapd0")
        + &switch(0, 20_000, 7, "S", 0)
}

/// The launch on a device that tells all: 2000 pages are reclaimed, 250 in each millisecond of reclaim.
fn known(processes: &str) -> String {
    noted(0, DEVICE) + processes + &reclaimed(0, 100) + &launch() + &reclaimed(20_100, 2_100)
}

fn with(target_kib: u64, lowest_adj: i16) -> Remedies {
    let pageout = PageoutConfig { target_kib, lowest_adj, ..PageoutConfig::default() };
    let memory =
        MemoryConfig { killer: KillerConfig { pageout, ..KillerConfig::default() }, ..MemoryConfig::default() };
    Remedies { with: vec![Mechanism::Memory], memory, ..Remedies::default() }
}

fn estimate(text: &str, remedies: &Remedies) -> (Explanation, WhatIf) {
    let (trace, timelines) = timelines(text);
    let (window, _) = find(&trace, &timelines, &Wanted::Thread(7), None, None).unwrap();
    let explanation = explain(&trace, &timelines, window);
    let what_if = what_if(&trace, &timelines, (window, &explanation), remedies);
    (explanation, what_if)
}

// Verifies TRACE-9.
#[test]
fn reclaim_is_removed_as_far_as_the_freed_memory_goes() {
    let cached = process(900, 60_000, "cached");
    for (why, text, remedies, direct_us, behind_us) in [
        ("2000 KiB more, 500 pages", known(&cached), with(10_000, 900), 2_000, 0),
        ("5000 KiB more, 1250 pages", known(&cached), with(13_000, 900), 4_000, 1_000),
        ("enough for all", known(&cached), with(16_000, 900), 4_000, 4_000),
        ("a tenth of memory where nothing is configured", known(&cached), with(0, 900), 4_000, 4_000),
        (
            "all that an application holds frees half of it",
            known(&process(900, 6_000, "a")),
            with(40_000, 900),
            3_000,
            0,
        ),
        (
            "two applications",
            known(&(process(905, 6_000, "a") + &process(900, 4_000, "b"))),
            with(40_000, 900),
            4_000,
            1_000,
        ),
        (
            "less was free when the window began",
            noted(0, DEVICE)
                + &cached
                + &noted(0, "C|9|pages free|1500")
                + &reclaimed(0, 100)
                + &launch()
                + &reclaimed(20_100, 2_100),
            with(8_000, 900),
            2_000,
            0,
        ),
        (
            "half of what is swapped out takes memory on zram",
            known(&cached) + &noted(0, "C|9|pages swapped out|50") + &noted(20_100, "C|9|pages swapped out|2050"),
            with(10_000, 900),
            4_000,
            0,
        ),
        (
            "what was swapped out in the window was in memory before it",
            launch()
                + &reclaimed(0, 0)
                + &reclaimed(20_100, 2_000)
                + &noted(0, "C|9|pages swapped out|0")
                + &noted(0, "C|9|pages free|2000")
                + &noted(20_100, "C|9|pages swapped out|1000")
                + &noted(20_200, DEVICE)
                + &noted(20_200, "brisk_process: pid=5 oom_score_adj=900 anonymous_kib=2000 swapped_kib=5000 comm=a"),
            with(40_000, 900),
            4_000,
            0,
        ),
        (
            "a disk costs no memory",
            known(&process(900, 4_000, "a")).replace("swap_ratio_percent=50", "swap_ratio_percent=0"),
            with(40_000, 900),
            4_000,
            0,
        ),
    ] {
        let (explanation, what_if) = estimate(&text, &remedies);
        let of = |cause| {
            let part = explanation.parts.iter().position(|part| part.cause == cause).unwrap();
            what_if.estimates[0].of_part(part) / 1000
        };
        assert_eq!((of(Cause::Reclaim), of(Cause::Runnable)), (direct_us, behind_us), "{why}: {what_if:?}");
        assert_eq!(what_if.estimates[0].removed_ns, Some((direct_us + behind_us) * 1000), "{why}");
    }
}

// Verifies TRACE-9.
#[test]
fn why_memory_removes_nothing_or_how_much_is_unknown() {
    let cached = process(900, 60_000, "cached");
    let without = |text: &str, left_out: &str| -> String {
        text.lines().filter(|line| !line.contains(left_out)).map(|line| format!("{line}\n")).collect()
    };
    let all = known(&cached);
    for (text, remedies, is_unknown, expected) in [
        (all.clone(), with(8_000, 900), false, "8000 KiB were free, no less than memory keeps free (8000 KiB)"),
        (all.clone(), with(40_000, 901), false, "no application of oom_score_adj 901 or more"),
        (all.replace("swap_free_kib=150000", "swap_free_kib=10000"), with(40_000, 900), false, "swap was full"),
        (all.replace("percent=50", "percent=100"), with(40_000, 900), false, "held memory that swap-out frees"),
        (all.replace("swap_total_kib=200000", "swap_total_kib=0"), with(40_000, 900), true, "there is no swap"),
        (without(&all, "brisk_memory"), with(40_000, 900), true, "8.00 ms went to reclaim"),
        (without(&all, "pages reclaimed"), with(40_000, 900), true, "8.00 ms went to reclaim"),
    ] {
        let (_, what_if) = estimate(&text, &remedies);
        let estimate = &what_if.estimates[0];
        assert_eq!(estimate.removed_ns, if is_unknown { None } else { Some(0) }, "{estimate:?}");
        assert!(estimate.because.as_ref().unwrap().contains(expected), "{estimate:?}");
    }
}

// Verifies TRACE-9.
#[test]
fn what_memory_is_assumed_to_do_is_said() {
    let assumes =
        |remedies| estimate(&known(&process(900, 60_000, "cached")), &remedies).1.estimates[0].assumes.join("; ");
    let configured = assumes(with(10_000, 900));
    for expected in
        ["target_kib is 10000, as configured", "4000 KiB of cached", "50 % stay", "10000 KiB are free then, not 8000"]
    {
        assert!(configured.contains(expected), "{expected}: {configured}");
    }
    let suggested = assumes(with(0, 900));
    assert!(suggested.contains("target_kib is 50000, a tenth of memory"), "{suggested}");
}
