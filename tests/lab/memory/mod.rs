//! The memory plan and victim selection on a real kernel with 512 MB.

use std::collections::BTreeSet;
use std::time::Duration;

use brisk::lab::Scenario;
use brisk::lab::scenario::CgroupVersion;
use brisk::mechanism::memory::writeback_budget::RECORD_KIB;
use serde_json::Value;

use super::steps::Report;
use super::{job, static_brisk};

/// The output of `step` of a script in tests/lab/memory/; `None` where no machine can be emulated.
fn report(script: &str, step: &str) -> Option<Report> {
    report_of(script, step, |_| {})
}

/// The same for a guest with a changed scenario.
fn report_of(script: &str, step: &str, change: impl FnOnce(&mut Scenario)) -> Option<Report> {
    let text = match script {
        "plan" => include_str!("plan.sh"),
        "killer" => include_str!("killer.sh"),
        "writeback" => include_str!("writeback.sh"),
        "restraint" => include_str!("restraint.sh"),
        other => panic!("there is no script {other}"),
    };
    let path = format!("/{script}.sh");
    let mut job = job(static_brisk()?, "memory-6.1", &["sh", &path, step]);
    change(&mut job.scenario);
    let job = job.with_file("/device.sh", include_str!("device.sh"));
    Some(Report::of(job, &path, text, Duration::from_secs(900)))
}

/// The mechanism's entry in the output of `brisk status` or `brisk doctor`.
fn memory_in(answer: &Value) -> Value {
    let mechanisms = answer["mechanisms"].as_array().unwrap();
    mechanisms.iter().find(|mechanism| mechanism["name"] == "memory").cloned().unwrap()
}

// Verifies ON-4, MEMORY-2.
#[test]
fn a_plan_is_restored_wherever_its_holder_dies() {
    let Some(report) = report("plan", "undo") else { return };
    let before = report.one("undo.before");
    assert!(before.starts_with("swaps 0 size 0 algorithm lzo-rle vm 60 3 10 "), "{before}");
    for applied in [report.one("undo.applied"), report.one("undo.kept")] {
        assert!(applied.starts_with("swaps 1 size 3") && applied.contains("algorithm lz4 vm 150 0 "), "{applied}");
    }
    let memory = memory_in(&report.json("undo.doctor"));
    assert_eq!(memory["state"], "active", "{memory}");
    assert!(memory["reason"].as_str().unwrap().contains("`brisk memory apply` (process "), "{memory}");
    assert_eq!(report.one("undo.stopped"), before);
    assert_eq!(report.all("undo.killed"), [before; 8]);
    assert_eq!(report.all("undo.restored"), [before; 16]);
    let left: BTreeSet<&str> = report.all("undo.left").into_iter().collect();
    assert!(left.len() >= 2, "the kills hit it at different steps: {left:#?}");
}

// Verifies MEMORY-2.
#[test]
fn swap_that_does_not_fit_stays_in_use() {
    let Some(report) = report("plan", "fit") else { return };
    assert_eq!((report.one("fit.exit"), report.one("fit.swaps")), ("2", "1"));
    let error = report.one("fit.error");
    assert!(error.contains("KiB are in it") && error.trim_end().ends_with("run `brisk restore`"), "{error}");
    assert_eq!(report.one("fit.restored"), "yes");
}

// Verifies MEMORY-2, UNDO-4.
#[test]
fn swap_stays_in_use_when_memory_becomes_scarce() {
    let Some(report) = report("plan", "scarce") else { return };
    assert_eq!((report.one("scarce.exit"), report.one("scarce.swaps")), ("2", "1"), "{report:#?}");
    assert!(report.one("scarce.error").contains("KiB are in it"), "{report:#?}");
    assert_eq!((report.one("scarce.oom"), report.one("scarce.restored")), ("0", "yes"), "{report:#?}");
}

// Verifies MEMORY-2, UNDO-4.
#[test]
fn zram_is_set_up_again_when_leftover_swap_fits() {
    let Some(report) = report("plan", "leftover") else { return };
    assert_eq!((report.one("leftover.refused"), report.one("leftover.restored")), ("1", "yes"), "{report:#?}");
    assert_eq!(report.one("leftover.errors"), "0", "{report:#?}");
}

/// The kernel may map a few more pages of the killer's locked program.
const FAULTED_KIB: u64 = 64;

// Verifies ON-4, MEMORY-4, MEMORY-5.
#[test]
fn under_pressure_brisk_kills_one_victim_and_the_kernel_none() {
    let Some(report) = report("killer", "pressure") else { return };
    assert_eq!(report.one("pressure.oom"), "0");
    assert_eq!(report.one("pressure.alive"), report.one("pressure.expected"));
    let explained = report.json("pressure.explain");
    let kills = explained["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 1, "{explained}");
    assert_eq!(kills[0]["pid"].to_string(), report.one("pressure.victim"));
    assert!(kills[0]["cause"].as_str().unwrap().contains("headroom"), "{explained}");
    let [predicted, returned] = ["predicted_kib", "returned_kib"].map(|name| kills[0][name].as_f64().unwrap());
    assert!(returned > 40_000.0 && (predicted - returned).abs() < 0.25 * returned, "{explained}");
    for said in ["pressure.status", "pressure.doctor"] {
        let memory = memory_in(&report.json(said));
        assert_eq!(memory["state"], "active", "{memory}");
        assert!(memory["reason"].as_str().unwrap().starts_with("the killer is process "), "{memory}");
    }
    let [before, after] = ["pressure.before", "pressure.after"].map(|name| numbers::<2>(report.one(name)));
    assert_eq!(before[0], after[0], "it allocates no memory for a kill: {report:#?}");
    assert!(after[1] <= before[1] + FAULTED_KIB, "nor touches new pages: {report:#?}");
    assert_eq!(report.one("pressure.killers"), "0", "it ends with its daemon");
}

/// Of two cached processes, the one that was foreground longer ago is killed, by either killer; all others survive.
fn the_older_cached_process_was_killed(report: &Report) {
    assert_eq!(report.one("pressure.alive"), report.one("pressure.expected"), "{report:#?}");
    let explained = report.json("pressure.explain");
    let by_brisk = explained["kills"].as_array().unwrap().len();
    let by_kernel: usize = report.one("pressure.oom").parse().unwrap();
    assert_eq!(by_brisk + by_kernel, 1, "{report:#?}");
}

fn without_psi(scenario: &mut Scenario) {
    scenario.kernel.command_line = scenario.kernel.command_line.replace("psi=1", "psi=0");
}

// Verifies MEMORY-4.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn without_psi_memory_is_sampled_periodically() {
    let Some(report) = report_of("killer", "pressure", without_psi) else { return };
    the_older_cached_process_was_killed(&report);
}

// Verifies MEMORY-4.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn a_device_without_zram_gets_the_rest() {
    let Some(report) = report_of("killer", "bare", |scenario| scenario.modules.retain(|it| it.name != "zram")) else {
        return;
    };
    assert_eq!((report.one("bare.swaps"), report.one("bare.restored")), ("0", "10"));
    assert_ne!(report.one("bare.watermarks"), "10");
    the_older_cached_process_was_killed(&report);
}

// Verifies MEMORY-2.
#[test]
fn busy_zram_is_restored_later_and_a_foreign_one_is_kept() {
    let Some(report) = report("plan", "busy") else { return };
    assert_eq!((report.one("busy.exit"), report.one("busy.error"), report.one("busy.restored")), ("2", "1", "yes"));
    assert_eq!(report.one("busy.owned"), report.one("busy.owner"));
    assert_eq!(report.one("busy.left"), report.one("busy.owner"));
}

// Verifies MEMORY-4.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn a_fork_bomb_ends_no_other_process() {
    let Some(report) = report("killer", "bomb") else { return };
    assert_eq!(report.one("bomb.alive"), report.one("bomb.expected"), "{report:#?}");
    assert_eq!(memory_in(&report.json("bomb.status"))["state"], "active");
}

/// The maximal time from the kernel's event until the memory of a process that outruns reclaim is free again.
const RECOVERY_US: u64 = 500_000;

// Verifies MEMORY-4.
#[test]
#[ignore = "three minutes: ./dev test --deep"]
fn a_process_that_outruns_reclaim_is_gone_in_bounded_time() {
    for step in ["outrun", "outrun_with_swap"] {
        let Some(report) = report("killer", step) else { return };
        assert_eq!(report.one("outrun.alive"), report.one("outrun.expected"), "{report:#?}");
        let explained = report.json("outrun.explain");
        let kills = explained["kills"].as_array().unwrap();
        let by_kernel: usize = report.one("outrun.oom").parse().unwrap();
        // Without swap the last memory can be used up before the kernel reports the first stall.
        assert!(kills.len() + by_kernel >= 3 && (by_kernel == 0 || step == "outrun"), "{report:#?}");
        for kill in kills {
            let [decided_us, back_us] = ["decided_after_us", "back_after_us"].map(|name| kill[name].as_u64().unwrap());
            assert!(kill["name"] == "awk" && decided_us + back_us <= RECOVERY_US, "{kill}");
        }
    }
}

/// Parses the numbers of one line.
fn numbers<const COUNT: usize>(text: &str) -> [u64; COUNT] {
    let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

// Verifies MEMORY-6.
#[test]
fn writeback_stays_within_the_days_budget_after_any_death() {
    const BUDGET_KIB: u64 = 8192;
    let Some(report) = report("writeback", "writeback") else { return };
    let [pages, spent_kib] = numbers(report.one("writeback.killed"));
    assert!(4 * pages <= spent_kib && spent_kib < BUDGET_KIB, "a write is recorded before it happens: {report:#?}");
    let [all_pages] = numbers(report.one("writeback.spent"));
    assert!(pages < all_pages && 4 * all_pages <= BUDGET_KIB, "{report:#?}");
    let records_kib = 16 * RECORD_KIB;
    assert!(4 * all_pages + records_kib + 1024 >= BUDGET_KIB, "a kill costs at most one batch: {report:#?}");
    assert_eq!(
        (report.one("writeback.limit").trim(), report.one("writeback.by_hand")),
        ("1 0", "no"),
        "the kernel's limit"
    );
    assert_eq!(report.one("writeback.ended").trim(), "0 none");
    assert_eq!(numbers(report.one("writeback.restarted")), [all_pages, BUDGET_KIB], "a restart keeps the budget");
    let wear = &report.json("writeback.status")["writeback"];
    assert_eq!((wear["today_kib"].as_u64(), wear["total_kib"].as_u64()), (Some(BUDGET_KIB), Some(BUDGET_KIB)));
    assert_eq!(report.one("writeback.alive"), report.one("writeback.expected"));
    assert_eq!(report.one("writeback.given_back"), "yes");
}

// Verifies MEMORY-6.
#[test]
fn a_missing_or_full_backing_device_harms_no_process() {
    let with_a_small_one = |scenario: &mut Scenario| {
        let flash = scenario.modules.iter_mut().find(|module| module.name == "flash_model").unwrap();
        flash.parameters.insert("sizes_mib".into(), toml::Value::from(vec![256, 1024, 2]));
    };
    let Some(report) = report_of("writeback", "writeback_faults", with_a_small_one) else { return };
    assert_eq!((report.one("faults.missing"), report.one("faults.why")), ("nothing", "1"), "{report:#?}");
    let [pages, spent_kib, complaints] = numbers(report.one("faults.full"));
    // The first page of a device is never used.
    assert_eq!((pages, complaints), (511, 1), "{report:#?}");
    assert!((4 * 511..=4 * 512 + 4 * RECORD_KIB).contains(&spent_kib), "{report:#?}");
    assert_eq!(report.one("faults.alive"), report.one("faults.expected"));
}

/// The output of `step` in a guest with control groups of version 2.
fn report_in_groups(script: &str, step: &str, change: impl FnOnce(&mut Scenario)) -> Option<Report> {
    report_of(script, step, |scenario| {
        scenario.guest.cgroup = CgroupVersion::V2;
        change(scenario);
    })
}

// Verifies MEMORY-5.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn what_a_group_shares_is_swapped_out_and_goes_to_flash_once() {
    let Some(report) = report_in_groups("writeback", "shared", |_| {}) else { return };
    let [pages, spent_kib] = numbers(report.one("shared.once"));
    // 8 MiB that both share, and little private memory.
    assert!((1500..=2304).contains(&pages), "{report:#?}");
    assert!((4 * pages..=4 * pages + 16 * RECORD_KIB).contains(&spent_kib), "counted once: {report:#?}");
    // Some private memory is swapped out later.
    let [again, _] = numbers(report.one("shared.twice"));
    assert!((pages..=pages + 128).contains(&again), "written once: {report:#?}");
    let [parent_kib, child_kib] = numbers(report.one("shared.swap"));
    assert!(parent_kib >= 7168 && child_kib >= 7168, "{report:#?}");
    assert_eq!(report.one("shared.alive"), report.one("shared.expected"));
}

/// The maximal locked share of the program itself, which is larger in the lab than on a device ...
const LOCKED_SHARE: f64 = 0.67;
/// ... and the maximal locked rest, stacks and allocations. A device's program has at most 3 MiB.
const LOCKED_DATA_KIB: u64 = 1024;

// Verifies COST-3, MEMORY-5.
#[test]
fn the_killer_locks_little_memory_and_works_ahead_when_idle() {
    let Some(report) = report_of("killer", "everything", without_psi) else { return };
    let [daemon_kib, guardian_kib, program_kib, locked_program_kib, data_kib] =
        numbers(report.one("everything.locked"));
    assert_eq!((daemon_kib, guardian_kib), (0, 0), "{report:#?}");
    assert!(locked_program_kib as f64 <= LOCKED_SHARE * program_kib as f64, "{report:#?}");
    assert!((1..=LOCKED_DATA_KIB).contains(&data_kib), "{report:#?}");
    // By name: the policy (FIFO is 1, IDLE 5) and the real-time priority.
    let threads: BTreeSet<&str> = report.one("everything.threads").split_terminator(',').collect();
    assert_eq!(threads, BTreeSet::from(["exe 1 1", "pageout 5 0", "prefetch 5 0", "writeback 5 0"]));
    assert_eq!(report.one("everything.adj"), "-1000");
}

// Verifies MEMORY-4.
#[test]
fn no_second_victim_before_the_first_is_given_up() {
    let Some(report) = report_of("killer", "stuck", without_psi) else { return };
    let (first, state) = report.one("stuck.first").split_once(' ').unwrap();
    assert_ne!(state, "Z", "{report:#?}");
    assert_eq!(report.one("stuck.said"), "1", "{report:#?}");
    let explained = report.json("stuck.explain");
    let kills = explained["kills"].as_array().unwrap();
    assert_eq!((kills.len(), kills[0]["pid"].to_string().as_str()), (2, first), "{explained}");
    let [given_up, next] = [0, 1].map(|kill| kills[kill]["at"].as_u64().unwrap());
    assert!(next - given_up >= 1_000_000_000, "a second of patience: {explained}");
}

// Verifies MEMORY-5.
#[test]
fn a_killer_that_may_not_lock_its_memory_says_so_and_works() {
    let Some(report) = report_of("killer", "lock", without_psi) else { return };
    let of = |name: &str| {
        let (locked_kib, said) = report.one(name).split_once(' ').unwrap();
        (locked_kib.parse::<u64>().unwrap(), said.to_owned())
    };
    let (free, little, nothing) = (of("lock.free"), of("lock.little"), of("lock.nothing"));
    assert!(free.0 > 0 && free.1.is_empty(), "{report:#?}");
    assert!(little.0 > 0 && little.1.contains("what it allocates from now on is not locked"), "{report:#?}");
    assert!(nothing.0 == 0 && nothing.1.contains("it may lock 64 KiB: raise that"), "{report:#?}");
}

// Verifies MEMORY-4.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn a_group_that_causes_memory_stalls_is_limited_and_released() {
    let Some(report) = report_in_groups("restraint", "restraint", |_| {}) else { return };
    let memory = memory_in(&report.json("restraint.status"));
    assert!(memory["reason"].as_str().unwrap().contains("held back"), "{memory}");
    // Within 2 s; the kernel throttles the group, and does not stop it at once. It took as much in each half second before.
    let taken_kib: i64 = report.one("restraint.taken").parse().unwrap();
    assert!(taken_kib <= 32 << 10, "{report:#?}");
    assert_eq!(report.one("restraint.killed"), "max", "its guardian restores it");
}

// Verifies COST-2.
#[test]
#[ignore = "a minute: ./dev test --deep"]
fn with_everything_on_it_takes_little_when_nothing_happens() {
    let Some(report) = report_in_groups("killer", "idle", |_| {}) else { return };
    let found = report.all("idle");
    assert_eq!(found.len(), 2);
    for said in found {
        let [cpu_ms, wakeups, processes, memory_kib] = numbers(said);
        println!("{processes} processes: {cpu_ms} ms and {wakeups} wake-ups in 120 s, {memory_kib} KiB of memory");
        assert!((1..=120).contains(&cpu_ms) && processes >= 300, "0.1 % of a CPU: {report:#?}");
        assert!((1..=240).contains(&wakeups), "two a second: {report:#?}");
        assert!((1..=8192).contains(&memory_kib), "daemon, guardian and killer together: {report:#?}");
    }
}
