//! Dead letters: listed, grouped, replayed, dropped (contract 6.4, 6.5).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::{JobId, Name};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{Act, ActOutcome, JobFilter, KeyFilter};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_core::view::ErrorGroup;

use super::list::cases;
use crate::kit::{World, done, held_by, json, made_by, name, of, plain, secs, token, with, with_input};

cases![
    "6.4" => a_failed_job_is_a_dead_letter_and_no_other_is,
    "6.4" => a_dead_letter_says_why_how_often_and_when,
    "6.4" => a_job_whose_leases_ran_out_is_a_dead_letter,
    "6.4" => dead_letters_are_grouped_by_what_they_died_of,
    "6.4" => the_groups_of_one_task_are_its_own,
    "6.4" => retried_replayed_and_dropped_letters_are_gone,
    "6.4" => dead_letters_are_found_by_error_and_task,
    "6.4" => a_dropped_letter_without_a_key_leaves_nothing,
    "6.4" => a_dropped_letter_that_holds_its_key_leaves_a_stub,
    "6.4" => a_stub_still_stands_for_its_key,
    "6.4" => the_stub_of_a_released_key_leaves_nothing_in_the_way,
    "6.4" => a_job_that_has_not_ended_cannot_be_deleted,
    "6.4" => the_token_of_a_deleted_job_is_forgotten,
    "6.4" => a_deleted_job_stays_counted,
    "6.5" => a_replay_is_a_fresh_job_of_the_same_origin,
    "6.5" => a_replay_brings_everything_that_was_submitted,
    "6.5" => a_letter_replayed_twice_gives_one_job,
    "6.5" => a_replay_sent_twice_gives_one_job,
    "6.5" => the_token_of_another_job_replays_nothing,
    "6.5" => the_kept_key_of_a_letter_moves_over,
    "6.5" => a_freed_key_is_taken_again_by_the_replay,
    "6.5" => a_replay_is_stopped_by_another_holder_and_the_letter_stays,
    "6.5" => only_a_failed_job_is_replayed,
    "6.5" => a_dropped_letter_cannot_be_replayed,
    "6.5" => the_key_of_a_replay_outlives_its_letter,
    "6.5" => a_replay_is_counted_as_accepted,
];

fn a_failed_job_is_a_dead_letter_and_no_other_is(world: &World) {
    world.completed(plain());
    let cancelled = world.accepted(plain());
    world.cancel(&cancelled);
    let first = world.failed(plain(), "broke");
    let second = world.failed(plain(), "broke");
    world.started(plain());
    world.accepted(plain());
    world.crash();
    assert_eq!(world.dead_letters(), [second, first]);
}

fn a_dead_letter_says_why_how_often_and_when(world: &World) {
    world.accepted(Submission {
        max_attempts: 2,
        ..plain()
    });
    let again = |error: &str| Settle::Retry {
        error: error.into(),
        delay: Some(Millis::ZERO),
    };
    let first = world.claim_one();
    world.settle(&first.job.id, first.fence, again("first"));
    world.pass(secs(5));
    world.settle(&first.job.id, world.claim_one().fence, again("second"));
    let letter = world.job(&first.job.id);
    let error = letter.error.expect("a reason");
    assert_eq!(
        (error.message.as_str(), error.attempt, error.at),
        ("second", 2, world.now())
    );
    assert_eq!((letter.attempt, letter.finished_at), (2, Some(world.now())));
    assert_eq!(world.attempts(&first.job.id).len(), 2);
}

fn a_job_whose_leases_ran_out_is_a_dead_letter(world: &World) {
    let id = world.accepted(Submission {
        max_deliveries: 2,
        ..plain()
    });
    world.claim_one();
    world.pass(secs(30));
    world.claim_one();
    world.pass(secs(30));
    world.upkeep();
    assert_eq!(world.dead_letters(), std::slice::from_ref(&id));
    let letter = world.job(&id);
    assert_eq!(
        (letter.state, letter.deliveries, letter.attempt),
        (State::Failed, 2, 0)
    );
    assert_eq!(
        letter.error.expect("a reason").message,
        "the lease expired 2 times"
    );
}

fn dead_letters_are_grouped_by_what_they_died_of(world: &World) {
    world.failed(plain(), "timeout after 30 s\nat line 7");
    world.failed(plain(), "no such address");
    world.pass(secs(1));
    let newest = world.failed(plain(), "timeout after 1200 s\nat line 9");
    let groups = groups(world, None);
    let timeouts = groups
        .iter()
        .find(|group| group.error == "timeout after # s")
        .expect("a group");
    assert_eq!(
        (groups.len(), timeouts.jobs, &timeouts.task),
        (2, 2, &name("work"))
    );
    assert_eq!((&timeouts.newest, timeouts.newest_at), (&newest, world.now()));
}

fn the_groups_of_one_task_are_its_own(world: &World) {
    world.failed(of("send", "{}"), "broke");
    world.failed(of("scale", "{}"), "broke");
    let letter = world.failed(of("send", "{}"), "broke");
    let send = groups(world, Some(name("send")));
    assert_eq!((send.len(), send[0].jobs, &send[0].newest), (1, 2, &letter));
    assert_eq!(groups(world, None).len(), 2);
    world.replayed(&letter);
    assert_eq!(groups(world, Some(name("send")))[0].jobs, 1);
    assert!(groups(world, Some(name("unheard of"))).is_empty());
}

fn retried_replayed_and_dropped_letters_are_gone(world: &World) {
    let letters: Vec<JobId> = (0..4).map(|_| world.failed(plain(), "broke")).collect();
    world.retry(&letters[0]);
    world.replayed(&letters[1]);
    world.delete(&letters[2]);
    assert_eq!(world.dead_letters(), [letters[3].clone()]);
    assert_eq!(groups(world, None)[0].jobs, 1);
}

fn dead_letters_are_found_by_error_and_task(world: &World) {
    let wanted = world.failed(of("send", "{}"), "timeout of the printer");
    world.failed(of("send", "{}"), "no such address");
    world.failed(of("scale", "{}"), "timeout of the disk");
    let filter = JobFilter {
        dead_letters: true,
        error: Some("timeout".into()),
        ..JobFilter::default()
    };
    assert_eq!(world.ids(filter.clone()).len(), 2);
    assert_eq!(
        world.ids(JobFilter {
            task: Some(name("send")),
            ..filter
        }),
        [wanted]
    );
}

fn a_dropped_letter_without_a_key_leaves_nothing(world: &World) {
    let id = world.failed(with(Dedup::explicit("k")), "broke");
    assert_eq!(world.delete(&id), done(&id, State::Failed));
    world.crash();
    assert_eq!(world.find(&id), None);
    assert!(world.attempts(&id).is_empty());
    assert_eq!(world.delete(&id), ActOutcome::NotFound);
    world.accepted(with(Dedup::explicit("k")));
}

fn a_dropped_letter_that_holds_its_key_leaves_a_stub(world: &World) {
    let mut submission = with_input(Dedup::idempotency_key("k"), r#"{"card":"4711"}"#);
    submission.content.headers.insert("trace".into(), "abc".into());
    submission.content.meta = Some(json(r#"{"cost":3}"#));
    let id = world.failed(submission, "broke");
    assert_eq!(world.delete(&id), done(&id, State::Failed));
    assert_eq!(
        world.delete(&id),
        done(&id, State::Failed),
        "deleting the stub changes nothing"
    );
    let stub = world.job(&id);
    assert_eq!(
        (stub.stub, stub.state, &stub.input),
        (true, State::Failed, &json("null"))
    );
    assert_eq!((stub.output, stub.meta, stub.headers.len()), (None, None, 0));
    assert_eq!(stub.error.expect("the reason").message, "broke");
    assert!(stub.key.expect("a key").held);
    assert_eq!(
        (world.ids(JobFilter::default()), world.dead_letters()),
        (vec![], vec![])
    );
    assert!(world.exact_stats().jobs.is_empty());
}

fn a_stub_still_stands_for_its_key(world: &World) {
    let policy = || Dedup::idempotency_key("k");
    let id = world.failed(with_input(policy(), r#"{"n":1}"#), "broke");
    world.delete(&id);
    world.crash();
    let same = world.admitted(with_input(policy(), r#"{"n":1}"#));
    assert_eq!(
        (same.outcome, &same.job.id, same.job.state),
        (Outcome::Duplicate, &id, State::Failed)
    );
    let other = world.submit(with_input(policy(), r#"{"n":2}"#));
    assert_eq!(
        (other.outcome(), other.id()),
        (Some(Outcome::Conflict), Some(&id)),
        "its input is remembered"
    );
}

fn the_stub_of_a_released_key_leaves_nothing_in_the_way(world: &World) {
    let policy = || Dedup::explicit("k").hold(Hold::forever());
    let id = world.failed(with(policy()), "broke");
    world.delete(&id);
    let digest = world.job(&id).key.expect("a key").digest;
    assert_eq!(world.release(digest, &id), done(&id, State::Failed));
    world.accepted(with(policy()));
}

fn a_job_that_has_not_ended_cannot_be_deleted(world: &World) {
    let running = world.started(plain()).job.id;
    let queued = world.accepted(plain());
    assert_eq!(world.delete(&running), ActOutcome::WrongState(State::Running));
    assert_eq!(world.delete(&queued), ActOutcome::WrongState(State::Queued));
    assert_eq!(
        (world.state(&running), world.state(&queued)),
        (State::Running, State::Queued)
    );
}

fn the_token_of_a_deleted_job_is_forgotten(world: &World) {
    let submission = plain();
    let id = world.completed(submission.clone());
    world.delete(&id);
    assert_eq!(world.accepted(submission), id);
    assert_eq!(world.state(&id), State::Queued);
    assert_eq!(world.exact_stats().totals.get(Counter::Accepted), 2);
}

fn a_deleted_job_stays_counted(world: &World) {
    let id = world.completed(plain());
    world.delete(&id);
    let stats = world.exact_stats();
    assert_eq!(world.counted(), [("accepted", 1), ("completed", 1)]);
    assert!(stats.jobs.is_empty(), "{:?}", stats.jobs);
}

fn a_replay_is_a_fresh_job_of_the_same_origin(world: &World) {
    let letter = world.failed(plain(), "broke");
    world.pass(secs(60));
    let call = token();
    let outcome = world.act(Act::Replay {
        id: letter.clone(),
        token: call,
    });
    let id = match &outcome {
        ActOutcome::Done { id, .. } if made_by(id, call) => id.clone(),
        other => panic!("expected the job of the call, got {other:?}"),
    };
    assert_eq!(outcome, done(&id, State::Queued));
    world.crash();
    let fresh = world.job(&id);
    assert_eq!(
        (&fresh.origin, &fresh.replayed_from),
        (&letter, &Some(letter.clone()))
    );
    assert_eq!(
        (fresh.enqueued_at, fresh.run_at, fresh.started_at),
        (world.now(), world.now(), None)
    );
    assert_eq!((fresh.attempt, fresh.fence, fresh.error), (0, 0, None));
    let letter = world.job(&letter);
    assert_eq!(
        (letter.state, letter.replayed_as),
        (State::Failed, Some(fresh.id))
    );
}

fn a_replay_brings_everything_that_was_submitted(world: &World) {
    let mut submission = Submission {
        queue: name("mails"),
        priority: 3,
        max_attempts: 2,
        producer: Some(name("shop")),
        ..of("send", r#"{"to":"ann"}"#)
    };
    submission.content.headers.insert("trace".into(), "abc".into());
    submission.content.timeout = Some(secs(9));
    let letter = world.job(&world.failed(submission, "broke"));
    world.replayed(&letter.id);
    let fresh = world.claim_one().job;
    assert_eq!(
        (fresh.task, fresh.queue, fresh.input),
        (letter.task, letter.queue, letter.input)
    );
    assert_eq!(
        (fresh.priority, fresh.max_attempts, fresh.timeout),
        (3, 2, Some(secs(9)))
    );
    assert_eq!(
        (fresh.producer, fresh.headers, fresh.attempt),
        (letter.producer, letter.headers, 1)
    );
}

fn a_letter_replayed_twice_gives_one_job(world: &World) {
    let letter = world.failed(plain(), "broke");
    let fresh = world.replayed(&letter);
    assert_eq!(world.replay(&letter), ActOutcome::Before { id: fresh.clone() });
    world.complete(&world.claim_one());
    assert_eq!(world.replay(&letter), ActOutcome::Before { id: fresh });
    assert!(world.claim(1).is_empty());
    assert_eq!(
        world.counted(),
        [("accepted", 2), ("completed", 1), ("failed", 1)]
    );
}

fn a_replay_sent_twice_gives_one_job(world: &World) {
    let letter = world.failed(plain(), "broke");
    let replay = Act::Replay {
        id: letter,
        token: token(),
    };
    let ActOutcome::Done { id, .. } = world.act(replay.clone()) else {
        panic!("expected a replay")
    };
    world.crash();
    assert_eq!(world.act(replay), ActOutcome::Before { id: id.clone() });
    assert_eq!(world.claimed_ids(), [id]);
}

fn the_token_of_another_job_replays_nothing(world: &World) {
    let (one, other) = (world.failed(plain(), "broke"), world.failed(plain(), "broke"));
    let used = token();
    world.act(Act::Replay { id: one, token: used });
    let outcome = world.act(Act::Replay {
        id: other.clone(),
        token: used,
    });
    let replayed = matches!(outcome, ActOutcome::Done { .. } | ActOutcome::Before { .. });
    assert!(!replayed, "{outcome:?} would name the replay of another letter");
    assert_eq!(world.dead_letters(), [other]);
}

fn the_kept_key_of_a_letter_moves_over(world: &World) {
    let letter = world.failed(with(Dedup::idempotency_key("k")), "broke");
    let before = world.job(&letter).key.expect("a key");
    let fresh = world.replayed(&letter);
    world.crash();
    let (old, new) = (
        world.job(&letter).key.expect("a key"),
        world.job(&fresh).key.expect("a key"),
    );
    assert!(!old.held && new.held);
    assert_eq!(old.digest, new.digest);
    assert!(new.generation > before.generation);
    assert_eq!(world.keys(KeyFilter::default()).len(), 1);
    let again = world.admitted(with(Dedup::idempotency_key("k")));
    assert_eq!((again.outcome, again.job.id), (Outcome::Duplicate, fresh));
}

fn a_freed_key_is_taken_again_by_the_replay(world: &World) {
    let letter = world.failed(with(Dedup::explicit("k")), "broke");
    let fresh = world.replayed(&letter);
    let again = world.admitted(with(Dedup::explicit("k")));
    assert_eq!((again.outcome, again.job.id), (Outcome::Duplicate, fresh));
    world.complete(&world.claim_one());
    world.accepted(with(Dedup::explicit("k")));
}

fn a_replay_is_stopped_by_another_holder_and_the_letter_stays(world: &World) {
    let letter = world.failed(with(Dedup::explicit("k")), "broke");
    let holder = world.accepted(with(Dedup::explicit("k")));
    let stopped_by = held_by(world.replay(&letter));
    assert_eq!((&stopped_by.id, stopped_by.state), (&holder, State::Queued));
    assert_eq!(
        (world.dead_letters(), world.job(&letter).replayed_as),
        (vec![letter.clone()], None)
    );
    assert_eq!(world.claimed_ids(), std::slice::from_ref(&holder));
    world.cancel(&holder);
    world.replayed(&letter);
}

fn only_a_failed_job_is_replayed(world: &World) {
    let complete = world.completed(plain());
    let cancelled = world.accepted(plain());
    world.cancel(&cancelled);
    let running = world.started(plain()).job.id;
    let queued = world.accepted(plain());
    for (id, state) in [
        (complete, State::Complete),
        (cancelled, State::Cancelled),
        (running, State::Running),
        (queued, State::Queued),
    ] {
        assert_eq!(world.replay(&id), ActOutcome::WrongState(state));
    }
    assert_eq!(world.ids(JobFilter::default()).len(), 4);
}

fn a_dropped_letter_cannot_be_replayed(world: &World) {
    let gone = world.failed(plain(), "broke");
    let stub = world.failed(with(Dedup::idempotency_key("k")), "broke");
    for letter in [gone, stub] {
        world.delete(&letter);
        assert_eq!(world.replay(&letter), ActOutcome::NotFound);
    }
    assert!(world.claim(1).is_empty());
}

fn the_key_of_a_replay_outlives_its_letter(world: &World) {
    let letter = world.failed(with(Dedup::idempotency_key("k")), "broke");
    let fresh = world.replayed(&letter);
    assert_eq!(world.delete(&letter), done(&letter, State::Failed));
    assert_eq!(world.find(&letter), None, "it no longer holds the key: no stub");
    let again = world.admitted(with(Dedup::idempotency_key("k")));
    assert_eq!((again.outcome, again.job.id), (Outcome::Duplicate, fresh));
}

fn a_replay_is_counted_as_accepted(world: &World) {
    let letter = world.failed(
        Submission {
            queue: name("mails"),
            ..of("send", "{}")
        },
        "broke",
    );
    world.replayed(&letter);
    world.complete(&world.claim_one());
    assert_eq!(
        world.counted(),
        [("accepted", 2), ("completed", 1), ("failed", 1)]
    );
    let lanes = world.exact_stats().lanes;
    assert_eq!(
        (lanes.len(), &lanes[0].queue, &lanes[0].task),
        (1, &name("mails"), &name("send"))
    );
}

fn groups(world: &World, task: Option<Name>) -> Vec<ErrorGroup> {
    world
        .block(world.store().dead_letter_groups(task))
        .expect("the store answers")
}
