//! A virtual device as data: which kernel, which modules, which machine.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::android::Android;
use super::architecture::Architecture;
use super::built_in::SCENARIOS;
use super::cluster::{self, Cluster};
use brisk_base::toml_text;

/// A virtual device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its file's name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// What it is, in one line.
    pub title: String,
    /// Which kernel boots.
    pub kernel: Kernel,
    /// The emulated machine.
    pub machine: MachineSpec,
    /// What the guest's first process prepares.
    #[serde(default)]
    pub guest: Guest,
    /// Kernel modules in the order of loading; what they depend on is loaded before them.
    #[serde(default, rename = "module")]
    pub modules: Vec<Module>,
}

/// A stock kernel, or one that is built from a stock kernel's sources.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// The Debian package, which may be a meta package (`linux-image-amd64`): its newest revision is taken.
    pub package: String,
    /// The package with the headers for building modules (`linux-headers-amd64`); a kernel that is built needs none.
    #[serde(default)]
    pub headers: String,
    /// Its configuration, when `package` holds its sources (`linux-source-6.1`): a file in `lab/kernels/`.
    #[serde(default)]
    pub configuration: Option<String>,
    /// The folders below `kernel/` whose drivers replace those of a kernel that is built.
    #[serde(default)]
    pub drivers: Vec<String>,
    /// The series (`6.1`): a kernel of another one is never booted in its place.
    pub version: String,
    /// Debian's name of the architecture.
    pub architecture: String,
    /// An apt source in one line (`deb http://... SUITE main`), for hosts whose own packages are of another series or
    /// architecture.
    #[serde(default)]
    pub source: Option<String>,
    /// Additions to the kernel's command line.
    #[serde(default)]
    pub command_line: String,
}

/// The emulated machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// How its time is kept.
    pub mode: Mode,
    /// The emulator's name of the processor; that of the architecture when absent.
    #[serde(default)]
    pub processor: Option<String>,
    /// CPUs; one in deterministic mode.
    pub cpus: u32,
    /// Where CPUs are unequal: the clusters of equal ones, in the order of the CPUs' numbers.
    #[serde(default, rename = "cluster")]
    pub clusters: Vec<Cluster>,
    pub memory_mib: u32,
    /// One guest instruction takes 2^shift ns in deterministic mode.
    #[serde(default)]
    pub icount_shift: Option<u8>,
    /// A disk that survives reboots; without a disk, a reboot ends the guest.
    #[serde(default)]
    pub disk_mib: Option<u32>,
    /// More arguments of QEMU, for devices that a scenario needs.
    #[serde(default)]
    pub arguments: Vec<String>,
}

/// How guest time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The clock counts executed instructions and skips to the next timer when idle: repeatable on a loaded host. One CPU.
    Deterministic,
    /// The host's clock, a thread per CPU: timings as paired ratios only. QEMU before 8.1 may miss that one CPU patches kernel
    /// code while another translates it; that CPU then executes a removed breakpoint forever.
    Parallel,
    /// The host's clock, one thread for all CPUs: functional tests. No CPU translates while another writes.
    InTurn,
}

/// What the guest's first process prepares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// What is mounted at /sys/fs/cgroup.
    #[serde(default)]
    pub cgroup: CgroupVersion,
    /// Whether its loopback interface is up.
    #[serde(default)]
    pub loopback: bool,
    /// Whether to check that work takes time proportional to 1/f before the command runs.
    #[serde(default)]
    pub self_check: bool,
    /// The folders that are kept on the disk, with their contents.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Debian's systemd as the first process; brisk is the first process when absent.
    #[serde(default)]
    pub systemd: Option<Systemd>,
    /// Android's userspace, which brisk prepares as Android's init does.
    #[serde(default)]
    pub android: Option<Android>,
}

/// A guest whose first process is Debian's systemd. The command runs in one of its services; of systemd's own units, the guest
/// has only those that are requested.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Systemd {
    /// More files of systemd's own package, by their path there: programs and units.
    #[serde(default)]
    pub own: Vec<String>,
    /// Other Debian packages whose programs, units and settings the guest has.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Their services that are started before the command, and must run as long as it does.
    #[serde(default)]
    pub services: Vec<String>,
    /// The users that installing the packages would create.
    #[serde(default)]
    pub users: Vec<String>,
    /// Units and settings of this device: the text of each file by its path in the guest.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// Which cgroup hierarchy a guest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupVersion {
    /// The unified hierarchy.
    #[default]
    V2,
    /// One hierarchy per controller: cpu, cpuacct, cpuset, memory, blkio, freezer.
    V1,
    None,
}

/// A kernel module and its parameters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Its name, as lsmod(8) shows it.
    pub name: String,
    /// The folder below `kernel/` that brisk builds it from; `None` for the kernel package's own.
    #[serde(default)]
    pub source: Option<String>,
    /// Its name in its sources, when it is built under another name so that the kernel's own can be loaded as well.
    #[serde(default)]
    pub renames: Option<String>,
    /// Preprocessor macros that brisk's sources are built with.
    #[serde(default)]
    pub defines: Vec<String>,
    /// Its parameters; lists become comma-separated.
    #[serde(default)]
    pub parameters: BTreeMap<String, toml::Value>,
}

impl Module {
    fn is_cpufreq_driver(&self) -> bool {
        self.source.as_deref() == Some("virtual-cpufreq")
    }

    /// The parameters as init_module(2) takes them, in the order of their names.
    pub fn parameter_text(&self) -> String {
        let pair = |(name, value): (&String, &toml::Value)| format!("{name}={}", parameter_value(value));
        self.parameters.iter().map(pair).collect::<Vec<_>>().join(" ")
    }
}

fn parameter_value(value: &toml::Value) -> String {
    match value {
        toml::Value::Boolean(on) => if *on { "1" } else { "0" }.into(),
        toml::Value::Array(values) => values.iter().map(parameter_value).collect::<Vec<_>>().join(","),
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A scenario that cannot be used: the user's input is wrong, not the lab.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Neither a scenario that comes with brisk nor a file.
    #[error("there is no scenario {name}: known are {known}, or give the path of a .toml file")]
    Unknown {
        /// The requested name.
        name: String,
        /// Those that come with brisk.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the scenario {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not TOML, or has keys or types that a scenario does not have.
    #[error("scenario {name}: {source}")]
    Syntax {
        /// Its name or path.
        name: String,
        /// The position and the error.
        source: toml_text::Error,
    },
    /// Its values contradict each other.
    #[error("scenario {name}: {reason}")]
    Invalid {
        /// Its name or path.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl Scenario {
    /// The scenario `name` that comes with brisk, or the one in the file `name` when it ends in `.toml`.
    ///
    /// # Errors
    /// [`ScenarioError`] when there is none, or when it is wrong.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        if let Some((_, text)) = SCENARIOS.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        if !name.ends_with(".toml") {
            let known = SCENARIOS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(ScenarioError::Unknown { name: name.into(), known });
        }
        let text = std::fs::read_to_string(name).map_err(|source| ScenarioError::Read { path: name.into(), source })?;
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text)
    }

    /// Every scenario that comes with brisk.
    pub fn all() -> impl Iterator<Item = Result<Self, ScenarioError>> {
        SCENARIOS.iter().map(|(name, text)| Self::parse(name, text))
    }

    /// Reads a scenario from TOML.
    ///
    /// # Errors
    /// [`ScenarioError::Syntax`] and [`ScenarioError::Invalid`].
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let mut scenario: Self =
            toml_text::from_str(text).map_err(|source| ScenarioError::Syntax { name: name.into(), source })?;
        scenario.name = name.into();
        match scenario.contradiction() {
            Some(reason) => Err(ScenarioError::Invalid { name: name.into(), reason }),
            None => {
                scenario.tell_driver_of_clusters();
                Ok(scenario)
            }
        }
    }

    /// The row of the architecture table.
    pub fn architecture(&self) -> &'static Architecture {
        Architecture::named(&self.kernel.architecture).expect("parse() refuses unknown architectures")
    }

    /// True for a kernel release or package version of the scenario's series.
    pub fn is_of_series(&self, version: &str) -> bool {
        let rest = version.strip_prefix(&self.kernel.version);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    }

    /// The clusters become parameters of the module that makes CPUs unequal.
    fn tell_driver_of_clusters(&mut self) {
        let parameters = cluster::parameters(&self.machine.clusters);
        if let Some(driver) = self.modules.iter_mut().find(|module| module.is_cpufreq_driver()) {
            driver.parameters.extend(parameters);
        }
    }

    fn contradiction(&self) -> Option<String> {
        let machine = &self.machine;
        if Architecture::named(&self.kernel.architecture).is_none() {
            let known = Architecture::all().iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
            return Some(format!("kernel.architecture is {:?}, known are {known}", self.kernel.architecture));
        }
        if machine.cpus == 0 || machine.memory_mib < 64 {
            return Some("a machine has at least one CPU and 64 MiB of memory".into());
        }
        if self.kernel.headers.is_empty() == self.kernel.configuration.is_none() {
            return Some("a kernel has either kernel.headers or, when it is built, kernel.configuration".into());
        }
        if self.kernel.configuration.is_some() && self.modules.iter().any(|module| module.source.is_none()) {
            return Some("a kernel that is built has no modules but those whose source is brisk's".into());
        }
        if let Some(module) = self.modules.iter().find(|module| module.source.is_none() && !module.defines.is_empty()) {
            return Some(format!("module {}: defines are for a module that brisk builds, by source", module.name));
        }
        if self.kernel.configuration.is_none() && !self.kernel.drivers.is_empty() {
            return Some("kernel.drivers are for a kernel that is built, by kernel.configuration".into());
        }
        if machine.disk_mib.is_none() && !self.guest.kept.is_empty() {
            return Some("guest.kept is on the disk: give machine.disk_mib".into());
        }
        if let Some(systemd) = &self.guest.systemd {
            if self.guest.cgroup != CgroupVersion::V2 {
                return Some("guest.systemd mounts cgroup = \"v2\" itself".into());
            }
            if let Some(path) = systemd.files.keys().find(|path| !path.starts_with('/')) {
                return Some(format!("guest.systemd.files has {path:?}, which is not absolute"));
            }
        }
        if let Some(android) = &self.guest.android {
            if self.guest.cgroup != CgroupVersion::None || self.guest.systemd.is_some() {
                return Some("guest.android mounts control groups itself, without systemd: cgroup = \"none\"".into());
            }
            if let Some(reason) = android.contradiction() {
                return Some(reason);
            }
        }
        let driver = self.modules.iter().find(|module| module.is_cpufreq_driver()).map(|driver| &driver.parameters);
        if let Some(reason) = cluster::contradiction(&machine.clusters, machine.cpus, &self.kernel.architecture, driver)
        {
            return Some(reason);
        }
        match (machine.mode, machine.icount_shift) {
            (Mode::Deterministic, _) if machine.cpus != 1 => {
                Some("deterministic mode has one CPU: QEMU runs several in turn, not at the same time".into())
            }
            (Mode::Deterministic, None) => Some("deterministic mode needs machine.icount_shift".into()),
            (Mode::Deterministic, Some(shift)) if shift > 10 => Some("machine.icount_shift is 0 to 10".into()),
            (Mode::Parallel | Mode::InTurn, Some(_)) => {
                Some("machine.icount_shift means nothing but in deterministic mode".into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
title = "t"
[kernel]
package = "linux-image-amd64"
headers = "linux-headers-amd64"
version = "6.1"
architecture = "amd64"
[machine]
mode = "deterministic"
cpus = 1
memory_mib = 256
icount_shift = 1
[[module]]
name = "virtual_cpufreq"
source = "virtual-cpufreq"
parameters = { frequencies_mhz = [200, 1200], shared_policy = true, overhead_ns = -1, name = "x" }
"#;

    #[test]
    fn every_built_in_scenario_is_valid_and_in_the_folder() {
        let mut names: Vec<String> = Scenario::all().map(|scenario| scenario.unwrap().name).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/scenarios");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        names.sort();
        assert_eq!(names, files);
    }

    #[test]
    fn parameters_are_written_as_the_kernel_reads_them() {
        let scenario = Scenario::parse("good", GOOD).unwrap();
        let text = scenario.modules[0].parameter_text();
        assert_eq!(text, "frequencies_mhz=200,1200 name=x overhead_ns=-1 shared_policy=1");
        assert_eq!(scenario.guest.cgroup, CgroupVersion::V2);
    }

    // Verifies LOOKUP-7.
    #[test]
    fn wrong_scenarios_are_refused_with_the_reason() {
        for (from, to, expected) in [
            ("title", "titel", "unknown field `titel`"),
            ("cpus = 1", "cpus = 2", "deterministic mode has one CPU"),
            ("cpus = 1", "cpus = 0", "at least one CPU"),
            ("cpus = 1", "cpus = \"one\"", "invalid type"),
            ("icount_shift = 1", "", "deterministic mode needs machine.icount_shift"),
            ("icount_shift = 1", "icount_shift = 11", "0 to 10"),
            ("\"deterministic\"", "\"parallel\"", "means nothing but in deterministic mode"),
            ("\"deterministic\"", "\"in-turn\"", "means nothing but in deterministic mode"),
            ("\"deterministic\"", "\"fast\"", "unknown variant `fast`"),
            ("architecture = \"amd64\"", "architecture = \"vax\"", "known are amd64, arm64"),
            ("[[module]]", "[[modul]]", "unknown field `modul`"),
            ("headers = \"linux-headers-amd64\"", "", "either kernel.headers or"),
            (
                "[[module]]",
                "[guest]\ncgroup = \"v1\"\n[guest.systemd]\n[[module]]",
                "guest.systemd mounts cgroup = \"v2\" itself",
            ),
            (
                "[[module]]",
                "[guest.systemd.files]\n\"etc/x\" = \"\"\n[[module]]",
                "guest.systemd.files has \"etc/x\", which is not absolute",
            ),
            ("[[module]]", "[guest.android]\n[[module]]", "guest.android mounts control groups itself"),
            (
                "[[module]]",
                "[guest]\ncgroup = \"none\"\n[guest.android.writes]\nx = \"\"\n[[module]]",
                "guest.android.writes has \"x\", which is not absolute",
            ),
            ("source = \"virtual-cpufreq\"", "defines = [\"ONE\"]", "defines are for a module that brisk builds"),
            ("version = \"6.1\"", "version = \"6.1\"\nconfiguration = \"checked\"", "either kernel.headers or"),
            ("version = \"6.1\"", "version = \"6.1\"\ndrivers = [\"binder-cache\"]", "for a kernel that is built"),
        ] {
            let error = Scenario::parse("bad", &GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with("scenario bad: ") && error.contains(expected), "{to}: {error}");
        }
        let built = GOOD.replace("headers = \"linux-headers-amd64\"", "configuration = \"checked\"");
        Scenario::parse("built", &built).unwrap();
        let error = Scenario::parse("built", &built.replace("source = \"virtual-cpufreq\"\n", "")).unwrap_err();
        assert!(error.to_string().ends_with("has no modules but those whose source is brisk's"), "{error}");
        let unknown = Scenario::load("none").unwrap_err().to_string();
        assert!(unknown.contains("debian-6.1"), "{unknown}");
        let missing = Scenario::load("./none.toml").unwrap_err().to_string();
        assert!(missing.starts_with("cannot read the scenario ./none.toml"), "{missing}");
    }

    // Verifies LAB-3.
    #[test]
    fn clusters_become_the_drivers_parameters_or_are_refused() {
        let unequal = Scenario::load("debian-arm64-6.1-biglittle").unwrap();
        let text = unequal.modules.last().unwrap().parameter_text();
        let expected = "capacitance_pf=154,442 capacities=407,1024 frequencies_mhz=200,500,800,1000,1200 governor_per_policy=1 maxima_mhz=800,1200";
        assert_eq!(text, expected);
        let text = include_str!("../../../lab/scenarios/debian-arm64-6.1-biglittle.toml");
        for (from, to, expected) in [
            ("capacity = 1024", "capacity = 1025", "capacity = 1025: it is 1 to 1024"),
            ("capacity = 1024", "speed = 1024", "unknown field `speed`"),
            ("\"arm64\"", "\"amd64\"", "machine.cluster is for arm64"),
            ("cpus = 1\ncapacity = 407", "cpus = 3\ncapacity = 407", "2 in total at most"),
            ("source = \"virtual-cpufreq\"\n", "", "needs the module virtual-cpufreq"),
        ] {
            let error = Scenario::parse("bad", &text.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with("scenario bad: ") && error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn a_series_is_not_the_start_of_another() {
        let scenario = Scenario::parse("good", GOOD).unwrap();
        for (version, expected) in
            [("6.1.192-2", true), ("6.1.0-56-amd64", true), ("6.12.95-1", false), ("6.10", false), ("5.10", false)]
        {
            assert_eq!(scenario.is_of_series(version), expected, "{version}");
        }
    }
}
