//! Answers: what a submission gets when its key is held (contract 2.5–2.8).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, OnDuplicate};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{Submitted, WriteOutcome};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{
    World, into_queue, json, latest, made_by, name, named, numbered, of, secs, with, with_input,
};

cases![
    "2.5" => use_existing_points_to_the_holder_wherever_it_stands,
    "2.5" => reject_says_no_wherever_the_holder_stands,
    "2.5" => replace_reaches_only_a_holder_that_has_not_started,
    "2.5" => debounce_reaches_only_a_holder_that_has_not_started,
    "2.5" => latest_replaces_follows_or_points,
    "2.5" => a_holder_between_retries_has_started,
    "2.5" => an_absorbed_submission_changes_neither_holder_nor_key,
    "2.5" => replace_takes_the_content,
    "2.5" => replace_leaves_identity_place_and_key,
    "2.5" => replace_does_not_take_the_ttl,
    "2.5" => a_replaced_job_runs_once_with_the_newest_content,
    "2.5" => the_replaced_input_is_what_later_submissions_are_compared_with,
    "2.5" => a_replaced_priority_moves_the_job_in_its_queue,
    "2.5" => the_first_of_a_debounce_waits_too,
    "2.5" => each_debounced_submission_moves_the_start,
    "2.5" => a_debounce_starts_at_the_latest_after_its_longest_wait,
    "2.5" => a_debounce_without_a_longest_wait_moves_on_and_on,
    "2.5" => a_debounce_whose_longest_wait_is_over_is_due,
    "2.5" => a_debounced_job_that_started_lets_the_next_in,
    "2.7" => every_outcome_names_a_job_that_exists_as_it_stands,
    "2.7" => a_failed_holder_is_said_to_have_failed,
    "2.7" => a_duplicate_of_a_finished_holder_finds_its_output,
];

/// The columns of the table.
#[derive(Clone, Copy, Debug)]
enum Stage {
    NotStarted,
    Started,
    Ended,
}

const STAGES: [Stage; 3] = [Stage::NotStarted, Stage::Started, Stage::Ended];

/// A job of a task of its own that holds the key "k" in that task, at a stage of its life.
fn holder(world: &World, stage: Stage, hold: Hold) -> Submission {
    let task = format!("{stage:?}");
    let submission = Submission {
        task: name(&task),
        ..with(Dedup::explicit("k").hold(hold))
    };
    match stage {
        Stage::NotStarted => drop(world.accepted(submission.clone())),
        Stage::Started => drop(world.start(submission.clone())),
        Stage::Ended => drop(world.complete(&world.start(submission.clone()))),
    }
    submission
}

/// What a policy answers at each stage of a holder whose key is kept for a day.
fn answers(world: &World, on_duplicate: OnDuplicate, own: Hold) -> [Outcome; 3] {
    STAGES.map(|stage| {
        let held = holder(world, stage, Hold::window(Millis::from_days(1)));
        let newcomer = with(Dedup::explicit("k").hold(own).on_duplicate(on_duplicate));
        let submitted = world.submit(Submission {
            task: held.task.clone(),
            ..newcomer
        });
        let id = named(&submitted).id;
        assert!(made_by(&id, held.token), "{id} is not the holder");
        submitted.outcome().expect("an outcome")
    })
}

fn debounce(delay: i64) -> OnDuplicate {
    OnDuplicate::Debounce {
        delay: secs(delay),
        max_wait: None,
    }
}

fn use_existing_points_to_the_holder_wherever_it_stands(world: &World) {
    let outcomes = answers(world, OnDuplicate::UseExisting, Hold::until_finished());
    assert_eq!(outcomes, [Outcome::Duplicate; 3]);
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Duplicate)),
        (3, 3)
    );
}

fn reject_says_no_wherever_the_holder_stands(world: &World) {
    let outcomes = answers(world, OnDuplicate::Reject, Hold::until_finished());
    assert_eq!(outcomes, [Outcome::Rejected; 3]);
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Rejected)),
        (3, 3)
    );
}

fn replace_reaches_only_a_holder_that_has_not_started(world: &World) {
    let outcomes = answers(world, OnDuplicate::Replace, Hold::until_finished());
    assert_eq!(
        outcomes,
        [Outcome::Replaced, Outcome::Duplicate, Outcome::Duplicate]
    );
    assert_eq!(
        (world.count(Counter::Replaced), world.count(Counter::Duplicate)),
        (1, 2)
    );
}

fn debounce_reaches_only_a_holder_that_has_not_started(world: &World) {
    let outcomes = answers(world, debounce(5), Hold::until_started());
    assert_eq!(
        outcomes,
        [Outcome::Debounced, Outcome::Duplicate, Outcome::Duplicate]
    );
    assert_eq!(
        (world.count(Counter::Debounced), world.count(Counter::Duplicate)),
        (1, 2)
    );
}

fn latest_replaces_follows_or_points(world: &World) {
    let outcomes = answers(world, OnDuplicate::Latest, Hold::until_finished());
    assert_eq!(
        outcomes,
        [Outcome::Replaced, Outcome::Duplicate, Outcome::Duplicate]
    );
    let running = world.start(latest(1));
    assert_ne!(world.answered(latest(2), Outcome::Deferred), running.job.id);
}

fn a_holder_between_retries_has_started(world: &World) {
    let claimed = world.start(numbered(Dedup::explicit("k"), 1));
    world.try_later(&claimed, secs(60));
    let waiting = world.job(&claimed.job.id);
    let replace = Dedup::explicit("k").on_duplicate(OnDuplicate::Replace);
    assert_eq!(world.duplicate(numbered(replace, 2)), claimed.job.id);
    let debounced = Dedup::explicit("k").on_duplicate(debounce(5));
    assert_eq!(world.duplicate(numbered(debounced, 3)), claimed.job.id);
    assert_eq!(world.job(&claimed.job.id), waiting);
    world.answered(latest(4), Outcome::Deferred);
}

fn an_absorbed_submission_changes_neither_holder_nor_key(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    let before = world.picture();
    world.pass(secs(10));
    world.duplicate(with(Dedup::explicit("k")));
    world.answered(with(Dedup::exclusive("k")), Outcome::Rejected);
    world.answered(with_input(Dedup::explicit("k"), "[]"), Outcome::Conflict);
    let after = world.picture();
    assert_eq!(after.jobs, before.jobs);
    assert_eq!(after.keys[0].key, before.keys[0].key);
    assert_eq!((after.ledger.len(), after.keys[0].absorbed), (3, 3));
    assert_eq!(world.job(&id).state, State::Queued);
}

fn replacing(n: u32) -> Submission {
    numbered(Dedup::explicit("k").on_duplicate(OnDuplicate::Replace), n)
}

fn replace_takes_the_content(world: &World) {
    let id = world.accepted(replacing(1));
    let mut newer = replacing(2);
    newer.content.headers.insert("trace".to_owned(), "2".to_owned());
    newer.content.meta = Some(json(r#"{"by":"anna"}"#));
    newer.content.timeout = Some(secs(9));
    newer = Submission {
        priority: 7,
        run_at: RunAt::After(secs(60)),
        max_attempts: 2,
        ..newer
    };
    assert_eq!(world.answered(newer.clone(), Outcome::Replaced), id);
    world.crash();
    let job = world.job(&id);
    assert_eq!(
        (job.input, job.headers, job.meta),
        (json(r#"{"n":2}"#), newer.content.headers, newer.content.meta)
    );
    assert_eq!(
        (job.timeout, job.priority, job.max_attempts),
        (Some(secs(9)), 7, 2)
    );
    assert_eq!(
        (job.run_at, job.state),
        (world.now().plus(secs(60)), State::Scheduled)
    );
}

fn replace_leaves_identity_place_and_key(world: &World) {
    let id = world.accepted(Submission {
        producer: Some(name("first")),
        ..replacing(1)
    });
    let before = world.job(&id);
    world.pass(secs(10));
    let newer = Submission {
        producer: Some(name("second")),
        max_deliveries: 2,
        ..into_queue("other", replacing(2))
    };
    world.answered(newer, Outcome::Replaced);
    let after = world.job(&id);
    assert_eq!(
        (after.queue, after.task, after.key),
        (before.queue, before.task, before.key)
    );
    assert_eq!(
        (after.enqueued_at, after.producer),
        (before.enqueued_at, before.producer)
    );
    assert_eq!(
        (after.origin, after.max_deliveries, after.attempt),
        (id, before.max_deliveries, 0)
    );
    assert_eq!(world.jobs().len(), 1);
}

fn replace_does_not_take_the_ttl(world: &World) {
    let held = |ttl, n| {
        numbered(
            Dedup::explicit("k")
                .hold(Hold::until_finished().ttl(secs(ttl)))
                .on_duplicate(OnDuplicate::Replace),
            n,
        )
    };
    let id = world.accepted(held(60, 1));
    world.pass(secs(30));
    assert_eq!(world.answered(held(3_600, 2), Outcome::Replaced), id);
    world.pass(Millis::new(29_999));
    assert!(world.holds(&id));
    world.pass(Millis::new(1));
    assert_ne!(world.accepted(held(60, 3)), id);
}

fn a_replaced_job_runs_once_with_the_newest_content(world: &World) {
    let id = world.accepted(replacing(1));
    for n in 2..=5 {
        assert_eq!(world.answered(replacing(n), Outcome::Replaced), id);
    }
    let claimed = world.claim_one();
    assert_eq!((&claimed.job.id, claimed.job.input.as_str()), (&id, r#"{"n":5}"#));
    assert_eq!(world.claim(10), []);
    assert_eq!(
        (world.count(Counter::Accepted), world.count(Counter::Replaced)),
        (1, 4)
    );
}

fn the_replaced_input_is_what_later_submissions_are_compared_with(world: &World) {
    let id = world.accepted(replacing(1));
    world.answered(replacing(2), Outcome::Replaced);
    assert_eq!(world.duplicate(numbered(Dedup::explicit("k"), 2)), id);
    let submitted = world.submit(numbered(Dedup::explicit("k"), 1));
    let Submitted::Conflict { holder, differs } = submitted else {
        panic!("got {submitted:?}")
    };
    assert_eq!((holder.id, differs), (id, vec!["/n".to_owned()]));
}

fn a_replaced_priority_moves_the_job_in_its_queue(world: &World) {
    let id = world.accepted(replacing(1));
    let other = world.accepted(Submission {
        priority: 5,
        ..of("work", "{}")
    });
    world.answered(
        Submission {
            priority: 9,
            ..replacing(2)
        },
        Outcome::Replaced,
    );
    assert_eq!(world.claimed_ids(), [id, other]);
}

fn debounced(n: u32, max_wait: Option<Millis>) -> Submission {
    numbered(Dedup::explicit("k").debounce(secs(10), max_wait), n)
}

fn the_first_of_a_debounce_waits_too(world: &World) {
    let id = world.accepted(debounced(1, None));
    let job = world.job(&id);
    assert_eq!(
        (job.state, job.run_at),
        (State::Scheduled, world.now().plus(secs(10)))
    );
    world.pass(Millis::new(9_999));
    assert_eq!(world.claim(1), []);
    world.pass(Millis::new(1));
    assert_eq!(world.claim_one().job.id, id);
}

fn each_debounced_submission_moves_the_start(world: &World) {
    let id = world.accepted(debounced(1, None));
    world.pass(secs(7));
    assert_eq!(world.answered(debounced(2, None), Outcome::Debounced), id);
    assert_eq!(world.job(&id).run_at, world.now().plus(secs(10)));
    world.pass(secs(9));
    assert_eq!(world.claim(1), []);
    world.pass(secs(1));
    assert_eq!(world.claim_one().job.input, json(r#"{"n":2}"#));
}

/// Elsewhere a debounce had no longest wait, and a busy key never ran.
fn a_debounce_starts_at_the_latest_after_its_longest_wait(world: &World) {
    let first = world.now();
    let id = world.accepted(debounced(1, Some(secs(25))));
    for n in 2..=4 {
        world.pass(secs(8));
        assert_eq!(
            world.answered(debounced(n, Some(secs(25))), Outcome::Debounced),
            id
        );
    }
    assert_eq!(world.job(&id).run_at, first.plus(secs(25)));
    world.pass(secs(1));
    assert_eq!(world.claim_one().job.input, json(r#"{"n":4}"#));
}

fn a_debounce_without_a_longest_wait_moves_on_and_on(world: &World) {
    let id = world.accepted(debounced(1, None));
    for n in 2..=50 {
        world.pass(secs(9));
        assert_eq!(world.claim(1), []);
        assert_eq!(world.answered(debounced(n, None), Outcome::Debounced), id);
    }
    assert_eq!(world.job(&id).run_at, world.now().plus(secs(10)));
    assert_eq!(world.count(Counter::Debounced), 49);
}

fn a_debounce_whose_longest_wait_is_over_is_due(world: &World) {
    let id = world.accepted(debounced(1, Some(secs(25))));
    world.pass(secs(60));
    assert_eq!(
        world.answered(debounced(2, Some(secs(25))), Outcome::Debounced),
        id
    );
    assert_eq!(world.state(&id), State::Queued);
    assert_eq!(world.claim_one().job.input, json(r#"{"n":2}"#));
}

fn a_debounced_job_that_started_lets_the_next_in(world: &World) {
    let id = world.accepted(debounced(1, None));
    world.pass(secs(10));
    assert_eq!(world.claim_one().job.id, id);
    let next = world.accepted(debounced(2, None));
    assert_ne!(next, id);
    assert_eq!(world.state(&next), State::Scheduled);
}

fn every_outcome_names_a_job_that_exists_as_it_stands(world: &World) {
    let id = world.answered(latest(1), Outcome::Accepted);
    world.pass(secs(1));
    assert_eq!(
        world.answered(numbered(Dedup::explicit("k"), 1), Outcome::Duplicate),
        id
    );
    assert_eq!(
        world.answered(numbered(Dedup::exclusive("k"), 1), Outcome::Rejected),
        id
    );
    assert_eq!(
        world.answered(numbered(Dedup::explicit("k"), 2), Outcome::Conflict),
        id
    );
    assert_eq!(world.answered(latest(2), Outcome::Replaced), id);
    assert_eq!(world.answered(debounced(3, None), Outcome::Debounced), id);
    assert_eq!(world.state(&id), State::Scheduled);
    world.pass(secs(10));
    let claimed = world.claim_one();
    assert_ne!(world.answered(latest(4), Outcome::Deferred), id);
    assert_eq!(world.duplicate(numbered(Dedup::explicit("k"), 3)), id);
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
}

fn a_failed_holder_is_said_to_have_failed(world: &World) {
    let claimed = world.start(with(Dedup::idempotency_key("k")));
    world.fail(&claimed, "broken");
    let told = world.admitted(with(Dedup::idempotency_key("k")));
    assert_eq!(
        (told.outcome, told.job.id, told.job.state),
        (Outcome::Duplicate, claimed.job.id, State::Failed)
    );
}

fn a_duplicate_of_a_finished_holder_finds_its_output(world: &World) {
    let claimed = world.start(with(Dedup::idempotency_key("k")));
    let output = Some(json(r#"{"receipt":7}"#));
    world.settle(
        &claimed.job.id,
        claimed.fence,
        Settle::Complete {
            output: output.clone(),
        },
    );
    world.pass(Millis::from_days(1));
    let id = world.duplicate(with(Dedup::idempotency_key("k")));
    assert_eq!(world.job(&id).output, output);
}
