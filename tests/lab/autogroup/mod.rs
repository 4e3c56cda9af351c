//! Competing sessions: the background session's autogroup gets a lower weight, and its nice value is restored after any death.

use std::time::Duration;

use super::steps::Report;
use super::{job, static_brisk};

// Verifies PLACE-8.
#[test]
fn a_hog_of_another_session_is_deprioritised_and_restored() {
    let Some(binary) = static_brisk() else { return };
    let mut job = job(binary, "debian-6.1", &["sh", "/autogroup.sh"]);
    job.scenario.guest.self_check = false;
    job.scenario.modules.clear();
    let job = job.with_file("/placement_steps.sh", include_str!("../placement/steps.sh"));
    let report = Report::of(job, "/autogroup.sh", include_str!("autogroup.sh"), Duration::from_secs(900));
    assert_eq!(report.one("enabled"), "1", "{report:#?}");
    let share = |name: &str| report.one(name).parse::<u32>().unwrap();
    // Nice value 10 is a tenth of the weight.
    assert!((45..=55).contains(&share("stock")) && share("share") >= 85, "{report:#?}");
    assert!(report.one("explain").contains("the nice value of autogroup"), "{report:#?}");
    assert_eq!(report.one("priority"), "0", "no thread has another nice value: {report:#?}");
    for step in ["freed", "killed.daemon", "killed.both.left", "killed.both"] {
        assert_eq!(report.one(step), "yes", "{report:#?}");
    }
    assert_eq!(report.one("exit"), "0", "{report:#?}");
    assert!(report.one("chosen").ends_with(" nice 7"), "displaced by another writer: {report:#?}");
}
