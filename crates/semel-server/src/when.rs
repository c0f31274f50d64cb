//! Moments and lengths for people: relative first, exact beside it.

use semel_core::time::{Millis, Timestamp};

/// `3 m ago`, `in 5 s`, `just now`.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    const CLOSE: i64 = 1_000;
    if (at.as_millis() - now.as_millis()).abs() < CLOSE {
        return if at > now { "now" } else { "just now" }.to_owned();
    }
    if at > now {
        format!("in {}", coarse(at.since(now)))
    } else {
        format!("{} ago", coarse(now.since(at)))
    }
}

/// `2026-11-20 03:12:44 UTC`.
pub fn exact(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => at.to_string(),
    }
}

/// One unit, rounded down: `3 m`.
fn coarse(length: Millis) -> String {
    let millis = length.as_millis();
    let (unit, word) = unit_of(millis);
    format!("{} {word}", millis / unit)
}

/// Two units where the second says something: `1 h 30 m`, `2.5 s`, `120 ms`.
pub fn span(length: Millis) -> String {
    let millis = length.as_millis();
    let (unit, word) = unit_of(millis);
    let (whole, rest) = (millis / unit, millis % unit);
    if word == "s" && rest >= 100 {
        return format!("{whole}.{} s", rest / 100);
    }
    if rest >= 1_000 && word != "s" && word != "ms" {
        let (small, small_word) = smaller(unit);
        if rest / small > 0 {
            return format!("{whole} {word} {} {small_word}", rest / small);
        }
    }
    format!("{whole} {word}")
}

const UNITS: [(i64, &str); 5] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "m"),
    (1_000, "s"),
    (1, "ms"),
];

fn unit_of(millis: i64) -> (i64, &'static str) {
    UNITS
        .into_iter()
        .find(|(unit, _)| millis >= *unit)
        .unwrap_or((1, "ms"))
}

fn smaller(unit: i64) -> (i64, &'static str) {
    UNITS
        .into_iter()
        .find(|(other, _)| *other < unit)
        .unwrap_or((1, "ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn moments_are_told_from_now() {
        let now = at(10_000_000_000);
        assert_eq!(relative(at(10_000_000_400), now), "now");
        assert_eq!(relative(at(9_999_999_600), now), "just now");
        assert_eq!(relative(at(9_999_997_000), now), "3 s ago");
        assert_eq!(relative(at(10_000_300_000), now), "in 5 m");
        assert_eq!(relative(at(9_800_000_000), now), "2 d ago");
    }

    #[test]
    fn lengths_have_two_units_where_it_helps() {
        let told = |millis: i64| span(Millis::new(millis));
        assert_eq!(told(0), "0 ms");
        assert_eq!(told(120), "120 ms");
        assert_eq!(told(2_540), "2.5 s");
        assert_eq!(told(30_000), "30 s");
        assert_eq!(told(5_400_000), "1 h 30 m");
        assert_eq!(told(2_592_000_000), "30 d");
        assert_eq!(told(90_000_000), "1 d 1 h");
    }

    #[test]
    fn an_exact_moment_says_its_zone() {
        assert_eq!(exact(at(0)), "1970-01-01 00:00:00 UTC");
    }
}
