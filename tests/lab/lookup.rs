//! Service lookups through a stock binder driver.

use std::path::Path;
use std::time::Duration;

use super::{job, results, run, static_brisk};

// Verifies LOOKUP-7, LOOKUP-8.
#[test]
fn a_hundred_services_register_and_are_found_by_binder() {
    let Some(binary) = static_brisk() else { return };
    let bench = ["brisk", "lookup", "bench", "--manager", "own", "--services", "100", "--lookups", "400", "--json"];
    for format in ["android-5", "android-16"] {
        let command = [&bench[..], &["--format", format]].concat();
        let (outcome, lines) = run(&job(binary, "binder-stock-6.1", &command));
        assert_eq!(outcome.unwrap().status, 0, "{lines:?}");
        let report: serde_json::Value = serde_json::from_str(&results(&lines).join("\n")).unwrap();
        assert_eq!((&report["services"], &report["lookups"]), (&100.into(), &400.into()), "{report}");
        // Time is counted in instructions, so every lookup takes about as long.
        assert_eq!(report["unit"], "instructions", "{report}");
        let [p50, p99] = ["p50", "p99"].map(|name| report["call"][name].as_f64().unwrap());
        assert!(p50 > 10_000.0 && p99 < p50 * 1.2, "{report}");
        assert!(report["floors"]["empty_call"].as_f64().unwrap() < 2_000.0, "{report}");
        // The steps are of other series of lookups, without what recording costs: their sum is the duration of a lookup.
        let step = |name: &str| report["steps"][name]["p50"].as_f64().unwrap_or_else(|| panic!("{name}: {report}"));
        let sum: f64 =
            ["entry", "switch", "search", "caller", "reference", "added", "back"].into_iter().map(step).sum();
        assert!((sum / p50 - 1.0).abs() < 0.03, "{sum} of {p50}: {report}");
    }
}

// Verifies LOOKUP-8.
#[test]
fn lookups_of_other_processes_are_recorded_by_process() {
    let Some(binary) = static_brisk() else { return };
    let script = "brisk lookup bench --manager own --lookups 100000 >/dev/null & sleep 2; \
                  brisk lookup record --seconds 1 --json";
    let mut job = job(binary, "binder-stock-6.1", &["sh", "-c", script]);
    job.busybox = true;
    // A second with fewer instructions: the duration does not matter here.
    job.scenario.machine.icount_shift = Some(3);
    let (outcome, lines) = run(&job);
    assert_eq!(outcome.unwrap().status, 0, "{lines:?}");
    let report: serde_json::Value = serde_json::from_str(&results(&lines).join("\n")).unwrap();
    // A lookup is about 33 thousand instructions of 8 ns.
    assert!(report["lookups"].as_u64().unwrap() > 1_000, "{report}");
    assert_eq!(
        (&report["source"], &report["rows"][0]["what"]),
        (&"trace".into(), &"brisk (code 3)".into()),
        "{report}"
    );
}

// Verifies LOOKUP-8.
#[test]
fn lookups_are_recorded_one_by_one_and_replayed() {
    let Some(binary) = static_brisk() else { return };
    let script = "brisk lookup bench --manager own --services 40 --lookups 100000 >/dev/null & sleep 2; \
                  brisk lookup record --seconds 1 --output /run/lookups.jsonl --json && \
                  brisk lookup simulate --replay /run/lookups.jsonl --entries 10,128 --json && \
                  wc -l </sys/kernel/tracing/kprobe_events && ls /sys/kernel/tracing/instances | wc -l";
    let mut job = job(binary, "binder-stock-6.1", &["sh", "-c", script]);
    job.busybox = true;
    // 180 s are not enough on a busy host.
    job.timeout = Duration::from_secs(600);
    job.scenario.machine.icount_shift = Some(3);
    let (outcome, lines) = run(&job);
    assert_eq!(outcome.unwrap().status, 0, "{lines:?}");
    let text = results(&lines).join("\n");
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>().map(Result::unwrap);
    let [recorded, simulated] = [(); 2].map(|()| values.next().unwrap());
    assert_eq!(recorded["source"], "probe", "{recorded}");
    let lookups = recorded["lookups"].as_u64().unwrap();
    assert!(lookups > 500, "{recorded}");
    // Popular services are most frequent, as the bench draws them.
    let share = recorded["top_quarter_share"].as_f64().unwrap();
    assert!((0.6..0.95).contains(&share), "{recorded}");
    assert_eq!(recorded["rows"].as_array().unwrap().len(), 40, "every service was seen: {recorded}");
    let row = &simulated["traces"][0];
    assert_eq!(row["trace"], "lookups");
    for arm in row["arms"].as_array().unwrap() {
        assert_eq!(arm["lookups"], lookups, "{arm}");
        let ratio = arm["hit_ratio"].as_f64().unwrap();
        let expected = if arm["entries"] == 128 { 0.9..1.0 } else { 0.4..0.9 };
        assert!(expected.contains(&ratio), "{arm}");
    }
    // Neither the probe nor its trace instance is left.
    assert_eq!(values.collect::<Vec<_>>(), [0, 0]);
}

/// The output of random programs in a guest of `scenario`, a line each, and the share of lookups that its cache answered.
fn programs(binary: &Path, scenario: &str, cache: &[&str], count: &str, steps: &str) -> (Vec<String>, u64) {
    let command = ["brisk", "lab", "binder-programs", "--programs", count, "--steps", steps];
    let mut job = job(binary, scenario, &[&command[..], cache].concat());
    job.timeout = Duration::from_secs(1200);
    let (outcome, lines) = run(&job);
    assert_eq!(outcome.unwrap().status, 0, "{lines:?}");
    let mut said: Vec<String> = results(&lines).into_iter().map(str::to_owned).collect();
    let last = said.pop().unwrap_or_default();
    let share = last.strip_suffix(" %").and_then(|last| last.rsplit(' ').next()?.parse().ok());
    (said, share.unwrap_or_else(|| panic!("the last line says how many lookups the cache answered: {last}")))
}

/// Random programs register, look up, call, watch and close as several users in two contexts; context managers are replaced.
/// Their output with our driver must equal that with the stock driver in each mode of the cache.
fn two_drivers_do_the_same(count: &str, steps: &str) {
    let Some(binary) = static_brisk() else { return };
    let (stock, _) = programs(binary, "binder-stock-6.1", &[], count, steps);
    assert_eq!(stock.len().to_string(), count);
    // A fuzzer whose lookups the cache rarely answers tests little.
    for (cache, least) in [
        (&["--mode", "off"][..], 0),
        (&["--mode", "transparent"], 20),
        (&["--mode", "cooperative"], 20),
        (&["--mode", "transparent", "--policy", "paper"], 20),
    ] {
        let (ours, share) = programs(binary, "binder-6.1", cache, count, steps);
        // `brisk lab binder-programs --seed N --transcript` prints what program N saw.
        assert_eq!(ours, stock, "{cache:?}");
        println!("{cache:?}: the cache answered {share} % of the lookups");
        assert!(share >= least && (least > 0 || share == 0), "{cache:?} answered {share} % of the lookups");
    }
}

// Verifies LOOKUP-1.
#[test]
fn two_drivers_do_the_same_to_random_programs() {
    two_drivers_do_the_same("5", "80");
}

// Verifies LOOKUP-1.
#[test]
#[ignore = "takes minutes; ./dev test --deep"]
fn two_drivers_do_the_same_to_many_random_programs() {
    two_drivers_do_the_same("60", "300");
}

/// Lets a daemon configure the driver's cache and kills it; prints mode, policy, size and the bytes of the profile each time.
const CACHE_SCRIPT: &str = r#"
cd /sys/kernel/binder_cache/binder || exit 1
shown() { echo "$1 $(cat mode) $(cat policy) $(cat capacity) $(cat profile | wc -c)"; }
mkdir -p /etc/brisk
printf '[launch]\nenabled = false\n[lookup]\nenabled = true\nmode = "transparent"\nentries = 64\npolicy = "lfu"\n' >/etc/brisk/brisk.toml
shown before
for signal in TERM KILL; do
	brisk daemon 2>/run/log &
	daemon=$!
	tries=0
	until [ "$(cat mode)" = transparent ]; do
		sleep 0.1
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { cat /run/log; exit 1; }
	done
	shown during
	kill -$signal $daemon
	tries=0
	until [ "$(cat mode) $(cat policy) $(cat profile | wc -c)" = "cooperative lru 1" ]; do
		sleep 0.1
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { shown never; cat /run/log; exit 1; }
	done
	shown after
done
"#;

// Verifies LOOKUP-6.
#[test]
fn the_drivers_cache_is_restored_after_any_death() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "binder-6.1", &["sh", "-c", CACHE_SCRIPT]);
    job.busybox = true;
    let (outcome, lines) = run(&job);
    assert_eq!(outcome.unwrap().status, 0, "{lines:?}");
    let results = results(&lines);
    let [before, shown @ ..] = &results[..] else { panic!("{lines:?}") };
    assert_eq!(*before, "before cooperative lru 2048 1");
    let [during, after, killed_during, killed_after] = shown else { panic!("{shown:?}") };
    for during in [during, killed_during] {
        assert!(during.starts_with("during transparent lfu 64 ") && !during.ends_with(" 1"), "{during}");
    }
    assert_eq!([*after, *killed_after], ["after cooperative lru 2048 1"; 2]);
}
