use super::*;
use crate::generate::Shape;
use crate::html;
use crate::model::{Activity, Core, CpuSample, Kind, Omission, Process, Span, State};
use crate::sample;
use proptest::prelude::*;

fn drawn(shape: &Shape) -> String {
    render(&sample::recording(shape))
}

// Verifies CHART-2.
#[test]
fn the_chart_has_three_parts_and_starts_with_the_gain() {
    let text = drawn(&Shape::SMALL);
    let order = [
        "Boot chart for Android",
        "What limited the boot",
        "to win",
        ">CPU<",
        ">Each CPU<",
        ">cpu3<",
        "1.80 GHz",
        ">Disks<",
        "mmcblk0",
        ">Processes<",
        "zygote64",
        "system_server",
        "drawn by brisk",
    ];
    let mut at = 0;
    for words in order {
        at += text[at..].find(words).unwrap_or_else(|| panic!("{words:?} is not where it should be"));
    }
    assert!(text.contains(" of the CPU time) works on one CPU while 3 are idle"), "the preload is named");
}

// Verifies CHART-2.
#[test]
fn charts_of_any_size_stay_readable() {
    let rows = |text: &str| text.matches("<g><text").count();
    for (processes, alive, seconds) in [(60, 40, 5), (800, 100, 30), (3000, 200, 60)] {
        let text = drawn(&Shape { processes, alive, seconds, ..Shape::SMALL });
        assert!((10..200).contains(&rows(&text)), "{processes}: {} rows", rows(&text));
        assert!(text.len() < 600_000, "{processes}: {} bytes", text.len());
    }
}

// Verifies CHART-2.
#[test]
fn no_name_can_break_it_and_nothing_is_needed() {
    let span = Span { start_ms: 0, end_ms: 1000 };
    let mut process = sample::process("</text><script>\u{1}&", span, 900, State::Running);
    process.command = Some("\"'<".to_owned());
    let header = vec![("title".to_owned(), "<b>".to_owned())];
    let omission = Omission { file: "<i>".to_owned(), what: "x", count: 1, line: 0 };
    let boot = Boot { header, span, processes: vec![process], omissions: vec![omission], ..Boot::default() };
    let text = render(&boot);
    for tag in ["<script", "<b>", "<i>", "\u{1}"] {
        assert!(!text.contains(tag), "{tag}");
    }
    assert!(render(&Boot::default()).ends_with("</svg>\n"));
}

// Verifies CHART-1.
#[test]
fn each_series_has_its_legend_and_one_sample_makes_a_bar() {
    let span = Span { start_ms: 0, end_ms: 1000 };
    let process = |state, span| sample::process("gdb", span, 0, state);
    let drawn = |processes| render(&Boot { span, processes, ..Boot::default() });
    let stopped = drawn(vec![process(State::Stopped, span)]);
    assert!(stopped.contains("stopped or traced") && stopped.contains("<path class=\"stopped\""));
    assert!(!drawn(vec![process(State::Sleeping, span)]).contains("stopped or traced"));
    assert!(html::render(&Boot::default()).contains("stopped or traced"));
    let once = drawn(vec![Process { activity: Vec::new(), ..process(State::Sleeping, Span::new(500, 500)) }]);
    assert!(once.contains("<path class=\"life\""), "a process that one sample saw has a bar");
}

// Verifies CHART-2.
#[test]
fn four_thousand_cpus_share_rows() {
    let span = Span { start_ms: 0, end_ms: 1000 };
    let cores = (0..4096).map(|number| Core { number, busy: vec![50], io_wait: vec![0], ..Core::default() }).collect();
    let cpu = vec![CpuSample { span, user: 0.5, system: 0.0, io_wait: 0.0 }];
    let text = render(&Boot { span, cpu, cores, ..Boot::default() });
    assert!(text.contains("cpu0 to cpu255") && text.contains("cpu3840 to cpu4095"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Any model is drawn without NaN and infinity. Names have no `n`, so that they cannot match the words searched for.
    // Verifies CHART-2.
    #[test]
    fn any_boot_is_drawn(
        start_ms in 0u32..5000,
        lives in prop::collection::vec((0u32..9000, 0u32..9000, any::<u16>(), 0usize..9, "[a-m<&/]{0,40}"), 0..60),
    ) {
        let mut boot = Boot { span: Span::new(start_ms, start_ms + 4000), ..Boot::default() };
        for (index, (from, length, cpu_permille, parent, name)) in lives.into_iter().enumerate() {
            let span = Span::new(from, from + length);
            boot.processes.push(Process {
                pid: index as u32, parent: index.checked_sub(parent + 1), name, command: None, kind: Kind::Process, span,
                cpu_ms: length, disk_wait_ms: 0, threads: 1, activity: vec![Activity { span, cpu_permille, state: State::DiskWait }],
            });
        }
        let text = render(&boot);
        prop_assert!(!text.contains("NaN") && !text.contains("inf"));
    }
}
