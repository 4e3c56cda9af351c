//! Combinations of a foreground and background programs: the workload of experiments about placement.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Arm, Disk, Experiment, Network};
use crate::claim::{Claim, PointSelector};
use crate::point::Point;
use brisk_report::proof::Timekeeping;

/// Separates the names of the foreground and of the background.
const NAME_SEPARATOR: &str = " / ";

/// Combinations that are run one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combinations {
    /// Shortest and longest time that the background runs alone before the foreground starts, in milliseconds.
    pub settle_ms: [u32; 2],
    /// The disk that the programs share, in the lab.
    pub disk: Option<Disk>,
    /// The link that they share, in the lab.
    pub network: Option<Network>,
    /// True: in every arm the foreground and the background have a control group each, and the background has the
    /// `oom_score_adj` of cached applications, as on Android. In the lab.
    #[serde(default)]
    pub grouped: bool,
    /// The combinations; each is a point.
    pub list: Vec<Combination>,
}

/// A foreground with its background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combination {
    /// The program that the user waits for.
    pub foreground: Foreground,
    /// The background programs, each in a process of its own.
    pub background: Vec<BackgroundProgram>,
    /// True for one that the quick form runs as well.
    #[serde(default)]
    pub quick: bool,
    /// True where the arm that has no background is run too.
    #[serde(default)]
    pub alone: bool,
    /// True for a combination that was chosen after the rule was frozen: nothing was fitted to it.
    #[serde(default)]
    pub unseen: bool,
}

/// A foreground program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Foreground {
    /// One thread that computes.
    Thread,
    /// Two threads that compute.
    Threads,
    /// A script in its engine: one thread that computes and allocates memory, and a helper that collects.
    Script,
    /// A script with two workers, to which it posts small tasks.
    Workers,
    /// A frame every 16.7 ms, each 7 ms of work: the 95th percentile of the response times.
    Frames,
    /// Threads of three periods, as in rt-app: the same of their work.
    Periodic,
    /// A thread that needs 35 % of a CPU, 7 ms every 20 ms: the same of its work.
    HalfCore,
    /// Requests to four workers, as in schbench: the same of their answers.
    Requests,
    /// Messages between groups of threads, as hackbench sends them.
    Messages,
    /// Short-lived processes, two at a time, as a build starts them.
    Compile,
    /// A minute of computing, allocating memory, writing and reading, and drawing, as in benchmarks of whole devices.
    Mixed,
    /// A browser of two processes for 500 s: the 95th percentile of the times that its pages take.
    Browsing,
    /// A suite of small programs in JavaScript under node.
    Suite,
    /// A block of 4 KiB from a random place of the disk every 100 ms, for two minutes: the 95th percentile of the times from when
    /// each was due until it was read.
    Reads,
    /// An application that opens: 300 such blocks one after the other, with half a millisecond of work after each.
    Opening,
    /// Requests every 50 ms for two minutes, each to eight blocks of 48 MiB that are in the page cache at first: the 95th
    /// percentile of their times.
    WorkingSet,
    /// A request of 200 bytes over a TCP connection every 100 ms for 30 s, each answered with 1000 bytes: the 95th percentile of the
    /// times from when each was due until its answer was there.
    Exchanges,
    /// An application that opens: 40 files of 4 KiB one after the other, each over a new TCP connection, with half a millisecond of
    /// work after each.
    Fetches,
}

/// A background program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackgroundProgram {
    /// 1 ms of work every 20 ms that must be done before the next.
    Music,
    /// A player that decodes FLAC, 20 ms of music every 20 ms, up to three of them ahead.
    Player,
    /// 15 ms of work, then a wait of 25 ms.
    Download,
    /// 50 MB over TCP on the loopback interface to a file, at 8 Mbit/s, again and again.
    Transfer,
    /// The same work without pause for a fifth of a second, then a pause of two seconds.
    Bursts,
    /// A thread that never waits.
    Hog,
    /// As in the foreground, without end.
    Compile,
    /// As in the foreground, without end.
    Messages,
    /// Eight threads, each of which reads its part of the disk in pieces of 64 KiB.
    Backup,
    /// The same number of threads, each of which writes its part in such pieces, and waits for the disk after every sixteen.
    Update,
    /// Allocates 20 MiB/s, and frees all at 160 MiB, again and again.
    Growth,
    /// Eight threads, each of which sends files of 256 KiB, each over a new TCP connection.
    Upload,
}

impl Foreground {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Thread,
        Self::Threads,
        Self::Script,
        Self::Workers,
        Self::Frames,
        Self::Periodic,
        Self::HalfCore,
        Self::Requests,
        Self::Messages,
        Self::Compile,
        Self::Mixed,
        Self::Browsing,
        Self::Suite,
        Self::Reads,
        Self::Opening,
        Self::WorkingSet,
        Self::Exchanges,
        Self::Fetches,
    ];

    /// Its name, as experiments write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Threads => "threads",
            Self::Script => "script",
            Self::Workers => "workers",
            Self::Frames => "frames",
            Self::Periodic => "periodic",
            Self::HalfCore => "half-core",
            Self::Requests => "requests",
            Self::Messages => "messages",
            Self::Compile => "compile",
            Self::Mixed => "mixed",
            Self::Browsing => "browsing",
            Self::Suite => "suite",
            Self::Reads => "reads",
            Self::Opening => "opening",
            Self::WorkingSet => "working-set",
            Self::Exchanges => "exchanges",
            Self::Fetches => "fetches",
        }
    }

    /// Approximate duration undisturbed, in milliseconds: paced programs take as long in any arm.
    pub fn duration_ms(self) -> u32 {
        match self {
            Self::Thread | Self::Workers | Self::Messages | Self::Compile => 1200,
            Self::Threads => 1800,
            Self::Script | Self::Suite | Self::Periodic | Self::Requests => 3000,
            Self::Frames | Self::HalfCore => 4500,
            // Beside a background that uses the link or the disk; alone a tenth of it.
            Self::Fetches => 8000,
            Self::Opening | Self::Exchanges => 30_000,
            Self::Mixed => 60_000,
            Self::Reads | Self::WorkingSet => 120_000,
            Self::Browsing => 500_000,
        }
    }

    /// True for one that reads from the experiment's disk.
    pub fn uses_disk(self) -> bool {
        matches!(self, Self::Reads | Self::Opening | Self::WorkingSet)
    }

    /// True for one that uses the experiment's link.
    fn uses_network(self) -> bool {
        matches!(self, Self::Exchanges | Self::Fetches)
    }
}

impl BackgroundProgram {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Music,
        Self::Player,
        Self::Download,
        Self::Transfer,
        Self::Bursts,
        Self::Hog,
        Self::Compile,
        Self::Messages,
        Self::Backup,
        Self::Update,
        Self::Growth,
        Self::Upload,
    ];

    /// True for one whose rate is measured: it reads, writes, sends or allocates in bulk.
    pub fn is_bulk(self) -> bool {
        matches!(self, Self::Growth | Self::Upload) || self.uses_disk()
    }

    fn uses_disk(self) -> bool {
        matches!(self, Self::Backup | Self::Update)
    }

    /// True for music, which the user hears: it is not deprioritised by hand.
    pub fn is_music(self) -> bool {
        matches!(self, Self::Music | Self::Player)
    }

    /// Its name, as experiments write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Music => "music",
            Self::Player => "player",
            Self::Download => "download",
            Self::Transfer => "transfer",
            Self::Bursts => "bursts",
            Self::Hog => "hog",
            Self::Compile => "compile",
            Self::Messages => "messages",
            Self::Backup => "backup",
            Self::Update => "update",
            Self::Growth => "growth",
            Self::Upload => "upload",
        }
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let background: Vec<&str> = self.background.iter().map(|neighbour| neighbour.name()).collect();
        write!(f, "{}{NAME_SEPARATOR}{}", self.foreground.name(), background.join(" + "))
    }
}

impl Combination {
    /// Its point of the workload.
    pub fn point(&self) -> Point {
        Point::Combination(self.to_string())
    }

    fn uses_network(&self) -> bool {
        self.foreground.uses_network() || self.background.contains(&BackgroundProgram::Upload)
    }

    fn uses_disk(&self) -> bool {
        self.foreground.uses_disk() || self.background.iter().any(|what| what.uses_disk())
    }
}

/// True when `name` names the combination `point`: the whole, or the foreground alone.
pub fn is_named(point: &str, name: &str) -> bool {
    point == name || point.split_once(NAME_SEPARATOR).is_some_and(|(foreground, _)| foreground == name)
}

impl Combinations {
    /// The combinations of the quick or the full form.
    pub fn of_form(&self, quick: bool) -> impl Iterator<Item = &Combination> {
        self.list.iter().filter(move |combination| combination.quick || !quick)
    }

    /// True when one of `points` has the suite in the foreground, which needs its engine.
    pub fn has_suite(&self, points: &[Point]) -> bool {
        let mut chosen = points.iter().filter_map(|point| self.at(point));
        chosen.any(|combination| combination.foreground == Foreground::Suite)
    }

    /// The combination at `point`.
    pub fn at(&self, point: &Point) -> Option<&Combination> {
        self.list.iter().find(|combination| combination.point() == *point)
    }

    /// Notes about them for the result.
    pub fn notes(&self, quick: bool) -> Vec<String> {
        let names = |chosen: &dyn Fn(&&Combination) -> bool| {
            let names: Vec<String> = self.of_form(quick).filter(chosen).map(ToString::to_string).collect();
            if names.is_empty() { "none of these".to_owned() } else { names.join("; ") }
        };
        let mut notes =
            vec![format!("Chosen after the rule was frozen: {}.", names(&|combination| combination.unseen))];
        if quick {
            let (some, all) = (self.of_form(true).count(), self.list.len());
            notes.insert(0, format!("The quick form runs {some} of {all} combinations; the full one runs all."));
        }
        notes
    }

    /// The first fault in them or in the arms of `experiment`.
    pub(super) fn fault(&self, experiment: &Experiment) -> Option<String> {
        let others = [
            experiment.launches.is_some(),
            experiment.lookups.is_some(),
            experiment.applications.is_some(),
            experiment.readings.is_some(),
            experiment.boots.is_some(),
        ];
        if others.contains(&true) {
            return Some("an experiment with combinations has no other workload".into());
        }
        let [shortest, longest] = self.settle_ms;
        if shortest > longest || experiment.replicates.quick_work_ms.is_some() {
            return Some("settle_ms is [shortest, longest], and quick_work_ms is for launches".into());
        }
        if self.of_form(true).next().is_none() {
            return Some("combinations: at least one must be `quick`".into());
        }
        let is_duplicate = |(index, combination): (usize, &Combination)| self.list[..index].contains(combination);
        if self.list.iter().any(|combination| combination.background.is_empty())
            || self.list.iter().enumerate().any(is_duplicate)
        {
            return Some("combinations: each has a background, and none is listed twice".into());
        }
        if let Some(fault) = self.surroundings_fault(experiment.mode) {
            return Some(fault);
        }
        let alone_arms = experiment.arms.iter().filter(|arm| arm.alone);
        let is_invalid_alone_arm = |arm: &&Arm| arm.baseline || arm.brisk.is_some();
        if alone_arms.clone().count() > 1 || alone_arms.clone().any(|arm| is_invalid_alone_arm(&arm)) {
            return Some("one arm is `alone`, and neither the baseline nor with brisk".into());
        }
        let has_unsupported_setting = |arm: &Arm| {
            let others = arm.lookup.is_some() || arm.boot_hold || arm.reads.is_some();
            others || !arm.beside.is_empty() || arm.swap.is_some() && !self.grouped
        };
        let unsupported_arm = experiment.arms.iter().find(|arm| has_unsupported_setting(arm));
        unsupported_arm.map(|arm| format!("arm {}: what it sets belongs to other workloads", arm.name))
    }

    /// The first fault in the disk and the groups.
    fn surroundings_fault(&self, mode: Timekeeping) -> Option<String> {
        if mode == Timekeeping::Native && (self.grouped || self.disk.is_some() || self.network.is_some()) {
            return Some("combinations: a disk, a network and groups belong to the lab".into());
        }
        if self.list.iter().any(Combination::uses_network) != self.network.is_some() {
            return Some("combinations: programs that use a network and the `network` belong together".into());
        }
        if let Some(fault) = self.network.as_ref().and_then(Network::fault) {
            return Some(format!("combinations: network: {fault}"));
        }
        if self.list.iter().any(Combination::uses_disk) != self.disk.is_some() {
            return Some("combinations: programs that use a disk and the `disk` belong together".into());
        }
        self.disk.as_ref().and_then(Disk::fault).map(|fault| format!("combinations: disk: {fault}"))
    }

    /// The first fault in a claim about them.
    pub(super) fn claim_fault(&self, claim: &Claim, experiment: &Experiment) -> Option<String> {
        let PointSelector::Named(names) = &claim.at else { return None };
        for name in names {
            let mut named = self.list.iter().filter(|combination| is_named(&combination.to_string(), name)).peekable();
            if named.peek().is_none() {
                return Some(format!("there is no combination {name:?}"));
            }
            let is_alone = |arm: &String| experiment.arm(arm).is_some_and(|arm| experiment.arms[arm].alone);
            if claim.arms().any(is_alone) && !named.all(|combination| combination.alone) {
                return Some(format!("the foreground of {name:?} is not run alone"));
            }
        }
        None
    }
}
