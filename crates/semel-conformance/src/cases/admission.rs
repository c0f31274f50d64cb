//! Admission: one step, owner-checked; batches, tokens, observing, explaining, queues (contract 2.9–2.16, 3.5).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, OnDuplicate};
use semel_core::job::{Outcome, State};
use semel_core::store::{ActOutcome, ClaimRequest, SettingChange, Submitted, WriteOutcome};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{
    World, claim_request, done, ends, held_by, into_queue, keyed, latest, made_by, name, numbered, of, plain,
    queue, refused, secs, task, with, with_input,
};

cases![
    "2.9" => key_job_and_place_in_the_queue_appear_together,
    "2.9" => a_refused_submission_leaves_no_key_behind,
    "2.9" => a_dead_holder_needs_no_reaper,
    "2.9" => a_living_holder_has_no_reaper_to_fear,
    "2.10" => a_late_finish_of_a_cancelled_holder_does_not_free_its_successors_key,
    "2.10" => a_finish_after_the_key_was_released_does_not_free_its_successors_key,
    "2.10" => a_finish_after_the_key_lapsed_does_not_free_its_successors_key,
    "2.10" => a_cool_down_of_an_old_holder_does_not_touch_its_successors_key,
    "2.10" => a_release_that_means_another_holder_is_refused,
    "2.10" => a_release_of_a_free_key_finds_nothing,
    "2.10" => an_old_holder_cannot_be_retried_past_its_successor,
    "2.10" => a_pruned_old_holder_leaves_its_successors_key_alone,
    "2.10" => the_generation_of_a_key_grows_with_each_owner,
    "2.11" => duplicates_inside_a_batch_meet_each_other,
    "2.11" => an_invalid_item_has_its_own_error_and_stops_nothing,
    "2.11" => a_batch_answers_as_if_submitted_one_after_another,
    "2.11" => a_batch_meets_unique_queues_and_closed_intakes_as_single_calls_do,
    "2.11" => a_replacement_inside_a_batch_reaches_the_job_before_it,
    "2.11" => a_batch_has_at_most_a_thousand_items,
    "2.11" => an_empty_batch_has_no_answers,
];

fn key_job_and_place_in_the_queue_appear_together(world: &World) {
    let id = world.accepted(keyed());
    world.crash();
    assert_eq!(world.jobs().len(), 1);
    assert_eq!(world.holder(world.digest(&id)), Some(id.clone()));
    assert_eq!(world.duplicate(keyed()), id);
    assert_eq!(world.claimed_ids(), [id]);
}

/// Elsewhere a lock was taken and the job then not published: every retry got the id of a job that did not exist.
fn a_refused_submission_leaves_no_key_behind(world: &World) {
    world.intake(task("work"), false);
    let before = world.picture();
    assert_eq!(world.submit(keyed()), Submitted::Closed { target: task("work") });
    assert_eq!(world.picture(), before);
    world.intake(task("work"), true);
    world.nonsense(Submission {
        max_attempts: 0,
        ..keyed()
    });
    world.accepted(keyed());
}

/// Elsewhere the lock of a worker that died was orphaned, and its key blocked for good.
fn a_dead_holder_needs_no_reaper(world: &World) {
    let claimed = world.start(Submission {
        max_deliveries: 1,
        ..keyed()
    });
    world.crash();
    world.pass(secs(30));
    assert_ne!(world.accepted(keyed()), claimed.job.id);
}

/// Elsewhere a reaper took long-running or long-waiting jobs for orphans and freed their locks.
fn a_living_holder_has_no_reaper_to_fear(world: &World) {
    let id = world.accepted(Submission {
        run_at: RunAt::After(Millis::from_days(100)),
        ..keyed()
    });
    for _ in 0..4 {
        world.pass(Millis::from_days(20));
        world.upkeep();
        world.crash();
    }
    assert_eq!(world.duplicate(keyed()), id);
    world.pass(Millis::from_days(20));
    let claimed = world.claim_one();
    for _ in 0..10 {
        world.pass(secs(20));
        world.extend(&id, claimed.fence);
        world.upkeep();
    }
    assert_eq!(world.duplicate(keyed()), id);
}

/// Elsewhere a key was freed without asking for its owner: cancel A, submit B, A finishes late, C gets in.
fn a_late_finish_of_a_cancelled_holder_does_not_free_its_successors_key(world: &World) {
    let old = world.start(keyed());
    world.cancel(&old.job.id);
    let successor = world.accepted(keyed());
    assert!(matches!(world.complete(&old), WriteOutcome::Refused(_)));
    assert_eq!(world.duplicate(keyed()), successor);
    assert_eq!(world.holder(world.digest(&successor)), Some(successor));
}

fn a_finish_after_the_key_was_released_does_not_free_its_successors_key(world: &World) {
    for result in ends() {
        let old = world.start(keyed());
        world.let_go(&old.job.id);
        let successor = world.accepted(keyed());
        assert!(matches!(
            world.settle(&old.job.id, old.fence, result),
            WriteOutcome::Ok(_)
        ));
        assert_eq!(world.duplicate(keyed()), successor);
        world.cancel(&successor);
    }
}

fn a_finish_after_the_key_lapsed_does_not_free_its_successors_key(world: &World) {
    let old = world.accepted(with(
        Dedup::explicit("k").hold(Hold::until_finished().ttl(secs(60))),
    ));
    world.pass(secs(60));
    let successor = world.accepted(into_queue("elsewhere", keyed()));
    let claims = world.claim_as(ClaimRequest {
        queues: vec![name("default")],
        ..claim_request(10)
    });
    assert_eq!(claims[0].job.id, old);
    assert_eq!(world.complete(&claims[0]), WriteOutcome::Ok(State::Complete));
    assert_eq!(world.duplicate(keyed()), successor);
}

fn a_cool_down_of_an_old_holder_does_not_touch_its_successors_key(world: &World) {
    let hold = Hold::until_finished().cool_down(secs(60));
    let old = world.start(with(Dedup::explicit("k").hold(hold)));
    world.complete(&old);
    world.let_go(&old.job.id);
    let successor = world.accepted(keyed());
    world.pass(secs(60));
    world.upkeep();
    assert_eq!(world.duplicate(keyed()), successor);
    world.cancel(&successor);
    assert_eq!(world.stats().active_keys, 0);
}

/// Elsewhere the lock of the job that came next was released in place of the one that was meant.
fn a_release_that_means_another_holder_is_refused(world: &World) {
    let old = world.start(keyed());
    world.complete(&old);
    let digest = world.digest(&old.job.id);
    let successor = world.accepted(keyed());
    let before = world.picture();
    assert_eq!(held_by(world.release(digest, &old.job.id)).id, successor);
    assert_eq!(world.picture(), before);
    assert_eq!(world.release(digest, &successor), done(&successor, State::Queued));
}

fn a_release_of_a_free_key_finds_nothing(world: &World) {
    let old = world.start(keyed());
    let digest = world.digest(&old.job.id);
    world.complete(&old);
    assert_eq!(world.release(digest, &old.job.id), ActOutcome::NotFound);
    world.accepted(keyed());
}

fn an_old_holder_cannot_be_retried_past_its_successor(world: &World) {
    let old = world.start(keyed());
    world.fail(&old, "no");
    let successor = world.accepted(keyed());
    let holder = held_by(world.retry(&old.job.id));
    assert_eq!((holder.id, holder.state), (successor.clone(), State::Queued));
    assert_eq!(world.state(&old.job.id), State::Failed);
    world.cancel(&successor);
    assert_eq!(world.retry(&old.job.id), done(&old.job.id, State::Queued));
    assert_eq!(world.duplicate(keyed()), old.job.id);
}

fn a_pruned_old_holder_leaves_its_successors_key_alone(world: &World) {
    let old = world.start(keyed());
    world.complete(&old);
    let successor = world.accepted(keyed());
    world.pass(Millis::from_days(8));
    world.upkeep();
    assert_eq!(world.find(&old.job.id), None);
    assert_eq!(world.duplicate(keyed()), successor);
}

fn the_generation_of_a_key_grows_with_each_owner(world: &World) {
    let mut last = 0;
    for _ in 0..4 {
        let claimed = world.start(keyed());
        let generation = world.key(world.digest(&claimed.job.id)).key.generation;
        assert!(generation > last, "{last} then {generation}");
        last = generation;
        world.complete(&claimed);
        world.crash();
    }
}

fn outcomes(answers: &[Submitted]) -> Vec<Option<Outcome>> {
    answers.iter().map(Submitted::outcome).collect()
}

fn duplicates_inside_a_batch_meet_each_other(world: &World) {
    let answers = world.submit_all(vec![
        keyed(),
        plain(),
        keyed(),
        with(Dedup::exclusive("k")),
        plain(),
    ]);
    let [first, other, second, third, last] = &outcomes(&answers)[..] else {
        panic!("five answers")
    };
    assert_eq!(
        (first, other, last),
        (
            &Some(Outcome::Accepted),
            &Some(Outcome::Accepted),
            &Some(Outcome::Accepted)
        )
    );
    assert_eq!(
        (second, third),
        (&Some(Outcome::Duplicate), &Some(Outcome::Rejected))
    );
    assert_eq!(answers[2].id(), answers[0].id());
    assert_eq!(answers[3].id(), answers[0].id());
    assert_eq!((world.jobs().len(), world.count(Counter::Accepted)), (3, 3));
}

fn an_invalid_item_has_its_own_error_and_stops_nothing(world: &World) {
    let answers = world.submit_all(vec![
        keyed(),
        with(Dedup::explicit("")),
        Submission {
            priority: 101,
            ..plain()
        },
        keyed(),
        plain(),
    ]);
    assert_eq!(answers[0].outcome(), Some(Outcome::Accepted));
    assert!(matches!(answers[1], Submitted::Invalid(_)) && matches!(answers[2], Submitted::Invalid(_)));
    assert_eq!(answers[3].outcome(), Some(Outcome::Duplicate));
    assert_eq!(answers[4].outcome(), Some(Outcome::Accepted));
    assert_eq!(world.jobs().len(), 2);
}

/// Elsewhere the batch and the single submission were two pieces of code, and disagreed.
fn a_batch_answers_as_if_submitted_one_after_another(world: &World) {
    let replace = |n| numbered(Dedup::explicit("k").on_duplicate(OnDuplicate::Replace), n);
    let all = vec![
        replace(1),
        replace(2),
        numbered(Dedup::explicit("k"), 1),
        numbered(Dedup::explicit("k"), 2),
        latest(3),
        numbered(Dedup::explicit("k").debounce(secs(5), None), 4),
        with(Dedup::explicit("")),
        numbered(Dedup::explicit("k").observe(), 5),
        with_input(Dedup::hybrid(["/a"]).expect("a pointer"), r#"{"a":1,"b":1}"#),
        with_input(Dedup::hybrid(["/a"]).expect("a pointer"), r#"{"a":1,"b":2}"#),
        plain(),
    ];
    let other = world.sibling("other");
    let one = |submission| {
        world
            .block(other.submit(vec![submission]))
            .expect("the store answers")
            .remove(0)
    };
    let singly: Vec<Submitted> = all.iter().cloned().map(one).collect();
    let batched = world.submit_all(all.clone());
    // Which of the submissions made the job that an answer names: where it is may differ between namespaces.
    let maker = |answer: &Submitted| {
        let id = answer.id()?;
        all.iter().position(|submission| made_by(id, submission.token))
    };
    let told = |answers: &[Submitted]| -> Vec<_> {
        answers
            .iter()
            .map(|answer| (answer.outcome(), answer.id().is_some(), maker(answer)))
            .collect()
    };
    assert_eq!(told(&batched), told(&singly));
    let stats = world.block(other.stats()).expect("the store answers");
    assert_eq!(world.stats().raw, stats.raw);
}

/// Elsewhere a check of the single call was missing in the path that batches took.
fn a_batch_meets_unique_queues_and_closed_intakes_as_single_calls_do(world: &World) {
    world.set(queue("once"), SettingChange::Unique { unique: true });
    world.intake(task("closed"), false);
    let first = world.accepted(into_queue("once", plain()));
    let all = [
        into_queue("once", plain()),
        into_queue("once", of("work", r#"{"n":1}"#)),
        into_queue("once", of("work", r#"{"n":1}"#)),
        of("closed", "{}"),
        plain(),
    ];
    let answers = world.submit_all(all.to_vec());
    let outcomes: Vec<_> = answers.iter().map(Submitted::outcome).collect();
    let (accepted, duplicate) = (Some(Outcome::Accepted), Some(Outcome::Duplicate));
    assert_eq!(outcomes, [duplicate, accepted, duplicate, None, accepted]);
    assert_eq!(answers[0].id(), Some(&first));
    assert_eq!(answers[2].id(), answers[1].id());
    assert_eq!(
        answers[3],
        Submitted::Closed {
            target: task("closed")
        }
    );
}

fn a_replacement_inside_a_batch_reaches_the_job_before_it(world: &World) {
    let replace = |n| numbered(Dedup::explicit("k").on_duplicate(OnDuplicate::Replace), n);
    let answers = world.submit_all((1..=10).map(replace).collect());
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer.outcome() == Some(Outcome::Replaced))
            .count(),
        9
    );
    let claimed = world.claim_one();
    assert_eq!(
        (Some(&claimed.job.id), claimed.job.input.as_str()),
        (answers[0].id(), r#"{"n":10}"#)
    );
}

fn a_batch_has_at_most_a_thousand_items(world: &World) {
    let many = |n| (0..n).map(|_| plain()).collect::<Vec<_>>();
    refused(world.block(world.store().submit(many(1_001))));
    assert_eq!(world.jobs(), []);
    assert!(world.counts().is_zero());
    assert_eq!(world.submit_all(many(1_000)).len(), 1_000);
    assert_eq!(world.stats().jobs.get(&State::Queued), Some(&1_000));
}

fn an_empty_batch_has_no_answers(world: &World) {
    assert_eq!(world.submit_all(Vec::new()), []);
    assert!(world.counts().is_zero());
}
