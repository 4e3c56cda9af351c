//! Recordings and processes for tests.

use super::generate::{self, Shape};
use super::model::{Activity, Boot, Kind, Process, Span, State};
use super::read;

/// The generated recording of `shape`, as it is read.
pub fn recording(shape: &Shape) -> Boot {
    let folder = tempfile::tempdir().unwrap();
    generate::android(shape, folder.path()).unwrap();
    read::read(folder.path()).unwrap()
}

/// A process that does the same all the time.
pub fn process(name: &str, span: Span, cpu_permille: u16, state: State) -> Process {
    Process {
        pid: 7,
        parent: None,
        name: name.to_owned(),
        command: None,
        kind: Kind::Process,
        span,
        cpu_ms: 0,
        disk_wait_ms: 0,
        threads: 1,
        activity: vec![Activity { span, cpu_permille, state }],
    }
}
