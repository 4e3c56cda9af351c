//! Parquet files as the data set has them: written whole, with the version of their schema, and read back for its own state.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::fault::DatasetError;
use crate::table::{SCHEMA, SCHEMA_KEY, TABLE_KEY, Table};

/// Snappy: written and read several times as fast as zstd, and known to every engine. Most files have a page a column, so that indexes
/// of pages tell nothing.
fn properties(table: &str) -> WriterPropertiesBuilder {
    let metadata = [(SCHEMA_KEY, SCHEMA.to_string()), (TABLE_KEY, table.to_owned())];
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("brisk ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(metadata.map(|(key, value)| KeyValue::new(key.to_owned(), value)).to_vec()))
}

/// Writes the rows of `table` to the new file `path`.
///
/// # Errors
/// Those of the file system.
pub fn write_rows(path: &Path, table: Table, rows: &RecordBatch) -> Result<(), DatasetError> {
    let mut properties = properties(table.name());
    for name in Table::growing() {
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    for name in table.measured() {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(name), false);
    }
    write(path, properties.build(), rows)
}

/// Writes a table of the data set's state to the new file `path`.
///
/// # Errors
/// Those of the file system.
pub fn write_state(path: &Path, name: &str, rows: &RecordBatch) -> Result<(), DatasetError> {
    write(path, properties(name).build(), rows)
}

fn write(path: &Path, properties: WriterProperties, rows: &RecordBatch) -> Result<(), DatasetError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(DatasetError::io("create", folder))?;
    }
    let file = File::create_new(path).map_err(DatasetError::io("create", path))?;
    // The schema as Arrow has it is of no use to an engine, and larger than a small file's rows.
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer =
        ArrowWriter::try_new_with_options(file, rows.schema(), options).map_err(DatasetError::parquet(path))?;
    writer.write(rows).map_err(DatasetError::parquet(path))?;
    writer.close().map_err(DatasetError::parquet(path))?;
    Ok(())
}

/// Reads all rows of `path`.
///
/// # Errors
/// When it cannot be read, or is no Parquet file of this schema.
pub fn read(path: &Path) -> Result<Vec<RecordBatch>, DatasetError> {
    let damaged = |what: String| DatasetError::Damaged { path: path.display().to_string(), what };
    let file = File::open(path).map_err(DatasetError::io("open", path))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(error.to_string()))?;
    let found = builder.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    let schema = found.filter(|pair| pair.key == SCHEMA_KEY).find_map(|pair| pair.value.clone());
    if schema.as_deref() != Some(SCHEMA.to_string().as_str()) {
        return Err(damaged(format!("its schema is {}, not {SCHEMA}", schema.as_deref().unwrap_or("unknown"))));
    }
    let reader = builder.build().map_err(|error| damaged(error.to_string()))?;
    reader.collect::<Result<_, _>>().map_err(|error| damaged(error.to_string()))
}
