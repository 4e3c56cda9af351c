//! Whether a process must be killed now, and which: pure, from one sample of memory. `daemon/killer` carries it out.

pub mod kill_log;
pub mod lmkd;

use serde::{Deserialize, Serialize};

use super::config::KillerConfig;
use super::victim::{self, Candidate, MemoryPressure, Protection, Victim, VictimChoice, VictimMode};
use brisk_sys::BootTime;
use lmkd::Reading;

/// One sample of the killer's input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Memory pressure; the stalls are those of the last second.
    pub memory_pressure: MemoryPressure,
    /// Memory that applications can still allocate.
    pub headroom_kib: i64,
    /// File pages that refaulted within the last second.
    pub refaulted_kib: u64,
    /// True when the kernel has reclaimed since the previous sample: only then would it have called its own killer.
    pub reclaiming: bool,
    /// The kernel's figures.
    pub reading: Reading,
}

/// A need to kill a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillReason {
    /// Why, in words.
    pub cause: String,
    /// Candidates have this `oom_score_adj` or a higher one.
    pub threshold: i16,
}

/// Why a process must be killed, and which ones qualify; `None` while none must. Not for [`VictimMode::Lmkd`], which keeps
/// state: see [`lmkd`].
pub fn kill_reason(config: &KillerConfig, sample: &Sample) -> Option<KillReason> {
    let reserve_kib = i64::try_from(config.reserve_kib).unwrap_or(i64::MAX);
    let memory_pressure = &sample.memory_pressure;
    if config.mode.has_minfree() && !sample.reclaiming && !config.by_headroom {
        return None;
    }
    if config.mode != VictimMode::Brisk && !config.by_headroom {
        let threshold = victim::adj_threshold(config.mode, memory_pressure)?;
        let cause = format!("adj {threshold} and above may be killed: {}", pressure_text(config.mode, memory_pressure));
        return Some(KillReason { cause, threshold });
    }
    let of_any_adj = |cause| KillReason { cause, threshold: i16::MIN };
    if sample.headroom_kib < reserve_kib {
        let cause = format!("headroom is {} KiB, below the reserve of {reserve_kib} KiB", sample.headroom_kib);
        return Some(of_any_adj(cause));
    }
    let limit_kib = memory_pressure.file_kib / 100 * config.refault_percent;
    (config.refault_percent > 0 && sample.refaulted_kib > limit_kib && memory_pressure.full_percent > 0.0).then(|| {
        of_any_adj(format!(
            "{} KiB of file pages refaulted within a second, of {} KiB",
            sample.refaulted_kib, memory_pressure.file_kib
        ))
    })
}

/// The most memory that one CPU allocates in a millisecond, as estimated: it clears pages faster, but when memory is short each
/// must be reclaimed first.
const ALLOCATION_KIB_PER_MS: i64 = 1024;
/// The longest sampling period, whatever the headroom.
const LONGEST_PERIOD_MS: u64 = 500;

/// The sampling period while memory may be short: `cpu_count` CPUs cannot use up the headroom above the reserve in less time.
/// Where figures other than the headroom decide, it is the configured one.
pub fn sampling_period_ms(config: &KillerConfig, headroom_kib: i64, cpu_count: usize) -> u64 {
    let is_headroom_based = (config.mode == VictimMode::Brisk || config.by_headroom) && config.refault_percent == 0;
    if !is_headroom_based {
        return config.sampling_ms;
    }
    let reserve_kib = i64::try_from(config.reserve_kib).unwrap_or(i64::MAX);
    let allocation_kib_per_ms =
        ALLOCATION_KIB_PER_MS.saturating_mul(i64::try_from(cpu_count).unwrap_or(i64::MAX).max(1));
    let sampling_period_ms =
        u64::try_from(headroom_kib.saturating_sub(reserve_kib) / allocation_kib_per_ms).unwrap_or(0);
    sampling_period_ms.clamp(config.sampling_ms, LONGEST_PERIOD_MS.max(config.sampling_ms))
}

fn pressure_text(mode: VictimMode, memory_pressure: &MemoryPressure) -> String {
    match mode {
        VictimMode::LmkdPsi => {
            format!(
                "some tasks waited {:.0} % of a second, all {:.0} %",
                memory_pressure.some_percent, memory_pressure.full_percent
            )
        }
        _ => format!("{} KiB are free, file pages have {} KiB", memory_pressure.free_kib, memory_pressure.file_kib),
    }
}

/// The processes that are never killed under `config`, on Android or another system.
pub fn protection(config: &KillerConfig, is_android: bool) -> Protection {
    let mut protection = Protection::of_system(is_android);
    protection.names.extend(config.protected.iter().cloned());
    protection.groups.extend(config.protected_groups.iter().cloned());
    protection.adj_floor = config.lowest_adj;
    protection
}

/// The lowest `oom_score_adj` that would be killed under this memory pressure, if a process must be; `None` when none would be.
pub fn adj_threshold(config: &KillerConfig, memory_pressure: &MemoryPressure) -> Option<i16> {
    if config.by_headroom { Some(i16::MIN) } else { victim::adj_threshold(config.mode, memory_pressure) }
}

/// The victim among candidates of at least `threshold`, if any. `group_of` reads a process's control group; it is called only
/// for would-be victims.
pub fn choose(
    config: &KillerConfig,
    sample: &Sample,
    threshold: i16,
    candidates: &mut [Candidate],
    (protection, group_of): (&Protection, &dyn Fn(u32) -> Option<String>),
) -> Option<Victim> {
    let is_spared = |victim: &Victim| group_of(victim.pid).is_some_and(|group| protection.has_group(&group));
    let victims = order(config, &sample.memory_pressure, threshold, candidates, protection);
    victims.into_iter().find(|victim| !is_spared(victim))
}

/// The candidates of at least `threshold` that may be killed under `config`, the first victim first.
pub fn order(
    config: &KillerConfig,
    memory_pressure: &MemoryPressure,
    threshold: i16,
    candidates: &mut [Candidate],
    protection: &Protection,
) -> Vec<Victim> {
    match config.mode {
        VictimMode::Brisk => set_return_probabilities(candidates),
        // Android raises the adj with the time in the background.
        VictimMode::Lmkd => candidates.iter_mut().for_each(|it| it.background_s = u64::try_from(it.oom_score_adj).ok()),
        _ => {}
    }
    let choice = VictimChoice { mode: config.mode, threshold, by_class: config.by_class };
    victim::order_by(choice, candidates, memory_pressure, protection)
}

/// Within a class, a system that maintains `oom_score_adj` raises it with the time since an application was in the foreground.
/// Where nothing better is known, the probability of return falls with the rank in that order.
fn set_return_probabilities(candidates: &mut [Candidate]) {
    candidates.sort_by_key(|candidate| (victim::class(candidate.oom_score_adj), candidate.oom_score_adj));
    let mut rank = 0u32;
    let mut before: Option<i16> = None;
    for candidate in candidates {
        let is_of_same_class = before.map(victim::class) == Some(victim::class(candidate.oom_score_adj));
        rank = if is_of_same_class { rank + u32::from(before != Some(candidate.oom_score_adj)) } else { 0 };
        before = Some(candidate.oom_score_adj);
        candidate.return_probability.get_or_insert(1.0 / f64::from(rank + 2));
    }
}

/// The record of a kill, for `brisk memory kills`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KillRecord {
    /// When it was killed.
    pub at: BootTime,
    /// The process.
    pub pid: u32,
    pub name: String,
    /// Its `oom_score_adj`.
    pub oom_score_adj: i16,
    /// How it was chosen.
    pub mode: VictimMode,
    /// Why a process had to be killed.
    pub cause: String,
    /// Why it was this one.
    pub reason: String,
    /// The headroom before the kill.
    pub headroom_kib: i64,
    /// The memory that its death was predicted to return.
    pub predicted_kib: u64,
    /// The memory that it returned; `None` when it has not exited.
    pub returned_kib: Option<i64>,
    /// Resident, shared pages included.
    pub rss_kib: u64,
    /// Resident and anonymous.
    pub rss_anonymous_kib: u64,
    /// On swap, before compression.
    pub swap_kib: u64,
    /// The memory that a byte on swap was assumed to cost.
    pub swap_ratio: f64,
    /// Its proportional resident set, where it was audited.
    pub pss_kib: Option<u64>,
    /// Its proportional share of swap, where it was audited.
    pub swap_pss_kib: Option<u64>,
    /// The time to read its cheap figures, where it was audited.
    #[serde(default)]
    pub estimated_in_ns: Option<u64>,
    /// The time to read the exact ones.
    #[serde(default)]
    pub audited_in_ns: Option<u64>,
    /// From the kernel's event, or the sample that followed one, to SIGKILL.
    pub decided_after_us: u64,
    /// True when the kernel's event led to it, false for a sample that followed.
    pub by_event: bool,
    /// From SIGKILL until its memory was returned; `None` when it has not exited.
    pub back_after_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(headroom_kib: i64, free_kib: u64, some_percent: f64) -> Sample {
        let memory_pressure = MemoryPressure {
            free_kib,
            file_kib: 20_000,
            some_percent,
            full_percent: some_percent / 2.0,
            swap_ratio: 0.4,
        };
        Sample { memory_pressure, headroom_kib, refaulted_kib: 15_000, reclaiming: true, ..Sample::default() }
    }

    // Verifies MEMORY-4.
    #[test]
    fn each_mode_has_its_own_cause() {
        let config = |mode, refault_percent| KillerConfig { mode, refault_percent, ..KillerConfig::default() };
        for (config, sample, expected) in [
            (config(VictimMode::Brisk, 0), sample(4096, 0, 99.0), None),
            (config(VictimMode::Brisk, 0), sample(4095, 90_000, 0.0), Some("headroom is 4095 KiB")),
            (config(VictimMode::Brisk, 0), sample(-9, 90_000, 0.0), Some("headroom is -9 KiB")),
            (config(VictimMode::Brisk, 50), sample(9999, 90_000, 1.0), Some("15000 KiB of file pages")),
            (config(VictimMode::Brisk, 50), sample(9999, 90_000, 0.0), None),
            (config(VictimMode::Brisk, 75), sample(9999, 90_000, 1.0), None),
            (config(VictimMode::LmkRss, 0), sample(-9, 90_000, 99.0), None),
            (config(VictimMode::LmkRss, 0), sample(9999, 60_000, 0.0), Some("adj 705 and above")),
            (config(VictimMode::LmkdPsi, 0), sample(-9, 0, 6.0), None),
            (config(VictimMode::LmkdPsi, 0), sample(9999, 60_000, 8.0), Some("adj 800 and above")),
        ] {
            let found = kill_reason(&config, &sample).map(|need| need.cause);
            let fits =
                expected.map_or(found.is_none(), |text| found.as_ref().is_some_and(|found| found.starts_with(text)));
            assert!(fits, "{config:?} {sample:?}: {found:?}");
        }
        let idle = Sample { reclaiming: false, ..sample(9999, 60_000, 0.0) };
        assert_eq!(
            kill_reason(&config(VictimMode::LmkRss, 0), &idle),
            None,
            "without reclaim the kernel's killer is not called"
        );
        let by_headroom = KillerConfig { by_headroom: true, ..config(VictimMode::LmkRss, 0) };
        assert!(
            kill_reason(&by_headroom, &idle).is_none() && kill_reason(&by_headroom, &sample(9, 90_000, 0.0)).is_some()
        );
    }

    // Verifies MEMORY-4.
    #[test]
    fn the_sampling_period_grows_with_the_headroom() {
        let brisk = KillerConfig::default();
        let seldom = KillerConfig { sampling_ms: 700, ..KillerConfig::default() };
        let by_refaults = KillerConfig { refault_percent: 10, ..KillerConfig::default() };
        let by_table = KillerConfig { mode: VictimMode::LmkRss, ..KillerConfig::default() };
        let table_by_headroom = KillerConfig { by_headroom: true, ..by_table.clone() };
        for (config, headroom_kib, cpu_count, expected_ms) in [
            (&brisk, i64::MIN, 1, 20),
            (&brisk, 4096, 1, 20),
            (&brisk, 4096 + 20 * 1024, 1, 20),
            (&brisk, 4096 + 50 * 1024, 1, 50),
            (&brisk, 4096 + 50 * 1024, 2, 25),
            (&brisk, 4096 + 50 * 1024, 0, 50),
            (&brisk, i64::MAX, 8, 500),
            (&seldom, 4096, 1, 700),
            (&by_refaults, i64::MAX, 1, 20),
            (&by_table, i64::MAX, 1, 20),
            (&table_by_headroom, 4096 + 50 * 1024, 1, 50),
        ] {
            assert_eq!(
                sampling_period_ms(config, headroom_kib, cpu_count),
                expected_ms,
                "{config:?} {headroom_kib} {cpu_count}"
            );
        }
    }

    // Verifies MEMORY-3.
    #[test]
    fn the_order_follows_the_configuration() {
        let one = |pid, oom_score_adj, rss_anonymous_kib| Candidate {
            pid,
            name: format!("application{pid}"),
            uid: Some(0),
            oom_score_adj,
            rss_kib: rss_anonymous_kib,
            rss_anonymous_kib,
            ..Candidate::default()
        };
        let candidates = [one(2, 0, 900), one(3, 900, 100), one(4, 905, 90), one(5, 1, 800)];
        let brisk = KillerConfig::default();
        let by_table = KillerConfig { mode: VictimMode::LmkRss, by_class: true, ..brisk.clone() };
        let by_headroom = KillerConfig { by_headroom: true, ..by_table.clone() };
        let spared = vec!["application4".parse().unwrap()];
        for (config, free_kib, expected) in [
            (brisk.clone(), 0, Some(vec![4, 3, 5])),
            (KillerConfig { lowest_adj: 500, ..brisk.clone() }, 0, Some(vec![4, 3])),
            (KillerConfig { protected: spared, ..brisk }, 0, Some(vec![3, 5])),
            (by_table.clone(), 60_000, Some(vec![3, 4])),
            (by_table, 90_000, None),
            (by_headroom, 90_000, Some(vec![3, 4, 5])),
        ] {
            let pressure = sample(0, free_kib, 0.0).memory_pressure;
            let victims = adj_threshold(&config, &pressure).map(|threshold| {
                let protection = protection(&config, false);
                let victims = order(&config, &pressure, threshold, &mut candidates.to_vec(), &protection);
                victims.iter().map(|victim| victim.pid).collect::<Vec<_>>()
            });
            assert_eq!(victims, expected, "{config:?}");
        }
    }

    // Verifies MEMORY-3.
    #[test]
    fn of_equal_victims_the_least_recently_foreground_is_killed() {
        let one = |pid, oom_score_adj, rss_anonymous_kib| Candidate {
            pid,
            name: format!("application{pid}"),
            oom_score_adj,
            rss_kib: rss_anonymous_kib,
            rss_anonymous_kib,
            ..Candidate::default()
        };
        let chosen = |candidates: &[Candidate]| {
            let protection = Protection { adj_floor: 1, ..Protection::of_system(false) };
            let config = KillerConfig::default();
            let group_of =
                |pid: u32| (pid == 9).then(|| "/user.slice/user-7.slice/user@7.service/init.scope".to_owned());
            let protection = (&protection, &group_of as &dyn Fn(u32) -> Option<String>);
            choose(&config, &sample(0, 0, 0.0), i16::MIN, &mut candidates.to_vec(), protection).map(|victim| victim.pid)
        };
        assert_eq!(chosen(&[one(2, 0, 900), one(3, 900, 100), one(4, 905, 100)]), Some(4));
        assert_eq!(chosen(&[one(2, 0, 900), one(3, 900, 400), one(4, 905, 100)]), Some(3), "four times the memory");
        assert_eq!(chosen(&[one(3, 700, 90_000), one(4, 999, 1)]), Some(4), "the class comes first");
        assert_eq!(chosen(&[one(2, 0, 900)]), None, "the foreground is spared");
        assert_eq!(chosen(&[one(9, 900, 900), one(3, 900, 1)]), Some(3), "a protected group is spared");
    }
}
