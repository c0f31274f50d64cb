//! Tables without lines: columns, a heading, rows.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement};

use crate::screen::style::{Tone, paint};
use semel_server::text::clean;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    right: bool,
    yields: bool,
}

impl Column {
    /// Its text is never broken.
    pub const fn left(name: &'static str) -> Self {
        Column {
            name,
            right: false,
            yields: false,
        }
    }

    /// Numbers.
    pub const fn right(name: &'static str) -> Self {
        Column {
            name,
            right: true,
            yields: false,
        }
    }

    /// Is broken into lines when the screen is narrow.
    pub const fn wide(name: &'static str) -> Self {
        Column {
            name,
            right: false,
            yields: true,
        }
    }
}

/// Rows under headings.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Table {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. What others wrote has to be [`clean`]ed or painted by way of [`Table::cell`].
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// A cell with somebody's text.
    pub fn cell(text: impl AsRef<str>) -> String {
        clean(text.as_ref()).into_owned()
    }

    /// The table as text, indented, no wider than asked for.
    pub fn render(&self, width: Option<usize>, indent: usize) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(comfy_table::presets::NOTHING);
        if self.columns.iter().any(|column| !column.name.is_empty()) {
            table.set_header(self.columns.iter().map(|column| paint(Tone::Strong, column.name)));
        }
        table.add_rows(&self.rows);
        match width {
            Some(width) => {
                let width = u16::try_from(width.saturating_sub(indent)).unwrap_or(u16::MAX);
                table
                    .set_content_arrangement(ContentArrangement::Dynamic)
                    .set_width(width)
            }
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        let last = self.columns.len().saturating_sub(1);
        for (at, column) in self.columns.iter().enumerate() {
            let Some(shown) = table.column_mut(at) else {
                continue;
            };
            shown.set_padding((0, if at == last { 0 } else { 2 }));
            if column.right {
                shown.set_cell_alignment(CellAlignment::Right);
            }
            if !column.yields {
                shown.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        indented(&table.to_string(), indent)
    }
}

fn indented(text: &str, indent: usize) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.lines() {
        let line = format!("{:indent$}{line}", "");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
