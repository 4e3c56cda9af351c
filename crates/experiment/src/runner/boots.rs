//! Boots of a zygote: the guest has just booted, and the runner goes on to the first screen.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::boot_hold::BootHold;
use super::frequency_samples::FrequencySamples;
use super::settings::RunnerSettings;
use super::{Finding, describe, run_replicates, runtime_folder};
use crate::load::{FirstScreen, Load};
use crate::metric::Metric;
use crate::plan::{Line, Plan, StepMetric};
use crate::spec::{Arm, Boots};
use brisk_sys::process::TICK_MS;
use brisk_sys::{BootTime, Root};

/// The folder that the lab has put into the guest.
const FOLDER: &str = "/zygote";
const THREADS: u32 = 2;

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
        // Bounds and predictions follow only from a boot that preloads in order.
        if expected == "off" {
            let prediction = Prediction::read(&folder.join("prediction"))?;
            figures.extend(bounds(&phases, &preload, &zygote.measure()?, &prediction));
        }
        finding.metrics = figures.into_iter().map(|(metric, figure)| (metric.key().to_owned(), figure)).collect();
        if !frequency.is_empty() {
            finding.courses.insert(StepMetric::Frequency, frequency);
        }
        Ok(())
    }

    fn load(&self, work_ms: u32) -> Load {
        let bursts = Some((self.boots.bursts.work_ms, self.boots.bursts.wait_ms));
        Load { work_ms, start_up_ms: 0, threads: 1, turns_per_ms: self.boots.turns_per_ms, bursts }
    }
}

/// The zygote's report of its preloading.
#[derive(Debug, PartialEq, Eq)]
struct Preload {
    took: Duration,
    mode: String,
    initialised: usize,
    resources: Duration,
    /// CPU time of all the zygote's threads meanwhile.
    cpu: Duration,
}

impl Preload {
    /// Reads `part preload NANOS MODE INITIALISED RESOURCES_NANOS CPU_TICKS`.
    fn of(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("part preload ")?.split(' ');
        let took = Duration::from_nanos(words.next()?.parse().ok()?);
        let mode = words.next()?.to_owned();
        let initialised = words.next()?.parse().ok()?;
        let resources = Duration::from_nanos(words.next()?.parse().ok()?);
        let ticks: u64 = words.next()?.parse().ok()?;
        Some(Self { took, mode, initialised, resources, cpu: Duration::from_millis(ticks * TICK_MS) })
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

/// Measurements of a booted zygote, for predictions.
#[derive(Debug, PartialEq)]
struct ZygoteMeasurements {
    /// Following a plan whose classes are done, then going through the list in order.
    own: [Duration; 2],
    /// Resources on one thread, and on two threads that each preload all of them.
    two: [Duration; 2],
}

impl ZygoteMeasurements {
    /// Reads `measured NAME NANOS NANOS`.
    fn line(name: &str, line: &str) -> Option<[Duration; 2]> {
        let mut words = line.strip_prefix("measured ")?.strip_prefix(name)?.split_ascii_whitespace();
        let mut nanos = || Some(Duration::from_nanos(words.next()?.parse().ok()?));
        Some([nanos()?, nanos()?])
    }

    /// Throughput of two CPUs relative to one.
    fn worth(&self) -> f64 {
        let [one, two] = self.two.map(milliseconds);
        (2.0 * one / two).clamp(1.0, 2.0)
    }

    /// Time of following the plan beyond requesting each class, which both CPUs do.
    fn own_ms(&self) -> f64 {
        let [planned_ms, in_order_ms] = self.own.map(milliseconds);
        (planned_ms - in_order_ms / self.worth()).max(0.0)
    }
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

/// A running zygote; dropping it kills it.
struct Zygote {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// The system server's screen, which may come before the zygote's report.
    early_screen: Option<FirstScreen>,
    /// The zygote takes requests from an inherited descriptor, as from Android's init.
    requests: ChildStdin,
}

impl Zygote {
    fn start(boots: &Boots, arm: &Arm) -> anyhow::Result<Self> {
        let file = Path::new(FOLDER).join("command");
        let words = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut words = words.lines();
        let brisk = std::env::current_exe()?;
        let load = |work_ms: u32| {
            format!("{} load --json --work-ms {work_ms} --turns-per-ms {}", brisk.display(), boots.turns_per_ms)
        };
        let bursts = format!(" --burst-ms {} --wait-ms {}", boots.bursts.work_ms, boots.bursts.wait_ms);
        let mut command = Command::new(words.next().context("the zygote's command is empty")?);
        command.args(words).args(["--mode", arm.preload.mode(), "--threads", &THREADS.to_string()]);
        command.args(["--system-server", &(load(boots.system_server_ms) + &bursts)]);
        command.args(["--application", &load(boots.application_ms)]);
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> anyhow::Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start the zygote")?;
        let lines = BufReader::new(child.stdout.take().context("the zygote has no stdout")?).lines();
        let requests = child.stdin.take().context("the zygote has no stdin")?;
        Ok(Self { child, lines, early_screen: None, requests })
    }

    fn next(&mut self) -> anyhow::Result<String> {
        match self.lines.next() {
            Some(line) => Ok(line?),
            None => bail!("the zygote ended with {}; see its message above", self.child.wait()?),
        }
    }

    /// Waits until it has preloaded.
    fn preload(&mut self) -> anyhow::Result<Preload> {
        loop {
            let line = self.next()?;
            if line.starts_with("part preload ") {
                return Preload::of(&line).with_context(|| format!("the zygote printed {line:?}"));
            }
            self.early_screen = serde_json::from_str(&line).ok().or(self.early_screen.take());
        }
    }

    /// Waits for the system server, requests an application as that does, and waits for its screen: the time of each.
    fn screens(&mut self) -> anyhow::Result<[BootTime; 2]> {
        let server = self.screen()?;
        self.requests.write_all(b"\n").context("the zygote takes no requests")?;
        let application = self.screen()?;
        Ok([server, application].map(|screen| BootTime::from_nanoseconds(screen.first_screen_ns)))
    }

    /// Requests the measurements for predictions, now that the boot is over.
    fn measure(&mut self) -> anyhow::Result<ZygoteMeasurements> {
        self.requests.write_all(b"m").context("the zygote takes no requests")?;
        let mut measured = |name| loop {
            if let Some(times) = ZygoteMeasurements::line(name, &self.next()?) {
                return anyhow::Ok(times);
            }
        };
        Ok(ZygoteMeasurements { own: measured("own")?, two: measured("two")? })
    }

    fn screen(&mut self) -> anyhow::Result<FirstScreen> {
        if let Some(screen) = self.early_screen.take() {
            return Ok(screen);
        }
        loop {
            if let Ok(screen) = serde_json::from_slice(self.next()?.as_bytes()) {
                return Ok(screen);
            }
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

    #[test]
    fn a_system_server_may_start_before_the_zygotes_report() {
        let screen = |ns: u64| format!(r#"{{"first_screen_ns":{ns},"generated_ns":1}}"#);
        for lines in [[screen(5), "part preload 9 off 1 1 1".into()], ["part preload 9 off 1 1 1".into(), screen(5)]] {
            let script = format!("echo '{}'; echo '{}'; read request; echo '{}'", lines[0], lines[1], screen(7));
            let mut zygote = Zygote::of(Command::new("sh").args(["-c", &script])).unwrap();
            assert_eq!(zygote.preload().unwrap().initialised, 1);
            assert_eq!(zygote.screens().unwrap().map(BootTime::nanoseconds), [5, 7]);
        }
    }

    // Verifies PRELOAD-2.
    #[test]
    fn a_zygotes_later_measurements_are_requested_and_parsed() {
        let script = "head -c1; echo; echo part loop 3; echo measured own 120 40; echo measured two 100 125";
        let mut zygote = Zygote::of(Command::new("sh").args(["-c", script])).unwrap();
        let measured = zygote.measure().unwrap();
        let expected = [[120, 40], [100, 125]].map(|times| times.map(Duration::from_nanos));
        assert_eq!([measured.own, measured.two], expected);
        assert!((measured.worth() - 1.6).abs() < 1e-9);
        assert!((measured.own_ms() - 95e-6).abs() < 1e-12);
        for damaged in ["measured own 1", "measured own x 1", "own 1 2", "measured two 1 2"] {
            assert_eq!(ZygoteMeasurements::line("own", damaged), None, "{damaged}");
        }
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
