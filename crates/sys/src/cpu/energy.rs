//! The energy meters of a device and their quality: a powercap zone (RAPL), power rails, the battery.
//!
//! Sources: Documentation/power/powercap/powercap.rst, Documentation/hwmon/sysfs-interface.rst,
//! Documentation/ABI/testing/sysfs-class-power, and `energy_value` of the on-device power monitor of Pixel phones.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{BootTime, DeviceError, Root};

/// The source of a figure, best first; a report always names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnergySource {
    /// Intel's and AMD's running average power limit: the processor's package, counted by the hardware.
    Rapl,
    /// A model, such as that of the lab's virtual frequency: another powercap zone, or the lab's own counter.
    Model,
    /// Rails that feed the CPUs, measured by a power monitor on the board.
    PowerRail,
    /// The whole device, by its battery's gauge: coarse and slow.
    Battery,
}

impl EnergySource {
    /// The name that results carry: `rapl`, `model`, `power-rail`, `battery`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rapl => "rapl",
            Self::Model => "model",
            Self::PowerRail => "power-rail",
            Self::Battery => "battery",
        }
    }
}

/// One file that exposes energy or power.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Gauge {
    /// Microjoules that only increase, and wrap to zero after `range_uj`.
    Counter { file: PathBuf, range_uj: Option<u64> },
    /// Current power in microwatts.
    Power { file: PathBuf },
    /// A Pixel's power monitor: microjoules of each rail; the named rails are summed.
    Rails { file: PathBuf, rails: Vec<String> },
    /// Current microvolts and microamperes.
    VoltageAndCurrent { voltage: PathBuf, current: PathBuf },
}

/// A way to measure energy on this device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    source: EnergySource,
    /// Gauges whose figures are summed.
    gauges: Vec<Gauge>,
}

/// One reading of a meter; two of them give an energy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    at: BootTime,
    /// One figure per gauge: microjoules of a counter, microwatts of a power.
    figures: Vec<u64>,
}

impl Meter {
    /// The best meter that can be read now, if there is one.
    pub fn find(root: &Root) -> Option<Self> {
        Self::all(root).into_iter().find(|meter| meter.read(root).is_ok())
    }

    /// Every meter that this device exposes, best first; some may need privileges to be read.
    pub fn all(root: &Root) -> Vec<Self> {
        let (rapl, models) = powercap(root);
        let rails = pixel_rails(root).or_else(|| hwmon_rails(root));
        [
            (EnergySource::Rapl, rapl),
            (EnergySource::Model, models),
            (EnergySource::PowerRail, rails.unwrap_or_default()),
            (EnergySource::Battery, battery(root)),
        ]
        .into_iter()
        .filter(|(_, gauges)| !gauges.is_empty())
        .map(|(source, gauges)| Self { source, gauges })
        .collect()
    }

    /// Where its figures come from.
    pub fn source(&self) -> EnergySource {
        self.source
    }

    /// The files that are read, as named on the device, the decisive one first.
    pub fn files(&self) -> Vec<&Path> {
        self.gauges
            .iter()
            .flat_map(|gauge| match gauge {
                Gauge::Counter { file, .. } | Gauge::Power { file } | Gauge::Rails { file, .. } => vec![file.as_path()],
                Gauge::VoltageAndCurrent { voltage, current } => vec![current.as_path(), voltage.as_path()],
            })
            .collect()
    }

    /// True when the hardware accumulates energy; a meter of momentary power must be read often, and power between two readings
    /// is interpolated linearly.
    pub fn accumulates(&self) -> bool {
        !self.gauges.iter().any(|gauge| matches!(gauge, Gauge::Power { .. } | Gauge::VoltageAndCurrent { .. }))
    }

    /// Reads it now.
    ///
    /// # Errors
    /// [`DeviceError`] naming the file; RAPL is readable by root alone since Linux 5.10.
    pub fn read(&self, root: &Root) -> Result<Reading, DeviceError> {
        let figures = self.gauges.iter().map(|gauge| gauge.read(root)).collect::<Result<_, _>>()?;
        Ok(Reading { at: BootTime::now(), figures })
    }

    /// The energy used between two readings, in microjoules. A counter that wrapped once is handled; two wraps look like one,
    /// so read at least every minute (RAPL wraps after 260 kJ or 65 kJ).
    pub fn energy_uj(&self, earlier: &Reading, later: &Reading) -> u64 {
        let elapsed_ns = later.at.since(earlier.at).as_nanos();
        let figures = earlier.figures.iter().zip(&later.figures);
        self.gauges
            .iter()
            .zip(figures)
            .map(|(gauge, (&before, &after))| gauge.energy_uj(before, after, elapsed_ns))
            .sum()
    }
}

impl Gauge {
    fn read(&self, root: &Root) -> Result<u64, DeviceError> {
        match self {
            Self::Counter { file, .. } | Self::Power { file } => root.read_number(file),
            Self::Rails { file, rails } => {
                let text = root.read(file)?;
                sum_of_rails(&text, rails).ok_or_else(|| {
                    DeviceError::malformed(&root.path(file), "a line CHn(T=ms)[RAIL], uWs for each rail", &text)
                })
            }
            Self::VoltageAndCurrent { voltage, current } => {
                let (voltage_uv, current_ua): (u64, i64) = (root.read_number(voltage)?, root.read_number(current)?);
                // The sign of a discharge differs by driver.
                let power_uw = u128::from(voltage_uv) * u128::from(current_ua.unsigned_abs()) / 1_000_000;
                Ok(u64::try_from(power_uw).unwrap_or(u64::MAX))
            }
        }
    }

    fn energy_uj(&self, before: u64, after: u64, elapsed_ns: u128) -> u64 {
        match self {
            Self::Counter { range_uj: Some(range_uj), .. } if after < before => {
                // The largest value is `range_uj`, and the next one is zero.
                range_uj.saturating_sub(before).saturating_add(after).saturating_add(1)
            }
            Self::Counter { .. } | Self::Rails { .. } => after.saturating_sub(before),
            Self::Power { .. } | Self::VoltageAndCurrent { .. } => {
                let mean_uw = (u128::from(before) + u128::from(after)) / 2;
                u64::try_from(mean_uw.saturating_mul(elapsed_ns) / 1_000_000_000).unwrap_or(u64::MAX)
            }
        }
    }
}

const POWERCAP: &str = "/sys/class/powercap";
/// The same counter of the lab's virtual frequency (kernel/virtual-cpufreq) for kernels without powercap, as Debian's for arm64.
const LAB_COUNTER: &str = "/sys/module/virtual_cpufreq/parameters/energy_uj";
/// Its largest value.
const LAB_COUNTER_RANGE_UJ: u64 = (1 << 40) - 1;

/// The top-level zones of /sys/class/powercap: packages of RAPL (their sub-zones are part of them, `psys` includes them, and
/// the MMIO interface shows the same package again), and zones of other control types.
fn powercap(root: &Root) -> (Vec<Gauge>, Vec<Gauge>) {
    let (mut rapl, mut models) = (Vec::new(), Vec::new());
    for zone in root.list(POWERCAP).unwrap_or_default() {
        let Some((control_type, number)) = zone.split_once(':') else { continue };
        let folder = Path::new(POWERCAP).join(&zone);
        let file = folder.join("energy_uj");
        if number.contains(':') || !root.exists(&file) {
            continue;
        }
        let name = root.read(folder.join("name")).unwrap_or_default();
        let range_uj = root.read_number(folder.join("max_energy_range_uj")).ok();
        let gauge = Gauge::Counter { file, range_uj };
        match control_type {
            "intel-rapl" if name.starts_with("package") => rapl.push(gauge),
            control_type if control_type.starts_with("intel-rapl") => {}
            _ => models.push(gauge),
        }
    }
    let counter = PathBuf::from(LAB_COUNTER);
    if models.is_empty() && root.exists(&counter) {
        models.push(Gauge::Counter { file: counter, range_uj: Some(LAB_COUNTER_RANGE_UJ) });
    }
    (rapl, models)
}

/// Words in the names of rails that feed CPUs.
const CPU_RAIL_WORDS: [&str; 6] = ["cpu", "vdd_arm", "vddarm", "a53", "a57", "a72"];

fn feeds_cpus(rail: &str) -> bool {
    let rail = rail.to_ascii_lowercase();
    CPU_RAIL_WORDS.iter().any(|word| rail.contains(word))
}

fn pixel_rails(root: &Root) -> Option<Vec<Gauge>> {
    const DEVICES: &str = "/sys/bus/iio/devices";
    let mut gauges = Vec::new();
    for device in root.list(DEVICES).unwrap_or_default() {
        let file = Path::new(DEVICES).join(device).join("energy_value");
        let Ok(text) = root.read(&file) else { continue };
        let rails: Vec<String> =
            parse_rails(&text).into_iter().map(|(rail, _)| rail.to_owned()).filter(|rail| feeds_cpus(rail)).collect();
        if !rails.is_empty() {
            gauges.push(Gauge::Rails { file, rails });
        }
    }
    (!gauges.is_empty()).then_some(gauges)
}

/// The rails of `energy_value`: lines `CH3(T=16086645)[S2M_VDD_CPUCL2], 124265856`, the last number in microwatt-seconds; other
/// lines are skipped.
pub fn parse_rails(text: &str) -> Vec<(&str, u64)> {
    text.lines().filter_map(parse_rail).collect()
}

fn parse_rail(line: &str) -> Option<(&str, u64)> {
    let (rail, energy) = line.split_once('[')?.1.split_once(']')?;
    Some((rail, energy.strip_prefix(',')?.trim().parse().ok()?))
}

fn sum_of_rails(text: &str, rails: &[String]) -> Option<u64> {
    let found = parse_rails(text);
    rails
        .iter()
        .map(|rail| found.iter().find(|(name, _)| name == rail).map(|&(_, energy_uj)| energy_uj))
        .try_fold(0u64, |sum, energy_uj| sum.checked_add(energy_uj?))
}

/// hwmon channels labelled as a CPU's: an energy counter where the chip has one, else its momentary power.
fn hwmon_rails(root: &Root) -> Option<Vec<Gauge>> {
    const CLASS: &str = "/sys/class/hwmon";
    let (mut counters, mut powers) = (Vec::new(), Vec::new());
    for chip in root.list(CLASS).unwrap_or_default() {
        let folder = Path::new(CLASS).join(chip);
        for name in root.list(&folder).unwrap_or_default() {
            let Some(channel) = name.strip_suffix("_label") else { continue };
            if !root.read(folder.join(&name)).is_ok_and(|label| feeds_cpus(&label)) {
                continue;
            }
            let file = folder.join(format!("{channel}_input"));
            if !root.exists(&file) {
                continue;
            }
            if channel.starts_with("energy") {
                counters.push(Gauge::Counter { file, range_uj: None });
            } else if channel.starts_with("power") {
                powers.push(Gauge::Power { file });
            }
        }
    }
    [counters, powers].into_iter().find(|gauges| !gauges.is_empty())
}

fn battery(root: &Root) -> Vec<Gauge> {
    const CLASS: &str = "/sys/class/power_supply";
    for supply in root.list(CLASS).unwrap_or_default() {
        let folder = Path::new(CLASS).join(supply);
        if root.read(folder.join("type")).ok().as_deref() != Some("Battery") {
            continue;
        }
        let [power, voltage, current] = ["power_now", "voltage_now", "current_now"].map(|name| folder.join(name));
        if root.read_number::<u64>(&power).is_ok() {
            return vec![Gauge::Power { file: power }];
        }
        if root.exists(&voltage) && root.exists(&current) {
            return vec![Gauge::VoltageAndCurrent { voltage, current }];
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join("sys").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    fn reading(seconds: u64, figures: &[u64]) -> Reading {
        Reading { at: BootTime::from_milliseconds(seconds * 1000), figures: figures.to_vec() }
    }

    #[test]
    fn packages_are_added_once_and_their_parts_left_out() {
        let (_folder, root) = tree(&[
            ("class/powercap/intel-rapl:0/name", "package-0\n"),
            ("class/powercap/intel-rapl:0/energy_uj", "1000\n"),
            ("class/powercap/intel-rapl:0/max_energy_range_uj", "9999\n"),
            ("class/powercap/intel-rapl:0:0/name", "core\n"),
            ("class/powercap/intel-rapl:0:0/energy_uj", "500\n"),
            ("class/powercap/intel-rapl:1/name", "psys\n"),
            ("class/powercap/intel-rapl:1/energy_uj", "5000\n"),
            ("class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
            ("class/powercap/intel-rapl-mmio:0/energy_uj", "1000\n"),
            ("class/powercap/intel-rapl/enabled", "1\n"),
        ]);
        let meter = Meter::find(&root).unwrap();
        assert_eq!((meter.source(), meter.accumulates()), (EnergySource::Rapl, true));
        assert_eq!(meter.files(), [Path::new("/sys/class/powercap/intel-rapl:0/energy_uj")]);
        assert_eq!(meter.read(&root).unwrap().figures, [1000]);
        assert_eq!(meter.energy_uj(&reading(0, &[1000]), &reading(1, &[1500])), 500);
        assert_eq!(meter.energy_uj(&reading(0, &[9990]), &reading(1, &[10])), 20, "it wrapped once");
    }

    #[test]
    fn other_powercap_zones_are_models() {
        let (_folder, root) = tree(&[
            ("class/powercap/virtual-cpufreq:0/name", "package-0\n"),
            ("class/powercap/virtual-cpufreq:0/energy_uj", "7\n"),
        ]);
        assert_eq!(Meter::find(&root).unwrap().source().label(), "model");
    }

    #[test]
    fn the_labs_counter_is_a_model_where_powercap_is_missing() {
        let counter = ("module/virtual_cpufreq/parameters/energy_uj", "7\n");
        let zone = ("class/powercap/virtual-cpufreq:0/energy_uj", "7\n");
        for (files, file) in [
            (&[counter][..], "/sys/module/virtual_cpufreq/parameters/energy_uj"),
            (&[counter, zone], "/sys/class/powercap/virtual-cpufreq:0/energy_uj"),
        ] {
            let (_folder, root) = tree(files);
            let meter = Meter::find(&root).unwrap();
            assert_eq!((meter.source().label(), meter.files()), ("model", vec![Path::new(file)]));
        }
        let (_folder, root) = tree(&[counter]);
        let energy_uj = Meter::find(&root).unwrap().energy_uj(&reading(0, &[(1 << 40) - 1]), &reading(1, &[4]));
        assert_eq!(energy_uj, 5, "it wrapped once");
    }

    #[test]
    fn a_pixels_cpu_rails_are_added() {
        let text = "t=16086645\nCH1(T=16086645)[VSYS_PWR_MODEM], 179646995\nCH3(T=16086645)[S2M_VDD_CPUCL2], 100\n\
                    CH4(T=16086645)[S3M_VDD_CPUCL1], 20\n";
        let (_folder, root) = tree(&[("bus/iio/devices/iio:device0/energy_value", text)]);
        let meter = Meter::find(&root).unwrap();
        assert_eq!(meter.source(), EnergySource::PowerRail);
        assert_eq!(meter.read(&root).unwrap().figures, [120]);
    }

    #[test]
    fn momentary_power_is_interpolated_linearly() {
        let (_folder, root) = tree(&[
            ("class/hwmon/hwmon0/power1_label", "VDD_CPU_A57\n"),
            ("class/hwmon/hwmon0/power1_input", "2000000\n"),
            ("class/hwmon/hwmon0/power2_label", "VDD_DDR\n"),
            ("class/hwmon/hwmon0/power2_input", "1\n"),
        ]);
        let meter = Meter::find(&root).unwrap();
        assert_eq!((meter.source(), meter.accumulates()), (EnergySource::PowerRail, false));
        assert_eq!(meter.energy_uj(&reading(0, &[2_000_000]), &reading(2, &[4_000_000])), 6_000_000);

        let (_folder, root) = tree(&[
            ("class/power_supply/usb/type", "USB\n"),
            ("class/power_supply/battery/type", "Battery\n"),
            ("class/power_supply/battery/voltage_now", "4000000\n"),
            ("class/power_supply/battery/current_now", "-250000\n"),
        ]);
        let meter = Meter::find(&root).unwrap();
        assert_eq!(meter.source(), EnergySource::Battery);
        assert_eq!(meter.read(&root).unwrap().figures, [1_000_000]);
    }

    #[test]
    fn garbage_is_no_meter() {
        let (_folder, root) = tree(&[
            ("class/powercap/intel-rapl:0/name", "package-0\n"),
            ("class/powercap/intel-rapl:0/energy_uj", "lots\n"),
            ("bus/iio/devices/iio:device0/energy_value", "CH0[CPU\n"),
            ("class/power_supply/battery/type", "\n"),
        ]);
        assert_eq!(Meter::find(&root), None);
        assert_eq!(Meter::find(&Root::at("/nonexistent")), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}", before in any::<u64>(), after in any::<u64>(), ns in any::<u64>()) {
            let _ = parse_rails(&text);
            for gauge in [
                Gauge::Counter { file: PathBuf::new(), range_uj: Some(before) },
                Gauge::Power { file: PathBuf::new() },
            ] {
                let _ = gauge.energy_uj(before, after, u128::from(ns));
            }
        }
    }
}
