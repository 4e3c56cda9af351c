//! What the lab adds to a launch: services that the application looks up, cached applications, which hold memory, `brisk diagnose`,
//! which records it, and Android's activity manager, which opens it.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Signal, kill_process};

use super::activity_manager::ActivityManager;
use super::cached_applications::{CachedApplications, fill_arguments};
use super::daemon::with_launch_enabled;
use super::driver::Driver;
use super::{APPLICATION, Metrics, Runner};
use crate::load::FirstScreen;
use crate::lookup::{Client, LookupProcesses, Lookups};
use crate::metric::Metric;
use crate::spec::{Arm, LaunchLookups, Program};
use brisk_mechanism::lookup::services::names;
use brisk_sys::process::parent_death;
use brisk_sys::{BootTime, Root, process};

/// Limit for the beginning of a recording.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// A launch is over when the application waits for 200 ms.
const UNTIL_READY: Duration = Duration::from_millis(300);

/// Runs around one launch; dropping it ends its processes.
pub(super) struct Surroundings<'a> {
    activity_manager: Option<ActivityManager>,
    services: Option<Services<'a>>,
    /// With what the application fills for each millisecond of its work.
    memory: Option<(CachedApplications, u64)>,
    diagnosis: Option<Diagnosis<'a>>,
}

struct Services<'a> {
    driver: Driver<'a>,
    lookups: LaunchLookups,
    seed: u64,
    /// The context manager, and the process with the services.
    _processes: LookupProcesses,
}

struct Diagnosis<'a> {
    mechanism: &'a str,
    child: Child,
    _configuration: Option<DeviceConfiguration>,
}

/// The configuration of the device, which `brisk diagnose` reads, until it is dropped.
struct DeviceConfiguration {
    file: PathBuf,
}

impl<'a> Surroundings<'a> {
    /// Starts what the workload and the arm name. Every service has been looked up once then.
    pub(super) fn start(runner: &Runner<'a>, arm: &'a Arm, seed: u64) -> anyhow::Result<Self> {
        let services = runner.workload.lookups.map(|lookups| Services::start(runner, arm, lookups, seed));
        let services = services.transpose()?;
        // The kernel gives its buffers no memory that must be reclaimed first.
        let diagnosis =
            arm.estimates.as_deref().map(|mechanism| Diagnosis::start(runner, arm, mechanism)).transpose()?;
        let memory = match &runner.workload.memory {
            Some(memory) => Some((CachedApplications::start(runner, memory)?, memory.kib_per_work_ms)),
            None => None,
        };
        let is_of_android = runner.workload.program == Program::AndroidApplication;
        let activity_manager = is_of_android.then(|| ActivityManager::start(runner.turns_per_ms)).transpose()?;
        Ok(Self { activity_manager, services, memory, diagnosis })
    }

    /// Has the activity manager open the application, and waits for its first screen; `None` where there is no manager.
    pub(super) fn open(&mut self, work_ms: u32) -> anyhow::Result<Option<FirstScreen>> {
        self.activity_manager.as_mut().map(|manager| manager.open(work_ms)).transpose()
    }

    /// Arguments of the application for its memory and its lookups.
    pub(super) fn arguments(&self, work_ms: u32) -> Vec<String> {
        let fill =
            self.memory.iter().flat_map(|(_, kib_per_work_ms)| fill_arguments(kib_per_work_ms * u64::from(work_ms)));
        let Some(Services { driver, lookups, seed, .. }) = &self.services else { return fill.collect() };
        let words = [
            ("--lookups", (lookups.per_work_ms * work_ms).to_string()),
            ("--services", lookups.services.to_string()),
            ("--device", driver.device.display().to_string()),
            ("--format", driver.format.name.clone()),
            ("--seed", seed.to_string()),
        ];
        fill.chain(words.into_iter().flat_map(|(option, value)| [option.to_owned(), value])).collect()
    }

    /// Notes the estimate, if the launch was diagnosed. The application must still wait.
    pub(super) fn end(self, metrics: &mut Metrics) -> anyhow::Result<()> {
        if let Some(diagnosis) = self.diagnosis {
            sleep(UNTIL_READY);
            metrics.insert(Metric::EstimatedGain.key().to_owned(), diagnosis.estimate_ms()?);
        }
        Ok(())
    }
}

impl<'a> Services<'a> {
    fn start(runner: &Runner<'a>, arm: &'a Arm, lookups: LaunchLookups, seed: u64) -> anyhow::Result<Self> {
        let driver = Driver::of(runner.root, arm)?;
        let processes = driver.start(lookups.services)?;
        let names = names(lookups.services as usize);
        let all = Lookups { code: driver.format.check_code(), names: &names, count: 0, seed };
        all.lookup_all(&mut Client::open(&driver.device, driver.format)?)?;
        Ok(Self { driver, lookups, seed, _processes: processes })
    }
}

impl<'a> Diagnosis<'a> {
    /// Starts `brisk diagnose`, and returns once it records.
    fn start(runner: &Runner<'_>, arm: &Arm, mechanism: &'a str) -> anyhow::Result<Self> {
        let configuration =
            arm.brisk.as_ref().map(|table| DeviceConfiguration::write(runner.root, table)).transpose()?;
        let file = runner.folder.join("launch.dat");
        let _ = fs::remove_file(&file);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--root").arg(runner.root.path("/")).args(["diagnose", "--json", "--time", "600s", "--launch"]);
        command.arg(APPLICATION).arg("--output").arg(&file);
        parent_death::die_with_parent(&mut command, Signal::TERM);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.context("cannot start brisk diagnose")?;
        let mut diagnosis = Self { mechanism, child, _configuration: configuration };
        let limit = BootTime::now() + START_TIMEOUT;
        while fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
            if let Some(status) = diagnosis.child.try_wait()? {
                bail!("brisk diagnose ended at once with {status}; see its message on stderr");
            }
            if BootTime::now() > limit {
                bail!("brisk diagnose does not record");
            }
            sleep(Duration::from_millis(10));
        }
        Ok(diagnosis)
    }

    /// Ends the recording; returns what the mechanism would have removed of the launch.
    fn estimate_ms(mut self) -> anyhow::Result<f64> {
        let mut text = String::new();
        self.terminate();
        let stdout = self.child.stdout.as_mut().context("brisk diagnose has no stdout")?;
        stdout.read_to_string(&mut text).context("cannot read what brisk diagnose prints")?;
        let report: serde_json::Value = serde_json::from_str(&text).context("brisk diagnose printed no JSON")?;
        let estimates = report["explained"]["windows"][0]["what_if"]["estimates"].as_array();
        let own = estimates.into_iter().flatten().find(|it| it["mechanism"] == self.mechanism);
        let own = own.with_context(|| format!("brisk diagnose explained no launch: {text}"))?;
        match own["removed_ns"].as_f64() {
            Some(removed_ns) => Ok(removed_ns / 1e6),
            None => bail!("brisk diagnose estimates nothing for {}: {}", self.mechanism, own["because"]),
        }
    }

    fn terminate(&self) {
        if let Some(pid) = process::id(self.child.id()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl DeviceConfiguration {
    fn write(root: &Root, table: &toml::Table) -> anyhow::Result<Self> {
        let folder = root.path("/etc/brisk");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let configuration = Self { file: folder.join("brisk.toml") };
        fs::write(&configuration.file, with_launch_enabled(table).to_string())
            .with_context(|| format!("cannot write {}", configuration.file.display()))?;
        Ok(configuration)
    }
}

impl Drop for DeviceConfiguration {
    fn drop(&mut self) {
        // It is a guest's: nothing is left to do where it cannot be removed.
        let _ = fs::remove_file(&self.file);
    }
}

impl Drop for Diagnosis<'_> {
    fn drop(&mut self) {
        self.terminate();
        let _ = self.child.wait();
    }
}
