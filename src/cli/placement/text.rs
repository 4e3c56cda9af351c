//! Text output of `brisk placement`.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use brisk_mechanism::SupportState;
use brisk_mechanism::placement::PlacementSnapshot;
use brisk_mechanism::placement::snapshot::ThreadView;
use brisk_mechanism::placement::threads::classify::Class;
use brisk_sys::cpu::hotplug::format_list;

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

/// A table of the threads that are awake, by decreasing demand.
pub(super) fn table(snapshot: &PlacementSnapshot) -> String {
    let mut text = head(snapshot);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{BOLD}{:>7} {:>7} {:<16}{:<12}{:>7} {:>6} {:>9} {:>8}{BOLD:#}",
        "thread", "process", "name", "class", "demand", "wait", "burst", "wakes"
    );
    for thread in &snapshot.threads {
        let style = style_of(thread);
        let _ = writeln!(
            text,
            "{:>7} {:>7} {:<16}{style}{:<12}{style:#}{:>5.0} % {:>4.0} % {:>6.1} ms {:>6.0}/s{}",
            thread.tid,
            thread.pid,
            thread.command,
            thread.class,
            thread.demand * 100.0,
            thread.wait * 100.0,
            thread.burst_ms,
            thread.wakes_hz,
            thread.leased.as_ref().map(|value| format!("  {value}")).unwrap_or_default()
        );
    }
    rest(&mut text, snapshot);
    text
}

/// The decision, and each thread's class with its reason.
pub(super) fn reasons(snapshot: &PlacementSnapshot) -> String {
    let mut text = head(snapshot);
    for thread in &snapshot.threads {
        let style = style_of(thread);
        let _ = writeln!(
            text,
            "{:>7} {:<16}{style}{:<12}{style:#}{}",
            thread.tid, thread.command, thread.class, thread.reason
        );
    }
    rest(&mut text, snapshot);
    text
}

fn head(snapshot: &PlacementSnapshot) -> String {
    let mut text = String::new();
    let mut line = |name: &str, what: &str| {
        let _ = writeln!(text, "{BOLD}{name:<12}{BOLD:#}{what}");
    };
    if snapshot.support.state != SupportState::Active {
        line("Placement", &format!("{}; {}", snapshot.support.reason, snapshot.support.advice));
    }
    let cores: Vec<String> = snapshot.cores.iter().map(|core| format!("{} ({})", core.cpu, core.capacity)).collect();
    line("CPUs", &format!("{}, with their capacity; reserved in this order", cores.join(", ")));
    line(
        "Foreground",
        &match snapshot.foreground.as_slice() {
            [] => "nothing".to_owned(),
            foreground => format!(
                "process {}; waits {:.0} % of its busy time, {:.2} threads runnable, gain at most {:.0} %",
                format_list(foreground),
                snapshot.wait_share * 100.0,
                snapshot.parallelism,
                snapshot.gain_bound * 100.0
            ),
        },
    );
    line("Decision", &snapshot.reason);
    text
}

fn rest(text: &mut String, snapshot: &PlacementSnapshot) {
    if snapshot.asleep > 0 {
        let _ = writeln!(text, "{FAINT}and {} sleeping threads{FAINT:#}", snapshot.asleep);
    }
}

fn style_of(thread: &ThreadView) -> Style {
    match thread.class {
        _ if thread.is_foreground => GOOD,
        Class::Bulk => WARN,
        _ => FAINT,
    }
}
