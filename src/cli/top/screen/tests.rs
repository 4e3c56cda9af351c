use super::*;
use brisk_base::random::Random;
use brisk_mechanism::placement::cores::{Machine, Split};
use brisk_mechanism::placement::{PlacementConfig, PlacementPolicy};
use brisk_mechanism::{Support, SupportState};

fn screen(cpus: u32, name: &str) -> Screen {
    let support = Support { state: SupportState::Active, reason: "simulated".into(), advice: String::new() };
    let policy = PlacementPolicy::new(PlacementConfig::default(), support, Machine::equal(cpus));
    let mut placement = policy.snapshot();
    placement.foreground = vec![7];
    placement.step = Some(Step::Isolate(Split { reserved: vec![1], rest: vec![0] }));
    let thread = |tid: u32, class| brisk_mechanism::placement::snapshot::ThreadView {
        tid,
        pid: tid,
        command: name.to_owned(),
        is_foreground: tid == 7,
        class,
        thesis_class: brisk_mechanism::placement::threads::classify::ThesisClass::Rest,
        demand: 1.0,
        wait: 0.25,
        burst_ms: 1.0,
        wakes_hz: 9.0,
        leased: (class == Class::Bulk).then(|| "/brisk-threads".to_owned()),
        reason: String::new(),
    };
    placement.threads = vec![thread(7, Class::Interactive), thread(8, Class::Bulk), thread(9, Class::Light)];
    let cpu = |cpu| Cpu { cpu, capacity: 1024, busy: Some(0.5), is_reserved: cpu == 1, ..Cpu::default() };
    Screen {
        schema: SCHEMA,
        daemon: Some(Daemon { pid: 99, since: BootTime::default(), lease_count: 3 }),
        cpus: (0..cpus).map(cpu).collect(),
        placement,
        memory: Some(MemoryInfo { total_kib: 2 << 20, available_kib: Some(1 << 20), ..MemoryInfo::default() }),
        pressure: None,
        lookups: Vec::new(),
        decisions: Vec::new(),
        now: BootTime::from_milliseconds(120_000),
    }
}

// Verifies ON-4.
#[test]
fn the_screen_shows_the_foreground_classes_and_leases() {
    let text = screen(2, "browser").lines((100, 40), false).join("\n");
    for said in [
        "process 99, for 2 min, holds 3",
        "CPU 0   50% -",
        " 1024 reserved",
        "Foreground process 7 browser, waits 0 %",
        "Classes    1 bulk, 1 interactive, 1 light, 0 asleep",
        "        8  browser         bulk         100 %     25 %  /brisk-threads",
        "Memory     1024 of 2048 MiB available",
    ] {
        assert!(text.contains(said), "{said:?} in\n{text}");
    }
}

/// A thread's name cannot move the cursor or break the layout.
// Verifies ON-4.
#[test]
fn the_screen_fits_any_terminal_with_any_thread_names() {
    let mut random = Random::new(3);
    for _ in 0..300 {
        let size = (1 + random.below(200), 1 + random.below(60));
        let name: String =
            (0..20).filter_map(|_| char::from_u32(random.bits() as u32 >> (11 + random.below(16)))).collect();
        let lines = screen(1 + random.below(64) as u32, &name).lines(size, false);
        assert!(lines.len() <= size.1, "{} lines in {size:?}", lines.len());
        for line in &lines {
            assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= size.0 + 1, "{line:?} in {size:?}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
    let coloured = screen(2, "\x1b[2Jx").lines((80, 24), true).join("\n");
    assert!(coloured.contains(".[2Jx") && !coloured.contains("\x1b[2J"), "{coloured:?}");
}

#[test]
fn a_cpu_is_busy_when_it_is_not_idle() {
    for (before, after, expected) in [
        ([0; 8], [10, 0, 0, 80, 10, 0, 0, 0], Some(0.1)),
        ([5, 5, 0, 9, 0, 0, 0, 0], [5, 5, 0, 9, 0, 0, 0, 0], None),
        ([0, 0, 0, 100, 0, 0, 0, 0], [0, 0, 50, 50, 0, 0, 0, 0], Some(1.0)),
    ] {
        assert_eq!(busy(&before, &after), expected);
    }
}
