//! Replays a recording: the mechanisms receive the recorded events again, over a tree of the recorded files. This device is
//! neither read nor changed.
//!
//! Under the recorded configuration they receive the recorded outcomes. Under another one their decisions may differ, so every
//! decision is taken as carried out, as in a dry run, and deadlines pass when the mechanisms ask for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use super::MAXIMUM_ROUNDS;
use super::executor::{Executor, Output, Sink};
use super::mechanisms::{Decided, Mechanisms};
use super::recording::{EventRecord, FORMAT};
use brisk_config::Config;
use brisk_mechanism::{Action, Decision, Event, Interest, Outcome, ProbeContext, ProcessEventKind, Support, list};
use brisk_sys::{BootTime, Root, file_recorder};

/// A file with a longer line is no recording: a sample of thousands of threads takes 2 MiB.
const LINE_LIMIT_BYTES: u64 = 64 << 20;
/// The most deadlines between two records: a mechanism that asks for the same one again and again would never end.
const MAXIMUM_DEADLINES: u32 = 100_000;

/// A decision that is only in the recording or only in the replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Since the start of the recording, in milliseconds.
    pub at_ms: f64,
    /// The mechanism that decided.
    pub mechanism: String,
    /// True when it is in the recording, false when it is in the replay.
    pub is_recorded: bool,
    /// How long a lease lasts at most, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lasts_ms: Option<f64>,
    /// The action and its reason.
    #[serde(flatten)]
    pub decision: Decision,
}

/// The number of a mechanism's decisions, and its support.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Count {
    /// Its name.
    pub mechanism: String,
    /// Decisions in the recording.
    pub recorded: usize,
    /// Decisions in the replay.
    pub replayed: usize,
    /// Its support at the end of the replay.
    pub support: Support,
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replayed {
    /// The version of brisk that recorded.
    pub brisk: String,
    /// The kernel release that it ran on.
    pub kernel: String,
    /// From the first event to the last, in seconds.
    pub seconds: f64,
    pub events: u64,
    /// The recording reached its size limit before the daemon ended.
    pub is_full: bool,
    /// Each mechanism's decisions.
    pub mechanisms: Vec<Count>,
    /// Decisions that are only in one of the two, in the order of time.
    pub differences: Vec<Difference>,
    /// Kinds of events that mechanisms wanted and that the recording lacks.
    pub missing_events: BTreeSet<&'static str>,
}

/// The time of a decision, the index of its mechanism, and the decision.
type TimedDecision = (BootTime, usize, Decision);

/// Replays the recording in `lines`, under the configuration `other` if given. Files are laid out in `tree`, which must be
/// empty.
///
/// # Errors
/// A recording that is cut, damaged, or of another version, with the line.
pub fn replay(lines: impl BufRead, other: Option<&Config>, tree: &Path) -> anyhow::Result<Replayed> {
    let mut lines = Lines { lines, number: 0 };
    let Some(EventRecord::Opened { format, brisk, kernel, mechanisms }) = lines.next()? else {
        bail!("line 1 does not open a recording; `brisk daemon --record FILE` writes one");
    };
    ensure!(format == FORMAT, "the recording has format {format}, and this brisk reads format {FORMAT}");
    let mut replay = Replay::new(tree, other);
    let known: Vec<_> = replay.mechanisms.all().map(|mechanism| mechanism.name().to_owned()).collect();
    ensure!(known == mechanisms, "the recording is of the mechanisms {mechanisms:?}, and this brisk has {known:?}");
    let mut is_full = None;
    while let Some(record) = lines.next()? {
        ensure!(is_full.is_none(), "line {}: something follows the end of the recording", lines.number);
        if let EventRecord::Closed { records, is_full: was_full } = record {
            ensure!(records + 1 == lines.number, "line {}: lines before it are missing", lines.number);
            is_full = Some(was_full);
        } else {
            replay.take(record).with_context(|| format!("line {}", lines.number))?;
        }
    }
    let is_full = is_full.with_context(|| {
        format!("the recording is cut after line {}: the daemon was killed, or the disk was full", lines.number)
    })?;
    Ok(replay.finish(brisk, kernel, is_full))
}

struct Lines<Source> {
    lines: Source,
    number: u64,
}

impl<Source: BufRead> Lines<Source> {
    fn next(&mut self) -> anyhow::Result<Option<EventRecord>> {
        let mut line = Vec::new();
        let length = io::Read::take(&mut self.lines, LINE_LIMIT_BYTES).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        ensure!(line.ends_with(b"\n"), "line {} is cut", self.number);
        serde_json::from_slice(&line).map(Some).with_context(|| format!("line {} is no record", self.number))
    }
}

struct Replay {
    mechanisms: Mechanisms,
    root: Root,
    config: Config,
    /// Under another configuration than the recorded one: carries out its decisions.
    other: Option<Executor>,
    /// The decisions of the recording.
    recorded: Vec<TimedDecision>,
    /// The decisions of this replay.
    made: Vec<TimedDecision>,
    first: Option<BootTime>,
    now: BootTime,
    events: u64,
    /// The kinds of events in the recording, and those that mechanisms asked for.
    recorded_kinds: BTreeSet<&'static str>,
    wanted: BTreeSet<&'static str>,
}

impl Replay {
    fn new(tree: &Path, other: Option<&Config>) -> Self {
        let root = Root::at(tree);
        let dry = || Sink::DryRun { json: false, leases: Vec::new(), output: Output::to(io::sink()) };
        Self {
            mechanisms: Mechanisms::new(list::all()),
            config: other.cloned().unwrap_or_default(),
            other: other.map(|_| Executor::new(root.clone(), dry())),
            root,
            recorded: Vec::new(),
            made: Vec::new(),
            first: None,
            now: BootTime::default(),
            events: 0,
            recorded_kinds: BTreeSet::new(),
            wanted: BTreeSet::new(),
        }
    }

    fn position(&self, name: &str) -> anyhow::Result<usize> {
        self.mechanisms.position(name).with_context(|| format!("there is no mechanism {name:?}"))
    }

    /// Advances to `at`: under another configuration, deadlines until then pass first.
    fn advance(&mut self, at: BootTime) -> anyhow::Result<()> {
        ensure!(at >= self.now, "its time is before that of the record before it");
        self.first.get_or_insert(at);
        for _ in 0..MAXIMUM_DEADLINES {
            let Some(executor) = &mut self.other else { break };
            let due = [self.mechanisms.deadline(), executor.next_deadline()].into_iter().flatten().min();
            let Some(due) = due.filter(|due| *due <= at) else { break };
            self.now = self.now.max(due);
            let ended = executor.expire(self.now);
            self.deliver_ended(ended);
            if self.mechanisms.deadline().is_some_and(|deadline| deadline <= self.now) {
                self.deliver(None, &Event::Deadline);
            }
        }
        self.now = at;
        Ok(())
    }

    fn take(&mut self, record: EventRecord) -> anyhow::Result<()> {
        match record {
            EventRecord::Opened { .. } | EventRecord::Closed { .. } => bail!("this record is out of place"),
            EventRecord::Recalled { mechanism, text } => {
                let index = self.position(&mechanism)?;
                self.mechanisms.load_state(index, &text);
            }
            EventRecord::Configured { text } if self.other.is_none() => {
                self.config = Config::parse(&text).context("the configuration is of another version")?;
            }
            EventRecord::Configured { .. } => {}
            EventRecord::Found { files } => file_recorder::lay_out(&files, self.root.path("/").as_path())?,
            EventRecord::LetGo { at, is_new_configuration } => {
                self.on_device(at, is_new_configuration, Mechanisms::prepare_reconfigure)?;
            }
            EventRecord::Followed { at, is_new_configuration } => {
                self.on_device(at, is_new_configuration, Mechanisms::reconfigure)?;
            }
            EventRecord::Happened { at, to, event } => {
                self.advance(at)?;
                self.events += 1;
                self.recorded_kinds.insert(kind(&event));
                let to = to.map(|name| self.position(&name)).transpose()?;
                if self.other.is_none() || event != Event::Deadline {
                    self.deliver(to, &event);
                }
            }
            EventRecord::Foreground { pids } => self.mechanisms.set_initial_foreground(&pids),
            EventRecord::Decided { at, mechanism, decisions } => {
                let index = self.position(&mechanism)?;
                self.recorded.extend(decisions.into_iter().map(|decision| (at, index, decision)));
            }
            EventRecord::Became { at, mechanism, outcomes } => {
                let index = self.position(&mechanism)?;
                if self.other.is_none() {
                    self.advance(at)?;
                    self.deliver_outcomes(index, &outcomes);
                }
            }
            EventRecord::Stopped { at } => {
                self.advance(at)?;
                let decided = self.mechanisms.stop(at);
                self.execute_all(decided);
            }
        }
        Ok(())
    }

    /// Calls `deliver` with the recorded device and the configuration.
    fn on_device(
        &mut self,
        at: BootTime,
        is_new_configuration: bool,
        deliver: fn(&mut Mechanisms, BootTime, ProbeContext<'_>) -> Decided,
    ) -> anyhow::Result<()> {
        self.advance(at)?;
        let probe_context = ProbeContext { root: &self.root, settings: &self.config, is_new_configuration };
        let decided = deliver(&mut self.mechanisms, at, probe_context);
        self.execute_all(decided);
        Ok(())
    }

    fn deliver(&mut self, to: Option<usize>, event: &Event) {
        for index in 0..self.mechanisms.len() {
            if to.is_none_or(|to| to == index) {
                let mut decisions = Vec::new();
                self.mechanisms.at(index).on_event(self.now, event, &mut decisions);
                self.execute_decisions(index, decisions);
            }
        }
    }

    fn deliver_outcomes(&mut self, index: usize, outcomes: &[Outcome]) {
        let mut decisions = Vec::new();
        self.mechanisms.on_outcomes(self.now, index, outcomes, &mut decisions);
        self.execute_decisions(index, decisions);
    }

    fn deliver_ended(&mut self, ended: Vec<(&'static str, Outcome)>) {
        for (owner, outcome) in ended {
            if let Some(index) = self.mechanisms.position(owner) {
                self.deliver_outcomes(index, &[outcome]);
            }
        }
    }

    fn execute_all(&mut self, decided: Decided) {
        for (index, decisions) in decided.into_iter().enumerate() {
            self.execute_decisions(index, decisions);
        }
    }

    /// Records the decisions of the mechanism at `index`; under another configuration, carries them out as in a dry run.
    fn execute_decisions(&mut self, index: usize, mut decisions: Vec<Decision>) {
        self.discard_requests();
        for _ in 0..MAXIMUM_ROUNDS {
            if decisions.is_empty() {
                return;
            }
            self.made.extend(decisions.iter().map(|decision| (self.now, index, decision.clone())));
            let Some(executor) = &mut self.other else { return };
            let outcomes = executor.execute_each(self.now, self.mechanisms.at(index).name(), &decisions);
            decisions.clear();
            self.mechanisms.on_outcomes(self.now, index, &outcomes, &mut decisions);
            let lost = executor.lost();
            self.deliver_ended(lost);
        }
    }

    /// Drops the mechanisms' questions to the daemon: the recording has the answers.
    fn discard_requests(&mut self) {
        self.mechanisms.take_questions(&mut VecDeque::new());
        self.mechanisms.take_notifications(&mut Vec::new());
        for index in 0..self.mechanisms.len() {
            self.mechanisms.at(index).take_child_input(&mut Vec::new());
        }
        self.wanted.extend(kinds(&self.mechanisms.interest()));
    }

    fn finish(self, brisk: String, kernel: String, is_full: bool) -> Replayed {
        let first = self.first.unwrap_or_default();
        let count = |made: &[TimedDecision], index: usize| made.iter().filter(|(_, of, _)| *of == index).count();
        let counts = self.mechanisms.all().enumerate().map(|(index, mechanism)| Count {
            mechanism: mechanism.name().to_owned(),
            recorded: count(&self.recorded, index),
            replayed: count(&self.made, index),
            support: mechanism.support().clone(),
        });
        let mechanisms: Vec<Count> = counts.collect();
        let difference = |is_recorded: bool, (at, index, decision): TimedDecision| Difference {
            at_ms: at.since(first).as_secs_f64() * 1e3,
            mechanism: mechanisms[index].mechanism.clone(),
            is_recorded,
            lasts_ms: match decision.action {
                Action::Lease { until, .. } => Some(until.since(at).as_secs_f64() * 1e3),
                _ => None,
            },
            decision,
        };
        let (recorded, replayed) = unmatched(self.recorded, self.made);
        let mut differences: Vec<Difference> = recorded.into_iter().map(|made| difference(true, made)).collect();
        differences.extend(replayed.into_iter().map(|made| difference(false, made)));
        differences.sort_by(|one, other| one.at_ms.total_cmp(&other.at_ms));
        Replayed {
            brisk,
            kernel,
            seconds: self.now.since(first).as_secs_f64(),
            events: self.events,
            is_full,
            differences,
            missing_events: &self.wanted - &self.recorded_kinds,
            mechanisms,
        }
    }
}

/// The decisions that are only in one of the two. Equal decisions of a mechanism at the same time match.
fn unmatched(recorded: Vec<TimedDecision>, made: Vec<TimedDecision>) -> (Vec<TimedDecision>, Vec<TimedDecision>) {
    let alike = |all: Vec<TimedDecision>| {
        let mut alike: BTreeMap<_, Vec<TimedDecision>> = BTreeMap::new();
        for one in all {
            let (at, index, decision) = &one;
            alike.entry((*at, *index, format!("{decision:?}"))).or_default().push(one);
        }
        alike
    };
    let (mut recorded, mut made) = (alike(recorded), alike(made));
    for (key, recorded) in &mut recorded {
        if let Some(made) = made.get_mut(key) {
            let common = recorded.len().min(made.len());
            recorded.drain(..common);
            made.drain(..common);
        }
    }
    (recorded.into_values().flatten().collect(), made.into_values().flatten().collect())
}

/// The name of an event's kind, for the list of missing events.
fn kind(event: &Event) -> &'static str {
    match event {
        Event::Process(process) => process_kind(process.kind),
        Event::Foreground { .. } => "foreground changes",
        Event::Session { .. } => "session changes",
        Event::Load { .. } => "samples of the load",
        Event::Threads { .. } => "samples of threads",
        Event::MemoryStall => "memory stalls",
        _ => "others",
    }
}

fn process_kind(kind: ProcessEventKind) -> &'static str {
    match kind {
        ProcessEventKind::Fork => "fork events",
        ProcessEventKind::Exec => "exec events",
        ProcessEventKind::Comm => "comm events",
        ProcessEventKind::Uid => "uid events",
        ProcessEventKind::Exit => "exit events",
    }
}

/// The kinds of events that `interest` asks for, by the names of [`kind`].
fn kinds(interest: &Interest) -> Vec<&'static str> {
    use ProcessEventKind::{Comm, Exec, Exit, Fork, Uid};
    let processes = [Fork, Exec, Comm, Uid, Exit].into_iter().filter(|kind| interest.kinds.contains(*kind));
    let others = [
        (interest.foreground, "foreground changes"),
        (interest.session, "session changes"),
        (interest.load_period.is_some(), "samples of the load"),
        (interest.sampling_period.is_some(), "samples of threads"),
        (interest.stall.is_some(), "memory stalls"),
    ];
    let others = others.into_iter().filter_map(|(is_wanted, name)| is_wanted.then_some(name));
    processes.map(process_kind).chain(others).collect()
}
