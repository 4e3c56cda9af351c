//! The daemon: sensors -> events -> policies -> decisions -> executor, in one loop that sleeps until something happens.

pub mod boot;
mod child;
pub mod control;
pub mod executor;
mod foresight;
mod guarding;
pub mod killer;
mod mechanisms;
pub mod metrics;
mod options;
mod poller;
pub mod recording;
#[cfg(feature = "lab")]
pub mod replay;
mod requests;
mod sensor;
mod signals;
mod state_file;
pub mod status;
mod subscriptions;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use rustix::event::Timespec;
use sd_notify::NotifyState;

use crate::config::{Config, Layers};
use crate::device::affinity::OwnMask;
use crate::device::cgroup::membership::Groups;
use crate::device::error::sentence;
use crate::device::journal::{Holder, Journal};
use crate::device::process_events::monotonic_ns;
use crate::device::session::Sessions;
use crate::device::{BootTime, Root, Timer, grant, own_code, scheduling};
use crate::mechanism::{
    Decision, Effect, Event, Mechanism, Outcome, Process, ProcessEvent, ProcessEventKind, Question, Surroundings,
    Target, ThreadSampling, list,
};
use child::Children;
use control::Control;
use executor::{Executor, Output, Sink};
use foresight::Shown;
use guarding::Guarding;
use mechanisms::{Decided, Mechanisms};
use metrics::Metrics;
pub use options::{Options, Purpose};
use poller::{Poller, Token};
use recording::Recorder;
use sensor::facts;
use sensor::processes::look_up;
use signals::Signals;
use state_file::KeptFiles;
use subscriptions::Subscriptions;

/// Several files change together when a governor does: probe once, this long after the first.
const PROBE_DELAY: Duration = Duration::from_millis(20);
/// A tunable that keeps vanishing costs no more than one probe in this time.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// How the daemon is scheduled, where it may be, while it does not work at leisure.
const REAL_TIME: &str = "real-time";
/// So often a mechanism may decide again about what became of its decisions.
const MOST_ROUNDS: u32 = 32;

/// The tunables that a daemon under `config` writes on this device as it is now, named as on the device.
pub fn tunables(root: &Root, config: &Config) -> Vec<PathBuf> {
    let file = |target: Target| match target {
        Target::Tunable(file) => Some(file),
        _ => None,
    };
    mechanisms::tunables_of(Mechanisms::new(list::all()), root, config).into_iter().filter_map(file).collect()
}

/// Has a recording hold what the mechanisms would look for under other configurations: a replay may be given one.
fn note_other_probes(mechanisms: &mut Mechanisms, make: fn() -> Vec<Box<dyn Mechanism>>, root: &Root) {
    mechanisms.note_probe(root, |noting| {
        // Warnings about a configuration that is not in force would mislead.
        tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
            for other in [Config::default(), Config::everything_on()] {
                drop(mechanisms::tunables_of(Mechanisms::new(make()), noting, &other));
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
    shown: Shown,
    executor: Executor,
    subscriptions: Subscriptions,
    control: Option<Control>,
    guarding: Guarding,
    probe_due: Option<BootTime>,
    last_probe: BootTime,
    kept: KeptFiles,
    metrics: Metrics,
    scheduling: String,
    own_mask: OwnMask,
    since: BootTime,
    stopping: bool,
    questions: VecDeque<(usize, Question)>,
}

impl Engine {
    /// Reads the configuration, takes the journal (and puts back what a dead daemon left), starts the guardian, opens
    /// the control socket, and probes the device. A dry run takes nothing.
    ///
    /// # Errors
    /// A configuration that is not right, a second daemon, a control socket that cannot be opened.
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
            boot::hand_over::give_back_what_was_left(root);
        }
        let sink = match options.purpose {
            Purpose::DryRun { json } => {
                Sink::DryRun { json, leases: Vec::new(), output: Output::to(anstream::stdout()) }
            }
            _ => Sink::Device(Box::new(Journal::open(Holder::Daemon, &root.runtime_folder(), root)?)),
        };
        let control = match options.purpose {
            Purpose::Daemon => Some(Control::open(root, &config.control, &poller)?),
            _ => None,
        };
        let now = BootTime::now();
        let mut mechanisms = Mechanisms::new((options.mechanisms)());
        if let Some(path) = &options.record {
            let names = mechanisms.all().map(|mechanism| mechanism.name().to_owned()).collect();
            let recorder = Recorder::create(path, root, names);
            mechanisms.record(recorder.with_context(|| format!("cannot record to {}", path.display()))?);
        }
        let kept = KeptFiles::recall(root, &mut mechanisms);
        mechanisms.note_configuration(config);
        note_other_probes(&mut mechanisms, options.mechanisms, root);
        let decided = mechanisms.follow(now, Surroundings { root, settings: config, is_new_configuration: true });
        let mut executor = Executor::new(root.clone(), sink);
        let is_denied = executor.prepare(&mechanisms.tunables());
        let mut engine = Self {
            config_error: None,
            poller,
            timer,
            signals,
            mechanisms,
            children: Children::default(),
            shown: Shown::default(),
            executor,
            subscriptions: Subscriptions::default(),
            control,
            guarding: Guarding::default(),
            probe_due: None,
            last_probe: now,
            kept,
            metrics: Metrics::default(),
            scheduling: String::new(),
            own_mask: OwnMask::default(),
            since: now,
            stopping: false,
            questions: VecDeque::new(),
            layers,
            options,
        };
        if !engine.executor.is_dry() {
            engine.start_guardian().context("cannot start the guardian")?;
        }
        if is_denied {
            engine.ask_for_grant();
        }
        engine.follow_device();
        engine.carry_out(now, decided);
        engine.follow_mechanisms(now);
        engine.listen(now);
        engine.follow_dry_run_config(now);
        engine.scheduling = match scheduling::become_real_time() {
            Ok(()) => REAL_TIME.to_owned(),
            Err(error) => format!("ordinary ({error}): a kick may take effect a tick later; give it CAP_SYS_NICE"),
        };
        Ok(engine)
    }

    /// Works until SIGTERM or SIGINT, then gives everything back.
    ///
    /// # Errors
    /// When waiting for events fails; everything is given back then as well.
    pub fn run(mut self) -> anyhow::Result<()> {
        for mechanism in self.mechanisms.all() {
            tracing::info!("{}: {}", mechanism.name(), mechanism.support().reason);
        }
        self.notify(&[NotifyState::Ready]);
        tracing::info!("ready");
        if let Err(error) = own_code::unmap() {
            tracing::debug!("the code of the start stays mapped: {error}");
        }
        let outcome = self.work_until(|engine| engine.stopping);
        self.notify(&[NotifyState::Stopping]);
        self.stop();
        outcome
    }

    /// Helps the launch of `application`, which is process `pid`, until it is over, then gives everything back.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn help(mut self, application: &str, pid: u32) -> anyhow::Result<()> {
        let process = Some(self.announced_process(pid));
        let event = Event::LaunchAnnounced { process, application: application.to_owned() };
        self.dispatch(BootTime::now(), &event);
        let outcome = self.work_until(|engine| !engine.mechanisms.is_helping_launch());
        self.stop();
        outcome
    }

    fn work_until(&mut self, is_over: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let mut ready = Vec::new();
        while !is_over(self) {
            let pending = self.control.as_ref().and_then(Control::next_pending);
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let at_most = (pending.is_some() || !self.questions.is_empty()).then_some(&at_once);
            self.set_timer().and_then(|()| self.poller.wait(&mut ready, at_most)).context("cannot wait for events")?;
            ready.extend(pending.map(Token::Client).filter(|token| !ready.contains(token)));
            // Clients come last and one request of each at a time: a launch never waits for more than that.
            for is_of_clients in [false, true] {
                for &token in ready.iter().filter(|token| token.is_of_clients() == is_of_clients) {
                    self.take(token);
                }
            }
            ready.clear();
            self.answer_question();
        }
        Ok(())
    }

    fn stop(&mut self) {
        let now = BootTime::now();
        let decided = self.mechanisms.stop(now);
        self.carry_out(now, decided);
        self.children.end(&self.poller);
        self.executor.release_all();
        self.save();
    }

    fn take(&mut self, token: Token) {
        let now = BootTime::now();
        match token {
            Token::Stop => self.stopping = true,
            Token::Reload => {
                self.signals.iter().for_each(Signals::drain_reload);
                self.reload(now);
            }
            Token::Timer => self.take_timer(now),
            Token::Processes => self.take_processes(),
            Token::CpufreqFiles => {
                if let Some(files) = &self.subscriptions.cpufreq_files {
                    files.drain();
                }
                self.probe_soon(now);
            }
            Token::KernelObjects => {
                if self.subscriptions.kernel_objects.as_ref().is_some_and(|objects| objects.drain()) {
                    self.probe_soon(now);
                }
            }
            Token::Foreground => self.take_foreground(now),
            Token::Session => self.take_session(now),
            Token::Guardian => self.lose_guardian(now),
            Token::Child(index) => self.hear_child(now, index as usize),
            Token::Pressure => drop(self.dispatch(now, &Event::MemoryStall)),
            Token::Listener => self.at_leisure(|engine| {
                if let Some(control) = &mut engine.control {
                    control.accept(now, &engine.poller);
                }
            }),
            Token::Client(number) => self.at_leisure(|engine| engine.serve(number, now)),
            Token::Exit(pid) => self.take_exit(now, pid),
        }
    }

    fn take_timer(&mut self, now: BootTime) {
        self.timer.acknowledge();
        if self.mechanisms.deadline().is_some_and(|deadline| deadline <= now) {
            self.dispatch(now, &Event::Deadline);
        }
        if let Some(busy_permille) = self.subscriptions.load.sample(now, &self.options.root) {
            self.dispatch(now, &Event::Load { busy_permille });
        }
        if self.subscriptions.stalls.sample(now, &self.options.root) {
            self.dispatch(now, &Event::MemoryStall);
        }
        // What is in the foreground already need not change first.
        if self.subscriptions.sessions.as_ref().is_some_and(|sessions| sessions.is_new) {
            self.take_session(now);
        }
        if self.subscriptions.threads.deadline().is_some_and(|due| due <= now) {
            self.at_leisure(|engine| engine.look_at_threads(now));
        }
        let mut ended = self.executor.expire(now);
        ended.append(&mut self.executor.lost());
        self.tell_ended(now, ended);
        if self.executor.has_restored_late() {
            self.probe_soon(now);
        }
        self.replace_guardian(now);
        if let Some(control) = self.control.as_mut().filter(|control| control.deadline().is_some_and(|due| due <= now))
        {
            control.expire(now, &self.poller);
        }
        // What is asked now may change what is shown.
        if self.questions.is_empty() && self.shown.due.is_some_and(|due| due <= now) {
            self.at_leisure(|engine| engine.show(now));
        }
        self.start_children(now);
        if self.probe_due.is_some_and(|due| due <= now) {
            self.probe_due = None;
            self.probe(now);
        }
    }

    fn look_at_threads(&mut self, now: BootTime) {
        let demand = self.mechanisms.thread_demand(now);
        if let Some(event) = self.subscriptions.threads.look(now, &self.options.root, &demand) {
            self.dispatch(now, &event);
        }
    }

    /// Does what may take its time as an ordinary task: in real time no other task, not even music, would get its CPU.
    fn at_leisure(&mut self, work: impl FnOnce(&mut Self)) {
        let is_ordinary = self.scheduling == REAL_TIME && scheduling::become_ordinary().is_ok();
        work(self);
        if is_ordinary && let Err(error) = scheduling::become_real_time() {
            self.scheduling = format!("ordinary ({error})");
        }
    }

    /// Does for a client what is urgent: what it announces is as good as an event.
    fn at_once<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let is_real_time = self.scheduling == REAL_TIME && scheduling::become_real_time().is_ok();
        let done = work(self);
        if is_real_time && let Err(error) = scheduling::become_ordinary() {
            tracing::debug!("clients are served in real time: {error}");
        }
        done
    }

    fn take_processes(&mut self) {
        let Some(mut processes) = self.subscriptions.processes.take() else { return };
        let woken_ns = monotonic_ns();
        let received = processes.receive();
        loop {
            let ignored = |kind, pid| self.mechanisms.ignore(BootTime::now(), kind, pid);
            let next = processes.next(&self.options.root, &self.subscriptions.interest(), ignored);
            let Some(stamped) = next else { break };
            let now = BootTime::now();
            if stamped.event == Event::ProcessEventsLost {
                self.metrics.process_events_lost += 1;
                for pid in self.subscriptions.exits.gone(&self.options.root) {
                    self.take_exit(now, pid);
                }
            } else {
                self.metrics.process_events += 1;
            }
            if self.dispatch(now, &stamped.event) && stamped.monotonic_ns > 0 {
                let written_ns = monotonic_ns();
                let since = |start_ns| Duration::from_nanos(written_ns.saturating_sub(start_ns));
                self.metrics.event_to_write.observe(since(stamped.monotonic_ns));
                self.metrics.wake_to_write.observe(since(woken_ns));
            }
        }
        self.subscriptions.processes = Some(processes);
        if let Err(error) = received {
            tracing::error!("{error}; subscribing again");
            self.subscriptions.close_processes(&self.poller);
        }
        self.listen(BootTime::now());
    }

    fn take_foreground(&mut self, now: BootTime) {
        let pids = match self.subscriptions.foreground.as_mut().map(|foreground| {
            foreground.moved()?;
            foreground.pids()
        }) {
            Some(Ok(pids)) => pids,
            Some(Err(error)) => return tracing::warn!("{}", error.with_advice()),
            None => return,
        };
        self.tell_foreground(now, pids);
    }

    fn take_session(&mut self, now: BootTime) {
        match self.subscriptions.sessions.as_mut().map(Sessions::pids) {
            Some(Ok(pids)) => {
                self.dispatch(now, &Event::Session { pids });
                self.subscriptions.threads.look_now(now);
            }
            Some(Err(error)) => tracing::warn!("{}", error.with_advice()),
            None => {}
        }
    }

    fn tell_foreground(&mut self, now: BootTime, pids: Vec<u32>) {
        let facts = self.subscriptions.interest().facts;
        let processes = pids.into_iter().map(|pid| {
            let mut process = Process { pid, ..Process::default() };
            look_up(&self.options.root, &mut process, facts);
            process
        });
        let event = Event::Foreground { processes: processes.collect() };
        self.dispatch(now, &event);
        self.subscriptions.threads.look_now(now);
    }

    fn take_exit(&mut self, now: BootTime, pid: u32) {
        let process = Process { pid, ..Process::default() };
        self.dispatch(now, &Event::Process(ProcessEvent { kind: ProcessEventKind::Exit, process }));
    }

    /// Lets every mechanism decide about `event` and carries the decisions out. True when something was written.
    fn dispatch(&mut self, now: BootTime, event: &Event) -> bool {
        let mut written = false;
        self.mechanisms.note_event(now, None, event);
        for index in 0..self.mechanisms.len() {
            written |= self.decide(now, index, event);
        }
        let lost = self.executor.lost();
        self.tell_ended(now, lost);
        self.follow_mechanisms(now);
        // Within a batch of process events the subscription itself is lent out; it follows at the batch's end.
        if self.subscriptions.processes.is_some() || !matches!(event, Event::Process(_)) {
            self.listen(now);
        }
        written
    }

    /// Tells the mechanism at `index` alone of `event`.
    fn tell(&mut self, now: BootTime, index: usize, event: &Event) {
        self.mechanisms.note_event(now, Some(index), event);
        self.decide(now, index, event);
    }

    /// Lets the mechanism at `index` decide about `event` and carries that out. True when something was written.
    fn decide(&mut self, now: BootTime, index: usize, event: &Event) -> bool {
        let mut decisions = Vec::new();
        self.mechanisms.at(index).on_event(now, event, &mut decisions);
        self.settle(now, index, decisions)
    }

    /// Answers the oldest question of a mechanism; one at a time, so that no event waits for more than that.
    fn answer_question(&mut self) {
        let Some((index, question)) = self.questions.pop_front() else { return };
        let answer = |engine: &mut Self| {
            let event = Event::Facts(facts::answer(&engine.options.root, &question));
            let now = BootTime::now();
            engine.tell(now, index, &event);
            engine.follow_mechanisms(now);
            engine.listen(now);
        };
        if question.is_urgent() { answer(self) } else { self.at_leisure(answer) }
    }

    /// Does what mechanisms ask for beside decisions.
    fn follow_mechanisms(&mut self, now: BootTime) {
        self.stand_aside();
        self.tell_watchers(now);
        self.follow_children(now);
        self.mechanisms.take_questions(&mut self.questions);
        if self.mechanisms.take_probe_requests() {
            self.probe_soon(now);
        }
    }

    /// Carries out what the mechanism at `index` has decided, tells it what became of that, and goes on with what it
    /// decides then. True when something was written.
    fn settle(&mut self, now: BootTime, index: usize, mut decisions: Vec<Decision>) -> bool {
        let mut written = false;
        for _ in 0..MOST_ROUNDS {
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
        tracing::error!("{name} decides again and again; {} decisions are not carried out", decisions.len());
        written
    }

    /// Counts what became of decisions. True when something was written.
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

    /// Tells each mechanism of its leases that ended by themselves.
    fn tell_ended(&mut self, now: BootTime, ended: Vec<(&'static str, Outcome)>) {
        for (owner, outcome) in ended {
            let outcomes = [outcome];
            if let Some(index) = self.mechanisms.position(owner) {
                let mut decisions = Vec::new();
                self.mechanisms.on_outcomes(now, index, &outcomes, &mut decisions);
                self.settle(now, index, decisions);
            }
        }
    }

    /// Keeps off the cores that are kept free for others: the daemon runs before every ordinary task.
    fn stand_aside(&mut self) {
        if !self.executor.is_dry() && self.options.root.is_system() {
            self.own_mask.narrow_to(self.mechanisms.unreserved_cpus().as_deref());
        }
    }

    /// Follows what the mechanisms want to hear now.
    fn listen(&mut self, now: BootTime) {
        let mut ended = Vec::new();
        let interest = self.mechanisms.interest();
        let exits = self.mechanisms.awaited_exits();
        self.subscriptions.follow(now, interest, &exits, (&self.options.root, &self.poller), &mut ended);
        let how = (&self.options.root, &self.poller, self.executor.is_dry());
        if let Some(is_on) = self.subscriptions.stalls.follow(now, interest.stall, how) {
            self.dispatch(now, &Event::StallsWatched { is_on });
        }
        for pid in ended {
            self.take_exit(now, pid);
        }
        if let Some(pids) = self.subscriptions.first_foreground() {
            self.mechanisms.begin_in_foreground(&pids);
            self.tell_foreground(now, pids);
        }
    }

    fn tell_watchers(&mut self, now: BootTime) {
        let mut all = Vec::new();
        self.mechanisms.take_news(&mut all);
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
            self.shown.due,
        ];
        self.timer.set(moments.into_iter().flatten().min())
    }

    fn probe_soon(&mut self, now: BootTime) {
        self.probe_due.get_or_insert(now + PROBE_DELAY);
    }

    /// Looks at the device again.
    fn probe(&mut self, now: BootTime) {
        self.last_probe = now;
        self.dispatch(now, &Event::DeviceChanged);
        let before = self.mechanisms.describe();
        self.rebuild(now, false);
        let described = self.mechanisms.describe();
        if described != before {
            tracing::info!("the device changed; {described}");
        }
    }

    /// Lets the mechanisms go on under the configuration and the device as they are now.
    fn rebuild(&mut self, now: BootTime, is_new_configuration: bool) {
        // What is leased is not what the device has: it is restored before the device is read.
        let (root, settings) = (&self.options.root, &self.layers.config);
        self.mechanisms.note_configuration(settings);
        let decided = self.mechanisms.let_go(now, Surroundings { root, settings, is_new_configuration });
        self.follow_children(now);
        self.carry_out(now, decided);
        let ended = self.executor.retry(now);
        self.tell_ended(now, ended);
        let (root, settings) = (&self.options.root, &self.layers.config);
        note_other_probes(&mut self.mechanisms, self.options.mechanisms, root);
        let decided = self.mechanisms.follow(now, Surroundings { root, settings, is_new_configuration });
        if self.executor.prepare(&self.mechanisms.tunables()) {
            self.ask_for_grant();
        }
        self.carry_out(now, decided);
        self.follow_device();
        self.follow_mechanisms(now);
        self.listen(now);
    }

    /// Tunables have come since `brisk grant` was run: has it run again, where a service manager waits for that.
    fn ask_for_grant(&self) {
        match grant::ask(&self.options.root) {
            Ok(()) => tracing::info!("tunables have come that are not granted yet: brisk-grant.path is asked for them"),
            Err(error) => tracing::debug!("cannot ask for tunables to be granted: {error}"),
        }
    }

    fn follow_device(&mut self) {
        let root = &self.options.root;
        self.subscriptions.watch_device(root, &self.poller);
        if let Some(ThreadSampling { sensing, groups }) = self.mechanisms.thread_sampling() {
            self.subscriptions.threads.groups = Groups::of(root, groups);
            self.subscriptions.threads.set_sensing(sensing);
        }
    }

    fn carry_out(&mut self, now: BootTime, decided: Decided) {
        for (index, decisions) in decided.into_iter().enumerate() {
            self.settle(now, index, decisions);
        }
    }

    /// Reads the configuration again; one that is not right changes nothing.
    fn reload(&mut self, now: BootTime) {
        let reloading = NotifyState::monotonic_usec_now().map(|usec| vec![NotifyState::Reloading, usec]);
        self.notify(&reloading.unwrap_or_else(|_| vec![NotifyState::Reloading]));
        match self.try_reload() {
            Ok(layers) => {
                self.layers = layers;
                self.config_error = None;
                self.rebuild(now, true);
                self.follow_dry_run_config(now);
                tracing::info!("configuration reloaded; {}", self.mechanisms.describe());
            }
            Err(error) => {
                let reason = sentence(error.as_ref());
                tracing::error!("the configuration stays as it was: {reason}");
                self.config_error = Some(reason);
            }
        }
        self.save();
        self.notify(&[NotifyState::Ready]);
    }

    fn try_reload(&mut self) -> anyhow::Result<Layers> {
        let layers = self.options.read_config()?;
        if let Some(control) = &mut self.control
            && layers.config.control != self.layers.config.control
        {
            control.reconfigure(&self.options.root, &layers.config.control)?;
        }
        Ok(layers)
    }

    fn save(&mut self) {
        if !self.executor.is_dry() {
            self.kept.save(&mut self.mechanisms);
        }
    }

    fn notify(&self, states: &[NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(states) {
            tracing::debug!("cannot notify the service manager: {error}");
        }
    }
}
