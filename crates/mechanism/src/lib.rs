//! The five mechanisms and what they share: events in, decisions with reasons out, and what became of each back in.
//!
//! A mechanism has two parts. Its [`Policy`] is pure: it takes events and the time, and returns [`Decision`]s. It does no
//! I/O, reads no clock and keeps no globals, so that unit tests are tables, recordings replay and `--dry-run` is free. Its
//! driver, in `driver.rs`, makes it a [`Mechanism`]: it reads the device and hands what it found to the policy.

pub mod boot;
pub mod bounds;
pub mod contract;
pub mod deference;
pub mod enabled;
pub mod glob;
pub mod holdings;
pub mod jobs;
pub mod launch;
pub mod list;
pub mod lookup;
pub mod memory;
pub mod placement;
mod recency;
pub mod sequence;
#[cfg(test)]
mod simulated;

pub use contract::action::{Action, Decision, Target};
pub use contract::demand::{Child, Kept, LaunchHelp, LearnedFile, ThreadDemand, ThreadSampling};
pub use contract::event::{Event, Process, ProcessEvent, ProcessEventKind};
pub use contract::facts::{Facts, Question};
pub use contract::foreseen::Foreseen;
pub use contract::interest::{Interest, ProcessEventKinds, ProcessFacts, Stall};
pub use contract::news::News;
pub use contract::outcome::{Effect, Outcome};
pub use contract::support::{Part, Support, SupportState};
pub use contract::surroundings::{Settings, Surroundings};
pub use enabled::Enabled;
pub use glob::Glob;
pub use holdings::{Demands, Holdings};
pub use jobs::Job;

use brisk_sys::{BootTime, Root};

/// What a mechanism decides, and what it tells of itself: by what it was handed, and by nothing else. The methods with a
/// body may be left as they are.
pub trait Policy: std::fmt::Debug {
    /// Its name on the command line, in the configuration and in reports: one lower-case word.
    fn name(&self) -> &'static str;

    /// What this device offers to it, and what to do about the rest.
    fn support(&self) -> &Support;

    /// Which of its parts are on, where they are switched one by one, and why.
    fn parts(&self) -> &[Part] {
        &[]
    }

    /// Takes one event at the time `now` and appends what should be done about it.
    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>);

    /// Takes what became of its decisions, one outcome for each in their order, and later of leases that ended by
    /// themselves; appends what should be done about that. Until then it knows only what it has asked for.
    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>);

    /// When it wants an [`Event::Deadline`], if nothing happens before.
    fn deadline(&self) -> Option<BootTime>;

    /// What it does now, in one sentence for `brisk status`, and since when; `None` while it does nothing.
    fn activity(&self) -> Option<(BootTime, String)>;

    /// Ends everything: the daemon stops. Leases that remain are released after that, in reverse order.
    fn stop(&mut self, decisions: &mut Vec<Decision>) {
        let _ = decisions;
    }

    /// What it wants to hear now.
    fn interest(&self) -> Interest {
        Interest::default()
    }

    /// True when it has no use for an event of `kind` about `pid` at `now`, although it asked for that kind: then the
    /// engine does not look the process up for it.
    fn ignores(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        let _ = (now, kind, pid);
        false
    }

    /// The processes whose end it wants to hear, whatever [`Policy::interest`] says.
    fn awaited_exits(&self) -> &[u32] {
        &[]
    }

    /// Takes the processes that were in the foreground before it heard of any change.
    fn begin_in_foreground(&mut self, pids: &[u32]) {
        let _ = pids;
    }

    /// Appends to `demand` what it wants to know with the next sample of threads at `now`.
    fn demand_threads(&self, now: BootTime, demand: &mut ThreadDemand) {
        let _ = (now, demand);
    }

    /// How threads are to be sampled for it; `None` where that does not matter to it.
    fn thread_sampling(&self) -> Option<ThreadSampling<'_>> {
        None
    }

    /// Appends what it wants to know that no event brings. Each question is answered by one [`Event::Facts`] to it alone,
    /// at leisure.
    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        let _ = questions;
    }

    /// True once when the device must be probed for it again: what keeps it off has gone. [`Mechanism::let_go`] and
    /// [`Mechanism::follow`] come next.
    fn take_probe_request(&mut self) -> bool {
        false
    }

    /// The process of brisk's own that it wants beside the daemon now: it is started, started again when it dies, and ended
    /// when another one or none is wanted. Each start and end is an [`Event::Child`].
    fn child(&self) -> Option<&Child> {
        None
    }

    /// Appends the lines that its child is told.
    fn take_lines(&mut self, lines: &mut Vec<String>) {
        let _ = lines;
    }

    /// While it reserves CPUs for the foreground: those that are left for the rest, the daemon included.
    fn unreserved_cpus(&self) -> Option<&[u32]> {
        None
    }

    /// Appends the targets that it writes on this device, so that they are opened, and granted to the service's user,
    /// before they are needed.
    fn append_tunables(&self, tunables: &mut Vec<Target>) {
        let _ = tunables;
    }

    /// Whether it helps launches, and one that was announced now; `None` when it does not.
    fn launch_help(&self) -> Option<LaunchHelp<'_>> {
        None
    }

    /// Takes whether a client wants to hear its news.
    fn set_watched(&mut self, watched: bool) {
        let _ = watched;
    }

    /// Appends what has happened since the last call that clients want to hear.
    fn take_news(&mut self, news: &mut Vec<News>) {
        let _ = news;
    }

    /// The file in which it keeps across runs what it has learned.
    fn kept(&self) -> Option<Kept> {
        None
    }

    /// Takes what an earlier run has kept; false when the text is damaged, and is forgotten.
    fn recall(&mut self, text: &str) -> bool {
        let _ = text;
        true
    }

    /// What it knows in detail, where a client asks for that by its name.
    fn details(&self) -> Option<serde_json::Value> {
        None
    }
}

/// A mechanism as the engine sees it: the engine holds a list of these and knows none by name. What stands here reads the
/// device; [`Policy`] is the rest.
pub trait Mechanism: Policy {
    /// Probes the device and takes its configuration: at the start, and whenever either has changed. Appends what should
    /// be done from then on. What it held was released before, by [`Mechanism::let_go`].
    fn follow(&mut self, now: BootTime, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>);

    /// Releases what would hide the device's own values from a probe, or is not wanted any more in `surroundings`;
    /// [`Mechanism::follow`] comes next.
    fn let_go(&mut self, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        let _ = (surroundings, decisions);
    }

    /// Reads what [`Policy::support`] and [`Policy::parts`] tell of the device: before a client is told.
    fn refresh(&mut self, now: BootTime, root: &Root) {
        let _ = (now, root);
    }

    /// What it would do later on, beside decisions: a dry run shows it. It may read the device.
    fn foresee(&self, root: &Root) -> Vec<Foreseen> {
        let _ = root;
        Vec::new()
    }
}
