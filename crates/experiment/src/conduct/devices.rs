//! The result of one experiment that several devices have measured, each by itself.

use super::{Findings, Run};
use crate::plan::{Measured, Replicate};
use crate::samples::Samples;
use crate::schedule::blocks;
use crate::verdict::{REPORTED, judge, judge_devices};
use brisk_report::proof::{ClaimResult, ExperimentResult, Verdict};

/// What a device has found.
#[derive(Debug, Clone)]
pub struct DeviceFindings {
    /// The device's name, for the report.
    pub name: String,
    /// What it measured.
    pub findings: Findings,
}

impl Run<'_> {
    /// The result of all `devices` together. Its notes say what each of them found by itself.
    pub fn result_of_devices(&self, devices: &[DeviceFindings], command: String) -> ExperimentResult {
        let experiment = self.experiment;
        let first = match devices {
            [] => return self.result(&Findings::default(), command),
            [only] => return self.result(&only.findings, command),
            [first, ..] => first,
        };
        let samples: Vec<Samples> = devices.iter().map(|device| self.samples(&device.findings)).collect();
        let claims = judge_devices(experiment, self.quick, &samples);
        let own = samples.iter().map(|samples| judge(experiment, self.quick, samples)).collect::<Vec<_>>();
        let pooled = self.pooled(devices);
        let mut notes = experiment.notes.clone();
        #[cfg(feature = "lab")]
        notes.extend(experiment.combinations.iter().flat_map(|combinations| combinations.notes(self.quick)));
        notes.push(format!(
            "{} devices measured it: {}. A claim's figure is the mean of the devices' figures; medians of variants are of all \
             devices' runs.",
            devices.len(),
            devices.iter().map(DeviceFindings::description).collect::<Vec<_>>().join("; ")
        ));
        notes.extend(claims.iter().enumerate().map(|(index, claim)| {
            let figures = devices.iter().zip(&own).map(|(device, own)| figure(&device.name, &own[index]));
            let place = if claim.point.is_empty() { String::new() } else { format!(" at {}", claim.point) };
            format!("{}{place}: {}.", claim.id, figures.collect::<Vec<_>>().join("; "))
        }));
        for DeviceFindings { name, findings } in devices {
            notes.extend(findings.notes.iter().map(|note| format!("{name}: {note}")));
        }
        let mut self_checks = Vec::new();
        for check in devices.iter().flat_map(|device| &device.findings.self_checks) {
            if !self_checks.contains(check) {
                self_checks.push(check.clone());
            }
        }
        let alone = self.result(&first.findings, command);
        ExperimentResult {
            arms: pooled.series(experiment, &super::result::metrics(experiment)),
            claims,
            notes,
            self_checks,
            rejections: pooled.rejections(experiment),
            courses: pooled.courses(experiment),
            processes: pooled.processes(experiment),
            ..alone
        }
    }

    /// The samples of all devices, with blocks of their own.
    fn pooled(&self, devices: &[DeviceFindings]) -> Samples {
        let (all, count) = (blocks(&self.design()), self.design().blocks());
        let of_device = |(device, findings): (u32, &'_ Findings)| {
            let found = all.iter().filter_map(|replicate| Some((replicate, findings.measured.get(&replicate.id)?)));
            found
                .map(|(replicate, measured)| {
                    (Replicate { block: replicate.block + device * count, ..*replicate }, measured.clone())
                })
                .collect::<Vec<(Replicate, Measured)>>()
        };
        let pairs: Vec<_> = (0..).zip(devices.iter().map(|device| &device.findings)).flat_map(of_device).collect();
        let pairs = pairs.iter().map(|(replicate, measured)| (replicate, measured));
        Samples::new(self.experiment.arms.len(), &self.experiment.points(self.quick), pairs)
    }
}

impl DeviceFindings {
    fn description(&self) -> String {
        let Self { name, findings } = self;
        let processor = findings.device.as_ref().map_or("unknown", |device| &device.processor);
        format!("{name} ({processor}, {} runs)", findings.measured().count())
    }
}

/// A device's own figure of a claim.
fn figure(name: &str, claim: &ClaimResult) -> String {
    let ClaimResult { unit, measured, ci: [low, high], verdict, .. } = claim;
    if measured.is_nan() {
        return format!("{name} has too few runs");
    }
    let verdict = match verdict {
        _ if claim.required == REPORTED => "",
        Verdict::Shown => ", shown",
        Verdict::NotShown => ", refuted",
        Verdict::Inconclusive => ", inconclusive",
    };
    format!("{name} {measured:.2} {unit} [{low:.2}, {high:.2}]{verdict}")
}
