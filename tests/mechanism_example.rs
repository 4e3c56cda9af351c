//! The smallest mechanism: it counts programs that start and takes no action. CONTRIBUTING.md starts from it; this test keeps
//! it working.

use std::cell::RefCell;
use std::fs;
use std::time::Duration;

use brisk::daemon::{Engine, Options, Purpose};
use brisk::mechanism::{
    Action, Child, Decision, Event, Facts, HourFigures, Interest, LaunchBoost, Mechanism, Notification, Observation,
    Outcome, Policy, Preview, ProbeContext, Process, ProcessEvent, ProcessEventKind, ProcessEventKinds, Question,
    SavedState, Stall, StateFileSpec, Support, SupportState, Target, ThreadDemand, list,
};
use brisk::sys::{BootTime, Root};

/// Observes program starts and reports how many there were in the last minute.
#[derive(Debug)]
struct Nothing {
    support: Support,
    minute_began: Option<BootTime>,
    programs: u32,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Nothing {
    fn new() -> Self {
        let reason = "it needs nothing of the device".to_owned();
        Self {
            support: Support { state: SupportState::Active, reason, advice: String::new() },
            minute_began: None,
            programs: 0,
        }
    }
}

// Code that reads the device is in `driver.rs`: this mechanism reads nothing, and has no configuration section.
impl Mechanism for Nothing {
    fn reconfigure(&mut self, _now: BootTime, _probe_context: &ProbeContext<'_>, _decisions: &mut Vec<Decision>) {}
}

impl Policy for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn support(&self) -> &Support {
        &self.support
    }

    // The engine subscribes only to the events that are requested here.
    fn interest(&self) -> Interest {
        Interest { kinds: ProcessEventKinds::default().with(ProcessEventKind::Exec), ..Interest::default() }
    }

    // Time is an argument and actions are results: no clock, no file, no lock. A mechanism that acts appends
    // `Decision { action: Action::Lease { .. }, reason }` to the decisions.
    fn on_event(&mut self, now: BootTime, event: &Event, _decisions: &mut Vec<Decision>) {
        match event {
            Event::Process(ProcessEvent { kind: ProcessEventKind::Exec, .. }) => {
                self.minute_began.get_or_insert(now);
                self.programs += 1;
            }
            Event::Deadline if self.deadline().is_some_and(|deadline| deadline <= now) => {
                self.minute_began = None;
                self.programs = 0;
            }
            _ => {}
        }
    }

    // How the kernel applied each decision. A mechanism that leases keeps a `LeaseSet`, which processes these.
    fn on_outcomes(&mut self, _now: BootTime, _outcomes: &[Outcome], _decisions: &mut Vec<Decision>) {}

    fn deadline(&self) -> Option<BootTime> {
        self.minute_began.map(|began| began + MINUTE)
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        self.minute_began.map(|began| (began, format!("{} programs started", self.programs)))
    }
}

/// Drives the mechanism without an engine: a table of events, each with its time and the expected activity after it.
// Verifies HOUSE-2.
#[test]
fn it_counts_for_a_minute_and_decides_nothing() {
    let exec = || {
        let process = Process { pid: 7, ..Process::default() };
        Event::Process(ProcessEvent { kind: ProcessEventKind::Exec, process })
    };
    let table = [
        (1_000, Event::DeviceChanged, None),
        (2_000, exec(), Some("1 programs started")),
        (2_500, exec(), Some("2 programs started")),
        (61_999, Event::Deadline, Some("2 programs started")),
        (62_000, Event::Deadline, None),
        (62_001, exec(), Some("1 programs started")),
    ];
    let mut mechanism = Nothing::new();
    let mut decisions = Vec::new();
    for (milliseconds, event, expected) in table {
        mechanism.on_event(BootTime::from_milliseconds(milliseconds), &event, &mut decisions);
        let activity = mechanism.activity().map(|(_, text)| text);
        assert_eq!(activity.as_deref(), expected, "at {milliseconds} ms, after {event:?}");
    }
    assert_eq!(decisions, []);
    assert_eq!(mechanism.support().state, SupportState::Active);
    assert_eq!(mechanism.name(), "nothing");
    assert!(mechanism.interest().kinds.contains(ProcessEventKind::Exec));
}

/// A mechanism that uses every feature of the engine: it boosts one launch by a lease and a child, asks a question meanwhile,
/// and notes what it receives.
#[derive(Debug, Default)]
struct Everything {
    support: Support,
    until: Option<BootTime>,
    questions: Vec<Question>,
    notifications: Vec<Notification>,
    child: Option<Child>,
    probe_requested: bool,
}

thread_local! {
    /// What it has received: the engine runs in its test's thread.
    static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn hear(what: impl Into<String>) {
    HEARD.with_borrow_mut(|heard| heard.push(what.into()));
}

impl Mechanism for Everything {
    fn reconfigure(&mut self, _now: BootTime, probe_context: &ProbeContext<'_>, _decisions: &mut Vec<Decision>) {
        let present = probe_context.root.read("/sys/devices/system/cpu/present").unwrap_or_default();
        hear(format!("CPUs {} are present", present.trim()));
        self.support = Support { state: SupportState::Active, ..Support::default() };
    }

    fn preview(&self, _root: &Root) -> Vec<Preview> {
        vec![Preview::new("start", "a child", "it is wanted")]
    }

    // Only while telemetry is on, which it never is in a dry run.
    fn add_hour_figures(&mut self, _root: &Root, figures: &mut HourFigures) {
        figures.lookup_hits = Some(1);
    }

    fn slow_observer(&self) -> Option<fn(&Root) -> Option<Observation>> {
        Some(|root| {
            let length_ms = root.read("/sys/a").ok()?.trim().parse().ok()?;
            Some(Observation::Boot { length_ms, kernel_ms: None, performance_held: None })
        })
    }
}

impl Policy for Everything {
    fn name(&self) -> &'static str {
        "everything"
    }

    fn support(&self) -> &Support {
        &self.support
    }

    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>) {
        match event {
            Event::LaunchAnnounced { application, .. } => {
                hear(format!("{application} starts"));
                self.child = Some(Child { generation: 1, subcommand: "example", arguments: Vec::new() });
                self.until = Some(now + MINUTE);
                self.questions.push(Question::StorageWait { processes: [1].into() });
                self.notifications.push(Notification { is_new_launch: true, text: None });
                let (target, value) = (Target::Tunable("/sys/a".into()), "1".to_owned());
                let action = Action::Lease { target, value, until: now + MINUTE };
                decisions.push(Decision { action, reason: "to be seen".to_owned() });
            }
            Event::StallsWatched { is_on } => hear(format!("stalls are watched: {is_on}")),
            Event::Facts(Facts::StorageWait { waited, .. }) => {
                hear(format!("answered: {waited:?}"));
                self.probe_requested = true;
                self.until = Some(now + Duration::from_millis(300));
            }
            Event::Deadline if self.until.is_some_and(|until| until <= now) => {
                hear("its deadline");
                self.until = None;
            }
            _ => {}
        }
    }

    fn on_outcomes(&mut self, _now: BootTime, outcomes: &[Outcome], _decisions: &mut Vec<Decision>) {
        outcomes.iter().for_each(|outcome| hear(format!("{} holds {:?}", outcome.target, outcome.held)));
    }

    fn deadline(&self) -> Option<BootTime> {
        self.until
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        None
    }

    fn stop(&mut self, decisions: &mut Vec<Decision>) {
        let action = Action::Release { target: Target::Tunable("/sys/a".into()) };
        decisions.push(Decision { action, reason: "the end".to_owned() });
    }

    fn set_initial_foreground(&mut self, _pids: &[u32]) {}

    fn interest(&self) -> Interest {
        Interest { stall: Some(Stall { stall_us: 25_000, window_us: 500_000 }), ..Interest::default() }
    }

    fn child(&self) -> Option<&Child> {
        self.child.as_ref()
    }

    fn take_child_input(&mut self, lines: &mut Vec<String>) {
        lines.extend(self.child.as_ref().map(|child| format!("to number {}", child.generation)));
    }

    fn demand_threads(&self, demand: &mut ThreadDemand) {
        demand.facts.push(1);
    }

    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
    }

    fn take_probe_request(&mut self) -> bool {
        std::mem::take(&mut self.probe_requested)
    }

    fn unreserved_cpus(&self) -> Option<&[u32]> {
        Some(&[0])
    }

    fn append_tunables(&self, tunables: &mut Vec<Target>) {
        tunables.push(Target::Tunable("/sys/a".into()));
    }

    fn launch_boost(&self) -> Option<LaunchBoost<'_>> {
        Some(LaunchBoost { support: &self.support, is_active: self.until.is_some() })
    }

    fn take_notifications(&mut self, notifications: &mut Vec<Notification>) {
        notifications.append(&mut self.notifications);
    }

    fn take_observations(&mut self, _observations: &mut Vec<Observation>) {}

    fn saved_state(&self) -> Option<SavedState> {
        const FILE: StateFileSpec =
            StateFileSpec { name: "everything.json", what: "it", if_damaged: "it is lost", is_durable: false };
        Some(SavedState { file: FILE, text: "known".to_owned() })
    }

    fn load_state(&mut self, text: &str) -> bool {
        hear(format!("it has kept {text}"));
        true
    }
}

/// One line in the list is enough for the engine to drive it like the product's own mechanisms.
// Verifies HOUSE-2.
#[test]
fn a_mechanism_plugs_in_by_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    write("sys/devices/system/cpu/present", "0-1\n");
    write("var/lib/brisk/everything.json", "something");
    write("sys/a", "0\n");
    let config = write("brisk.toml", "[launch]\ntriggers = [\"announced\"]\n");
    let mechanisms = || {
        let mut mechanisms = list::all();
        mechanisms.push(Box::<Everything>::default());
        mechanisms
    };
    let purpose = Purpose::DryRun { json: true };
    let options = Options { root: Root::at(folder.path()), config: Some(config), purpose, record: None, mechanisms };
    let engine = Engine::start(options).unwrap();
    let status = engine.status(BootTime::now());
    let names: Vec<&str> = status.mechanisms.iter().map(|mechanism| mechanism.name.as_str()).collect();
    assert!(names.contains(&"launch") && names.contains(&"everything"), "{names:?}");
    engine.boost_launch("mail", 1).unwrap();
    let expected = [
        "it has kept something",
        "CPUs 0-1 are present",
        // A dry run creates no PSI trigger.
        "stalls are watched: false",
        "mail starts",
        "/sys/a holds Some(\"1\")",
        "answered: None",
        // It has requested another probe.
        "CPUs 0-1 are present",
        "its deadline",
        "/sys/a holds None",
    ];
    assert_eq!(HEARD.take(), expected);
    assert_eq!(fs::read_to_string(folder.path().join("sys/a")).unwrap(), "0\n", "a dry run writes nothing");
}
