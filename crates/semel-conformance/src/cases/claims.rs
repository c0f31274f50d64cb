//! Claims in order, how runs end, and what can be seen of them (contract 4.1, 4.2, 4.4).

use std::time::Duration;

use semel_core::backoff::backoff;
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::lifecycle::{AttemptResult, Refusal, Settle};
use semel_core::limits;
use semel_core::step::Resolution;
use semel_core::store::{
    Beat, ClaimRequest, Claimed, ExtendRequest, Interest, SettingChange, Settlement, WriteOutcome, log_feed,
};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, claim_request, json, name, of, plain, queue, secs};

cases![
    "4.1" => the_larger_priority_is_claimed_first,
    "4.1" => of_equal_priority_the_earlier_run_at_is_claimed_first,
    "4.1" => of_one_moment_the_first_to_arrive_is_claimed_first,
    "4.1" => one_order_holds_across_queues_and_tasks,
    "4.1" => a_priority_does_not_bring_a_job_forward_in_time,
    "4.1" => a_claim_gives_as_many_as_are_due_and_no_more_than_asked_for,
    "4.1" => a_running_job_is_not_claimed_again,
    "4.1" => nothing_is_claimed_before_its_run_at,
    "4.1" => a_claim_of_queues_takes_from_these_only,
    "4.1" => a_claim_of_tasks_takes_these_only,
    "4.1" => a_claim_of_queues_and_tasks_needs_both,
    "4.1" => a_claimed_job_brings_all_that_was_submitted,
    "4.1" => a_batch_of_settlements_has_one_answer_each,
    "4.1" => new_work_wakes_who_waits_for_it,
    "4.1" => work_that_can_be_claimed_again_wakes_who_waits_for_it,
    "4.2" => an_output_is_kept,
    "4.2" => an_error_is_tried_again_after_the_backoff,
    "4.2" => a_handler_may_choose_the_pause_itself,
    "4.2" => the_last_attempt_makes_a_dead_letter,
    "4.2" => a_fatal_error_leaves_no_attempt,
    "4.2" => a_snooze_costs_no_attempt,
    "4.2" => a_hand_back_is_claimed_again_at_once,
    "4.2" => a_handler_may_end_cancelled,
    "4.4" => progress_of_a_running_job_is_shown,
    "4.4" => log_lines_of_a_running_job_are_shown,
    "4.4" => a_long_log_line_is_cut_between_characters,
    "4.4" => a_worker_without_a_lease_adds_neither_progress_nor_log_lines,
    "4.4" => attempts_show_who_ran_when_and_what_went_wrong,
    "4.4" => every_end_of_a_delivery_has_its_word,
    "4.4" => the_last_error_stays_in_sight_while_the_job_waits,
    "4.4" => a_long_error_is_cut_not_refused,
    "4.4" => the_worker_is_named_while_it_runs_and_afterwards,
];

fn the_larger_priority_is_claimed_first(world: &World) {
    let normal = world.accepted(plain());
    let low = world.accepted(Submission {
        priority: -100,
        ..plain()
    });
    let high = world.accepted(Submission {
        priority: 100,
        ..plain()
    });
    assert_order(world, &[high, normal, low]);
}

fn of_equal_priority_the_earlier_run_at_is_claimed_first(world: &World) {
    let late = world.accepted(Submission {
        run_at: RunAt::After(secs(20)),
        ..plain()
    });
    let early = world.accepted(Submission {
        run_at: RunAt::After(secs(10)),
        ..plain()
    });
    world.pass(secs(30));
    let new = world.accepted(plain());
    assert_order(world, &[early, late, new]);
}

fn of_one_moment_the_first_to_arrive_is_claimed_first(world: &World) {
    let ids: Vec<JobId> = (0..20).map(|_| world.accepted(plain())).collect();
    assert_order(world, &ids);
}

fn one_order_holds_across_queues_and_tasks(world: &World) {
    let first = world.accepted(in_lane("mails", "send"));
    let second = world.accepted(in_lane("images", "scale"));
    let third = world.accepted(in_lane("mails", "scale"));
    let best = world.accepted(Submission {
        priority: 1,
        ..in_lane("images", "send")
    });
    assert_order(world, &[best, first, second, third]);
}

fn a_priority_does_not_bring_a_job_forward_in_time(world: &World) {
    let later = Submission {
        priority: 100,
        run_at: RunAt::After(secs(60)),
        ..plain()
    };
    let urgent = world.accepted(later);
    let due = world.accepted(Submission {
        priority: -100,
        ..plain()
    });
    assert_eq!(world.claimed_ids(), [due]);
    world.pass(secs(60));
    assert_eq!(world.claimed_ids()[0], urgent);
}

fn a_claim_gives_as_many_as_are_due_and_no_more_than_asked_for(world: &World) {
    world.submit_all((0..5).map(|_| plain()).collect());
    assert_eq!(world.claim(3).len(), 3);
    assert_eq!(world.claim(3).len(), 2);
    assert_eq!(world.claim(3).len(), 0);
}

fn a_running_job_is_not_claimed_again(world: &World) {
    let claimed = world.started(plain());
    world.pass(secs(29));
    assert!(world.claim(10).is_empty());
    assert_eq!(world.job(&claimed.job.id).fence, claimed.fence);
}

fn nothing_is_claimed_before_its_run_at(world: &World) {
    let at = world.now().plus(Millis::new(1_500));
    let by_moment = world.accepted(Submission {
        run_at: RunAt::At(at),
        ..plain()
    });
    let by_delay = world.accepted(Submission {
        run_at: RunAt::After(Millis::new(1_500)),
        ..plain()
    });
    world.pass(Millis::new(1_499));
    assert!(world.claim(10).is_empty());
    assert_eq!(world.state(&by_moment), State::Scheduled);
    world.pass(Millis::new(1));
    assert_eq!(world.state(&by_moment), State::Queued);
    let mut claimed = world.claimed_ids();
    claimed.sort();
    assert_eq!(claimed, [by_moment, by_delay]);
}

fn a_claim_of_queues_takes_from_these_only(world: &World) {
    let mail = world.accepted(in_lane("mails", "work"));
    let image = world.accepted(in_lane("images", "work"));
    world.accepted(in_lane("films", "work"));
    let claims = claim_from(world, &["mails", "images"], &[]);
    assert_eq!(sorted_ids(&claims), [mail, image]);
}

fn a_claim_of_tasks_takes_these_only(world: &World) {
    let send = world.accepted(in_lane("a", "send"));
    world.accepted(in_lane("a", "scale"));
    let other = world.accepted(in_lane("b", "send"));
    let claims = claim_from(world, &[], &["send", "unheard of"]);
    assert_eq!(sorted_ids(&claims), [send, other]);
}

fn a_claim_of_queues_and_tasks_needs_both(world: &World) {
    world.accepted(in_lane("mails", "scale"));
    world.accepted(in_lane("images", "send"));
    let both = world.accepted(in_lane("mails", "send"));
    assert_eq!(sorted_ids(&claim_from(world, &["mails"], &["send"])), [both]);
    assert!(claim_from(world, &["mails"], &["send"]).is_empty());
}

fn a_claimed_job_brings_all_that_was_submitted(world: &World) {
    let mut submission = Submission {
        priority: 7,
        producer: Some(name("shop")),
        ..of("send", r#"{"to":"ann"}"#)
    };
    submission.content.headers.insert("trace".into(), "abc".into());
    submission.content.meta = Some(json(r#"{"cost":3}"#));
    submission.content.timeout = Some(secs(9));
    let enqueued_at = world.now();
    world.accepted(submission);
    world.pass(secs(5));
    let job = world.claim_one().job;
    assert_eq!(
        (job.state, job.attempt, job.priority, job.enqueued_at),
        (State::Running, 1, 7, enqueued_at)
    );
    assert_eq!(
        (job.input, job.meta),
        (json(r#"{"to":"ann"}"#), Some(json(r#"{"cost":3}"#)))
    );
    assert_eq!(
        (job.headers["trace"].as_str(), job.timeout),
        ("abc", Some(secs(9)))
    );
    assert_eq!(
        (job.producer, job.started_at),
        (Some(name("shop")), Some(world.now()))
    );
}

fn a_batch_of_settlements_has_one_answer_each(world: &World) {
    world.submit_all((0..3).map(|_| plain()).collect());
    let claims = world.claim(3);
    let mut batch: Vec<_> = claims.iter().map(completion).collect();
    batch[1].fence -= 1;
    batch[2].id = JobId::new("nobody").expect("an id");
    let answers = world
        .block(world.store().settle(batch))
        .expect("the store answers");
    let expected = [
        WriteOutcome::Ok(State::Complete),
        WriteOutcome::Refused(Refusal::LeaseLost),
        WriteOutcome::NotFound,
    ];
    assert_eq!(answers, expected);
    assert_eq!(world.state(&claims[1].job.id), State::Running);
}

fn new_work_wakes_who_waits_for_it(world: &World) {
    let store = world.store();
    let before = store.mark();
    world.accepted(plain());
    let interest = Interest::Work {
        queues: vec![name("default")],
        tasks: vec![name("work")],
    };
    let after = world.block(store.changed(before, interest, Duration::from_secs(10)));
    assert!(after > before, "{after:?} after {before:?}");
    world.complete(&world.claim_one());
    assert!(world.block(store.changed(after, Interest::Ends, Duration::from_secs(10))) > after);
}

fn work_that_can_be_claimed_again_wakes_who_waits_for_it(world: &World) {
    let claimed = world.started(plain());
    let id = &claimed.job.id;
    woken(world, "a hand-back", || {
        drop(world.settle(id, claimed.fence, Settle::HandBack))
    });
    world.pause(queue("default"));
    woken(world, "a resumption", || {
        drop(world.set(queue("default"), SettingChange::Resume))
    });
    world.fail(&world.claim_one(), "broke");
    woken(world, "a retry by hand", || drop(world.retry(id)));
    let claimed = world.claim_one();
    world.begin_fresh(&claimed, "charge");
    world.settle(
        id,
        claimed.fence,
        Settle::Park {
            reason: "was it paid?".into(),
        },
    );
    woken(world, "a resolution", || {
        drop(world.resolve(id, "charge", Resolution::DidNot))
    });
    world.fail(&world.claim_one(), "broke");
    woken(world, "a replay", || drop(world.replayed(id)));
}

fn an_output_is_kept(world: &World) {
    let claimed = world.started(plain());
    let output = Some(json(r#"{"sent":true}"#));
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
    assert_eq!((job.lease_until, job.error), (None, None));
}

fn an_error_is_tried_again_after_the_backoff(world: &World) {
    let id = world.accepted(plain());
    for attempt in 1..=4 {
        let claimed = world.claim_one();
        assert_eq!(claimed.job.attempt, attempt);
        assert_eq!(error(world, &claimed, None), WriteOutcome::Ok(State::Scheduled));
        let pause = backoff(&id, attempt);
        assert_eq!(world.job(&id).run_at, world.now().plus(pause));
        world.pass(Millis::new(pause.as_millis() - 1));
        assert!(
            world.claim(1).is_empty(),
            "not before attempt {attempt} has had its pause"
        );
        world.pass(Millis::new(1));
    }
}

fn a_handler_may_choose_the_pause_itself(world: &World) {
    let claimed = world.started(plain());
    assert_eq!(
        error(world, &claimed, Some(secs(90))),
        WriteOutcome::Ok(State::Scheduled)
    );
    assert_eq!(world.job(&claimed.job.id).run_at, world.now().plus(secs(90)));
    world.pass(secs(89));
    assert!(world.claim(1).is_empty());
    world.pass(secs(1));
    let again = world.claim_one();
    assert_eq!(
        error(world, &again, Some(Millis::ZERO)),
        WriteOutcome::Ok(State::Queued)
    );
    assert_eq!(world.claim_one().job.attempt, 3);
}

fn the_last_attempt_makes_a_dead_letter(world: &World) {
    let id = world.accepted(Submission {
        max_attempts: 2,
        ..plain()
    });
    assert_eq!(
        error(world, &world.claim_one(), Some(Millis::ZERO)),
        WriteOutcome::Ok(State::Queued)
    );
    assert_eq!(
        error(world, &world.claim_one(), Some(Millis::ZERO)),
        WriteOutcome::Ok(State::Failed)
    );
    let job = world.job(&id);
    assert_eq!(
        (job.state, job.attempt, job.finished_at),
        (State::Failed, 2, Some(world.now()))
    );
    assert_eq!(world.dead_letters(), [id]);
    world.pass(secs(7_200));
    assert!(world.claim(1).is_empty());
}

fn a_fatal_error_leaves_no_attempt(world: &World) {
    let id = world.failed(plain(), "no such address");
    let job = world.job(&id);
    assert_eq!((job.state, job.attempt, job.max_attempts), (State::Failed, 1, 5));
    world.pass(secs(7_200));
    assert!(world.claim(1).is_empty());
}

fn a_snooze_costs_no_attempt(world: &World) {
    let id = world.accepted(Submission {
        max_attempts: 1,
        ..plain()
    });
    for _ in 0..3 {
        let claimed = world.claim_one();
        assert_eq!(claimed.job.attempt, 1);
        let answer = world.settle(&id, claimed.fence, Settle::Snooze { delay: secs(10) });
        assert_eq!(answer, WriteOutcome::Ok(State::Scheduled));
        world.pass(Millis::new(9_999));
        assert!(world.claim(1).is_empty());
        world.pass(Millis::new(1));
    }
    let job = world.job(&id);
    assert_eq!((job.state, job.attempt, job.deliveries), (State::Queued, 0, 0));
}

fn a_hand_back_is_claimed_again_at_once(world: &World) {
    let claimed = world.started(Submission {
        max_attempts: 1,
        ..plain()
    });
    let answer = world.settle(&claimed.job.id, claimed.fence, Settle::HandBack);
    assert_eq!(answer, WriteOutcome::Ok(State::Queued));
    let again = world.claim_one();
    assert_eq!((again.job.attempt, again.job.deliveries), (1, 0));
    assert!(again.fence > claimed.fence);
}

fn a_handler_may_end_cancelled(world: &World) {
    let claimed = world.started(plain());
    let answer = world.settle(&claimed.job.id, claimed.fence, Settle::Cancel);
    assert_eq!(answer, WriteOutcome::Ok(State::Cancelled));
    assert_eq!(world.job(&claimed.job.id).finished_at, Some(world.now()));
    assert!(world.dead_letters().is_empty());
}

fn progress_of_a_running_job_is_shown(world: &World) {
    let claimed = world.started(plain());
    assert_eq!(claimed.job.progress, None);
    for progress in [0.0, 0.25, 1.0] {
        assert_eq!(
            beat(world, &claimed, Some(progress), &[]),
            WriteOutcome::Ok(State::Running)
        );
        assert_eq!(world.job(&claimed.job.id).progress, Some(progress));
    }
    beat(world, &claimed, None, &[]);
    world.crash();
    assert_eq!(
        world.job(&claimed.job.id).progress,
        Some(1.0),
        "a silent heartbeat takes nothing back"
    );
}

fn log_lines_of_a_running_job_are_shown(world: &World) {
    let claimed = world.started(plain());
    let began = world.now();
    beat(world, &claimed, None, &["one", "two \"quoted\""]);
    world.pass(secs(1));
    beat(world, &claimed, Some(0.5), &["three"]);
    let lines = world.feed(&log_feed(&claimed.job.id));
    let seen: Vec<_> = lines
        .iter()
        .map(|line| (line.n, line.body.clone(), line.at))
        .collect();
    let two = json(r#""two \"quoted\"""#);
    let expected = [
        (3, json(r#""three""#), world.now()),
        (2, two, began),
        (1, json(r#""one""#), began),
    ];
    assert_eq!(seen, expected);
}

fn a_long_log_line_is_cut_between_characters(world: &World) {
    let claimed = world.started(plain());
    let line = format!("x{}", "é".repeat(limits::LOG_LINE_BYTES));
    assert_eq!(
        beat(world, &claimed, None, &[&line]),
        WriteOutcome::Ok(State::Running)
    );
    let kept: String = world.feed(&log_feed(&claimed.job.id))[0]
        .body
        .read()
        .expect("a JSON string");
    assert_eq!(kept.len(), limits::LOG_LINE_BYTES - 1);
    assert!(line.starts_with(&kept));
}

fn a_worker_without_a_lease_adds_neither_progress_nor_log_lines(world: &World) {
    let old = world.started(plain());
    world.pass(secs(31));
    let new = world.claim_one();
    assert_eq!(
        beat(world, &old, Some(0.9), &["from the dead"]),
        WriteOutcome::Refused(Refusal::LeaseLost)
    );
    let job = world.job(&old.job.id);
    assert_eq!(
        (job.progress, job.fence, job.lease_until),
        (None, new.fence, Some(new.lease_until))
    );
    assert!(world.feed(&log_feed(&old.job.id)).is_empty());
}

fn attempts_show_who_ran_when_and_what_went_wrong(world: &World) {
    let first = world.started(plain());
    let began = world.now();
    world.pass(secs(2));
    error(world, &first, Some(Millis::ZERO));
    let ended = world.now();
    let second = world.claim_one();
    world.complete(&second);
    world.crash();
    let attempts = world.attempts(&first.job.id);
    assert_eq!(attempts.len(), 2);
    let (one, two) = (&attempts[0].end, &attempts[1].end);
    assert_eq!(
        (one.attempt, one.fence, one.result),
        (1, first.fence, AttemptResult::Error)
    );
    assert_eq!(
        (one.began_at, one.ended_at, one.error.as_deref()),
        (Some(began), ended, Some("out of ink"))
    );
    assert_eq!(
        (two.attempt, two.fence, two.result, &two.error),
        (2, second.fence, AttemptResult::Complete, &None)
    );
    assert!(
        attempts
            .iter()
            .all(|attempt| attempt.worker == Some(name("worker")))
    );
}

fn every_end_of_a_delivery_has_its_word(world: &World) {
    let id = world.accepted(plain());
    let claimed = world.claim_one();
    world.settle(&id, claimed.fence, Settle::Snooze { delay: Millis::ZERO });
    world.settle(&id, world.claim_one().fence, Settle::HandBack);
    error(world, &world.claim_one(), Some(Millis::ZERO));
    world.claim_one();
    world.pass(secs(30));
    let fence = world.claim_one().fence;
    world.settle(
        &id,
        fence,
        Settle::Fail {
            error: "for good".into(),
        },
    );
    let words: Vec<AttemptResult> = world
        .attempts(&id)
        .iter()
        .map(|attempt| attempt.end.result)
        .collect();
    use AttemptResult::{Error, Expired, Failed, HandedBack, Snoozed};
    assert_eq!(words, [Snoozed, HandedBack, Error, Expired, Failed]);
}

fn the_last_error_stays_in_sight_while_the_job_waits(world: &World) {
    let claimed = world.started(plain());
    error(world, &claimed, Some(secs(60)));
    let at = world.now();
    world.pass(secs(60));
    let running = world.claim_one().job;
    for job in [running, world.job(&claimed.job.id)] {
        let error = job.error.expect("an error");
        assert_eq!(
            (error.message.as_str(), error.attempt, error.at),
            ("out of ink", 1, at)
        );
    }
}

fn a_long_error_is_cut_not_refused(world: &World) {
    let error = "ü".repeat(limits::ERROR_BYTES);
    let id = world.failed(plain(), &error);
    let kept = world.job(&id).error.expect("an error").message;
    assert_eq!(kept.len(), limits::ERROR_BYTES);
    assert!(error.starts_with(&kept));
}

fn the_worker_is_named_while_it_runs_and_afterwards(world: &World) {
    let id = world.accepted(plain());
    assert_eq!(world.job(&id).worker, None);
    let request = ClaimRequest {
        worker: name("ada-7"),
        ..claim_request(1)
    };
    let claimed = world
        .block(world.store().claim(request))
        .expect("the store answers")
        .remove(0);
    assert_eq!(world.job(&id).worker, Some(name("ada-7")));
    world.complete(&claimed);
    assert_eq!(world.job(&id).worker, Some(name("ada-7")));
    assert_eq!(world.attempts(&id)[0].worker, Some(name("ada-7")));
}

/// What is done wakes a worker that waits for work.
fn woken(world: &World, by: &str, done: impl FnOnce()) {
    let before = world.store().mark();
    done();
    let interest = Interest::Work {
        queues: vec![],
        tasks: vec![name("work")],
    };
    let after = world.block(world.store().changed(before, interest, Duration::from_secs(3)));
    assert!(after > before, "by {by}");
}

fn in_lane(queue: &str, task: &str) -> Submission {
    Submission {
        queue: name(queue),
        ..of(task, "{}")
    }
}

/// Everything that is due comes in this order, one by one; a store without a strict order may give it in any.
fn assert_order(world: &World, expected: &[JobId]) {
    let strict = world.store().capabilities().strict_order;
    let order = |mut ids: Vec<JobId>| {
        if !strict {
            ids.sort();
        }
        ids
    };
    let claimed = (0..expected.len()).map(|_| world.claim_one().job.id).collect();
    assert_eq!(order(claimed), order(expected.to_vec()));
}

fn claim_from(world: &World, queues: &[&str], tasks: &[&str]) -> Vec<Claimed> {
    let names = |texts: &[&str]| texts.iter().map(|text| name(text)).collect();
    let request = ClaimRequest {
        queues: names(queues),
        tasks: names(tasks),
        ..claim_request(10)
    };
    world
        .block(world.store().claim(request))
        .expect("the store answers")
}

/// Ids made one after another sort as they were made.
fn sorted_ids(claims: &[Claimed]) -> Vec<JobId> {
    let mut ids: Vec<JobId> = claims.iter().map(|claimed| claimed.job.id.clone()).collect();
    ids.sort();
    ids
}

fn completion(claimed: &Claimed) -> Settlement {
    let result = Settle::Complete { output: None };
    Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result,
    }
}

fn error(world: &World, claimed: &Claimed, delay: Option<Millis>) -> WriteOutcome {
    world.settle(
        &claimed.job.id,
        claimed.fence,
        Settle::Retry {
            error: "out of ink".into(),
            delay,
        },
    )
}

fn beat(world: &World, claimed: &Claimed, progress: Option<f64>, log: &[&str]) -> WriteOutcome {
    let log = log.iter().map(|line| (*line).to_owned()).collect();
    let beat = Beat {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        progress,
        log,
    };
    let request = ExtendRequest {
        leases: vec![beat],
        lease: secs(30),
    };
    world
        .block(world.store().extend(request))
        .expect("the store answers")
        .remove(0)
}
