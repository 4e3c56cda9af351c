//! What is set about memory, and who is killed, on a real kernel with 512 MB.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{job, results, run, static_brisk};

/// What the guest said of each of its steps.
struct Report(Vec<(String, String)>);

impl Report {
    /// Runs `steps` of memory.sh in a guest; `None` where no machine can be emulated.
    fn of(steps: &[&str]) -> Option<Self> {
        let command = [&["sh", "/memory.sh"], steps].concat();
        let mut job = job(static_brisk()?, "memory-6.1", &command);
        job.busybox = true;
        // Each step waits for what it has caused, which takes its time on a busy host.
        job.timeout = Duration::from_secs(900);
        let (outcome, lines) = run(&job.with_file("/memory.sh", include_str!("memory.sh")));
        let said = results(&lines).into_iter().filter_map(|line| line.split_once(": "));
        let report = Self(said.map(|(name, text)| (name.to_owned(), text.to_owned())).collect());
        assert_eq!(outcome.unwrap().status, 0, "{:#?}\n{lines:#?}", report.0);
        Some(report)
    }

    fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(of, _)| of == name).map(|(_, text)| text.as_str()).collect()
    }

    fn one(&self, name: &str) -> &str {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "{name}: {:#?}", self.0);
        all[0]
    }
}

#[test]
fn a_plan_is_given_back_wherever_its_holder_dies() {
    let Some(report) = Report::of(&["undo"]) else { return };
    let before = report.one("undo.before");
    assert!(before.starts_with("swaps 0 size 0 algorithm lzo-rle vm 60 3 10 "), "{before}");
    for applied in [report.one("undo.applied"), report.one("undo.kept")] {
        assert!(applied.starts_with("swaps 1 size 2") && applied.contains("algorithm lz4 vm 150 0 "), "{applied}");
    }
    assert_eq!(report.one("undo.stopped"), before);
    assert_eq!(report.all("undo.killed"), [before; 8]);
    assert_eq!(report.all("undo.restored"), [before; 16]);
    let left: BTreeSet<&str> = report.all("undo.left").into_iter().collect();
    assert!(left.len() >= 2, "the kills hit it at different steps: {left:#?}");
}

#[test]
fn swap_that_does_not_fit_stays_in_use() {
    let Some(report) = Report::of(&["fit"]) else { return };
    assert_eq!((report.one("fit.exit"), report.one("fit.swaps")), ("2", "1"));
    let error = report.one("fit.error");
    assert!(error.contains("KiB lie there") && error.contains("run `brisk restore`"), "{error}");
    assert_eq!(report.one("fit.restored"), "yes");
}

#[test]
fn under_pressure_the_right_one_goes_and_the_kernel_kills_nobody() {
    let Some(report) = Report::of(&["pressure"]) else { return };
    assert_eq!(report.one("pressure.oom"), "0");
    assert_eq!(report.one("pressure.alive"), report.one("pressure.expected"));
    let explained: Value = serde_json::from_str(report.one("pressure.explain")).unwrap();
    let kills = explained["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 1, "{explained}");
    assert_eq!(kills[0]["pid"].to_string(), report.one("pressure.victim"));
    assert!(kills[0]["cause"].as_str().unwrap().contains("headroom"), "{explained}");
    let [predicted, returned] = ["predicted_kib", "returned_kib"].map(|name| kills[0][name].as_f64().unwrap());
    assert!(returned > 40_000.0 && (predicted - returned).abs() < 0.25 * returned, "{explained}");
    assert_eq!(report.one("pressure.killers"), "0", "it ends with its daemon");
}
