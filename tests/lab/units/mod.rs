//! Competing systemd units: brisk lowers the background unit's weight through its manager, and restores it after any death.

use std::time::Duration;

use super::service::UNITS;
use super::steps::Report;
use super::{job, static_brisk};

/// A user's manager as logind would start it, without a login.
const USER_MANAGER: &str = "[Unit]\nDefaultDependencies=no\n[Service]\nSlice=user-0.slice\nType=notify\nDelegate=yes\n\
    Environment=XDG_RUNTIME_DIR=/run/user/0 HOME=/root\nRuntimeDirectory=user/0\nRuntimeDirectoryMode=0700\n\
    ExecStart=/lib/systemd/systemd --user\n";

/// The rights that the packaged service has with its drop-in.
const RIGHTS: &str = include_str!("../../../packaging/systemd/placement.conf");

/// A CPU-bound unit; with an explicit weight it enables the controller for its siblings, otherwise it does not.
fn busy(slice: &str, weight: &str) -> String {
    format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nSlice={slice}\n{weight}\nExecStart=/bin/sh -c 'while :; do :; done'\n"
    )
}

/// The output of units.sh for `units` of `manager`: their names, slices and weights.
fn report(manager: &str, units: &[(&str, &str, &str)]) -> Option<Report> {
    let mut job = job(static_brisk()?, "systemd-6.1", &["sh", "/units.sh", manager]);
    let systemd = job.scenario.guest.systemd.as_mut().unwrap();
    for (name, slice, weight) in units {
        systemd.files.insert(format!("/etc/systemd/{manager}/{name}.service"), busy(slice, weight));
    }
    systemd.users.push("brisk".to_owned());
    for (name, text) in UNITS.into_iter().chain([("brisk.service.d/placement.conf", RIGHTS)]) {
        systemd.files.insert(format!("/etc/systemd/system/{name}"), text.replace("/usr/bin/brisk", "/bin/brisk"));
    }
    systemd.files.insert("/etc/systemd/system/user@0.service".to_owned(), USER_MANAGER.to_owned());
    systemd.files.insert("/etc/systemd/user/default.target".to_owned(), "[Unit]\nDefaultDependencies=no\n".to_owned());
    // The script's own shell runs often, so its slice would not be deprioritised.
    let apart = "[Service]\nCPUWeight=100\nSlice=lab.slice\n".to_owned();
    systemd.files.insert("/etc/systemd/system/brisk-job.service.d/apart.conf".to_owned(), apart);
    let job = job.with_file("/placement_steps.sh", include_str!("../placement/steps.sh"));
    Some(Report::of(job, "/units.sh", include_str!("units.sh"), Duration::from_secs(900)))
}

fn check(report: &Report, parts: &[(&str, &str)]) {
    assert!(report.one("controllers").contains("cpu"), "{report:#?}");
    for (name, lowered) in parts {
        let share = |what: &str| report.one(&format!("{name}.{what}")).parse::<u32>().unwrap();
        assert!((45..=55).contains(&share("stock")), "{name}: {report:#?}");
        // A tenth of the weight.
        assert!(share("by_hand") >= 85 && share("share") + 2 >= share("by_hand"), "{name}: {report:#?}");
        assert!(report.one(&format!("{name}.lowered")).contains(&format!("{lowered} 11 11")), "{name}: {report:#?}");
        for step in ["freed", "killed.daemon", "killed.both.left", "killed.both"] {
            assert_eq!(report.one(&format!("{name}.{step}")), "yes", "{name}: {report:#?}");
        }
    }
    assert_eq!(report.one("service"), "root 0000000000801002", "with placement's rights: {report:#?}");
    assert_eq!(report.one("service.freed"), "yes", "{report:#?}");
    assert_eq!(report.one("ended"), "[not set]", "{report:#?}");
    assert_eq!((report.one("exit"), report.one("chosen")), ("0", "33"), "displaced by another writer: {report:#?}");
}

// Verifies PLACE-8, UNDO-1.
#[test]
fn a_hog_of_another_unit_is_deprioritised_and_restored() {
    let units = [("hog", "system.slice", ""), ("near", "system.slice", "CPUWeight=100"), ("far", "user.slice", "")];
    let Some(report) = report("system", &units) else { return };
    check(&report, &[("far", "system.slice"), ("near", "hog.service")]);
}

// Verifies PLACE-8, UNDO-1.
#[test]
fn the_weights_of_a_users_units_are_set_by_its_manager() {
    let Some(report) = report("user", &[("hog", "app.slice", ""), ("near", "app.slice", "CPUWeight=100")]) else {
        return;
    };
    check(&report, &[("near", "hog.service")]);
}
