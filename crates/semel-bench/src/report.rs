//! What was found.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use crate::settings::Settings;
use crate::table;
use crate::targets::{self, Target};

/// A figure over its ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The quotient.
    pub value: f64,
    /// The metric it was divided by.
    pub of: String,
}

/// One thing that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name, as the documentation of this crate lists it.
    pub metric: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// Beside its ceiling.
    pub ratio: Option<Ratio>,
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// What is promised of a metric.
    target: fn(&str) -> Option<Target>,
    /// The slices of the ceilings, over all groups.
    ceilings: Vec<(String, Vec<f64>)>,
    figures: Vec<Figure>,
    /// Rates by round, for figures that are made from two others.
    rounds: Vec<(String, Vec<f64>)>,
    notes: Vec<String>,
}

/// A figure as it is written for programs.
#[derive(Serialize)]
struct Line<'a> {
    peer: &'static str,
    metric: &'a str,
    value: f64,
    unit: &'a str,
}

impl Report {
    pub(crate) fn of(settings: &Settings, target: fn(&str) -> Option<Target>) -> Self {
        let slice = match settings.jobs {
            Some(jobs) => format!("{jobs} jobs"),
            None => format!("about {} ms", settings.slice.as_millis()),
        };
        let note = format!(
            "medians of {} rounds of {slice}; ratios are medians over the rounds; seed {}",
            settings.rounds, settings.seed
        );
        Report {
            target,
            ceilings: Vec::new(),
            figures: Vec::new(),
            rounds: Vec::new(),
            notes: vec![note],
        }
    }

    pub(crate) fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        self.notes.extend(notes);
    }

    pub(crate) fn add(&mut self, metric: &str, value: f64, unit: &'static str) {
        self.figures.push(Figure {
            metric: metric.to_owned(),
            value,
            unit,
            ratio: None,
        });
    }

    pub(crate) fn add_rate(&mut self, metric: &str, rates: &[f64], ratio: Ratio) {
        self.rounds.push((metric.to_owned(), rates.to_vec()));
        let value = median(rates);
        self.figures.push(Figure {
            metric: metric.to_owned(),
            value,
            unit: "jobs/s",
            ratio: Some(ratio),
        });
    }

    pub(crate) fn add_ceiling(&mut self, metric: &str, rates: &[f64]) {
        match self.ceilings.iter_mut().find(|(name, _)| name == metric) {
            Some((_, known)) => known.extend_from_slice(rates),
            None => self.ceilings.push((metric.to_owned(), rates.to_vec())),
        }
    }

    /// A figure that was added before.
    pub(crate) fn find(&self, metric: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.metric == metric)
    }

    /// The rates of a metric, round by round.
    pub(crate) fn rounds_of(&self, metric: &str) -> &[f64] {
        self.rounds
            .iter()
            .find(|(name, _)| name == metric)
            .map_or(&[], |(_, rates)| rates)
    }

    /// The same figure once more, under another name.
    pub(crate) fn add_as(&mut self, metric: &str, figure: Figure) {
        self.figures.push(Figure {
            metric: metric.to_owned(),
            ..figure
        });
    }

    /// Everything, ceilings first, by their batch.
    pub fn figures(&self) -> Vec<Figure> {
        let ceiling = |(metric, rates): &(String, Vec<f64>)| Figure {
            metric: metric.clone(),
            value: median(rates),
            unit: "rows/s",
            ratio: None,
        };
        let mut figures: Vec<Figure> = self.ceilings.iter().map(ceiling).collect();
        figures.sort_by_key(|figure| (figure.metric.len(), figure.metric.clone()));
        figures.extend(self.figures.iter().cloned());
        figures
    }

    /// For people: values, ratios, and whether the targets are met.
    pub fn table(&self) -> String {
        let mut text = table::lay_out(&self.figures(), self.target);
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text
    }

    /// For programs: one object per figure and per ratio.
    pub fn json_lines(&self) -> Result<String> {
        let mut text = String::new();
        for figure in self.figures() {
            line(&mut text, &figure.metric, figure.value, figure.unit)?;
            if let Some(ratio) = &figure.ratio {
                line(
                    &mut text,
                    &targets::ratio_name(&figure.metric),
                    ratio.value,
                    &format!("of {}", ratio.of),
                )?;
            }
        }
        Ok(text)
    }
}

fn line(text: &mut String, metric: &str, value: f64, unit: &str) -> Result<()> {
    let line = Line {
        peer: "semel",
        metric,
        value,
        unit,
    };
    text.push_str(&serde_json::to_string(&line)?);
    text.push('\n');
    Ok(())
}

/// The middle of some values; the mean of the two middle ones if there is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_figure_and_its_ratio_are_a_line_each() {
        let mut report = Report::of(&Settings::quick(), |_| None);
        report.add_ceiling("ceiling_1", &[100.0]);
        report.add_rate(
            "enqueue_1",
            &[80.0],
            Ratio {
                value: 0.8,
                of: "ceiling_1".to_owned(),
            },
        );
        let expected = concat!(
            r#"{"peer":"semel","metric":"ceiling_1","value":100.0,"unit":"rows/s"}"#,
            "\n",
            r#"{"peer":"semel","metric":"enqueue_1","value":80.0,"unit":"jobs/s"}"#,
            "\n",
            r#"{"peer":"semel","metric":"ratio_enqueue_1","value":0.8,"unit":"of ceiling_1"}"#,
            "\n",
        );
        assert_eq!(report.json_lines().unwrap(), expected);
    }
}
