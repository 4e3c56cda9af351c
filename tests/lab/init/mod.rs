//! brisk.rc under an init that kills process groups and drops capabilities as Android's does (init.sh).

use std::time::Duration;

use brisk::lab;

use super::steps::Report;
use super::{job, static_brisk};

/// CAP_KILL, CAP_NET_ADMIN, CAP_IPC_LOCK, CAP_SYS_NICE, CAP_SYS_RESOURCE, and no CAP_DAC_OVERRIDE.
const RIGHTS: u64 = 1 << 5 | 1 << 12 | 1 << 14 | 1 << 23 | 1 << 24;

// Verifies ANDROID-3.
#[test]
fn any_kill_by_androids_init_leaves_nothing_changed() {
    let Some(binary) = static_brisk() else { return };
    let mut job =
        job(binary, "debian-6.1", &["sh", "/init.sh", "rights", "stopped", "died", "gently", "without_rights"]);
    job.scenario.guest.self_check = false;
    // BusyBox's setpriv sets neither users nor bounding sets.
    job.files.extend(lab::host_program("setpriv").unwrap().into_iter().map(|mut file| {
        file.path = file.path.replace("/bin/setpriv", "/bin/util-linux-setpriv");
        file
    }));
    let job = job.with_file("/brisk.rc", include_str!("../../../android/integration/brisk.rc"));
    let report = Report::of(job, "/init.sh", include_str!("init.sh"), Duration::from_secs(900));
    assert_eq!(report.one("rights.user"), format!("0 {RIGHTS:016x}"));
    for step in ["rights", "stopped", "died", "gently", "without_rights"] {
        assert_eq!(report.one(&format!("{step}.members")), "2", "daemon and guardian are in the service's group");
        assert_eq!(report.one(&format!("{step}.during")), "20000");
    }
    for step in ["stopped", "died", "gently"] {
        assert_eq!(report.one(&format!("{step}.after")), "100000", "{step}: {report:#?}");
    }
    assert!(report.all("brisk-restore.exit").iter().all(|code| *code == "0"), "{report:#?}");
    assert_eq!(report.one("gently.learned"), "1", "the learned durations are kept");
    assert_eq!(report.one("without_rights.after"), "20000", "this init drops capabilities");
}
