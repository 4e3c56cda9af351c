//! The settings that this device should have and why: pure, from its facts. It writes nothing.

use serde::Serialize;

use super::config::{ZramConfig, ZramPlan};
use super::probe::MemoryDevice;
use super::zram_availability::ZramAvailability;
use brisk_sys::memory::swaps::Swap;
use brisk_sys::memory::vm_tunables::{LRU_GEN, MIN_FREE, PAGE_CLUSTER, SWAPPINESS, WATERMARK_SCALE_FACTOR};
use brisk_sys::memory::zram::Zram;

/// The assumed memory cost of a byte on zram until this device's ratio is measured: compression to a half.
pub const ASSUMED_RATIO: f64 = 0.5;
/// A full device takes at most this share of memory. With a quarter, half of what applications hold fits on it, and once it is
/// full every further page requires a kill (`experiments/memory-brisk.toml`).
const FULL_SHARE: f64 = 0.375;
/// The largest size of a device.
const SIZE_LIMIT_KIB: u64 = 4 << 20;
/// The paper's share of memory.
const PAPER_SHARE: f64 = 0.15;
/// The fastest decompression first: a task waits for every page that is swapped in.
const ALGORITHMS: [&str; 5] = ["lz4", "lzo-rle", "lzo", "842", "zstd"];
/// The paper's algorithm, and its replacement since Linux 5.1.
const PAPER_ALGORITHMS: [&str; 2] = ["lzo", "lzo-rle"];
/// The swap priority, unless another swap area has a higher one.
const PRIORITY: i32 = 100;
/// The kernel's highest swap priority.
const PRIORITY_LIMIT: i32 = 32_767;
/// A page is assumed to be read back three times faster from zram than from flash: 200 x 3/4 (sysctl/vm.rst).
const SWAPPINESS_OF_ZRAM: u32 = 150;
/// The highest swappiness before Linux 5.8.
const OLD_SWAPPINESS_LIMIT: u32 = 100;
/// What an application may allocate while kswapd is still waking up.
const BURST_KIB: u64 = 8 << 10;
/// Two per cent: with more, applications would lose what kswapd gains.
const WATERMARK_LIMIT: u32 = 200;

/// What is to be done about a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingOutcome {
    /// It would be changed.
    Change,
    /// It is right as it is.
    Keep,
    /// Another program owns it.
    LeaveAlone,
    /// This device does not support it.
    Unsupported,
    /// It is configured, but cannot have this value here: nothing of the plan is applied.
    Refused,
}

/// One thing that could be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name, in the field's terms.
    pub name: &'static str,
    /// The file behind it, where it is known before anything is written.
    pub file: Option<String>,
    /// The current value, where that is known.
    pub now: Option<String>,
    /// The planned value, if it is to be changed.
    pub planned: Option<String>,
    /// Change, keep, leave alone, or not supported.
    pub outcome: SettingOutcome,
    /// Why.
    pub reason: String,
}

/// The whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// Whose plan it is.
    pub arm: ZramPlan,
    /// Each setting, in the order in which they would be written.
    pub settings: Vec<Setting>,
    /// True when the zram device that is to be set up exists.
    #[serde(skip)]
    pub has_device: bool,
}

impl MemoryPlan {
    /// What would be set under `config` on a device with these facts.
    pub fn from_config(facts: &MemoryDevice, config: &ZramConfig) -> Self {
        let arm = config.plan;
        let planner = Planner { facts, arm, config, place: ZramAvailability::of(facts) };
        let mut settings = vec![planner.device(), planner.algorithm(), planner.streams()];
        settings.extend(planner.backing());
        settings.extend([
            planner.size(),
            planner.priority(),
            planner.swappiness(),
            planner.page_cluster(),
            planner.watermarks(),
            planner.reserve(),
            planner.lru_gen(),
        ]);
        Self { arm, settings, has_device: planner.zram().is_some() }
    }

    /// What would be changed.
    pub fn changes(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|setting| setting.outcome == SettingOutcome::Change)
    }

    /// Why the plan cannot be applied as configured.
    pub fn refusal(&self) -> Option<&str> {
        let refused = self.settings.iter().find(|setting| setting.outcome == SettingOutcome::Refused);
        refused.map(|setting| setting.reason.as_str())
    }

    /// The setting of this name.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}

struct Planner<'facts> {
    facts: &'facts MemoryDevice,
    arm: ZramPlan,
    config: &'facts ZramConfig,
    place: ZramAvailability,
}

impl Planner<'_> {
    fn device(&self) -> Setting {
        let (outcome, planned) = match &self.place {
            ZramAvailability::Unused(_) | ZramAvailability::New | ZramAvailability::Module => {
                (SettingOutcome::Change, Some(self.place.device().unwrap_or("the next number").to_owned()))
            }
            ZramAvailability::Owned(..) => (SettingOutcome::LeaveAlone, None),
            ZramAvailability::Unavailable(_) => (SettingOutcome::Unsupported, None),
        };
        let now = match &self.place {
            ZramAvailability::Owned(name, _) => Some(name.clone()),
            _ => None,
        };
        Setting { name: "zram device", file: None, now, planned, outcome, reason: self.place.reason() }
    }

    fn size(&self) -> Setting {
        let now = self.zram().filter(|zram| zram.disk_size_bytes > 0);
        let now = now.map(|zram| format!("{} KiB", zram.disk_size_bytes >> 10));
        self.of_device("zram size", "disksize", now, |planner| {
            if planner.config.size_kib > 0 {
                let kib = whole_pages(planner.config.size_kib);
                return Ok((format!("{kib} KiB"), "as configured (memory.zram.size_kib)".to_owned()));
            }
            let total_kib = planner.facts.memory.as_ref().ok_or("the size of memory cannot be read")?.total_kib;
            let (kib, reason) = planned_size(planner.arm, total_kib);
            Ok((format!("{kib} KiB"), reason))
        })
    }

    fn algorithm(&self) -> Setting {
        let now = self.zram().and_then(|zram| zram.algorithm.clone());
        if let Some(reason) = self.algorithm_refusal() {
            let outcome = SettingOutcome::Refused;
            return Setting { name: "zram algorithm", file: None, now, planned: None, outcome, reason };
        }
        self.of_device("zram algorithm", "comp_algorithm", now, |planner| {
            let configured = [planner.config.algorithm.as_str()];
            let (wanted, why) = match planner.arm {
                _ if !configured[0].is_empty() => (&configured[..], "as configured (memory.zram.algorithm)"),
                ZramPlan::Brisk => {
                    (&ALGORITHMS[..], "the fastest to decompress: a task waits for each page that is swapped in")
                }
                ZramPlan::Paper => (&PAPER_ALGORITHMS[..], "the paper's, or its replacement"),
            };
            let Some(zram) = planner.zram() else {
                return Ok((wanted[0].to_owned(), format!("{why}; the choice is known once the device exists")));
            };
            let offered = &zram.algorithms_offered;
            if offered.is_empty() {
                return Err("this kernel has only lzo (others since Linux 3.15)");
            }
            let name = wanted.iter().find(|&&name| offered.iter().any(|offer| offer == name));
            let name = name.ok_or("the kernel offers none of the wanted algorithms")?;
            Ok(((*name).to_owned(), format!("of {}: {why}", offered.join(", "))))
        })
    }

    /// Why the configured algorithm cannot be set; `None` without one, and where the device does not exist yet.
    fn algorithm_refusal(&self) -> Option<String> {
        let configured = Some(&self.config.algorithm).filter(|configured| !configured.is_empty())?;
        let zram = self.zram().filter(|_| self.place.is_free())?;
        // A kernel that offers no choice has only lzo.
        let only = ["lzo".to_owned()];
        let offered = if zram.algorithms_offered.is_empty() { &only[..] } else { &zram.algorithms_offered };
        let refusal = || {
            format!("memory.zram.algorithm \"{configured}\" is not offered by {} ({})", zram.name, offered.join(", "))
        };
        (!offered.contains(configured)).then(refusal)
    }

    fn streams(&self) -> Setting {
        let now = self.zram().and_then(|zram| zram.streams).map(|streams| streams.to_string());
        self.of_device("zram streams", "max_comp_streams", now, |planner| {
            let chosen = planner.facts.kernel.is_some_and(|version| ((3, 15)..(4, 7)).contains(&version));
            match (planner.arm, chosen) {
                (ZramPlan::Paper, _) => Err("the paper does not set it"),
                (ZramPlan::Brisk, false) => {
                    Err("nothing to set on this kernel (Linux 4.7 has one per CPU, 3.14 one in total)")
                }
                (ZramPlan::Brisk, true) => {
                    let reason = "one per CPU: otherwise CPUs wait for each other when they swap".to_owned();
                    Ok((planner.facts.cpu_count.to_string(), reason))
                }
            }
        })
    }

    /// Flash is written to only when the configuration names the device.
    fn backing(&self) -> Option<Setting> {
        let configured = Some(&self.config.backing_device).filter(|configured| !configured.is_empty())?;
        let zram = self.zram();
        let now = zram.map(|zram| zram.backing.as_ref().map_or("none", |backing| &backing.path).to_owned());
        Some(self.of_device("zram backing device", "backing_dev", now, |_| match zram {
            Some(zram) if !zram.writeback => Err("this kernel has no zram write-back (CONFIG_ZRAM_WRITEBACK)"),
            _ => Ok((configured.clone(), "as configured (memory.zram.backing_device)".to_owned())),
        }))
    }

    fn priority(&self) -> Setting {
        let zram_swap = self.swaps().iter().find(|swap| swap.zram_name().is_some());
        let now = zram_swap.map(|swap| swap.priority.to_string());
        let mut setting = self.of_device("swap priority", "", now, |planner| {
            let highest = planner.swaps().iter().map(|swap| swap.priority).max();
            let priority = highest.map_or(PRIORITY, |highest| PRIORITY.max(highest.saturating_add(1)));
            let reason = match planner.swaps() {
                [] => "there is no other swap: any priority works".to_owned(),
                [first, ..] => {
                    format!("above {} ({}): zram is filled before a disk", first.path.display(), first.priority)
                }
            };
            Ok((priority.min(PRIORITY_LIMIT).to_string(), reason))
        });
        setting.file = None;
        setting
    }

    fn swappiness(&self) -> Setting {
        let limit = if self.facts.kernel >= Some((5, 8)) { 200 } else { OLD_SWAPPINESS_LIMIT };
        let planned = SWAPPINESS_OF_ZRAM.min(limit);
        let reason = match planned {
            SWAPPINESS_OF_ZRAM => "a page is assumed to be read back three times faster from zram than from flash",
            _ => "as high as this kernel lets it be (200 since Linux 5.8): zram is quicker than flash",
        };
        self.of_zram_swap("swappiness", SWAPPINESS, self.facts.tunables.swappiness, planned, reason, |now| {
            now >= planned
        })
    }

    fn page_cluster(&self) -> Setting {
        let reason = "zram has no seek to save: reading ahead decompresses pages that no process has asked for";
        self.of_zram_swap("page-cluster", PAGE_CLUSTER, self.facts.tunables.page_cluster, 0, reason, |now| now == 0)
    }

    fn watermarks(&self) -> Setting {
        let now = self.facts.tunables.watermark_scale_factor;
        let total_kib = self.facts.memory.as_ref().map_or(0, |memory| memory.total_kib);
        let distance_kib = |factor: u32| total_kib.saturating_mul(u64::from(factor)) / 10_000;
        let planned = (BURST_KIB * 10_000 / total_kib.max(1)).min(u64::from(WATERMARK_LIMIT)) as u32;
        // The kernel uses a quarter of its reserve where that is more.
        let least_kib = self.facts.tunables.min_free_kib.unwrap_or(0) / 4;
        let choice = match (now, self.arm) {
            (_, ZramPlan::Paper) => Err("the paper does not set it"),
            (None, _) => Err("Linux has it since 4.6"),
            _ if total_kib == 0 => Err("the size of memory cannot be read"),
            (Some(now), _) if now >= planned || least_kib >= distance_kib(planned) => {
                Err("kswapd wakes early enough for a launch's burst")
            }
            _ => {
                let kib = distance_kib(planned);
                let reason = format!(
                    "kswapd then wakes {kib} KiB before an application enters direct reclaim: a launch allocates in \
                     bursts"
                );
                Ok((planned.to_string(), reason))
            }
        };
        tunable("watermark_scale_factor", WATERMARK_SCALE_FACTOR, now.map(|now| now.to_string()), choice)
    }

    fn reserve(&self) -> Setting {
        let now = self.facts.tunables.min_free_kib.map(|kib| kib.to_string());
        let reason = match &now {
            Some(_) => "the kernel's reserve for what cannot wait: raising it would take memory from all processes",
            None => "it cannot be read",
        };
        tunable("min_free_kbytes", MIN_FREE, now, Err(reason))
    }

    fn lru_gen(&self) -> Setting {
        let now = self.facts.tunables.lru_gen;
        let choice = match (now, self.arm) {
            (None, _) => Err("Linux has it since 6.1 (CONFIG_LRU_GEN)"),
            (_, ZramPlan::Paper) => Err("the paper's kernel had none"),
            (Some(mask), _) if mask & 1 == 1 => Err("it is on"),
            _ => Ok((
                "y".to_owned(),
                "it is designed to find cold pages with less CPU time and fewer mistakes".to_owned(),
            )),
        };
        tunable("multi-generational LRU", LRU_GEN, now.map(|mask| format!("{mask:#06x}")), choice)
    }

    fn swaps(&self) -> &[Swap] {
        self.facts.swaps.as_deref().unwrap_or_default()
    }

    /// The device in question, where it exists.
    fn zram(&self) -> Option<&Zram> {
        let name = self.place.device()?;
        self.facts.zram.as_ref().ok()?.iter().find(|zram| zram.name == name)
    }

    /// A setting of the zram device. Another program's is left alone; an error is a reason to keep the current value.
    fn of_device(
        &self,
        name: &'static str,
        leaf: &str,
        now: Option<String>,
        choose: impl Fn(&Self) -> Result<(String, String), &'static str>,
    ) -> Setting {
        let file = self.place.device().map(|device| format!("/sys/block/{device}/{leaf}"));
        match &self.place {
            ZramAvailability::Unavailable(_) => Setting {
                name,
                file: None,
                now: None,
                planned: None,
                outcome: SettingOutcome::Unsupported,
                reason: "there is no zram".to_owned(),
            },
            ZramAvailability::Owned(..) => Setting {
                name,
                file,
                now,
                planned: None,
                outcome: SettingOutcome::LeaveAlone,
                reason: "its owner has chosen it".to_owned(),
            },
            _ => {
                let mut setting = tunable(name, "", now, choose(self));
                // A device that is not set up has no size or priority yet: a setting without a choice is kept, not unsupported.
                if setting.outcome == SettingOutcome::Unsupported {
                    setting.outcome = SettingOutcome::Keep;
                }
                Setting { file, ..setting }
            }
        }
    }

    /// A tunable that applies to all swap, changed only where all swap is on zram.
    fn of_zram_swap(
        &self,
        name: &'static str,
        file: &'static str,
        now: Option<u32>,
        planned: u32,
        reason: &str,
        suffices: impl Fn(u32) -> bool,
    ) -> Setting {
        let on_disk = self.swaps().iter().find(|swap| swap.zram_name().is_none());
        let choice = match (now, on_disk) {
            (None, _) => Err("it cannot be read".to_owned()),
            _ if self.arm == ZramPlan::Paper => Err("the paper does not set it".to_owned()),
            _ if !self.place.has_zram() => Err("without zram there is no reason to change it".to_owned()),
            (_, Some(swap)) => {
                Err(format!("{} is slower than zram, and the tunable applies to both", swap.path.display()))
            }
            (Some(now), None) if suffices(now) => Err(reason.to_owned()),
            _ => Ok((planned.to_string(), reason.to_owned())),
        };
        tunable(name, file, now.map(|now| now.to_string()), choice)
    }
}

/// A setting that is changed where `choice` is a value with its reason, and kept where it is only a reason.
fn tunable(
    name: &'static str,
    file: &str,
    now: Option<String>,
    choice: Result<(String, String), impl Into<String>>,
) -> Setting {
    let (planned, reason) = match choice {
        Ok((planned, reason)) => (Some(planned), reason),
        Err(reason) => (None, reason.into()),
    };
    let outcome = match (&planned, &now) {
        (Some(planned), Some(now)) if planned == now => SettingOutcome::Keep,
        (Some(_), _) => SettingOutcome::Change,
        (None, Some(_)) => SettingOutcome::Keep,
        (None, None) => SettingOutcome::Unsupported,
    };
    let planned = planned.filter(|_| outcome == SettingOutcome::Change);
    Setting { name, file: Some(file.to_owned()), now, planned, outcome, reason }
}

/// The kernel rounds up to whole pages, of 4 KiB at least.
fn whole_pages(kib: u64) -> u64 {
    kib / 4 * 4
}

/// The size of the device and its reason.
fn planned_size(arm: ZramPlan, total_kib: u64) -> (u64, String) {
    let share = |share: f64| (total_kib as f64 * share) as u64;
    if arm == ZramPlan::Paper {
        let kib = whole_pages(share(PAPER_SHARE));
        return (kib, format!("15 % of {total_kib} KiB, as in the paper"));
    }
    let wanted_kib = share(FULL_SHARE / ASSUMED_RATIO);
    let kib = whole_pages(wanted_kib.min(SIZE_LIMIT_KIB));
    let full_kib = (kib as f64 * ASSUMED_RATIO) as u64;
    let mut reason = format!(
        "full it takes about {full_kib} KiB of the {total_kib} KiB of memory, if pages compress to a half as is assumed"
    );
    if wanted_kib > SIZE_LIMIT_KIB {
        reason += "; no device is made larger than 4 GiB";
    }
    (kib, reason)
}

#[cfg(test)]
pub(super) mod tests;
