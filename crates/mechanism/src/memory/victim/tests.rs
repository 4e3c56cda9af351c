use proptest::prelude::*;

use super::*;
use crate::memory::config::KillerConfig;
use crate::memory::killer;

const CALM: MemoryPressure =
    MemoryPressure { free_kib: 1 << 20, file_kib: 1 << 20, some_percent: 0.0, full_percent: 0.0, swap_ratio: 0.25 };

fn app(pid: u32, oom_score_adj: i16, rss_anonymous_kib: u64, swap_kib: u64) -> Candidate {
    Candidate {
        pid,
        name: format!("app{pid}"),
        oom_score_adj,
        rss_kib: rss_anonymous_kib + 10_000,
        rss_anonymous_kib,
        swap_kib,
        ..Candidate::default()
    }
}

fn order(
    mode: VictimMode,
    candidates: &[Candidate],
    memory_pressure: &MemoryPressure,
    protection: &Protection,
) -> Vec<Victim> {
    let Some(threshold) = adj_threshold(mode, memory_pressure) else { return Vec::new() };
    order_by(VictimChoice { mode, threshold, by_class: false }, candidates, memory_pressure, protection)
}

fn pids(mode: VictimMode, candidates: &[Candidate], memory_pressure: &MemoryPressure) -> Vec<u32> {
    order(mode, candidates, memory_pressure, &Protection::of_system(true)).iter().map(|victim| victim.pid).collect()
}

#[test]
fn the_class_comes_first_and_then_what_a_death_returns() {
    for (candidates, expected) in [
        // A cached application before a service, however little it holds.
        (vec![app(10, 500, 90_000, 0), app(11, 900, 1000, 0)], vec![11, 10]),
        // Within a class the adj is ignored.
        (vec![app(10, 910, 20_000, 0), app(11, 900, 30_000, 0)], vec![11, 10]),
        // A page on swap is worth a quarter of one in memory: 30 000 against 10 000 + 15 000.
        (vec![app(10, 900, 30_000, 0), app(11, 900, 10_000, 60_000)], vec![10, 11]),
        (vec![app(10, 900, 30_000, 0), app(11, 900, 10_000, 100_000)], vec![11, 10]),
        // A process whose death returns nothing is not killed.
        (vec![app(10, 900, 0, 0), app(11, 900, 0, 3)], vec![]),
        // The foreground (zero) and system (below) are never killed.
        (vec![app(10, 0, 50_000, 0), app(11, -800, 50_000, 0), app(12, 1, 4, 0)], vec![12]),
    ] {
        assert_eq!(pids(VictimMode::Brisk, &candidates, &CALM), expected, "{candidates:?}");
    }
}

#[test]
fn likely_returns_and_slow_starts_are_killed_later() {
    let known = |pid, cost_ms, probability| Candidate {
        relaunch_cost_ms: Some(cost_ms),
        return_probability: Some(probability),
        ..app(pid, 900, 40_000, 0)
    };
    let candidates =
        [known(10, 4000.0, 0.5), known(11, 1000.0, 0.5), known(12, 4000.0, 0.05), known(13, f64::NAN, 0.9)];
    assert_eq!(pids(VictimMode::Brisk, &candidates, &CALM), [12, 11, 13, 10]);
    // Twice the memory for twice the cost ranks the same; a little more memory ranks first.
    let candidates = [known(10, 1000.0, 0.5), Candidate { rss_anonymous_kib: 81_000, ..known(11, 2000.0, 0.5) }];
    assert_eq!(pids(VictimMode::Brisk, &candidates, &CALM), [11, 10]);
}

// Verifies MEMORY-9.
#[test]
fn the_low_memory_killer_follows_its_table() {
    let at =
        |free_mib: u64, file_mib: u64| MemoryPressure { free_kib: free_mib << 10, file_kib: file_mib << 10, ..CALM };
    for (memory_pressure, threshold) in [
        (at(64, 10), None),
        (at(10, 64), None),
        (at(63, 63), Some(705)),
        (at(15, 15), Some(352)),
        (at(7, 7), Some(58)),
        (at(5, 5), Some(0)),
        (at(5, 15), Some(352)),
    ] {
        assert_eq!(adj_threshold(VictimMode::LmkRss, &memory_pressure), threshold, "{memory_pressure:?}");
        assert_eq!(adj_threshold(VictimMode::LmkPss, &memory_pressure), threshold, "{memory_pressure:?}");
        assert_eq!(adj_threshold(VictimMode::LmkPssSwap, &memory_pressure), threshold, "{memory_pressure:?}");
    }
    let mut candidates =
        [app(10, 529, 20_000, 0), app(11, 705, 10_000, 90_000), app(12, 705, 30_000, 0), app(13, 0, 99_000, 0)];
    assert_eq!(pids(VictimMode::LmkRss, &candidates, &at(15, 15)), [12, 11, 10]);
    candidates[1].pss_kib = Some(25_000);
    candidates[2].pss_kib = Some(24_000);
    assert_eq!(pids(VictimMode::LmkPss, &candidates, &at(15, 15)), [11, 12, 10]);
    candidates[2].swap_pss_kib = Some(2_000);
    candidates[1].swap_pss_kib = Some(500);
    assert_eq!(pids(VictimMode::LmkPssSwap, &candidates, &at(15, 15)), [12, 11, 10]);
    assert!(pids(VictimMode::LmkRss, &candidates, &at(64, 64)).is_empty());
}

// Verifies MEMORY-9.
#[test]
fn lmkd_follows_pressure_and_kills_the_oldest_background() {
    let under = |some_percent, full_percent| MemoryPressure { some_percent, full_percent, ..CALM };
    let old = |pid, adj, background_s| Candidate {
        background_s: Some(background_s),
        ..app(pid, adj, 10_000 * u64::from(pid), 0)
    };
    let candidates = [old(10, 900, 5), old(11, 900, 500), old(12, 600, 900), old(13, 200, 1), old(14, 200, 9)];
    for (memory_pressure, expected) in
        [(under(1.0, 0.5), vec![]), (under(7.0, 0.5), vec![11, 10]), (under(90.0, 70.0), vec![11, 10, 12, 14, 13])]
    {
        assert_eq!(pids(VictimMode::LmkdPsi, &candidates, &memory_pressure), expected, "{memory_pressure:?}");
    }
}

#[test]
fn within_a_class_the_size_decides_when_asked_to() {
    let candidates = [app(10, 915, 20_000, 0), app(11, 900, 30_000, 0), app(12, 705, 90_000, 0)];
    let chosen = |by_class| {
        let choice = VictimChoice { mode: VictimMode::LmkRss, threshold: 0, by_class };
        order_by(choice, &candidates, &CALM, &Protection::of_system(true)).iter().map(|it| it.pid).collect::<Vec<_>>()
    };
    assert_eq!((chosen(false), chosen(true)), (vec![10, 11, 12], vec![11, 10, 12]));
}

#[test]
fn a_learned_ratio_takes_precedence_over_the_average() {
    let learned = Candidate { swap_ratio: Some(0.75), ..app(10, 900, 10_000, 40_000) };
    assert_eq!((learned.returned_kib(0.25), app(10, 900, 10_000, 40_000).returned_kib(0.25)), (40_000, 20_000));
    assert_eq!(pids(VictimMode::Brisk, &[app(11, 900, 30_000, 0), learned], &CALM), [10, 11]);
}

// Verifies MEMORY-3.
#[test]
fn essential_processes_are_protected() {
    let named = |name: &str| Candidate { name: name.into(), ..app(7, 900, 90_000, 0) };
    for (name, is_killed) in [
        ("init", false),
        ("zygote64", false),
        ("system_server", false),
        ("hwservicemanager", false),
        ("systemd-journal", false),
        ("browser", true),
        ("initiator", true),
    ] {
        assert_eq!(!pids(VictimMode::Brisk, &[named(name)], &CALM).is_empty(), is_killed, "{name}");
    }
    assert!(pids(VictimMode::Brisk, &[Candidate { pid: 1, ..named("browser") }], &CALM).is_empty());
    assert_eq!(Protection::of_system(false).names.len(), SYSTEM_NAMES.len(), "every name is a pattern");
}

/// Any process can set its name with prctl(2), or by its program's file name.
// Verifies MEMORY-3.
#[test]
fn a_name_protects_only_processes_of_system_users() {
    let named = |uid, group: &str| Candidate {
        name: "systemd-x".to_owned(),
        uid,
        group: Some(group.to_owned()),
        ..app(7, 900, 90_000, 0)
    };
    let session = "/user.slice/user-1000.slice/user@1000.service";
    for (is_android, uid, group, is_killed) in [
        (false, Some(0), "/", false),
        (false, Some(999), "/", false),
        (false, Some(1000), "/", true),
        (false, Some(60_000), "/", true),
        (false, Some(61_184), "/system.slice/x.service", false),
        (false, Some(65_534), "/", true),
        (false, None, "/", false),
        (false, Some(1000), &format!("{session}/init.scope"), false),
        (false, Some(1000), &format!("{session}/session.slice/org.gnome.Shell@wayland.service"), false),
        (false, Some(1000), &format!("{session}/app.slice/app-systemd.scope"), true),
        (true, Some(9999), "/", false),
        (true, Some(10_057), "/", true),
        (true, Some(1_001_000), "/", false),
        (true, Some(1_010_057), "/", true),
        (true, Some(10_057), &format!("{session}/init.scope"), true),
    ] {
        let protection = Protection::of_system(is_android);
        let victims = order(VictimMode::Brisk, &[named(uid, group)], &CALM, &protection);
        assert_eq!(!victims.is_empty(), is_killed, "Android {is_android}, user {uid:?}, {group}");
    }
}

// Verifies MEMORY-3.
#[test]
fn configured_names_and_groups_are_protected_too() {
    let globs = |text: &str| vec![text.parse().unwrap()];
    let config = KillerConfig {
        protected: globs("kiosk*"),
        protected_groups: globs("*/app-kiosk*.scope"),
        lowest_adj: 500,
        ..KillerConfig::default()
    };
    let protection = killer::protection(&config, false);
    let own = |uid, group: &str| Candidate {
        name: "kiosk-player".to_owned(),
        uid: Some(uid),
        group: Some(group.to_owned()),
        ..app(7, 900, 90_000, 0)
    };
    for (uid, group, is_killed) in [(0, "/", false), (1000, "/", true), (1000, "/u/app-kiosk-1.scope", false)] {
        assert_eq!(
            !order(VictimMode::Brisk, &[own(uid, group)], &CALM, &protection).is_empty(),
            is_killed,
            "{uid} {group}"
        );
    }
    assert!(order(VictimMode::Brisk, &[app(7, 499, 90_000, 0)], &CALM, &protection).is_empty());
}

#[test]
fn classes_begin_at_hundreds() {
    for (adj, expected) in [(1000, 1000), (999, 900), (900, 900), (99, 0), (0, 0), (-1, -100), (-1000, -1000)] {
        assert_eq!(class(adj), expected, "{adj}");
    }
}

prop_compose! {
    fn any_candidate()(
        pid in 0u32..5000, name in prop::sample::select(vec!["init", "browser", "mail", "zygote64", "maps"]),
        oom_score_adj in -1000i16..=1000, rss_kib in 0u64..1 << 24, rss_anonymous_kib in 0u64..1 << 24, swap_kib in 0u64..1 << 24,
        pss_kib in proptest::option::of(0u64..1 << 24), swap_pss_kib in proptest::option::of(any::<u64>()),
        swap_ratio in proptest::option::of(any::<f64>()), background_s in proptest::option::of(0u64..1 << 20),
        relaunch_cost_ms in proptest::option::of(any::<f64>()), return_probability in proptest::option::of(any::<f64>()),
    ) -> Candidate {
        let name = name.to_owned();
        Candidate { pid, name, oom_score_adj, rss_kib, rss_anonymous_kib, swap_kib, pss_kib, swap_pss_kib, swap_ratio, background_s, relaunch_cost_ms, return_probability, ..Candidate::default() }
    }
}

proptest! {
    // Verifies MEMORY-3.
    #[test]
    fn no_protected_process_is_killed_and_none_twice(
        candidates in prop::collection::vec(any_candidate(), 0..40), floor in -1000i16..=1000, swap_ratio in -1.0f64..3.0,
        free_kib in 0u64..1 << 17, file_kib in 0u64..1 << 17, some_percent in 0.0f64..100.0, full_percent in 0.0f64..100.0,
    ) {
        let memory_pressure = MemoryPressure { free_kib, file_kib, some_percent, full_percent, swap_ratio };
        let protection = Protection { adj_floor: floor, ..Protection::of_system(true) };
        for mode in [VictimMode::Brisk, VictimMode::LmkRss, VictimMode::LmkPss, VictimMode::LmkPssSwap, VictimMode::LmkdPsi, VictimMode::Lmkd] {
            let victims = order(mode, &candidates, &memory_pressure, &protection);
            prop_assert!(victims.len() <= candidates.len());
            for victim in &victims {
                prop_assert!(victim.pid > 1 && victim.oom_score_adj >= floor && victim.predicted_kib > 0, "{victim:?}");
                prop_assert!(!["init", "zygote64"].contains(&victim.name.as_str()));
                prop_assert!(adj_threshold(mode, &memory_pressure).is_some_and(|threshold| victim.oom_score_adj >= threshold));
            }
            let key = |victim: &Victim| if mode == VictimMode::Brisk { class(victim.oom_score_adj) } else { victim.oom_score_adj };
            prop_assert!(victims.is_sorted_by(|one, other| key(one) >= key(other)), "the class comes first");
        }
    }

    // Verifies MEMORY-3.
    #[test]
    fn within_a_class_the_largest_return_is_killed_first(candidates in prop::collection::vec(any_candidate(), 0..40), swap_ratio in 0.0f64..1.0) {
        let unknown = |candidate: Candidate| Candidate { relaunch_cost_ms: None, return_probability: None, ..candidate };
        let candidates: Vec<Candidate> = candidates.into_iter().map(unknown).collect();
        let victims = order(VictimMode::Brisk, &candidates, &MemoryPressure { swap_ratio, ..CALM }, &Protection::of_system(true));
        for pair in victims.windows(2) {
            let same = class(pair[0].oom_score_adj) == class(pair[1].oom_score_adj);
            prop_assert!(!same || pair[0].predicted_kib >= pair[1].predicted_kib, "{pair:?}");
        }
        for victim in &victims {
            let most = candidates.iter().filter(|it| it.pid == victim.pid).map(|it| it.rss_anonymous_kib + it.swap_kib).max();
            prop_assert!(Some(victim.predicted_kib) <= most, "no death returns more than was held");
        }
    }
}
