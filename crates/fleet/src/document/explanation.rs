//! An explanation of a trace: a row for each part of each window.

use serde::Deserialize;

use super::Content;
use crate::evidence::Part;
use crate::export::Fact;
use crate::fault::Fault;

/// The version that is read.
pub const SCHEMA: u32 = 1;

const MILLISECOND_NS: f64 = 1e6;

#[derive(Deserialize)]
struct Wire {
    launches: Vec<Launch>,
    windows: Vec<Window>,
}

#[derive(Deserialize)]
struct Launch {
    name: String,
    from_ns: u64,
    to_ns: u64,
}

#[derive(Deserialize)]
struct Window {
    thread: String,
    from_ns: u64,
    to_ns: u64,
    parts: Vec<WirePart>,
}

#[derive(Deserialize)]
struct WirePart {
    cause: String,
    subject: Option<String>,
    on_behalf: Option<OnBehalf>,
    ns: u64,
    times: u32,
}

#[derive(Deserialize)]
struct OnBehalf {
    wait: String,
    of: String,
}

/// Reads an explanation of this schema.
pub fn read(bytes: &[u8], file: i64) -> Result<Content, Fault> {
    let Wire { launches, windows } = super::json(bytes)?;
    let mut facts = Vec::new();
    for (number, Window { thread, from_ns, to_ns, parts }) in windows.into_iter().enumerate() {
        // It has no checksum, but a sum.
        let sum_ns = parts.iter().try_fold(from_ns, |sum_ns, part| sum_ns.checked_add(part.ns));
        if sum_ns != Some(to_ns) {
            return Err(Fault::Damaged(format!("the parts of window {number} do not add up to its length")));
        }
        let launch = launches.iter().find(|launch| (launch.from_ns, launch.to_ns) == (from_ns, to_ns));
        for WirePart { cause, subject, on_behalf, ns, times } in parts {
            let (wait, wait_of) = on_behalf.map(|OnBehalf { wait, of }| (wait, of)).unzip();
            facts.push(Fact::Part(Box::new(Part {
                file,
                window: number as i64,
                launch: launch.map(|launch| launch.name.clone()),
                thread: thread.clone(),
                window_ms: (to_ns - from_ns) as f64 / MILLISECOND_NS,
                cause,
                subject,
                wait,
                wait_of,
                length_ms: ns as f64 / MILLISECOND_NS,
                pieces: times.into(),
            })));
        }
    }
    Ok(Content { facts, ..Content::default() })
}
