//! Storms: many callers, one key (contract 2.8).

use std::sync::Arc;

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, OnDuplicate};
use semel_core::job::Outcome;
use semel_core::store::Submitted;
use semel_core::submission::Submission;

use super::list::cases;
use crate::kit::{World, latest, made_by, with};

cases![
    "2.8" => a_storm_on_one_key_gets_one_job,
    "2.8" => a_storm_of_rejections_gets_one_job,
    "2.8" => a_storm_of_replacements_gets_one_job,
    "2.8" => a_storm_of_one_submission_sent_again_and_again_is_one_job,
    "2.8" => a_storm_during_a_run_gets_one_follower,
];

const STORM: usize = 1_000;

/// A thousand callers at once, each with a submission of its own.
fn storm(world: &World, submissions: Vec<Submission>) -> Vec<Submitted> {
    let store = world.store();
    world.block(async move {
        let callers: Vec<_> = submissions
            .into_iter()
            .map(|submission| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { store.submit(vec![submission]).await })
            })
            .collect();
        let mut answers = Vec::with_capacity(STORM);
        for caller in callers {
            answers.push(
                caller
                    .await
                    .expect("a caller ends")
                    .expect("a race is no error")
                    .remove(0),
            );
        }
        answers
    })
}

/// Exactly one is accepted, all others have the other outcome, and all name the same job.
fn assert_one_job(world: &World, policy: &Dedup, others: Outcome) {
    let answers = storm(world, (0..STORM).map(|_| with(policy.clone())).collect());
    let count = |outcome| {
        answers
            .iter()
            .filter(|answer| answer.outcome() == Some(outcome))
            .count()
    };
    assert_eq!((count(Outcome::Accepted), count(others)), (1, STORM - 1));
    let id = answers[0].id().expect("a job").clone();
    assert!(
        answers.iter().all(|answer| answer.id() == Some(&id)),
        "all name one job"
    );
    assert_eq!((world.jobs().len(), world.claimed_ids()), (1, vec![id.clone()]));
    assert_eq!(world.key(world.digest(&id)).absorbed, STORM as i64 - 1);
}

fn a_storm_on_one_key_gets_one_job(world: &World) {
    assert_one_job(world, &Dedup::idempotency_key("k"), Outcome::Duplicate);
    let counts = world.counts();
    assert_eq!(
        (counts.get(Counter::Accepted), counts.get(Counter::Duplicate)),
        (1, STORM as i64 - 1)
    );
}

fn a_storm_of_rejections_gets_one_job(world: &World) {
    assert_one_job(
        world,
        &Dedup::unique().on_duplicate(OnDuplicate::Reject),
        Outcome::Rejected,
    );
}

fn a_storm_of_replacements_gets_one_job(world: &World) {
    let policy = Dedup::unique()
        .hold(Hold::until_started())
        .on_duplicate(OnDuplicate::Replace);
    assert_one_job(world, &policy, Outcome::Replaced);
}

fn a_storm_of_one_submission_sent_again_and_again_is_one_job(world: &World) {
    let submission = with(Dedup::idempotency_key("k"));
    let answers = storm(world, vec![submission.clone(); STORM]);
    let first = answers[0].id().expect("a job is named");
    assert!(made_by(first, submission.token));
    let told = (Some(Outcome::Accepted), Some(first));
    assert!(
        answers
            .iter()
            .all(|answer| (answer.outcome(), answer.id()) == told)
    );
    assert_eq!(
        (
            world.jobs().len(),
            world.count(Counter::Accepted),
            world.counts().duplicates()
        ),
        (1, 1, 0)
    );
}

fn a_storm_during_a_run_gets_one_follower(world: &World) {
    let claimed = world.start(latest(1));
    let answers = storm(world, (0..STORM).map(|_| latest(2)).collect());
    let follower = answers[0].id().expect("a job").clone();
    assert_ne!(follower, claimed.job.id);
    for answer in &answers {
        assert_eq!(
            (answer.outcome(), answer.id()),
            (Some(Outcome::Deferred), Some(&follower))
        );
    }
    assert_eq!(
        (world.jobs().len(), world.count(Counter::Deferred)),
        (2, STORM as i64)
    );
    world.complete(&claimed);
    assert_eq!(world.claimed_ids(), [follower]);
}
