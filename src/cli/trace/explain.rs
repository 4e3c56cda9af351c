//! `brisk trace explain`: a window of a recorded trace, split into its causes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::Style;
use anyhow::{Context as _, ensure};

use crate::cli::output;
use brisk_trace::explain::{Explanation, Window, explain};
use brisk_trace::json::{self, File, Report, SCHEMA};
use brisk_trace::launches::{self, Launch};
use brisk_trace::model::Tid;
use brisk_trace::remedy::{self, Mechanism, Remedies, WhatIf, what_if};
use brisk_trace::target::{self, TargetError, Wanted};
use brisk_trace::threads::{self, Timelines};
use brisk_trace::{Trace, html, read, svg, waterfall, words};

/// Arguments of `brisk trace explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads Perfetto's traces, text of ftrace (tracefs's trace, trace-cmd report, atrace), systrace's
HTML, and trace-cmd's trace.dat (versions 6 and 7), also packed by gzip or zstd. The events
sched_switch and sched_waking are needed; cpu_frequency, block, binder, vmscan and
sched_blocked_reason tell more.

Without --process, --thread, --from and --to, launches are found: by Android's slices, by first
frames, by forks of the zygote, or by executed programs; the first or that of --launch is
explained. A process is explained by its main thread. Where that waits for another thread, the other one is followed.
The parts add up to the window exactly; --from and --to are times of the trace's clock.

What launch, placement, lookup and memory would have removed is estimated: the trace is replayed
through their decisions, with their default settings, and each estimate says what it assumes.

Exit code 0 when a window was explained, 1 when none was named and no launch found; then the
busiest processes are listed.

Examples:
  brisk trace explain trace.pftrace
  brisk trace explain trace.pftrace --launch com.example.shop --html shop.html
  brisk trace explain trace.dat --process browser --svg browser.svg
  brisk trace explain trace.dat --process browser --with launch,placement
  brisk trace explain trace.txt --thread 4711 --from 12.5 --to 13 --json")]
pub struct Arguments {
    /// The recorded trace
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Explain this launch: its number in the list, or its name
    #[arg(long, value_name = "N|NAME", conflicts_with_all = ["process", "thread", "from", "to"])]
    launch: Option<String>,
    /// Explain this process: its name or number
    #[arg(long, value_name = "NAME|PID", conflicts_with = "thread")]
    process: Option<String>,
    /// Explain this thread
    #[arg(long, value_name = "TID")]
    thread: Option<u32>,
    /// Begin the window at this time of the trace, in seconds
    #[arg(long, value_name = "S", value_parser = nanoseconds)]
    from: Option<u64>,
    /// End the window at this time of the trace, in seconds
    #[arg(long, value_name = "S", value_parser = nanoseconds)]
    to: Option<u64>,
    /// Estimate what these mechanisms would have removed, or `none`
    #[arg(long, value_name = "MECHANISM,...", default_value = "launch,placement,lookup,memory", value_parser = mechanisms)]
    with: Mechanisms,
    #[command(flatten)]
    files: Files,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What an explanation is written to as well.
#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// Write a page to zoom and search in, for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw the waterfall as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Paint the waterfall as PNG, in light colours
    #[cfg(feature = "chart")]
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

/// Seconds with decimals.
fn nanoseconds(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e10).contains(&seconds) => Ok((seconds * 1e9).round() as u64),
        _ => Err("expected seconds, as 12.5".to_owned()),
    }
}

/// Mechanisms in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mechanisms(Vec<Mechanism>);

fn mechanisms(text: &str) -> Result<Mechanisms, String> {
    if text == "none" {
        return Ok(Mechanisms(Vec::new()));
    }
    let mut found = Vec::new();
    for word in text.split(',') {
        match Mechanism::ALL.into_iter().find(|it| it.name() == word) {
            Some(mechanism) if !found.contains(&mechanism) => found.push(mechanism),
            _ => return Err("expected none, or some of launch,placement,lookup,memory, each once".to_owned()),
        }
    }
    Ok(Mechanisms(found))
}

/// What is explained; nothing is the first launch.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    /// The longest launch of this process and its descendants, where they have one; else `launch`.
    pub command: Option<Tid>,
    /// A launch was awaited and has not come: none is explained.
    pub is_unseen: bool,
    pub launch: Option<String>,
    pub process: Option<String>,
    pub thread: Option<u32>,
    pub from: Option<u64>,
    pub to: Option<u64>,
}

/// What is printed.
pub(super) struct Answer {
    pub trace: Trace,
    pub timelines: Timelines,
    notes: Vec<String>,
    /// Those found, and which of them is explained.
    pub launches: Vec<Launch>,
    pub launch: Option<usize>,
    pub window: Option<Window>,
    pub explanations: Vec<Explanation>,
    pub what_if: Option<WhatIf>,
}

/// Reads, explains and prints.
///
/// # Errors
/// When the file is no trace, has no such process, thread, launch or window, or the page cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { launch, process, thread, from, to, .. } = arguments;
    let (launch, process) = (launch.clone(), process.clone());
    let selection = Selection { launch, process, thread: *thread, from: *from, to: *to, ..Selection::default() };
    if let (Some(from_ns), Some(to_ns)) = (from, to) {
        ensure!(from_ns < to_ns, "the window ends before it begins: give a --to that is greater than --from");
    }
    let mut answer = explained(&arguments.trace, &selection)?;
    answer.estimate(&Remedies { with: arguments.with.0.clone(), ..Remedies::default() });
    answer.write(&arguments.files)?;
    output::print(&report(&answer), arguments.json, |_| text(&answer))?;
    Ok(if answer.explanations.is_empty() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

impl Answer {
    /// Adds what `remedies` would have removed.
    pub(super) fn estimate(&mut self, remedies: &Remedies) {
        let (Some(window), Some(explanation)) = (self.window, self.explanations.first()) else { return };
        if !remedies.with.is_empty() {
            self.what_if = Some(what_if(&self.trace, &self.timelines, (window, explanation), remedies));
        }
    }

    /// Writes the files, where anything was explained.
    ///
    /// # Errors
    /// When a file cannot be written, or the machine has no font for a PNG.
    pub(super) fn write(&self, files: &Files) -> anyhow::Result<()> {
        let Some(explanation) = self.explanations.first() else { return Ok(()) };
        let explained = (explanation, self.what_if.as_ref());
        let write = |file: &Path, bytes: &[u8]| {
            std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
        };
        let launch = self.launch.map(|place| &self.launches[place]);
        let drawing = || svg::render(&self.trace, explained, launch, &missing(self));
        if let Some(file) = &files.html {
            let page = html::render(&self.trace, explained, &self.launches, self.launch, &missing(self));
            write(file, page.as_bytes())?;
        }
        if let Some(file) = &files.svg {
            write(file, drawing().as_bytes())?;
        }
        #[cfg(feature = "chart")]
        if let Some(file) = &files.png {
            write(file, &brisk_chart::png::of_svg(&drawing(), svg::STYLE)?)?;
        }
        Ok(())
    }
}

/// As [`answer`]; an error names the trace.
///
/// # Errors
/// As [`run`].
pub(super) fn explained(path: &Path, selection: &Selection) -> anyhow::Result<Answer> {
    answer(path, selection).map_err(|error| match error.is::<TargetError>() {
        true => error.context(path.display().to_string()),
        false => error,
    })
}

/// Reads the trace at `path` and explains what is selected.
///
/// # Errors
/// As [`run`].
pub(super) fn answer(path: &Path, selection: &Selection) -> anyhow::Result<Answer> {
    let trace = read::read(path)?;
    let timelines = threads::resolve(&trace);
    let wanted = match (&selection.process, selection.thread) {
        (Some(process), _) => Some(Wanted::Process(process.clone())),
        (None, thread) => thread.map(Wanted::Thread),
    };
    let (notes, launches, launch_place, window, explanations, what_if) = Default::default();
    let mut answer = Answer { trace, timelines, notes, launches, launch: launch_place, window, explanations, what_if };
    let Answer { trace, timelines, .. } = &answer;
    let window = match wanted {
        Some(wanted) => {
            let (window, notes) = target::find(trace, timelines, &wanted, selection.from, selection.to)?;
            answer.notes = notes;
            Some(window)
        }
        None if selection.from.is_some() || selection.to.is_some() => None,
        None => {
            let launches = launches::find(trace, timelines);
            let of_command = selection.command.and_then(|command| launch_of(timelines, &launches, command));
            answer.launch = match of_command {
                _ if selection.is_unseen => None,
                Some(place) => Some(place),
                None => launch(&launches, selection.launch.as_deref())?,
            };
            let window = answer.launch.and_then(|place| launches[place].window());
            answer.launches = launches;
            window
        }
    };
    answer.window = window;
    answer.explanations.extend(window.map(|window| explain(&answer.trace, &answer.timelines, window)));
    Ok(answer)
}

/// The longest launch of a process or its descendants: `su -c COMMAND` only waits for the command.
fn launch_of(timelines: &Timelines, launches: &[Launch], command: Tid) -> Option<usize> {
    const GENERATIONS: usize = 64;
    let parent = |thread: &u32| timelines.threads[*thread as usize].parent;
    let descends = |thread: u32| {
        let mut ancestors = std::iter::successors(Some(thread), parent).take(GENERATIONS);
        ancestors.any(|it| timelines.threads[it as usize].process == command)
    };
    let found = launches.iter().enumerate().filter(|(_, launch)| launch.thread.is_some_and(descends));
    found.max_by_key(|(_, launch)| launch.to_ns - launch.from_ns).map(|(place, _)| place)
}

/// Which launch is explained: the wanted one, or else the first that can be.
fn launch(launches: &[Launch], wanted: Option<&str>) -> Result<Option<usize>, TargetError> {
    let Some(wanted) = wanted else { return Ok(launches.iter().position(|launch| launch.thread.is_some())) };
    let listed = launches.iter().enumerate().take(LISTED);
    let no_launch = || TargetError::NoLaunch {
        wanted: threads::readable(wanted),
        launches: listed.map(|(place, launch)| format!("{} {}", place + 1, launch.name)).collect(),
    };
    let place = launches::choose(launches, wanted).ok_or_else(no_launch)?;
    match launches[place].thread {
        Some(_) => Ok(Some(place)),
        None => Err(TargetError::NoThreadOfLaunch { launch: launches[place].name.clone() }),
    }
}

/// What the trace, its timelines and the selection lack.
pub(super) fn missing(answer: &Answer) -> Vec<&str> {
    let faults = answer.trace.faults.iter().chain(&answer.timelines.faults).chain(&answer.notes);
    faults.map(String::as_str).collect()
}

pub(super) fn report(answer: &Answer) -> Report<'_> {
    let what_if = answer.what_if.as_ref();
    let windows = answer.explanations.iter().map(|it| json::Window::of(it, what_if)).collect();
    Report { schema: SCHEMA, trace: File::of(&answer.trace, missing(answer)), launches: &answer.launches, windows }
}

const BOLD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// How many launches are listed.
const LISTED: usize = 20;

pub(super) fn text(answer: &Answer) -> String {
    let mut text = String::new();
    list(&mut text, answer);
    for explanation in &answer.explanations {
        describe(&mut text, explanation, answer.what_if.as_ref());
    }
    // Writing to a string cannot fail.
    if answer.explanations.is_empty() {
        let busiest = target::busiest(&answer.trace, &answer.timelines);
        let _ = writeln!(text, "Name a process with --process; those that ran most: {}", busiest.join(", "));
    }
    for what in missing(answer) {
        let _ = writeln!(text, "{FAINT}note: {what}{FAINT:#}");
    }
    text
}

/// The launches, with a mark at the explained one. Writing to a string cannot fail.
fn list(text: &mut String, answer: &Answer) {
    for (place, launch) in answer.launches.iter().enumerate().take(LISTED) {
        let mark = if answer.launch == Some(place) { '*' } else { ' ' };
        let length = words::ms(launch.to_ns - launch.from_ns);
        let (from, found) = (launch.from_ns as f64 / 1e9, launch.found.words());
        let _ = writeln!(text, "{mark}{:>3} {length:>12}  {} at {from:.6} s, {found}", place + 1, launch.name);
    }
    match answer.launches.len() {
        0 => {}
        count if count > LISTED => {
            let _ = writeln!(text, "     and {} more, see --json\n", count - LISTED);
        }
        _ => text.push('\n'),
    }
}

fn describe(text: &mut String, explanation: &Explanation, what_if: Option<&WhatIf>) {
    let Explanation { thread, tid, from_ns, to_ns, .. } = explanation;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let _ = writeln!(
        text,
        "{BOLD}{thread} ({tid}), {:.6} s to {:.6} s{BOLD:#}\n{}\n",
        seconds(*from_ns),
        seconds(*to_ns),
        remedy::words::sentence(explanation, what_if)
    );
    let groups = words::groups(explanation);
    for group in &groups {
        let percent = words::percent(group.ns, explanation);
        let _ = writeln!(text, "{BOLD}{:>12}{BOLD:#} {percent:>5.1} %  {}", words::ms(group.ns), group.text);
    }
    let _ = writeln!(text, "\n{}", waterfall::draw(explanation, &groups, output::terminal_columns()));
    if let Some(what_if) = what_if {
        tell_estimates(text, explanation, what_if);
    }
}

/// What each mechanism would have removed, and all together.
fn tell_estimates(text: &mut String, explanation: &Explanation, what_if: &WhatIf) {
    let together = remedy::words::together(explanation, what_if);
    let together = together.unwrap_or_else(|| "None of these is known to have made it faster".to_owned());
    let _ = writeln!(text, "{BOLD}{together}{BOLD:#}\n");
    for estimate in &what_if.estimates {
        let _ = writeln!(text, "  {:<10} {}", estimate.mechanism.name(), remedy::words::outcome(estimate));
        for assumed in &estimate.assumes {
            let _ = writeln!(text, "{FAINT}{:12} assumed: {assumed}{FAINT:#}", "");
        }
    }
    text.push('\n');
}
