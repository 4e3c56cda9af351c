//! What is compared with what: a device with itself, before it ran another build.

use std::collections::BTreeMap;

use super::{boot, has, import, report, start};

/// The builds that devices ran, in this order; their names are in another one.
const PATHS: [&[&str]; 4] = [&["c", "a", "b"], &["c", "b"], &["a", "c"], &["b"]];
/// A device boots so often under a build: once an hour, so that each build has days of its own.
const BOOTS: usize = 48;

/// How long a boot takes: a tenth longer by each build, and a little more on devices with a higher number.
fn length_ms(device: u64, build: &str) -> u64 {
    let (ms, more) = match build {
        "c" => (10_000, 0),
        "a" => (11_000, 1),
        _ => (12_100, 2),
    };
    device * (ms + more * device)
}

// Verifies FLEET-6.
#[test]
fn a_device_is_compared_with_the_build_that_it_ran_before() {
    if !has("duckdb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Three devices skip a build, three go back, and three have never run another one: these say nothing about a change.
    let devices: Vec<Vec<String>> = (1..=12)
        .map(|device| {
            let path = PATHS[(device as usize - 1) / 3];
            let under = |build: &&str| [vec![start(build)], vec![boot(length_ms(device, build)); BOOTS]].concat();
            path.iter().flat_map(under).collect()
        })
        .collect();
    import(folder.path(), &devices);
    let report = report(folder.path());
    let rows = report["answers"]["regressions"]["rows"].as_array().unwrap();
    let found: BTreeMap<(&str, &str), (u64, f64)> = rows
        .iter()
        .map(|row| {
            let [build, previous] = ["build", "previous"].map(|key| row[key].as_str().unwrap());
            ((build, previous), (row["devices"].as_u64().unwrap(), row["change_percent"].as_f64().unwrap()))
        })
        .collect();
    // Between devices, b would be the slowest by far: those that have run nothing else have the highest numbers.
    let expected = [("a", "c", 6, 10.0), ("b", "a", 3, 10.0), ("b", "c", 3, 21.0)];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (build, previous, devices, percent) in expected {
        let (compared, change) = found[&(build, previous)];
        assert!(compared == devices && (change - percent).abs() < 0.3, "{build} after {previous}: {found:?}");
    }
}
