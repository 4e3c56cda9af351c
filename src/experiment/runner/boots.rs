//! Boots of a zygote: the guest has just booted, and goes on to the first screen.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
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
        let mut zygote = Zygote::start(&self.boots, arm, &self.folder.join("zygote"))?;
        let preload = zygote.preload()?;
        let expected = arm.preload.mode();
        ensure!(preload.mode == expected, "the zygote's preloading was {} and not {expected}", preload.mode);
        let screen = zygote.first_screen()?;
        drop(zygote);
        hold.map_or(Ok(()), BootHold::end)?;
        let boot =
            self.kernel.since(BootTime::default()) + BootTime::from_nanoseconds(screen.first_screen_ns).since(began);
        let classes = fs::read_to_string(self.root.path(FOLDER).join("classes"))?.lines().count();
        let predicted = predicted(&self.root.path(FOLDER).join("prediction"))?;
        Ok(metrics(boot, &preload, classes, &predicted, expected == "off"))
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
}

impl Preload {
    /// Reads `part preload NANOS MODE INITIALISED RESOURCES_NANOS`.
    fn of(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("part preload ")?.split(' ');
        let took = Duration::from_nanos(words.next()?.parse().ok()?);
        let mode = words.next()?.to_owned();
        Some(Self { took, mode, initialised: words.next()?.parse().ok()? })
    }
}

/// The figures of one boot. What could be won is known of a boot that preloads in order alone.
fn metrics(boot: Duration, preload: &Preload, classes: usize, predicted: &[(u32, f64)], in_order: bool) -> Metrics {
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
            let ratio = predicted.iter().find(|(known, _)| *known == cpus).map(|(_, ratio)| ratio);
            figures.extend(ratio.map(|ratio| (metric, boot_ms - preload_ms * (1.0 - ratio))));
        }
    }
    figures.into_iter().map(|(metric, figure)| (metric.key().to_owned(), figure)).collect()
}

/// What a preload takes on so many CPUs, of what it takes on one: a line each.
fn predicted(path: &Path) -> anyhow::Result<Vec<(u32, f64)>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let ratio = |line: &str| {
        let (cpus, ratio) = line.split_once(' ')?;
        Some((cpus.parse().ok()?, ratio.parse().ok()?))
    };
    text.lines().map(|line| ratio(line).with_context(|| format!("{}: {line:?}", path.display()))).collect()
}

/// A running one; dropped, it is killed.
struct Zygote {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    socket: PathBuf,
}

impl Zygote {
    fn start(boots: &Boots, arm: &Arm, socket: &Path) -> anyhow::Result<Self> {
        let _ = fs::remove_file(socket);
        let file = Path::new(FOLDER).join("command");
        let words = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut words = words.lines();
        let brisk = std::env::current_exe()?;
        let load = |work_ms: u32| {
            format!("{} load --json --work-ms {work_ms} --turns-per-ms {}", brisk.display(), boots.turns_per_ms)
        };
        let bursts = format!(" --burst-ms {} --wait-ms {}", boots.bursts.work_ms, boots.bursts.wait_ms);
        let mut command = Command::new(words.next().context("the zygote's command is empty")?);
        command.args(words).args(["--mode", arm.preload.mode(), "--threads", &THREADS.to_string(), "--socket"]);
        command.arg(socket).args(["--system-server", &(load(boots.system_server_ms) + &bursts)]);
        command.args(["--application", &load(boots.application_ms)]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the zygote")?;
        let lines = BufReader::new(child.stdout.take().context("the zygote has no stdout")?).lines();
        Ok(Self { child, lines, socket: socket.to_owned() })
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
        }
    }

    /// Waits for the system server, asks for an application as that does, and waits for its screen.
    fn first_screen(&mut self) -> anyhow::Result<FirstScreen> {
        self.screen()?;
        drop(UnixStream::connect(&self.socket).context("the zygote takes no requests")?);
        self.screen()
    }

    fn screen(&mut self) -> anyhow::Result<FirstScreen> {
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

    #[test]
    fn a_boots_figures_follow_from_its_preload() {
        let preload = Preload::of("part preload 2000000000 off 390 500000000").unwrap();
        assert_eq!(preload, Preload { took: Duration::from_secs(2), mode: "off".into(), initialised: 390 });
        for damaged in ["part preload", "part preload x off 1 1", "part socket 1", "part preload 1 off"] {
            assert_eq!(Preload::of(damaged), None, "{damaged}");
        }
        let ten = Duration::from_secs(10);
        let predicted = [(2, 0.6), (4, 0.5), (8, 0.5)];
        let figures = metrics(ten, &preload, 400, &predicted, true);
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
        assert_eq!(
            metrics(ten, &preload, 400, &predicted, false).len(),
            3,
            "a parallel preload has no bound of its own"
        );
    }

    #[test]
    fn a_prediction_is_read_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prediction");
        fs::write(&file, "2 0.5732\n4 0.4\n").unwrap();
        assert_eq!(predicted(&file).unwrap(), [(2, 0.5732), (4, 0.4)]);
        fs::write(&file, "two 0.5\n").unwrap();
        assert!(predicted(&file).unwrap_err().to_string().contains("two 0.5"));
    }
}
