//! The foreground on a system with a real logind, with sessions at two terminals.

use std::time::Duration;

use super::steps::Report;
use super::{job, static_brisk};

// Verifies DAEMON-2.
#[test]
fn the_session_of_the_active_terminal_is_the_foreground() {
    let Some(binary) = static_brisk() else { return };
    let job = job(binary, "logind-6.1", &["sh", "/session.sh"]);
    let report = Report::of(job, "/session.sh", include_str!("session.sh"), Duration::from_secs(300));
    let pids = |name: &str| report.one(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for name in ["first", "second"] {
        assert_eq!((pids(name), pids(name).len()), (pids(&format!("{name}.members")), 3), "{report:#?}");
    }
    assert_eq!(pids("none"), [""; 0], "its session has ended");
    assert_eq!(pids("again"), pids("first"));
}
