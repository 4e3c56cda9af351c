//! Lookups generated from a description: which processes start, their identities, and which services they look up.

use std::ops::Range;

use serde::Deserialize;

use brisk_base::random::Random;
use brisk_base::toml_text;

/// The traces that come with brisk.
const BUILT_IN: &str = include_str!("traces.toml");

/// A file of traces over one set of services.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Services that are registered.
    pub services: u32,
    /// The s of Zipf's law: the service of rank r is looked up r^-s times as often as the first.
    pub zipf_exponent: f64,
    #[serde(rename = "trace")]
    pub traces: Vec<Trace>,
}

/// One course of events.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// One lower-case word.
    pub name: String,
    /// What happens, in a few words.
    pub title: String,
    /// Where its figures come from.
    pub basis: String,
    /// What happens, in order.
    #[serde(rename = "phase")]
    pub phases: Vec<Phase>,
}

/// Processes that start, look services up and go on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The number of processes.
    pub starts: u32,
    /// Different services that each looks up.
    pub names: u32,
    /// How often it looks each of them up; 1 where the process keeps the answers, as libbinder and Java do.
    #[serde(default = "one")]
    pub repeats: u32,
    /// Identities (uid and security label) that the processes are spread over; when absent, each start has a new one.
    pub callers: Option<u32>,
    /// The s of Zipf's law for these identities; 0 makes all equally likely.
    #[serde(default)]
    pub caller_exponent: f64,
    /// Processes of isolated uids, which receive no shared answer.
    #[serde(default)]
    pub isolated: bool,
    /// Processes that look up at the same time.
    #[serde(default = "one")]
    pub at_once: u32,
    /// After this many starts other services become the popular ones.
    pub drift_starts: Option<u32>,
    /// Services that are registered again before each start.
    #[serde(default)]
    pub registered_again: u32,
}

/// One step of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEvent {
    /// A process looks a service up.
    Lookup(Lookup),
    /// A service is registered again: earlier answers are stale from now on.
    Registered {
        /// The service.
        name: u32,
    },
}

/// One lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// The service.
    pub name: u32,
    /// The caller's identity.
    pub caller: u32,
    /// The calling process: the number of its start.
    pub process: u32,
    /// The caller is isolated.
    pub isolated: bool,
}

/// A file of traces that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TraceError(String);

fn one() -> u32 {
    1
}

impl Traces {
    /// The traces that come with brisk.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).expect("a test parses this very text")
    }

    /// Reads traces from TOML.
    ///
    /// # Errors
    /// [`TraceError`] with line and column, or with the contradiction.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let traces: Self = toml_text::from_str(text).map_err(|error| TraceError(error.to_string()))?;
        match traces.fault() {
            None => Ok(traces),
            Some(fault) => Err(TraceError(fault)),
        }
    }

    /// The share of lookups that the most popular quarter of the services takes.
    pub fn top_quarter_share(&self) -> f64 {
        Popularity::zipf(self.services, self.zipf_exponent).share_of_first(self.services / 4)
    }

    fn fault(&self) -> Option<String> {
        // More would only cost memory: a device has a few hundred services.
        const MOST: u32 = 1_000_000;
        if self.services == 0 || self.services > MOST || !self.zipf_exponent.is_finite() {
            return Some(format!("services must be 1 to {MOST}, and zipf_exponent a number"));
        }
        for trace in &self.traces {
            for phase in &trace.phases {
                let counts = [phase.starts, phase.repeats, phase.at_once, phase.callers.unwrap_or(1)];
                let too_many = phase.names > self.services || phase.registered_again > self.services;
                let samples = u64::from(phase.starts) * u64::from(phase.names) * u64::from(phase.repeats);
                let fault = if counts.contains(&0) || phase.names == 0 || phase.drift_starts == Some(0) {
                    "every count must be above zero"
                } else if too_many {
                    "names and registered_again cannot be more than there are services"
                } else if samples > u64::from(MOST) || phase.callers.unwrap_or(1) > MOST {
                    "a phase has at most a million lookups and callers"
                } else if !phase.caller_exponent.is_finite() {
                    "caller_exponent must be a number"
                } else {
                    continue;
                };
                return Some(format!("trace {}: {fault}", trace.name));
            }
        }
        None
    }
}

impl Trace {
    /// One course of this trace over the services of `traces`.
    pub fn events(&self, traces: &Traces, random: &mut Random) -> Vec<TraceEvent> {
        let mut generator = TraceGenerator::new(traces, random);
        for phase in &self.phases {
            generator.run(phase, random);
        }
        generator.events
    }
}

/// A trace that is being generated.
struct TraceGenerator {
    events: Vec<TraceEvent>,
    /// The services, most popular first.
    by_rank: Vec<u32>,
    popularity: Popularity,
    /// How many new identities were assigned, from the highest number down.
    next_caller: u32,
    next_process: u32,
    /// By service, the last draw of different services that it was part of.
    drawn_for: Vec<u64>,
    draws: u64,
}

/// Processes that look up at the same time.
#[derive(Default)]
struct ConcurrentProcesses {
    /// The lookups of each, the last one first.
    lookups: Vec<Lookup>,
    /// The remaining lookups of each.
    left: Vec<Range<usize>>,
}

impl TraceGenerator {
    fn new(traces: &Traces, random: &mut Random) -> Self {
        let mut by_rank: Vec<u32> = (0..traces.services).collect();
        random.shuffle(&mut by_rank);
        Self {
            events: Vec::new(),
            by_rank,
            popularity: Popularity::zipf(traces.services, traces.zipf_exponent),
            next_caller: 0,
            next_process: 0,
            drawn_for: vec![0; traces.services as usize],
            draws: 0,
        }
    }

    fn run(&mut self, phase: &Phase, random: &mut Random) {
        let callers = phase.callers.map(|callers| Popularity::zipf(callers, phase.caller_exponent));
        let mut names = Vec::new();
        let mut at_once = ConcurrentProcesses::default();
        for start in 0..phase.starts {
            if phase.drift_starts.is_some_and(|drift| start > 0 && start % drift == 0) {
                random.shuffle(&mut self.by_rank);
            }
            self.draw_different(phase.registered_again, &mut names, random);
            self.events.extend(names.iter().map(|&name| TraceEvent::Registered { name }));
            let caller = match &callers {
                Some(callers) => callers.draw(random) as u32,
                None => {
                    self.next_caller += 1;
                    // Distinct from the identities of other phases, which are numbered from 0.
                    u32::MAX - self.next_caller
                }
            };
            self.draw_different(phase.names, &mut names, random);
            self.start(phase, caller, &mut names, &mut at_once, random);
            if at_once.left.len() == phase.at_once as usize || start + 1 == phase.starts {
                self.interleave(&mut at_once, random);
            }
        }
    }

    /// One process that looks up `names`.
    fn start(
        &mut self,
        phase: &Phase,
        caller: u32,
        names: &mut Vec<u32>,
        at_once: &mut ConcurrentProcesses,
        random: &mut Random,
    ) {
        let process = self.next_process;
        self.next_process += 1;
        let different = names.len();
        (1..phase.repeats).for_each(|_| names.extend_from_within(..different));
        random.shuffle(names);
        let first = at_once.lookups.len();
        let lookup = |&name: &u32| Lookup { name, caller, process, isolated: phase.isolated };
        at_once.lookups.extend(names.iter().map(lookup));
        at_once.left.push(first..at_once.lookups.len());
    }

    /// Puts `count` different services into `names`, drawn by their popularity and then sorted.
    fn draw_different(&mut self, count: u32, names: &mut Vec<u32>, random: &mut Random) {
        names.clear();
        self.draws += 1;
        // Where nearly all services are wanted, random draws rarely find the unpopular ones.
        let mut attempts_left = count.saturating_mul(64);
        while names.len() < count as usize && attempts_left > 0 {
            self.take(self.by_rank[self.popularity.draw(random)], names);
            attempts_left -= 1;
        }
        for rank in 0..self.by_rank.len() {
            if names.len() == count as usize {
                break;
            }
            self.take(self.by_rank[rank], names);
        }
        names.sort_unstable();
    }

    /// Adds `name` to `names` if it is not there.
    fn take(&mut self, name: u32, names: &mut Vec<u32>) {
        let drawn_for = &mut self.drawn_for[name as usize];
        if *drawn_for != self.draws {
            *drawn_for = self.draws;
            names.push(name);
        }
    }

    /// Interleaves the lookups of processes that run at the same time, at random.
    fn interleave(&mut self, ConcurrentProcesses { lookups, left }: &mut ConcurrentProcesses, random: &mut Random) {
        while !left.is_empty() {
            let turn = random.below(left.len());
            match left[turn].next_back() {
                Some(place) => self.events.push(TraceEvent::Lookup(lookups[place])),
                None => drop(left.swap_remove(turn)),
            }
        }
        lookups.clear();
    }
}

/// A distribution over ranks 0, 1, 2, ...
#[derive(Debug)]
pub struct Popularity {
    /// The share of each rank and those before it; the last one is 1.
    cumulative: Vec<f64>,
    /// A guide table: the range from 0 to 1 in equal parts, a power of two of them, and the rank with which each part begins
    /// (Chen and Asau, "On generating random variates from an empirical distribution", 1974).
    first_ranks: Vec<u32>,
}

impl Popularity {
    /// Zipf's law over `ranks` ranks: rank r is drawn r^-`exponent` times as often as the first.
    pub fn zipf(ranks: u32, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weight = |rank: u32| f64::from(rank).powf(-exponent);
        let mut cumulative: Vec<f64> = (1..=ranks)
            .map(|rank| {
                sum += weight(rank);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|share| *share /= sum);
        let parts = (ranks as usize).next_power_of_two();
        let beginning = |part: usize| part as f64 / parts as f64;
        let first_rank = |part: usize| cumulative.partition_point(|&share| share <= beginning(part)) as u32;
        let first_ranks = (0..parts).map(first_rank).collect();
        Self { cumulative, first_ranks }
    }

    /// A rank, counted from 0.
    pub fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit();
        let part = (at * self.first_ranks.len() as f64) as usize;
        let mut rank = self.first_ranks[part] as usize;
        while self.cumulative.get(rank).is_some_and(|&share| share <= at) {
            rank += 1;
        }
        rank.min(self.cumulative.len() - 1)
    }

    fn share_of_first(&self, ranks: u32) -> f64 {
        (ranks as usize).checked_sub(1).map_or(0.0, |last| self.cumulative[last])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn events(phase: &str) -> Vec<TraceEvent> {
        let text = format!(
            "services = 20\nzipf_exponent = 1.0\n[[trace]]\nname = \"t\"\ntitle = \"t\"\nbasis = \"b\"\n\
             [[trace.phase]]\n{phase}"
        );
        let traces = Traces::parse(&text).unwrap();
        traces.traces[0].events(&traces, &mut Random::new(1))
    }

    fn lookups(events: &[TraceEvent]) -> Vec<Lookup> {
        let lookup = |event: &TraceEvent| match event {
            TraceEvent::Lookup(lookup) => Some(*lookup),
            TraceEvent::Registered { .. } => None,
        };
        events.iter().filter_map(lookup).collect()
    }

    #[test]
    fn the_built_in_traces_are_valid() {
        let traces = Traces::built_in();
        assert!((traces.top_quarter_share() - 0.80).abs() < 0.02, "{}", traces.top_quarter_share());
        assert!(traces.traces.len() >= 8, "three for the policies and five of applications");
        let names: BTreeSet<&str> = traces.traces.iter().map(|trace| trace.name.as_str()).collect();
        assert_eq!(names.len(), traces.traces.len());
    }

    #[test]
    fn a_process_looks_up_different_services_as_often_as_given() {
        for (phase, expected) in [
            ("starts = 3\nnames = 7", 21),
            ("starts = 3\nnames = 20", 60),
            ("starts = 2\nnames = 5\nrepeats = 4", 40),
            ("starts = 5\nnames = 2\nat_once = 2\nregistered_again = 3", 10),
        ] {
            let lookups = lookups(&events(phase));
            assert_eq!(lookups.len(), expected, "{phase}");
            let repeats = if phase.contains("repeats") { 4 } else { 1 };
            let mut seen = std::collections::HashMap::new();
            lookups.iter().for_each(|l| *seen.entry((l.caller, l.name)).or_insert(0) += 1);
            assert!(seen.values().all(|&count| count == repeats), "{phase}: {seen:?}");
        }
    }

    #[test]
    fn processes_take_turns_only_when_they_run_at_once() {
        let changes = |phase: &str| {
            let lookups = lookups(&events(phase));
            lookups.windows(2).filter(|pair| pair[0].caller != pair[1].caller).count()
        };
        assert_eq!(changes("starts = 4\nnames = 10"), 3);
        assert!(changes("starts = 4\nnames = 10\nat_once = 4") > 8);
    }

    #[test]
    fn services_are_registered_before_the_start_that_follows() {
        let events = events("starts = 2\nnames = 1\nregistered_again = 2\nisolated = true");
        let registered = |event: &TraceEvent| matches!(event, TraceEvent::Registered { .. });
        assert_eq!(events.iter().map(registered).collect::<Vec<_>>(), [true, true, false, true, true, false]);
        assert!(lookups(&events).iter().all(|lookup| lookup.isolated));
    }

    #[test]
    fn popularity_is_drawn_as_described_and_drifts_when_asked() {
        let most = |events: &[TraceEvent]| {
            let mut counts = [0u32; 20];
            lookups(events).iter().for_each(|l| counts[l.name as usize] += 1);
            (0..20).max_by_key(|&name| counts[name]).map(|name| (name, counts[name]))
        };
        let steady = events("starts = 4000\nnames = 1\ncallers = 1");
        let (name, count) = most(&steady).unwrap();
        // 1 / (1 + 1/2 + ... + 1/20) = 0.278.
        assert!((1000..1230).contains(&count), "{count}");
        assert_eq!(most(&steady[..2000]).unwrap().0, name);
        let drifting = events("starts = 4000\nnames = 1\ncallers = 1\ndrift_starts = 400");
        let popular: BTreeSet<_> = drifting.chunks(400).filter_map(|part| Some(most(part)?.0)).collect();
        assert!(popular.len() > 4, "{popular:?}");
    }

    #[test]
    fn a_draw_agrees_with_a_search_of_all_ranks() {
        for (ranks, exponent) in [(1, 1.0), (20, 1.16), (100, 0.0), (129, 2.5)] {
            let popularity = Popularity::zipf(ranks, exponent);
            let (mut random, mut same) = (Random::new(5), Random::new(5));
            for _ in 0..2000 {
                let at = same.unit();
                let searched = popularity.cumulative.partition_point(|&share| share <= at).min(ranks as usize - 1);
                assert_eq!(popularity.draw(&mut random), searched, "{ranks} {exponent} {at}");
            }
        }
    }

    #[test]
    fn contradictory_traces_are_refused() {
        let good = "services = 20\nzipf_exponent = 1.0\n[[trace]]\nname = \"t\"\ntitle = \"t\"\nbasis = \"b\"\n\
                    [[trace.phase]]\nstarts = 1\nnames = 1\n";
        assert!(Traces::parse(good).is_ok());
        for (from, to, expected) in [
            ("names = 1", "names = 21", "trace t: names and registered_again cannot be more"),
            ("starts = 1", "starts = 0", "trace t: every count must be above zero"),
            ("starts = 1", "starts = 2000000", "at most a million"),
            ("services = 20", "services = 0", "services must be 1 to"),
            ("exponent = 1.0", "exponent = nan", "zipf_exponent a number"),
            ("title", "titel", "unknown field `titel`"),
        ] {
            let error = Traces::parse(&good.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }
}
