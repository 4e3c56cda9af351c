//! The lines of an export as JSON. A flat record with every key of every kind is read and then checked: serde's tagged enums
//! buffer each line, which takes three times as long.

use serde::{Deserialize, Deserializer};

use super::text::{Hash, Text};
use super::{Fact, Header, Hour, System};

/// The last line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trailer {
    pub rows: u64,
    pub crc32: u32,
}

/// The format's version by the first line, whatever else that has.
pub fn version(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        brisk_telemetry: u64,
    }
    serde_json::from_slice::<Version>(line).ok().map(|version| version.brisk_telemetry)
}

pub fn trailer(line: &[u8]) -> Option<Trailer> {
    serde_json::from_slice(line).ok()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireHeader<'a> {
    #[serde(rename = "brisk_telemetry")]
    version: u64,
    device: Hash,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow, rename = "build")]
    _build: Text<'a>,
    #[serde(borrow, rename = "kernel")]
    _kernel: Text<'a>,
    #[serde(borrow)]
    architecture: Text<'a>,
    memory_kib: Whole,
    cpus: Whole,
    #[serde(borrow, rename = "governor")]
    _governor: Text<'a>,
    #[serde(borrow, rename = "brisk")]
    _brisk: Text<'a>,
    exported_at_s: i64,
}

/// The first line with the format's version.
pub fn header(line: &[u8]) -> Result<(u64, Header<'_>), String> {
    let header: WireHeader<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let WireHeader { version, device, model, architecture, memory_kib, cpus, exported_at_s, .. } = header;
    let (memory_kib, cpus) = (memory_kib.0, cpus.0);
    Ok((version, Header { device: device.0, model, architecture, memory_kib, cpus, exported_at_s }))
}

/// A key's value, if it is there.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Field<T> {
    #[default]
    Absent,
    Null,
    Value(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<T>::deserialize(deserializer).map(|value| value.map_or(Self::Null, Self::Value))
    }
}

impl<T> Field<T> {
    fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    fn required(self, key: &str) -> Result<T, String> {
        self.nullable(key)?.ok_or_else(|| format!("{key} is null"))
    }

    fn nullable(self, key: &str) -> Result<Option<T>, String> {
        match self {
            Self::Value(value) => Ok(Some(value)),
            Self::Null => Ok(None),
            Self::Absent => Err(format!("{key} is missing")),
        }
    }
}

/// A count, a size or a time: whole and not negative. What no device can have measured is refused, as below.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Whole(i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let is_possible = (0..=1_000_000_000_000).contains(&number);
        if is_possible { Ok(Self(number)) } else { Err(serde::de::Error::custom("a number is out of range")) }
    }
}

/// A number with decimals and a sign.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number.abs() <= 1e12 { Ok(Self(number)) } else { Err(serde::de::Error::custom("a number is out of range")) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Start,
    Launch,
    Boot,
    Kill,
    Hour,
    Trial,
    Switch,
}

macro_rules! wire_row {
    ($($key:ident: $type:ty),+ $(,)?) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct WireRow<'a> {
            row: u64,
            at_s: i64,
            #[serde(borrow)]
            boot: Text<'a>,
            kind: Kind,
            $(#[serde(default)] $key: Field<$type>,)+
            #[serde(borrow, default)]
            name: Field<Text<'a>>,
            #[serde(borrow, default)]
            governor: Field<Text<'a>>,
            #[serde(borrow, default)]
            step: Field<Text<'a>>,
            #[serde(borrow, default)]
            outcome: Field<Text<'a>>,
            #[serde(borrow, default)]
            mechanism: Field<Text<'a>>,
            #[serde(borrow, default)]
            reason: Field<Text<'a>>,
            #[serde(borrow, default)]
            brisk: Field<Text<'a>>,
            #[serde(borrow, default)]
            build: Field<Text<'a>>,
            #[serde(borrow, default)]
            kernel: Field<Text<'a>>,
        }

        impl WireRow<'_> {
            /// How many keys the row has besides those of every row.
            fn keys(&self) -> usize {
                let texts = [
                    &self.name, &self.governor, &self.step, &self.outcome, &self.mechanism, &self.reason, &self.brisk,
                    &self.build, &self.kernel,
                ];
                texts.into_iter().filter(|text| text.is_present()).count() $(+ usize::from(self.$key.is_present()))+
            }
        }
    };
}

wire_row! {
    application: Hash,
    length_ms: Whole,
    loss_ms: Number,
    boosted: bool,
    kernel_ms: Whole,
    performance_held: bool,
    freed_kib: i64,
    oom_score_adj: i16,
    headroom_kib: i64,
    period_s: Whole,
    uptime_s: Whole,
    memory_some_ms: Whole,
    memory_full_ms: Whole,
    cpu_some_ms: Whole,
    io_some_ms: Whole,
    lookup_hits: Whole,
    lookup_misses: Whole,
    cpu_ms: Whole,
    resident_kib: Whole,
    dropped_rows: Whole,
    effect_percent: Number,
    active: bool,
}

/// A line between header and trailer.
pub struct Row<'a> {
    pub row: u64,
    pub at_s: i64,
    pub boot: Option<u64>,
    pub content: Content<'a>,
}

/// What a row says.
pub enum Content<'a> {
    /// What runs from here on.
    Start(System<'a>),
    /// What happened.
    Fact(Fact<'a>),
}

/// A row, or what is wrong with it.
pub fn row(line: &str) -> Result<Row<'_>, String> {
    let wire: WireRow<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let (row, at_s, kind, keys) = (wire.row, wire.at_s, wire.kind, wire.keys());
    let boot = if wire.boot.is_empty() { None } else { Some(Hash::parse(&wire.boot).ok_or("boot is no hash")?.0) };
    let (content, expected) = content(wire)?;
    if keys != expected {
        return Err(format!("a row of kind {kind:?} has a key of another kind").to_lowercase());
    }
    Ok(Row { row, at_s, boot, content })
}

/// What a row says, and how many keys a row of this kind has.
fn content(wire: WireRow<'_>) -> Result<(Content<'_>, usize), String> {
    let (fact, keys) = match wire.kind {
        Kind::Start => {
            let (brisk, build) = (wire.brisk.required("brisk")?, wire.build.required("build")?);
            return Ok((Content::Start(System { brisk, build, kernel: wire.kernel.required("kernel")? }), 3));
        }
        Kind::Launch => (launch(wire)?, 6),
        Kind::Boot => {
            let (length_ms, kernel_ms) = (wire.length_ms.required("length_ms")?.0, whole(wire.kernel_ms, "kernel_ms")?);
            let performance_held = wire.performance_held.nullable("performance_held")?;
            (Fact::Boot { length_ms, kernel_ms, performance_held }, 3)
        }
        Kind::Kill => (kill(wire)?, 5),
        Kind::Hour => (Fact::Hour(hour(&wire)?), 11),
        Kind::Trial => {
            let (step, outcome) = (wire.step.required("step")?, wire.outcome.required("outcome")?);
            if !["kept", "dropped", "unclear"].contains(&&*outcome) {
                return Err("outcome is not kept, dropped or unclear".to_owned());
            }
            (Fact::Trial { step, outcome, effect_percent: number(wire.effect_percent, "effect_percent")? }, 3)
        }
        Kind::Switch => {
            let (mechanism, reason) = (wire.mechanism.required("mechanism")?, wire.reason.required("reason")?);
            (Fact::Switch { mechanism, active: wire.active.required("active")?, reason }, 3)
        }
    };
    Ok((Content::Fact(fact), keys))
}

fn launch(wire: WireRow<'_>) -> Result<Fact<'_>, String> {
    Ok(Fact::Launch {
        application: wire.application.required("application")?.0,
        name: wire.name.nullable("name")?,
        length_ms: whole(wire.length_ms, "length_ms")?,
        loss_ms: number(wire.loss_ms, "loss_ms")?,
        boosted: wire.boosted.required("boosted")?,
        governor: wire.governor.required("governor")?,
    })
}

fn kill(wire: WireRow<'_>) -> Result<Fact<'_>, String> {
    Ok(Fact::Kill {
        application: wire.application.required("application")?.0,
        name: wire.name.nullable("name")?,
        freed_kib: wire.freed_kib.nullable("freed_kib")?,
        oom_score_adj: i64::from(wire.oom_score_adj.required("oom_score_adj")?),
        headroom_kib: wire.headroom_kib.required("headroom_kib")?,
    })
}

fn hour(wire: &WireRow<'_>) -> Result<Hour, String> {
    Ok(Hour {
        period_s: wire.period_s.required("period_s")?.0,
        uptime_s: wire.uptime_s.required("uptime_s")?.0,
        memory_some_ms: whole(wire.memory_some_ms, "memory_some_ms")?,
        memory_full_ms: whole(wire.memory_full_ms, "memory_full_ms")?,
        cpu_some_ms: whole(wire.cpu_some_ms, "cpu_some_ms")?,
        io_some_ms: whole(wire.io_some_ms, "io_some_ms")?,
        lookup_hits: whole(wire.lookup_hits, "lookup_hits")?,
        lookup_misses: whole(wire.lookup_misses, "lookup_misses")?,
        cpu_ms: wire.cpu_ms.required("cpu_ms")?.0,
        resident_kib: wire.resident_kib.required("resident_kib")?.0,
        dropped_rows: wire.dropped_rows.required("dropped_rows")?.0,
    })
}

fn whole(field: Field<Whole>, key: &str) -> Result<Option<i64>, String> {
    Ok(field.nullable(key)?.map(|whole| whole.0))
}

fn number(field: Field<Number>, key: &str) -> Result<Option<f64>, String> {
    Ok(field.nullable(key)?.map(|number| number.0))
}
