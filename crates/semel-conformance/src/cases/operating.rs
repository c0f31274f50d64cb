//! What operators do: pausing, closing, cancelling, retrying (contract 6.1–6.3).

use semel_core::counters::Counter;
use semel_core::dedup::{Dedup, Hold, ReleaseOn};
use semel_core::ids::JobId;
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::{AttemptResult, Refusal, Settle};
use semel_core::store::{
    Act, ActOutcome, Beat, ExtendRequest, SettingChange, Submitted, Target, WriteOutcome,
};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, done, held_by, json, name, of, plain, queue, secs, task, token, with, with_input};

cases![
    "6.1" => everything_can_be_paused,
    "6.1" => a_paused_queue_leaves_the_others_alone,
    "6.1" => a_paused_task_leaves_the_others_alone,
    "6.1" => a_pause_of_everything_outlasts_the_resuming_of_a_part,
    "6.1" => a_pause_can_end_by_itself,
    "6.1" => a_second_pause_takes_the_place_of_the_first,
    "6.1" => what_runs_goes_on_under_a_pause,
    "6.1" => what_comes_under_a_pause_is_kept,
    "6.1" => a_pause_survives_a_crash,
    "6.1" => a_paused_lane_is_shown_as_paused,
    "6.1" => a_closed_intake_takes_nothing,
    "6.1" => an_intake_can_open_by_itself,
    "6.1" => a_closed_intake_leaves_what_is_waiting_to_the_workers,
    "6.1" => a_closed_intake_still_answers_what_it_answered_before,
    "6.1" => a_closed_intake_takes_no_replay,
    "6.2" => a_job_that_has_not_ended_is_cancelled_at_once,
    "6.2" => a_job_that_has_ended_is_not_cancelled,
    "6.2" => the_late_worker_of_a_cancelled_job_is_refused,
    "6.2" => a_late_finish_after_a_cancel_leaves_the_successor_its_key,
    "6.2" => a_cancelled_job_frees_its_key_as_its_hold_says,
    "6.2" => the_delivery_that_was_cancelled_is_on_record,
    "6.2" => a_job_that_is_not_there_cannot_be_acted_on,
    "6.3" => a_failed_job_gets_a_new_life_under_its_old_id,
    "6.3" => a_cancelled_job_gets_a_new_life,
    "6.3" => attempts_and_deliveries_restart_and_the_fence_goes_on,
    "6.3" => a_retried_job_has_neither_output_nor_progress,
    "6.3" => a_job_that_did_not_fail_is_not_retried,
    "6.3" => a_retried_job_takes_its_key_again,
    "6.3" => a_retry_is_stopped_by_another_holder,
    "6.3" => its_own_kept_key_does_not_stop_a_retry,
    "6.3" => a_replayed_job_cannot_be_retried,
    "6.3" => a_stub_cannot_be_retried,
    "6.3" => a_retry_by_hand_is_counted_and_shown_until_it_ends,
    "6.6" => the_acts_of_a_batch_see_those_before_them,
];

fn everything_can_be_paused(world: &World) {
    let id = world.accepted(plain());
    world.pause(Target::All);
    assert!(world.claim(10).is_empty());
    assert_eq!(world.state(&id), State::Queued);
    world.set(Target::All, SettingChange::Resume);
    assert_eq!(world.claim_one().job.id, id);
}

fn a_paused_queue_leaves_the_others_alone(world: &World) {
    let held = world.accepted(Submission {
        queue: name("mails"),
        ..plain()
    });
    let free = world.accepted(Submission {
        queue: name("images"),
        ..plain()
    });
    world.pause(queue("mails"));
    assert_eq!(world.claimed_ids(), [free]);
    world.set(queue("mails"), SettingChange::Resume);
    assert_eq!(world.claimed_ids(), [held]);
}

fn a_paused_task_leaves_the_others_alone(world: &World) {
    let held = world.accepted(of("send", "{}"));
    let free = world.accepted(Submission {
        queue: name("send"),
        ..of("scale", "{}")
    });
    world.pause(task("send"));
    assert_eq!(
        world.claimed_ids(),
        [free],
        "a queue of the same name is not meant"
    );
    world.set(task("send"), SettingChange::Resume);
    assert_eq!(world.claimed_ids(), [held]);
}

fn a_pause_of_everything_outlasts_the_resuming_of_a_part(world: &World) {
    world.accepted(plain());
    for target in [Target::All, queue("default"), task("work")] {
        world.pause(target);
    }
    for target in [queue("default"), Target::All, task("work")] {
        assert!(world.claim(1).is_empty(), "before {target:?} is resumed");
        world.set(target, SettingChange::Resume);
    }
    assert_eq!(world.claim(1).len(), 1);
}

fn a_pause_can_end_by_itself(world: &World) {
    let id = world.accepted(plain());
    let reason = Some("deploying".to_owned());
    let pause = SettingChange::Pause {
        lasting: Some(secs(60)),
        reason: reason.clone(),
    };
    let paused = world.set(queue("default"), pause).paused.expect("a pause");
    assert_eq!(
        (paused.since, paused.until),
        (world.now(), Some(world.now().plus(secs(60))))
    );
    assert_eq!(paused.reason, reason);
    world.pass(Millis::new(59_999));
    assert!(world.claim(1).is_empty());
    world.pass(Millis::new(1));
    assert_eq!(world.claim_one().job.id, id);
}

fn a_second_pause_takes_the_place_of_the_first(world: &World) {
    world.accepted(plain());
    world.set(
        Target::All,
        SettingChange::Pause {
            lasting: Some(secs(60)),
            reason: Some("short".into()),
        },
    );
    world.pass(secs(10));
    let longer = SettingChange::Pause {
        lasting: None,
        reason: Some("long".into()),
    };
    let paused = world.set(Target::All, longer).paused.expect("a pause");
    assert_eq!(
        (paused.since, paused.until, paused.reason.as_deref()),
        (world.now(), None, Some("long"))
    );
    world.pass(secs(3_600));
    assert!(world.claim(1).is_empty());
}

fn what_runs_goes_on_under_a_pause(world: &World) {
    let claimed = world.started(plain());
    world.pause(Target::All);
    world.pause(task("work"));
    assert_eq!(
        world.extend(&claimed.job.id, claimed.fence),
        WriteOutcome::Ok(State::Running)
    );
    world.begin_fresh(&claimed, "charge");
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
}

fn what_comes_under_a_pause_is_kept(world: &World) {
    world.pause(queue("default"));
    let before = world.accepted(plain());
    let claimed_nothing = world.claim(1).is_empty();
    world.crash();
    let after = world.accepted(plain());
    assert!(claimed_nothing && world.claim(1).is_empty());
    world.set(queue("default"), SettingChange::Resume);
    let mut ids = world.claimed_ids();
    ids.sort();
    assert_eq!(ids, [before, after]);
}

fn a_pause_survives_a_crash(world: &World) {
    world.accepted(plain());
    world.pause(task("work"));
    world.crash();
    assert!(world.claim(1).is_empty());
}

fn a_paused_lane_is_shown_as_paused(world: &World) {
    world.accepted(of("send", "{}"));
    world.accepted(of("work", "{}"));
    let paused = || -> Vec<bool> { world.exact_stats().lanes.iter().map(|lane| lane.paused).collect() };
    world.pause(task("send"));
    assert_eq!(paused(), [true, false]);
    world.set(
        queue("default"),
        SettingChange::Pause {
            lasting: Some(secs(1)),
            reason: None,
        },
    );
    assert_eq!(paused(), [true, true]);
    world.pass(secs(1));
    assert_eq!(paused(), [true, false]);
}

fn an_intake_can_open_by_itself(world: &World) {
    for target in [Target::All, queue("default"), task("work")] {
        let closed = world.set(target.clone(), SettingChange::CloseFor { length: secs(60) });
        assert_eq!(
            (closed.closed, closed.closed_until),
            (true, Some(world.now().plus(secs(60))))
        );
        world.crash();
        world.pass(Millis::new(59_999));
        let refused = world.submit(plain());
        assert!(
            matches!(&refused, Submitted::Closed { target: by } if *by == target),
            "{refused:?}"
        );
        world.pass(Millis::new(1));
        world.accepted(plain());
    }
    // Closed for good takes the place of closed for a while.
    world.intake(task("work"), false);
    world.pass(secs(3_600));
    assert!(matches!(world.submit(plain()), Submitted::Closed { .. }));
}

fn a_closed_intake_takes_nothing(world: &World) {
    for target in [Target::All, queue("default"), task("work")] {
        world.intake(target.clone(), false);
        world.crash();
        let answer = world.submit(with(Dedup::explicit("k")));
        assert_eq!(
            answer,
            Submitted::Closed {
                target: target.clone()
            }
        );
        world.intake(target, true);
    }
    assert!(world.counted().is_empty());
    world.accepted(with(Dedup::explicit("k")));
}

fn a_closed_intake_leaves_what_is_waiting_to_the_workers(world: &World) {
    let id = world.accepted(plain());
    let open = world.accepted(Submission {
        queue: name("open"),
        ..plain()
    });
    world.intake(queue("default"), false);
    let mut claims = world.claim(10);
    claims.sort_by(|a, b| a.job.id.cmp(&b.job.id));
    assert_eq!([&claims[0].job.id, &claims[1].job.id], [&id, &open]);
    let again = Settle::Retry {
        error: "no answer".into(),
        delay: Some(Millis::ZERO),
    };
    assert_eq!(
        world.settle(&id, claims[0].fence, again),
        WriteOutcome::Ok(State::Queued)
    );
    world.accepted(Submission {
        queue: name("open"),
        ..plain()
    });
}

fn a_closed_intake_still_answers_what_it_answered_before(world: &World) {
    let submission = plain();
    let id = world.accepted(submission.clone());
    world.intake(Target::All, false);
    assert_eq!(world.accepted(submission), id);
}

fn a_closed_intake_takes_no_replay(world: &World) {
    let letter = world.failed(plain(), "broke");
    world.intake(task("work"), false);
    assert_eq!(world.replay(&letter), ActOutcome::Closed { target: task("work") });
    assert_eq!(world.dead_letters(), std::slice::from_ref(&letter));
    world.intake(task("work"), true);
    world.replayed(&letter);
}

fn a_job_that_has_not_ended_is_cancelled_at_once(world: &World) {
    let latest = || with(Dedup::explicit("k").latest());
    let running = world.started(latest()).job.id;
    let deferred = world.admitted(latest()).job.id;
    let parked = world.started(plain());
    world.settle(&parked.job.id, parked.fence, Settle::Park { reason: "?".into() });
    let scheduled = world.accepted(Submission {
        run_at: RunAt::After(secs(60)),
        ..plain()
    });
    let queued = world.accepted(plain());
    for (id, state) in [
        (deferred, State::Deferred),
        (running, State::Running),
        (parked.job.id, State::Parked),
        (scheduled, State::Scheduled),
        (queued, State::Queued),
    ] {
        assert_eq!(world.state(&id), state);
        assert_eq!(world.cancel(&id), done(&id, State::Cancelled));
        let job = world.job(&id);
        assert_eq!(
            (job.state, job.finished_at, job.lease_until),
            (State::Cancelled, Some(world.now()), None)
        );
    }
    world.pass(secs(7_200));
    assert!(world.claim(10).is_empty());
    // Nor do they come along with one that waits where they did.
    let other = world.accepted(plain());
    assert_eq!(world.claimed_ids(), [other]);
}

fn a_job_that_has_ended_is_not_cancelled(world: &World) {
    let complete = world.completed(plain());
    let failed = world.failed(plain(), "broke");
    let cancelled = world.accepted(plain());
    world.cancel(&cancelled);
    for (id, state) in [
        (complete, State::Complete),
        (failed, State::Failed),
        (cancelled, State::Cancelled),
    ] {
        assert_eq!(world.cancel(&id), ActOutcome::WrongState(state));
        assert_eq!(world.state(&id), state);
    }
    assert_eq!(
        world.counted(),
        [("accepted", 3), ("completed", 1), ("failed", 1), ("cancelled", 1)]
    );
}

fn the_late_worker_of_a_cancelled_job_is_refused(world: &World) {
    let claimed = world.started(plain());
    world.cancel(&claimed.job.id);
    world.crash();
    let refused = WriteOutcome::Refused(Refusal::Cancelled);
    assert_eq!(world.extend(&claimed.job.id, claimed.fence), refused);
    let output = Some(json("1"));
    assert_eq!(
        world.settle(&claimed.job.id, claimed.fence, Settle::Complete { output }),
        refused
    );
    let job = world.job(&claimed.job.id);
    assert_eq!((job.state, job.output), (State::Cancelled, None));
    assert!(job.fence > claimed.fence);
    assert_eq!(
        world.counted(),
        [("accepted", 1), ("cancelled", 1), ("stale_writes", 2)]
    );
}

/// A was cancelled, B took the key, A finished late and freed it, and C got in: here B keeps it.
fn a_late_finish_after_a_cancel_leaves_the_successor_its_key(world: &World) {
    let late = world.started(with(Dedup::explicit("k")));
    world.cancel(&late.job.id);
    let successor = world.accepted(with(Dedup::explicit("k")));
    assert_eq!(world.complete(&late), WriteOutcome::Refused(Refusal::Cancelled));
    let third = world.admitted(with(Dedup::explicit("k")));
    assert_eq!((third.outcome, third.job.id), (Outcome::Duplicate, successor));
}

fn a_cancelled_job_frees_its_key_as_its_hold_says(world: &World) {
    let day = Millis::from_days(1);
    let frees = Hold::window(day).release_on(ReleaseOn {
        failed: false,
        cancelled: true,
    });
    let holds = [
        (Hold::until_started(), true),
        (Hold::until_finished(), true),
        (Hold::until_finished().cool_down(day), false),
        (Hold::window(day), false),
        (Hold::forever(), false),
        (frees, true),
    ];
    for (n, (hold, freed)) in holds.into_iter().enumerate() {
        let policy = Dedup::explicit(format!("k{n}")).hold(hold);
        let id = world.accepted(with(policy.clone()));
        world.cancel(&id);
        let answer = world.admitted(with(policy));
        assert_eq!(answer.outcome == Outcome::Accepted, freed, "{hold:?}");
        assert_eq!(answer.job.id == id, !freed, "{hold:?}");
    }
}

fn the_delivery_that_was_cancelled_is_on_record(world: &World) {
    let claimed = world.started(plain());
    let waiting = world.accepted(plain());
    world.cancel(&claimed.job.id);
    world.cancel(&waiting);
    let attempts = world.attempts(&claimed.job.id);
    assert_eq!((attempts.len(), attempts[0].end.fence), (1, claimed.fence));
    assert_eq!(
        (attempts[0].end.result, attempts[0].end.ended_at),
        (AttemptResult::Cancelled, world.now())
    );
    assert!(world.attempts(&waiting).is_empty());
}

fn a_job_that_is_not_there_cannot_be_acted_on(world: &World) {
    let nobody = JobId::new("nobody").expect("an id");
    let acts = [
        Act::Cancel { id: nobody.clone() },
        Act::Retry { id: nobody.clone() },
        Act::Replay {
            id: nobody.clone(),
            token: token(),
        },
        Act::Delete { id: nobody },
    ];
    for act in acts {
        assert_eq!(world.act(act.clone()), ActOutcome::NotFound, "{act:?}");
    }
}

fn a_failed_job_gets_a_new_life_under_its_old_id(world: &World) {
    let id = world.failed(of("work", r#"{"n":1}"#), "broke");
    world.pass(secs(100));
    assert_eq!(world.retry(&id), done(&id, State::Queued));
    world.crash();
    let job = world.job(&id);
    assert_eq!(
        (job.state, job.run_at, job.finished_at),
        (State::Queued, world.now(), None)
    );
    let claimed = world.claim_one();
    assert_eq!((&claimed.job.id, &claimed.job.input), (&id, &json(r#"{"n":1}"#)));
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
    assert_eq!(world.attempts(&id).len(), 2, "both lives are on record");
}

fn a_cancelled_job_gets_a_new_life(world: &World) {
    let late = world.started(plain());
    world.cancel(&late.job.id);
    assert_eq!(world.retry(&late.job.id), done(&late.job.id, State::Queued));
    assert_eq!(world.complete(&late), WriteOutcome::Refused(Refusal::LeaseLost));
    let claimed = world.claim_one();
    assert!(claimed.fence > late.fence);
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
}

fn attempts_and_deliveries_restart_and_the_fence_goes_on(world: &World) {
    world.accepted(Submission {
        max_attempts: 1,
        max_deliveries: 2,
        ..plain()
    });
    world.claim_one();
    world.pass(secs(30));
    let last = world.claim_one();
    world.fail(&last, "broke");
    let ended = world.job(&last.job.id);
    assert_eq!((ended.attempt, ended.deliveries), (1, 1));
    world.retry(&last.job.id);
    let job = world.job(&last.job.id);
    assert_eq!((job.attempt, job.deliveries), (0, 0));
    assert!(job.fence > last.fence);
    assert_eq!(
        world.fail(&last, "late"),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    let again = world.claim_one();
    assert!(again.fence > job.fence && again.job.attempt == 1);
    world.pass(secs(30));
    assert_eq!(world.claim(1).len(), 1, "the new life has its own two deliveries");
}

fn a_retried_job_has_neither_output_nor_progress(world: &World) {
    let claimed = world.started(plain());
    let beat = Beat {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        progress: Some(0.5),
        log: Vec::new(),
    };
    let request = ExtendRequest {
        leases: vec![beat],
        lease: secs(30),
    };
    world
        .block(world.store().extend(request))
        .expect("the store answers");
    world.fail(&claimed, "broke");
    assert_eq!(world.job(&claimed.job.id).progress, Some(0.5));
    world.retry(&claimed.job.id);
    let job = world.job(&claimed.job.id);
    assert_eq!((job.output, job.progress), (None, None));
}

fn a_job_that_did_not_fail_is_not_retried(world: &World) {
    let complete = world.completed(plain());
    let running = world.started(plain()).job.id;
    let queued = world.accepted(plain());
    let retried = world.failed(
        Submission {
            priority: 1,
            ..plain()
        },
        "broke",
    );
    world.retry(&retried);
    for (id, state) in [
        (complete, State::Complete),
        (running, State::Running),
        (queued, State::Queued),
        (retried, State::Queued),
    ] {
        assert_eq!(world.retry(&id), ActOutcome::WrongState(state));
        assert_eq!(world.state(&id), state);
    }
    assert_eq!(world.exact_stats().totals.get(Counter::Retried), 1);
}

fn a_retried_job_takes_its_key_again(world: &World) {
    let id = world.failed(with(Dedup::explicit("k")), "broke");
    let generation = world.job(&id).key.expect("a key").generation;
    world.retry(&id);
    world.crash();
    let again = world.admitted(with(Dedup::explicit("k")));
    assert_eq!(
        (again.outcome, &again.job.id, again.job.state),
        (Outcome::Duplicate, &id, State::Queued)
    );
    let key = world.job(&id).key.expect("a key");
    assert!(key.held && key.generation > generation, "{key:?}");
}

/// A manual retry that checked first and acted later let two jobs hold one key.
fn a_retry_is_stopped_by_another_holder(world: &World) {
    let old = world.failed(with(Dedup::explicit("k")), "broke");
    let holder = world.accepted(with(Dedup::explicit("k")));
    let stopped_by = held_by(world.retry(&old));
    assert_eq!((&stopped_by.id, stopped_by.state), (&holder, State::Queued));
    assert_eq!(
        (world.state(&old), world.dead_letters()),
        (State::Failed, vec![old.clone()])
    );
    world.complete(&world.claim_one());
    assert_eq!(world.retry(&old), done(&old, State::Queued));
}

fn its_own_kept_key_does_not_stop_a_retry(world: &World) {
    for hold in [
        Hold::window(Millis::from_days(1)),
        Hold::forever(),
        Hold::until_finished().cool_down(secs(60)),
    ] {
        let policy = Dedup::explicit(format!("{:?}", hold.kind)).hold(hold);
        let id = world.failed(with(policy.clone()), "broke");
        assert_eq!(world.retry(&id), done(&id, State::Queued), "{hold:?}");
        assert_eq!(world.admitted(with(policy)).job.id, id);
        world.complete(&world.claim_one());
    }
}

fn a_replayed_job_cannot_be_retried(world: &World) {
    let letter = world.failed(plain(), "broke");
    let fresh = world.replayed(&letter);
    assert_eq!(world.retry(&letter), ActOutcome::Replayed { by: fresh.clone() });
    world.cancel(&fresh);
    assert_eq!(world.retry(&letter), ActOutcome::Replayed { by: fresh.clone() });
    assert_eq!(world.retry(&fresh), done(&fresh, State::Queued));
}

fn a_stub_cannot_be_retried(world: &World) {
    let id = world.failed(with_input(Dedup::idempotency_key("k"), r#"{"n":1}"#), "broke");
    world.delete(&id);
    assert_eq!(world.retry(&id), ActOutcome::NotFound, "its input is gone");
    assert!(world.claim(1).is_empty());
}

fn a_retry_by_hand_is_counted_and_shown_until_it_ends(world: &World) {
    let id = world.failed(plain(), "broke");
    world.retry(&id);
    assert_eq!(world.job(&id).error.expect("the last error").message, "broke");
    assert!(world.dead_letters().is_empty());
    world.fail(&world.claim_one(), "again");
    assert_eq!(world.job(&id).error.expect("the last error").message, "again");
    assert_eq!(world.dead_letters(), [id]);
    assert_eq!(world.counted(), [("accepted", 1), ("failed", 2), ("retried", 1)]);
}

fn the_acts_of_a_batch_see_those_before_them(world: &World) {
    let (one, two) = (world.accepted(plain()), world.accepted(plain()));
    let batch = vec![
        Act::Cancel { id: one.clone() },
        Act::Cancel { id: one.clone() },
        Act::Retry { id: two.clone() },
        Act::Retry { id: one.clone() },
        Act::Delete { id: one.clone() },
    ];
    let outcomes = world.block(world.store().act(batch)).expect("the store answers");
    let expected = [
        done(&one, State::Cancelled),
        ActOutcome::WrongState(State::Cancelled),
        ActOutcome::WrongState(State::Queued),
        done(&one, State::Queued),
        ActOutcome::WrongState(State::Queued),
    ];
    assert_eq!(outcomes, expected);
}
