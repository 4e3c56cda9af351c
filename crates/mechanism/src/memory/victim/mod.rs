//! Which process is killed first: pure, as the paper's killers, lmkd and brisk would choose.

use serde::{Deserialize, Serialize};

use crate::Glob;

/// A process that could be killed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidate {
    /// The process.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// Its real user, where known: a program that changes its user (set-user-ID) keeps its caller's here.
    pub uid: Option<u32>,
    /// Its control group, where it was read.
    pub group: Option<String>,
    /// How readily it is killed: Android writes the class of an application there, 900 and above for cached ones.
    pub oom_score_adj: i16,
    /// Resident, shared pages included.
    pub rss_kib: u64,
    /// Resident and anonymous: what its death returns.
    pub rss_anonymous_kib: u64,
    /// On swap, before compression.
    pub swap_kib: u64,
    /// Proportional resident set, where it was sampled.
    pub pss_kib: Option<u64>,
    /// Proportional share of swap, where it was sampled.
    pub swap_pss_kib: Option<u64>,
    /// Memory that a byte of it on swap costs, where that was learned.
    pub swap_ratio: Option<f64>,
    /// Time since it was in the foreground, where that is known.
    pub background_s: Option<u64>,
    /// What starting it again costs, where that is known.
    pub relaunch_cost_ms: Option<f64>,
    /// Probability that the user returns to it, 0 to 1, where that is known.
    pub return_probability: Option<f64>,
}

impl Candidate {
    /// What its death returns when a byte on swap costs `swap_ratio` bytes of memory; its own learned ratio takes precedence.
    pub fn returned_kib(&self, swap_ratio: f64) -> u64 {
        let ratio = self.ratio(swap_ratio).clamp(0.0, 1.0);
        self.rss_anonymous_kib.saturating_add((self.swap_kib as f64 * ratio) as u64)
    }

    /// Memory that a byte of it on swap costs: the learned ratio, or `average`.
    pub fn ratio(&self, average: f64) -> f64 {
        self.swap_ratio.unwrap_or(average)
    }

    /// What its death costs the user: relaunch cost times probability of return; the same for all processes without data.
    fn cost_ms(&self) -> f64 {
        let known =
            |value: Option<f64>, unknown: f64| value.filter(|value| value.is_finite()).unwrap_or(unknown).max(0.0);
        known(self.relaunch_cost_ms, UNKNOWN_COST_MS) * known(self.return_probability, 1.0)
    }
}

/// The assumed cold start of an unknown application: a second.
const UNKNOWN_COST_MS: f64 = 1000.0;

/// How a victim is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum VictimMode {
    /// The least important class first; within it the least cost for the memory returned
    #[default]
    Brisk,
    /// The kernel's Low Memory Killer: minfree and adj, then the largest RSS (the paper)
    LmkRss,
    /// The same with the largest PSS (the paper's proposal)
    LmkPss,
    /// The same with the largest PSS and proportional swap
    LmkPssSwap,
    /// lmkd before Android 11: an adj floor by pressure, least recently used first
    LmkdPsi,
    /// lmkd since Android 11: watermarks, swap, thrashing, stalls; low-RAM defaults
    Lmkd,
}

impl VictimMode {
    /// True for those that need the figures of smaps_rollup.
    pub fn is_proportional(self) -> bool {
        matches!(self, Self::LmkPss | Self::LmkPssSwap)
    }

    /// True for the kernel's Low Memory Killer and its variants.
    pub fn has_minfree(self) -> bool {
        matches!(self, Self::LmkRss | Self::LmkPss | Self::LmkPssSwap)
    }
}

/// Memory pressure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MemoryPressure {
    /// Free memory.
    pub free_kib: u64,
    /// File pages.
    pub file_kib: u64,
    /// Share of the last seconds in which some task waited for memory, in percent.
    pub some_percent: f64,
    /// Share in which all tasks waited, in percent.
    pub full_percent: f64,
    /// Memory that a byte on swap costs, on average.
    pub swap_ratio: f64,
}

/// Processes that are never chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Protection {
    /// Globs of names. They protect only processes of system users: every process can set its own name (prctl(2), PR_SET_NAME).
    pub names: Vec<Glob>,
    /// Globs of control groups, whose members are never chosen, regardless of their name and user.
    pub groups: Vec<Glob>,
    /// Users are numbered as on Android.
    pub is_android: bool,
    /// No process below this `oom_score_adj` is chosen.
    pub adj_floor: i16,
}

/// A user's service manager and session. A program of that user can move itself there, which requires write access to control
/// groups and not just a name.
const SESSION_GROUPS: [&str; 3] =
    ["*/user@*.service/init.scope", "*/user@*.service/session.slice/*", "*/user@*.service/app.slice/dbus*"];

/// System users (uids.conf(5)): below 1000, and those that systemd allocates for a service while it runs. Android has 100 000
/// numbers for each user and gives applications the upper nine tenths.
fn is_of_system(uid: u32, is_android: bool) -> bool {
    if is_android { uid % 100_000 < 10_000 } else { uid < 1000 || (61_184..=65_519).contains(&uid) }
}

/// Processes that a system cannot run without, whatever their adj.
const SYSTEM_NAMES: [&str; 24] = [
    "init",
    "systemd*",
    "(sd-pam)",
    "dbus-*",
    "brisk*",
    "sshd*",
    "login",
    "agetty",
    "udevd",
    "Xorg",
    "Xwayland",
    "weston*",
    "gnome-shell",
    "kwin_*",
    "zygote*",
    "system_server",
    "surfaceflinger",
    "*servicemanager",
    "lmkd*",
    "ueventd",
    "vold",
    "adbd",
    "netd",
    "logd",
];

impl Protection {
    /// The protection for Android, where adj 0 is the foreground application, or for other systems, where it is every process.
    pub fn of_system(is_android: bool) -> Self {
        let globs = |texts: &[&str]| texts.iter().filter_map(|text| text.parse().ok()).collect();
        let groups = globs(if is_android { &[] } else { &SESSION_GROUPS });
        Self { names: globs(&SYSTEM_NAMES), groups, is_android, adj_floor: i16::from(is_android) }
    }

    fn covers(&self, candidate: &Candidate) -> bool {
        candidate.pid <= 1
            || candidate.oom_score_adj < self.adj_floor
            || self.has_name(candidate)
            || candidate.group.as_ref().is_some_and(|group| self.has_group(group))
    }

    /// True for a system user's process with a protected name; an unknown user is taken for a system user.
    fn has_name(&self, candidate: &Candidate) -> bool {
        candidate.uid.is_none_or(|uid| is_of_system(uid, self.is_android))
            && self.names.iter().any(|name| name.matches(&candidate.name))
    }

    /// True when members of `group` are never chosen.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|glob| glob.matches(group))
    }
}

/// A process that would be killed, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Victim {
    /// The process.
    pub pid: u32,
    pub name: String,
    /// Its `oom_score_adj`.
    pub oom_score_adj: i16,
    /// The memory that its death returns, as this mode predicts it.
    pub predicted_kib: u64,
    /// Why it has this rank.
    pub reason: String,
}

/// The kernel's own thresholds: when free memory and file pages are both below this size, processes of this adj and above may
/// be killed (drivers/staging/android/lowmemorykiller.c; adj 0, 1, 6 and 12 of 15 as `oom_score_adj`).
const MINFREE: [(u64, i16); 4] = [(6 << 10, 0), (8 << 10, 58), (16 << 10, 352), (64 << 10, 705)];
/// lmkd's defaults: 70 ms of a second in which some tasks waited, or 700 ms in which all did.
const LMKD_MEDIUM_PERCENT: f64 = 7.0;
const LMKD_CRITICAL_PERCENT: f64 = 70.0;
/// The adj that may be killed then (`ro.lmk.medium`, `ro.lmk.critical`), and up to which lmkd kills the largest first.
const LMKD_MEDIUM_ADJ: i16 = 800;
const LMKD_CRITICAL_ADJ: i16 = 0;
const LMKD_HEAVIEST_UP_TO_ADJ: i16 = 200;

/// The lowest `oom_score_adj` that `mode` would kill now; `None` when it would kill no process.
pub fn adj_threshold(mode: VictimMode, memory_pressure: &MemoryPressure) -> Option<i16> {
    match mode {
        // The headroom decides when to kill.
        VictimMode::Brisk => Some(i16::MIN),
        VictimMode::LmkRss | VictimMode::LmkPss | VictimMode::LmkPssSwap => {
            let is_below = |&&(kib, _): &&(u64, i16)| memory_pressure.free_kib < kib && memory_pressure.file_kib < kib;
            MINFREE.iter().find(is_below).map(|&(_, adj)| adj)
        }
        VictimMode::LmkdPsi if memory_pressure.full_percent >= LMKD_CRITICAL_PERCENT => Some(LMKD_CRITICAL_ADJ),
        VictimMode::LmkdPsi if memory_pressure.some_percent >= LMKD_MEDIUM_PERCENT => Some(LMKD_MEDIUM_ADJ),
        VictimMode::LmkdPsi => None,
        // `lmkd.rs` decides when to kill.
        VictimMode::Lmkd => Some(LMKD_CRITICAL_ADJ),
    }
}

/// The candidates for a victim, and how they are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VictimChoice {
    /// The ranking.
    pub mode: VictimMode,
    /// Candidates have this `oom_score_adj` or a higher one.
    pub threshold: i16,
    /// True gives all of a class the same rank before size or age, whatever the rest of the adj; brisk's mode always does so.
    pub by_class: bool,
}

/// The processes that would be killed by `choice`, in this order.
pub fn order_by(
    choice: VictimChoice,
    candidates: &[Candidate],
    memory_pressure: &MemoryPressure,
    protection: &Protection,
) -> Vec<Victim> {
    let mode = choice.mode;
    let is_eligible =
        |candidate: &&Candidate| candidate.oom_score_adj >= choice.threshold && !protection.covers(candidate);
    let mut ranked: Vec<(Rank, &Candidate, u64)> = candidates
        .iter()
        .filter(is_eligible)
        .map(|candidate| {
            let kib = predicted_kib(mode, candidate, memory_pressure);
            (Rank::of(choice, candidate, kib), candidate, kib)
        })
        .filter(|&(_, _, kib)| kib > 0)
        .collect();
    ranked.sort_by(|(one, first, _), (other, second, _)| one.compare(other).then(first.pid.cmp(&second.pid)));
    let victim = |(_, candidate, predicted_kib): (Rank, &Candidate, u64)| Victim {
        pid: candidate.pid,
        name: candidate.name.clone(),
        oom_score_adj: candidate.oom_score_adj,
        predicted_kib,
        reason: reason(mode, candidate, memory_pressure),
    };
    ranked.into_iter().map(victim).collect()
}

fn predicted_kib(mode: VictimMode, candidate: &Candidate, memory_pressure: &MemoryPressure) -> u64 {
    match mode {
        VictimMode::Brisk => candidate.returned_kib(memory_pressure.swap_ratio),
        VictimMode::LmkPss => candidate.pss_kib.unwrap_or(candidate.rss_kib),
        VictimMode::LmkPssSwap => candidate
            .pss_kib
            .map_or(candidate.rss_kib, |kib| kib.saturating_add(candidate.swap_pss_kib.unwrap_or(candidate.swap_kib))),
        VictimMode::LmkRss | VictimMode::LmkdPsi | VictimMode::Lmkd => candidate.rss_kib,
    }
}

/// A candidate's rank: the higher class first, then the lower `cost`.
struct Rank {
    class: i16,
    cost: f64,
}

impl Rank {
    fn of(choice: VictimChoice, candidate: &Candidate, predicted_kib: u64) -> Self {
        let adj = candidate.oom_score_adj;
        let largest_first = -(predicted_kib as f64);
        let longest_first = -(candidate.background_s.unwrap_or(0) as f64);
        let cost = match choice.mode {
            VictimMode::Brisk => candidate.cost_ms() / predicted_kib.max(1) as f64,
            VictimMode::LmkRss | VictimMode::LmkPss | VictimMode::LmkPssSwap => largest_first,
            VictimMode::LmkdPsi | VictimMode::Lmkd if adj <= LMKD_HEAVIEST_UP_TO_ADJ => largest_first,
            VictimMode::LmkdPsi | VictimMode::Lmkd => longest_first,
        };
        let is_by_class = choice.mode == VictimMode::Brisk || choice.by_class;
        Self { class: if is_by_class { class(adj) } else { adj }, cost }
    }

    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        other.class.cmp(&self.class).then(self.cost.total_cmp(&other.cost))
    }
}

/// Android's classes begin at whole hundreds; within one the adj only shows how recently a process was used.
pub fn class(oom_score_adj: i16) -> i16 {
    oom_score_adj.div_euclid(100).saturating_mul(100)
}

fn reason(mode: VictimMode, candidate: &Candidate, memory_pressure: &MemoryPressure) -> String {
    let adj = candidate.oom_score_adj;
    match mode {
        VictimMode::Brisk => {
            let swapped = match candidate.swap_kib {
                0 => String::new(),
                kib => format!(" + {:.2} x {kib} KiB on swap", candidate.ratio(memory_pressure.swap_ratio)),
            };
            let cost = match (candidate.relaunch_cost_ms, candidate.return_probability) {
                (None, None) => "nothing is known of its relaunch".to_owned(),
                _ => format!("expected relaunch cost {:.0} ms", candidate.cost_ms()),
            };
            format!("class {}: {} KiB in memory{swapped}; {cost}", class(adj), candidate.rss_anonymous_kib)
        }
        VictimMode::LmkRss => format!("adj {adj}, resident {} KiB", candidate.rss_kib),
        VictimMode::LmkPss => match candidate.pss_kib {
            Some(kib) => format!("adj {adj}, proportional {kib} KiB"),
            None => format!("adj {adj}, resident {} KiB: not sampled", candidate.rss_kib),
        },
        VictimMode::LmkPssSwap => match (candidate.pss_kib, candidate.swap_pss_kib) {
            (Some(kib), swap) => format!("adj {adj}, proportional {kib} KiB and {} KiB on swap", swap.unwrap_or(0)),
            (None, _) => format!("adj {adj}, resident {} KiB: not sampled", candidate.rss_kib),
        },
        VictimMode::LmkdPsi | VictimMode::Lmkd if adj <= LMKD_HEAVIEST_UP_TO_ADJ => {
            format!("adj {adj}, resident {} KiB", candidate.rss_kib)
        }
        VictimMode::LmkdPsi | VictimMode::Lmkd => match candidate.background_s {
            Some(seconds) => format!("adj {adj}, in the background for {seconds} s"),
            None => format!("adj {adj}"),
        },
    }
}

#[cfg(test)]
mod tests;
