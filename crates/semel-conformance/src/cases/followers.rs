//! Followers: the newest submission wins, and runs after the one that is running (contract 2.5, `latest`).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{Claimed, WriteOutcome};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, done, ends, held_by, into_queue, json, latest, numbered, secs, with};

cases![
    "2.5" => a_deferred_job_exists_at_once_without_the_key,
    "2.5" => later_submissions_replace_the_content_of_the_follower,
    "2.5" => a_follower_is_not_leased_before_its_time,
    "2.5" => a_follower_takes_the_key_when_the_holder_ends_by_any_settlement,
    "2.5" => a_follower_takes_the_key_when_the_holder_is_cancelled,
    "2.5" => a_follower_takes_the_key_when_the_last_lease_of_the_holder_expires,
    "2.5" => a_submission_that_finds_the_holder_dead_meets_its_follower,
    "2.5" => a_follower_takes_the_key_when_it_is_released_by_hand,
    "2.5" => a_follower_takes_the_key_when_the_queue_of_the_holder_is_removed,
    "2.5" => a_retry_of_the_holder_promotes_nobody,
    "2.5" => a_submission_during_a_run_is_not_lost,
    "2.5" => a_follower_that_was_promoted_can_be_followed,
    "2.5" => a_cancelled_follower_never_runs_and_makes_room_for_another,
    "2.5" => a_queue_is_removed_with_holder_and_follower,
    "2.5" => a_removed_follower_makes_room_for_another,
    "2.5" => a_follower_survives_a_crash,
    "2.5" => a_holder_with_another_hold_is_not_followed,
];

/// A running holder, and the job that follows it.
fn followed(world: &World) -> (Claimed, JobId) {
    let claimed = world.start(latest(1));
    let follower = world.answered(latest(2), Outcome::Deferred);
    (claimed, follower)
}

/// The follower took the key and is the next to run.
fn assert_promoted(world: &World, follower: &JobId) {
    let job = world.job(follower);
    assert_eq!((job.state, job.blocked_by), (State::Queued, None));
    assert_eq!(world.holder(world.digest(follower)).as_ref(), Some(follower));
    assert_eq!(world.duplicate(numbered(Dedup::explicit("k"), 2)), *follower);
    let claimed = world.claim_one();
    assert_eq!(
        (&claimed.job.id, claimed.job.input.as_str()),
        (follower, r#"{"n":2}"#)
    );
}

fn a_deferred_job_exists_at_once_without_the_key(world: &World) {
    let (claimed, follower) = followed(world);
    assert_ne!(follower, claimed.job.id);
    let job = world.job(&follower);
    assert_eq!(
        (job.state, job.blocked_by),
        (State::Deferred, Some(claimed.job.id.clone()))
    );
    assert_eq!(job.input, json(r#"{"n":2}"#));
    assert!(job.key.is_none_or(|key| !key.held));
    assert_eq!(
        world.duplicate(numbered(Dedup::explicit("k"), 1)),
        claimed.job.id,
        "the holder is named"
    );
    assert_eq!(world.holder(world.digest(&claimed.job.id)), Some(claimed.job.id));
    assert_eq!(world.claim(10), []);
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Deferred)),
        (1, 1)
    );
}

fn later_submissions_replace_the_content_of_the_follower(world: &World) {
    let (claimed, follower) = followed(world);
    for n in 3..=5 {
        let newer = Submission {
            priority: 9,
            max_attempts: 2,
            ..latest(n)
        };
        assert_eq!(world.answered(newer, Outcome::Deferred), follower);
    }
    let job = world.job(&follower);
    assert_eq!(
        (job.input, job.priority, job.max_attempts),
        (json(r#"{"n":5}"#), 9, 2)
    );
    assert_eq!((world.jobs().len(), world.count(Counter::Deferred)), (2, 4));
    world.complete(&claimed);
    assert_eq!(world.claim_one().job.input, json(r#"{"n":5}"#));
    assert_eq!(world.claim(10), []);
}

fn a_follower_is_not_leased_before_its_time(world: &World) {
    let claimed = world.start(latest(1));
    let later = Submission {
        run_at: RunAt::After(secs(60)),
        ..latest(2)
    };
    let follower = world.answered(later, Outcome::Deferred);
    world.complete(&claimed);
    assert_eq!(world.state(&follower), State::Scheduled);
    assert_eq!(world.claim(10), []);
    world.pass(secs(60));
    assert_eq!(world.claim_one().job.id, follower);
}

fn a_follower_takes_the_key_when_the_holder_ends_by_any_settlement(world: &World) {
    for result in ends() {
        let (claimed, follower) = followed(world);
        world.settle(&claimed.job.id, claimed.fence, result);
        assert_promoted(world, &follower);
        world.cancel(&follower);
    }
}

fn a_follower_takes_the_key_when_the_holder_is_cancelled(world: &World) {
    let (claimed, follower) = followed(world);
    assert_eq!(
        world.cancel(&claimed.job.id),
        done(&claimed.job.id, State::Cancelled)
    );
    world.complete(&claimed);
    assert_promoted(world, &follower);
    assert_eq!(held_by(world.retry(&claimed.job.id)).id, follower);
}

fn a_follower_takes_the_key_when_the_last_lease_of_the_holder_expires(world: &World) {
    let claimed = world.start(Submission {
        max_deliveries: 1,
        ..latest(1)
    });
    let follower = world.answered(latest(2), Outcome::Deferred);
    world.expire();
    assert_eq!(world.state(&claimed.job.id), State::Failed);
    assert_promoted(world, &follower);
}

fn a_submission_that_finds_the_holder_dead_meets_its_follower(world: &World) {
    let dead = world.start(Submission {
        max_deliveries: 1,
        ..latest(1)
    });
    let follower = world.answered(latest(2), Outcome::Deferred);
    world.pass(secs(30));
    assert_eq!(world.answered(latest(3), Outcome::Replaced), follower);
    assert_eq!(
        (world.state(&dead.job.id), world.state(&follower)),
        (State::Failed, State::Queued)
    );
    assert_eq!(world.claim_one().job.input, json(r#"{"n":3}"#));
}

fn a_follower_takes_the_key_when_it_is_released_by_hand(world: &World) {
    let (claimed, follower) = followed(world);
    assert_eq!(
        world.let_go(&claimed.job.id),
        done(&claimed.job.id, State::Running)
    );
    assert_promoted(world, &follower);
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
    assert_eq!(
        world.holder(world.digest(&follower)),
        Some(follower),
        "both run, and the key stays"
    );
}

fn a_follower_takes_the_key_when_the_queue_of_the_holder_is_removed(world: &World) {
    let claimed = world.start(into_queue("doomed", latest(1)));
    let follower = world.answered(latest(2), Outcome::Deferred);
    assert_eq!(world.remove_queue("doomed"), 1);
    assert_eq!(world.complete(&claimed), WriteOutcome::NotFound);
    assert_promoted(world, &follower);
}

fn a_retry_of_the_holder_promotes_nobody(world: &World) {
    let (claimed, follower) = followed(world);
    world.try_later(&claimed, Millis::ZERO);
    assert_eq!(world.state(&follower), State::Deferred);
    let second = world.claim_one();
    assert_eq!(second.job.id, claimed.job.id);
    world.settle(
        &second.job.id,
        second.fence,
        Settle::Park {
            reason: "in doubt".to_owned(),
        },
    );
    assert_eq!(world.state(&follower), State::Deferred);
    assert_eq!(world.answered(latest(3), Outcome::Deferred), follower);
    assert_eq!(world.claim(10), []);
}

/// Elsewhere a duplicate that came during a run was dropped, and the newest data was never worked on.
fn a_submission_during_a_run_is_not_lost(world: &World) {
    let claimed = world.start(latest(1));
    world.answered(latest(2), Outcome::Deferred);
    world.complete(&claimed);
    let next = world.claim_one();
    assert_eq!(next.job.input, json(r#"{"n":2}"#));
    world.complete(&next);
    assert_eq!(
        (world.count(Counter::Completed), world.stats().active_keys),
        (2, 0)
    );
}

fn a_follower_that_was_promoted_can_be_followed(world: &World) {
    let (claimed, follower) = followed(world);
    world.complete(&claimed);
    assert_eq!(world.answered(latest(3), Outcome::Replaced), follower);
    let second = world.claim_one();
    assert_eq!(
        (&second.job.id, second.job.input.as_str()),
        (&follower, r#"{"n":3}"#)
    );
    let next = world.answered(latest(4), Outcome::Deferred);
    assert!(next != follower && next != claimed.job.id);
    assert_eq!(world.job(&next).blocked_by, Some(follower));
    world.complete(&second);
    assert_eq!(world.claim_one().job.id, next);
}

fn a_cancelled_follower_never_runs_and_makes_room_for_another(world: &World) {
    let (claimed, follower) = followed(world);
    assert_eq!(world.cancel(&follower), done(&follower, State::Cancelled));
    let next = world.answered(latest(3), Outcome::Deferred);
    assert_ne!(next, follower);
    world.cancel(&next);
    world.complete(&claimed);
    assert_eq!(world.claim(10), []);
    assert_eq!(
        (world.state(&follower), world.state(&next)),
        (State::Cancelled, State::Cancelled)
    );
    assert_eq!(world.stats().active_keys, 0);
}

fn a_queue_is_removed_with_holder_and_follower(world: &World) {
    let claimed = world.start(into_queue("doomed", latest(1)));
    let follower = world.answered(into_queue("doomed", latest(2)), Outcome::Deferred);
    assert_eq!(world.remove_queue("doomed"), 2);
    assert_eq!((world.find(&claimed.job.id), world.find(&follower)), (None, None));
    assert_eq!((world.claim(10), world.stats().active_keys), (Vec::new(), 0));
    world.accepted(latest(3));
}

fn a_removed_follower_makes_room_for_another(world: &World) {
    let claimed = world.start(latest(1));
    let follower = world.answered(into_queue("doomed", latest(2)), Outcome::Deferred);
    assert_eq!(world.remove_queue("doomed"), 1);
    assert_eq!(world.find(&follower), None);
    let next = world.answered(latest(2), Outcome::Deferred);
    world.complete(&claimed);
    assert_promoted(world, &next);
}

fn a_follower_survives_a_crash(world: &World) {
    let (claimed, follower) = followed(world);
    world.crash();
    assert_eq!(world.state(&follower), State::Deferred);
    world.complete(&claimed);
    world.crash();
    assert_promoted(world, &follower);
}

fn a_holder_with_another_hold_is_not_followed(world: &World) {
    for (n, hold) in [
        Hold::until_finished().ttl(secs(600)),
        Hold::until_finished().cool_down(secs(1)),
        Hold::forever(),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("k{n}");
        let claimed = world.start(with(Dedup::explicit(&text).hold(hold)));
        assert_eq!(
            world.duplicate(with(Dedup::explicit(&text).latest())),
            claimed.job.id
        );
    }
    assert_eq!((world.jobs().len(), world.count(Counter::Deferred)), (3, 0));
}
