//! The five mechanisms and what they share: events in, decisions with reasons out, one outcome for each decision back in.
//!
//! A mechanism has two parts. Its [`Policy`] is pure: it takes events and the time, and returns [`Decision`]s. It does no
//! I/O, reads no clock and keeps no globals, so that unit tests are tables, recordings replay and `--dry-run` is free. Its
//! driver, in `driver.rs`, makes it a [`Mechanism`]: it reads the device and passes the facts to the policy.

pub mod boot;
pub mod bounds;
pub mod contract;
pub mod deference;
pub mod enabled;
mod eviction;
pub mod glob;
pub mod jobs;
pub mod launch;
pub mod lease_set;
pub mod lease_transaction;
pub mod list;
pub mod lookup;
pub mod memory;
pub mod placement;
#[cfg(test)]
mod simulated;

pub use contract::action::{Action, Decision, Target};
pub use contract::demand::{Child, LaunchBoost, SavedState, StateFileSpec, ThreadDemand, ThreadSampling};
pub use contract::event::{Event, Process, ProcessEvent, ProcessEventKind};
pub use contract::facts::{Facts, Question};
pub use contract::interest::{Interest, ProcessEventKinds, ProcessFacts, Stall};
pub use contract::notification::Notification;
pub use contract::observation::{HourFigures, Observation, Observations, TrialOutcome};
pub use contract::outcome::{Effect, Outcome};
pub use contract::preview::Preview;
pub use contract::probe_context::{ProbeContext, Settings};
pub use contract::support::{Part, Support, SupportState};
pub use enabled::Enabled;
pub use glob::Glob;
pub use jobs::Job;
pub use lease_set::{DesiredValues, LeaseSet};

use brisk_sys::{BootTime, Root};

/// The pure part of a mechanism: what it decides and reports, from its inputs alone. Methods with a default body are
/// optional.
pub trait Policy {
    /// Its name on the command line, in the configuration and in reports: one lower-case word.
    fn name(&self) -> &'static str;

    /// What this device offers to it, and how to get what is missing.
    fn support(&self) -> &Support;

    /// Which of its separately switched parts are on, and why.
    fn parts(&self) -> &[Part] {
        &[]
    }

    /// Takes one event at the time `now` and appends the resulting decisions.
    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>);

    /// Takes the outcomes of its decisions, one for each and in their order, and later those of leases that expired; appends
    /// further decisions. Until then the policy knows only what it has requested.
    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>);

    /// When it wants an [`Event::Deadline`], if no event comes first.
    fn deadline(&self) -> Option<BootTime>;

    /// What it does now, in one sentence for `brisk status`, and since when; `None` while idle.
    fn activity(&self) -> Option<(BootTime, String)>;

    /// The daemon stops: ends everything. The engine then releases the remaining leases, in reverse order.
    fn stop(&mut self, decisions: &mut Vec<Decision>) {
        let _ = decisions;
    }

    /// The events and facts that it wants now.
    fn interest(&self) -> Interest {
        Interest::default()
    }

    /// True when it does not need an event of `kind` about `pid` at `now`, although it subscribed to that kind: the engine then
    /// reads no facts about the process for it.
    fn ignores(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        let _ = (now, kind, pid);
        false
    }

    /// The processes that it wants exit events of, independent of [`Policy::interest`].
    fn awaited_exits(&self) -> &[u32] {
        &[]
    }

    /// Takes the processes that were in the foreground before the first foreground event.
    fn set_initial_foreground(&mut self, pids: &[u32]) {
        let _ = pids;
    }

    /// Appends to `demand` the facts that it wants with the next sample of threads.
    fn demand_threads(&self, demand: &mut ThreadDemand) {
        let _ = demand;
    }

    /// How threads are to be sampled for it; `None` where it has no preference.
    fn thread_sampling(&self) -> Option<ThreadSampling<'_>> {
        None
    }

    /// Appends questions whose answers no event carries. The engine answers each with one [`Event::Facts`], sent to this policy
    /// alone, without real-time priority unless [`Question::is_urgent`].
    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        let _ = questions;
    }

    /// True once when the device must be probed again because the manager that kept it off has gone. The engine then calls
    /// [`Mechanism::prepare_reconfigure`] and [`Mechanism::reconfigure`].
    fn take_probe_request(&mut self) -> bool {
        false
    }

    /// The brisk child process that it wants now. The daemon starts it, restarts it when it dies, and ends it when a different
    /// child or none is wanted. Each start and end is an [`Event::Child`].
    fn child(&self) -> Option<&Child> {
        None
    }

    /// Appends the lines to write to its child.
    fn take_child_input(&mut self, lines: &mut Vec<String>) {
        let _ = lines;
    }

    /// The CPUs that are not reserved for the foreground, while it reserves any: for all other threads, the daemon included.
    fn unreserved_cpus(&self) -> Option<&[u32]> {
        None
    }

    /// Appends the targets that it writes on this device, so that they are opened and granted to the service's user in advance.
    fn append_tunables(&self, tunables: &mut Vec<Target>) {
        let _ = tunables;
    }

    /// Whether it can help launches and whether it helps one now; `None` when it never does.
    fn launch_boost(&self) -> Option<LaunchBoost<'_>> {
        None
    }

    /// Takes whether a client watches its news.
    fn set_watched(&mut self, watched: bool) {
        let _ = watched;
    }

    /// Appends the news for clients since the last call.
    fn take_notifications(&mut self, news: &mut Vec<Notification>) {
        let _ = news;
    }

    /// Appends what it has observed for telemetry since the last call; nothing unless [`Settings::is_observed`].
    fn take_observations(&mut self, observations: &mut Vec<Observation>) {
        let _ = observations;
    }

    /// The state file that keeps what it has learned across runs.
    fn saved_state(&self) -> Option<SavedState> {
        None
    }

    /// Takes the state of an earlier run; false when the text is damaged and discarded.
    fn load_state(&mut self, text: &str) -> bool {
        let _ = text;
        true
    }

    /// Its detailed state, for a client that asks for the mechanism by name.
    fn details(&self) -> Option<serde_json::Value> {
        None
    }
}

/// A mechanism as the engine sees it: the engine holds a list of these and knows none by name. These methods read the
/// device; [`Policy`] is the pure part.
pub trait Mechanism: Policy {
    /// Probes the device and takes its configuration, at the start and whenever either changes. Appends decisions. Its leases
    /// were released before, by [`Mechanism::prepare_reconfigure`].
    fn reconfigure(&mut self, now: BootTime, surroundings: &ProbeContext<'_>, decisions: &mut Vec<Decision>);

    /// Releases leases that would hide the device's own values from a probe, or that are no longer wanted in `surroundings`.
    /// [`Mechanism::reconfigure`] comes next.
    fn prepare_reconfigure(&mut self, surroundings: &ProbeContext<'_>, decisions: &mut Vec<Decision>) {
        let _ = (surroundings, decisions);
    }

    /// Updates what [`Policy::support`] and [`Policy::parts`] report about the device, before a client reads it.
    fn refresh(&mut self, now: BootTime, root: &Root) {
        let _ = (now, root);
    }

    /// Adds to telemetry's hourly row what has happened since the last call. It may read the device.
    fn add_hour_figures(&mut self, root: &Root, figures: &mut HourFigures) {
        let _ = (root, figures);
    }

    /// Makes an observation for telemetry that takes long, or may block. The engine calls this function on a thread of its own,
    /// until it returns one.
    fn slow_observer(&self) -> Option<fn(&Root) -> Option<Observation>> {
        None
    }

    /// What it would do later, beyond decisions, for a dry run. It may read the device.
    fn preview(&self, root: &Root) -> Vec<Preview> {
        let _ = root;
        Vec::new()
    }
}

/// Only its name: with each mechanism's own `Debug` in the list's virtual tables, a device's binary would hold the formatting of
/// all their types, which nothing prints.
impl std::fmt::Debug for dyn Mechanism {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
