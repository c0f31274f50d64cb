//! Holds: how long a key stays taken (contract 2.4).

use semel_core::dedup::{Dedup, Hold, OnMismatch, ReleaseOn};
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::Settle;
use semel_core::store::{ActOutcome, Submitted, WriteOutcome};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, done, ends, json, secs, with, with_input};

cases![
    "2.4" => until_started_is_freed_by_the_first_lease,
    "2.4" => until_started_is_held_while_the_job_is_planned_ahead,
    "2.4" => until_started_is_not_retaken_by_a_redelivery,
    "2.4" => until_started_is_not_retaken_by_a_retry_a_snooze_or_a_hand_back,
    "2.4" => until_started_is_freed_when_the_job_never_starts,
    "2.4" => until_started_with_a_ttl_lapses_while_the_job_waits,
    "2.4" => until_finished_is_held_however_long_the_job_waits,
    "2.4" => until_finished_is_held_through_retries_snoozes_and_redeliveries,
    "2.4" => until_finished_is_held_while_the_job_is_parked,
    "2.4" => until_finished_is_freed_by_every_end,
    "2.4" => until_finished_is_freed_by_the_last_expired_lease,
    "2.4" => a_ttl_lapses_while_the_job_waits_and_lets_another_in,
    "2.4" => a_lease_that_begins_after_the_ttl_does_not_bring_the_key_back,
    "2.4" => a_lease_that_begins_at_the_very_end_of_the_ttl_is_too_late,
    "2.4" => a_ttl_never_lapses_under_a_lease_that_began_before_it,
    "2.4" => a_ttl_lapses_when_the_lease_that_kept_it_runs_out,
    "2.4" => a_heartbeat_after_the_lease_ran_out_does_not_bring_the_key_back,
    "2.4" => a_ttl_lapses_between_retries,
    "2.4" => a_key_that_lapsed_does_not_cool_down,
    "2.4" => a_cool_down_keeps_the_key_after_every_end,
    "2.4" => a_cool_down_counts_from_the_finish_whatever_the_ttl,
    "2.4" => a_cool_down_outlives_a_crash,
    "2.4" => a_window_is_held_from_the_submission_whatever_the_outcome,
    "2.4" => a_window_never_closes_before_its_job_has_ended,
    "2.4" => a_window_is_freed_early_by_the_outcomes_it_names,
    "2.4" => a_window_freed_on_failure_is_freed_by_the_last_expired_lease,
    "2.4" => forever_is_held_until_released_by_hand,
    "2.4" => forever_is_freed_early_by_the_outcomes_it_names,
    "2.4" => the_hold_is_the_holders_and_not_the_newcomers,
    "2.4" => a_short_key_does_not_take_longer_ones_along,
    "2.4" => a_ttl_may_be_a_millisecond,
    "2.4" => a_finished_holder_outlives_its_retention_as_a_stub,
    "2.4" => a_deleted_holder_leaves_a_stub_that_still_holds,
    "2.4" => a_stub_still_tells_another_input,
    "2.4" => a_stub_goes_when_its_key_is_free,
    "2.4" => a_free_key_keeps_no_stub,
];

fn held(hold: Hold) -> Submission {
    with(Dedup::explicit("k").hold(hold))
}

/// Another caller finds the key taken by this job.
fn assert_held(world: &World, id: &JobId) {
    assert_eq!(world.duplicate(held(Hold::until_finished())), *id);
    assert!(world.holds(id), "the job says so too");
    assert_eq!(
        world.holder(world.digest(id)).as_ref(),
        Some(id),
        "and so does the key"
    );
}

/// Another caller finds the key free, and takes it.
fn assert_free(world: &World, id: &JobId) {
    assert!(!world.holds(id), "the job says so too");
    assert_eq!(world.holder(world.digest(id)), None, "and so does the key");
    assert_ne!(world.accepted(held(Hold::until_finished())), *id);
}

fn until_started_is_freed_by_the_first_lease(world: &World) {
    let id = world.accepted(held(Hold::until_started()));
    assert_held(world, &id);
    assert_eq!(world.claim_one().job.id, id);
    assert_free(world, &id);
}

fn until_started_is_held_while_the_job_is_planned_ahead(world: &World) {
    let id = world.accepted(Submission {
        run_at: RunAt::After(Millis::from_days(2)),
        ..held(Hold::until_started())
    });
    world.pass(Millis::from_days(1));
    assert_held(world, &id);
    world.pass(Millis::from_days(1));
    assert_held(world, &id);
}

fn until_started_is_not_retaken_by_a_redelivery(world: &World) {
    let first = world.start(held(Hold::until_started()));
    world.expire();
    assert_eq!(world.state(&first.job.id), State::Queued);
    assert!(!world.holds(&first.job.id));
    let second = world.accepted(held(Hold::until_started()));
    assert_eq!(world.claim(2).len(), 2);
    world.expire();
    assert_eq!(world.stats().active_keys, 0);
    assert_free(world, &second);
}

fn until_started_is_not_retaken_by_a_retry_a_snooze_or_a_hand_back(world: &World) {
    for result in [
        Settle::Retry {
            error: "no".to_owned(),
            delay: Some(secs(9)),
        },
        Settle::Snooze { delay: secs(9) },
        Settle::HandBack,
    ] {
        let claimed = world.start(held(Hold::until_started()));
        world.settle(&claimed.job.id, claimed.fence, result);
        assert!(!world.holds(&claimed.job.id));
        assert_eq!(world.stats().active_keys, 0);
        world.cancel(&claimed.job.id);
    }
}

fn until_started_is_freed_when_the_job_never_starts(world: &World) {
    let id = world.accepted(held(Hold::until_started()));
    assert_eq!(world.cancel(&id), done(&id, State::Cancelled));
    assert_free(world, &id);
}

fn until_started_with_a_ttl_lapses_while_the_job_waits(world: &World) {
    let id = world.accepted(held(Hold::until_started().ttl(secs(60))));
    world.pass(Millis::new(59_999));
    assert_held(world, &id);
    world.pass(Millis::new(1));
    assert_free(world, &id);
    assert_eq!(world.state(&id), State::Queued);
}

/// Elsewhere the lock's time was counted from the submission and never renewed: a slow queue let a second job in.
fn until_finished_is_held_however_long_the_job_waits(world: &World) {
    let id = world.accepted(held(Hold::until_finished()));
    world.pass(Millis::from_days(400));
    world.upkeep();
    assert_held(world, &id);
    assert_eq!(world.claim_one().job.id, id);
}

fn until_finished_is_held_through_retries_snoozes_and_redeliveries(world: &World) {
    let claimed = world.start(held(Hold::until_finished()));
    let id = claimed.job.id.clone();
    world.try_later(&claimed, secs(5));
    assert_held(world, &id);
    world.pass(secs(5));
    world.settle(&id, world.claim_one().fence, Settle::Snooze { delay: secs(5) });
    assert_held(world, &id);
    world.pass(secs(5));
    world.claim_one();
    world.expire();
    assert_held(world, &id);
    world.complete(&world.claim_one());
    assert_free(world, &id);
}

fn until_finished_is_held_while_the_job_is_parked(world: &World) {
    let claimed = world.start(held(Hold::until_finished()));
    world.settle(
        &claimed.job.id,
        claimed.fence,
        Settle::Park {
            reason: "in doubt".to_owned(),
        },
    );
    world.pass(Millis::from_days(30));
    world.upkeep();
    assert_held(world, &claimed.job.id);
}

fn until_finished_is_freed_by_every_end(world: &World) {
    for result in ends() {
        let claimed = world.start(held(Hold::until_finished()));
        assert_held(world, &claimed.job.id);
        world.settle(&claimed.job.id, claimed.fence, result);
        assert!(!world.holds(&claimed.job.id));
    }
    let waiting = world.accepted(held(Hold::until_finished()));
    world.cancel(&waiting);
    assert_free(world, &waiting);
}

fn until_finished_is_freed_by_the_last_expired_lease(world: &World) {
    let claimed = world.start(Submission {
        max_deliveries: 1,
        ..held(Hold::until_finished())
    });
    assert_held(world, &claimed.job.id);
    world.pass(secs(30));
    assert_ne!(world.accepted(held(Hold::until_finished())), claimed.job.id);
    assert_eq!(world.state(&claimed.job.id), State::Failed);
}

fn a_ttl_lapses_while_the_job_waits_and_lets_another_in(world: &World) {
    let id = world.accepted(held(Hold::until_finished().ttl(secs(60))));
    assert_eq!(
        world.key(world.digest(&id)).free_at,
        Some(world.now().plus(secs(60)))
    );
    world.pass(Millis::new(59_999));
    assert_held(world, &id);
    world.pass(Millis::new(1));
    assert_free(world, &id);
    assert_eq!(world.state(&id), State::Queued, "the job itself stays");
}

fn a_lease_that_begins_after_the_ttl_does_not_bring_the_key_back(world: &World) {
    let id = world.accepted(held(Hold::until_finished().ttl(secs(60))));
    world.pass(secs(61));
    let claimed = world.claim_one();
    assert_eq!(claimed.job.id, id);
    assert_free(world, &id);
    world.complete(&claimed);
    assert_eq!(world.stats().active_keys, 1, "the successor keeps its key");
}

fn a_lease_that_begins_at_the_very_end_of_the_ttl_is_too_late(world: &World) {
    let id = world.accepted(held(Hold::until_finished().ttl(secs(60))));
    world.pass(secs(60));
    assert_eq!(world.claim_one().job.id, id);
    assert_free(world, &id);
}

/// Elsewhere timers expired in the middle of a run, and the second job ran beside the first.
fn a_ttl_never_lapses_under_a_lease_that_began_before_it(world: &World) {
    let id = world.accepted(held(Hold::until_finished().ttl(secs(60))));
    world.pass(Millis::new(59_999));
    let claimed = world.claim_one();
    for _ in 0..20 {
        world.pass(secs(29));
        assert_eq!(world.extend(&id, claimed.fence), WriteOutcome::Ok(State::Running));
        assert_held(world, &id);
    }
    world.complete(&claimed);
    assert_free(world, &id);
}

fn a_ttl_lapses_when_the_lease_that_kept_it_runs_out(world: &World) {
    let claimed = world.start(held(Hold::until_finished().ttl(secs(10))));
    world.pass(Millis::new(29_999));
    assert_held(world, &claimed.job.id);
    world.pass(Millis::new(1));
    assert_free(world, &claimed.job.id);
}

fn a_heartbeat_after_the_lease_ran_out_does_not_bring_the_key_back(world: &World) {
    let claimed = world.start(held(Hold::until_finished().ttl(secs(10))));
    world.pass(secs(30));
    assert_eq!(
        world.extend(&claimed.job.id, claimed.fence),
        WriteOutcome::Ok(State::Running)
    );
    assert_free(world, &claimed.job.id);
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
    assert_eq!(world.stats().active_keys, 1, "the successor keeps its key");
}

fn a_ttl_lapses_between_retries(world: &World) {
    let claimed = world.start(held(Hold::until_finished().ttl(secs(60))));
    world.try_later(&claimed, secs(120));
    world.pass(Millis::new(59_999));
    assert_held(world, &claimed.job.id);
    world.pass(Millis::new(1));
    assert_free(world, &claimed.job.id);
}

fn a_key_that_lapsed_does_not_cool_down(world: &World) {
    let hold = Hold::until_finished().ttl(secs(60)).cool_down(secs(600));
    let cancelled = world.accepted(held(hold));
    world.pass(secs(60));
    world.cancel(&cancelled);
    assert!(!world.holds(&cancelled));
    let id = world.accepted(held(hold));
    world.pass(secs(60));
    let claimed = world.claim_one();
    world.complete(&claimed);
    assert_free(world, &id);
}

fn a_cool_down_keeps_the_key_after_every_end(world: &World) {
    for result in ends() {
        let claimed = world.start(held(Hold::until_finished().cool_down(secs(60))));
        let id = claimed.job.id.clone();
        world.settle(&id, claimed.fence, result);
        assert_eq!(
            world.key(world.digest(&id)).free_at,
            Some(world.now().plus(secs(60)))
        );
        world.pass(Millis::new(59_999));
        assert_held(world, &id);
        world.pass(Millis::new(1));
        assert!(!world.holds(&id));
    }
    assert_eq!(world.stats().active_keys, 0);
}

fn a_cool_down_counts_from_the_finish_whatever_the_ttl(world: &World) {
    let claimed = world.start(held(Hold::until_finished().ttl(secs(10)).cool_down(secs(60))));
    world.pass(secs(20));
    world.complete(&claimed);
    world.pass(Millis::new(59_999));
    assert_held(world, &claimed.job.id);
    world.pass(Millis::new(1));
    assert_free(world, &claimed.job.id);
}

fn a_cool_down_outlives_a_crash(world: &World) {
    let id = world.accepted(held(Hold::until_finished().cool_down(secs(60))));
    world.cancel(&id);
    world.crash();
    assert_held(world, &id);
    world.pass(secs(60));
    world.crash();
    assert_free(world, &id);
}

fn a_window_is_held_from_the_submission_whatever_the_outcome(world: &World) {
    for result in ends() {
        let claimed = world.start(held(Hold::window(secs(60))));
        world.pass(secs(20));
        world.settle(&claimed.job.id, claimed.fence, result);
        world.pass(Millis::new(39_999));
        assert_held(world, &claimed.job.id);
        world.pass(Millis::new(1));
        assert!(!world.holds(&claimed.job.id));
    }
}

fn a_window_never_closes_before_its_job_has_ended(world: &World) {
    let id = world.accepted(held(Hold::window(secs(60))));
    world.pass(secs(61));
    assert_held(world, &id);
    let claimed = world.claim_one();
    world.pass(secs(10));
    assert_held(world, &id);
    world.complete(&claimed);
    assert_free(world, &id);
}

const FAILED: ReleaseOn = ReleaseOn {
    failed: true,
    cancelled: false,
};
const CANCELLED: ReleaseOn = ReleaseOn {
    failed: false,
    cancelled: true,
};

/// Ends one job of the hold in each way; which of the ends freed its key: complete, failed, cancelled.
fn freed_by(world: &World, hold: Hold) -> [bool; 3] {
    ends().map(|result| {
        let claimed = world.start(held(hold));
        world.settle(&claimed.job.id, claimed.fence, result);
        let free = !world.holds(&claimed.job.id);
        if !free {
            assert_held(world, &claimed.job.id);
            world.let_go(&claimed.job.id);
        }
        free
    })
}

fn a_window_is_freed_early_by_the_outcomes_it_names(world: &World) {
    let window = Hold::window(secs(600));
    assert_eq!(freed_by(world, window), [false, false, false]);
    assert_eq!(freed_by(world, window.release_on(FAILED)), [false, true, false]);
    assert_eq!(
        freed_by(world, window.release_on(CANCELLED)),
        [false, false, true]
    );
    let both = ReleaseOn {
        failed: true,
        cancelled: true,
    };
    assert_eq!(freed_by(world, window.release_on(both)), [false, true, true]);
}

fn a_window_freed_on_failure_is_freed_by_the_last_expired_lease(world: &World) {
    let hold = Hold::window(secs(600)).release_on(FAILED);
    let claimed = world.start(Submission {
        max_deliveries: 1,
        ..held(hold)
    });
    world.expire();
    assert_eq!(world.state(&claimed.job.id), State::Failed);
    assert_free(world, &claimed.job.id);
}

fn forever_is_held_until_released_by_hand(world: &World) {
    let claimed = world.start(held(Hold::forever()));
    world.complete(&claimed);
    world.pass(Millis::from_days(3_000));
    world.upkeep();
    assert_held(world, &claimed.job.id);
    assert_eq!(world.key(world.digest(&claimed.job.id)).free_at, None);
    assert_eq!(
        world.let_go(&claimed.job.id),
        done(&claimed.job.id, State::Complete)
    );
    assert_free(world, &claimed.job.id);
}

fn forever_is_freed_early_by_the_outcomes_it_names(world: &World) {
    assert_eq!(freed_by(world, Hold::forever()), [false, false, false]);
    assert_eq!(
        freed_by(world, Hold::forever().release_on(FAILED)),
        [false, true, false]
    );
    assert_eq!(
        freed_by(world, Hold::forever().release_on(CANCELLED)),
        [false, false, true]
    );
}

fn the_hold_is_the_holders_and_not_the_newcomers(world: &World) {
    let claimed = world.start(held(Hold::until_finished()));
    let before = world.job(&claimed.job.id);
    assert_eq!(world.duplicate(held(Hold::forever())), claimed.job.id);
    assert_eq!(world.duplicate(held(Hold::window(secs(1)))), claimed.job.id);
    assert_eq!(world.job(&claimed.job.id), before);
    world.complete(&claimed);
    assert_free(world, &claimed.job.id);
}

/// Elsewhere all keys shared one expiry: a key of one second erased everybody's keys of a day.
fn a_short_key_does_not_take_longer_ones_along(world: &World) {
    let keyed = |text: &str, ttl| with(Dedup::explicit(text).hold(Hold::window(ttl)));
    let long = world.start(keyed("long", Millis::from_days(1)));
    let short = world.start(keyed("short", secs(1)));
    world.complete(&long);
    world.complete(&short);
    world.pass(secs(1));
    world.upkeep();
    world.accepted(keyed("short", secs(1)));
    assert_eq!(world.duplicate(keyed("long", secs(1))), long.job.id);
}

fn a_ttl_may_be_a_millisecond(world: &World) {
    let id = world.accepted(held(Hold::until_finished().ttl(Millis::new(1))));
    assert_held(world, &id);
    world.pass(Millis::new(1));
    assert_free(world, &id);
}

fn a_finished_holder_outlives_its_retention_as_a_stub(world: &World) {
    let submission = with_input(Dedup::explicit("k").hold(Hold::forever()), r#"{"secret":"x"}"#);
    let claimed = world.start(submission);
    world.complete(&claimed);
    world.pass(Millis::from_days(8));
    world.upkeep();
    world.crash();
    let stub = world.job(&claimed.job.id);
    assert_eq!(
        (stub.stub, stub.state, stub.input),
        (true, State::Complete, json("null"))
    );
    assert_eq!(stub.key.expect("a key").text.as_deref(), Some("k"));
    assert_eq!(world.jobs(), []);
    let same = with_input(Dedup::explicit("k").hold(Hold::forever()), r#"{"secret":"x"}"#);
    assert_eq!(world.duplicate(same), claimed.job.id);
}

fn a_deleted_holder_leaves_a_stub_that_still_holds(world: &World) {
    let claimed = world.start(held(Hold::window(secs(600))));
    world.fail(&claimed, "no");
    assert_eq!(
        world.delete(&claimed.job.id),
        done(&claimed.job.id, State::Failed)
    );
    assert!(world.job(&claimed.job.id).stub);
    assert_eq!(world.dead_letters(), []);
    assert_held(world, &claimed.job.id);
}

fn a_stub_still_tells_another_input(world: &World) {
    let keyed = |input| with_input(Dedup::explicit("k").hold(Hold::forever()), input);
    let claimed = world.start(keyed(r#"{"amount":10}"#));
    world.complete(&claimed);
    world.delete(&claimed.job.id);
    assert_eq!(world.duplicate(keyed(r#"{"amount":10.0}"#)), claimed.job.id);
    let Submitted::Conflict { holder, differs } = world.submit(keyed(r#"{"amount":20}"#)) else {
        panic!("another input is a conflict");
    };
    assert_eq!(
        (holder.id, holder.state),
        (claimed.job.id.clone(), State::Complete)
    );
    assert_eq!(differs, [""], "the whole input: nothing else is known of it");
    let ignoring = Dedup::explicit("k")
        .hold(Hold::forever())
        .on_mismatch(OnMismatch::Ignore);
    assert_eq!(
        world.duplicate(with_input(ignoring, r#"{"amount":20}"#)),
        claimed.job.id
    );
}

fn a_stub_goes_when_its_key_is_free(world: &World) {
    let claimed = world.start(held(Hold::window(Millis::from_days(20))));
    world.complete(&claimed);
    world.pass(Millis::from_days(8));
    world.upkeep();
    assert!(world.job(&claimed.job.id).stub);
    world.pass(Millis::from_days(12));
    world.upkeep();
    assert_eq!(world.find(&claimed.job.id), None);
    assert_ne!(world.accepted(held(Hold::until_finished())), claimed.job.id);
}

fn a_free_key_keeps_no_stub(world: &World) {
    let claimed = world.start(held(Hold::until_finished()));
    assert_eq!(
        world.delete(&claimed.job.id),
        ActOutcome::WrongState(State::Running)
    );
    world.complete(&claimed);
    assert_eq!(
        world.delete(&claimed.job.id),
        done(&claimed.job.id, State::Complete)
    );
    assert_eq!(world.find(&claimed.job.id), None);
    assert_eq!(world.delete(&claimed.job.id), ActOutcome::NotFound);
}
