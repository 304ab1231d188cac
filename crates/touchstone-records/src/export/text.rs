//! Tables as text.

use std::io::Write;

use serde_json::json;

use super::columns::Value;
use super::{ExportError, Sink, Table};
use crate::event_log::Manifest;

/// Appends a value as JSON; null is `null`.
fn push_json(out: &mut Vec<u8>, value: Value<'_>) {
    let value = match value {
        Value::Integer(value) => json!(value),
        Value::Float(value) => json!(value),
        Value::Boolean(value) => json!(value),
        Value::Text(value) => json!(value),
    };
    out.extend_from_slice(value.to_string().as_bytes());
}

fn push_object(out: &mut Vec<u8>, table: Table, values: &[Value<'_>]) {
    for (number, (column, value)) in table.columns().iter().zip(values).enumerate() {
        out.extend_from_slice(if number == 0 { b"{\"" } else { b",\"" });
        out.extend_from_slice(column.name.as_bytes());
        out.extend_from_slice(b"\":");
        push_json(out, *value);
    }
    out.push(b'}');
}

/// Comma-separated values, RFC 4180, with `\n` at the ends of lines. Null is an empty field.
#[derive(Debug)]
pub(super) struct Csv<W> {
    table: Table,
    out: W,
    line: Vec<u8>,
}

impl<W: Write> Csv<W> {
    pub(super) fn new(table: Table, out: W) -> Self {
        Self { table, out, line: Vec::new() }
    }
}

impl<W: Write> Sink for Csv<W> {
    fn begin(&mut self, _: Option<&Manifest>) -> Result<(), ExportError> {
        let names: Vec<&str> = self.table.columns().iter().map(|column| column.name).collect();
        Ok(writeln!(self.out, "{}", names.join(","))?)
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        self.line.clear();
        for (number, value) in values.iter().enumerate() {
            if number > 0 {
                self.line.push(b',');
            }
            match value {
                Value::Integer(None) | Value::Float(None) | Value::Boolean(None) | Value::Text(None) => {}
                Value::Text(Some(text)) if text.contains(['"', ',', '\n', '\r']) => {
                    self.line.push(b'"');
                    self.line.extend_from_slice(text.replace('"', "\"\"").as_bytes());
                    self.line.push(b'"');
                }
                Value::Text(Some(text)) => self.line.extend_from_slice(text.as_bytes()),
                value => push_json(&mut self.line, *value),
            }
        }
        self.line.push(b'\n');
        Ok(self.out.write_all(&self.line)?)
    }

    fn end(&mut self) -> Result<(), ExportError> {
        Ok(self.out.flush()?)
    }
}

/// One JSON object per line.
#[derive(Debug)]
pub(super) struct JsonLines<W> {
    table: Table,
    out: W,
    line: Vec<u8>,
}

impl<W: Write> JsonLines<W> {
    pub(super) fn new(table: Table, out: W) -> Self {
        Self { table, out, line: Vec::new() }
    }
}

impl<W: Write> Sink for JsonLines<W> {
    fn begin(&mut self, _: Option<&Manifest>) -> Result<(), ExportError> {
        Ok(())
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        self.line.clear();
        push_object(&mut self.line, self.table, values);
        self.line.push(b'\n');
        Ok(self.out.write_all(&self.line)?)
    }

    fn end(&mut self) -> Result<(), ExportError> {
        Ok(self.out.flush()?)
    }
}

/// One JSON document, written as it goes.
#[derive(Debug)]
pub(super) struct Json<W> {
    table: Table,
    out: W,
    line: Vec<u8>,
    first: bool,
}

impl<W: Write> Json<W> {
    pub(super) fn new(table: Table, out: W) -> Self {
        Self { table, out, line: Vec::new(), first: true }
    }
}

impl<W: Write> Sink for Json<W> {
    fn begin(&mut self, manifest: Option<&Manifest>) -> Result<(), ExportError> {
        let mut head = json!({
            "format": self.table.format(),
            "run": manifest.map(|manifest| &manifest.run),
            "started_at": manifest.map(|manifest| &manifest.started_at),
            "target": manifest.map(|manifest| &manifest.target.target),
            "simulated": manifest.map(|manifest| manifest.simulated),
            "columns": self.table.columns().iter().map(|column| {
                json!({ "name": column.name, "type": column.kind.as_str(), "meaning": column.meaning })
            }).collect::<Vec<_>>(),
        })
        .to_string();
        head.pop();
        Ok(write!(self.out, "{head},\"rows\":[")?)
    }

    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError> {
        self.line.clear();
        self.line.extend_from_slice(if self.first { b"\n" } else { b",\n" });
        self.first = false;
        push_object(&mut self.line, self.table, values);
        Ok(self.out.write_all(&self.line)?)
    }

    fn end(&mut self) -> Result<(), ExportError> {
        writeln!(self.out, "\n]}}")?;
        Ok(self.out.flush()?)
    }
}
