//! The tables of the data set: one for each kind of row, with a schema whose version is in every file.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use crate::evidence::{Claim, Part, Phase};
use crate::export::{Export, Fact, Hour, Row};

/// Raised when a column is removed or changes its meaning; a new column at the end does not raise it.
pub const SCHEMA: u32 = 1;
/// The key in a file's metadata whose value is [`SCHEMA`].
pub const SCHEMA_KEY: &str = "brisk.fleet.schema";
/// The key whose value is the table's name.
pub const TABLE_KEY: &str = "brisk.fleet.table";

/// A table of the data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    Launches,
    Boots,
    Kills,
    Hours,
    Trials,
    Switches,
    Claims,
    Phases,
    Parts,
}

/// A column's type, and whether a device may not know its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Long,
    MaybeLong,
    MaybeDouble,
    Flag,
    MaybeFlag,
    Text,
    MaybeText,
}

/// Hashes are the signed integers of their bits: both engines group by them several times as fast as by texts.
const COMMON: [(&str, Type); 8] = [
    ("device", Type::Long),
    ("number", Type::Long),
    ("at_s", Type::Long),
    ("boot", Type::MaybeLong),
    ("memory_kib", Type::Long),
    ("cpus", Type::Long),
    ("kernel", Type::Text),
    ("brisk", Type::Text),
];

impl Table {
    /// All of them; those of exports come first.
    pub const ALL: [Self; 9] = [
        Self::Launches,
        Self::Boots,
        Self::Kills,
        Self::Hours,
        Self::Trials,
        Self::Switches,
        Self::Claims,
        Self::Phases,
        Self::Parts,
    ];
    /// How many of them have rows of exports.
    pub const OF_EXPORTS: usize = 6;

    /// Its name: the folder, and the view of the questions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launches => "launches",
            Self::Boots => "boots",
            Self::Kills => "kills",
            Self::Hours => "hours",
            Self::Trials => "trials",
            Self::Switches => "switches",
            Self::Claims => "claims",
            Self::Phases => "phases",
            Self::Parts => "parts",
        }
    }

    /// The table of a row.
    pub fn of(fact: &Fact<'_>) -> Self {
        match fact {
            Fact::Launch { .. } => Self::Launches,
            Fact::Boot { .. } => Self::Boots,
            Fact::Kill { .. } => Self::Kills,
            Fact::Hour(_) => Self::Hours,
            Fact::Trial { .. } => Self::Trials,
            Fact::Switch { .. } => Self::Switches,
            Fact::Claim(_) => Self::Claims,
            Fact::Phase(_) => Self::Phases,
            Fact::Part(_) => Self::Parts,
        }
    }

    fn own_columns(self) -> &'static [(&'static str, Type)] {
        use Type::{Flag, Long, MaybeDouble, MaybeFlag, MaybeLong, MaybeText, Text};
        match self {
            Self::Launches => &[
                ("application", Long),
                ("name", MaybeText),
                ("length_ms", MaybeLong),
                ("loss_ms", MaybeDouble),
                ("boosted", Flag),
                ("governor", Text),
            ],
            Self::Boots => &[("length_ms", Long), ("kernel_ms", MaybeLong), ("performance_held", MaybeFlag)],
            Self::Kills => &[
                ("application", Long),
                ("name", MaybeText),
                ("freed_kib", MaybeLong),
                ("oom_score_adj", Long),
                ("headroom_kib", Long),
            ],
            Self::Hours => &[
                ("period_s", Long),
                ("uptime_s", Long),
                ("memory_some_ms", MaybeLong),
                ("memory_full_ms", MaybeLong),
                ("cpu_some_ms", MaybeLong),
                ("io_some_ms", MaybeLong),
                ("lookup_hits", MaybeLong),
                ("lookup_misses", MaybeLong),
                ("cpu_ms", Long),
                ("resident_kib", Long),
                ("dropped_rows", Long),
            ],
            Self::Trials => &[("step", Text), ("outcome", Text), ("effect_percent", MaybeDouble)],
            Self::Switches => &[("mechanism", Text), ("active", Flag), ("reason", Text)],
            Self::Claims => &[
                ("file", Long),
                ("experiment", Text),
                ("claim", Text),
                ("arm", MaybeText),
                ("point", Text),
                ("unit", Text),
                ("required", Text),
                ("measured", MaybeDouble),
                ("low", MaybeDouble),
                ("high", MaybeDouble),
                ("p", MaybeDouble),
                ("verdict", Text),
                ("timekeeping", Text),
                ("place", Text),
                ("quick", Flag),
            ],
            Self::Phases => &[
                ("file", Long),
                ("recorded_by", Text),
                ("limited_by", Text),
                ("start_ms", Long),
                ("end_ms", Long),
                ("busy_cpus", MaybeDouble),
                ("disk_busy_percent", MaybeDouble),
                ("speed_percent", MaybeDouble),
                ("io_stall_percent", MaybeDouble),
                ("memory_stall_percent", MaybeDouble),
            ],
            Self::Parts => &[
                ("file", Long),
                ("window_number", Long),
                ("launch", MaybeText),
                ("thread", Text),
                ("window_ms", MaybeDouble),
                ("cause", Text),
                ("subject", MaybeText),
                ("on_behalf", MaybeText),
                ("on_behalf_of", MaybeText),
                ("length_ms", MaybeDouble),
                ("pieces", Long),
            ],
        }
    }

    fn columns(self) -> impl Iterator<Item = (&'static str, Type)> {
        COMMON.iter().chain(self.own_columns()).copied()
    }

    /// Its schema; date, build and model are in the folders' names.
    pub fn schema(self) -> Schema {
        let fields: Vec<Field> = self
            .columns()
            .map(|(name, kind)| {
                let (data, nullable) = match kind {
                    Type::Long => (DataType::Int64, false),
                    Type::MaybeLong => (DataType::Int64, true),
                    Type::MaybeDouble => (DataType::Float64, true),
                    Type::Flag => (DataType::Boolean, false),
                    Type::MaybeFlag => (DataType::Boolean, true),
                    Type::Text => (DataType::Utf8, false),
                    Type::MaybeText => (DataType::Utf8, true),
                };
                Field::new(name, data, nullable)
            })
            .collect();
        Schema::new(fields)
    }

    /// The columns that grow with each row, and compress best as differences.
    pub fn growing() -> [&'static str; 2] {
        ["number", "at_s"]
    }

    /// The columns of measured numbers, which a dictionary does not shorten.
    pub fn measured(self) -> impl Iterator<Item = &'static str> {
        self.columns().filter(|(_, kind)| *kind == Type::MaybeDouble).map(|(name, _)| name)
    }
}

/// A value of a row.
enum Value<'a> {
    Long(Option<i64>),
    Double(Option<f64>),
    Flag(Option<bool>),
    Text(Option<&'a str>),
}

enum Column {
    Long(Int64Builder),
    Double(Float64Builder),
    Flag(BooleanBuilder),
    Text(StringBuilder),
}

/// Rows of one table in memory, column by column.
pub struct Rows {
    table: Table,
    columns: Vec<Column>,
}

impl Rows {
    /// None yet.
    pub fn new(table: Table) -> Self {
        // Without room for a thousand rows: there are as many partitions as days, builds and models, and most are small.
        let columns = table.columns().map(|(_, kind)| match kind {
            Type::Long | Type::MaybeLong => Column::Long(Int64Builder::with_capacity(0)),
            Type::MaybeDouble => Column::Double(Float64Builder::with_capacity(0)),
            Type::Flag | Type::MaybeFlag => Column::Flag(BooleanBuilder::with_capacity(0)),
            Type::Text | Type::MaybeText => Column::Text(StringBuilder::with_capacity(0, 0)),
        });
        Self { table, columns: columns.collect() }
    }

    /// Appends a row of this table from `export`.
    pub fn push(&mut self, export: &Export<'_>, row: &Row<'_>) {
        let (header, system) = (&export.header, &export.systems[row.system]);
        let (common, own) = self.columns.split_at_mut(COMMON.len());
        let (device, number) = (header.device.cast_signed(), row.row.cast_signed());
        let numbers = [long(device), long(number), long(row.at_s), Value::Long(row.boot.map(u64::cast_signed))];
        let facts = [long(header.memory_kib), long(header.cpus), text(&system.kernel), text(&system.brisk)];
        put(common, numbers.into_iter().chain(facts));
        match &row.fact {
            Fact::Launch { application, name, length_ms, loss_ms, boosted, governor } => {
                let (name, application) = (Value::Text(name.as_deref()), long(application.cast_signed()));
                let figures = [Value::Long(*length_ms), Value::Double(*loss_ms), flag(*boosted), text(governor)];
                put(own, [application, name].into_iter().chain(figures));
            }
            Fact::Boot { length_ms, kernel_ms, performance_held } => {
                put(own, [long(*length_ms), Value::Long(*kernel_ms), Value::Flag(*performance_held)]);
            }
            Fact::Kill { application, name, freed_kib, oom_score_adj, headroom_kib } => {
                let (name, application) = (Value::Text(name.as_deref()), long(application.cast_signed()));
                put(own, [application, name, Value::Long(*freed_kib), long(*oom_score_adj), long(*headroom_kib)]);
            }
            Fact::Hour(hour) => put(own, hour_values(hour).map(Value::Long)),
            Fact::Trial { step, outcome, effect_percent } => {
                put(own, [text(step), text(outcome), Value::Double(*effect_percent)]);
            }
            Fact::Switch { mechanism, active, reason } => put(own, [text(mechanism), flag(*active), text(reason)]),
            Fact::Claim(claim) => put(own, claim_values(claim)),
            Fact::Phase(phase) => put(own, phase_values(phase)),
            Fact::Part(part) => put(own, part_values(part)),
        }
    }

    /// All rows, which are removed here.
    ///
    /// # Panics
    /// When a row was of another table, which `push` rules out.
    pub fn take(&mut self) -> RecordBatch {
        let columns = self.columns.iter_mut().map(|column| -> ArrayRef {
            match column {
                Column::Long(builder) => Arc::new(builder.finish()),
                Column::Double(builder) => Arc::new(builder.finish()),
                Column::Flag(builder) => Arc::new(builder.finish()),
                Column::Text(builder) => Arc::new(builder.finish()),
            }
        });
        RecordBatch::try_new(Arc::new(self.table.schema()), columns.collect()).expect("columns of the table's schema")
    }
}

fn long(value: i64) -> Value<'static> {
    Value::Long(Some(value))
}

fn flag(value: bool) -> Value<'static> {
    Value::Flag(Some(value))
}

fn text(value: &str) -> Value<'_> {
    Value::Text(Some(value))
}

fn hour_values(hour: &Hour) -> [Option<i64>; 11] {
    [
        Some(hour.period_s),
        Some(hour.uptime_s),
        hour.memory_some_ms,
        hour.memory_full_ms,
        hour.cpu_some_ms,
        hour.io_some_ms,
        hour.lookup_hits,
        hour.lookup_misses,
        Some(hour.cpu_ms),
        Some(hour.resident_kib),
        Some(hour.dropped_rows),
    ]
}

fn maybe_text(value: Option<&String>) -> Value<'_> {
    Value::Text(value.map(String::as_str))
}

fn claim_values(claim: &Claim) -> [Value<'_>; 15] {
    [
        long(claim.file),
        text(&claim.experiment),
        text(&claim.claim),
        maybe_text(claim.arm.as_ref()),
        text(&claim.point),
        text(&claim.unit),
        text(&claim.required),
        Value::Double(claim.measured),
        Value::Double(claim.low),
        Value::Double(claim.high),
        Value::Double(claim.p),
        text(claim.verdict),
        text(claim.timekeeping),
        text(&claim.place),
        flag(claim.quick),
    ]
}

fn phase_values(phase: &Phase) -> [Value<'_>; 10] {
    [
        long(phase.file),
        text(phase.recorded_by),
        text(phase.limited_by),
        long(phase.start_ms),
        long(phase.end_ms),
        Value::Double(Some(phase.busy_cpus)),
        Value::Double(phase.disk_busy_percent),
        Value::Double(phase.speed_percent),
        Value::Double(phase.io_stall_percent),
        Value::Double(phase.memory_stall_percent),
    ]
}

fn part_values(part: &Part) -> [Value<'_>; 11] {
    [
        long(part.file),
        long(part.window),
        maybe_text(part.launch.as_ref()),
        text(&part.thread),
        Value::Double(Some(part.window_ms)),
        text(&part.cause),
        maybe_text(part.subject.as_ref()),
        maybe_text(part.wait.as_ref()),
        maybe_text(part.wait_of.as_ref()),
        Value::Double(Some(part.length_ms)),
        long(part.pieces),
    ]
}

fn put<'a>(columns: &mut [Column], values: impl IntoIterator<Item = Value<'a>>) {
    let mut values = values.into_iter();
    for column in columns.iter_mut() {
        match (column, values.next()) {
            (Column::Long(builder), Some(Value::Long(value))) => builder.append_option(value),
            (Column::Double(builder), Some(Value::Double(value))) => builder.append_option(value),
            (Column::Flag(builder), Some(Value::Flag(value))) => builder.append_option(value),
            (Column::Text(builder), Some(Value::Text(value))) => builder.append_option(value),
            // `take` then finds columns of different lengths.
            _ => debug_assert!(false, "a value of another column"),
        }
    }
    debug_assert!(values.next().is_none(), "more values than columns");
}
