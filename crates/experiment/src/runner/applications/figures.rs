//! The figures of a replicate, from its openings and the killer's records.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::Finding;
use super::environment::EnvironmentFigures;
use crate::metric::Metric;
use crate::plan::{ProcessCourse, StepMetric};
use crate::statistics::{mean, median, quantile};
use brisk_mechanism::memory::killer::KillRecord;

/// Launches at the start, while memory suffices for all, and at the end of the consecutive launches.
const EARLY_AND_LATE_COUNT: usize = 5;
const APPLICATIONS: usize = 15;

#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    /// False when the application was alive.
    pub(super) is_launch: bool,
    /// The time until its screen; `None` without a screen.
    pub(super) took: Option<Duration>,
    /// The part of it that its lookups took; zero without.
    pub(super) lookup_time: Duration,
    /// The median of its lookups; zero without.
    pub(super) median_lookup: Duration,
    /// True when no screen came in time.
    pub(super) is_late: bool,
    /// The user's longest wait.
    pub(super) limit: Duration,
    /// The memory state after its time in the foreground.
    pub(super) after: MemoryState,
}

/// The memory state at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MemoryState {
    pub(super) free_kib: u64,
    pub(super) file_kib: u64,
    pub(super) swapped_kib: u64,
    pub(super) alive: usize,
}

/// Everything that was recorded.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) openings: Vec<Opening>,
    /// The memory of each application after each opening, by its name.
    pub(super) processes: BTreeMap<String, ProcessCourse>,
    pub(super) kills: u32,
    pub(super) foreground_kills: u32,
    pub(super) oom_kills: u64,
    pub(super) alive: usize,
    pub(super) flash_written_kib: u64,
    /// Memory that a single application got, in the workload that has only one.
    pub(super) single_kib: Option<u64>,
    pub(super) records: Vec<KillRecord>,
    /// The figures of a whole device.
    pub(super) environment: Option<EnvironmentFigures>,
}

impl Figures {
    pub(super) fn finding(&self) -> Finding {
        let processes = self.processes.clone();
        Finding { metrics: self.metrics(), events: self.events(), courses: self.courses(), processes }
    }

    fn metrics(&self) -> BTreeMap<String, f64> {
        let mut metrics = BTreeMap::new();
        let mut add = |metric: Metric, figure: f64| {
            if figure.is_finite() {
                metrics.insert(metric.key().to_owned(), figure);
            }
        };
        if let Some(kib) = self.single_kib {
            add(Metric::Single, kib as f64);
            add(Metric::FlashWritten, self.flash_written_kib as f64);
            return metrics;
        }
        add(Metric::Kills, f64::from(self.kills));
        add(Metric::FrontKills, f64::from(self.foreground_kills));
        add(Metric::OomKills, self.oom_kills as f64);
        add(Metric::Alive, self.alive as f64);
        add(Metric::FlashWritten, self.flash_written_kib as f64);
        add(Metric::Unresponsive, self.openings.iter().filter(|opening| opening.is_late).count() as f64);
        let (first, again) = self.first_and_again();
        add(Metric::EarlyLaunch, median(&times(&first[..EARLY_AND_LATE_COUNT.min(first.len())])));
        add(Metric::LateLaunch, median(&times(&first[first.len().saturating_sub(EARLY_AND_LATE_COUNT)..])));
        add(Metric::Reopen, mean(&times(again)));
        add(Metric::Resume, median(&times(&resumed(again))));
        self.add_kills(&mut add);
        self.add_environment(&mut add);
        metrics
    }

    /// The first launch of each application, and the later openings.
    fn first_and_again(&self) -> (&[Opening], &[Opening]) {
        self.openings.split_at(APPLICATIONS.min(self.openings.len()))
    }

    /// The single events behind aggregated figures.
    fn events(&self) -> BTreeMap<String, Vec<f64>> {
        let milliseconds = |us: u64| us as f64 / 1000.0;
        let by_event = self.records.iter().filter(|record| record.by_event);
        let decided = by_event.map(|record| milliseconds(record.decided_after_us)).collect();
        let back = self.records.iter().filter_map(|record| record.back_after_us).map(milliseconds).collect();
        let events = [(Metric::KillDelay, decided), (Metric::KillReturn, back)];
        let some = events.into_iter().filter(|(_, events): &(Metric, Vec<f64>)| !events.is_empty());
        some.map(|(metric, events)| (metric.key().to_owned(), events)).collect()
    }

    /// The memory state after each opening.
    fn courses(&self) -> BTreeMap<StepMetric, Vec<f64>> {
        let course =
            |figure: &dyn Fn(MemoryState) -> f64| self.openings.iter().map(|opening| figure(opening.after)).collect();
        let mib = |kib: u64| kib as f64 / 1024.0;
        let courses: [(StepMetric, Vec<f64>); 4] = [
            (StepMetric::Alive, course(&|state| state.alive as f64)),
            (StepMetric::Free, course(&|state| mib(state.free_kib))),
            (StepMetric::Files, course(&|state| mib(state.file_kib))),
            (StepMetric::Swapped, course(&|state| mib(state.swapped_kib))),
        ];
        courses.into_iter().filter(|(_, course)| !course.is_empty()).collect()
    }

    fn add_environment(&self, add: &mut dyn FnMut(Metric, f64)) {
        let Some(environment) = self.environment else { return };
        let mut waited = times(&self.openings);
        add(Metric::Opening, median(&waited));
        waited.sort_by(f64::total_cmp);
        add(Metric::OpeningP95, quantile(&waited, 0.95));
        add(Metric::OwnCost, environment.cost.map_or(f64::NAN, |cost| cost.own_percent));
        add(Metric::PageoutCost, environment.cost.map_or(f64::NAN, |cost| cost.pageout_percent));
        let lookup_us = |openings: &[Opening]| {
            let shown = openings.iter().filter(|opening| opening.took.is_some());
            let each = shown.map(|one| one.lookup_time.as_secs_f64() * 1e6 / f64::from(environment.lookups));
            mean(&each.collect::<Vec<_>>())
        };
        let (first, again) = self.first_and_again();
        add(Metric::OpeningLookup, lookup_us(&self.openings));
        add(Metric::LaunchLookup, lookup_us(first));
        let resumed = resumed(again);
        add(Metric::ResumeLookup, lookup_us(&resumed));
        let shown = resumed.iter().filter(|opening| opening.took.is_some());
        let medians: Vec<f64> = shown.map(|one| one.median_lookup.as_secs_f64() * 1e6).collect();
        add(Metric::ResumeLookupMedian, mean(&medians));
        add(Metric::CourseEnergy, environment.energy_mj);
        add(Metric::CourseMusicMissed, environment.music_missed_percent.unwrap_or(f64::NAN));
    }

    fn add_kills(&self, add: &mut dyn FnMut(Metric, f64)) {
        let errors = |predicted: &dyn Fn(&KillRecord) -> Option<f64>| {
            let error = |record: &KillRecord| {
                let returned = record.returned_kib.filter(|&kib| kib > 0)? as f64;
                Some(100.0 * (predicted(record)? - returned).abs() / returned)
            };
            median(&self.records.iter().filter_map(error).collect::<Vec<_>>())
        };
        add(Metric::ResidentError, errors(&|record| Some(record.rss_kib as f64)));
        add(Metric::ProportionalError, errors(&|record| Some(record.pss_kib? as f64)));
        add(Metric::ProportionalSwapError, errors(&|record| Some((record.pss_kib? + record.swap_pss_kib?) as f64)));
        let estimate =
            |record: &KillRecord| record.rss_anonymous_kib as f64 + record.swap_ratio * record.swap_kib as f64;
        add(Metric::EstimateError, errors(&|record| Some(estimate(record))));
        add(Metric::PredictionError, errors(&|record| Some(record.predicted_kib as f64)));
        let cost = |record: &KillRecord| {
            Some(100.0 * record.estimated_in_ns? as f64 / record.audited_in_ns.filter(|&ns| ns > 0)? as f64)
        };
        add(Metric::EstimateCost, median(&self.records.iter().filter_map(cost).collect::<Vec<_>>()));
        let longest_ms = |times: &mut dyn Iterator<Item = u64>| times.max().map_or(f64::NAN, |us| us as f64 / 1000.0);
        let decided = &mut self.records.iter().filter(|record| record.by_event).map(|record| record.decided_after_us);
        add(Metric::KillDelay, longest_ms(decided));
        add(Metric::KillReturn, longest_ms(&mut self.records.iter().filter_map(|record| record.back_after_us)));
    }
}

/// The openings of applications that were alive.
fn resumed(again: &[Opening]) -> Vec<Opening> {
    again.iter().filter(|opening| !opening.is_launch).copied().collect()
}

/// The user's waits, in milliseconds. Without a screen, the user waits for the whole limit.
fn times(openings: &[Opening]) -> Vec<f64> {
    openings.iter().map(|opening| opening.took.unwrap_or(opening.limit).as_secs_f64() * 1000.0).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cost::Cost;
    use super::*;

    // Verifies MEMORY-7, TOGETHER-1.
    #[test]
    fn launches_resumes_and_late_screens_are_separated() {
        let limit = Duration::from_secs(20);
        let after = MemoryState { free_kib: 2048, alive: 3, ..MemoryState::default() };
        let opening = |is_launch, ms: u64| Opening {
            is_launch,
            took: Some(Duration::from_millis(ms)),
            lookup_time: Duration::from_micros(ms),
            median_lookup: Duration::from_micros(ms / 25),
            is_late: false,
            limit,
            after,
        };
        let mut openings: Vec<Opening> = (1..=15).map(|place| opening(true, place * 100)).collect();
        openings.push(opening(false, 50));
        openings.push(opening(true, 550));
        openings.push(Opening { took: None, is_late: true, ..opening(false, 70) });
        let environment = Some(EnvironmentFigures {
            energy_mj: 7.0,
            music_missed_percent: Some(0.5),
            lookups: 10,
            cost: Some(Cost { own_percent: 0.25, pageout_percent: 4.5 }),
        });
        let figures = Figures { openings, kills: 2, alive: 14, environment, ..Figures::default() };
        let courses = figures.courses();
        assert_eq!(
            (courses[&StepMetric::Alive][17], courses[&StepMetric::Free][0], courses[&StepMetric::Files].len()),
            (3.0, 2.0, 18)
        );
        let metrics = figures.metrics();
        let figure = |metric: Metric| metrics.get(metric.key()).copied();
        assert_eq!((figure(Metric::EarlyLaunch), figure(Metric::LateLaunch)), (Some(300.0), Some(1300.0)));
        assert_eq!((figure(Metric::Resume), figure(Metric::Unresponsive)), (Some(10_025.0), Some(1.0)));
        assert!((figure(Metric::Reopen).unwrap() - 20_600.0 / 3.0).abs() < 1e-6);
        assert_eq!((figure(Metric::Kills), figure(Metric::Alive)), (Some(2.0), Some(14.0)));
        // Of 18 openings the 17th took 1500 ms and the 18th 20 s; the one without a screen looked nothing up.
        assert_eq!(figure(Metric::Opening), Some(750.0));
        assert!((figure(Metric::OpeningP95).unwrap() - (1500.0 + 0.15 * 18_500.0)).abs() < 1e-6);
        assert_eq!((figure(Metric::OwnCost), figure(Metric::PageoutCost)), (Some(0.25), Some(4.5)));
        for (metric, us) in [
            (Metric::OpeningLookup, 12_600.0 / 17.0 / 10.0),
            (Metric::LaunchLookup, 12_000.0 / 15.0 / 10.0),
            (Metric::ResumeLookup, 50.0 / 10.0),
            (Metric::ResumeLookupMedian, 2.0),
        ] {
            assert!((figure(metric).unwrap() - us).abs() < 1e-9, "{metric:?}");
        }
        assert_eq!((figure(Metric::CourseEnergy), figure(Metric::CourseMusicMissed)), (Some(7.0), Some(0.5)));
        assert_eq!(figure(Metric::KillDelay), None, "the killer killed no process");
    }
}
