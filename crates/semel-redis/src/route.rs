//! Which shard a call goes to.
//!
//! A submission goes where its key is (hybrid: where its fields are), so that a key stays unique over queues and atomic
//! with its job; without a key it goes by its token. The same submission always goes to the same shard, whatever the
//! time and however its queue is set, or a repeated one would not find itself (contract 3.5).

use semel_core::dedup::{Dedup, key};
use semel_core::ids::{Digest, Name, Token};
use semel_core::submission::{Policy, Prepared, Submission};
use semel_core::time::Timestamp;

use crate::head::Head;
use crate::records::Spec;

/// Slots that are spread over the shards, whatever their number: as many as there can be shards.
pub const SLOTS: u16 = 1_024;

/// The shard of a slot.
pub fn of_slot(slot: u16, shards: usize) -> usize {
    usize::from(slot) % shards
}

/// The shard of a digest.
pub fn of_digest(digest: &Digest, shards: usize) -> usize {
    of_slot(slot_of_digest(digest), shards)
}

/// The slot of a digest.
pub fn slot_of_digest(digest: &Digest) -> u16 {
    slot_of_bytes(&digest.as_bytes()[24..])
}

/// The slot of a token.
pub fn slot_of_token(token: &Token) -> u16 {
    slot_of_bytes(&token.as_bytes()[8..])
}

fn slot_of_bytes(bytes: &[u8]) -> u16 {
    let number = bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    u16::try_from(number % u64::from(SLOTS)).expect("smaller than the number of slots")
}

/// The shard of a submission.
pub fn of_submission(namespace: &Name, prepared: &Prepared, shards: usize) -> usize {
    if shards == 1 {
        return 0;
    }
    of_slot(slot(namespace, prepared), shards)
}

/// The slot of a submission.
fn slot(namespace: &Name, prepared: &Prepared) -> u16 {
    let by_token = || slot_of_token(&prepared.submission.token);
    match &prepared.submission.policy {
        Policy::None => by_token(),
        // Its queue may be declared unique, or no longer be.
        Policy::Unsaid => unsaid(namespace, &prepared.submission),
        // The bucket of a period moves with the time.
        Policy::Dedup(policy) if policy.period.is_some() => {
            let plain = Dedup {
                period: None,
                ..(**policy).clone()
            };
            stable(namespace, &prepared.submission, &plain)
                .map_or_else(by_token, |digest| slot_of_digest(&digest))
        }
        Policy::Dedup(_) => match &prepared.key {
            Some(key) => slot_of_digest(key.group.as_ref().unwrap_or(&key.digest)),
            None => by_token(),
        },
    }
}

fn unsaid(namespace: &Name, submission: &Submission) -> u16 {
    stable(namespace, submission, &Dedup::of_unique_queue()).map_or_else(
        || slot_of_token(&submission.token),
        |digest| slot_of_digest(&digest),
    )
}

/// The slot of a submission, if the job that comes of it has to carry it: without it [`of_job`] would not find back.
pub fn carried(namespace: &Name, prepared: &Prepared, keyed: bool) -> Option<u16> {
    match &prepared.submission.policy {
        Policy::Unsaid => None,
        Policy::Dedup(policy) if policy.period.is_none() && keyed => None,
        _ => Some(slot(namespace, prepared)),
    }
}

/// The slot that the submission of a job was sent to.
pub fn of_job(namespace: &Name, head: &Head, spec: &Spec, (queue, task): (Name, Name)) -> u16 {
    let digest = head.group.or(head.digest);
    let told = head.trail.slot.or(digest.map(|digest| slot_of_digest(&digest)));
    told.unwrap_or_else(|| {
        // A replay has the content of the first of its chain, and is where that is.
        let token = Token::from_bytes(head.origin().0);
        let mut submission = Submission::new(token, task, spec.content.input.clone());
        submission.queue = queue;
        submission.content = spec.content.clone();
        unsaid(namespace, &submission)
    })
}

/// A digest that does not depend on the time.
fn stable(namespace: &Name, submission: &Submission, policy: &Dedup) -> Option<Digest> {
    let key = key::derive(namespace, submission, policy, Timestamp::default()).ok()?;
    Some(key.group.unwrap_or(key.digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::dedup::Period;
    use semel_core::dedup::Unit;
    use semel_core::json::Json;

    fn shard(policy: Policy, token: u8, input: &str, now: i64) -> usize {
        let namespace = Name::new("app").unwrap();
        let token = Token::from_parts(1_800_000_000_000, &[token; 10]);
        let mut submission = Submission::new(token, Name::new("work").unwrap(), Json::new(input).unwrap());
        submission.policy = policy;
        let prepared = Prepared::new(&namespace, submission, Timestamp::from_millis(now)).unwrap();
        of_submission(&namespace, &prepared, 64)
    }

    #[test]
    fn equal_keys_meet_whoever_submits_them_and_whenever() {
        let daily = || Policy::from(Dedup::explicit("k").period(Period::utc(Unit::Minute)));
        assert_eq!(shard(daily(), 1, "1", 0), shard(daily(), 2, "2", 86_400_000));
        let hybrid = || Policy::from(Dedup::hybrid(["/id"]).unwrap());
        assert_eq!(
            shard(hybrid(), 1, r#"{"id":1,"n":1}"#, 0),
            shard(hybrid(), 2, r#"{"id":1,"n":2}"#, 0)
        );
        assert_eq!(
            shard(Policy::Unsaid, 1, "1", 0),
            shard(Policy::Unsaid, 2, "1.0", 5)
        );
    }

    #[test]
    fn work_without_a_key_is_spread() {
        let shards: std::collections::BTreeSet<usize> =
            (0..100).map(|n| shard(Policy::None, n, "1", 0)).collect();
        assert!(shards.len() > 30, "{shards:?}");
    }
}
