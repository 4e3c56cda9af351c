use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use brisk_sys::Target;
use brisk_sys::memory::meminfo::MemoryInfo;
use brisk_sys::memory::vm_tunables::VmTunables;
use brisk_sys::memory::zram::Module;
use brisk_sys::memory::zram_owner::ZramOwner;

/// The paper's phone, with a stock 6.1 kernel and an unused zram0.
pub(in super::super) fn phone() -> MemoryDevice {
    MemoryDevice {
        memory: Some(MemoryInfo { total_kib: 353_280, free_kib: 20_000, ..MemoryInfo::default() }),
        cpu_count: 2,
        kernel: Some((6, 1)),
        zram: Ok(vec![Zram {
            name: "zram0".into(),
            algorithm: Some("lzo-rle".into()),
            algorithms_offered: ["lzo", "lzo-rle", "lz4", "zstd"].map(str::to_owned).into(),
            streams: Some(2),
            ..Zram::default()
        }]),
        module: Module::Loaded,
        swaps: Ok(vec![]),
        owners: vec![],
        tunables: VmTunables {
            swappiness: Some(60),
            page_cluster: Some(3),
            watermark_scale_factor: Some(10),
            min_free_kib: Some(2800),
            lru_gen: Some(0),
        },
        faults: vec![],
    }
}

fn swap(path: &str, priority: i32) -> Swap {
    Swap { path: path.into(), size_kib: 1000, used_kib: 0, priority }
}

fn owner(name: &'static str, device: &str) -> ZramOwner {
    let devices = BTreeMap::from([(device.to_owned(), BTreeMap::new())]);
    ZramOwner { name, files: vec!["/etc/its.conf".into()], devices }
}

fn plan_of(facts: &MemoryDevice, arm: ZramPlan) -> MemoryPlan {
    MemoryPlan::from_config(facts, &ZramConfig { plan: arm, ..ZramConfig::default() })
}

fn changes(facts: &MemoryDevice, arm: ZramPlan) -> Vec<(&'static str, String)> {
    plan_of(facts, arm).changes().map(|setting| (setting.name, setting.planned.clone().unwrap())).collect()
}

// Verifies MEMORY-1.
#[test]
fn a_phones_zram_is_three_quarters_of_memory_with_settings() {
    let expected = [
        ("zram device", "zram0"),
        ("zram algorithm", "lz4"),
        ("zram size", "264960 KiB"),
        ("swap priority", "100"),
        ("swappiness", "150"),
        ("page-cluster", "0"),
        ("watermark_scale_factor", "200"),
        ("multi-generational LRU", "y"),
    ];
    assert_eq!(changes(&phone(), ZramPlan::Brisk), expected.map(|(name, value)| (name, value.to_owned())));
    assert!(plan_of(&phone(), ZramPlan::Brisk).settings.iter().all(|setting| !setting.reason.is_empty()));
}

// Verifies MEMORY-9.
#[test]
fn the_papers_arm_is_fifteen_percent_lzo_and_nothing_else() {
    let expected =
        [("zram device", "zram0"), ("zram algorithm", "lzo"), ("zram size", "52992 KiB"), ("swap priority", "100")];
    assert_eq!(changes(&phone(), ZramPlan::Paper), expected.map(|(name, value)| (name, value.to_owned())));
}

// Verifies MEMORY-1.
#[test]
fn another_owners_device_is_left_alone() {
    let configured = MemoryDevice { owners: vec![owner("zram-generator", "zram0")], ..phone() };
    let in_use = MemoryDevice { swaps: Ok(vec![swap("/dev/zram0", 100)]), ..phone() };
    let android = MemoryDevice {
        swaps: Ok(vec![swap("/dev/block/zram0", -1)]),
        owners: vec![owner("Android's init", "zram0")],
        ..phone()
    };
    for (facts, reason) in [
        (configured, "zram-generator is configured to set up zram0 (/etc/its.conf): it is left alone"),
        (in_use, "zram0 is swap already, set up by another program: it is left alone"),
        (android, "zram0 is swap already and belongs to Android's init (/etc/its.conf): it is left alone"),
    ] {
        for arm in [ZramPlan::Brisk, ZramPlan::Paper] {
            let plan = plan_of(&facts, arm);
            assert_eq!(plan.setting("zram device").unwrap().reason, reason);
            let touched: Vec<_> = plan.changes().filter(|setting| setting.name.contains("zram")).collect();
            assert!(touched.is_empty(), "{touched:?}");
        }
    }
}

#[test]
fn the_zram_device_is_unused_new_or_of_the_module() {
    let used = Zram { name: "zram0".into(), disk_size_bytes: 4096, ..Zram::default() };
    for (facts, outcome, reason) in [
        (phone(), SettingOutcome::Change, "not in use"),
        (MemoryDevice { zram: Ok(vec![used]), ..phone() }, SettingOutcome::Change, "hot_add creates another"),
        (MemoryDevice { zram: Ok(vec![]), module: Module::Loadable, ..phone() }, SettingOutcome::Change, "not loaded"),
        (
            MemoryDevice { zram: Ok(vec![]), module: Module::Missing, ..phone() },
            SettingOutcome::Unsupported,
            "CONFIG_ZRAM",
        ),
        (MemoryDevice { zram: Err("zram0 is odd".into()), ..phone() }, SettingOutcome::Unsupported, "zram0 is odd"),
        (MemoryDevice { swaps: Err("no swaps".into()), ..phone() }, SettingOutcome::Unsupported, "no swaps"),
    ] {
        let plan = plan_of(&facts, ZramPlan::Brisk);
        let device = plan.setting("zram device").unwrap();
        assert!(device.outcome == outcome && device.reason.contains(reason), "{device:?}");
        let size = plan.setting("zram size").unwrap();
        assert_eq!(size.outcome, outcome, "{size:?}");
    }
}

// Verifies MEMORY-1.
#[test]
fn each_setting_follows_from_the_device() {
    let with = |change: fn(&mut MemoryDevice)| {
        let mut facts = phone();
        change(&mut facts);
        facts
    };
    let offered = |facts: &mut MemoryDevice, names: &[&str]| {
        facts.zram.as_mut().unwrap()[0].algorithms_offered = names.iter().map(|&name| name.to_owned()).collect();
    };
    let mut lzo_only = phone();
    offered(&mut lzo_only, &["lzo", "deflate"]);
    let mut none_of_ours = phone();
    offered(&mut none_of_ours, &["deflate"]);
    for (facts, name, planned) in [
        (with(|facts| facts.memory.as_mut().unwrap().total_kib = 24 << 20), "zram size", Some("4194304 KiB")),
        (with(|facts| facts.memory = None), "zram size", None),
        (lzo_only, "zram algorithm", Some("lzo")),
        (none_of_ours, "zram algorithm", None),
        (with(|facts| facts.kernel = Some((4, 4))), "zram streams", None),
        (with(|facts| (facts.kernel, facts.cpu_count) = (Some((4, 4)), 4)), "zram streams", Some("4")),
        (phone(), "zram streams", None),
        (with(|facts| facts.kernel = Some((5, 7))), "swappiness", Some("100")),
        (with(|facts| facts.kernel = None), "swappiness", Some("100")),
        (with(|facts| facts.tunables.swappiness = Some(160)), "swappiness", None),
        (with(|facts| facts.tunables.page_cluster = Some(0)), "page-cluster", None),
        (with(|facts| facts.swaps = Ok(vec![swap("/dev/sda2", -2)])), "swappiness", None),
        (with(|facts| facts.swaps = Ok(vec![swap("/dev/sda2", -2)])), "page-cluster", None),
        (with(|facts| facts.swaps = Ok(vec![swap("/dev/sda2", 500)])), "swap priority", Some("501")),
        (with(|facts| facts.swaps = Ok(vec![swap("/dev/sda2", i32::MAX)])), "swap priority", Some("32767")),
        (with(|facts| facts.memory.as_mut().unwrap().total_kib = 2 << 20), "watermark_scale_factor", Some("39")),
        (with(|facts| facts.memory.as_mut().unwrap().total_kib = 24 << 20), "watermark_scale_factor", None),
        (with(|facts| facts.tunables.watermark_scale_factor = None), "watermark_scale_factor", None),
        (with(|facts| facts.tunables.min_free_kib = Some(67_584)), "watermark_scale_factor", None),
        (with(|facts| facts.tunables.lru_gen = Some(7)), "multi-generational LRU", None),
        (with(|facts| facts.tunables.lru_gen = None), "multi-generational LRU", None),
        (phone(), "min_free_kbytes", None),
    ] {
        let plan = plan_of(&facts, ZramPlan::Brisk);
        let setting = plan.setting(name).unwrap();
        assert_eq!(setting.planned.as_deref(), planned, "{setting:?}");
    }
}

// Verifies MEMORY-6.
#[test]
fn pages_are_written_back_only_where_configured() {
    assert!(plan_of(&phone(), ZramPlan::Brisk).setting("zram backing device").is_none());
    let config = ZramConfig { backing_device: "/dev/mmcblk0p9".into(), ..ZramConfig::default() };
    let mut facts = phone();
    facts.zram.as_mut().unwrap()[0].writeback = true;
    let changes = crate::memory::apply::changes(&MemoryPlan::from_config(&facts, &config)).unwrap();
    let position = |wanted: &Target| changes.iter().position(|change| change.target == *wanted).unwrap();
    let backing = position(&Target::ZramBacking("zram0".into()));
    assert_eq!(changes[backing].value, "/dev/mmcblk0p9");
    assert!(backing < position(&Target::ZramSize("zram0".into())), "a device with a size accepts no backing device");
    let unable = MemoryPlan::from_config(&phone(), &config);
    assert_eq!(unable.setting("zram backing device").unwrap().outcome, SettingOutcome::Keep, "{unable:?}");
    let owned = MemoryPlan::from_config(&MemoryDevice { swaps: Ok(vec![swap("/dev/zram0", 100)]), ..facts }, &config);
    assert_eq!(owned.setting("zram backing device").unwrap().outcome, SettingOutcome::LeaveAlone, "{owned:?}");
}

prop_compose! {
    fn any_facts()(
        total_kib in 1u64..1 << 40, cpu_count in 1u32..512, kernel in proptest::option::of((2u32..8, 0u32..20)),
        size in 0u64..3, module in 0usize..3, priorities in prop::collection::vec((any::<bool>(), any::<i32>()), 0..4),
        has_owner in any::<bool>(), tunables in any::<[Option<u16>; 5]>(), offered in 0usize..5,
    ) -> MemoryDevice {
        let number = |index: usize| tunables[index].map(u32::from);
        let names = ["lzo", "zstd", "842", "lz4"].map(str::to_owned);
        MemoryDevice {
            memory: Some(MemoryInfo { total_kib, ..MemoryInfo::default() }),
            cpu_count,
            kernel,
            zram: Ok(vec![Zram { name: "zram0".into(), disk_size_bytes: size, algorithms_offered: names[..offered].to_vec(), ..Zram::default() }]),
            module: [Module::Loaded, Module::Loadable, Module::Missing][module],
            swaps: Ok(priorities.into_iter().map(|(zram, priority)| swap(if zram { "/dev/zram0" } else { "/dev/sda2" }, priority)).collect()),
            owners: if has_owner { vec![owner("zramswap", "zram0")] } else { vec![] },
            tunables: VmTunables { swappiness: number(0), page_cluster: number(1), watermark_scale_factor: number(2), min_free_kib: number(3).map(u64::from), lru_gen: number(4) },
            faults: vec![],
        }
    }
}

proptest! {
    // Verifies MEMORY-1.
    #[test]
    fn any_device_gets_a_valid_plan(facts in any_facts(), paper in any::<bool>()) {
        let plan = plan_of(&facts, if paper { ZramPlan::Paper } else { ZramPlan::Brisk });
        let total_kib = facts.memory.as_ref().unwrap().total_kib;
        let foreign = !facts.owners.is_empty() || facts.swaps.as_ref().unwrap().iter().any(|swap| swap.zram_name().is_some());
        let swappiness_limit = if facts.kernel >= Some((5, 8)) { 200 } else { 100 };
        for setting in &plan.settings {
            prop_assert_eq!(setting.planned.is_some(), setting.outcome == SettingOutcome::Change, "{:?}", setting);
            prop_assert!(!setting.reason.is_empty() && setting.planned != setting.now || setting.planned.is_none());
        }
        for setting in plan.changes() {
            prop_assert!(!foreign || !setting.name.starts_with("zram"), "{:?}", setting);
            let number: Option<u64> = setting.planned.as_ref().unwrap().split(' ').next().unwrap().parse().ok();
            match setting.name {
                "zram size" => prop_assert!(number.unwrap() <= total_kib * 3 / 4),
                "swappiness" => prop_assert!(number.unwrap() <= swappiness_limit),
                "watermark_scale_factor" => prop_assert!(number.unwrap() <= 200),
                "zram algorithm" => prop_assert!(
                    facts.zram.as_ref().unwrap()[0].algorithms_offered.contains(setting.planned.as_ref().unwrap())
                        || facts.zram.as_ref().unwrap()[0].disk_size_bytes > 0
                ),
                _ => {}
            }
        }
    }
}
