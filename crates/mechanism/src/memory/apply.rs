//! From a plan to leases: pure. They are restored in reverse order, so that swap ends before its device does.

use super::plan::{MemoryPlan, Setting, SettingOutcome};
pub use crate::lease_transaction::Change;
use brisk_sys::Target;

/// The changes that apply `plan`, in the order in which they must be made.
///
/// # Errors
/// What the administrator must do first, in words: a missing zram device is not created here, and a configured value that the
/// device does not offer is not replaced by another one.
pub fn changes(plan: &MemoryPlan) -> Result<Vec<Change>, String> {
    if let Some(refusal) = plan.refusal() {
        return Err(refusal.to_owned());
    }
    let device = plan.setting("zram device").filter(|setting| setting.outcome == SettingOutcome::Change);
    let name = device.and_then(|setting| setting.planned.clone()).unwrap_or_default();
    if let Some(device) = device
        && !plan.has_device
    {
        return Err(format!("{}: load it first (modprobe zram), then try again", device.reason));
    }
    let target = |setting: &Setting| match setting.name {
        "zram algorithm" => Some(Target::ZramAlgorithm(name.clone())),
        "zram backing device" => Some(Target::ZramBacking(name.clone())),
        "zram size" => Some(Target::ZramSize(name.clone())),
        "swap priority" => Some(Target::ZramSwap(name.clone())),
        _ => setting.file.as_ref().map(|file| Target::Tunable(file.into())),
    };
    let value = |setting: &Setting, planned: &str| match setting.name {
        "zram size" => {
            planned.strip_suffix(" KiB").and_then(|kib| kib.parse::<u64>().ok()).map(|kib| (kib << 10).to_string())
        }
        "swap priority" => Some(format!("on {planned}")),
        _ => Some(planned.to_owned()),
    };
    let change = |setting: &Setting| {
        let value = value(setting, setting.planned.as_deref()?)?;
        Some(Change { target: target(setting)?, value, reason: setting.reason.clone() })
    };
    Ok(plan.changes().filter_map(change).collect())
}

#[cfg(test)]
mod tests {
    use super::super::config::{ZramConfig, ZramPlan};
    use super::super::plan::tests::phone;
    use super::*;

    // Verifies MEMORY-2.
    #[test]
    fn swap_comes_after_its_device_and_tunables_after_swap() {
        let facts = phone();
        let plan = MemoryPlan::from_config(
            &facts,
            &ZramConfig { size_kib: 52_992, algorithm: "lzo-rle".into(), ..ZramConfig::default() },
        );
        let changes = changes(&plan).unwrap();
        let position = |wanted: &Target| changes.iter().position(|change| change.target == *wanted).unwrap();
        let size = position(&Target::ZramSize("zram0".into()));
        let swap = position(&Target::ZramSwap("zram0".into()));
        let swappiness = position(&Target::Tunable("/proc/sys/vm/swappiness".into()));
        assert!(size < swap && swap < swappiness, "{changes:?}");
        assert_eq!((changes[size].value.as_str(), changes[swap].value.as_str()), ("54263808", "on 100"));
        assert_eq!(plan.arm, ZramPlan::Brisk);
    }

    // Verifies MEMORY-2.
    #[test]
    fn an_algorithm_that_is_not_offered_is_refused() {
        let with = |algorithm: &str| ZramConfig { algorithm: algorithm.into(), ..ZramConfig::default() };
        let mut facts = phone();
        let offered = facts.zram.as_ref().unwrap()[0].algorithms_offered.join(", ");
        let refused = changes(&MemoryPlan::from_config(&facts, &with("nosuch"))).unwrap_err();
        assert_eq!(refused, format!("memory.zram.algorithm \"nosuch\" is not offered by zram0 ({offered})"));
        facts.zram.as_mut().unwrap()[0].algorithms_offered.clear();
        let refused = changes(&MemoryPlan::from_config(&facts, &with("zstd"))).unwrap_err();
        assert!(refused.ends_with("by zram0 (lzo)"), "{refused}");
        assert!(changes(&MemoryPlan::from_config(&facts, &with("lzo"))).is_ok());
        assert!(changes(&MemoryPlan::from_config(&facts, &with(""))).is_ok());
    }

    // Verifies MEMORY-2.
    #[test]
    fn a_missing_zram_device_is_requested_or_left_out() {
        let mut facts = phone();
        facts.zram = Ok(Vec::new());
        let refused = changes(&MemoryPlan::from_config(&facts, &ZramConfig::default())).unwrap_err();
        assert!(refused.contains("modprobe zram"), "{refused}");
        facts.module = brisk_sys::memory::zram::Module::Missing;
        let without = changes(&MemoryPlan::from_config(&facts, &ZramConfig::default())).unwrap();
        assert!(without.iter().all(|change| matches!(change.target, Target::Tunable(_))), "{without:?}");
    }
}
