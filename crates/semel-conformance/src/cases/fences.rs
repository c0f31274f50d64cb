//! Fences and ends: only the newest lease writes, and an end is final (contract 1.3, 1.5, 1.6).

use semel_core::counters::Counter;
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::{Refusal, Settle};
use semel_core::step::StepPhase;
use semel_core::store::{
    ActOutcome, Beat, Claimed, ExtendRequest, Settlement, StepOutcome, WriteOutcome, log_feed,
};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, done, json, plain, secs, token};

cases![
    "1.3" => nothing_moves_a_completed_job,
    "1.3" => nothing_moves_a_failed_job,
    "1.3" => nothing_moves_a_cancelled_job,
    "1.3" => nothing_moves_a_dead_letter_of_expired_leases,
    "1.3" => maintenance_never_overwrites_a_completion,
    "1.3" => a_completion_sent_twice_does_not_run_the_job_again,
    "1.3" => only_a_manual_retry_begins_a_new_life,
    "1.5" => a_worker_back_from_the_dead_changes_nothing,
    "1.5" => a_stale_heartbeat_writes_neither_progress_nor_log,
    "1.5" => a_stale_worker_begins_and_confirms_no_step,
    "1.5" => each_refused_write_is_counted,
    "1.5" => a_fence_nobody_was_given_is_refused,
    "1.5" => fences_grow_while_the_clock_stands_still,
    "1.5" => a_fence_is_never_behind_the_time_of_the_store,
    "1.5" => fences_survive_a_crash,
    "1.5" => the_fence_of_an_earlier_life_is_stale,
    "1.5" => a_refused_write_does_not_spoil_its_batch,
    "1.5" => a_write_to_an_unknown_job_is_told_so_and_not_counted,
    "1.5" => the_writes_of_a_cancelled_job_say_so,
    "1.6" => settling_again_gives_the_first_answer,
    "1.6" => the_first_result_stands_whatever_is_settled_later,
    "1.6" => settling_again_counts_nothing_also_after_a_crash,
    "1.6" => a_retry_settled_again_answers_alike_until_the_next_lease,
    "1.6" => a_heartbeat_after_the_settlement_is_refused,
];

fn begin_step(world: &World, claimed: &Claimed) -> StepOutcome {
    world.step(claimed, "charge", StepPhase::Begin { token: token() })
}

/// A job that was leased, lost, and leased again: the claim of the dead worker and that of the living.
fn leased_again(world: &World) -> (Claimed, Claimed) {
    let old = world.start(plain());
    world.pass(secs(30));
    let new = world.claim_one();
    assert_eq!(new.job.id, old.job.id);
    (old, new)
}

fn every_result() -> Vec<Settle> {
    let text = || "late".to_owned();
    vec![
        Settle::Complete {
            output: Some(json(r#"{"late":true}"#)),
        },
        Settle::Retry {
            error: text(),
            delay: None,
        },
        Settle::Fail { error: text() },
        Settle::Snooze { delay: secs(1) },
        Settle::HandBack,
        Settle::Park { reason: text() },
        Settle::Cancel,
    ]
}

/// Every kind of late write by the worker of an ended job, each followed by a look at the job.
fn nothing_moves(world: &World, claimed: &Claimed, late: &WriteOutcome) {
    let (id, fence) = (&claimed.job.id, claimed.fence);
    let ended = world.job(id);
    assert!(ended.state.is_terminal());
    for result in every_result() {
        assert_eq!(world.settle(id, fence, result), *late);
        assert_eq!(world.job(id), ended);
    }
    assert!(matches!(world.extend(id, fence), WriteOutcome::Refused(_)));
    assert!(matches!(begin_step(world, claimed), StepOutcome::Refused(_)));
    assert_eq!(world.cancel(id), ActOutcome::WrongState(ended.state));
    world.expire();
    assert_eq!(world.claim(10), []);
    assert_eq!(world.job(id), ended);
}

fn nothing_moves_a_completed_job(world: &World) {
    let claimed = world.start(plain());
    world.complete(&claimed);
    nothing_moves(world, &claimed, &WriteOutcome::Ok(State::Complete));
}

fn nothing_moves_a_failed_job(world: &World) {
    let claimed = world.start(plain());
    world.fail(&claimed, "broken");
    nothing_moves(world, &claimed, &WriteOutcome::Ok(State::Failed));
}

fn nothing_moves_a_cancelled_job(world: &World) {
    let claimed = world.start(plain());
    world.cancel(&claimed.job.id);
    nothing_moves(world, &claimed, &WriteOutcome::Refused(Refusal::Cancelled));
}

fn nothing_moves_a_dead_letter_of_expired_leases(world: &World) {
    let claimed = world.start(Submission {
        max_deliveries: 1,
        ..plain()
    });
    world.expire();
    nothing_moves(world, &claimed, &WriteOutcome::Refused(Refusal::LeaseLost));
}

/// Elsewhere a sweep for stuck jobs read a running job, and wrote it back after the job had completed.
fn maintenance_never_overwrites_a_completion(world: &World) {
    let claimed = world.start(plain());
    world.pass(Millis::new(29_999));
    world.complete(&claimed);
    let before = world.picture();
    world.expire();
    assert_eq!(world.picture(), before);
    assert_eq!(world.count(Counter::Expired), 0);
}

/// Elsewhere a completion that was sent again had lost its identity, and finished work ran once more.
fn a_completion_sent_twice_does_not_run_the_job_again(world: &World) {
    let claimed = world.start(plain());
    world.complete(&claimed);
    world.crash();
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
    world.expire();
    assert_eq!(world.claim(10), []);
    assert_eq!(world.count(Counter::Completed), 1);
}

fn only_a_manual_retry_begins_a_new_life(world: &World) {
    let claimed = world.start(plain());
    world.fail(&claimed, "broken");
    let id = claimed.job.id;
    assert_eq!(world.retry(&id), done(&id, State::Queued));
    let second = world.claim_one();
    assert_eq!((second.job.id, second.job.attempt), (id, 1));
    assert!(second.fence > claimed.fence);
}

/// Elsewhere settlements were accepted by id and state: a worker stopped, and woken after its job had been
/// leased again, ended the other worker's run in twenty tries of twenty.
fn a_worker_back_from_the_dead_changes_nothing(world: &World) {
    let (old, new) = leased_again(world);
    let running = world.job(&new.job.id);
    for result in every_result() {
        let late = world.settle(&old.job.id, old.fence, result);
        assert_eq!(late, WriteOutcome::Refused(Refusal::LeaseLost));
        assert_eq!(world.job(&new.job.id), running);
    }
    assert_eq!(world.complete(&new), WriteOutcome::Ok(State::Complete));
}

fn a_stale_heartbeat_writes_neither_progress_nor_log(world: &World) {
    let (old, new) = leased_again(world);
    let running = world.job(&new.job.id);
    let beat = Beat {
        id: old.job.id.clone(),
        fence: old.fence,
        progress: Some(0.9),
        log: vec!["still here".to_owned()],
    };
    let request = ExtendRequest {
        leases: vec![beat],
        lease: secs(600),
    };
    let outcome = world
        .block(world.store().extend(request))
        .expect("the store answers");
    assert_eq!(outcome, [WriteOutcome::Refused(Refusal::LeaseLost)]);
    assert_eq!(world.job(&new.job.id), running);
    assert_eq!(world.feed(&log_feed(&new.job.id)), []);
}

fn a_stale_worker_begins_and_confirms_no_step(world: &World) {
    let (old, new) = leased_again(world);
    let id = &new.job.id;
    let refused = StepOutcome::Refused(Refusal::LeaseLost);
    assert_eq!(begin_step(world, &old), refused);
    assert_eq!(world.steps_of(id), []);
    assert!(matches!(begin_step(world, &new), StepOutcome::Answer(_)));
    let begun = world.steps_of(id);
    assert_eq!(
        world.step(&old, "charge", StepPhase::Confirm { output: json("1") }),
        refused
    );
    assert_eq!(world.step(&old, "charge", StepPhase::Refused), refused);
    assert_eq!(world.steps_of(id), begun);
}

fn each_refused_write_is_counted(world: &World) {
    let (old, _new) = leased_again(world);
    let mut expected = world.counts();
    world.complete(&old);
    world.extend(&old.job.id, old.fence);
    begin_step(world, &old);
    expected.add(Counter::StaleWrites, 3);
    assert_eq!(world.counts(), expected);
}

fn a_fence_nobody_was_given_is_refused(world: &World) {
    let waiting = world.accepted(Submission {
        run_at: RunAt::After(secs(60)),
        ..plain()
    });
    let claimed = world.start(plain());
    let refused = WriteOutcome::Refused(Refusal::LeaseLost);
    for (id, fence) in [
        (&waiting, 0),
        (&waiting, claimed.fence),
        (&claimed.job.id, 0),
        (&claimed.job.id, -1),
        (&claimed.job.id, claimed.fence + 1),
        (&claimed.job.id, i64::MAX),
    ] {
        assert_eq!(
            world.settle(id, fence, Settle::Complete { output: None }),
            refused,
            "fence {fence}"
        );
        assert_eq!(world.extend(id, fence), refused, "fence {fence}");
    }
    assert_eq!(world.state(&waiting), State::Scheduled);
    assert_eq!(world.state(&claimed.job.id), State::Running);
}

fn fences_grow_while_the_clock_stands_still(world: &World) {
    let mut last = world.start(plain());
    for _ in 0..5 {
        world.settle(&last.job.id, last.fence, Settle::HandBack);
        let next = world.claim_one();
        assert!(next.fence > last.fence, "{} then {}", last.fence, next.fence);
        last = next;
    }
}

fn a_fence_is_never_behind_the_time_of_the_store(world: &World) {
    world.accepted(plain());
    world.pass(secs(3_600));
    let claimed = world.claim_one();
    assert!(claimed.fence >= world.now().as_millis() * 1_000);
}

fn fences_survive_a_crash(world: &World) {
    let old = world.start(plain());
    world.settle(&old.job.id, old.fence, Settle::HandBack);
    world.crash();
    let new = world.claim_one();
    assert!(new.fence > old.fence, "{} then {}", old.fence, new.fence);
    world.crash();
    assert_eq!(world.complete(&old), WriteOutcome::Refused(Refusal::LeaseLost));
    assert_eq!(
        world.extend(&new.job.id, new.fence),
        WriteOutcome::Ok(State::Running)
    );
    assert_eq!(world.complete(&new), WriteOutcome::Ok(State::Complete));
}

fn the_fence_of_an_earlier_life_is_stale(world: &World) {
    let claimed = world.start(plain());
    world.cancel(&claimed.job.id);
    world.retry(&claimed.job.id);
    let revived = world.job(&claimed.job.id);
    assert_eq!(revived.state, State::Queued);
    assert_eq!(
        world.complete(&claimed),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(
        world.extend(&claimed.job.id, claimed.fence),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(world.job(&claimed.job.id), revived);
}

fn a_refused_write_does_not_spoil_its_batch(world: &World) {
    let (old, new) = leased_again(world);
    let other = world.start(plain());
    let complete = |claimed: &Claimed| Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result: Settle::Complete { output: None },
    };
    let unknown = Settlement {
        id: JobId::from(token()),
        fence: new.fence,
        result: Settle::HandBack,
    };
    let batch = vec![complete(&old), unknown, complete(&new), complete(&other)];
    let outcomes = world
        .block(world.store().settle(batch))
        .expect("the store answers");
    let done = WriteOutcome::Ok(State::Complete);
    assert_eq!(
        outcomes,
        [
            WriteOutcome::Refused(Refusal::LeaseLost),
            WriteOutcome::NotFound,
            done.clone(),
            done
        ]
    );
}

fn a_write_to_an_unknown_job_is_told_so_and_not_counted(world: &World) {
    let unknown = JobId::from(token());
    assert_eq!(
        world.settle(&unknown, 1, Settle::HandBack),
        WriteOutcome::NotFound
    );
    assert_eq!(world.extend(&unknown, 1), WriteOutcome::NotFound);
    assert!(world.counts().is_zero());
}

fn the_writes_of_a_cancelled_job_say_so(world: &World) {
    let claimed = world.start(plain());
    let (id, fence) = (&claimed.job.id, claimed.fence);
    world.cancel(id);
    assert_eq!(world.extend(id, fence), WriteOutcome::Refused(Refusal::Cancelled));
    assert_eq!(
        begin_step(world, &claimed),
        StepOutcome::Refused(Refusal::Cancelled)
    );
    assert_eq!(
        world.complete(&claimed),
        WriteOutcome::Refused(Refusal::Cancelled)
    );
    assert_eq!(world.count(Counter::StaleWrites), 3);
    assert_eq!(world.count(Counter::Completed), 0);
}

fn settling_again_gives_the_first_answer(world: &World) {
    for (result, state) in [
        (
            Settle::Complete {
                output: Some(json("7")),
            },
            State::Complete,
        ),
        (
            Settle::Fail {
                error: "broken".to_owned(),
            },
            State::Failed,
        ),
        (Settle::Cancel, State::Cancelled),
        (
            Settle::Park {
                reason: "in doubt".to_owned(),
            },
            State::Parked,
        ),
        (Settle::Snooze { delay: secs(60) }, State::Scheduled),
    ] {
        let claimed = world.start(plain());
        assert_eq!(
            world.settle(&claimed.job.id, claimed.fence, result.clone()),
            WriteOutcome::Ok(state)
        );
        let settled = world.job(&claimed.job.id);
        assert_eq!(
            world.settle(&claimed.job.id, claimed.fence, result),
            WriteOutcome::Ok(state)
        );
        assert_eq!(world.job(&claimed.job.id), settled);
    }
}

fn the_first_result_stands_whatever_is_settled_later(world: &World) {
    let claimed = world.start(plain());
    let first = Settle::Complete {
        output: Some(json(r#"{"n":1}"#)),
    };
    world.settle(&claimed.job.id, claimed.fence, first);
    let settled = world.picture();
    let second = Settle::Complete {
        output: Some(json(r#"{"n":2}"#)),
    };
    assert_eq!(
        world.settle(&claimed.job.id, claimed.fence, second),
        WriteOutcome::Ok(State::Complete)
    );
    assert_eq!(
        world.fail(&claimed, "no, broken"),
        WriteOutcome::Ok(State::Complete)
    );
    assert_eq!(world.picture(), settled);
}

fn settling_again_counts_nothing_also_after_a_crash(world: &World) {
    let claimed = world.start(plain());
    world.complete(&claimed);
    let counts = world.counts();
    assert_eq!(counts.get(Counter::Completed), 1);
    world.complete(&claimed);
    world.crash();
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
    assert_eq!(world.counts(), counts);
    let attempts = world.attempts(&claimed.job.id);
    assert_eq!(attempts.len(), 1);
}

fn a_retry_settled_again_answers_alike_until_the_next_lease(world: &World) {
    let claimed = world.start(plain());
    assert_eq!(
        world.try_later(&claimed, secs(5)),
        WriteOutcome::Ok(State::Scheduled)
    );
    world.pass(secs(5));
    assert_eq!(
        world.try_later(&claimed, secs(5)),
        WriteOutcome::Ok(State::Scheduled)
    );
    assert_eq!(world.count(Counter::Retried), 1);
    let next = world.claim_one();
    assert_eq!(
        world.try_later(&claimed, secs(5)),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(next.job.attempt, 2);
}

fn a_heartbeat_after_the_settlement_is_refused(world: &World) {
    let claimed = world.start(plain());
    world.try_later(&claimed, secs(5));
    let waiting = world.job(&claimed.job.id);
    let refused = world.extend(&claimed.job.id, claimed.fence);
    assert_eq!(refused, WriteOutcome::Refused(Refusal::LeaseLost));
    assert_eq!(
        begin_step(world, &claimed),
        StepOutcome::Refused(Refusal::LeaseLost)
    );
    assert_eq!(world.job(&claimed.job.id), waiting);
}
