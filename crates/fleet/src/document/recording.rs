//! A recording of a boot: a row for each phase of its diagnosis.

use brisk_chart::diagnose::{self, diagnose};
use brisk_chart::read::{self, Limits, ReadError};

use super::Content;
use crate::evidence::Phase;
use crate::export::Fact;
use crate::fault::Fault;

/// Whether it is a tar archive, gzipped or not.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b]) || bytes.get(257..262) == Some(b"ustar")
}

/// Reads what `brisk boot record`, Android's init or bootchart wrote.
pub fn read(bytes: &[u8], file: i64) -> Result<Content, Fault> {
    let boot = read::read_bytes(bytes, &Limits::default()).map_err(|error| match error {
        ReadError::NoRecording { .. } => Fault::Foreign,
        error => Fault::Damaged(error.to_string()),
    })?;
    let diagnosis = diagnose(&boot);
    if diagnosis.phases.is_empty() {
        return Err(Fault::Damaged("it has no samples of the CPUs".to_owned()));
    }
    let percent = |share: Option<f32>| share.map(|share| f64::from(share) * 100.0);
    let row = |phase: &diagnose::Phase| {
        Fact::Phase(Box::new(Phase {
            file,
            recorded_by: boot.format.words(),
            limited_by: phase.limit.words(),
            start_ms: phase.span.start_ms.into(),
            end_ms: phase.span.end_ms.into(),
            busy_cpus: phase.busy_cpus.into(),
            disk_busy_percent: percent(phase.disk_busy),
            speed_percent: percent(phase.speed),
            io_stall_percent: percent(phase.io_stall),
            memory_stall_percent: percent(phase.memory_stall),
        }))
    };
    Ok(Content {
        cpus: boot.cpu_count() as i64,
        kernel: boot.header_value("system.uname").unwrap_or_default().to_owned(),
        facts: diagnosis.phases.iter().map(row).collect(),
        ..Content::default()
    })
}
