//! A device's export of telemetry (docs/telemetry.md), checked as a whole: it is good, or it is refused with its fault. What is
//! decided here depends on the file alone, so that the order of imports does not matter.

mod text;
mod wire;

pub use text::Text;

use crc::{CRC_32_ISO_HDLC, Crc, Table};

use crate::FORMAT;
use crate::evidence::{Claim, Part, Phase};
use crate::fault::Fault;

/// 2020-01-01: no device with brisk has run before.
pub const EARLIEST_S: i64 = 1_577_836_800;
/// How far a right clock may step back, or be ahead of ours.
pub const TOLERANCE_S: i64 = 86_400;

static CHECKSUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// The first line: who exports, and what it is at that moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Header<'a> {
    /// The device's salted hash.
    pub device: u64,
    /// Empty where unknown.
    pub model: Text<'a>,
    /// Of its program.
    pub architecture: Text<'a>,
    /// All memory; 0 where unknown.
    pub memory_kib: i64,
    /// CPUs online.
    pub cpus: i64,
    /// When, by the device's clock, in seconds after 1970.
    pub exported_at_s: i64,
}

/// What ran on the device. All are empty where the row that says it was lost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct System<'a> {
    /// The version of brisk.
    pub brisk: Text<'a>,
    /// The build of the system.
    pub build: Text<'a>,
    /// The kernel's release.
    pub kernel: Text<'a>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// Its number, unique on the device.
    pub row: u64,
    /// When, by the device's clock, in seconds after 1970.
    pub at_s: i64,
    /// The hash of the boot in which it happened.
    pub boot: Option<u64>,
    /// The place in [`Export::systems`] of what ran then.
    pub system: usize,
    /// What.
    pub fact: Fact<'a>,
}

/// The kinds of rows. `None` is a value that the device does not know; applications are hashes.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact<'a> {
    /// An application opened.
    Launch {
        application: u64,
        name: Option<Text<'a>>,
        length_ms: Option<i64>,
        loss_ms: Option<f64>,
        boosted: bool,
        governor: Text<'a>,
    },
    /// The device booted.
    Boot { length_ms: i64, kernel_ms: Option<i64>, performance_held: Option<bool> },
    /// A process was killed for its memory.
    Kill { application: u64, name: Option<Text<'a>>, freed_kib: Option<i64>, oom_score_adj: i64, headroom_kib: i64 },
    /// An hour passed.
    Hour(Hour),
    /// A step of placement was tried.
    Trial { step: Text<'a>, outcome: Text<'a>, effect_percent: Option<f64> },
    /// A mechanism was found on or off, or was switched.
    Switch { mechanism: Text<'a>, active: bool, reason: Text<'a> },
    /// A claim was judged. These are of files beside exports, and rare: boxes keep rows of exports small.
    Claim(Box<Claim>),
    /// A phase of a recorded boot.
    Phase(Box<Phase>),
    /// A part of an explained trace.
    Part(Box<Part>),
}

/// Figures of a period of about an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hour {
    /// How long it was.
    pub period_s: i64,
    /// Since the start of the kernel.
    pub uptime_s: i64,
    pub memory_some_ms: Option<i64>,
    pub memory_full_ms: Option<i64>,
    pub cpu_some_ms: Option<i64>,
    pub io_some_ms: Option<i64>,
    pub lookup_hits: Option<i64>,
    pub lookup_misses: Option<i64>,
    /// CPU time of brisk's processes.
    pub cpu_ms: i64,
    /// Their memory.
    pub resident_kib: i64,
    /// Rows that the device could not store.
    pub dropped_rows: i64,
}

/// A good export.
#[derive(Debug, Clone, PartialEq)]
pub struct Export<'a> {
    /// Its first line.
    pub header: Header<'a>,
    /// What ran on the device, one after the other; the first is unknown.
    pub systems: Vec<System<'a>>,
    /// By row number, without those that only say what runs.
    pub rows: Vec<Row<'a>>,
    /// Numbers and lines of rows from before 2020, when the device's clock was not yet set: nothing says on which day they belong.
    pub undated: Vec<(u64, &'a str)>,
    /// The numbers of all rows, as ranges with both ends.
    pub ranges: Vec<(u64, u64)>,
}

/// Whether a file can be of `exported_at_s`, at the time `now_s`, both in seconds after 1970.
///
/// # Errors
/// The fault of a clock that is off.
pub fn check_clock(exported_at_s: i64, now_s: i64) -> Result<(), Fault> {
    match exported_at_s {
        ..EARLIEST_S => Err(Fault::PastClock { exported_at_s }),
        _ if exported_at_s > now_s.saturating_add(TOLERANCE_S) => Err(Fault::FutureClock { exported_at_s }),
        _ => Ok(()),
    }
}

impl<'a> Export<'a> {
    /// Reads an export at the time `now_s`, in seconds after 1970.
    ///
    /// # Errors
    /// The fault for which the whole file is set aside.
    pub fn parse(bytes: &'a [u8], now_s: i64) -> Result<Self, Fault> {
        let (first, after) = split_line(bytes).unwrap_or((bytes, &[]));
        let header = wire::header(first);
        let version = match &header {
            Ok((version, _)) => *version,
            // Another version may have other keys.
            Err(_) => wire::version(first).ok_or(Fault::Foreign)?,
        };
        if version != FORMAT {
            return Err(Fault::OtherVersion(version));
        }
        let body = checked_body(bytes, first.len() + 1)?;
        let (_, header) = header.map_err(|what| Fault::Line { line: 1, what })?;
        let exported_at_s = header.exported_at_s;
        check_clock(exported_at_s, now_s)?;
        let lines = std::str::from_utf8(&after[..body.bytes]).map_err(|error| Fault::Line {
            line: line_at(after, error.valid_up_to()),
            what: "is not UTF-8".to_owned(),
        })?;
        let mut reading = Reading::new(exported_at_s, body.rows);
        for (index, line) in lines.split_terminator('\n').enumerate() {
            let row = wire::row(line).map_err(|what| Fault::Line { line: index + 2, what })?;
            reading.take(row, line, index + 2)?;
        }
        if reading.count != body.rows {
            return Err(Fault::RowCount { stated: body.rows, found: reading.count });
        }
        let Reading { systems, rows, undated, ranges, .. } = reading;
        Ok(Self { header, systems, rows, undated, ranges })
    }
}

/// The lines between header and trailer.
struct Body {
    bytes: usize,
    rows: u64,
}

/// Checks the trailer, which is the last line.
fn checked_body(bytes: &[u8], start: usize) -> Result<Body, Fault> {
    let whole = bytes.strip_suffix(b"\n").ok_or(Fault::Half)?;
    let begin = whole.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let trailer = wire::trailer(&whole[begin..]).filter(|_| begin >= start).ok_or(Fault::Half)?;
    let found = CHECKSUM.checksum(&bytes[..begin]);
    if found != trailer.crc32 {
        return Err(Fault::Checksum { stated: trailer.crc32, found });
    }
    Ok(Body { bytes: begin - start, rows: trailer.rows })
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// The line of the file in which byte `at` of what follows the header is.
fn line_at(bytes: &[u8], at: usize) -> usize {
    2 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count()
}

/// The rows so far.
struct Reading<'a> {
    exported_at_s: i64,
    latest_s: i64,
    last_row: Option<u64>,
    count: u64,
    systems: Vec<System<'a>>,
    rows: Vec<Row<'a>>,
    undated: Vec<(u64, &'a str)>,
    ranges: Vec<(u64, u64)>,
}

impl<'a> Reading<'a> {
    fn new(exported_at_s: i64, rows: u64) -> Self {
        // The trailer's count is not checked yet: room for an ordinary export, not for what a forged one claims.
        let rows = Vec::with_capacity(rows.min(10_000) as usize);
        let (systems, undated, ranges) = (vec![System::default()], Vec::new(), Vec::new());
        Self { exported_at_s, latest_s: i64::MIN, last_row: None, count: 0, systems, rows, undated, ranges }
    }

    fn take(&mut self, wire: wire::Row<'a>, line: &'a str, number: usize) -> Result<(), Fault> {
        let wire::Row { row, at_s, boot, content } = wire;
        if let Some(last) = self.last_row.filter(|last| *last >= row) {
            return Err(Fault::Line { line: number, what: format!("row {row} follows row {last}") });
        }
        self.last_row = Some(row);
        self.count += 1;
        match self.ranges.last_mut() {
            Some((_, to)) if *to + 1 == row => *to = row,
            _ => self.ranges.push((row, row)),
        }
        let fact = match content {
            wire::Content::Fact(fact) => fact,
            // Only the order counts: what started before the clock was set has started, too.
            wire::Content::Start(system) => {
                self.systems.push(system);
                return Ok(());
            }
        };
        if at_s < EARLIEST_S {
            self.undated.push((row, line));
            return Ok(());
        }
        if at_s < self.latest_s.saturating_sub(TOLERANCE_S) || at_s > self.exported_at_s + TOLERANCE_S {
            return Err(Fault::RowClock { row });
        }
        self.latest_s = self.latest_s.max(at_s);
        self.rows.push(Row { row, at_s, boot, system: self.systems.len() - 1, fact });
        Ok(())
    }
}

impl Fact<'_> {
    /// The word that names this kind, in exports too.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Launch { .. } => "launch",
            Self::Boot { .. } => "boot",
            Self::Kill { .. } => "kill",
            Self::Hour(_) => "hour",
            Self::Trial { .. } => "trial",
            Self::Switch { .. } => "switch",
            Self::Claim(_) => "claim",
            Self::Phase(_) => "phase",
            Self::Part(_) => "part",
        }
    }
}

/// The hash that an export prints as `text`: 16 hexadecimal digits.
pub fn hash(text: &str) -> Option<u64> {
    text::Hash::parse(text).map(|hash| hash.0)
}

/// Appends the trailer to `text`, which has the header and its rows.
pub fn seal(text: &mut String, rows: u64) {
    use std::fmt::Write as _;
    let crc32 = CHECKSUM.checksum(text.as_bytes());
    // Writing to a String cannot fail.
    let _ = writeln!(text, r#"{{"rows":{rows},"crc32":{crc32}}}"#);
}

#[cfg(test)]
mod tests;
