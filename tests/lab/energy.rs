//! The model of energy in a guest: what leaving idle costs.

use super::steps::Report;
use super::{Duration, job, static_brisk};

/// `C * V^2 * f` of virtual-cpufreq at 1200 MHz: 300 pF, 1250 mV.
const BUSY_POWER_UW: f64 = 300.0 * 1250.0 * 1250.0 * 1200.0 / 1e6;

/// Naps at the highest frequency, at which no timer slows the CPU. Prints for each number of naps how often the CPU left idle, its
/// interrupts, and the energy in uJ.
const SCRIPT: &str = r#"
set -eu
. /steps.sh
policy=/sys/devices/system/cpu/cpufreq/policy0
counters=/sys/module/virtual_cpufreq/parameters
echo userspace >$policy/scaling_governor
echo 1200000 >$policy/scaling_setspeed
# Sets $interrupts without another process.
count_interrupts() {
	while read -r name interrupts _; do
		[ "$name" != intr ] || break
	done </proc/stat
}
for count in 100 200; do
	count_interrupts
	interrupts_before=$interrupts
	read -r exits <$counters/idle_exits
	read -r energy <$counters/energy_uj
	i=0
	while [ $i -lt $count ]; do
		sleep 0.02
		i=$((i + 1))
	done
	read -r exits_after <$counters/idle_exits
	read -r energy_after <$counters/energy_uj
	count_interrupts
	say exits "$((exits_after - exits))"
	say interrupts "$((interrupts - interrupts_before))"
	say energy "$((energy_after - energy))"
done
"#;

/// What some naps cost.
#[derive(Debug)]
struct Naps {
    exits: f64,
    interrupts: f64,
    energy_uj: f64,
}

/// 100 naps and then 200, where leaving idle costs `idle_exit_us`.
fn naps(idle_exit_us: i64) -> Option<[Naps; 2]> {
    let mut job = job(static_brisk()?, "debian-6.1-idle", &["sh", "/energy.sh"]);
    job.scenario.guest.self_check = false;
    let driver = job.scenario.modules.iter_mut().find(|module| module.name == "virtual_cpufreq").unwrap();
    assert_eq!(driver.parameters["idle_exit_us"], toml::Value::Integer(300), "the scenario's own");
    driver.parameters.insert("idle_exit_us".into(), idle_exit_us.into());
    let report = Report::of(job, "/energy.sh", SCRIPT, Duration::from_secs(180));
    let number = |name, index: usize| report.all(name)[index].parse().unwrap();
    let naps = |index| Naps {
        exits: number("exits", index),
        interrupts: number("interrupts", index),
        energy_uj: number("energy", index),
    };
    Some([0, 1].map(naps))
}

/// Exits from idle are real: each nap has one, and each has an interrupt. Each costs what the model says, and nothing where the
/// parameter is zero, so that the energy grows with them.
// Verifies LAUNCH-6.
#[test]
fn each_exit_from_idle_costs_its_energy() {
    let (Some(free), Some(charged)) = (naps(0), naps(300)) else { return };
    let measured = format!("free {free:#?}, charged {charged:#?}");
    for (count, naps) in [100.0, 200.0].into_iter().zip(&free).chain([100.0, 200.0].into_iter().zip(&charged)) {
        assert!(naps.exits >= count && naps.exits <= naps.interrupts, "{count} naps: {measured}");
    }
    for (free, charged) in free.iter().zip(&charged) {
        let cost_uj = charged.energy_uj - free.energy_uj;
        let expected_uj = charged.exits * 300.0 * BUSY_POWER_UW / 1e6;
        assert!((cost_uj / expected_uj - 1.0).abs() < 0.05, "{cost_uj} uJ, expected {expected_uj}: {measured}");
    }
    let growth = charged[1].exits / charged[0].exits;
    assert!((growth / 2.0 - 1.0).abs() < 0.1, "twice the naps wake it twice as often: {measured}");
}
