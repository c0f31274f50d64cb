//! Policies in words.

use semel_core::dedup::{Hold, HoldKind, KeyBy};
use semel_core::lifecycle::AttemptResult;

use crate::text::clean;
use crate::when::span;

/// `30 d from the submission`, `until the job has ended, and 5 m longer`.
pub fn hold(hold: &Hold) -> String {
    let mut text = match (hold.kind, hold.ttl) {
        (HoldKind::UntilStarted, None) => "until the job starts".to_owned(),
        (HoldKind::UntilStarted, Some(ttl)) => format!("until the job starts, at most {}", span(ttl)),
        (HoldKind::UntilFinished, None) => "until the job has ended".to_owned(),
        (HoldKind::UntilFinished, Some(ttl)) => {
            format!("until the job has ended, or has waited {}", span(ttl))
        }
        (HoldKind::Window, ttl) => format!(
            "{} from the submission",
            span(ttl.unwrap_or(Hold::DEFAULT_WINDOW))
        ),
        (HoldKind::Forever, _) => "until released by hand".to_owned(),
    };
    if let Some(more) = hold.cool_down {
        text.push_str(&format!(", and {} longer", span(more)));
    }
    let early = match (hold.release_on.failed, hold.release_on.cancelled) {
        (true, true) => "; freed if it fails or is cancelled",
        (true, false) => "; freed if it fails",
        (false, true) => "; freed if it is cancelled",
        (false, false) => "",
    };
    text + early
}

/// How a delivery ended.
pub fn ended(result: AttemptResult) -> &'static str {
    match result {
        AttemptResult::Complete => "complete",
        AttemptResult::Error => "error",
        AttemptResult::Failed => "failed",
        AttemptResult::Snoozed => "snoozed",
        AttemptResult::HandedBack => "handed back",
        AttemptResult::Parked => "parked",
        AttemptResult::Cancelled => "cancelled",
        AttemptResult::Expired => "expired",
    }
}

/// What a key is made from.
pub fn made_from(by: KeyBy) -> &'static str {
    match by {
        KeyBy::Explicit => "a text of the producer's",
        KeyBy::Input => "the task and the whole input",
        KeyBy::Fields => "some fields of the input",
        KeyBy::Except => "the input without some fields",
        KeyBy::Hybrid => "some fields, telling other inputs apart",
        KeyBy::Generated => "nothing: fresh for each submission",
    }
}

/// Where two inputs differ; the pointer to everything has no text of its own.
pub fn differs(pointers: &[String]) -> String {
    let shown = pointers.iter().map(|pointer| match pointer.as_str() {
        "" => "(the whole input)".to_owned(),
        pointer => clean(pointer).into_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::dedup::ReleaseOn;
    use semel_core::time::Millis;

    #[test]
    fn every_hold_has_its_sentence() {
        let day = Millis::from_days(1);
        assert_eq!(hold(&Hold::until_started()), "until the job starts");
        assert_eq!(
            hold(&Hold::until_finished().ttl(day)),
            "until the job has ended, or has waited 1 d"
        );
        assert_eq!(
            hold(&Hold::until_finished().cool_down(day)),
            "until the job has ended, and 1 d longer"
        );
        let on_failed = ReleaseOn {
            failed: true,
            cancelled: false,
        };
        assert_eq!(
            hold(&Hold::window(day).release_on(on_failed)),
            "1 d from the submission; freed if it fails"
        );
        assert_eq!(hold(&Hold::forever()), "until released by hand");
    }
}
