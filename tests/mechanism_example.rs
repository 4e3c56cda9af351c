//! The smallest mechanism: it counts programs that start and does nothing about them. CONTRIBUTING.md starts from it;
//! here it is kept honest.

use std::time::Duration;

use brisk::device::BootTime;
use brisk::mechanism::{
    Decision, Event, Interest, Mechanism, Outcome, Process, ProcessEvent, ProcessEventKind, ProcessEventKinds, Support,
    SupportState,
};

/// Watches programs start and says how many there were in the last minute.
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

impl Mechanism for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn support(&self) -> &Support {
        &self.support
    }

    // The engine subscribes to what is asked for here and to nothing else.
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

    // What the kernel made of each decision. A mechanism that leases keeps a `Holdings`, which takes these.
    fn on_outcomes(&mut self, _now: BootTime, _outcomes: &[Outcome], _decisions: &mut Vec<Decision>) {}

    fn deadline(&self) -> Option<BootTime> {
        self.minute_began.map(|began| began + MINUTE)
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        self.minute_began.map(|began| (began, format!("{} programs started", self.programs)))
    }
}

/// What the engine does, without an engine: events in a table, each with its time and what is expected after it.
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
