//! Delivery: leases, fences, ends, time (contract 1).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, OnDuplicate};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::{AttemptResult, Refusal, Settle};
use semel_core::store::{ClaimRequest, WriteOutcome};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, claim_request, json, plain, secs, with};

cases![
    "1.1" => a_job_whose_lease_expires_is_delivered_again_with_a_higher_fence,
    "1.1" => a_leased_job_is_given_to_nobody_else,
    "1.1" => a_lease_ends_at_the_millisecond_it_says,
    "1.1" => every_expired_lease_of_a_batch_is_delivered_again,
    "1.2" => an_answered_submission_survives_a_crash,
    "1.2" => an_answered_settlement_survives_a_crash,
    "1.4" => an_accepted_job_is_queued,
    "1.4" => a_job_planned_ahead_becomes_queued_by_time_alone,
    "1.4" => a_leased_job_is_running_until_it_ends,
    "1.4" => a_job_between_retries_is_scheduled,
    "1.4" => a_parked_job_waits_without_a_lease,
    "1.7" => heartbeats_keep_a_long_job_with_its_worker,
    "1.7" => an_expired_lease_costs_a_delivery_and_no_attempt,
    "1.7" => the_last_delivery_to_expire_makes_a_dead_letter,
    "1.7" => an_error_costs_an_attempt_and_no_delivery,
    "1.7" => snooze_costs_neither_attempt_nor_delivery,
    "1.7" => a_hand_back_costs_nothing_and_the_job_is_ready_at_once,
    "1.7" => the_newest_fence_may_settle_late_while_nobody_else_has_the_job,
    "1.7" => the_newest_fence_may_heartbeat_late_and_has_the_job_back,
    "1.7" => a_late_settlement_is_refused_once_the_job_is_a_dead_letter,
    "1.7" => a_late_settlement_is_refused_once_the_job_is_cancelled,
    "1.8" => nothing_is_leased_before_its_time,
    "1.8" => durations_are_counted_in_milliseconds_from_now,
    "1.8" => a_replaced_run_at_is_kept_too,
];

fn a_job_whose_lease_expires_is_delivered_again_with_a_higher_fence(world: &World) {
    let first = world.start(plain());
    world.pass(secs(30));
    let second = world.claim_one();
    assert_eq!(second.job.id, first.job.id);
    assert!(
        second.fence > first.fence,
        "{} then {}",
        first.fence,
        second.fence
    );
    assert_eq!(world.complete(&second), WriteOutcome::Ok(State::Complete));
}

fn a_leased_job_is_given_to_nobody_else(world: &World) {
    let claimed = world.start(plain());
    assert_eq!(world.claim(10), []);
    world.pass(secs(10));
    assert_eq!(world.claim(10), []);
    assert_eq!(world.state(&claimed.job.id), State::Running);
}

fn a_lease_ends_at_the_millisecond_it_says(world: &World) {
    let claimed = world.start(plain());
    assert_eq!(claimed.lease_until, world.now().plus(secs(30)));
    world.pass(Millis::new(29_999));
    assert_eq!(world.claim(1), []);
    world.pass(Millis::new(1));
    assert_eq!(world.claim_one().job.id, claimed.job.id);
}

fn every_expired_lease_of_a_batch_is_delivered_again(world: &World) {
    world.submit_all((0..20).map(|_| plain()).collect());
    let first = world.claim(20);
    world.pass(secs(30));
    let mut again: Vec<_> = world
        .claim(50)
        .into_iter()
        .map(|claimed| claimed.job.id)
        .collect();
    let mut ids: Vec<_> = first.into_iter().map(|claimed| claimed.job.id).collect();
    again.sort();
    ids.sort();
    assert_eq!(again.len(), 20);
    assert_eq!(again, ids);
}

fn an_answered_submission_survives_a_crash(world: &World) {
    let id = world.accepted(with(Dedup::explicit("order-1")));
    let before = world.picture();
    world.crash();
    assert_eq!(world.picture(), before);
    assert_eq!(world.claim_one().job.id, id);
}

fn an_answered_settlement_survives_a_crash(world: &World) {
    let claimed = world.start(plain());
    let output = Some(json(r#"{"paid":42}"#));
    world.settle(
        &claimed.job.id,
        claimed.fence,
        Settle::Complete {
            output: output.clone(),
        },
    );
    world.crash();
    let job = world.job(&claimed.job.id);
    assert_eq!(
        (job.state, job.output, job.finished_at),
        (State::Complete, output, Some(world.now()))
    );
    assert_eq!(world.claim(1), []);
}

fn an_accepted_job_is_queued(world: &World) {
    let id = world.accepted(plain());
    let job = world.job(&id);
    assert_eq!(
        (job.state, job.attempt, job.deliveries, job.fence),
        (State::Queued, 0, 0, 0)
    );
    assert_eq!(
        (job.enqueued_at, job.run_at, job.started_at),
        (world.now(), world.now(), None)
    );
}

fn a_job_planned_ahead_becomes_queued_by_time_alone(world: &World) {
    let id = world.accepted(Submission {
        run_at: RunAt::After(secs(60)),
        ..plain()
    });
    assert_eq!(world.state(&id), State::Scheduled);
    assert_eq!(world.stats().jobs.get(&State::Scheduled), Some(&1));
    world.pass(secs(60));
    assert_eq!(world.state(&id), State::Queued);
    assert_eq!(world.stats().jobs.get(&State::Queued), Some(&1));
}

fn a_leased_job_is_running_until_it_ends(world: &World) {
    let claimed = world.start(plain());
    let running = world.job(&claimed.job.id);
    assert_eq!((running.state, running.attempt), (State::Running, 1));
    assert_eq!(
        (running.fence, running.lease_until),
        (claimed.fence, Some(claimed.lease_until))
    );
    assert_eq!(running.started_at, Some(world.now()));
    world.complete(&claimed);
    let ended = world.job(&claimed.job.id);
    assert_eq!(
        (ended.state, ended.finished_at, ended.lease_until),
        (State::Complete, Some(world.now()), None)
    );
}

fn a_job_between_retries_is_scheduled(world: &World) {
    let claimed = world.start(plain());
    assert_eq!(
        world.try_later(&claimed, secs(5)),
        WriteOutcome::Ok(State::Scheduled)
    );
    assert_eq!(world.claim(1), []);
    world.pass(secs(5));
    assert_eq!(world.state(&claimed.job.id), State::Queued);
    assert_eq!(world.claim_one().job.attempt, 2);
}

fn a_parked_job_waits_without_a_lease(world: &World) {
    let claimed = world.start(plain());
    let parked = world.settle(
        &claimed.job.id,
        claimed.fence,
        Settle::Park {
            reason: "in doubt".to_owned(),
        },
    );
    assert_eq!(parked, WriteOutcome::Ok(State::Parked));
    world.expire();
    assert_eq!(world.claim(10), []);
    let job = world.job(&claimed.job.id);
    assert_eq!(
        (job.state, job.lease_until, job.deliveries),
        (State::Parked, None, 0)
    );
}

/// Elsewhere the heartbeat was written once, and any job longer than its lease ran twice.
fn heartbeats_keep_a_long_job_with_its_worker(world: &World) {
    let claimed = world.start(Submission {
        max_deliveries: 1,
        ..plain()
    });
    for _ in 0..30 {
        world.pass(secs(10));
        assert_eq!(world.claim(10), []);
        assert_eq!(
            world.extend(&claimed.job.id, claimed.fence),
            WriteOutcome::Ok(State::Running)
        );
    }
    let job = world.job(&claimed.job.id);
    assert_eq!((job.deliveries, job.attempt, job.fence), (0, 1, claimed.fence));
    assert_eq!(job.lease_until, Some(world.now().plus(secs(30))));
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
}

fn an_expired_lease_costs_a_delivery_and_no_attempt(world: &World) {
    let first = world.start(Submission {
        max_attempts: 1,
        ..plain()
    });
    world.expire();
    let waiting = world.job(&first.job.id);
    assert_eq!(
        (waiting.state, waiting.attempt, waiting.deliveries),
        (State::Queued, 0, 1)
    );
    let second = world.claim_one();
    assert_eq!((second.job.attempt, second.job.deliveries), (1, 1));
    assert_eq!(world.count(Counter::Expired), 1);
    let attempts = world.attempts(&first.job.id);
    assert_eq!(
        (attempts[0].end.result, attempts[0].end.fence),
        (AttemptResult::Expired, first.fence)
    );
}

fn the_last_delivery_to_expire_makes_a_dead_letter(world: &World) {
    let id = world.accepted(plain());
    for delivery in 1..=5 {
        assert_eq!(world.claim_one().job.id, id, "delivery {delivery}");
        world.expire();
    }
    assert_eq!(world.claim(10), []);
    let job = world.job(&id);
    assert_eq!((job.state, job.deliveries, job.attempt), (State::Failed, 5, 0));
    assert!(job.error.is_some(), "a dead letter says why");
    assert_eq!(
        (world.count(Counter::Expired), world.count(Counter::Failed)),
        (5, 1)
    );
}

fn an_error_costs_an_attempt_and_no_delivery(world: &World) {
    let submission = Submission {
        max_attempts: 2,
        max_deliveries: 1,
        ..plain()
    };
    let first = world.start(submission);
    world.try_later(&first, Millis::ZERO);
    let second = world.claim_one();
    assert_eq!((second.job.attempt, second.job.deliveries), (2, 0));
    assert_eq!(
        world.try_later(&second, Millis::ZERO),
        WriteOutcome::Ok(State::Failed)
    );
    assert_eq!(
        (world.count(Counter::Retried), world.count(Counter::Failed)),
        (1, 1)
    );
}

fn snooze_costs_neither_attempt_nor_delivery(world: &World) {
    let id = world.accepted(Submission {
        max_attempts: 1,
        max_deliveries: 1,
        ..plain()
    });
    for _ in 0..5 {
        let claimed = world.claim_one();
        assert_eq!((claimed.job.attempt, claimed.job.deliveries), (1, 0));
        let snoozed = world.settle(&id, claimed.fence, Settle::Snooze { delay: secs(7) });
        assert_eq!(snoozed, WriteOutcome::Ok(State::Scheduled));
        world.pass(Millis::new(6_999));
        assert_eq!(world.claim(1), []);
        world.pass(Millis::new(1));
    }
    let job = world.job(&id);
    assert_eq!((job.attempt, job.deliveries, job.state), (0, 0, State::Queued));
}

fn a_hand_back_costs_nothing_and_the_job_is_ready_at_once(world: &World) {
    let id = world.accepted(Submission {
        max_attempts: 1,
        max_deliveries: 1,
        ..plain()
    });
    for _ in 0..5 {
        let claimed = world.claim_one();
        assert_eq!(
            world.settle(&id, claimed.fence, Settle::HandBack),
            WriteOutcome::Ok(State::Queued)
        );
    }
    let job = world.job(&id);
    assert_eq!((job.attempt, job.deliveries, job.run_at), (0, 0, world.now()));
    assert_eq!(
        world.complete(&world.claim_one()),
        WriteOutcome::Ok(State::Complete)
    );
}

fn the_newest_fence_may_settle_late_while_nobody_else_has_the_job(world: &World) {
    let claimed = world.start(plain());
    world.expire();
    assert_eq!(world.state(&claimed.job.id), State::Queued);
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
    assert_eq!(world.claim(10), []);
    let job = world.job(&claimed.job.id);
    assert_eq!((job.attempt, job.deliveries), (1, 1));
    assert_eq!(
        (world.count(Counter::Expired), world.count(Counter::Completed)),
        (1, 1)
    );
    assert_eq!(world.count(Counter::StaleWrites), 0);
}

fn the_newest_fence_may_heartbeat_late_and_has_the_job_back(world: &World) {
    let claimed = world.start(plain());
    world.expire();
    assert_eq!(
        world.extend(&claimed.job.id, claimed.fence),
        WriteOutcome::Ok(State::Running)
    );
    assert_eq!(world.claim(10), []);
    let job = world.job(&claimed.job.id);
    assert_eq!((job.attempt, job.deliveries, job.fence), (1, 1, claimed.fence));
    world.pass(secs(30));
    let next = world.claim_one();
    assert_eq!((next.job.deliveries, next.fence > claimed.fence), (2, true));
}

fn a_late_settlement_is_refused_once_the_job_is_a_dead_letter(world: &World) {
    let claimed = world.start(Submission {
        max_deliveries: 1,
        ..plain()
    });
    world.pass(secs(30));
    assert_eq!(
        world.complete(&claimed),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(world.state(&claimed.job.id), State::Failed);
    assert_eq!(
        (world.count(Counter::Failed), world.count(Counter::Completed)),
        (1, 0)
    );
    assert_eq!(world.count(Counter::StaleWrites), 1);
}

fn a_late_settlement_is_refused_once_the_job_is_cancelled(world: &World) {
    let claimed = world.start(plain());
    world.expire();
    world.cancel(&claimed.job.id);
    assert_eq!(
        world.complete(&claimed),
        WriteOutcome::Refused(Refusal::Cancelled)
    );
    assert_eq!(
        world.extend(&claimed.job.id, claimed.fence),
        WriteOutcome::Refused(Refusal::Cancelled)
    );
    assert_eq!(world.state(&claimed.job.id), State::Cancelled);
}

fn nothing_is_leased_before_its_time(world: &World) {
    let at = world.now().plus(secs(90));
    let id = world.accepted(Submission {
        run_at: RunAt::At(at),
        priority: 100,
        ..plain()
    });
    world.pass(Millis::new(89_999));
    assert_eq!(world.claim(10), []);
    world.crash();
    world.pass(Millis::new(1));
    let claimed = world.claim_one();
    assert_eq!((claimed.job.id, claimed.job.run_at), (id, at));
}

fn durations_are_counted_in_milliseconds_from_now(world: &World) {
    world.pass(Millis::new(1));
    let id = world.accepted(Submission {
        run_at: RunAt::After(Millis::new(1_501)),
        ..plain()
    });
    assert_eq!(world.job(&id).run_at, world.now().plus(Millis::new(1_501)));
    world.pass(Millis::new(1_501));
    let claims = world.claim_as(ClaimRequest {
        lease: Millis::new(1_001),
        ..claim_request(1)
    });
    assert_eq!(claims[0].lease_until, world.now().plus(Millis::new(1_001)));
    world.try_later(&claims[0], Millis::new(3));
    assert_eq!(world.job(&id).run_at, world.now().plus(Millis::new(3)));
}

fn a_replaced_run_at_is_kept_too(world: &World) {
    let policy = Dedup::explicit("report")
        .hold(Hold::until_started())
        .on_duplicate(OnDuplicate::Replace);
    let id = world.accepted(with(policy.clone()));
    let later = Submission {
        run_at: RunAt::After(secs(60)),
        ..with(policy)
    };
    world.answered(later, Outcome::Replaced);
    assert_eq!(world.claim(10), []);
    world.pass(secs(60));
    assert_eq!(world.claim_one().job.id, id);
}
