//! The processes: a row for each, or for a group, with their activity over time.

use std::fmt::Write as _;

use super::MARGIN;
use super::sheet::Sheet;
use crate::columns::{Columns, runs};
use crate::fold::{Content, Row, weight_ms};
use crate::model::{Boot, Kind, Process, Span, State};
use crate::summary::seconds;
use brisk_report::svg::{Anchor, text_width};

const ROW_HEIGHT: f64 = 17.0;
const BAR_HEIGHT: f64 = 13.0;
const INDENT: f64 = 11.0;
/// Deeper rows are not indented further: names need their room.
const MAX_DEPTH: u16 = 9;

/// Filled areas: one path per class for all rows together.
#[derive(Default)]
struct Paths {
    life: String,
    by_class: Vec<(&'static str, String)>,
    ties: String,
}

impl Paths {
    fn bar(data: &mut String, x: f64, y: f64, width: f64) {
        let _ = write!(data, "M{x:.1} {y:.0}h{width:.1}v{BAR_HEIGHT}h-{width:.1}z");
    }

    fn add(&mut self, class: &'static str, x: f64, y: f64, width: f64) {
        let data = match self.by_class.iter_mut().find(|(other, _)| *other == class) {
            Some((_, data)) => data,
            None => {
                self.by_class.push((class, String::new()));
                &mut self.by_class.last_mut().expect("it was pushed").1
            }
        };
        Self::bar(data, x, y, width);
    }
}

/// A row's activity, column by column.
struct Tracks {
    cpu: Columns,
    blocked: Columns,
    stopped: Columns,
    zombie: Columns,
    call: Columns,
    life: Columns,
}

/// Draws the rows and returns the y coordinate of their end.
pub fn draw(sheet: &mut Sheet, boot: &Boot, rows: &[Row], y: f64) -> f64 {
    if rows.is_empty() {
        return y;
    }
    let mut y = heading(sheet, boot, y);
    let new = || Columns::new(sheet.scale);
    let mut tracks = Tracks { cpu: new(), blocked: new(), stopped: new(), zombie: new(), call: new(), life: new() };
    let mut paths = Paths::default();
    let mut texts = Vec::new();
    // Where the last row of each depth was, for the lines from parent to child.
    let mut above: Vec<f64> = Vec::new();
    for row in rows {
        tracks.fill(boot, row);
        bars(&mut paths, sheet, &tracks, y);
        let depth = usize::from(row.depth.min(MAX_DEPTH));
        above.truncate(depth);
        if let Some(parent) = above.last() {
            let x = MARGIN + INDENT * (depth as f64 - 1.0) + 3.5;
            let _ = write!(paths.ties, "M{x} {:.0}V{:.0}h5", parent + ROW_HEIGHT - 3.0, y + 8.0);
        }
        above.resize(depth + 1, y);
        texts.push((row, y));
        y += ROW_HEIGHT;
    }
    sheet.path("tie", &paths.ties);
    sheet.path("life", &paths.life);
    for (class, data) in std::mem::take(&mut paths.by_class) {
        sheet.path(class, &data);
    }
    for (row, y) in texts {
        label(sheet, boot, row, y);
    }
    y + 4.0
}

fn heading(sheet: &mut Sheet, boot: &Boot, y: f64) -> f64 {
    let y = y + 20.0;
    sheet.text("head", Anchor::Start, (MARGIN, y), "Processes");
    let mut legend = vec![
        ("run1", "some CPU"),
        ("run4", "a whole CPU"),
        ("blocked", "waiting for a disk"),
        ("life", "sleeping"),
        ("zombie", "dead, not collected"),
    ];
    let is_stopped = |process: &Process| process.activity.iter().any(|activity| activity.state == State::Stopped);
    if boot.processes.iter().any(is_stopped) {
        legend.push(("stopped", "stopped or traced"));
    }
    if boot.processes.iter().any(|process| process.kind == Kind::Initcall) {
        legend.push(("call", "initcall"));
    }
    let mut x = sheet.scale.left;
    for (class, label) in legend {
        sheet.rectangle(class, (x, y - 10.0), (11.0, 11.0), "");
        sheet.text("small", Anchor::Start, (x + 17.0, y), label);
        x += 17.0 + text_width(label, 11.0) + 14.0;
    }
    let x = sheet.scale.left + sheet.scale.width as f64 + 6.0;
    sheet.text("small", Anchor::Start, (x, y), "CPU time");
    y + 8.0
}

impl Tracks {
    fn fill(&mut self, boot: &Boot, row: &Row) {
        for columns in
            [&mut self.cpu, &mut self.blocked, &mut self.stopped, &mut self.zombie, &mut self.call, &mut self.life]
        {
            columns.clear();
        }
        for &member in row.members() {
            let process = &boot.processes[member];
            // A process that is in one sample only gets a bar as well.
            let Span { start_ms, end_ms } = process.span;
            self.life.add(Span::new(start_ms, end_ms.max(start_ms.saturating_add(1))), 1.0);
            for activity in &process.activity {
                if activity.cpu_permille > 0 {
                    self.cpu.add(activity.span, f32::from(activity.cpu_permille) / 1000.0);
                }
                match (process.kind, activity.state) {
                    (Kind::Initcall, _) => self.call.add(activity.span, 1.0),
                    (_, State::DiskWait) => self.blocked.add(activity.span, 1.0),
                    (_, State::Stopped) => self.stopped.add(activity.span, 1.0),
                    (_, State::Zombie) => self.zombie.add(activity.span, 1.0),
                    (_, State::Running | State::Sleeping) => {}
                }
            }
        }
    }

    fn class(&self, column: usize) -> &'static str {
        let at = |columns: &Columns| columns.values()[column];
        let cpu = at(&self.cpu);
        match () {
            () if at(&self.call) > 0.02 => "call",
            () if at(&self.blocked) > 0.3 && cpu < 0.5 => "blocked",
            () if cpu >= 0.75 => "run4",
            () if cpu >= 0.4 => "run3",
            () if cpu >= 0.15 => "run2",
            () if cpu >= 0.02 => "run1",
            () if at(&self.blocked) > 0.05 => "blocked",
            () if at(&self.zombie) > 0.3 => "zombie",
            () if at(&self.stopped) > 0.3 => "stopped",
            () => "",
        }
    }
}

fn bars(paths: &mut Paths, sheet: &Sheet, tracks: &Tracks, y: f64) {
    let left = sheet.scale.left;
    let top = y + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
    for (start, end, is_alive) in runs(tracks.life.values().iter().map(|life| *life > 0.0)) {
        if is_alive {
            Paths::bar(&mut paths.life, left + start as f64, top, (end - start) as f64);
        }
    }
    for (start, end, class) in runs((0..sheet.scale.width).map(|column| tracks.class(column))) {
        if !class.is_empty() {
            paths.add(class, left + start as f64, top, (end - start) as f64);
        }
    }
}

fn label(sheet: &mut Sheet, boot: &Boot, row: &Row, y: f64) {
    let members = row.members();
    let processes = || members.iter().map(|&member| &boot.processes[member]);
    let Some(first) = processes().next() else { return };
    let cpu_ms: u64 = processes().map(|process| u64::from(process.cpu_ms)).sum();
    let (name, count, tooltip) = match row.content {
        Content::One(_) => (first.label().to_owned(), String::new(), one(first)),
        Content::Same(_) => {
            let count = format!(" \u{d7} {}", members.len());
            (first.label().to_owned(), count, many(&first.name, members.len(), cpu_ms))
        }
        Content::Rest(_) => {
            let what = match first.kind {
                Kind::Process => "others",
                Kind::KernelThread => "kernel threads",
                Kind::Initcall => "initcalls",
            };
            let mut heaviest: Vec<&Process> = processes().collect();
            heaviest.sort_by_key(|process| std::cmp::Reverse(weight_ms(process)));
            let names: Vec<&str> = heaviest.iter().take(8).map(|process| process.label()).collect();
            (format!("{} {what}", members.len()), String::new(), many(&names.join(", "), members.len(), cpu_ms))
        }
    };
    let class = match (&row.content, first.kind) {
        (Content::Rest(_), _) => "muted",
        (_, Kind::Process) => "",
        (_, Kind::KernelThread | Kind::Initcall) => "kernel",
    };
    let x = MARGIN + INDENT * f64::from(row.depth.min(MAX_DEPTH));
    let name = short(&name, sheet.scale.left - 8.0 - x - text_width(&count, 12.0)) + &count;
    sheet.over.push_str("<g>");
    sheet.text(class, Anchor::Start, (x, y + 12.5), &name);
    let _ = writeln!(sheet.over, "<title>{}</title></g>", brisk_report::svg::escape(&tooltip));
    if cpu_ms > 0 {
        let x = sheet.scale.left + sheet.scale.width as f64 + 6.0;
        let cpu = seconds(u32::try_from(cpu_ms).unwrap_or(u32::MAX));
        sheet.text("small", Anchor::Start, (x, y + 12.5), &cpu);
    }
}

fn one(process: &Process) -> String {
    let what = process.command.as_deref().unwrap_or(&process.name);
    let number = if process.pid > 0 { format!(" (PID {})", process.pid) } else { String::new() };
    let (from, to) = (seconds(process.span.start_ms), seconds(process.span.end_ms));
    let (cpu, wait) = (seconds(process.cpu_ms), seconds(process.disk_wait_ms));
    format!("{what}{number}: {from} to {to}, CPU {cpu}, waiting for a disk {wait}")
}

fn many(names: &str, count: usize, cpu_ms: u64) -> String {
    format!("{count} processes ({names}), CPU {} together", seconds(u32::try_from(cpu_ms).unwrap_or(u32::MAX)))
}

/// `name`, or as much of its end as fits: names, as of packages, differ at the end.
fn short(name: &str, width: f64) -> String {
    const SIZE: f64 = 12.0;
    if text_width(name, SIZE) <= width {
        return name.to_owned();
    }
    let ends = name.char_indices().skip(1).map(|(at, _)| &name[at..]);
    let end = ends.into_iter().find(|end| text_width(end, SIZE) + text_width("\u{2026}", SIZE) <= width);
    format!("\u{2026}{}", end.unwrap_or_default())
}
