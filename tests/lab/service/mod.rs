//! The packaged service under Debian's systemd: it has its own user, and no capability to write files that are not granted.

use std::time::Duration;

use brisk::lab::Job;

use super::steps::Report;
use super::{job, static_brisk};

/// The packaged units, except for the path of the program in the guest.
pub(super) const UNITS: [(&str, &str); 3] = [
    ("brisk.service", include_str!("../../../packaging/systemd/brisk.service")),
    ("brisk-grant.path", include_str!("../../../packaging/systemd/brisk-grant.path")),
    ("brisk-grant.service", include_str!("../../../packaging/systemd/brisk-grant.service")),
];

const METRICS: [(&str, &str); 2] = [
    ("brisk-metrics.socket", include_str!("../../../packaging/systemd/brisk-metrics.socket")),
    ("brisk-metrics@.service", include_str!("../../../packaging/systemd/brisk-metrics@.service")),
];

fn report(steps: &[&str]) -> Option<Report> {
    let mut job: Job = job(static_brisk()?, "systemd-6.1", &[&["sh", "/service.sh"], steps].concat());
    let systemd = job.scenario.guest.systemd.as_mut().unwrap();
    systemd.users.push("brisk".to_owned());
    for (name, text) in UNITS.into_iter().chain(METRICS) {
        let text = text.replace("/usr/bin/brisk", "/bin/brisk");
        systemd.files.insert(format!("/etc/systemd/system/{name}"), text);
    }
    Some(Report::of_launches(job, "/service.sh", include_str!("service.sh"), Duration::from_secs(900)))
}

// Verifies SECURITY-1, SECURITY-2, LAUNCH-2.
#[test]
fn the_service_works_on_granted_tunables_and_root_restores() {
    let Some(report) = report(&["kick", "metrics", "lease", "left", "memory", "forged"]) else { return };
    // CAP_NET_ADMIN is bit 12, CAP_SYS_NICE bit 23 (linux/capability.h).
    assert_eq!(report.one("kick.rights"), "0000000000801000");
    assert_eq!(report.one("kick.owner"), "brisk root root", "only what a kick writes");
    assert_eq!(report.one("kick.created_again"), "root", "the kernel has created the tunable again");
    for name in ["kick.first", "kick.second"] {
        let status = report.json(name);
        assert_eq!(status["metrics"]["failures"], 0, "{name}: {status}");
        let decisions = status["decisions"].as_array().unwrap();
        let is_kick =
            |decision: &serde_json::Value| decision["action"] == "rewrite" || decision.to_string().contains("rewrite");
        assert!(decisions.iter().any(is_kick), "{name}: {status}");
    }
    let counted = ["kick.first", "kick.second"].map(|name| report.json(name)["metrics"]["decisions"].as_u64().unwrap());
    assert!(counted[1] > counted[0], "it is kicked after the governor change as well: {counted:?}");

    assert_eq!(report.all("metrics.status"), ["HTTP/1.1 200 OK"; 3], "{report:#?}");
    assert!(report.one("metrics.kicks").parse::<u64>().unwrap() > 0, "{report:#?}");
    assert_eq!(report.one("metrics.left"), "0", "each request's process has ended");

    assert_eq!(report.one("lease.restored"), "100000");
    assert_eq!(report.one("left.stopped"), "100000 root", "a granted file belongs to root again");
    report.said("left.said", &["sampling_rate holds 100000 again"]);
    assert_eq!(report.one("left.restored"), "100000 root brisk");

    let [before, applied] = report.one("memory.applied").split(' ').collect::<Vec<_>>()[..] else {
        panic!("{report:#?}")
    };
    assert_ne!(before, applied, "there is something to restore");
    report.said("memory.said", &["0 ", "holds", "again"]);
    assert_eq!(report.one("memory.restored"), format!("{before} {before}"));

    assert!(!report.all("forged.code").is_empty());
    assert!(report.all("forged.code").iter().all(|code| *code == "1"), "{report:#?}");
    assert!(report.all("forged.held").iter().all(|held| !held.contains("forged")), "{report:#?}");
}
