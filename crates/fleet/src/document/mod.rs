//! Files beside exports: proofs (`proof.json`), recordings of boots (`brisk boot record`) and explanations of traces (`brisk trace
//! explain --json`). None says which device of the fleet it is of, and only a proof says when it was made: that is given with the import.

mod explanation;
mod proof;
mod recording;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use twox_hash::XxHash3_64;

use crate::export::{Export, Fact, Header, Row, System, Text, check_clock, hash};
use crate::fault::Fault;

const DAY_S: i64 = 86_400;

/// What is given for such files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The device.
    pub device: Option<u64>,
    /// Its model; empty where the data set has an export of the device.
    pub model: String,
    /// The build that ran; empty where unknown.
    pub build: String,
    /// The day on which a file was made that does not say it, counted from 1970.
    pub day: Option<i64>,
}

/// The device that `text` names: by the hash of its exports, or by a name of the user's.
pub fn device(text: &str) -> u64 {
    hash(text).unwrap_or_else(|| XxHash3_64::oneshot(text.as_bytes()))
}

/// What a file says.
#[derive(Default)]
struct Content {
    /// When it was made.
    made_at_s: Option<i64>,
    /// 0 where unknown, as the CPUs.
    memory_kib: i64,
    cpus: i64,
    brisk: String,
    kernel: String,
    facts: Vec<Fact<'static>>,
}

/// Reads such a file at the time `now_s`, in seconds after 1970, as an export of the given device. Its rows are counted from 0, and
/// it has no ranges, because these are no numbers of the device. `file` is the hash of `bytes`.
///
/// # Errors
/// The fault for which the file is set aside.
pub fn parse(bytes: &[u8], file: u64, given: &Given, now_s: i64) -> Result<Export<'static>, Fault> {
    let content = content(bytes, file.cast_signed())?;
    let device = given.device.ok_or(Fault::NoDevice)?;
    let at_s = content.made_at_s.or(given.day.map(|day| day.saturating_mul(DAY_S))).ok_or(Fault::NoDate)?;
    check_clock(at_s, now_s)?;
    let Content { memory_kib, cpus, brisk, kernel, facts, .. } = content;
    let row = |(row, fact)| Row { row: row as u64, at_s, boot: None, system: 0, fact };
    Ok(Export {
        header: Header {
            device,
            model: text(given.model.clone()),
            architecture: Text::default(),
            memory_kib,
            cpus,
            exported_at_s: at_s,
        },
        systems: vec![System { brisk: text(brisk), build: text(given.build.clone()), kernel: text(kernel) }],
        rows: facts.into_iter().enumerate().map(row).collect(),
        undated: Vec::new(),
        ranges: Vec::new(),
    })
}

fn text(text: String) -> Text<'static> {
    Text(Cow::Owned(text))
}

/// Reads a file with this hash.
type Read = fn(&[u8], i64) -> Result<Content, Fault>;

fn content(bytes: &[u8], file: i64) -> Result<Content, Fault> {
    /// The keys by which the kinds are told apart.
    #[derive(Deserialize)]
    struct Keys {
        schema: u64,
        experiments: Option<IgnoredAny>,
        windows: Option<IgnoredAny>,
    }
    if recording::is_archive(bytes) {
        return recording::read(bytes, file);
    }
    if !begins_with_schema(bytes) {
        return Err(Fault::Foreign);
    }
    let keys: Keys = json(bytes)?;
    let (own, read): (u32, Read) = match (keys.experiments, keys.windows) {
        (Some(_), None) => (brisk_report::proof::SCHEMA, proof::read),
        (None, Some(_)) => (explanation::SCHEMA, explanation::read),
        _ => return Err(Fault::Foreign),
    };
    if keys.schema != u64::from(own) {
        return Err(Fault::OtherVersion(keys.schema));
    }
    read(bytes, file)
}

/// Whether brisk can have printed it for programs.
fn begins_with_schema(bytes: &[u8]) -> bool {
    let inner = bytes.trim_ascii_start().strip_prefix(b"{");
    inner.is_some_and(|inner| inner.trim_ascii_start().starts_with(b"\"schema\""))
}

fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Eof => Fault::Cut,
        _ => Fault::Damaged(error.to_string()),
    })
}

#[cfg(test)]
mod tests;
