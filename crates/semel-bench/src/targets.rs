//! What the store has promised to reach.

use std::fmt;

use crate::report::Figure;

/// A promise about a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// The ratio to the ceiling: promised, hoped for.
    Ratio(f64, f64),
    /// The value: no more than this.
    AtMost(f64),
}

impl Target {
    /// Whether a figure keeps the promise.
    pub(crate) fn is_met(self, figure: &Figure) -> bool {
        match self {
            Target::Ratio(least, _) => figure.ratio.as_ref().is_some_and(|ratio| ratio.value >= least),
            Target::AtMost(most) => figure.value <= most,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Ratio(least, aim) if least == aim => write!(f, "ratio >= {least}"),
            Target::Ratio(least, aim) => write!(f, "ratio >= {least} (aim {aim})"),
            Target::AtMost(most) => write!(f, "<= {most}"),
        }
    }
}

/// The promise about a metric of the embedded store, if there is one.
pub(crate) fn embedded(metric: &str) -> Option<Target> {
    let target = match metric {
        "enqueue_1" => Target::Ratio(0.75, 0.75),
        "enqueue_unique_bulk" => Target::Ratio(0.22, 0.30),
        "enqueue_dup" => Target::Ratio(0.5, 0.8),
        "enqueue_unique_c64" => Target::Ratio(0.10, 0.15),
        "enqueue_unique_c64_p99" => Target::AtMost(4.0),
        "unique_over_plain" => Target::AtMost(1.5),
        "mem_dedupe" => Target::AtMost(64.0),
        "lifecycle" => Target::Ratio(0.12, 0.15),
        "lifecycle_1m" => Target::Ratio(0.035, 0.05),
        "lifecycle_5m" => Target::Ratio(0.02, 0.03),
        _ => return None,
    };
    Some(target)
}

/// The promise about a metric of a store on Redis, if there is one.
#[cfg(feature = "redis")]
pub(crate) fn redis(metric: &str) -> Option<Target> {
    let target = match metric {
        "enqueue_1" | "enqueue_unique" => Target::Ratio(0.8, 0.8),
        "enqueue_unique_bulk" => Target::Ratio(0.4, 0.5),
        "enqueue_c64" | "enqueue_unique_c64" => Target::Ratio(0.2, 0.2),
        "enqueue_unique_c64_half_p99" => Target::AtMost(1.0),
        "lifecycle" => Target::Ratio(0.15, 0.2),
        "mem_job" => Target::AtMost(550.0),
        "mem_dedupe" => Target::AtMost(130.0),
        "mem_window_key" => Target::AtMost(70.0),
        _ => return None,
    };
    Some(target)
}

/// The promise about a metric of a store in a bucket, if there is one.
#[cfg(feature = "s3")]
pub(crate) fn s3(metric: &str) -> Option<Target> {
    let target = match metric {
        "enqueue_c16" => Target::Ratio(0.4, 0.4),
        "enqueue_unique_c16" => Target::Ratio(0.25, 0.25),
        "lifecycle" => Target::Ratio(0.1, 0.1),
        "requests_enqueue_1" | "requests_enqueue_dup" => Target::AtMost(2.0),
        "requests_enqueue_unique" => Target::AtMost(3.0),
        metric if metric.starts_with("requests_settle") => Target::AtMost(3.0),
        // Two for each and a constant; a claim of one is mostly that constant.
        "requests_claim" | "requests_claim_elsewhere" => Target::AtMost(3.0),
        _ => return None,
    };
    Some(target)
}

/// The metric of a ratio.
pub(crate) fn ratio_name(metric: &str) -> String {
    format!("ratio_{metric}")
}

/// How names tell the number of jobs waiting behind: `_1m`, `_250k`, nothing for none.
pub(crate) fn suffix(waiting: usize) -> String {
    match waiting {
        0 => String::new(),
        millions if millions.is_multiple_of(1_000_000) => format!("_{}m", millions / 1_000_000),
        thousands if thousands.is_multiple_of(1_000) => format!("_{}k", thousands / 1_000),
        other => format!("_{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Ratio;

    #[test]
    fn a_promise_is_about_the_ratio_or_about_the_value() {
        let ratio = Some(Ratio {
            value: 0.7,
            of: "ceiling_1".to_owned(),
        });
        let figure = Figure {
            metric: "m".to_owned(),
            value: 5.0,
            unit: "ms",
            ratio,
        };
        assert!(Target::Ratio(0.7, 0.9).is_met(&figure));
        assert!(!Target::Ratio(0.75, 0.75).is_met(&figure));
        assert!(Target::AtMost(5.0).is_met(&figure));
        assert!(!Target::AtMost(4.0).is_met(&figure));
    }

    #[test]
    fn the_promised_numbers_of_waiting_jobs_have_the_names_of_their_promises() {
        assert_eq!(
            [0, 1_000_000, 5_000_000, 3_000, 7].map(suffix),
            ["", "_1m", "_5m", "_3k", "_7"]
        );
        assert!(embedded(&format!("lifecycle{}", suffix(5_000_000))).is_some());
    }
}
