//! Effects inside jobs: done once, or in doubt (contract 5.1, 5.2).

use semel_core::dedup::Dedup;
use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::{Refusal, Settle};
use semel_core::step::{Resolution, StepAnswer, StepPhase, StepState};
use semel_core::store::{ActOutcome, Claimed, StepOutcome, StepRequest, WriteOutcome};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, done, json, name, plain, secs, token, with};

cases![
    "5.1" => a_redelivered_job_gets_the_stored_output,
    "5.1" => a_job_tried_again_gets_the_stored_output,
    "5.1" => a_job_retried_by_hand_gets_the_stored_output,
    "5.1" => a_replayed_job_gets_the_stored_output,
    "5.1" => a_replay_of_a_replay_still_finds_the_steps,
    "5.1" => a_step_confirmed_twice_keeps_its_first_output,
    "5.1" => a_confirmed_step_cannot_be_refused,
    "5.1" => steps_are_told_apart_by_name_and_by_job,
    "5.1" => a_step_that_was_never_begun_cannot_be_confirmed,
    "5.1" => steps_are_listed_with_what_is_known_of_them,
    "5.1" => the_steps_of_a_batch_see_those_before_them,
    "5.1" => a_write_about_a_step_with_a_stale_fence_changes_nothing,
    "5.1" => a_step_of_a_job_that_is_not_there_is_not_found,
    "5.2" => a_step_begun_and_not_confirmed_is_in_doubt_after_redelivery,
    "5.2" => a_step_in_doubt_is_still_in_doubt_after_a_crash,
    "5.2" => a_begin_sent_twice_is_one_begin,
    "5.2" => a_second_begin_of_the_same_lease_is_in_doubt,
    "5.2" => the_next_delivery_may_confirm_a_step_in_doubt,
    "5.2" => the_holder_of_an_expired_lease_may_confirm_until_the_job_is_given_away,
    "5.2" => the_downstream_key_is_the_same_in_every_attempt_retry_and_replay,
    "5.2" => the_downstream_key_is_another_for_each_step_and_chain,
    "5.2" => only_a_refusal_moves_the_downstream_key_on,
    "5.2" => a_refusal_sent_twice_moves_the_key_once,
    "5.2" => a_refused_step_cannot_be_confirmed_before_it_begins_again,
    "5.2" => a_step_somebody_is_at_is_not_in_doubt,
    "5.2" => a_step_left_behind_by_an_error_is_in_doubt,
    "5.2" => steps_in_doubt_are_listed_oldest_first_and_counted,
    "5.2" => a_parked_job_keeps_its_key_and_has_no_lease,
    "5.2" => a_parked_job_goes_on_when_its_step_happened,
    "5.2" => a_parked_job_goes_on_when_its_step_did_not_happen,
    "5.2" => a_parked_job_waits_for_the_last_doubt,
    "5.2" => a_parked_replay_goes_on_when_the_step_of_its_letter_is_resolved,
    "5.2" => a_step_is_resolved_even_after_the_job_that_began_it_is_gone,
    "5.2" => a_step_is_resolved_once,
    "5.2" => a_step_nobody_knows_cannot_be_resolved,
    "5.2" => resolving_moves_no_job_that_is_not_parked,
    "5.2" => the_worker_that_parked_a_job_cannot_write_to_it_any_more,
];

fn a_redelivered_job_gets_the_stored_output(world: &World) {
    let first = world.started(plain());
    world.begin_fresh(&first, "charge");
    assert!(matches!(
        world.confirm(&first, "charge", r#"{"paid":7}"#),
        StepAnswer::Ok { .. }
    ));
    world.crash();
    world.pass(secs(30));
    let second = world.claim_one();
    assert_eq!(world.begin(&second, "charge"), confirmed(r#"{"paid":7}"#));
}

fn a_job_tried_again_gets_the_stored_output(world: &World) {
    let first = world.started(plain());
    charge(world, &first);
    try_again(world, &first);
    assert_eq!(world.begin(&world.claim_one(), "charge"), confirmed("7"));
}

/// The effects of a dead letter were repeated by whoever ran it again: here they are remembered.
fn a_job_retried_by_hand_gets_the_stored_output(world: &World) {
    let first = world.started(plain());
    charge(world, &first);
    world.fail(&first, "later steps broke");
    world.retry(&first.job.id);
    assert_eq!(world.begin(&world.claim_one(), "charge"), confirmed("7"));
}

/// Elsewhere a dead letter is replayed as a stranger that repeats every effect; here it has the same origin.
fn a_replayed_job_gets_the_stored_output(world: &World) {
    let letter = charged_letter(world);
    let fresh = world.replayed(&letter);
    let claimed = world.claim_one();
    assert_eq!((&claimed.job.id, &claimed.job.origin), (&fresh, &letter));
    assert_eq!(world.begin(&claimed, "charge"), confirmed("7"));
    world.begin_fresh(&claimed, "post");
    let steps = world.steps_of(&letter);
    assert_eq!(
        steps.len(),
        2,
        "what a replay begins belongs to the chain as well"
    );
    assert!(world.steps_of(&fresh).is_empty());
}

fn a_replay_of_a_replay_still_finds_the_steps(world: &World) {
    let letter = charged_letter(world);
    world.replayed(&letter);
    let second = world.claim_one();
    world.fail(&second, "again");
    world.replayed(&second.job.id);
    let third = world.claim_one();
    assert_eq!(third.job.origin, letter);
    assert_eq!(world.begin(&third, "charge"), confirmed("7"));
}

fn a_step_confirmed_twice_keeps_its_first_output(world: &World) {
    let claimed = world.started(plain());
    charge(world, &claimed);
    assert_eq!(world.confirm(&claimed, "charge", "8"), confirmed("7"));
    assert_eq!(world.begin(&claimed, "charge"), confirmed("7"));
    assert_eq!(world.steps_of(&claimed.job.id)[0].output, Some(json("7")));
}

fn a_confirmed_step_cannot_be_refused(world: &World) {
    let claimed = world.started(plain());
    charge(world, &claimed);
    assert_eq!(world.refuse(&claimed, "charge"), confirmed("7"));
    assert_eq!(world.steps_of(&claimed.job.id)[0].state, StepState::Confirmed);
}

fn steps_are_told_apart_by_name_and_by_job(world: &World) {
    let one = world.started(plain());
    charge(world, &one);
    let other = world.started(plain());
    world.begin_fresh(&one, "Charge");
    world.begin_fresh(&one, "charge ");
    world.begin_fresh(&other, "charge");
    assert_eq!(world.steps_of(&one.job.id).len(), 3);
}

fn a_step_that_was_never_begun_cannot_be_confirmed(world: &World) {
    let claimed = world.started(plain());
    assert_eq!(world.confirm(&claimed, "charge", "7"), StepAnswer::NotBegun);
    assert_eq!(world.refuse(&claimed, "charge"), StepAnswer::NotBegun);
    assert!(world.steps_of(&claimed.job.id).is_empty());
}

fn steps_are_listed_with_what_is_known_of_them(world: &World) {
    let claimed = world.started(plain());
    let begun_at = world.now();
    let key = world.begin_fresh(&claimed, "charge");
    world.pass(secs(2));
    world.confirm(&claimed, "charge", "7");
    let steps = world.steps_of(&claimed.job.id);
    let step = &steps[0];
    assert_eq!(
        (&step.origin, &step.job, &step.name),
        (&claimed.job.id, &claimed.job.id, &name("charge"))
    );
    assert_eq!(
        (step.state, step.in_doubt, step.key),
        (StepState::Confirmed, false, key)
    );
    assert_eq!((step.begun_at, step.ended_at), (begun_at, Some(world.now())));
    assert_eq!(step.output, Some(json("7")));
}

fn the_steps_of_a_batch_see_those_before_them(world: &World) {
    let claimed = world.started(plain());
    let request = |phase| StepRequest {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        step: name("charge"),
        phase,
    };
    let batch = vec![
        request(StepPhase::Confirm { output: json("1") }),
        request(StepPhase::Begin { token: token() }),
        request(StepPhase::Confirm { output: json("2") }),
        request(StepPhase::Begin { token: token() }),
    ];
    let answers = world
        .block(world.store().steps(batch))
        .expect("the store answers");
    assert_eq!(answers[0], StepOutcome::Answer(StepAnswer::NotBegun));
    assert_eq!(answers[1], answers[2], "begun and confirmed under one key");
    assert_eq!(answers[3], StepOutcome::Answer(confirmed("2")));
}

fn a_write_about_a_step_with_a_stale_fence_changes_nothing(world: &World) {
    let old = world.started(plain());
    world.begin_fresh(&old, "charge");
    world.pass(secs(30));
    let new = world.claim_one();
    let stale = StepOutcome::Refused(Refusal::LeaseLost);
    assert_eq!(
        world.step(&old, "charge", StepPhase::Confirm { output: json("7") }),
        stale
    );
    assert_eq!(world.step(&old, "charge", StepPhase::Refused), stale);
    assert_eq!(
        world.step(&old, "post", StepPhase::Begin { token: token() }),
        stale
    );
    let steps = world.steps_of(&new.job.id);
    assert_eq!((steps.len(), steps[0].state), (1, StepState::Begun));
    assert_eq!(
        world.counted(),
        [("accepted", 1), ("stale_writes", 3), ("expired", 1)]
    );
}

fn a_step_of_a_job_that_is_not_there_is_not_found(world: &World) {
    let mut claimed = world.started(plain());
    claimed.job.id = JobId::new("nobody").expect("an id");
    let answer = world.step(&claimed, "charge", StepPhase::Begin { token: token() });
    assert_eq!(answer, StepOutcome::NotFound);
    assert!(world.steps_of(&claimed.job.id).is_empty());
}

/// A crash in the middle of an effect either repeats it or blocks it for ever elsewhere: here it is a state.
fn a_step_begun_and_not_confirmed_is_in_doubt_after_redelivery(world: &World) {
    let first = world.started(plain());
    let key = world.begin_fresh(&first, "charge");
    world.pass(secs(30));
    let second = world.claim_one();
    assert_eq!(world.in_doubt(), ["charge"]);
    assert_eq!(world.begin(&second, "charge"), StepAnswer::InDoubt { key });
}

fn a_step_in_doubt_is_still_in_doubt_after_a_crash(world: &World) {
    let first = world.started(plain());
    let key = world.begin_fresh(&first, "charge");
    world.crash();
    world.pass(secs(30));
    let second = world.claim_one();
    world.crash();
    assert_eq!(world.begin(&second, "charge"), StepAnswer::InDoubt { key });
    assert_eq!(world.steps_of(&first.job.id)[0].state, StepState::Begun);
}

fn a_begin_sent_twice_is_one_begin(world: &World) {
    let claimed = world.started(plain());
    let begin = StepPhase::Begin { token: token() };
    let first = world.step(&claimed, "charge", begin.clone());
    world.crash();
    assert_eq!(world.step(&claimed, "charge", begin), first);
    assert!(
        matches!(first, StepOutcome::Answer(StepAnswer::Ok { .. })),
        "{first:?}"
    );
    assert_eq!(world.steps_of(&claimed.job.id).len(), 1);
}

fn a_second_begin_of_the_same_lease_is_in_doubt(world: &World) {
    let claimed = world.started(plain());
    let key = world.begin_fresh(&claimed, "charge");
    assert_eq!(world.begin(&claimed, "charge"), StepAnswer::InDoubt { key });
}

fn the_next_delivery_may_confirm_a_step_in_doubt(world: &World) {
    let (second, key) = doubtful(world);
    assert_eq!(world.begin(&second, "charge"), StepAnswer::InDoubt { key });
    assert_eq!(world.confirm(&second, "charge", "7"), StepAnswer::Ok { key });
    assert_eq!(world.begin(&second, "charge"), confirmed("7"));
    assert!(world.in_doubt().is_empty());
}

fn the_holder_of_an_expired_lease_may_confirm_until_the_job_is_given_away(world: &World) {
    let claimed = world.started(plain());
    let key = world.begin_fresh(&claimed, "charge");
    world.pass(secs(60));
    world.upkeep();
    assert_eq!(
        (world.state(&claimed.job.id), world.in_doubt().len()),
        (State::Queued, 1)
    );
    assert_eq!(world.confirm(&claimed, "charge", "7"), StepAnswer::Ok { key });
    assert_eq!(world.begin(&world.claim_one(), "charge"), confirmed("7"));
}

fn the_downstream_key_is_the_same_in_every_attempt_retry_and_replay(world: &World) {
    let mut claimed = world.started(plain());
    let key = world.begin_fresh(&claimed, "charge");
    try_again(world, &claimed);
    claimed = world.claim_one();
    assert_eq!(world.begin(&claimed, "charge"), StepAnswer::InDoubt { key });
    world.fail(&claimed, "for good");
    world.retry(&claimed.job.id);
    claimed = world.claim_one();
    assert_eq!(world.begin(&claimed, "charge"), StepAnswer::InDoubt { key });
    world.fail(&claimed, "for good");
    world.replayed(&claimed.job.id);
    assert_eq!(
        world.begin(&world.claim_one(), "charge"),
        StepAnswer::InDoubt { key }
    );
}

fn the_downstream_key_is_another_for_each_step_and_chain(world: &World) {
    let (one, other) = (world.started(plain()), world.started(plain()));
    let keys = [
        world.begin_fresh(&one, "charge"),
        world.begin_fresh(&one, "post"),
        world.begin_fresh(&other, "charge"),
    ];
    assert!(
        keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2],
        "{keys:?}"
    );
}

fn only_a_refusal_moves_the_downstream_key_on(world: &World) {
    let mut claimed = world.started(plain());
    let key = world.begin_fresh(&claimed, "charge");
    try_again(world, &claimed);
    world.claim_one();
    world.pass(secs(30));
    claimed = world.claim_one();
    assert_eq!(world.begin(&claimed, "charge"), StepAnswer::InDoubt { key });
    assert!(matches!(world.refuse(&claimed, "charge"), StepAnswer::Ok { .. }));
    assert_ne!(world.begin_fresh(&claimed, "charge"), key);
}

fn a_refusal_sent_twice_moves_the_key_once(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    let first = world.refuse(&claimed, "charge");
    assert_eq!(world.refuse(&claimed, "charge"), first);
    let key = world.begin_fresh(&claimed, "charge");
    assert_eq!(
        StepAnswer::Ok { key },
        first,
        "the key a refusal names is the next one"
    );
}

fn a_refused_step_cannot_be_confirmed_before_it_begins_again(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    world.refuse(&claimed, "charge");
    assert_eq!(world.confirm(&claimed, "charge", "7"), StepAnswer::NotBegun);
    assert_eq!(world.steps_of(&claimed.job.id)[0].state, StepState::Refused);
    let key = world.begin_fresh(&claimed, "charge");
    assert_eq!(world.confirm(&claimed, "charge", "7"), StepAnswer::Ok { key });
}

fn a_step_somebody_is_at_is_not_in_doubt(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    let origin = claimed.job.id;
    assert!(world.in_doubt().is_empty());
    assert!(!world.steps_of(&origin)[0].in_doubt);
    assert_eq!(
        world.resolve(&origin, "charge", Resolution::DidNot),
        ActOutcome::NotInDoubt
    );
    assert_eq!(world.steps_of(&origin)[0].state, StepState::Begun);
}

fn a_step_left_behind_by_an_error_is_in_doubt(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    try_again(world, &claimed);
    assert_eq!(world.in_doubt(), ["charge"]);
    assert!(world.steps_of(&claimed.job.id)[0].in_doubt);
}

fn steps_in_doubt_are_listed_oldest_first_and_counted(world: &World) {
    for step in ["b", "c", "a"] {
        let claimed = world.started(plain());
        world.begin_fresh(&claimed, step);
        world.begin_fresh(&claimed, "sure");
        world.confirm(&claimed, "sure", "1");
        world.fail(&claimed, "broke off");
        world.pass(secs(1));
    }
    assert_eq!(world.in_doubt(), ["b", "c", "a"]);
    assert_eq!(world.stats().steps_in_doubt, 3);
}

fn a_parked_job_keeps_its_key_and_has_no_lease(world: &World) {
    let claimed = world.started(with(Dedup::explicit("k")));
    let answer = world.settle(
        &claimed.job.id,
        claimed.fence,
        Settle::Park {
            reason: "was it paid?".into(),
        },
    );
    assert_eq!(answer, WriteOutcome::Ok(State::Parked));
    world.crash();
    world.pass(secs(7_200));
    assert!(world.claim(1).is_empty());
    let job = world.job(&claimed.job.id);
    assert_eq!(
        (job.state, job.lease_until, job.attempt),
        (State::Parked, None, 0)
    );
    assert_eq!(job.error.expect("the reason").message, "was it paid?");
    let again = world.admitted(with(Dedup::explicit("k")));
    assert_eq!(
        (again.outcome, again.job.id, again.job.state),
        (Outcome::Duplicate, job.id, State::Parked)
    );
}

fn a_parked_job_goes_on_when_its_step_happened(world: &World) {
    let (parked, _) = parked(world);
    let happened = Resolution::Happened { output: json("7") };
    assert_eq!(
        world.resolve(&parked.job.id, "charge", happened),
        done(&parked.job.id, State::Queued)
    );
    world.crash();
    let claimed = world.claim_one();
    assert!(claimed.fence > parked.fence);
    assert_eq!(world.begin(&claimed, "charge"), confirmed("7"));
}

fn a_parked_job_goes_on_when_its_step_did_not_happen(world: &World) {
    let (parked, key) = parked(world);
    let outcome = world.resolve(&parked.job.id, "charge", Resolution::DidNot);
    assert_eq!(outcome, done(&parked.job.id, State::Queued));
    assert_ne!(world.begin_fresh(&world.claim_one(), "charge"), key);
}

fn a_parked_job_waits_for_the_last_doubt(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    world.begin_fresh(&claimed, "post");
    park(world, &claimed);
    let id = &claimed.job.id;
    assert_eq!(
        world.resolve(id, "post", Resolution::DidNot),
        done(id, State::Parked)
    );
    assert!(world.claim(1).is_empty());
    assert_eq!(
        world.resolve(id, "charge", Resolution::DidNot),
        done(id, State::Queued)
    );
}

/// The step was begun by the dead letter, but it is the replay that waits for the answer.
fn a_parked_replay_goes_on_when_the_step_of_its_letter_is_resolved(world: &World) {
    let (letter, replay) = parked_replay(world);
    let happened = Resolution::Happened { output: json("7") };
    let outcome = world.resolve(&letter, "charge", happened);
    assert!(matches!(outcome, ActOutcome::Done { .. }), "{outcome:?}");
    assert_eq!(world.state(&replay), State::Queued);
    assert_eq!(world.begin(&world.claim_one(), "charge"), confirmed("7"));
}

fn a_step_is_resolved_even_after_the_job_that_began_it_is_gone(world: &World) {
    let (letter, replay) = parked_replay(world);
    world.delete(&letter);
    assert_eq!(world.in_doubt(), ["charge"]);
    let outcome = world.resolve(&letter, "charge", Resolution::DidNot);
    assert!(matches!(outcome, ActOutcome::Done { .. }), "{outcome:?}");
    assert!(world.in_doubt().is_empty());
    assert_eq!(world.state(&replay), State::Queued);
}

fn a_step_is_resolved_once(world: &World) {
    let (parked, _) = parked(world);
    world.resolve(
        &parked.job.id,
        "charge",
        Resolution::Happened { output: json("7") },
    );
    let again = world.resolve(&parked.job.id, "charge", Resolution::DidNot);
    assert_eq!(again, ActOutcome::NotInDoubt);
    assert_eq!(world.steps_of(&parked.job.id)[0].output, Some(json("7")));
}

fn a_step_nobody_knows_cannot_be_resolved(world: &World) {
    let (parked, _) = parked(world);
    assert_eq!(
        world.resolve(&parked.job.id, "post", Resolution::DidNot),
        ActOutcome::NotFound
    );
    let nobody = JobId::new("nobody").expect("an id");
    assert_eq!(
        world.resolve(&nobody, "charge", Resolution::DidNot),
        ActOutcome::NotFound
    );
    assert_eq!(world.state(&parked.job.id), State::Parked);
}

fn resolving_moves_no_job_that_is_not_parked(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    world.fail(&claimed, "broke off");
    let happened = Resolution::Happened { output: json("7") };
    assert_eq!(
        world.resolve(&claimed.job.id, "charge", happened),
        done(&claimed.job.id, State::Failed)
    );
    assert!(world.in_doubt().is_empty());
    world.replayed(&claimed.job.id);
    assert_eq!(world.begin(&world.claim_one(), "charge"), confirmed("7"));
}

fn the_worker_that_parked_a_job_cannot_write_to_it_any_more(world: &World) {
    let (parked, _) = parked(world);
    world.resolve(&parked.job.id, "charge", Resolution::DidNot);
    let begin = StepPhase::Begin { token: token() };
    assert_eq!(
        world.step(&parked, "charge", begin),
        StepOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(
        world.extend(&parked.job.id, parked.fence),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(world.state(&parked.job.id), State::Queued);
}

fn confirmed(output: &str) -> StepAnswer {
    StepAnswer::Confirmed { output: json(output) }
}

/// Does the step `charge`, which gives 7.
fn charge(world: &World, claimed: &Claimed) {
    let key = world.begin_fresh(claimed, "charge");
    assert_eq!(world.confirm(claimed, "charge", "7"), StepAnswer::Ok { key });
}

/// A dead letter that has charged.
fn charged_letter(world: &World) -> JobId {
    let claimed = world.started(plain());
    charge(world, &claimed);
    world.fail(&claimed, "later steps broke");
    claimed.job.id
}

/// A job in its second delivery whose first began to charge, and the key it was charged with.
fn doubtful(world: &World) -> (Claimed, Digest) {
    let first = world.started(plain());
    let key = world.begin_fresh(&first, "charge");
    world.pass(secs(30));
    (world.claim_one(), key)
}

/// A job parked because it may have charged.
fn parked(world: &World) -> (Claimed, Digest) {
    let (claimed, key) = doubtful(world);
    park(world, &claimed);
    (claimed, key)
}

/// A dead letter that may have charged, and its replay, parked because of that.
fn parked_replay(world: &World) -> (JobId, JobId) {
    let first = world.started(plain());
    let key = world.begin_fresh(&first, "charge");
    world.fail(&first, "broke off");
    world.replayed(&first.job.id);
    let second = world.claim_one();
    assert_eq!(world.begin(&second, "charge"), StepAnswer::InDoubt { key });
    park(world, &second);
    (first.job.id, second.job.id)
}

fn park(world: &World, claimed: &Claimed) {
    let park = Settle::Park {
        reason: "was it paid?".into(),
    };
    assert_eq!(
        world.settle(&claimed.job.id, claimed.fence, park),
        WriteOutcome::Ok(State::Parked)
    );
}

fn try_again(world: &World, claimed: &Claimed) {
    let again = Settle::Retry {
        error: "no answer".into(),
        delay: Some(Millis::ZERO),
    };
    assert_eq!(
        world.settle(&claimed.job.id, claimed.fence, again),
        WriteOutcome::Ok(State::Queued)
    );
}
