//! Units of systemd that compete as one: the background's weighs less, told to its manager, and is restored after any death.

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

/// A unit that computes; with a weight of its own it turns the controller on for its neighbours, and else it leaves that alone.
fn busy(slice: &str, weight: &str) -> String {
    format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nSlice={slice}\n{weight}\nExecStart=/bin/sh -c 'while :; do :; done'\n"
    )
}

/// What units.sh said of the units of `manager`, which are `units`: their names, slices and weights.
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
    // The script's own shell looks often, and would have its slice spared.
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
    assert_eq!((report.one("exit"), report.one("chosen")), ("0", "33"), "a person's value stays: {report:#?}");
}

// Verifies PLACE-8, UNDO-1.
#[test]
fn a_hog_of_another_unit_leaves_the_cpu_to_the_foreground() {
    let units = [("hog", "system.slice", ""), ("near", "system.slice", "CPUWeight=100"), ("far", "user.slice", "")];
    let Some(report) = report("system", &units) else { return };
    check(&report, &[("far", "system.slice"), ("near", "hog.service")]);
}

// Verifies PLACE-8, UNDO-1.
#[test]
fn a_users_manager_is_told_what_its_units_weigh() {
    let Some(report) = report("user", &[("hog", "app.slice", ""), ("near", "app.slice", "CPUWeight=100")]) else {
        return;
    };
    check(&report, &[("near", "hog.service")]);
}
