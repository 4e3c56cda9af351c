//! Telemetry: what happens at the end of each turn of the loop, so that a row costs no wake-up. `writer` does the rest on a thread of
//! its own.

mod hour;
mod writer;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Engine, Purpose};
use brisk_config::TelemetryConfig;
use brisk_mechanism::{HourFigures, Mechanism, SupportState};
use brisk_sys::BootTime;
use brisk_telemetry::row::Record;
use brisk_telemetry::store::StoreOptions;
use hour::Readings;
use writer::Writer;

/// The least time that a row of kind `hour` covers, except the last one of a daemon.
const HOUR: Duration = Duration::from_secs(3600);
/// If nothing else wakes the daemon for this long after that, its timer does.
const SLACK: Duration = Duration::from_secs(600);
/// The most rows of a kind in that time.
const MAXIMUM_ROWS: u32 = 240;
/// The pause after the first vain attempt to make slow observations; later ones are as long as the time since the start.
const SURVEY_PAUSE: Duration = Duration::from_secs(60);

/// The state of telemetry, for `brisk status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryStatus {
    /// The folder of the store.
    pub folder: String,
    /// The number of the last row.
    pub last_row: u64,
    /// What the rows take on disk.
    pub bytes: u64,
    /// The most that they may take.
    pub size_kib: u64,
    /// Bytes that belonged to no row when the store was opened.
    pub damaged_bytes: u64,
    /// Rows that were not stored since the daemon started.
    pub dropped_rows: u64,
    /// Why rows are not stored now.
    pub error: Option<String>,
}

/// What the engine keeps for telemetry.
#[derive(Debug, Default)]
pub(super) struct Telemetry {
    config: TelemetryConfig,
    /// While it is on.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    writer: Writer,
    began: BootTime,
    /// The start of the present hour, and what was read then.
    hour_began: BootTime,
    readings: Readings,
    rows: RowCounts,
    /// Dropped rows that a row of kind `hour` has told of.
    reported_drops: u64,
    /// Rows dropped because there were too many of their kind.
    excess_rows: u64,
    survey_due: BootTime,
    switches: Vec<Switch>,
}

/// The last known state of a mechanism, or of a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Switch {
    name: String,
    state: SupportState,
}

/// How many rows of each kind there were in this hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RowCounts([u32; Record::KINDS]);

impl RowCounts {
    /// Counts `record`; false if there are too many of its kind.
    fn admit(&mut self, record: &Record) -> bool {
        let count = &mut self.0[record.kind()];
        *count += 1;
        *count <= MAXIMUM_ROWS
    }
}

impl Telemetry {
    /// When the daemon's timer ends the hour, if nothing else wakes the daemon before.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.running.as_ref().map(|running| running.hour_began + HOUR + SLACK)
    }

    /// Its state; `None` while it is off.
    pub(super) fn status(&self) -> Option<TelemetryStatus> {
        let running = self.running.as_ref()?;
        let mut status = running.writer.status();
        status.size_kib = self.config.size_kib;
        status.dropped_rows += running.excess_rows;
        Some(status)
    }
}

impl Running {
    fn send(&mut self, record: Record) {
        if self.rows.admit(&record) {
            self.writer.send(record);
        } else {
            self.excess_rows += 1;
        }
    }

    /// Sends the state of each mechanism and part that has changed.
    fn update_switches<'a>(&mut self, states: impl Iterator<Item = (&'a str, SupportState)>) {
        for (name, state) in states {
            match self.switches.iter_mut().find(|known| known.name == name) {
                Some(known) if known.state == state => continue,
                Some(known) => known.state = state,
                None => self.switches.push(Switch { name: name.to_owned(), state }),
            }
            let reason = match state {
                SupportState::Active => "",
                SupportState::Available => "off",
                SupportState::Unsupported => "unsupported",
            };
            let active = state == SupportState::Active;
            self.send(Record::Switch { mechanism: name.to_owned(), active, reason });
        }
    }
}

/// The mechanism and its parts: a part that is off may be unsupported, but does not say so.
fn states(mechanism: &dyn Mechanism) -> impl Iterator<Item = (&str, SupportState)> {
    let parts = mechanism.parts().iter().map(|part| {
        let state = if part.on { SupportState::Active } else { SupportState::Available };
        (part.name.as_str(), state)
    });
    std::iter::once((mechanism.name(), mechanism.support().state)).chain(parts)
}

impl Engine {
    /// Begins, ends or continues telemetry under the present configuration.
    pub(super) fn configure_telemetry(&mut self, now: BootTime) {
        let config = self.layers.config.telemetry.clone();
        if self.options.purpose != Purpose::Daemon || config == self.telemetry.config {
            return;
        }
        let options = StoreOptions { size_bytes: config.size_kib << 10, names: config.names.clone() };
        match &mut self.telemetry.running {
            Some(running) if config.enabled => running.writer.reopen(options),
            Some(_) => {
                self.send_last_rows(now);
                self.end_telemetry();
            }
            None if config.enabled => self.begin_telemetry(now, options),
            None => {}
        }
        self.telemetry.config = config;
    }

    fn begin_telemetry(&mut self, now: BootTime, options: StoreOptions) {
        let observers = self.mechanisms.all().filter_map(|mechanism| mechanism.slow_observer()).collect();
        let writer = match Writer::start(&self.options.root, options, observers) {
            Ok(writer) => writer,
            Err(error) => return tracing::warn!("telemetry is off: cannot start a thread: {error}"),
        };
        self.mechanisms.add_hour_figures(&self.options.root, &mut HourFigures::default());
        self.telemetry.running = Some(Running {
            writer,
            began: now,
            hour_began: now,
            readings: Readings::read(&self.options.root, &self.own_processes()),
            rows: RowCounts::default(),
            reported_drops: 0,
            excess_rows: 0,
            survey_due: now,
            switches: Vec::new(),
        });
        self.observe(now);
    }

    /// Sends what is left, and the last hour: while the children still run, whose cost is a part of it.
    pub(super) fn send_last_rows(&mut self, now: BootTime) {
        self.observe(now);
        self.end_hour(now);
    }

    /// Waits until all is stored, and closes the store.
    pub(super) fn end_telemetry(&mut self) {
        self.telemetry.running = None;
    }

    /// Sends what mechanisms have observed in this turn of the loop, and the hour when it is over.
    pub(super) fn end_turn(&mut self) {
        if self.telemetry.running.is_none() {
            return;
        }
        let now = BootTime::now();
        self.observe(now);
        if self.telemetry.running.as_ref().is_some_and(|running| now >= running.hour_began + HOUR) {
            self.with_normal_priority(|engine| engine.end_hour(now));
        }
    }

    fn observe(&mut self, now: BootTime) {
        let Some(running) = &mut self.telemetry.running else { return };
        let mut observations = Vec::new();
        self.mechanisms.take_observations(&mut observations);
        for observation in observations {
            running.send(Record::Observation(observation));
        }
        running.update_switches(self.mechanisms.all().flat_map(states));
        if now >= running.survey_due {
            running.survey_due = now + now.since(running.began).max(SURVEY_PAUSE);
            running.writer.survey();
        }
    }

    fn end_hour(&mut self, now: BootTime) {
        if self.telemetry.running.is_none() {
            return;
        }
        let readings = Readings::read(&self.options.root, &self.own_processes());
        let mut figures = HourFigures::default();
        self.mechanisms.add_hour_figures(&self.options.root, &mut figures);
        let Some(running) = &mut self.telemetry.running else { return };
        let drops = running.writer.status().dropped_rows + running.excess_rows;
        let mut hour = readings.since(&running.readings);
        hour.period_s = now.since(running.hour_began).as_secs();
        hour.uptime_s = now.nanoseconds() / 1_000_000_000;
        hour.add(figures);
        hour.dropped_rows = drops - running.reported_drops;
        running.reported_drops = drops;
        running.rows = RowCounts::default();
        (running.hour_began, running.readings) = (now, readings);
        running.send(Record::Hour(hour));
    }

    /// The daemon's process and those that it has started.
    fn own_processes(&self) -> Vec<u32> {
        std::iter::once(std::process::id()).chain(self.guarding.pid()).chain(self.children.processes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_mechanism::Observation;

    #[test]
    fn so_many_rows_of_a_kind_are_stored_and_no_more() {
        let mut counts = RowCounts::default();
        let switch = || Record::Switch { mechanism: String::new(), active: true, reason: "" };
        let admitted = (0..1_000).filter(|_| counts.admit(&switch())).count();
        assert_eq!(admitted, MAXIMUM_ROWS as usize);
        let boot = Observation::Boot { length_ms: 1, kernel_ms: None, performance_held: None };
        assert!(counts.admit(&Record::Observation(boot)), "each kind has its own number");
    }
}
