//! The table for people.

use std::fmt::Write as _;

use crate::report::Figure;
use crate::targets::Target;

const HEAD: [&str; 7] = ["metric", "value", "unit", "ratio", "of", "target", "met"];
/// Columns of numbers, set to the right.
const NUMBERS: [bool; 7] = [false, true, false, true, false, false, false];

/// Figures, one in a line, in columns as wide as they have to be.
pub(crate) fn lay_out(figures: &[Figure], target: fn(&str) -> Option<Target>) -> String {
    let rows: Vec<[String; 7]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(figures.iter().map(|figure| row(figure, target(&figure.metric))))
        .collect();
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).zip(NUMBERS);
        let line: Vec<String> = cells
            .map(|((cell, width), right)| pad(cell, width, right))
            .collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}

fn pad(cell: &str, width: usize, right: bool) -> String {
    if right {
        format!("{cell:>width$}")
    } else {
        format!("{cell:<width$}")
    }
}

fn row(figure: &Figure, target: Option<Target>) -> [String; 7] {
    let met = target.map(|target| if target.is_met(figure) { "yes" } else { "NO" });
    [
        figure.metric.clone(),
        number(figure.value),
        figure.unit.to_owned(),
        figure
            .ratio
            .as_ref()
            .map(|ratio| format!("{:.3}", ratio.value))
            .unwrap_or_default(),
        figure
            .ratio
            .as_ref()
            .map(|ratio| ratio.of.clone())
            .unwrap_or_default(),
        target.map(|target| target.to_string()).unwrap_or_default(),
        met.unwrap_or_default().to_owned(),
    ]
}

/// Whole from 100 on, with a mark at the thousands; else three digits behind the point.
fn number(value: f64) -> String {
    if !value.is_finite() || value.abs() < 100.0 {
        return format!("{value:.3}");
    }
    let digits = format!("{value:.0}");
    let mut marked = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            marked.push(',');
        }
        marked.push(digit);
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Ratio;

    #[test]
    fn a_table_has_columns() {
        let figure = |metric: &str, value: f64, unit, ratio: Option<f64>| Figure {
            metric: metric.to_owned(),
            value,
            unit,
            ratio: ratio.map(|value| Ratio {
                value,
                of: "ceiling_1".to_owned(),
            }),
        };
        let figures = [
            figure("ceiling_1", 1234.4, "rows/s", None),
            figure("enqueue_1", 1_000_000.0, "jobs/s", Some(0.8)),
            figure("mem_dedupe", 65.25, "bytes", None),
        ];
        let expected = "\
metric          value  unit    ratio  of         target         met
ceiling_1       1,234  rows/s
enqueue_1   1,000,000  jobs/s  0.800  ceiling_1  ratio >= 0.75  yes
mem_dedupe     65.250  bytes                     <= 64          NO
";
        assert_eq!(lay_out(&figures, crate::targets::embedded), expected);
    }
}
