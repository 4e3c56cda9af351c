//! Boots of a zygote: the guest has just booted, and goes on to the first screen.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::boot_hold::BootHold;
use super::settings::Settings;
use super::{Metrics, describe, run_replicates, runtime_folder};
use crate::device::{BootTime, Root};
use crate::experiment::claim::Metric;
use crate::experiment::load::{FirstScreen, Load};
use crate::experiment::plan::{Line, Plan};
use crate::experiment::spec::{Arm, Boots};

/// What the lab has put into the guest.
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
    let mut settings = Settings::open(&folder, root)?;
    run_replicates(plan, interrupted, report, |_, arm, _, finding| {
        settings.apply(arm).with_context(|| format!("cannot set the arm {}", arm.name))?;
        Ok(Boot { boots, root, folder: &folder, kernel }.measure(arm).map(|metrics| finding.metrics = metrics))
    })?;
    settings.give_back()
}

struct Boot<'a> {
    boots: Boots,
    root: &'a Root,
    folder: &'a Path,
    /// When the kernel and the guest's first process were done.
    kernel: BootTime,
}

impl Boot<'_> {
    /// Goes through the rest of the boot. What was done to set the arm is no part of it.
    fn measure(&self, arm: &Arm) -> anyhow::Result<Metrics> {
        let began = BootTime::now();
        let hold = if arm.boot_hold { Some(BootHold::start(self.root, self.folder)?) } else { None };
        self.load(self.boots.services_ms).run()?;
        let mut zygote = Zygote::start(&self.boots, arm)?;
        let preload = zygote.preload()?;
        let expected = arm.preload.mode();
        ensure!(preload.mode == expected, "the zygote's preloading was {} and not {expected}", preload.mode);
        let screen = zygote.first_screen()?;
        drop(zygote);
        hold.map_or(Ok(()), BootHold::end)?;
        let boot =
            self.kernel.since(BootTime::default()) + BootTime::from_nanoseconds(screen.first_screen_ns).since(began);
        let classes = fs::read_to_string(self.root.path(FOLDER).join("classes"))?.lines().count();
        let prediction = Prediction::read(&self.root.path(FOLDER).join("prediction"))?;
        Ok(metrics(boot, &preload, classes, &prediction, expected == "off"))
    }

    fn load(&self, work_ms: u32) -> Load {
        let bursts = Some((self.boots.bursts.work_ms, self.boots.bursts.wait_ms));
        Load { work_ms, start_up_ms: 0, threads: 1, turns_per_ms: self.boots.turns_per_ms, bursts }
    }
}

/// What the zygote said of its preloading.
#[derive(Debug, PartialEq, Eq)]
struct Preload {
    took: Duration,
    mode: String,
    initialised: usize,
    resources: Duration,
}

impl Preload {
    /// Reads `part preload NANOS MODE INITIALISED RESOURCES_NANOS`.
    fn of(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("part preload ")?.split(' ');
        let took = Duration::from_nanos(words.next()?.parse().ok()?);
        let mode = words.next()?.to_owned();
        let initialised = words.next()?.parse().ok()?;
        let resources = Duration::from_nanos(words.next()?.parse().ok()?);
        Some(Self { took, mode, initialised, resources })
    }
}

/// The figures of one boot. What could be won is known of a boot that preloads in order alone.
fn metrics(boot: Duration, preload: &Preload, classes: usize, prediction: &Prediction, in_order: bool) -> Metrics {
    let [boot_ms, preload_ms] = [boot, preload.took].map(|time| time.as_secs_f64() * 1e3);
    let mut figures = vec![
        (Metric::Boot, boot_ms),
        (Metric::Preload, preload_ms),
        (Metric::ClassesLeft, classes.saturating_sub(preload.initialised) as f64),
    ];
    if in_order {
        figures.push((Metric::PreloadShare, 100.0 * preload_ms / boot_ms));
        figures.push((Metric::BootBound, boot_ms - preload_ms / 2.0));
        figures.push((Metric::BoundGain, 50.0 * preload_ms / boot_ms));
        for (cpus, metric) in [(2, Metric::BootOnTwo), (4, Metric::BootOnFour), (8, Metric::BootOnEight)] {
            let ratio = prediction.ratio(cpus, 100.0 * preload.resources.as_secs_f64() * 1e3 / preload_ms);
            figures.extend(ratio.map(|ratio| (metric, boot_ms - preload_ms * (1.0 - ratio))));
        }
    }
    figures.into_iter().map(|(metric, figure)| (metric.key().to_owned(), figure)).collect()
}

/// What a preload takes on so many CPUs, of what it takes on one: by how much of it resources are, which is known where it
/// ran. How its classes compare with each other was measured when the zygote was put together.
struct Prediction(Vec<Predicted>);

/// A line of it.
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
        let lines = text.lines().map(|text| line(text).with_context(|| format!("{}: {text:?}", path.display())));
        Ok(Self(lines.collect::<anyhow::Result<_>>()?))
    }

    /// Between two shares that were predicted: on the line between them.
    fn ratio(&self, cpus: u32, resources_percent: f64) -> Option<f64> {
        let of_cpus = || self.0.iter().filter(|known| known.cpus == cpus);
        let below = of_cpus().rfind(|known| known.resources_percent <= resources_percent)?;
        let Some(above) = of_cpus().find(|known| known.resources_percent > resources_percent) else {
            return Some(below.ratio);
        };
        let way = (resources_percent - below.resources_percent) / (above.resources_percent - below.resources_percent);
        Some(below.ratio + way * (above.ratio - below.ratio))
    }
}

/// A running one; dropped, it is killed.
struct Zygote {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// The system server's, who may be done before the zygote has said what it did.
    early_screen: Option<FirstScreen>,
    /// It takes requests from a descriptor that it has inherited, as from Android's init.
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
            None => bail!("the zygote ended with {}; its reason is above", self.child.wait()?),
        }
    }

    /// Waits until it has preloaded.
    fn preload(&mut self) -> anyhow::Result<Preload> {
        loop {
            let line = self.next()?;
            if line.starts_with("part preload ") {
                return Preload::of(&line).with_context(|| format!("the zygote said {line:?}"));
            }
            self.early_screen = serde_json::from_str(&line).ok().or(self.early_screen.take());
        }
    }

    /// Waits for the system server, asks for an application as that does, and waits for its screen.
    fn first_screen(&mut self) -> anyhow::Result<FirstScreen> {
        self.screen()?;
        self.requests.write_all(b"\n").context("the zygote takes no requests")?;
        self.screen()
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
    fn a_system_server_may_be_faster_than_what_the_zygote_says_of_itself() {
        let screen = |ns: u64| format!(r#"{{"first_screen_ns":{ns},"generated_ns":1}}"#);
        for lines in [[screen(5), "part preload 9 off 1 1".into()], ["part preload 9 off 1 1".into(), screen(5)]] {
            let script = format!("echo '{}'; echo '{}'; read request; echo '{}'", lines[0], lines[1], screen(7));
            let mut zygote = Zygote::of(Command::new("sh").args(["-c", &script])).unwrap();
            assert_eq!(zygote.preload().unwrap().initialised, 1);
            assert_eq!(zygote.first_screen().unwrap().first_screen_ns, 7);
        }
    }

    #[test]
    fn a_boots_figures_follow_from_its_preload() {
        let preload = Preload::of("part preload 2000000000 off 390 500000000").unwrap();
        let [took, resources] = [2000, 500].map(Duration::from_millis);
        assert_eq!(preload, Preload { took, mode: "off".into(), initialised: 390, resources });
        for damaged in
            ["part preload", "part preload x off 1 1", "part socket 1", "part preload 1 off", "part preload 1 off 1"]
        {
            assert_eq!(Preload::of(damaged), None, "{damaged}");
        }
        let ten = Duration::from_secs(10);
        // A quarter of this preload is resources.
        let prediction = prediction("2 0 0.5\n2 20 0.58\n2 30 0.62\n8 0 0.3\n8 25 0.5\n").unwrap();
        let figures = metrics(ten, &preload, 400, &prediction, true);
        for (metric, expected) in [
            (Metric::Boot, 10_000.0),
            (Metric::Preload, 2000.0),
            (Metric::PreloadShare, 20.0),
            (Metric::BootBound, 9000.0),
            (Metric::BoundGain, 10.0),
            (Metric::ClassesLeft, 10.0),
            (Metric::BootOnTwo, 9200.0),
            (Metric::BootOnEight, 9000.0),
        ] {
            assert!((figures[metric.key()] - expected).abs() < 1e-6, "{metric:?}: {figures:?}");
        }
        assert!(!figures.contains_key(Metric::BootOnFour.key()), "nothing is predicted for four");
        let in_parallel = metrics(ten, &preload, 400, &prediction, false);
        assert_eq!(in_parallel.len(), 3, "a parallel preload has no bound of its own");
    }

    #[test]
    fn a_prediction_is_read_or_refused() {
        let known = prediction("2 0 0.5\n2 50 0.75\n").unwrap();
        for (share, ratio) in [(0.0, 0.5), (10.0, 0.55), (50.0, 0.75), (90.0, 0.75)] {
            assert!((known.ratio(2, share).unwrap() - ratio).abs() < 1e-9, "{share}");
        }
        assert_eq!(known.ratio(4, 10.0), None);
        for damaged in ["two 0 0.5", "2 0", "2 x 0.5"] {
            assert!(prediction(damaged).err().unwrap().to_string().contains(damaged), "{damaged}");
        }
    }
}
