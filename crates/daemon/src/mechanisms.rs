//! The list of mechanisms, and their combined demands. All inputs of mechanisms pass through here, so they can be recorded.

use super::recording::{EventRecord, Recorder};
use brisk_config::Config;
use brisk_mechanism::{
    Decision, Event, HourFigures, Interest, LaunchBoost, Mechanism, Notification, Observation, Outcome, Policy,
    ProbeContext, ProcessEventKind, Question, ThreadDemand, ThreadSampling,
};
use brisk_sys::{BootTime, Root, Target};

/// All mechanisms, idle until [`Mechanisms::reconfigure`].
#[derive(Debug)]
pub struct Mechanisms {
    list: Vec<Box<dyn Mechanism>>,
    /// Records their inputs and decisions.
    recorder: Option<Recorder>,
}

/// The decisions of each mechanism, in list order.
pub type Decided = Vec<Vec<Decision>>;

impl Mechanisms {
    /// The given mechanisms, in the order in which they receive events.
    pub fn new(mechanisms: Vec<Box<dyn Mechanism>>) -> Self {
        Self { list: mechanisms, recorder: None }
    }

    /// Records their inputs and decisions from now on.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    fn note(&mut self, record: impl FnOnce(&[Box<dyn Mechanism>]) -> EventRecord) {
        if let Some(recorder) = &mut self.recorder {
            recorder.write(&record(&self.list));
        }
    }

    /// The number of mechanisms.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The mechanism at `index`.
    pub fn at(&mut self, index: usize) -> &mut dyn Mechanism {
        self.list[index].as_mut()
    }

    /// All mechanisms.
    pub fn all(&self) -> impl Iterator<Item = &dyn Mechanism> {
        self.list.iter().map(AsRef::as_ref)
    }

    /// The index of the mechanism `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|mechanism| mechanism.name() == name)
    }

    fn decide(&mut self, mut decide: impl FnMut(&mut dyn Mechanism, &mut Vec<Decision>)) -> Decided {
        let decided = self.list.iter_mut().map(|mechanism| {
            let mut decisions = Vec::new();
            decide(mechanism.as_mut(), &mut decisions);
            decisions
        });
        decided.collect()
    }

    /// Gives the mechanism at `index` the state that an earlier run saved; false when it is damaged.
    pub fn load_state(&mut self, index: usize, text: &str) -> bool {
        self.note(|list| EventRecord::Recalled { mechanism: list[index].name().to_owned(), text: text.to_owned() });
        self.list[index].load_state(text)
    }

    /// Records the configuration that [`Mechanisms::prepare_reconfigure`] and [`Mechanisms::reconfigure`] use from now on.
    pub fn note_configuration(&mut self, config: &Config) {
        if let Some(recorder) = &mut self.recorder {
            recorder.configure(config);
        }
    }

    /// Records what `probe` reads, in addition to the mechanisms' own probes.
    pub fn note_probe(&mut self, root: &Root, probe: impl FnOnce(&Root)) {
        if let Some(recorder) = &self.recorder {
            probe(&recorder.recording_root(root));
        }
    }

    /// Releases the leases that hide the device's own values; [`Mechanisms::reconfigure`] comes next.
    pub fn prepare_reconfigure(&mut self, now: BootTime, probe_context: ProbeContext<'_>) -> Decided {
        let is_new_configuration = probe_context.is_new_configuration;
        self.on_device(
            probe_context,
            &EventRecord::LetGo { at: now, is_new_configuration },
            |mechanism, around, decisions| {
                mechanism.prepare_reconfigure(around, decisions);
            },
        )
    }

    /// Lets each mechanism probe the device, and go on under its present state and configuration.
    pub fn reconfigure(&mut self, now: BootTime, probe_context: ProbeContext<'_>) -> Decided {
        let is_new_configuration = probe_context.is_new_configuration;
        let record = EventRecord::Followed { at: now, is_new_configuration };
        self.on_device(probe_context, &record, |mechanism, around, decisions| {
            mechanism.reconfigure(now, around, decisions);
        })
    }

    fn on_device(
        &mut self,
        probe_context: ProbeContext<'_>,
        record: &EventRecord,
        mut decide: impl FnMut(&mut dyn Mechanism, &ProbeContext<'_>, &mut Vec<Decision>),
    ) -> Decided {
        let recording_root = self.recorder.as_ref().map(|recorder| recorder.recording_root(probe_context.root));
        let probe_context =
            ProbeContext { root: recording_root.as_ref().unwrap_or(probe_context.root), ..probe_context };
        let decided = self.decide(|mechanism, decisions| decide(mechanism, &probe_context, decisions));
        if let Some(recorder) = &mut self.recorder {
            recorder.write_found_files();
            recorder.write(record);
        }
        decided
    }

    /// Records that all mechanisms receive `event`, or only the one at `to`.
    pub fn note_event(&mut self, now: BootTime, to: Option<usize>, event: &Event) {
        self.note(|list| EventRecord::Happened {
            at: now,
            to: to.map(|index| list[index].name().to_owned()),
            event: event.clone(),
        });
    }

    /// Records the decisions of the mechanism at `index`.
    pub fn note_decisions(&mut self, now: BootTime, index: usize, decisions: &[Decision]) {
        self.note(|list| EventRecord::Decided {
            at: now,
            mechanism: list[index].name().to_owned(),
            decisions: decisions.to_vec(),
        });
    }

    /// Passes the outcomes of its decisions to the mechanism at `index`.
    pub fn on_outcomes(&mut self, now: BootTime, index: usize, outcomes: &[Outcome], decisions: &mut Vec<Decision>) {
        self.note(|list| EventRecord::Became {
            at: now,
            mechanism: list[index].name().to_owned(),
            outcomes: outcomes.to_vec(),
        });
        self.list[index].on_outcomes(now, outcomes, decisions);
    }

    /// Stops all mechanisms.
    pub fn stop(&mut self, now: BootTime) -> Decided {
        self.note(|_| EventRecord::Stopped { at: now });
        self.decide(|mechanism, decisions| mechanism.stop(decisions))
    }

    /// The combined interest of all mechanisms.
    pub fn interest(&self) -> Interest {
        self.all().fold(Interest::default(), |interest, mechanism| interest.and(mechanism.interest()))
    }

    /// True when no mechanism uses an event of `kind` about `pid`.
    pub fn ignore(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        let mut interested = self.all().filter(|mechanism| mechanism.interest().kinds.contains(kind));
        interested.all(|mechanism| mechanism.ignores(now, kind, pid))
    }

    /// The processes whose exit any mechanism awaits.
    pub fn awaited_exits(&self) -> Vec<u32> {
        self.all().flat_map(|mechanism| mechanism.awaited_exits()).copied().collect()
    }

    /// The earliest deadline of any mechanism.
    pub fn deadline(&self) -> Option<BootTime> {
        self.all().filter_map(Policy::deadline).min()
    }

    /// The targets that the mechanisms write.
    pub fn tunables(&self) -> Vec<Target> {
        let mut tunables = Vec::new();
        self.all().for_each(|mechanism| mechanism.append_tunables(&mut tunables));
        tunables
    }

    /// The facts that mechanisms want with the next sample of threads, each thread once.
    pub fn thread_demand(&self) -> ThreadDemand {
        let mut demand = ThreadDemand::default();
        self.all().for_each(|mechanism| mechanism.demand_threads(&mut demand));
        demand.facts.sort_unstable();
        demand.facts.dedup();
        demand
    }

    /// How threads are sampled, according to the first mechanism that says so.
    pub fn thread_sampling(&self) -> Option<ThreadSampling<'_>> {
        self.all().find_map(Policy::thread_sampling)
    }

    /// The CPUs that no mechanism reserves, for the daemon itself; `None` when none are reserved, or all are.
    pub fn unreserved_cpus(&self) -> Option<Vec<u32>> {
        let mut unreserved = self.all().filter_map(Policy::unreserved_cpus);
        let mut cpus = unreserved.next()?.to_vec();
        unreserved.for_each(|others| cpus.retain(|cpu| others.contains(cpu)));
        (!cpus.is_empty()).then_some(cpus)
    }

    /// The support for launches by the first mechanism that boosts them.
    pub fn launch_boost(&self) -> Option<LaunchBoost<'_>> {
        self.all().find_map(Policy::launch_boost)
    }

    /// True while any mechanism boosts a launch.
    pub fn is_boosting_launch(&self) -> bool {
        self.all().filter_map(Policy::launch_boost).any(|help| help.is_active)
    }

    /// Tells all mechanisms whether a client watches their notifications.
    pub fn set_watched(&mut self, watched: bool) {
        self.list.iter_mut().for_each(|mechanism| mechanism.set_watched(watched));
    }

    /// Passes to all mechanisms the foreground processes at the start of the watch.
    pub fn set_initial_foreground(&mut self, pids: &[u32]) {
        self.note(|_| EventRecord::Foreground { pids: pids.to_vec() });
        self.list.iter_mut().for_each(|mechanism| mechanism.set_initial_foreground(pids));
    }

    /// Appends the notifications for clients.
    pub fn take_notifications(&mut self, notifications: &mut Vec<Notification>) {
        self.list.iter_mut().for_each(|mechanism| mechanism.take_notifications(notifications));
    }

    /// Appends what mechanisms have observed for telemetry.
    pub fn take_observations(&mut self, observations: &mut Vec<Observation>) {
        self.list.iter_mut().for_each(|mechanism| mechanism.take_observations(observations));
    }

    /// Lets each mechanism add its part of telemetry's hourly row.
    pub fn add_hour_figures(&mut self, root: &Root, figures: &mut HourFigures) {
        self.list.iter_mut().for_each(|mechanism| mechanism.add_hour_figures(root, figures));
    }

    /// Lets each mechanism read the device again for its status.
    pub fn refresh(&mut self, now: BootTime, root: &Root) {
        self.list.iter_mut().for_each(|mechanism| mechanism.refresh(now, root));
    }

    /// Appends the mechanisms' questions, each with the index of its mechanism.
    pub fn take_questions(&mut self, asked: &mut impl Extend<(usize, Question)>) {
        let mut questions = Vec::new();
        for (index, mechanism) in self.list.iter_mut().enumerate() {
            mechanism.take_questions(&mut questions);
            asked.extend(questions.drain(..).map(|question| (index, question)));
        }
    }

    /// True when any mechanism wants the device to be probed again.
    pub fn take_probe_requests(&mut self) -> bool {
        let mut is_wanted = false;
        for mechanism in &mut self.list {
            is_wanted |= mechanism.take_probe_request();
        }
        is_wanted
    }

    /// The support of each mechanism, in one line.
    pub fn describe(&self) -> String {
        let each = self.all().map(|mechanism| format!("{}: {}", mechanism.name(), mechanism.support().reason));
        each.collect::<Vec<_>>().join("; ")
    }
}

/// The targets that `mechanisms` would write on the device below `root` under `settings`; nothing is written.
pub fn tunables_of(mut mechanisms: Mechanisms, root: &Root, settings: &dyn brisk_mechanism::Settings) -> Vec<Target> {
    let probe_context = ProbeContext { root, settings, is_new_configuration: true };
    drop(mechanisms.reconfigure(BootTime::now(), probe_context));
    mechanisms.tunables()
}
