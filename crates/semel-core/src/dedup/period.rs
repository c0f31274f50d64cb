//! Buckets of time that can be part of a key: once per minute, hour, day, week, month in a time zone.

use jiff::ToSpan;
use jiff::civil::{DateTime, Weekday};
use jiff::tz::TimeZone;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::time::{Millis, Timestamp};

/// The length of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A minute of the clock.
    Minute,
    /// An hour of the clock.
    Hour,
    /// A day in the zone, 23 to 25 hours long.
    Day,
    /// Monday to Sunday.
    Week,
    /// A calendar month.
    Month,
}

/// A calendar period in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    unit: Unit,
    zone: TimeZone,
}

/// A period in UTC.
impl From<Unit> for Period {
    fn from(unit: Unit) -> Self {
        Period::utc(unit)
    }
}

impl Period {
    /// A period in a zone of the IANA database, such as `Europe/Berlin`.
    pub fn new(unit: Unit, zone: &str) -> Result<Self, Invalid> {
        let zone = TimeZone::get(zone).map_err(|_| {
            Invalid::new("time zone", "a name of the IANA database")
                .found(zone)
                .hint("for example UTC or Europe/Berlin")
        })?;
        Ok(Period { unit, zone })
    }

    /// A period in UTC.
    pub fn utc(unit: Unit) -> Self {
        Period {
            unit,
            zone: TimeZone::UTC,
        }
    }

    /// The length of a bucket.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The name of the zone.
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The bucket that contains `at`, as text that is equal for all moments of the bucket and for no other.
    pub fn bucket(&self, at: Timestamp) -> Result<String, Invalid> {
        let local = self.local(at)?;
        let start = self.start(local)?;
        let offset = match self.unit {
            // An hour of the clock that happens twice in autumn is two buckets.
            Unit::Minute | Unit::Hour => self.zone.to_offset(moment(at)?).to_string(),
            _ => String::new(),
        };
        Ok(format!("{:?}:{start}{offset}@{}", self.unit, self.zone()))
    }

    /// The longest a bucket can last: what a window over this period has to cover.
    pub fn longest(&self) -> Millis {
        match self.unit {
            Unit::Minute => Millis::from_secs(60),
            Unit::Hour => Millis::from_secs(3_600),
            Unit::Day => Millis::from_secs(25 * 3_600),
            Unit::Week => Millis::from_secs((7 * 24 + 1) * 3_600),
            Unit::Month => Millis::from_secs((31 * 24 + 1) * 3_600),
        }
    }

    fn local(&self, at: Timestamp) -> Result<DateTime, Invalid> {
        Ok(self.zone.to_datetime(moment(at)?))
    }

    fn start(&self, local: DateTime) -> Result<DateTime, Invalid> {
        let day = local.date().to_datetime(jiff::civil::Time::midnight());
        Ok(match self.unit {
            Unit::Minute => day
                .with()
                .hour(local.hour())
                .minute(local.minute())
                .build()
                .map_err(|_| range())?,
            Unit::Hour => day.with().hour(local.hour()).build().map_err(|_| range())?,
            Unit::Day => day,
            Unit::Week => {
                let back = i64::from(local.weekday().since(Weekday::Monday));
                day.checked_sub(back.days()).map_err(|_| range())?
            }
            Unit::Month => local
                .date()
                .first_of_month()
                .to_datetime(jiff::civil::Time::midnight()),
        })
    }
}

fn moment(at: Timestamp) -> Result<jiff::Timestamp, Invalid> {
    jiff::Timestamp::from_millisecond(at.as_millis()).map_err(|_| range())
}

fn range() -> Invalid {
    Invalid::new("run_at", "a moment before the year 10000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let moment: jiff::Timestamp = text.parse().expect("a moment");
        Timestamp::from_millis(moment.as_millisecond())
    }

    #[test]
    fn a_day_is_a_day_of_its_zone() {
        let berlin = Period::new(Unit::Day, "Europe/Berlin").expect("a zone");
        let late = berlin.bucket(at("2026-07-01T21:59:59Z")).expect("a bucket");
        let next = berlin.bucket(at("2026-07-01T22:00:00Z")).expect("a bucket");
        assert_ne!(late, next);
        assert_eq!(next, berlin.bucket(at("2026-07-02T21:59:59Z")).expect("a bucket"));
        assert_ne!(
            next,
            Period::utc(Unit::Day)
                .bucket(at("2026-07-02T01:00:00Z"))
                .expect("a bucket")
        );
    }

    #[test]
    fn the_hour_that_happens_twice_is_two_buckets() {
        let berlin = Period::new(Unit::Hour, "Europe/Berlin").expect("a zone");
        let summer = berlin.bucket(at("2026-10-25T00:30:00Z")).expect("a bucket");
        let winter = berlin.bucket(at("2026-10-25T01:30:00Z")).expect("a bucket");
        assert_ne!(summer, winter);
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_the_first() {
        let week = Period::utc(Unit::Week);
        assert_eq!(
            week.bucket(at("2026-11-16T00:00:00Z")),
            week.bucket(at("2026-11-22T23:59:59Z"))
        );
        assert_ne!(
            week.bucket(at("2026-11-15T23:59:59Z")),
            week.bucket(at("2026-11-16T00:00:00Z"))
        );
        let month = Period::utc(Unit::Month);
        assert_ne!(
            month.bucket(at("2026-11-30T23:59:59Z")),
            month.bucket(at("2026-12-01T00:00:00Z"))
        );
    }

    #[test]
    fn an_unknown_zone_is_refused_with_a_hint() {
        let error = Period::new(Unit::Day, "Mars/Olympus").expect_err("no such zone");
        assert!(error.to_string().contains("Europe/Berlin"));
    }
}
