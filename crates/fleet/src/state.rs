//! The data set's memory, as Parquet files beside the rows: the devices, rewritten by each import, and the hashes of the
//! imported files, to which each import adds a file.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use crate::device::{Device, Devices, Ranges};
use crate::fault::DatasetError;
use crate::parquet_file;

const DEVICES: &str = "devices";
const FILES: &str = "files";

/// The hash of a file's bytes.
pub type ContentHash = u128;

/// Hashes of the bytes of imported files.
pub type Files = HashSet<ContentHash>;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), false));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(schema, columns).expect("columns of one length")
}

/// Writes all devices to `path`, by hash.
///
/// # Errors
/// Those of the file system.
pub fn write_devices(path: &Path, devices: &Devices) -> Result<(), DatasetError> {
    let mut all: Vec<(&u64, &Device)> = devices.iter().collect();
    all.sort_unstable_by_key(|(device, _)| **device);
    let memory: Int64Array = all.iter().map(|(_, device)| Some(device.memory_kib)).collect();
    let texts = |of: fn(&Device) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(all.iter().map(|(_, device)| of(device))))
    };
    let hashes: Int64Array = all.iter().map(|(device, _)| Some(device.cast_signed())).collect();
    let rows = batch(vec![
        ("device", Arc::new(hashes)),
        ("model", texts(|device| device.model.clone())),
        ("architecture", texts(|device| device.architecture.clone())),
        ("memory_kib", Arc::new(memory)),
        ("rows", texts(|device| device.rows.print())),
    ]);
    parquet_file::write_state(path, DEVICES, &rows)
}

/// Reads what [`write_devices`] wrote.
///
/// # Errors
/// When it cannot be read.
pub fn read_devices(path: &Path) -> Result<Devices, DatasetError> {
    let mut devices = Devices::new();
    for rows in parquet_file::read(path)? {
        check(path, &rows, &[("device", DataType::Int64), ("rows", DataType::Utf8)])?;
        let text = |name: &str| rows.column_by_name(name).map(|column| column.as_string::<i32>());
        let number = |name: &str| rows.column_by_name(name).map(|column| column.as_primitive::<Int64Type>());
        let all = (number("device"), text("model"), text("architecture"), number("memory_kib"), text("rows"));
        let (Some(hash), Some(model), Some(architecture), Some(memory), Some(ranges)) = all else {
            return Err(damaged(path, "a column is missing"));
        };
        for at in 0..rows.num_rows() {
            let device = Device {
                model: model.value(at).to_owned(),
                architecture: architecture.value(at).to_owned(),
                memory_kib: memory.value(at),
                rows: Ranges::parse(ranges.value(at)).ok_or_else(|| damaged(path, "a list of rows is wrong"))?,
            };
            devices.insert(hash.value(at).cast_unsigned(), device);
        }
    }
    Ok(devices)
}

/// Writes the hashes of the files of one import to `path`.
///
/// # Errors
/// Those of the file system.
pub fn write_files(path: &Path, files: &[ContentHash]) -> Result<(), DatasetError> {
    let half = |shift: u32| -> ArrayRef {
        Arc::new(files.iter().map(|hash| Some(((hash >> shift) as u64).cast_signed())).collect::<Int64Array>())
    };
    parquet_file::write_state(path, FILES, &batch(vec![("high", half(64)), ("low", half(0))]))
}

/// Adds what [`write_files`] wrote to `files`.
///
/// # Errors
/// When it cannot be read.
pub fn read_files(path: &Path, files: &mut Files) -> Result<(), DatasetError> {
    for rows in parquet_file::read(path)? {
        check(path, &rows, &[("high", DataType::Int64), ("low", DataType::Int64)])?;
        let [high, low] = [0, 1].map(|column| rows.column(column).as_primitive::<Int64Type>().values());
        let joined =
            |(high, low): (&i64, &i64)| u128::from(high.cast_unsigned()) << 64 | u128::from(low.cast_unsigned());
        files.extend(high.iter().zip(low).map(joined));
    }
    Ok(())
}

fn damaged(path: &Path, what: &str) -> DatasetError {
    DatasetError::Damaged { path: path.display().to_string(), what: what.to_owned() }
}

/// Refuses a file whose columns are not those that this module wrote.
fn check(path: &Path, rows: &RecordBatch, first_and_last: &[(&str, DataType)]) -> Result<(), DatasetError> {
    let is_there = |(name, kind): &(&str, DataType)| {
        rows.schema().field_with_name(name).is_ok_and(|field| field.data_type() == kind)
    };
    if first_and_last.iter().all(is_there) { Ok(()) } else { Err(damaged(path, "its columns are not brisk's")) }
}
