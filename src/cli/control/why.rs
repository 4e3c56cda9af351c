//! `brisk why`: the state of each mechanism and each held value, one line each, with the reason.

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::cli::output;
use brisk_config::{Activation, Config, Layers, activations};
use brisk_daemon::control::connection::{Connection, ConnectionError};
use brisk_daemon::control::protocol::Request;
use brisk_daemon::status::Status;
use brisk_mechanism::SupportState;
use brisk_sys::Root;
use brisk_sys::system::other_managers;

/// Arguments of `brisk why`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints one line for each mechanism (on or off, and the reason), then one line for each value that the
daemon holds. `brisk status` prints more.

Exit code 0 when a daemon is running; 1 when none is: then it shows what a daemon would switch on; 2 when
its socket may not be used, or the configuration cannot be read or is invalid.

Examples:
  brisk why
  brisk why --json    the same for programs")]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Answer {
    running: bool,
    mechanisms: Vec<Line>,
    held: Vec<Held>,
}

#[derive(Debug, Serialize)]
struct Line {
    mechanism: String,
    on: bool,
    reason: String,
    /// Its current activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
}

#[derive(Debug, Serialize)]
struct Held {
    target: String,
    value: String,
    original: String,
    reason: String,
}

/// Prints the answer.
///
/// # Errors
/// A daemon that does not answer, a socket that this user may not use, or an invalid configuration.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let status: Option<Status> = match Connection::open(root) {
        Ok(mut connection) => {
            let answer = connection.request(Request::Status)?;
            Some(serde_json::from_value(answer).context("the daemon has another version of brisk")?)
        }
        Err(ConnectionError::NoDaemon { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let config = effective_config(status.as_ref(), root)?;
    let activations = activations(root, &config, &other_managers::find(root));
    let answer = Answer::of(status.as_ref(), activations.into());
    output::print(&answer, arguments.json, Answer::render)?;
    Ok(ExitCode::from(u8::from(status.is_none())))
}

/// The configuration that the daemon has read, or would read.
fn effective_config(status: Option<&Status>, root: &Root) -> anyhow::Result<Config> {
    let layers = match status.map(|status| status.configuration.as_slice()) {
        Some([]) => return Ok(Config::default()),
        // A daemon that was started with --config.
        Some([file]) => Layers::read_only(file)?,
        _ => Layers::read(root)?,
    };
    Ok(layers.config)
}

impl Answer {
    fn of(status: Option<&Status>, activations: Vec<Activation>) -> Self {
        let mechanisms = activations.into_iter().map(|activation| Line::of(status, activation)).collect();
        let leases = status.into_iter().flat_map(|status| &status.leases);
        let held = leases.map(|lease| Held {
            target: lease.target.to_string(),
            value: lease.value.clone(),
            original: lease.original.clone(),
            reason: lease.reason.clone(),
        });
        Self { running: status.is_some(), mechanisms, held: held.collect() }
    }

    fn render(&self) -> String {
        let mut lines = Vec::new();
        if !self.running {
            lines.push("no daemon is running; `brisk daemon` would start with".to_owned());
        }
        for Line { mechanism, on, reason, now } in &self.mechanisms {
            let now = now.as_ref().map(|now| format!("{now}; ")).unwrap_or_default();
            lines.push(format!("{mechanism:<14} {:<4} {now}{reason}", if *on { "on" } else { "off" }));
        }
        for Held { target, value, original, reason } in &self.held {
            lines.push(format!("{target} is {value} in place of {original}: {reason}"));
        }
        lines.join("\n") + "\n"
    }
}

impl Line {
    /// A running daemon's own report takes precedence over the `activation` computed here.
    fn of(status: Option<&Status>, activation: Activation) -> Self {
        let Activation { mechanism, on, reason, .. } = activation;
        if let Some(part) = status.and_then(|status| status.part(mechanism)) {
            return Self { mechanism: mechanism.to_owned(), on: part.on, reason: part.reason.clone(), now: None };
        }
        let reported = status.and_then(|status| status.mechanisms.iter().find(|it| it.name == mechanism));
        let Some(reported) = reported else {
            return Self { mechanism: mechanism.to_owned(), on, reason, now: None };
        };
        let on = reported.support.state == SupportState::Active;
        let now = reported.activity.as_ref().map(|activity| activity.text.clone());
        Self { mechanism: mechanism.to_owned(), on, reason: reported.support.reason.clone(), now }
    }
}
