//! The zygote of a guest's boot: a process of `android/preload`, its reports, and what it starts.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::load::FirstScreen;
use crate::spec::{Arm, Boots, Preloading};
use brisk_sys::BootTime;
use brisk_sys::process::TICK_MS;

/// The folder that the lab has put into the guest.
pub(super) const FOLDER: &str = "/zygote";
const THREADS: u32 = 2;

/// A running zygote; dropping it kills it.
pub(super) struct Zygote {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// The system server's screen, which may come before the zygote's report.
    early_screen: Option<FirstScreen>,
    /// Classes of the list that a fork's child has initialised, once it has printed that.
    in_child: Option<usize>,
    /// The zygote takes requests from an inherited descriptor, as from Android's init.
    requests: ChildStdin,
}

impl Zygote {
    pub(super) fn start(boots: &Boots, arm: &Arm) -> anyhow::Result<Self> {
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
        if arm.preload == Preloading::ForkAndWait {
            command.arg("--wait");
        }
        command.args(["--system-server", &(load(boots.system_server_ms) + &bursts)]);
        command.args(["--application", &load(boots.application_ms)]);
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> anyhow::Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start the zygote")?;
        let lines = BufReader::new(child.stdout.take().context("the zygote has no stdout")?).lines();
        let requests = child.stdin.take().context("the zygote has no stdin")?;
        Ok(Self { child, lines, early_screen: None, in_child: None, requests })
    }

    /// The next line that is not of a fork's child, which prints at any time.
    fn next(&mut self) -> anyhow::Result<String> {
        loop {
            let Some(line) = self.lines.next().transpose()? else {
                bail!("the zygote ended with {}; see its message above", self.child.wait()?)
            };
            match line.strip_prefix("child initialised ") {
                Some(count) => {
                    self.in_child = Some(count.parse().with_context(|| format!("a child printed {line:?}"))?);
                }
                None => return Ok(line),
            }
        }
    }

    /// Waits until it has preloaded.
    pub(super) fn preload(&mut self) -> anyhow::Result<Preload> {
        loop {
            let line = self.next()?;
            if line.starts_with("part preload ") {
                return Preload::of(&line).with_context(|| format!("the zygote printed {line:?}"));
            }
            self.early_screen = serde_json::from_str(&line).ok().or(self.early_screen.take());
        }
    }

    /// Waits for the system server, requests an application as that does, and waits for its screen: the time of each.
    pub(super) fn screens(&mut self) -> anyhow::Result<[BootTime; 2]> {
        let server = self.screen()?;
        self.requests.write_all(b"\n").context("the zygote takes no requests")?;
        let application = self.screen()?;
        Ok([server, application].map(|screen| BootTime::from_nanoseconds(screen.first_screen_ns)))
    }

    /// Requests the measurements for predictions, now that the boot is over.
    pub(super) fn measure(&mut self) -> anyhow::Result<ZygoteMeasurements> {
        self.requests.write_all(b"m").context("the zygote takes no requests")?;
        let mut measured = |name| loop {
            if let Some(times) = ZygoteMeasurements::line(name, &self.next()?) {
                return anyhow::Ok(times);
            }
        };
        Ok(ZygoteMeasurements { own: measured("own")?, two: measured("two")? })
    }

    /// Waits for the end of a fork's child: how many classes of the list it has initialised.
    pub(super) fn end_of_child(&mut self) -> anyhow::Result<usize> {
        self.requests.write_all(b"c").context("the zygote takes no requests")?;
        loop {
            let line = self.next()?;
            match line.strip_prefix("child ") {
                Some("ended") => return self.in_child.context("the zygote's child has not reported its classes"),
                Some(other) => bail!("the zygote's child {other}"),
                None => {}
            }
        }
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

/// The zygote's report of its preloading.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Preload {
    pub(super) took: Duration,
    /// The mode that ran.
    pub(super) mode: String,
    /// Classes of the list that are initialised in the zygote.
    pub(super) initialised: usize,
    pub(super) resources: Duration,
    /// CPU time of all the zygote's threads meanwhile.
    pub(super) cpu: Duration,
}

impl Preload {
    /// Reads `part preload NANOS MODE INITIALISED RESOURCES_NANOS CPU_TICKS`.
    pub(super) fn of(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("part preload ")?.split(' ');
        let took = Duration::from_nanos(words.next()?.parse().ok()?);
        let mode = words.next()?.to_owned();
        let initialised = words.next()?.parse().ok()?;
        let resources = Duration::from_nanos(words.next()?.parse().ok()?);
        let ticks: u64 = words.next()?.parse().ok()?;
        Some(Self { took, mode, initialised, resources, cpu: Duration::from_millis(ticks * TICK_MS) })
    }
}

/// Measurements of a booted zygote, for predictions.
#[derive(Debug, PartialEq)]
pub(super) struct ZygoteMeasurements {
    /// Following a plan whose classes are done, then going through the list in order.
    pub(super) own: [Duration; 2],
    /// Resources on one thread, and on two threads that each preload all of them.
    pub(super) two: [Duration; 2],
}

impl ZygoteMeasurements {
    /// Reads `measured NAME NANOS NANOS`.
    fn line(name: &str, line: &str) -> Option<[Duration; 2]> {
        let mut words = line.strip_prefix("measured ")?.strip_prefix(name)?.split_ascii_whitespace();
        let mut nanos = || Some(Duration::from_nanos(words.next()?.parse().ok()?));
        Some([nanos()?, nanos()?])
    }

    /// Throughput of two CPUs relative to one.
    pub(super) fn worth(&self) -> f64 {
        let [one, two] = self.two.map(|time| time.as_secs_f64());
        (2.0 * one / two).clamp(1.0, 2.0)
    }

    /// Time of following the plan beyond requesting each class, which both CPUs do.
    pub(super) fn own_ms(&self) -> f64 {
        let [planned_ms, in_order_ms] = self.own.map(|time| time.as_secs_f64() * 1e3);
        (planned_ms - in_order_ms / self.worth()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_child_reports_at_any_time_and_its_end_is_requested() {
        let report = "part preload 9 fork 0 1 1";
        for (before, after, expected) in [
            ("child initialised 690", "child ended", Ok(690)),
            ("", "child initialised 690; echo child ended", Ok(690)),
            ("", "child ended", Err("the zygote's child has not reported its classes")),
            ("", "child failed: signal 9 ended it", Err("the zygote's child failed: signal 9 ended it")),
        ] {
            let script = format!("echo {before}; echo {report}; head -c1 >/dev/null; echo part loop 3; echo {after}");
            let mut zygote = Zygote::of(Command::new("sh").args(["-c", &script])).unwrap();
            assert_eq!(zygote.preload().unwrap().mode, "fork");
            let found = zygote.end_of_child().map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{script}");
        }
    }
}
