//! Tokens: every call can be sent again (contract 3.5).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, OnDuplicate, OnMismatch, Period, Unit};
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State, Would};
use semel_core::store::{Submitted, Target, WriteOutcome};
use semel_core::submission::Submission;
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{
    World, again, claim_request, into_queue, json, keyed, latest, made_by, named, numbered, plain, secs, with,
};

cases![
    "3.5" => an_accepted_submission_sent_again_gets_the_same_answer_and_counts_nothing,
    "3.5" => a_submission_without_a_key_is_safe_to_send_again,
    "3.5" => a_submission_sent_again_after_its_job_ended_makes_no_second_job,
    "3.5" => a_submission_sent_again_in_another_period_makes_no_second_job,
    "3.5" => a_submission_sent_again_is_answered_by_the_stub_of_its_job,
    "3.5" => a_duplicate_sent_again_after_its_holder_was_removed_is_a_fresh_one,
    "3.5" => a_duplicate_sent_again_names_the_first_holder_even_when_the_key_is_free,
    "3.5" => a_replacement_sent_again_does_not_undo_a_newer_one,
    "3.5" => a_debounced_submission_sent_again_does_not_move_the_start,
    "3.5" => a_deferred_submission_sent_again_names_its_follower,
    "3.5" => a_deferred_submission_sent_again_after_its_follower_was_deleted_is_a_fresh_one,
    "3.5" => content_given_to_a_follower_and_sent_again_does_not_undo_a_newer_one,
    "3.5" => a_rejection_and_a_conflict_sent_again_are_the_same_once_the_key_is_free,
    "3.5" => an_observed_submission_sent_again_says_the_same,
    "3.5" => a_submission_sent_again_within_a_batch_is_one_job,
    "9.1" => a_token_sent_with_another_key_is_known_or_another_submission,
    "3.5" => a_submission_sent_again_to_a_closed_intake_gets_its_answer,
    "3.5" => a_claim_sent_again_gives_the_same_jobs_under_the_same_fence,
    "3.5" => a_claim_sent_again_leaves_out_what_was_settled,
    "3.5" => a_claim_sent_again_after_its_lease_gives_nothing_away,
];

fn outcomes(answers: &[Submitted]) -> Vec<Option<Outcome>> {
    answers.iter().map(Submitted::outcome).collect()
}

/// Sends a submission again, before and after a crash: the same answer, and nothing has changed.
fn assert_same_answer(world: &World, submission: &Submission, first: &Submitted) {
    let before = world.picture();
    for _ in 0..2 {
        let second = world.submit(submission.clone());
        assert_eq!(second.outcome(), first.outcome(), "{second:?}");
        assert_eq!(second.id(), first.id(), "{second:?}");
        assert_eq!(named(&second).state, world.state(&named(&second).id));
        assert_eq!(world.picture(), before);
        world.crash();
    }
}

/// A mistake of a caller that no store may answer by half: either the token is known, or there are two submissions, each
/// of which is what it says. Sent again as it was, the first gets its answer on every store.
fn a_token_sent_with_another_key_is_known_or_another_submission(world: &World) {
    let submission = keyed();
    let first = world.submit(submission.clone());
    let mistaken = Submission {
        policy: Dedup::explicit("another").into(),
        ..submission.clone()
    };
    let second = world.submit(mistaken.clone());
    assert_eq!(second.outcome(), Some(Outcome::Accepted));
    match world.store().capabilities().tokens_stand_alone {
        true => {
            assert_eq!(second.id(), first.id());
            assert_eq!(world.count(Counter::Accepted), 1);
        }
        false => {
            assert_ne!(second.id(), first.id());
            assert_eq!(world.count(Counter::Accepted), 2);
            assert_same_answer(world, &mistaken, &second);
        }
    }
    assert_same_answer(world, &submission, &first);
    for answer in [&first, &second] {
        assert_eq!(world.state(&named(answer).id), State::Queued);
    }
}

fn an_accepted_submission_sent_again_gets_the_same_answer_and_counts_nothing(world: &World) {
    let submission = keyed();
    let first = world.submit(submission.clone());
    assert_same_answer(world, &submission, &first);
    assert_eq!(world.submit(submission), first);
    assert_eq!(
        (world.count(Counter::Accepted), world.counts().duplicates()),
        (1, 0)
    );
}

fn a_submission_without_a_key_is_safe_to_send_again(world: &World) {
    let submission = plain();
    let first = world.submit(submission.clone());
    assert_same_answer(world, &submission, &first);
    assert_eq!(world.claim(10).len(), 1);
    assert_same_answer(world, &submission, &first);
}

fn a_submission_sent_again_after_its_job_ended_makes_no_second_job(world: &World) {
    let submission = keyed();
    let claimed = world.start(submission.clone());
    world.complete(&claimed);
    let again = world.admitted(submission);
    assert_eq!((again.outcome, again.job.id), (Outcome::Accepted, claimed.job.id));
    assert_eq!(again.job.state, State::Complete);
    assert_eq!((world.claim(10), world.count(Counter::Accepted)), (Vec::new(), 1));
}

fn a_submission_sent_again_in_another_period_makes_no_second_job(world: &World) {
    let submission = with(Dedup::once_per(Period::utc(Unit::Minute)));
    let first = world.submit(submission.clone());
    world.pass(secs(90));
    assert_same_answer(world, &submission, &first);
    world.accepted(again(&submission));
}

fn a_submission_sent_again_is_answered_by_the_stub_of_its_job(world: &World) {
    let submission = with(Dedup::explicit("k").hold(Hold::forever()));
    let claimed = world.start(submission.clone());
    world.complete(&claimed);
    world.pass(Millis::from_days(8));
    world.upkeep();
    assert!(world.job(&claimed.job.id).stub);
    let again = world.admitted(submission);
    assert_eq!((again.outcome, again.job.id), (Outcome::Accepted, claimed.job.id));
    assert_eq!(
        (again.job.state, world.count(Counter::Accepted)),
        (State::Complete, 1)
    );
}

fn a_duplicate_sent_again_after_its_holder_was_removed_is_a_fresh_one(world: &World) {
    let holder = world.accepted(into_queue("doomed", keyed()));
    let submission = keyed();
    assert_eq!(world.duplicate(submission.clone()), holder);
    world.remove_queue("doomed");
    let id = world.accepted(submission.clone());
    assert!(made_by(&id, submission.token));
    assert_eq!(world.accepted(submission), id);
    assert_eq!(
        (world.claimed_ids(), world.count(Counter::Accepted)),
        (vec![id], 2)
    );
}

fn a_duplicate_sent_again_names_the_first_holder_even_when_the_key_is_free(world: &World) {
    let claimed = world.start(keyed());
    let submission = keyed();
    let first = world.submit(submission.clone());
    assert_same_answer(world, &submission, &first);
    world.complete(&claimed);
    assert_same_answer(world, &submission, &first);
    assert_eq!(first.id(), Some(&claimed.job.id));
    assert_eq!(
        (world.count(Counter::Duplicate), world.picture().ledger.len()),
        (1, 1)
    );
}

fn a_replacement_sent_again_does_not_undo_a_newer_one(world: &World) {
    let replace = |n| numbered(Dedup::explicit("k").on_duplicate(OnDuplicate::Replace), n);
    let id = world.accepted(replace(1));
    let submission = replace(2);
    let first = world.submit(submission.clone());
    assert_eq!(first.outcome(), Some(Outcome::Replaced));
    world.answered(replace(3), Outcome::Replaced);
    assert_same_answer(world, &submission, &first);
    assert_eq!(world.job(&id).input, json(r#"{"n":3}"#));
}

fn a_debounced_submission_sent_again_does_not_move_the_start(world: &World) {
    let debounced = |n| numbered(Dedup::explicit("k").debounce(secs(10), None), n);
    let (opening, submission) = (debounced(1), debounced(2));
    let id = world.accepted(opening.clone());
    world.pass(secs(5));
    let first = world.submit(submission.clone());
    assert_eq!(first.outcome(), Some(Outcome::Debounced));
    world.pass(secs(9));
    assert_same_answer(world, &submission, &first);
    assert_eq!(world.accepted(opening), id);
    world.pass(secs(1));
    assert_eq!(world.claim_one().job.input, json(r#"{"n":2}"#));
}

fn a_deferred_submission_sent_again_names_its_follower(world: &World) {
    let claimed = world.start(latest(1));
    let submission = latest(2);
    let first = world.submit(submission.clone());
    assert_same_answer(world, &submission, &first);
    world.complete(&claimed);
    assert_same_answer(world, &submission, &first);
    let next = world.claim_one();
    assert_eq!(Some(&next.job.id), first.id());
    world.complete(&next);
    assert_same_answer(world, &submission, &first);
    assert_eq!(world.count(Counter::Deferred), 1);
}

/// The ledger names the job that was in its way, which may still be there. One store answered with that job, as if it
/// were to run the content that came later: it would never have run.
fn a_deferred_submission_sent_again_after_its_follower_was_deleted_is_a_fresh_one(world: &World) {
    let claimed = world.start(latest(1));
    let submission = latest(2);
    let follower = world.answered(submission.clone(), Outcome::Deferred);
    world.cancel(&follower);
    world.delete(&follower);
    let fresh = world.answered(submission.clone(), Outcome::Deferred);
    assert_ne!(fresh, claimed.job.id);
    assert_eq!(world.state(&fresh), State::Deferred);
    assert_eq!(world.count(Counter::Deferred), 2);
    assert_eq!(world.answered(submission, Outcome::Deferred), fresh);
    world.complete(&claimed);
    let next = world.claim_one();
    assert_eq!((next.job.id, next.job.input), (fresh, json(r#"{"n":2}"#)));
}

fn content_given_to_a_follower_and_sent_again_does_not_undo_a_newer_one(world: &World) {
    let claimed = world.start(latest(1));
    let follower = world.answered(latest(2), Outcome::Deferred);
    let submission = latest(3);
    let first = world.submit(submission.clone());
    assert_eq!(
        (first.outcome(), first.id()),
        (Some(Outcome::Deferred), Some(&follower))
    );
    world.answered(latest(4), Outcome::Deferred);
    assert_same_answer(world, &submission, &first);
    world.complete(&claimed);
    assert_same_answer(world, &submission, &first);
    assert_eq!(world.claim_one().job.input, json(r#"{"n":4}"#));
}

fn a_rejection_and_a_conflict_sent_again_are_the_same_once_the_key_is_free(world: &World) {
    let claimed = world.start(numbered(Dedup::explicit("k"), 1));
    let rejected = numbered(Dedup::exclusive("k").on_mismatch(OnMismatch::Ignore), 2);
    let conflicting = numbered(Dedup::explicit("k"), 3);
    let (no, other) = (world.submit(rejected.clone()), world.submit(conflicting.clone()));
    assert_eq!(
        outcomes(&[no.clone(), other.clone()]),
        [Some(Outcome::Rejected), Some(Outcome::Conflict)]
    );
    assert_eq!(
        (world.submit(rejected.clone()), world.submit(conflicting.clone())),
        (no.clone(), other.clone())
    );
    world.complete(&claimed);
    assert_same_answer(world, &rejected, &no);
    assert_same_answer(world, &conflicting, &other);
    let Submitted::Conflict { differs, .. } = world.submit(conflicting) else {
        panic!("seen one line above")
    };
    assert_eq!(differs, ["/n"]);
}

fn an_observed_submission_sent_again_says_the_same(world: &World) {
    let holder = world.start(keyed());
    let submission = with(Dedup::explicit("k").observe());
    let first = world.submit(submission.clone());
    world.complete(&holder);
    assert_same_answer(world, &submission, &first);
    let would = Some(Would {
        outcome: Outcome::Duplicate,
        holder: holder.job.id,
    });
    assert_eq!(world.admitted(submission).would, would);
}

fn a_submission_sent_again_within_a_batch_is_one_job(world: &World) {
    let submission = plain();
    let duplicate = keyed();
    let batch = vec![
        submission.clone(),
        keyed(),
        submission.clone(),
        duplicate.clone(),
        duplicate,
        submission,
    ];
    let answers = world.submit_all(batch);
    assert_eq!(
        outcomes(&answers)[2..],
        [
            Outcome::Accepted,
            Outcome::Duplicate,
            Outcome::Duplicate,
            Outcome::Accepted
        ]
        .map(Some)
    );
    assert_eq!(
        (answers[2].id(), answers[5].id()),
        (answers[0].id(), answers[0].id())
    );
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Duplicate)),
        (2, 1)
    );
    assert_eq!((world.jobs().len(), world.picture().ledger.len()), (2, 1));
}

fn a_submission_sent_again_to_a_closed_intake_gets_its_answer(world: &World) {
    let submission = keyed();
    let first = world.submit(submission.clone());
    let absorbed = again(&submission);
    let second = world.submit(absorbed.clone());
    world.intake(Target::All, false);
    assert_same_answer(world, &submission, &first);
    assert_same_answer(world, &absorbed, &second);
    assert_eq!(world.submit(keyed()), Submitted::Closed { target: Target::All });
}

fn a_claim_sent_again_gives_the_same_jobs_under_the_same_fence(world: &World) {
    world.submit_all((0..5).map(|_| plain()).collect());
    let request = claim_request(3);
    let first = world.claim_as(request.clone());
    assert_eq!(first.len(), 3);
    let before = world.picture();
    world.pass(secs(10));
    assert_eq!(world.claim_as(request.clone()), first);
    world.crash();
    assert_eq!(world.claim_as(request), first);
    assert_eq!(world.picture(), before);
    assert_eq!(world.claim(10).len(), 2);
}

fn a_claim_sent_again_leaves_out_what_was_settled(world: &World) {
    world.submit_all((0..3).map(|_| plain()).collect());
    let request = claim_request(2);
    let first = world.claim_as(request.clone());
    world.complete(&first[0]);
    assert_eq!(world.claim_as(request.clone()), first[1..]);
    world.cancel(&first[1].job.id);
    assert_eq!(world.claim_as(request), []);
    assert_eq!(world.claim(10).len(), 1);
}

fn a_claim_sent_again_after_its_lease_gives_nothing_away(world: &World) {
    let id: JobId = world.accepted(plain());
    let request = claim_request(1);
    let first = world.claim_as(request.clone());
    world.pass(secs(30));
    assert_eq!(world.claim_as(request.clone()), []);
    let second = world.claim_one();
    assert!(second.job.id == id && second.fence > first[0].fence);
    assert_eq!(world.claim_as(request), []);
    assert_eq!(world.complete(&second), WriteOutcome::Ok(State::Complete));
}
