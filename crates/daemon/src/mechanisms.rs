//! The list of mechanisms, and what they want together. What they are told goes through here, where it can be recorded.

use super::recording::{EventRecord, Recorder};
use brisk_config::Config;
use brisk_mechanism::{
    Decision, Event, Interest, LaunchHelp, Mechanism, News, Outcome, Policy, ProcessEventKind, Question, Surroundings,
    ThreadDemand, ThreadSampling,
};
use brisk_sys::{BootTime, Root, Target};

/// All of them. It begins idle, until [`Mechanisms::follow`].
#[derive(Debug)]
pub struct Mechanisms {
    list: Vec<Box<dyn Mechanism>>,
    /// Where what they are told is recorded.
    recorder: Option<Recorder>,
}

/// What each of them has decided, in their order.
pub type Decided = Vec<Vec<Decision>>;

impl Mechanisms {
    /// These, in the order in which they hear of an event.
    pub fn new(mechanisms: Vec<Box<dyn Mechanism>>) -> Self {
        Self { list: mechanisms, recorder: None }
    }

    /// Records from now on what they are told and decide.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    fn note(&mut self, record: impl FnOnce(&[Box<dyn Mechanism>]) -> EventRecord) {
        if let Some(recorder) = &mut self.recorder {
            recorder.write(&record(&self.list));
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// One of them, to be driven.
    pub fn at(&mut self, index: usize) -> &mut dyn Mechanism {
        self.list[index].as_mut()
    }

    /// Each of them.
    pub fn all(&self) -> impl Iterator<Item = &dyn Mechanism> {
        self.list.iter().map(AsRef::as_ref)
    }

    /// Where in the list the one called `name` is.
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

    /// Gives the one at `index` what an earlier run has kept; false when that is damaged.
    pub fn recall(&mut self, index: usize, text: &str) -> bool {
        self.note(|list| EventRecord::Recalled { mechanism: list[index].name().to_owned(), text: text.to_owned() });
        self.list[index].recall(text)
    }

    /// Notes the configuration that [`Mechanisms::let_go`] and [`Mechanisms::follow`] hand out from now on.
    pub fn note_configuration(&mut self, config: &Config) {
        if let Some(recorder) = &mut self.recorder {
            recorder.configure(config);
        }
    }

    /// Notes what `probe` finds, beside what the mechanisms themselves probe for.
    pub fn note_probe(&mut self, root: &Root, probe: impl FnOnce(&Root)) {
        if let Some(recorder) = &self.recorder {
            probe(&recorder.noting(root));
        }
    }

    /// Releases what would hide the device's own values; [`Mechanisms::follow`] comes next.
    pub fn let_go(&mut self, now: BootTime, surroundings: Surroundings<'_>) -> Decided {
        let is_new_configuration = surroundings.is_new_configuration;
        self.on_device(
            surroundings,
            &EventRecord::LetGo { at: now, is_new_configuration },
            |mechanism, around, decisions| {
                mechanism.let_go(around, decisions);
            },
        )
    }

    /// Lets each of them probe, and go on under what is there now.
    pub fn follow(&mut self, now: BootTime, surroundings: Surroundings<'_>) -> Decided {
        let is_new_configuration = surroundings.is_new_configuration;
        let record = EventRecord::Followed { at: now, is_new_configuration };
        self.on_device(surroundings, &record, |mechanism, around, decisions| mechanism.follow(now, around, decisions))
    }

    fn on_device(
        &mut self,
        surroundings: Surroundings<'_>,
        record: &EventRecord,
        mut decide: impl FnMut(&mut dyn Mechanism, &Surroundings<'_>, &mut Vec<Decision>),
    ) -> Decided {
        let noting = self.recorder.as_ref().map(|recorder| recorder.noting(surroundings.root));
        let surroundings = Surroundings { root: noting.as_ref().unwrap_or(surroundings.root), ..surroundings };
        let decided = self.decide(|mechanism, decisions| decide(mechanism, &surroundings, decisions));
        if let Some(recorder) = &mut self.recorder {
            recorder.take_found();
            recorder.write(record);
        }
        decided
    }

    /// Notes that all are told of `event`, or the one at `to` alone.
    pub fn note_event(&mut self, now: BootTime, to: Option<usize>, event: &Event) {
        self.note(|list| EventRecord::Happened {
            at: now,
            to: to.map(|index| list[index].name().to_owned()),
            event: event.clone(),
        });
    }

    /// Notes what the one at `index` has decided.
    pub fn note_decisions(&mut self, now: BootTime, index: usize, decisions: &[Decision]) {
        self.note(|list| EventRecord::Decided {
            at: now,
            mechanism: list[index].name().to_owned(),
            decisions: decisions.to_vec(),
        });
    }

    /// Tells the one at `index` what became of its decisions.
    pub fn on_outcomes(&mut self, now: BootTime, index: usize, outcomes: &[Outcome], decisions: &mut Vec<Decision>) {
        self.note(|list| EventRecord::Became {
            at: now,
            mechanism: list[index].name().to_owned(),
            outcomes: outcomes.to_vec(),
        });
        self.list[index].on_outcomes(now, outcomes, decisions);
    }

    /// Ends everything.
    pub fn stop(&mut self, now: BootTime) -> Decided {
        self.note(|_| EventRecord::Stopped { at: now });
        self.decide(|mechanism, decisions| mechanism.stop(decisions))
    }

    /// What all want to hear.
    pub fn interest(&self) -> Interest {
        self.all().fold(Interest::default(), |interest, mechanism| interest.and(mechanism.interest()))
    }

    /// True when none has a use for an event of `kind` about `pid`.
    pub fn ignore(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        let mut interested = self.all().filter(|mechanism| mechanism.interest().kinds.contains(kind));
        interested.all(|mechanism| mechanism.ignores(now, kind, pid))
    }

    /// The processes whose end any of them awaits.
    pub fn awaited_exits(&self) -> Vec<u32> {
        self.all().flat_map(|mechanism| mechanism.awaited_exits()).copied().collect()
    }

    /// The earliest moment that any wants.
    pub fn deadline(&self) -> Option<BootTime> {
        self.all().filter_map(Policy::deadline).min()
    }

    /// The targets that they write.
    pub fn tunables(&self) -> Vec<Target> {
        let mut tunables = Vec::new();
        self.all().for_each(|mechanism| mechanism.append_tunables(&mut tunables));
        tunables
    }

    /// What they want with the next sample of threads, each thread once.
    pub fn thread_demand(&self, now: BootTime) -> ThreadDemand {
        let mut demand = ThreadDemand::default();
        self.all().for_each(|mechanism| mechanism.demand_threads(now, &mut demand));
        demand.facts.sort_unstable();
        demand.facts.dedup();
        demand
    }

    /// How threads are sampled: as the first says whom that matters to.
    pub fn thread_sampling(&self) -> Option<ThreadSampling<'_>> {
        self.all().find_map(Policy::thread_sampling)
    }

    /// The CPUs that are left for the daemon by all that reserve some; `None` when none does, or nothing would be left.
    pub fn unreserved_cpus(&self) -> Option<Vec<u32>> {
        let mut unreserved = self.all().filter_map(Policy::unreserved_cpus);
        let mut cpus = unreserved.next()?.to_vec();
        unreserved.for_each(|others| cpus.retain(|cpu| others.contains(cpu)));
        (!cpus.is_empty()).then_some(cpus)
    }

    /// What is done for launches, by the first that helps them.
    pub fn launch_help(&self) -> Option<LaunchHelp<'_>> {
        self.all().find_map(Policy::launch_help)
    }

    /// True while any of them helps a launch.
    pub fn is_helping_launch(&self) -> bool {
        self.all().filter_map(Policy::launch_help).any(|help| help.is_going_on)
    }

    /// Tells all whether a client wants to hear their news.
    pub fn set_watched(&mut self, watched: bool) {
        self.list.iter_mut().for_each(|mechanism| mechanism.set_watched(watched));
    }

    /// Tells all which processes were in the foreground when that began to be watched.
    pub fn begin_in_foreground(&mut self, pids: &[u32]) {
        self.note(|_| EventRecord::Foreground { pids: pids.to_vec() });
        self.list.iter_mut().for_each(|mechanism| mechanism.begin_in_foreground(pids));
    }

    /// What clients are told.
    pub fn take_news(&mut self, news: &mut Vec<News>) {
        self.list.iter_mut().for_each(|mechanism| mechanism.take_news(news));
    }

    /// Has each of them read what it tells of the device.
    pub fn refresh(&mut self, now: BootTime, root: &Root) {
        self.list.iter_mut().for_each(|mechanism| mechanism.refresh(now, root));
    }

    /// What they ask, and which of them asks.
    pub fn take_questions(&mut self, asked: &mut impl Extend<(usize, Question)>) {
        let mut questions = Vec::new();
        for (index, mechanism) in self.list.iter_mut().enumerate() {
            mechanism.take_questions(&mut questions);
            asked.extend(questions.drain(..).map(|question| (index, question)));
        }
    }

    /// True when any of them wants the device to be probed again.
    pub fn take_probe_requests(&mut self) -> bool {
        let mut is_wanted = false;
        for mechanism in &mut self.list {
            is_wanted |= mechanism.take_probe_request();
        }
        is_wanted
    }

    /// What each offers, in one sentence.
    pub fn describe(&self) -> String {
        let each = self.all().map(|mechanism| format!("{}: {}", mechanism.name(), mechanism.support().reason));
        each.collect::<Vec<_>>().join("; ")
    }
}

/// What they write on the device below `root`, if they are configured so; nothing is carried out.
pub fn tunables_of(mut mechanisms: Mechanisms, root: &Root, settings: &dyn brisk_mechanism::Settings) -> Vec<Target> {
    let surroundings = Surroundings { root, settings, is_new_configuration: true };
    drop(mechanisms.follow(BootTime::now(), surroundings));
    mechanisms.tunables()
}
