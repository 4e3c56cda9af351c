//! The figures by which sets of boots are compared: times of the whole boot, the time in each limit, and the processes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::diagnose::{self, Limit};
use super::model::{Boot, Kind};
use super::summary;

/// The figures of one boot.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// In the order of [`ComparedMeasure::ALL`], in milliseconds or MiB.
    pub measures: Vec<f64>,
    /// CPU time in milliseconds by process name; processes of one name are summed.
    pub cpu_ms: BTreeMap<String, f64>,
}

/// One figure of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComparedMeasure {
    /// The end of the work, since the kernel started.
    Done,
    /// CPU time of all CPUs.
    CpuTime,
    /// Time in phases of this limit, before the end of the work.
    Limit(Limit),
    /// Read from disks, in MiB.
    Read,
}

impl ComparedMeasure {
    /// All measures, the most important first.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::Limit(Limit::OneCpu),
        Self::Limit(Limit::SeveralCpus),
        Self::Limit(Limit::EveryCpu),
        Self::Limit(Limit::Disk),
        Self::Limit(Limit::PartlyBusy),
        Self::Limit(Limit::Waiting),
        Self::CpuTime,
        Self::Read,
    ];

    /// Its name in reports.
    pub fn words(self) -> String {
        match self {
            Self::Done => "done after".to_owned(),
            Self::CpuTime => "CPU time".to_owned(),
            Self::Limit(limit) => format!("limit: {}", limit.words()),
            Self::Read => "read".to_owned(),
        }
    }

    /// True when the unit is MiB; otherwise it is milliseconds.
    pub fn is_mib(self) -> bool {
        self == Self::Read
    }
}

/// The figures of `boot`.
pub fn figures(boot: &Boot) -> Figures {
    let diagnosis = diagnose::diagnose(boot);
    let cpus = boot.cpu_count() as f64;
    let in_limit = |limit: Limit| {
        let phases =
            diagnosis.phases.iter().filter(|phase| phase.limit == limit && phase.span.start_ms < diagnosis.done_ms);
        phases.map(|phase| f64::from(phase.span.length_ms())).sum()
    };
    let measure = |measure: ComparedMeasure| match measure {
        ComparedMeasure::Done => f64::from(diagnosis.done_ms),
        ComparedMeasure::CpuTime => {
            boot.cpu.iter().map(|sample| f64::from(sample.busy()) * cpus * f64::from(sample.span.length_ms())).sum()
        }
        ComparedMeasure::Limit(limit) => in_limit(limit),
        ComparedMeasure::Read => summary::read_mib(boot),
    };
    let mut cpu_ms: BTreeMap<String, f64> = BTreeMap::new();
    for process in boot.processes.iter().filter(|process| process.kind != Kind::Initcall) {
        *cpu_ms.entry(process.label().to_owned()).or_default() += f64::from(process.cpu_ms);
    }
    Figures { measures: ComparedMeasure::ALL.map(measure).to_vec(), cpu_ms }
}

/// A figure in two sets of boots.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureChange<'a> {
    /// The process; empty for a measure of the whole boot.
    pub process: &'a str,
    /// One value for each boot of the first set.
    pub before: Vec<f64>,
    /// One value for each boot of the second set.
    pub after: Vec<f64>,
}

impl FigureChange<'_> {
    /// Mean of the second set minus mean of the first.
    pub fn difference(&self) -> f64 {
        mean(&self.after) - mean(&self.before)
    }
}

/// The mean; 0 for an empty slice.
pub fn mean(values: &[f64]) -> f64 {
    // The sum of an empty iterator of floats is -0.0.
    values.iter().sum::<f64>() / values.len().max(1) as f64 + 0.0
}

/// The measures of the whole boot, in the order of [`ComparedMeasure::ALL`].
pub fn measures<'a>(before: &[Figures], after: &[Figures]) -> Vec<FigureChange<'a>> {
    let of = |set: &[Figures], index: usize| set.iter().map(|figures| figures.measures[index]).collect();
    (0..ComparedMeasure::ALL.len())
        .map(|index| FigureChange { process: "", before: of(before, index), after: of(after, index) })
        .collect()
}

/// At most `most` processes, those whose CPU time changed most; a process that is absent from a boot took none.
pub fn processes<'a>(before: &'a [Figures], after: &'a [Figures], most: usize) -> Vec<FigureChange<'a>> {
    let of = |set: &[Figures], name: &str| {
        set.iter().map(|figures| figures.cpu_ms.get(name).copied().unwrap_or(0.0)).collect()
    };
    let mut names: Vec<&str> = before.iter().chain(after).flat_map(|f| f.cpu_ms.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    let mut changes: Vec<FigureChange<'a>> = names
        .into_iter()
        .map(|process| FigureChange { process, before: of(before, process), after: of(after, process) })
        .filter(|change| change.difference() != 0.0)
        .collect();
    changes.sort_by(|one, other| {
        other.difference().abs().total_cmp(&one.difference().abs()).then(one.process.cmp(other.process))
    });
    changes.truncate(most);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Shape;
    use crate::sample;

    fn boots(preload_factor: f64) -> Vec<Figures> {
        let boot = |seed| figures(&sample::recording(&Shape { preload_factor, seed, ..Shape::SMALL }));
        (1..4).map(boot).collect()
    }

    // Verifies CHART-3.
    #[test]
    fn a_shorter_preload_is_what_changed() {
        let (before, after) = (boots(1.0), boots(0.6));
        let changes = measures(&before, &after);
        let saved_ms = -0.4 * 0.25 * 30_000.0;
        for (measure, change) in ComparedMeasure::ALL.into_iter().zip(&changes) {
            let expected = match measure {
                ComparedMeasure::Done | ComparedMeasure::Limit(Limit::OneCpu) => saved_ms,
                ComparedMeasure::Limit(_) => 0.0,
                ComparedMeasure::CpuTime | ComparedMeasure::Read => continue,
            };
            assert!((change.difference() - expected).abs() <= 700.0, "{measure:?} {change:?} is not near {expected}");
        }
        let processes = processes(&before, &after, 3);
        assert_eq!((processes.len(), processes[0].process), (3, "zygote64"));
        assert!((processes[0].difference() - saved_ms).abs() < 700.0, "{:?}", processes[0]);
    }

    // Verifies CHART-3.
    #[test]
    fn an_absent_process_used_nothing() {
        let set = |names: &[(&str, f64)]| {
            let cpu_ms = names.iter().map(|(name, ms)| ((*name).to_owned(), *ms)).collect();
            [Figures { measures: vec![0.0; ComparedMeasure::ALL.len()], cpu_ms }]
        };
        let (before, after) =
            (set(&[("a", 5.0), ("b", 7.0), ("same", 9.0)]), set(&[("b", 3.0), ("c", 40.0), ("same", 9.0)]));
        let found: Vec<_> = processes(&before, &after, 9).iter().map(|c| (c.process, c.difference())).collect();
        assert_eq!(found, [("c", 40.0), ("a", -5.0), ("b", -4.0)]);
    }
}
