//! Absorbed submissions in the log (contract 7.6).

mod rate;

pub(crate) use rate::Rates;

use std::collections::HashMap;

use semel_core::dedup::KeySource;
use semel_core::ids::{Digest, JobId};
use semel_core::job::Outcome;
use semel_core::store::Submitted;
use semel_core::submission::{Policy, Submission};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::Job;

use crate::client::Client;
use crate::clock;

/// A submission that met the holder of its key.
struct Absorbed<'a> {
    submission: &'a Submission,
    outcome: Outcome,
    holder: &'a JobId,
    key: Option<Digest>,
}

/// Tells of those that were absorbed, each with what is left of its key's time. Nothing is looked up for a
/// log nobody reads.
pub(crate) async fn tell(client: &Client, answered: impl Iterator<Item = (&Submission, &Submitted)>) {
    let now = clock::now();
    let answered: Vec<_> = answered
        .inspect(|(submission, answer)| client.rates().count(&submission.queue, answer.outcome(), now))
        .filter_map(|(submission, answer)| absorbed(submission, answer))
        .collect();
    if answered.is_empty() || !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let holders = holders(client, &answered).await;
    for absorbed in &answered {
        let left = holders.get(absorbed.holder).and_then(|job| time_left(job, now));
        // Nothing was done already for whoever meant something else by the key.
        if absorbed.outcome == Outcome::Conflict {
            tracing::info!(
                idempotency_key = key_text(client, absorbed),
                job_id = %JobId::from(absorbed.submission.token),
                queue = %absorbed.submission.queue,
                task = %absorbed.submission.task,
                original_job_id = %absorbed.holder,
                "conflicting job refused"
            );
            continue;
        }
        tracing::info!(
            idempotency_key = key_text(client, absorbed),
            job_id = %JobId::from(absorbed.submission.token),
            queue = %absorbed.submission.queue,
            task = %absorbed.submission.task,
            original_job_id = %absorbed.holder,
            ttl_remaining = left.map(for_people),
            ttl_remaining_ms = left.map(Millis::as_millis),
            outcome = absorbed.outcome.word(),
            "duplicate job blocked"
        );
    }
}

fn absorbed<'a>(submission: &'a Submission, answer: &'a Submitted) -> Option<Absorbed<'a>> {
    let outcome = answer.outcome()?;
    if matches!(outcome, Outcome::Accepted | Outcome::Spooled) {
        return None;
    }
    let key = match answer {
        Submitted::Job(admitted) => admitted.key,
        _ => None,
    };
    Some(Absorbed {
        submission,
        outcome,
        holder: answer.id()?,
        key,
    })
}

/// The jobs that hold the keys. A store that does not answer costs a log line its ttl, and nothing else.
async fn holders(client: &Client, answered: &[Absorbed<'_>]) -> HashMap<JobId, Job> {
    let found = match answered {
        [one] => client.peek(one.holder).await.into_iter().collect(),
        many => {
            let mut ids: Vec<JobId> = many.iter().map(|absorbed| absorbed.holder.clone()).collect();
            ids.sort();
            ids.dedup();
            client.store().jobs_by_id(&ids).await.unwrap_or_default()
        }
    };
    found
        .into_iter()
        .flatten()
        .map(|job| (job.id.clone(), job))
        .collect()
}

fn time_left(holder: &Job, now: Timestamp) -> Option<Millis> {
    let expires_at = holder.key.as_ref()?.expires_at?;
    Some(expires_at.since(now))
}

/// The text a person knows the key by, unless texts are to be hidden; else the digest.
fn key_text(client: &Client, absorbed: &Absorbed<'_>) -> Option<String> {
    let text = match &absorbed.submission.policy {
        Policy::Dedup(policy) => match &policy.key {
            KeySource::Explicit(text) => Some(text.trim().to_owned()),
            _ => None,
        },
        Policy::Unsaid | Policy::None => None,
    };
    text.filter(|_| !client.options().hide_keys)
        .or_else(|| absorbed.key.map(|digest| digest.to_string()))
}

/// The two largest parts of a length: `29d 23h`.
fn for_people(length: Millis) -> String {
    let seconds = length.as_millis() / 1_000;
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let said: Vec<String> = parts
        .iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    match said.is_empty() {
        true => "0s".to_owned(),
        false => said.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_said_as_people_say_them() {
        assert_eq!(for_people(Millis::new(999)), "0s");
        assert_eq!(for_people(Millis::from_secs(61)), "1m 1s");
        assert_eq!(for_people(Millis::from_secs(3 * 3_600)), "3h 0m");
        assert_eq!(for_people(Millis::new(30 * 86_400_000 - 1)), "29d 23h");
    }
}
