//! Boots of a zygote: the guest has just booted, and the runner goes on to the first screen.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::boot_hold::BootHold;
use super::frequency_samples::FrequencySamples;
use super::settings::RunnerSettings;
use super::zygote::{FOLDER, Preload, Zygote, ZygoteMeasurements};
use super::{Finding, describe, run_replicates, runtime_folder};
use crate::load::Load;
use crate::metric::Metric;
use crate::plan::{Line, Plan, StepMetric};
use crate::spec::{Arm, Boots, Preloading};
use brisk_sys::{BootTime, Root};

/// Runs the only replicate of `plan`; see [`super::run`].
pub(super) fn run(
    plan: &Plan,
    boots: Boots,
    root: &Root,
    interrupted: &AtomicBool,
    report: &mut dyn FnMut(&Line) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    ensure!(plan.replicates.len() == 1, "a device boots once");
    let kernel = BootTime::now();
    report(&Line::Device { device: describe(root, None)? })?;
    let folder = runtime_folder(root);
    let mut settings = RunnerSettings::open(&folder, root)?;
    run_replicates(plan, interrupted, report, |_, arm, _, finding| {
        // Such an arm is set by the kernel, and by the hold when it ends.
        if !arm.hold_from_kernel {
            settings.apply(arm).with_context(|| format!("cannot set the arm {}", arm.name))?;
        }
        Ok(Boot { boots, root, folder: &folder, kernel }.measure(arm, finding))
    })?;
    settings.restore()
}

struct Boot<'a> {
    boots: Boots,
    root: &'a Root,
    folder: &'a Path,
    /// When the kernel and the guest's first process were done.
    kernel: BootTime,
}

impl Boot<'_> {
    /// Runs the rest of the boot. The time to set the arm is not included.
    fn measure(&self, arm: &Arm, finding: &mut Finding) -> anyhow::Result<()> {
        let frequencies = FrequencySamples::start(self.root);
        let began = BootTime::now();
        let then = arm.governor.as_deref().filter(|_| arm.hold_from_kernel);
        let is_held = arm.boot_hold || arm.hold_from_kernel;
        let hold = if is_held { Some(BootHold::start(self.root, self.folder, then)?) } else { None };
        self.load(self.boots.services_ms).run()?;
        let services = BootTime::now();
        let mut zygote = Zygote::start(&self.boots, arm)?;
        let preload = zygote.preload()?;
        let preloaded = BootTime::now();
        let expected = arm.preload.mode();
        ensure!(preload.mode == expected, "the zygote's preloading was {} and not {expected}", preload.mode);
        let [server, screen] = zygote.screens()?;
        let frequency = frequencies.end(began, screen);
        hold.map_or(Ok(()), BootHold::end)?;
        let phases = BootPhases {
            kernel: self.kernel.since(BootTime::default()),
            services: services.since(began),
            zygote_start: preloaded.since(services).saturating_sub(preload.took),
            preload: preload.took,
            system_server: server.since(preloaded),
            application: screen.since(server.max(preloaded)),
        };
        let folder = self.root.path(FOLDER);
        let classes = fs::read_to_string(folder.join("classes"))?.lines().count();
        let mut figures = phases.figures();
        figures.push((Metric::PreloadCpu, milliseconds(preload.cpu)));
        figures.push((Metric::ClassesLeft, classes.saturating_sub(preload.initialised) as f64));
        match arm.preload {
            // Bounds and predictions follow only from a boot that preloads in order.
            Preloading::Off => {
                let prediction = Prediction::read(&folder.join("prediction"))?;
                figures.extend(bounds(&phases, &preload, &zygote.measure()?, &prediction));
            }
            Preloading::Fork | Preloading::ForkAndWait => {
                figures.push((Metric::ClassesInChild, zygote.end_of_child()? as f64));
            }
            Preloading::Ahead | Preloading::Plan => {}
        }
        finding.metrics = figures.into_iter().map(|(metric, figure)| (metric.key().to_owned(), figure)).collect();
        if !frequency.is_empty() {
            finding.courses.insert(StepMetric::Frequency, frequency);
        }
        Ok(())
    }

    fn load(&self, work_ms: u32) -> Load {
        let bursts = Some((self.boots.bursts.work_ms, self.boots.bursts.wait_ms));
        Load { work_ms, start_up_ms: 0, threads: 1, turns_per_ms: self.boots.turns_per_ms, bursts, fill_kib: 0 }
    }
}

/// The boot's phases, one after another.
#[derive(Debug, Clone, Copy)]
struct BootPhases {
    kernel: Duration,
    services: Duration,
    /// Includes its start of the system server.
    zygote_start: Duration,
    preload: Duration,
    system_server: Duration,
    application: Duration,
}

impl BootPhases {
    fn boot(&self) -> Duration {
        self.preload + self.rest()
    }

    fn rest(&self) -> Duration {
        self.kernel + self.services + self.zygote_start + self.system_server + self.application
    }

    fn figures(&self) -> Vec<(Metric, f64)> {
        let phases = [
            (Metric::Boot, self.boot()),
            (Metric::Kernel, self.kernel),
            (Metric::Services, self.services),
            (Metric::ZygoteStart, self.zygote_start),
            (Metric::Preload, self.preload),
            (Metric::SystemServer, self.system_server),
            (Metric::Application, self.application),
            (Metric::BootRest, self.rest()),
        ];
        phases.into_iter().map(|(metric, time)| (metric, milliseconds(time))).collect()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Bounds and predictions from a boot that has preloaded in order.
fn bounds(
    phases: &BootPhases,
    preload: &Preload,
    measured: &ZygoteMeasurements,
    prediction: &Prediction,
) -> Vec<(Metric, f64)> {
    let [boot_ms, preload_ms] = [phases.boot(), preload.took].map(milliseconds);
    let zygote_ms = milliseconds(phases.zygote_start) + preload_ms;
    let (own_ms, worth) = (measured.own_ms(), measured.worth());
    let mut figures = vec![
        (Metric::PreloadShare, 100.0 * preload_ms / boot_ms),
        (Metric::ZygoteShare, 100.0 * zygote_ms / boot_ms),
        (Metric::PreloadOfZygote, 100.0 * preload_ms / zygote_ms),
        (Metric::BootBound, boot_ms - preload_ms / 2.0),
        (Metric::PreloadBound, preload_ms / 2.0),
        (Metric::BoundGain, 50.0 * preload_ms / boot_ms),
        (Metric::PreloaderOwn, own_ms),
        (Metric::CpusWorth, worth),
    ];
    for (cpus, metric, gain) in [
        (2, Metric::BootOnTwo, Some(Metric::GainOnTwo)),
        (4, Metric::BootOnFour, Some(Metric::GainOnFour)),
        (8, Metric::BootOnEight, None),
    ] {
        let resources_percent = 100.0 * milliseconds(preload.resources) / preload_ms;
        let Some(ratio) = prediction.ratio(cpus, resources_percent, worth) else { continue };
        let preload_predicted_ms = preload_ms * ratio + own_ms;
        let saved_ms = preload_ms - preload_predicted_ms;
        figures.push((metric, boot_ms - saved_ms));
        figures.extend(gain.map(|gain| (gain, 100.0 * saved_ms / boot_ms)));
        if cpus == 2 {
            figures.push((Metric::PreloadOnTwo, preload_predicted_ms));
        }
    }
    figures
}

/// The predicted time of a preload on several CPUs relative to one, by the share of its resources, which is measured where it
/// runs. The relative costs of its classes were measured when the zygote was put together.
struct Prediction {
    /// The assumed throughput of two CPUs relative to one.
    worth: f64,
    predicted: Vec<Predicted>,
}

/// A line of a prediction.
struct Predicted {
    cpus: u32,
    resources_percent: f64,
    ratio: f64,
}

impl Prediction {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let line = |line: &str| {
            let mut words = line.split(' ');
            let cpus = words.next()?.parse().ok()?;
            let [resources_percent, ratio] = [words.next()?, words.next()?].map(|word| word.parse().ok());
            Some(Predicted { cpus, resources_percent: resources_percent?, ratio: ratio? })
        };
        let mut lines = text.lines();
        let worth = lines.next().and_then(|line| line.strip_prefix("speedup ")?.parse().ok());
        let worth = worth.filter(|worth| *worth > 1.0);
        let worth = worth.with_context(|| format!("{} does not begin with its speed-up", path.display()))?;
        let lines = lines.map(|text| line(text).with_context(|| format!("{}: {text:?}", path.display())));
        Ok(Self { worth, predicted: lines.collect::<anyhow::Result<_>>()? })
    }

    /// For CPUs of which two are worth `worth`. Two threads gain only while both have work: with a share `a` of the work on
    /// each, `1 - 2 a + 2 a / worth` remains. More threads are taken to be worth what was assumed.
    fn ratio(&self, cpus: u32, resources_percent: f64, worth: f64) -> Option<f64> {
        let assumed = self.assumed(cpus, resources_percent)?;
        Some(if cpus == 2 { 1.0 - (1.0 - assumed) * (1.0 - 1.0 / worth) / (1.0 - 1.0 / self.worth) } else { assumed })
    }

    /// Linear between two predicted shares.
    fn assumed(&self, cpus: u32, resources_percent: f64) -> Option<f64> {
        let of_cpus = || self.predicted.iter().filter(|known| known.cpus == cpus);
        let below = of_cpus().rfind(|known| known.resources_percent <= resources_percent)?;
        let Some(above) = of_cpus().find(|known| known.resources_percent > resources_percent) else {
            return Some(below.ratio);
        };
        let way = (resources_percent - below.resources_percent) / (above.resources_percent - below.resources_percent);
        Some(below.ratio + way * (above.ratio - below.ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(text: &str) -> anyhow::Result<Prediction> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prediction");
        fs::write(&file, text).unwrap();
        Prediction::read(&file)
    }

    // Verifies PRELOAD-2.
    #[test]
    fn a_boots_figures_follow_from_its_preload() {
        let preload = Preload::of("part preload 2000000000 off 390 500000000 190").unwrap();
        let [took, resources, cpu] = [2000, 500, 1900].map(Duration::from_millis);
        assert_eq!(preload, Preload { took, mode: "off".into(), initialised: 390, resources, cpu });
        for damaged in [
            "part preload",
            "part preload x off 1 1",
            "part socket 1",
            "part preload 1 off",
            "part preload 1 off 1",
            "part preload 1 off 1 1",
        ] {
            assert_eq!(Preload::of(damaged), None, "{damaged}");
        }
        let second = Duration::from_secs(1);
        let phases = BootPhases {
            kernel: 3 * second,
            services: 2 * second,
            zygote_start: second,
            preload: took,
            system_server: second,
            application: second,
        };
        // A quarter of this preload is resources; two CPUs are worth what the prediction assumes.
        let prediction = prediction("speedup 1.6\n2 0 0.5\n2 20 0.58\n2 30 0.62\n8 0 0.3\n8 25 0.5\n").unwrap();
        let measured =
            ZygoteMeasurements { own: [900, 1280].map(Duration::from_millis), two: [second, second * 5 / 4] };
        let figures: Vec<_> =
            phases.figures().into_iter().chain(bounds(&phases, &preload, &measured, &prediction)).collect();
        for (metric, expected) in [
            (Metric::Boot, 10_000.0),
            (Metric::Kernel, 3000.0),
            (Metric::Preload, 2000.0),
            (Metric::BootRest, 8000.0),
            (Metric::PreloadShare, 20.0),
            (Metric::ZygoteShare, 30.0),
            (Metric::PreloadOfZygote, 200.0 / 3.0),
            (Metric::BootBound, 9000.0),
            (Metric::PreloadBound, 1000.0),
            (Metric::BoundGain, 10.0),
            (Metric::CpusWorth, 1.6),
            (Metric::PreloaderOwn, 100.0),
            (Metric::PreloadOnTwo, 1300.0),
            (Metric::BootOnTwo, 9300.0),
            (Metric::GainOnTwo, 7.0),
            (Metric::BootOnEight, 9100.0),
        ] {
            let found = figures.iter().find(|(known, _)| *known == metric).unwrap().1;
            assert!((found - expected).abs() < 1e-6, "{metric:?}: {figures:?}");
        }
        let of_four = [Metric::BootOnFour, Metric::GainOnFour];
        assert!(figures.iter().all(|(metric, _)| !of_four.contains(metric)), "nothing is predicted for four");
    }

    // Verifies PRELOAD-2.
    #[test]
    fn a_prediction_is_read_or_refused() {
        let known = prediction("speedup 1.6\n2 0 0.5\n2 50 0.75\n4 0 0.4\n").unwrap();
        for (share, ratio) in [(0.0, 0.5), (10.0, 0.55), (50.0, 0.75), (90.0, 0.75)] {
            assert!((known.ratio(2, share, 1.6).unwrap() - ratio).abs() < 1e-9, "{share}");
        }
        // Two CPUs that are worth one gain nothing; those that are worth two gain more.
        assert!((known.ratio(2, 0.0, 1.0).unwrap() - 1.0).abs() < 1e-9);
        assert!((known.ratio(2, 0.0, 2.0).unwrap() - (1.0 - 0.5 * 0.5 / 0.375)).abs() < 1e-9);
        assert_eq!((known.ratio(4, 0.0, 1.2), known.ratio(8, 10.0, 1.6)), (Some(0.4), None));
        for damaged in ["two 0 0.5", "2 0", "2 x 0.5"] {
            let error = prediction(&format!("speedup 1.9\n{damaged}")).err().unwrap();
            assert!(error.to_string().contains(damaged), "{damaged}");
        }
        for damaged in ["", "2 0 0.5", "speedup x", "speedup 1"] {
            assert!(prediction(damaged).err().unwrap().to_string().contains("its speed-up"), "{damaged}");
        }
    }
}
