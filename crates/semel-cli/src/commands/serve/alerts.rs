//! `[alerts]` in `semel.toml`: when alerts fire.

use semel_core::time::Millis;
use semel_server::alerts::Thresholds;

use crate::duration::Length;
use crate::problem::Problem;

/// The names there are.
const NAMES: &str = "error_rate, duplicate_rate, oldest_waiting, lease_expirations, schedule_missed, paused, clock_skew, outbox_lag, storage, expired_keys";

/// Reads the thresholds; what is not said stays at its default, and a typo is refused.
pub fn thresholds(table: &toml::Table) -> Result<Thresholds, Problem> {
    let mut limits = Thresholds::default();
    for (name, value) in table {
        match name.as_str() {
            "error_rate" => limits.error_rate = share(name, value)?,
            "duplicate_rate" => limits.duplicate_rate = share(name, value)?,
            "storage" => limits.storage = share(name, value)?,
            "expired_keys" => limits.expired_keys = number(name, value)?,
            "oldest_waiting" => limits.oldest_waiting = length(name, value)?,
            "schedule_missed" => limits.schedule_missed = length(name, value)?,
            "paused" => limits.paused = length(name, value)?,
            "clock_skew" => limits.clock_skew = length(name, value)?,
            "outbox_lag" => limits.outbox_lag = length(name, value)?,
            "lease_expirations" => limits.lease_expirations = number(name, value)?,
            other => {
                return Err(Problem::usage(format!(
                    "there is no alert {other:?}: allowed is {NAMES}"
                )));
            }
        }
    }
    Ok(limits)
}

fn share(name: &str, value: &toml::Value) -> Result<f64, Problem> {
    let found = value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
    found.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
        Problem::usage(format!(
            "alerts.{name}: allowed is a share from 0 to 1, such as 0.05"
        ))
    })
}

fn number(name: &str, value: &toml::Value) -> Result<i64, Problem> {
    let found = value.as_integer().filter(|n| *n >= 0);
    found.ok_or_else(|| Problem::usage(format!("alerts.{name}: allowed is a number of 0 or more")))
}

fn length(name: &str, value: &toml::Value) -> Result<Millis, Problem> {
    let parsed = value.as_str().and_then(|text| text.parse::<Length>().ok());
    parsed
        .map(Millis::from)
        .ok_or_else(|| Problem::usage(format!("alerts.{name}: allowed is a duration, such as \"5m\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_and_typos_refused() {
        let read = |text: &str| thresholds(&toml::from_str(text).unwrap());
        let limits = read("oldest_waiting = '10m'\nerror_rate = 0.2\nlease_expirations = 3").unwrap();
        assert_eq!(limits.oldest_waiting, Millis::from_secs(600));
        assert_eq!((limits.error_rate, limits.lease_expirations), (0.2, 3));
        assert_eq!(limits.paused, Thresholds::default().paused);
        assert!(read("oldest_wating = '10m'").is_err());
        assert!(read("error_rate = 5").is_err());
    }
}
