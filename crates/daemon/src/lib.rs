//! The daemon: sensors -> events -> policies -> decisions -> executor, in one loop that sleeps until something happens.

pub mod boot;
mod child;
pub mod control;
pub mod executor;
mod guardian_supervisor;
pub mod killer;
mod mechanisms;
mod options;
mod poller;
mod probing;
pub mod recording;
#[cfg(feature = "lab")]
pub mod replay;
mod requests;
mod sensor;
mod signals;
mod state_file;
pub mod status;
mod subscriptions;
pub mod telemetry;
mod wakeups;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use rustix::event::Timespec;
use sd_notify::NotifyState;

use brisk_config::{Config, Layers};
use brisk_mechanism::{
    Decision, Effect, Event, Mechanism, Outcome, ProbeContext, Question, Support, SupportState, Target, list,
};
use brisk_sys::process::own_code;
use brisk_sys::sched::affinity::OwnMask;
use brisk_sys::sched::own_policy;
use brisk_sys::{BootTime, Root, Timer};
use brisk_undo::journal::{Holder, Journal, JournalError, Tenure};
use child::Children;
use child::preview::PreviewOutput;
use control::Control;
use executor::{Executor, Output, Sink};
use guardian_supervisor::GuardianSupervisor;
use mechanisms::{Decided, Mechanisms};
pub use options::{Options, Purpose};
use poller::{Poller, Token};
use recording::Recorder;
use sensor::facts;
use signals::Signals;
use state_file::StateFiles;
use status::metrics::Metrics;
use subscriptions::Subscriptions;
use telemetry::Telemetry;

/// A change of governor changes several files: probe once, this long after the first change.
const PROBE_DELAY: Duration = Duration::from_millis(20);
/// A tunable that keeps vanishing causes at most one probe in this time.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// The daemon's scheduling when it is permitted, except in [`Engine::with_normal_priority`].
const REAL_TIME: &str = "real-time";
/// How often a mechanism may decide again about the outcomes of its decisions.
const MAXIMUM_ROUNDS: u32 = 32;

/// Records what the mechanisms receive and decide in the file `path`.
fn record(path: &Path, root: &Root, mechanisms: &mut Mechanisms) -> anyhow::Result<()> {
    let names = mechanisms.all().map(|mechanism| mechanism.name().to_owned()).collect();
    let recorder = Recorder::create(path, root, names).map_err(|error| {
        let advice = if error.kind() == ErrorKind::AlreadyExists { "; name a new file" } else { "" };
        anyhow!("cannot record to {}: {error}{advice}", path.display())
    })?;
    mechanisms.record(recorder);
    Ok(())
}

/// The tunables that a daemon under `config` would write on this device now, named as on the device.
pub fn tunables(root: &Root, config: &Config) -> Vec<PathBuf> {
    let file = |target: Target| match target {
        Target::Tunable(file) => Some(file),
        _ => None,
    };
    mechanisms::tunables_of(Mechanisms::new(list::all()), root, config).into_iter().filter_map(file).collect()
}

/// Records the files that mechanisms would probe under other configurations, which a replay may use.
fn note_other_probes(mechanisms: &mut Mechanisms, make: fn() -> Vec<Box<dyn Mechanism>>, root: &Root) {
    mechanisms.note_probe(root, |recording_root| {
        // Warnings about a configuration that is not in force would mislead.
        tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
            for other in [Config::default(), Config::everything_on()] {
                drop(mechanisms::tunables_of(Mechanisms::new(make()), recording_root, &other));
            }
        });
    });
}

/// The running daemon.
#[derive(Debug)]
pub struct Engine {
    options: Options,
    layers: Layers,
    config_error: Option<String>,
    poller: Poller,
    timer: Timer,
    signals: Option<Signals>,
    mechanisms: Mechanisms,
    children: Children,
    preview_output: PreviewOutput,
    executor: Executor,
    subscriptions: Subscriptions,
    control: Option<Control>,
    guarding: GuardianSupervisor,
    probe_due: Option<BootTime>,
    last_probe: BootTime,
    /// The last probe ran before all frequency limits showed their restored values.
    has_probed_early: bool,
    state_files: StateFiles,
    metrics: Metrics,
    scheduling: String,
    own_mask: OwnMask,
    since: BootTime,
    stopping: bool,
    questions: VecDeque<(usize, Question)>,
    telemetry: Telemetry,
}

/// The device as a sink, with its journal locked for `tenure`.
fn opened(tenure: Tenure, root: &Root) -> Result<Sink, JournalError> {
    let journal = Journal::open_for(tenure, Holder::Daemon, &root.runtime_folder(), root)?;
    Ok(Sink::Device(Box::new(journal)))
}

impl Engine {
    /// Reads the configuration, locks the journal (and restores what a dead daemon left), starts the guardian, opens the
    /// control socket, and probes the device. A dry run has no journal, guardian or socket.
    ///
    /// # Errors
    /// An invalid configuration, a second daemon, or a control socket that cannot be opened.
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let layers = options.read_config()?;
        let (root, config) = (&options.root, &layers.config);
        let poller = Poller::new().context("cannot wait for events")?;
        let timer = Timer::new().context("cannot set a timer")?;
        poller.watch(&timer, Token::Timer)?;
        let signals = match options.purpose {
            Purpose::OneLaunch => None,
            _ => Some(Signals::register(&poller).context("cannot receive signals")?),
        };
        if options.purpose == Purpose::Daemon {
            boot::governor_hold::restore_stale_governors(root);
        }
        let sink = match options.purpose {
            Purpose::DryRun { json } => {
                Sink::DryRun { json, leases: Vec::new(), output: Output::to(anstream::stdout()) }
            }
            Purpose::OneLaunch => opened(Tenure::Passing, root)?,
            Purpose::Daemon => opened(Tenure::Lasting, root)?,
        };
        let control = match options.purpose {
            Purpose::Daemon => Some(Control::open(root, &config.control, &poller)?),
            _ => None,
        };
        let now = BootTime::now();
        let mut mechanisms = Mechanisms::new((options.mechanisms)());
        if let Some(path) = &options.record {
            record(path, root, &mut mechanisms)?;
        }
        let state_files = StateFiles::load_state(root, &mut mechanisms);
        mechanisms.note_configuration(config);
        note_other_probes(&mut mechanisms, options.mechanisms, root);
        let decided = mechanisms.reconfigure(now, ProbeContext { root, settings: config, is_new_configuration: true });
        let mut executor = Executor::new(root.clone(), sink);
        let is_denied = executor.prepare(&mechanisms.tunables());
        let mut engine = Self {
            config_error: None,
            poller,
            timer,
            signals,
            mechanisms,
            children: Children::default(),
            preview_output: PreviewOutput::default(),
            executor,
            subscriptions: Subscriptions::default(),
            control,
            guarding: GuardianSupervisor::default(),
            probe_due: None,
            last_probe: now,
            has_probed_early: false,
            state_files,
            metrics: Metrics::default(),
            scheduling: String::new(),
            own_mask: OwnMask::default(),
            since: now,
            stopping: false,
            questions: VecDeque::new(),
            telemetry: Telemetry::default(),
            layers,
            options,
        };
        engine.begin(now, decided, is_denied)?;
        Ok(engine)
    }

    /// Starts the guardian, asks for the grant of tunables where one `is_denied`, and carries out the first decisions.
    fn begin(&mut self, now: BootTime, decided: Decided, is_denied: bool) -> anyhow::Result<()> {
        if !self.executor.is_dry_run() {
            self.start_guardian().context("cannot start the guardian")?;
        }
        if is_denied {
            self.ask_for_grant();
        }
        self.update_device_watches();
        self.execute_all(now, decided);
        self.serve_mechanisms(now);
        self.update_subscriptions(now);
        self.restart_previews(now);
        self.configure_telemetry(now);
        self.scheduling = match own_policy::become_real_time() {
            Ok(()) => REAL_TIME.to_owned(),
            Err(error) => format!("ordinary ({error}): a kick may take effect a tick later; give it CAP_SYS_NICE"),
        };
        Ok(())
    }

    /// Runs until SIGTERM or SIGINT, then restores everything.
    ///
    /// # Errors
    /// When waiting for events fails; everything is restored then as well.
    pub fn run(mut self) -> anyhow::Result<()> {
        for mechanism in self.mechanisms.all() {
            let Support { state, reason, .. } = mechanism.support();
            // A dry run takes every write for done: what the mechanism reports as set is only planned.
            let is_foreseen = self.executor.is_dry_run() && *state == SupportState::Active;
            let how = if is_foreseen { " would be active" } else { "" };
            tracing::info!("{}{how}: {reason}", mechanism.name());
        }
        self.notify(&[NotifyState::Ready]);
        tracing::info!("ready");
        if let Err(error) = own_code::unmap() {
            tracing::debug!("cannot unmap the start-up code: {error}");
        }
        let outcome = self.work_until(|engine| engine.stopping);
        self.notify(&[NotifyState::Stopping]);
        self.stop();
        outcome
    }

    /// Boosts the launch of `application`, which is process `pid`, until it is over, then restores everything.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn boost_launch(mut self, application: &str, pid: u32) -> anyhow::Result<()> {
        let process = Some(self.announced_process(pid));
        let event = Event::LaunchAnnounced { process, application: application.to_owned() };
        self.dispatch(BootTime::now(), &event);
        let outcome = self.work_until(|engine| !engine.mechanisms.is_boosting_launch());
        self.stop();
        outcome
    }

    fn work_until(&mut self, is_over: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let mut ready = Vec::new();
        while !is_over(self) {
            let pending = self.control.as_ref().and_then(Control::next_pending);
            let zero_timeout = Timespec { tv_sec: 0, tv_nsec: 0 };
            let timeout = (pending.is_some() || !self.questions.is_empty()).then_some(&zero_timeout);
            self.set_timer().and_then(|()| self.poller.wait(&mut ready, timeout)).context("cannot wait for events")?;
            ready.extend(pending.map(Token::Client).filter(|token| !ready.contains(token)));
            // Clients come last, with one request each per turn: a launch waits for no more than that.
            for is_control_socket in [false, true] {
                for &token in ready.iter().filter(|token| token.is_control_socket() == is_control_socket) {
                    self.handle(token);
                }
            }
            ready.clear();
            self.answer_question();
            self.end_turn();
        }
        Ok(())
    }

    fn stop(&mut self) {
        let now = BootTime::now();
        let decided = self.mechanisms.stop(now);
        self.execute_all(now, decided);
        self.send_last_rows(now);
        self.children.end(&self.poller);
        self.executor.release_all();
        self.save();
        self.end_telemetry();
    }

    /// Lets every mechanism decide about `event` and carries out the decisions. True when a target was written.
    fn dispatch(&mut self, now: BootTime, event: &Event) -> bool {
        let mut written = false;
        self.mechanisms.note_event(now, None, event);
        for index in 0..self.mechanisms.len() {
            written |= self.decide(now, index, event);
        }
        let lost = self.executor.lost();
        self.deliver_ended(now, lost);
        self.serve_mechanisms(now);
        // While a batch of process events is handled, the subscription is taken out; it is updated after the batch.
        if self.subscriptions.processes.is_some() || !matches!(event, Event::Process(_)) {
            self.update_subscriptions(now);
        }
        written
    }

    /// Sends `event` only to the mechanism at `index`.
    fn deliver(&mut self, now: BootTime, index: usize, event: &Event) {
        self.mechanisms.note_event(now, Some(index), event);
        self.decide(now, index, event);
    }

    /// Lets the mechanism at `index` decide about `event` and carries that out. True when a target was written.
    fn decide(&mut self, now: BootTime, index: usize, event: &Event) -> bool {
        let mut decisions = Vec::new();
        self.mechanisms.at(index).on_event(now, event, &mut decisions);
        self.execute_decisions(now, index, decisions)
    }

    /// Answers the oldest question of a mechanism: one per turn, so that an event waits for one at most.
    fn answer_question(&mut self) {
        let Some((index, question)) = self.questions.pop_front() else { return };
        let answer = |engine: &mut Self| {
            let event = Event::Facts(facts::answer(&engine.options.root, &question));
            let now = BootTime::now();
            engine.deliver(now, index, &event);
            engine.serve_mechanisms(now);
            engine.update_subscriptions(now);
        };
        if question.is_urgent() { answer(self) } else { self.with_normal_priority(answer) }
    }

    /// Carries out what mechanisms want besides decisions: news, children, questions and probes.
    fn serve_mechanisms(&mut self, now: BootTime) {
        self.leave_reserved_cpus();
        self.broadcast_notifications(now);
        self.update_children(now);
        self.mechanisms.take_questions(&mut self.questions);
        if self.mechanisms.take_probe_requests() {
            self.probe_soon(now);
        }
    }

    /// Carries out the decisions of the mechanism at `index`, passes it the outcomes, and goes on with its next decisions.
    /// True when a target was written.
    fn execute_decisions(&mut self, now: BootTime, index: usize, mut decisions: Vec<Decision>) -> bool {
        let mut written = false;
        for _ in 0..MAXIMUM_ROUNDS {
            if decisions.is_empty() {
                return written;
            }
            self.mechanisms.note_decisions(now, index, &decisions);
            let outcomes = self.executor.execute_each(now, self.mechanisms.at(index).name(), &decisions);
            decisions.clear();
            self.mechanisms.on_outcomes(now, index, &outcomes, &mut decisions);
            written |= self.count(now, &outcomes);
        }
        let name = self.mechanisms.at(index).name();
        tracing::error!("{name} decides in a loop; {} decisions are dropped", decisions.len());
        written
    }

    /// Counts outcomes. True when a target was written.
    fn count(&mut self, now: BootTime, outcomes: &[Outcome]) -> bool {
        let mut written = false;
        for Outcome { target, effect, .. } in outcomes {
            match effect {
                Effect::Written => {
                    self.metrics.decisions += 1;
                    written = true;
                }
                Effect::Refused(_) => self.metrics.failures += 1,
                Effect::Missing(_) if target.thread().is_none() => {
                    self.metrics.failures += 1;
                    self.probe_due.get_or_insert((self.last_probe + PROBE_PAUSE).max(now + PROBE_DELAY));
                }
                Effect::Unchanged | Effect::Missing(_) => {}
            }
        }
        written
    }

    /// Passes to each mechanism the outcomes of its leases that ended without its decision.
    fn deliver_ended(&mut self, now: BootTime, ended: Vec<(&'static str, Outcome)>) {
        for (owner, outcome) in ended {
            let outcomes = [outcome];
            if let Some(index) = self.mechanisms.position(owner) {
                let mut decisions = Vec::new();
                self.mechanisms.on_outcomes(now, index, &outcomes, &mut decisions);
                self.execute_decisions(now, index, decisions);
            }
        }
    }

    /// Keeps the daemon off reserved CPUs: as a real-time task it preempts every ordinary task.
    fn leave_reserved_cpus(&mut self) {
        if !self.executor.is_dry_run() && self.options.root.is_system() {
            self.own_mask.narrow_to(self.mechanisms.unreserved_cpus().as_deref());
        }
    }

    /// Updates the subscriptions to the mechanisms' present interest.
    fn update_subscriptions(&mut self, now: BootTime) {
        let mut ended = Vec::new();
        let interest = self.mechanisms.interest();
        let exits = self.mechanisms.awaited_exits();
        self.subscriptions.reconfigure(now, interest, &exits, (&self.options.root, &self.poller), &mut ended);
        let how = (&self.options.root, &self.poller, self.executor.is_dry_run());
        if let Some(is_on) = self.subscriptions.stalls.reconfigure(now, interest.stall, how) {
            self.dispatch(now, &Event::StallsWatched { is_on });
        }
        for pid in ended {
            self.handle_exit(now, pid);
        }
        if let Some(pids) = self.subscriptions.first_foreground() {
            self.mechanisms.set_initial_foreground(&pids);
            self.dispatch_foreground(now, pids);
        }
    }

    fn broadcast_notifications(&mut self, now: BootTime) {
        let mut all = Vec::new();
        self.mechanisms.take_notifications(&mut all);
        for news in all {
            self.metrics.launches += u64::from(news.is_new_launch);
            if let (Some(text), Some(control)) = (&news.text, &mut self.control) {
                control.broadcast(&control::protocol::answer(text), now, &self.poller);
            }
        }
    }

    fn set_timer(&mut self) -> std::io::Result<()> {
        let moments = [
            self.mechanisms.deadline(),
            self.executor.next_deadline(),
            self.subscriptions.load.deadline(),
            self.subscriptions.threads.deadline(),
            self.guarding.deadline(),
            self.children.deadline(),
            self.probe_due,
            self.control.as_ref().and_then(Control::deadline),
            self.subscriptions.stalls.deadline(),
            self.preview_output.due,
            self.telemetry.deadline(),
        ];
        self.timer.set(moments.into_iter().flatten().min())
    }

    fn save(&mut self) {
        if !self.executor.is_dry_run() {
            self.state_files.save(&mut self.mechanisms);
        }
    }

    fn notify(&self, states: &[NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(states) {
            tracing::debug!("cannot notify the service manager: {error}");
        }
    }
}
