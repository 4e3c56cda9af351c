//! `brisk doctor --on`: other devices describe themselves.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use super::Arguments;
use crate::cli::on::{Answer, Order, status};
use crate::cli::output;
use brisk_sys::Root;

/// What is printed of a device for programs.
#[derive(Debug, Serialize)]
struct DeviceAnswer {
    device: String,
    /// What `brisk doctor --json` prints there.
    report: Option<Value>,
    error: Option<String>,
    #[serde(skip)]
    text: String,
}

/// Prints each device's report.
///
/// # Errors
/// When the devices cannot be started with, or standard output cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let mut words = vec!["doctor".to_owned()];
    words.extend(arguments.json.then(|| "--json".to_owned()));
    let outcomes = arguments.on.run(Order { words, ..Order::default() }, root)?;
    let code = outcomes.iter().map(status).max().unwrap_or(0);
    let devices = arguments.on.on.iter().zip(outcomes).map(|(target, outcome)| {
        let (text, error) = match outcome {
            Ok(ended) => (String::from_utf8_lossy(&ended.output).into_owned(), None),
            Err(error) => (String::new(), Some(error.to_string())),
        };
        DeviceAnswer { device: target.to_string(), report: serde_json::from_str(&text).ok(), error, text }
    });
    output::print(&Answer::of(devices.collect()), arguments.json, |answer| {
        let parts = answer.devices.iter().filter(|it| it.error.is_none());
        parts.map(|it| format!("{}\n\n{}", it.device, it.text)).collect::<Vec<_>>().join("\n")
    })?;
    Ok(ExitCode::from(code))
}
