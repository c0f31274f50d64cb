//! When a schedule is due: a cron pattern in a time zone.

use std::fmt;

use jiff::tz::TimeZone;
use semel_core::error::Invalid;
use semel_core::time::Timestamp;

/// A checked pattern in a time zone.
#[derive(Clone)]
pub(crate) struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
}

impl Cron {
    /// Reads a pattern of five fields (or six, with seconds in front) or a nickname such as `@daily`.
    ///
    /// Refuses a zone nobody knows, and a pattern that never comes to pass after `now`.
    pub(crate) fn new(pattern: &str, zone: &str, now: Timestamp) -> Result<Self, Invalid> {
        let cron = Cron {
            pattern: read(pattern)?,
            zone: named(zone)?,
        };
        if cron.next(now).is_none() {
            return Err(Invalid::new("cron", "a pattern that comes to pass one day")
                .found(pattern)
                .hint("such as the 30th of February, this never does; check day and month"));
        }
        Ok(cron)
    }

    /// The first moment it is due after `now`.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let next = self.pattern.find_next_occurrence(&self.at(now)?, false).ok()?;
        Some(Timestamp::from_millis(next.timestamp().as_millisecond()))
    }

    /// The last moment it was due, up to and with `now`.
    pub(crate) fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        let latest = self.pattern.find_previous_occurrence(&self.at(now)?, true).ok()?;
        Some(Timestamp::from_millis(latest.timestamp().as_millisecond()))
    }

    fn at(&self, moment: Timestamp) -> Option<jiff::Zoned> {
        // A schedule is due at whole seconds; a fraction would make the second it is in look past.
        let second = moment.as_millis().div_euclid(1_000);
        let moment = jiff::Timestamp::from_second(second).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }
}

fn read(pattern: &str) -> Result<croner::Cron, Invalid> {
    pattern.parse::<croner::Cron>().map_err(|error| {
        Invalid::new("cron", "a pattern such as `30 8 * * MON-FRI` or `@daily`")
            .found(format!("{pattern:?}: {error}"))
            .hint("five fields: minute, hour, day of month, month, day of week; or six, with the second in front")
    })
}

fn named(zone: &str) -> Result<TimeZone, Invalid> {
    TimeZone::get(zone).map_err(|_| {
        Invalid::new("time zone", "a name of the tz database")
            .found(zone)
            .hint("such as UTC, Europe/Berlin or America/New_York")
    })
}

impl fmt::Debug for Cron {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} in {:?}",
            self.pattern.as_str(),
            self.zone.iana_name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        let moment: jiff::Timestamp = text.parse().expect("a moment");
        Timestamp::from_millis(moment.as_millisecond())
    }

    fn cron(pattern: &str, zone: &str) -> Cron {
        Cron::new(pattern, zone, moment("2026-11-16T00:00:00Z")).expect("a schedule")
    }

    #[test]
    fn a_moment_within_the_due_second_belongs_to_it() {
        let daily = cron("0 8 * * *", "Europe/Berlin");
        assert_eq!(
            daily.latest(moment("2026-11-16T07:00:00.900Z")),
            Some(moment("2026-11-16T07:00:00Z"))
        );
        assert_eq!(
            daily.latest(moment("2026-11-16T06:59:59.999Z")),
            Some(moment("2026-11-15T07:00:00Z"))
        );
        assert_eq!(
            daily.next(moment("2026-11-16T07:00:00.900Z")),
            Some(moment("2026-11-17T07:00:00Z"))
        );
    }

    #[test]
    fn summer_time_moves_the_moment_not_the_hour() {
        let daily = cron("30 8 * * *", "Europe/Berlin");
        assert_eq!(
            daily.next(moment("2026-03-28T12:00:00Z")),
            Some(moment("2026-03-29T06:30:00Z"))
        );
        assert_eq!(
            daily.next(moment("2026-03-27T12:00:00Z")),
            Some(moment("2026-03-28T07:30:00Z"))
        );
    }

    #[test]
    fn an_hour_that_is_skipped_or_comes_twice_is_due_once() {
        let nightly = cron("30 2 * * *", "Europe/Berlin");
        let count = |from: &str, until: &str| {
            let mut at = moment(from);
            let mut due = 0;
            while let Some(next) = nightly.next(at).filter(|next| *next < moment(until)) {
                due += 1;
                at = next;
            }
            due
        };
        assert_eq!(count("2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z"), 1);
        assert_eq!(count("2026-10-24T22:00:00Z", "2026-10-25T12:00:00Z"), 1);
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        let now = moment("2026-11-16T00:00:00Z");
        for (pattern, zone, word) in [
            ("0 0 30 2 *", "UTC", "30th of February"),
            ("61 * * * *", "UTC", "five fields"),
            ("", "UTC", "five fields"),
            ("0 0 * * *", "Europe/Berlni", "Europe/Berlin"),
        ] {
            let refused = Cron::new(pattern, zone, now).expect_err("nonsense").to_string();
            assert!(refused.contains("hint: ") && refused.contains(word), "{refused}");
        }
    }
}
