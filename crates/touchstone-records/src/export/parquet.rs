//! Tables as Parquet: optional columns, row groups of a bounded number of rows, Snappy.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::columns::{ColumnType, Value};
use super::{ExportError, Sink, Table as Which};
use crate::event_log::Manifest;

/// Rows of a row group: what is held in memory at once.
const GROUP: usize = 1 << 16;

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        ExportError::Parquet { why: error.to_string() }
    }
}

/// The values of a column of one row group that are not null.
#[derive(Debug)]
enum Values {
    Integer(Vec<i64>),
    Float(Vec<f64>),
    Boolean(Vec<bool>),
    Text(Vec<ByteArray>),
}

/// A column of one row group: for each row 1 when it has a value, and the values.
#[derive(Debug)]
struct Filled {
    present: Vec<i16>,
    values: Values,
}

impl Filled {
    fn new(kind: ColumnType) -> Self {
        let values = match kind {
            ColumnType::Integer => Values::Integer(Vec::new()),
            ColumnType::Float => Values::Float(Vec::new()),
            ColumnType::Boolean => Values::Boolean(Vec::new()),
            ColumnType::Text => Values::Text(Vec::new()),
        };
        Self { present: Vec::new(), values }
    }

    fn push(&mut self, value: Value<'_>) {
        let some = match (&mut self.values, value) {
            (Values::Integer(values), Value::Integer(Some(value))) => {
                values.push(value);
                true
            }
            (Values::Float(values), Value::Float(Some(value))) => {
                values.push(value);
                true
            }
            (Values::Boolean(values), Value::Boolean(Some(value))) => {
                values.push(value);
                true
            }
            (Values::Text(values), Value::Text(Some(value))) => {
                values.push(ByteArray::from(value));
                true
            }
            _ => false,
        };
        self.present.push(i16::from(some));
    }

    fn clear(&mut self) {
        self.present.clear();
        match &mut self.values {
            Values::Integer(values) => values.clear(),
            Values::Float(values) => values.clear(),
            Values::Boolean(values) => values.clear(),
            Values::Text(values) => values.clear(),
        }
    }
}

/// A table that is being written.
pub(super) struct Table<W: Write + Send> {
    table: Which,
    /// Until the table begins.
    out: Option<W>,
    writer: Option<SerializedFileWriter<W>>,
    columns: Vec<Filled>,
    rows: usize,
}

impl<W: Write + Send> std::fmt::Debug for Table<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("table", &self.table).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<W: Write + Send> Table<W> {
    pub(super) fn new(table: Which, out: W) -> Self {
        let columns = table.columns().iter().map(|column| Filled::new(column.kind)).collect();
        Self { table, out: Some(out), writer: None, columns, rows: 0 }
    }

    fn schema(&self) -> String {
        let fields: Vec<String> = self
            .table
            .columns()
            .iter()
            .map(|column| {
                let kind = match column.kind {
                    ColumnType::Integer => "INT64",
                    ColumnType::Float => "DOUBLE",
                    ColumnType::Boolean => "BOOLEAN",
                    ColumnType::Text => "BYTE_ARRAY",
                };
                let text = if column.kind == ColumnType::Text { " (STRING)" } else { "" };
                format!("OPTIONAL {kind} {}{text};", column.name)
            })
            .collect();
        format!("message touchstone {{ {} }}", fields.join(" "))
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        let Some(writer) = self.writer.as_mut().filter(|_| self.rows > 0) else { return Ok(()) };
        let mut group = writer.next_row_group()?;
        let mut columns = self.columns.iter();
        while let (Some(mut column), Some(filled)) = (group.next_column()?, columns.next()) {
            let present = Some(filled.present.as_slice());
            match &filled.values {
                Values::Integer(values) => column.typed::<Int64Type>().write_batch(values, present, None)?,
                Values::Float(values) => column.typed::<DoubleType>().write_batch(values, present, None)?,
                Values::Boolean(values) => column.typed::<BoolType>().write_batch(values, present, None)?,
                Values::Text(values) => column.typed::<ByteArrayType>().write_batch(values, present, None)?,
            };
            column.close()?;
        }
        group.close()?;
        self.columns.iter_mut().for_each(Filled::clear);
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> Sink for Table<W> {
    fn begin(&mut self, manifest: Option<&Manifest>) -> Result<(), ExportError> {
        let schema = Arc::new(parse_message_type(&self.schema())?);
        let mut facts = vec![KeyValue::new("touchstone.format".to_owned(), self.table.format().to_owned())];
        if let Some(manifest) = manifest {
            let told = [
                ("touchstone.run", manifest.run.clone()),
                ("touchstone.started_at", manifest.started_at.clone()),
                ("touchstone.target", manifest.target.target.clone()),
                ("touchstone.arrival", manifest.workload.arrival.clone()),
                ("touchstone.simulated", manifest.simulated.to_string()),
            ];
            facts.extend(told.map(|(key, value)| KeyValue::new(key.to_owned(), value)));
        }
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP))
            .set_created_by(format!("touchstone {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(facts));
        // Instants and counts differ little from row to row and seldom repeat: differences are small, dictionaries are not.
        for column in self.table.columns() {
            let path = ColumnPath::from(column.name);
            match column.kind {
                ColumnType::Integer => {
                    properties = properties
                        .set_column_dictionary_enabled(path.clone(), false)
                        .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
                }
                ColumnType::Float => properties = properties.set_column_dictionary_enabled(path, false),
                ColumnType::Boolean | ColumnType::Text => {}
            }
        }
        if let Some(out) = self.out.take() {
            self.writer = Some(SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?);
        }
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        self.rows += 1;
        if self.rows == GROUP { self.write_group() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), ExportError> {
        self.write_group()?;
        if let Some(writer) = self.writer.as_mut() {
            writer.finish()?;
        }
        Ok(())
    }
}
