//! `brisk status`: the daemon's state, with times and reasons.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::output;
use brisk_daemon::control::connection::{Connection, ConnectionError};
use brisk_daemon::control::protocol::Request;
use brisk_daemon::executor::describe;
use brisk_daemon::status::{MechanismStatus, Status};
use brisk_daemon::telemetry::TelemetryStatus;
use brisk_mechanism::{Part, SupportState};
use brisk_sys::{BootTime, Root};

const SHOWN_DECISIONS: usize = 8;

/// Arguments of `brisk status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 0 when the daemon is running, 1 when it is not.

Examples:
  brisk status              text
  brisk status --json       everything, for programs
  brisk status --metrics    counters and latencies as OpenMetrics text
  brisk status --http       for brisk-metrics.socket, which Prometheus reads")]
pub struct Arguments {
    /// Print everything as one JSON object
    #[arg(long, conflicts_with = "metrics")]
    pub json: bool,
    /// Print the counters as OpenMetrics text
    #[arg(long)]
    pub metrics: bool,
    /// Answer one HTTP request on standard input with them
    #[arg(long, conflicts_with_all = ["json", "metrics"])]
    pub http: bool,
}

/// Asks the daemon and prints its answer.
///
/// # Errors
/// When the daemon does not answer, or this user may not use the socket.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    if arguments.http {
        let fetch = || metrics(&mut Connection::open(root)?);
        super::metrics_http::serve(std::io::stdin(), std::io::stdout(), fetch).context("the client has gone")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut connection = match Connection::open(root) {
        Ok(connection) => connection,
        Err(error @ ConnectionError::NoDaemon { .. }) => {
            if arguments.json {
                writeln!(anstream::stdout(), "{{\"running\":false}}")?;
            }
            writeln!(anstream::stderr(), "brisk: {error}")?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(error.into()),
    };
    let mut stdout = anstream::stdout();
    if arguments.metrics {
        write!(stdout, "{}", metrics(&mut connection)?)?;
    } else {
        let answer = connection.request(Request::Status)?;
        if arguments.json {
            writeln!(stdout, "{answer}")?;
        } else {
            let status: Status = serde_json::from_value(answer).context("the daemon has another version of brisk")?;
            output::print_text(&render(&status))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn metrics(connection: &mut Connection) -> anyhow::Result<String> {
    let text = connection.request(Request::Metrics)?;
    Ok(text.as_str().context("the daemon sent no metrics")?.to_owned())
}

fn render(status: &Status) -> String {
    let mut lines = vec![format!(
        "brisk {} runs as process {} since {}{}",
        status.brisk,
        status.pid,
        ago(status.now, status.since),
        if status.dry_run { " (dry run: it writes nothing)" } else { "" }
    )];
    match &status.configuration_error {
        Some(error) => lines.push(format!("  configuration  INVALID, the previous one is in force: {error}")),
        None if status.configuration.is_empty() => lines.push("  configuration  built-in defaults".to_owned()),
        None => {
            let files: Vec<_> = status.configuration.iter().map(|file| file.display().to_string()).collect();
            lines.push(format!("  configuration  {}", files.join(", ")));
        }
    }
    lines.push(format!("  process events {}", status.sensors.process_events));
    lines.push(format!("  foreground     {}", status.sensors.foreground));
    lines.push(format!("  scheduling     {}", status.sensors.scheduling));
    let guardian = status.guardian_pid.map_or("none".to_owned(), |pid| format!("process {pid}"));
    lines.push(format!("  guardian       {guardian}"));
    if let Some(telemetry) = &status.telemetry {
        lines.push(format!("  telemetry      {}", telemetry_text(telemetry)));
    }
    for mechanism in &status.mechanisms {
        render_mechanism(status, mechanism, &mut lines);
    }
    if !status.leases.is_empty() {
        lines.push("\nleased now".to_owned());
        for lease in &status.leases {
            lines.push(format!(
                "  {} holds {} in place of {}, {}: {}",
                lease.target,
                lease.value,
                lease.original,
                lease.end(status.now),
                lease.reason
            ));
        }
    }
    if !status.decisions.is_empty() {
        lines.push("\nlast decisions".to_owned());
        for executed in status.decisions.iter().rev().take(SHOWN_DECISIONS) {
            let outcome = executed.error.as_ref().map(|error| format!(" FAILED: {error}")).unwrap_or_default();
            let (action, reason) = (describe(&executed.decision.action), &executed.decision.reason);
            lines.push(format!("  {}: {action}: {reason}{outcome}", ago(status.now, executed.at)));
        }
    }
    render_metrics(status, &mut lines);
    lines.join("\n") + "\n"
}

fn telemetry_text(telemetry: &TelemetryStatus) -> String {
    let TelemetryStatus { folder, last_row, bytes, size_kib, damaged_bytes, dropped_rows, error } = telemetry;
    let mut text = match error {
        Some(error) => format!("NOT STORED, will retry: {error}"),
        None => format!("up to row {last_row}, {} of {size_kib} KiB in {folder}", bytes.div_ceil(1024)),
    };
    if *damaged_bytes > 0 {
        text += &format!("; {damaged_bytes} bytes belonged to no row");
    }
    if *dropped_rows > 0 {
        text += &format!("; {dropped_rows} rows were dropped");
    }
    text
}

fn render_mechanism(status: &Status, mechanism: &MechanismStatus, lines: &mut Vec<String>) {
    let state = match mechanism.support.state {
        SupportState::Active => "active",
        SupportState::Available => "off",
        SupportState::Unsupported => "unsupported",
    };
    lines.push(format!("\n{}: {state}", mechanism.name));
    lines.push(format!("  {}", mechanism.support.reason));
    if !mechanism.support.advice.is_empty() {
        lines.push(format!("  {}", mechanism.support.advice));
    }
    for Part { name, on, reason } in &mechanism.parts {
        lines.push(format!("  {name:<14} {:<4} {reason}", if *on { "on" } else { "off" }));
    }
    if let Some(activity) = &mechanism.activity {
        lines.push(format!("  {} since {}", activity.text, ago(status.now, activity.since)));
    }
}

fn render_metrics(status: &Status, lines: &mut Vec<String>) {
    let metrics = &status.metrics;
    lines.push(format!(
        "\n{} launches, {} process events ({} times lost), {} decisions ({} failed), {} requests",
        metrics.launches,
        metrics.process_events,
        metrics.process_events_lost,
        metrics.decisions,
        metrics.failures,
        metrics.requests
    ));
    let histograms = [("event to write", &metrics.event_to_write), ("  wake-up to write", &metrics.wake_to_write)];
    for (what, histogram) in histograms {
        if let (Some(half), Some(most)) = (histogram.quantile_us(500), histogram.quantile_us(990)) {
            lines.push(format!(
                "{what}: median {half} us, 99th percentile {most} us, maximum {} us",
                histogram.maximum_us
            ));
        }
    }
}

fn ago(now: BootTime, then: BootTime) -> String {
    let seconds = now.since(then).as_secs_f64();
    match seconds {
        ..1.0 => format!("{:.0} ms ago", seconds * 1_000.0),
        ..120.0 => format!("{seconds:.1} s ago"),
        ..7_200.0 => format!("{:.0} min ago", seconds / 60.0),
        _ => format!("{:.1} h ago", seconds / 3_600.0),
    }
}
