//! Finds background control groups that fill the queue of a network interface, and gives their packets the priority of bulk
//! traffic while there is a foreground: the thesis's network class. Pure.
//!
//! A packet of the foreground waits in the queue for as long as the link takes to send what is in it: that is the bound of the gain.
//! With the lower priority, the packets of the background wait for those of the foreground, and for nothing else. A foreground that
//! sends little costs the background little, so there is no trial; a background that gets nothing any more is released.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::back_off::BackOff;
use crate::lease_set::DesiredValues;
use crate::{Decision, Facts, LeaseSet, Outcome, Question, Target};
use brisk_sys::BootTime;
use brisk_sys::bpf::egress::BULK;
use brisk_sys::cgroup::id::folder;
use brisk_sys::network::queues::InterfaceQueue;
use brisk_sys::network::sockets::Socket;

/// How often the queues are read while there is a foreground.
const SAMPLING_PERIOD: Duration = Duration::from_secs(1);
/// After a change of the foreground the first samples follow each other sooner: an application that opens is soon ready.
const QUICK_PERIOD: Duration = Duration::from_millis(100);
const QUICK_SAMPLES: u32 = 5;
/// Samples that are nearer to each other show no rate, and those that are farther apart are not compared.
const SAMPLE_GAP: std::ops::RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(3);
/// A queue that is sent within this time delays no packet noticeably.
const LEAST_DELAY: Duration = Duration::from_millis(5);
/// Groups with the thesis's middling or heavy share of what is sent, and at least this much.
const BULK_SHARE: f64 = 0.3;
const BULK_BYTES_PER_S: f64 = 16.0 * 1024.0;
/// A group that sends less than this part of its rate before, in so many samples, is released: it has nothing to send, or gets
/// nothing.
const STARVED_PART: f64 = 0.05;
const STARVED_SAMPLES: u32 = 10;
/// It is not chosen again for so long; the time doubles up to the longest.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(600);
/// Renewed in time; leases expire only if the daemon hangs.
const LEASE: Duration = Duration::from_secs(90);

/// What the kernel reported at one time.
#[derive(Debug)]
struct Sample {
    at: BootTime,
    queues: Vec<InterfaceQueue>,
    sockets: Option<Vec<Socket>>,
}

/// What happened between two samples.
#[derive(Debug, Default, PartialEq)]
struct Traffic {
    seconds: f64,
    /// How long the link takes to send what waited in a queue with bands at both times, and the name of its interface.
    delay: Option<(Duration, String)>,
    /// What each group has sent, by its number.
    sent_bytes: Vec<(u64, u64)>,
}

impl Traffic {
    fn sent_by(&self, group: u64) -> u64 {
        self.sent_bytes.iter().find(|(id, _)| *id == group).map_or(0, |(_, sent_bytes)| *sent_bytes)
    }

    fn all_sent_bytes(&self) -> u64 {
        self.sent_bytes.iter().map(|(_, sent_bytes)| sent_bytes).sum()
    }
}

/// A group whose packets have the lower priority.
#[derive(Debug)]
struct Held {
    folder: PathBuf,
    id: u64,
    since: BootTime,
    /// Its rate before.
    bytes_per_s: f64,
    starved_samples: u32,
}

/// The policy, and the state of its questions.
#[derive(Debug)]
pub(super) struct NetworkContention {
    is_on: bool,
    /// The processes that were reported to be in the foreground.
    foreground: BTreeSet<u32>,
    /// Their groups, by number and path.
    groups: Vec<(u64, PathBuf)>,
    next: Option<BootTime>,
    quick_samples: u32,
    last: Option<Sample>,
    /// Groups that were asked for by number, with their rates, and why.
    asked: Vec<(u64, f64)>,
    reason: String,
    held: Vec<Held>,
    leases: LeaseSet,
    back_off: BackOff<()>,
    questions: Vec<Question>,
}

impl Default for NetworkContention {
    fn default() -> Self {
        Self {
            is_on: false,
            foreground: BTreeSet::new(),
            groups: Vec::new(),
            next: None,
            quick_samples: 0,
            last: None,
            asked: Vec::new(),
            reason: String::new(),
            held: Vec::new(),
            leases: LeaseSet::default(),
            back_off: BackOff::new(BACK_OFF, BACK_OFF_LONGEST),
            questions: Vec::new(),
        }
    }
}

impl NetworkContention {
    /// Acts from now on, or no longer. All leases were released before.
    pub(super) fn replace(&mut self, is_on: bool) {
        *self = Self { is_on, ..Self::default() };
    }

    /// Restores everything when the foreground changes, and starts over with the processes `foreground`, without descendants.
    pub(super) fn update_foreground(
        &mut self,
        now: BootTime,
        foreground: &BTreeSet<u32>,
        decisions: &mut Vec<Decision>,
    ) {
        if !self.is_on || *foreground == self.foreground {
            return;
        }
        if foreground.is_empty() {
            return self.stop("there is no foreground", decisions);
        }
        self.reset("the foreground changed", decisions);
        self.foreground.clone_from(foreground);
        self.quick_samples = QUICK_SAMPLES;
        self.ask(now);
    }

    /// When the next sample is due.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.next
    }

    /// Asks for a sample when it is due.
    pub(super) fn on_deadline(&mut self, now: BootTime) {
        if self.next.is_some_and(|next| next <= now) {
            self.ask(now);
        }
    }

    fn ask(&mut self, now: BootTime) {
        let period = if self.quick_samples > 0 { QUICK_PERIOD } else { SAMPLING_PERIOD };
        self.quick_samples = self.quick_samples.saturating_sub(1);
        self.next = Some(now + period);
        // Connections are listed only while that can matter.
        let sockets = !self.held.is_empty() || self.last.as_ref().is_some_and(|last| is_filled(&last.queues));
        self.questions.push(Question::NetworkUse { processes: self.foreground.clone(), sockets });
    }

    pub(super) fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
    }

    /// Takes an answer, and asks the next question or decides.
    pub(super) fn take(&mut self, now: BootTime, facts: &Facts, decisions: &mut Vec<Decision>) {
        // The foreground may have gone since the question.
        if self.next.is_none() {
            return;
        }
        match facts {
            Facts::NetworkUse { queues, sockets, groups } => {
                self.groups.clone_from(groups);
                let sample = Sample { at: now, queues: queues.clone(), sockets: sockets.clone() };
                self.on_sample(now, sample, decisions);
            }
            Facts::ControlGroups { mount, groups } => self.on_groups(now, mount, groups, decisions),
            // No other question is asked.
            _ => {}
        }
    }

    fn on_sample(&mut self, now: BootTime, sample: Sample, decisions: &mut Vec<Decision>) {
        if sample.sockets.is_none() && is_filled(&sample.queues) {
            let processes = self.foreground.clone();
            self.questions.push(Question::NetworkUse { processes, sockets: true });
        }
        let traffic = self.last.as_ref().and_then(|before| between(before, &sample));
        self.last = Some(sample);
        let Some(traffic) = traffic else { return };
        self.release_starved(now, &traffic, decisions);
        let Some((delay, interface)) = traffic.delay.as_ref().filter(|(delay, _)| *delay >= LEAST_DELAY) else {
            return;
        };
        let bulk = self.bulk(now, &traffic);
        if !bulk.is_empty() {
            let (delay_ms, all) = (delay.as_millis(), traffic.all_sent_bytes() as f64);
            let share = 100.0 * bulk.iter().map(|(_, bytes_per_s)| bytes_per_s).sum::<f64>() * traffic.seconds / all;
            self.reason = format!(
                "a packet waits {delay_ms} ms in the queue of {interface}, of which the background sends {share:.0} %"
            );
            self.questions.push(Question::ControlGroups { ids: bulk.iter().map(|(id, _)| *id).collect() });
            self.asked = bulk;
        }
    }

    /// The groups that send in bulk, with their rates: neither the foreground's nor held. None after a release.
    fn bulk(&self, now: BootTime, traffic: &Traffic) -> Vec<(u64, f64)> {
        if !self.back_off.allows(now, ()) {
            return Vec::new();
        }
        let least = (BULK_BYTES_PER_S * traffic.seconds).max(BULK_SHARE * traffic.all_sent_bytes() as f64);
        let is_free = |id: &u64| {
            let is_foreground = self.groups.iter().any(|(group, _)| group == id);
            !is_foreground && !self.held.iter().any(|held| held.id == *id)
        };
        let bulk = traffic.sent_bytes.iter().filter(|(id, sent_bytes)| *sent_bytes as f64 >= least && is_free(id));
        bulk.map(|(id, sent_bytes)| (*id, *sent_bytes as f64 / traffic.seconds)).collect()
    }

    fn on_groups(&mut self, now: BootTime, mount: &Path, groups: &[(u64, PathBuf)], decisions: &mut Vec<Decision>) {
        for (id, group) in groups {
            let Some(&(_, bytes_per_s)) = self.asked.iter().find(|(asked, _)| asked == id) else { continue };
            // The program of a group also sees the packets of the groups below it.
            let is_related = |of: &Path| of.starts_with(group) || of != Path::new("/") && group.starts_with(of);
            if !self.groups.iter().any(|(_, of)| is_related(of)) {
                let folder = folder(mount, group);
                self.held.push(Held { folder, id: *id, since: now, bytes_per_s, starved_samples: 0 });
            }
        }
        self.asked.clear();
        self.renew(now, decisions);
    }

    fn renew(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let wanted = |held: &Held| (Target::EgressPriority(held.folder.clone()), BULK.to_string());
        let wanted: DesiredValues = self.held.iter().map(wanted).collect();
        self.leases.reconcile(now, &wanted, LEASE, (&self.reason, "it has sent almost nothing for a while"), decisions);
    }

    /// Releases groups that have sent almost nothing in several samples, and renews the other leases.
    fn release_starved(&mut self, now: BootTime, traffic: &Traffic, decisions: &mut Vec<Decision>) {
        for held in &mut self.held {
            let is_starved = (traffic.sent_by(held.id) as f64) < STARVED_PART * held.bytes_per_s * traffic.seconds;
            held.starved_samples = if is_starved { held.starved_samples + 1 } else { 0 };
        }
        self.drop_where(now, |held| held.starved_samples >= STARVED_SAMPLES);
        self.renew(now, decisions);
    }

    /// Takes the outcomes of its decisions: a group that the kernel refused is not asked for again soon.
    pub(super) fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome]) {
        outcomes.iter().for_each(|outcome| self.leases.take(now, outcome));
        let in_force: Vec<Target> = self.leases.in_force().map(|(target, _)| target.clone()).collect();
        self.drop_where(now, |held| !in_force.contains(&Target::EgressPriority(held.folder.clone())));
    }

    /// Forgets the groups that `is_over`; none is chosen soon after that.
    fn drop_where(&mut self, now: BootTime, is_over: impl Fn(&Held) -> bool) {
        let before = self.held.len();
        self.held.retain(|held| !is_over(held));
        if self.held.len() < before {
            self.back_off.add(now, ());
        }
    }

    /// Restores everything, and samples no more until there is a foreground.
    pub(super) fn stop(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.reset(why, decisions);
        self.foreground.clear();
        self.next = None;
    }

    /// Restores everything. The last sample stays: with it the first one of another foreground may suffice.
    fn reset(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.held.clear();
        self.asked.clear();
        self.leases.release_where(why, decisions, |_| true);
        self.back_off.clear();
    }

    /// What is done, in one sentence, and since when.
    pub(super) fn activity(&self) -> Option<(BootTime, String)> {
        let since = self.held.iter().map(|held| held.since).min()?;
        let groups: Vec<String> = self.held.iter().map(|held| held.folder.display().to_string()).collect();
        Some((since, format!("packets of {} get the priority of bulk traffic: {}", groups.join(", "), self.reason)))
    }
}

/// True when something waits in a queue with bands.
fn is_filled(queues: &[InterfaceQueue]) -> bool {
    queues.iter().any(|queue| queue.has_bands && queue.waiting_bytes > 0)
}

/// The traffic between two samples with connections; `None` where they cannot be compared.
fn between(before: &Sample, now: &Sample) -> Option<Traffic> {
    let wall = now.at.since(before.at);
    let (then, sockets) = (before.sockets.as_ref()?, now.sockets.as_ref()?);
    if !SAMPLE_GAP.contains(&wall) {
        return None;
    }
    let mut sent_bytes: Vec<(u64, u64)> = Vec::new();
    for socket in sockets {
        let earlier = then.iter().find(|earlier| earlier.cookie == socket.cookie);
        let sent = socket.sent_bytes.saturating_sub(earlier.map_or(0, |earlier| earlier.sent_bytes));
        match sent_bytes.iter_mut().find(|(group, _)| *group == socket.group) {
            Some((_, sum)) => *sum += sent,
            None => sent_bytes.push((socket.group, sent)),
        }
    }
    sent_bytes.retain(|(_, sent)| *sent > 0);
    let delay = |queue: &InterfaceQueue| {
        let earlier = before.queues.iter().find(|earlier| earlier.interface == queue.interface)?;
        let sent = queue.sent_bytes.checked_sub(earlier.sent_bytes).filter(|sent| queue.has_bands && *sent > 0)?;
        let waiting_bytes = queue.waiting_bytes.min(earlier.waiting_bytes);
        Some((wall.mul_f64(waiting_bytes as f64 / sent as f64), queue.interface.clone()))
    };
    let delay = now.queues.iter().filter_map(delay).max();
    Some(Traffic { seconds: wall.as_secs_f64(), delay, sent_bytes })
}

#[cfg(test)]
mod tests;
