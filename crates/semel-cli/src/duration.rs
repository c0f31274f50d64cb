//! Lengths and moments as people write them: `10m`, `1h30m`, `2026-11-20T03:00:00Z`.

use std::str::FromStr;

use crate::problem::Refused;

use semel_core::time::{Millis, Timestamp};

const UNITS: [(&str, i64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// A length of time on the command line or in `semel.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub Millis);

impl FromStr for Length {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let wrong = || {
            Refused::new("allowed are numbers with a unit: ms, s, m, h, d, w")
                .hint("for example 500ms, 30s, 10m, 1h30m or 30d")
        };
        let mut rest = text.trim();
        let mut total: i64 = 0;
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let number: i64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let unit = rest[..word].trim();
            let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            total = number
                .checked_mul(*millis)
                .and_then(|part| total.checked_add(part))
                .ok_or_else(wrong)?;
            rest = rest[word..].trim_start();
        }
        Ok(Length(Millis::new(total)))
    }
}

impl From<Length> for Millis {
    fn from(length: Length) -> Self {
        length.0
    }
}

impl From<Length> for std::time::Duration {
    fn from(length: Length) -> Self {
        length.0.into()
    }
}

/// A moment: RFC 3339, or a length counted back from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This one.
    At(Timestamp),
    /// So long ago.
    Ago(Millis),
}

impl Moment {
    /// The moment, seen from `now`.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::At(at) => at,
            Moment::Ago(length) => Timestamp::from_millis(now.as_millis() - length.as_millis()),
        }
    }
}

impl FromStr for Moment {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        if let Ok(Length(length)) = text.parse() {
            return Ok(Moment::Ago(length));
        }
        rfc3339(text).map(Moment::At)
    }
}

/// Reads a moment such as `2026-11-20T03:00:00Z` or with an offset.
pub fn rfc3339(text: &str) -> Result<Timestamp, Refused> {
    let moment: jiff::Timestamp = text.trim().parse().map_err(|_| {
        Refused::new("allowed is a time as in RFC 3339, with its zone")
            .hint("for example 2026-11-20T03:00:00Z or 2026-11-20T04:00:00+01:00")
    })?;
    Ok(Timestamp::from_millis(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let millis = |text: &str| text.parse::<Length>().map(|length| length.0.as_millis());
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("10m"), Ok(600_000));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!(millis("1h 30m"), Ok(5_400_000));
        assert_eq!(millis("30d"), Ok(2_592_000_000));
        assert_eq!(millis("2 w"), Ok(1_209_600_000));
    }

    #[test]
    fn an_unknown_unit_is_refused_with_the_known_ones() {
        for text in [
            "10",
            "10q",
            "m",
            "",
            "-5m",
            "10m5",
            "1.5h",
            "99999999999999999d",
            "5 minutes",
        ] {
            let error = text.parse::<Length>().expect_err(text);
            assert!(error.to_string().contains("ms, s, m, h, d, w"), "{error}");
        }
    }

    #[test]
    fn a_moment_is_a_date_or_so_long_ago() {
        let now = Timestamp::from_millis(10_000_000);
        assert_eq!(
            "1h".parse::<Moment>().unwrap().resolve(now).as_millis(),
            6_400_000
        );
        let at = "1970-01-01T01:00:00+01:00".parse::<Moment>().unwrap();
        assert_eq!(at.resolve(now).as_millis(), 0);
        assert!("yesterday".parse::<Moment>().is_err());
    }
}
