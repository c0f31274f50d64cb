//! One submission in a spool: a line of text, with a checksum in front.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use semel_core::error::Invalid;
use semel_core::submission::{Policy, RunAt, Submission};
use semel_core::time::{Millis, Timestamp};

use crate::request::SubmitRequest;

/// A submission, and since when it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// By the host's clock.
    pub(super) at: i64,
    pub(super) submission: SubmitRequest,
}

impl Record {
    pub(super) fn new(submission: &Submission, now: Timestamp) -> Self {
        Record {
            at: now.as_millis(),
            submission: SubmitRequest::from(submission),
        }
    }

    /// The line it is written as, with its end.
    pub(super) fn line(&self) -> String {
        let json = serde_json::to_string(self).expect("text keys and JSON values can be written");
        // Between the members of an input that came pretty-printed there may be ends of lines, which mean nothing.
        let json = json.replace(['\n', '\r'], " ");
        format!("{} {json}\n", checksum(&json))
    }

    /// Reads a line; a line that is not what was written is refused.
    pub(super) fn read(line: &str) -> Option<Self> {
        let (sum, json) = line.split_once(' ')?;
        if sum != checksum(json) {
            return None;
        }
        serde_json::from_str(json).ok()
    }

    /// The submission as it is sent at `now`: the time it has waited is taken off its delay, and a
    /// calendar period is the one in which it was submitted, not the one in which it arrives.
    pub(super) fn submission(self, now: Timestamp) -> Result<Submission, Invalid> {
        let at = Timestamp::from_millis(self.at);
        let mut submission = self.submission.submission()?;
        let periodic = matches!(&submission.policy, Policy::Dedup(policy) if policy.period.is_some());
        submission.run_at = match submission.run_at {
            RunAt::Now if periodic => RunAt::At(at),
            RunAt::After(delay) if periodic => RunAt::At(at.plus(delay)),
            RunAt::After(delay) => {
                let left = delay.as_millis() - now.since(at).as_millis();
                if left > 0 {
                    RunAt::After(Millis::new(left))
                } else {
                    RunAt::Now
                }
            }
            run_at => run_at,
        };
        Ok(submission)
    }
}

fn checksum(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::fresh_token;
    use semel_core::dedup::{Dedup, Period, Unit};
    use semel_core::ids::Name;
    use semel_core::json::Json;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn submission(input: &str) -> Submission {
        let task = Name::new("t").expect("a name");
        Submission::new(fresh_token(), task, Json::new(input).expect("JSON"))
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_damage_is_noticed() {
        let mut submission = submission("{\n  \"text\": \"two\\nlines\"\n}");
        submission.policy = Dedup::hybrid(["/text"]).expect("a pointer").into();
        submission
            .content
            .headers
            .insert("traceparent".into(), "00-é".into());
        submission.priority = -7;
        let line = Record::new(&submission, NOW).line();
        assert_eq!(line.matches('\n').count(), 1);
        let record = Record::read(line.trim_end_matches('\n')).expect("a record");
        let mut back = record.submission(NOW).expect("a submission");
        assert_eq!(
            back.content.input.read::<serde_json::Value>().expect("JSON")["text"],
            "two\nlines"
        );
        back.content.input = submission.content.input.clone();
        assert_eq!(back, submission);

        let flipped = line.replace("two", "six");
        assert_eq!(Record::read(flipped.trim_end()), None);
        assert_eq!(Record::read(&line[..line.len() / 2]), None);
    }

    #[test]
    fn the_time_in_the_spool_is_taken_off_the_delay() {
        let mut waits = submission("1");
        waits.run_at = RunAt::After(Millis::from_secs(60));
        let record = Record::new(&waits, NOW);
        let sent = |after: i64| {
            let sent = record.clone().submission(NOW.plus(Millis::from_secs(after)));
            sent.expect("a submission").run_at
        };
        assert_eq!(sent(20), RunAt::After(Millis::from_secs(40)));
        assert_eq!(sent(61), RunAt::Now);
    }

    #[test]
    fn a_daily_job_belongs_to_the_day_it_was_submitted_on() {
        let mut daily = submission("1");
        daily.policy = Dedup::once_per(Period::utc(Unit::Day)).into();
        let sent = Record::new(&daily, NOW).submission(NOW.plus(Millis::from_days(2)));
        assert_eq!(sent.expect("a submission").run_at, RunAt::At(NOW));
    }
}
