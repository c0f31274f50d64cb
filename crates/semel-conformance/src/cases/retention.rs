//! What is kept, for how long, and what is left then (contract 2.4, 2.12, its defaults).

use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::{Digest, JobId};
use semel_core::job::{Outcome, State};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::limits;
use semel_core::store::{
    Beat, Expect, ExtendRequest, FEED_ENTRIES, JobFilter, LedgerFilter, PutDocument, PutOutcome, Retention,
    UpkeepReport, UpkeepRequest, WriteOutcome, log_feed,
};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::Millis;

use super::list::cases;
use crate::kit::{World, json, name, of, plain, secs, with, with_input};

cases![
    "1.5" => upkeep_moves_no_job_that_has_ended,
    "1.8" => jobs_that_have_not_ended_are_kept_however_long,
    "2.4" => a_job_that_holds_its_key_is_kept_as_a_stub_and_then_not_at_all,
    "2.4" => the_stub_of_a_key_held_forever_stays,
    "2.4" => a_stub_is_made_once,
    "2.12" => absorbed_submissions_are_kept_for_thirty_days_and_counted_for_ever,
    "2.12" => the_ledger_of_a_key_is_bounded_and_its_total_exact,
    "2.12" => the_total_of_a_key_goes_with_its_last_trace,
    "5.1" => steps_are_kept_until_the_last_job_of_their_chain_goes,
    "7.1" => a_pruned_job_stays_counted,
    "defaults" => a_complete_job_is_kept_for_seven_days,
    "defaults" => failed_and_cancelled_jobs_are_kept_for_thirty_days,
    "defaults" => how_long_things_are_kept_can_be_said,
    "defaults" => a_pruned_job_is_forgotten_with_its_token,
    "9.1" => upkeep_goes_in_steps_no_longer_than_its_budget,
    "9.1" => upkeep_gives_expired_leases_back,
    "9.1" => upkeep_that_finds_nothing_does_nothing,
    "9.1" => log_lines_go_with_their_job,
    "9.1" => a_feed_is_bounded,
    "9.1" => a_document_disappears_after_its_ttl,
];

/// Maintenance that had looked before the job ended once put it back afterwards.
fn upkeep_moves_no_job_that_has_ended(world: &World) {
    let claimed = world.started(plain());
    world.pass(secs(60));
    assert_eq!(world.complete(&claimed), WriteOutcome::Ok(State::Complete));
    world.upkeep();
    assert_eq!(world.state(&claimed.job.id), State::Complete);
    assert!(world.claim(1).is_empty());
    assert_eq!(world.exact_stats().jobs.len(), 1);
}

/// Delayed jobs lost their payload after a day: here nothing that has not ended is ever thrown away.
fn jobs_that_have_not_ended_are_kept_however_long(world: &World) {
    let latest = || with_input(Dedup::explicit("l").latest(), r#"{"n":1}"#);
    let running = world.started(latest());
    let deferred = world.admitted(latest()).job.id;
    let parked = world.started(of("work", r#"{"n":1}"#));
    let park = Settle::Park { reason: "?".into() };
    world.settle(&parked.job.id, parked.fence, park);
    let in_two_years = RunAt::After(Millis::from_days(730));
    let scheduled = world.accepted(Submission {
        run_at: in_two_years,
        ..of("work", r#"{"n":1}"#)
    });
    let queued = world.accepted(of("work", r#"{"n":1}"#));
    // An end that was taken back is no reason to throw the job away.
    let retried = world.accepted(of("work", r#"{"n":1}"#));
    world.cancel(&retried);
    world.retry(&retried);
    world.pass(Millis::from_days(400));
    world.upkeep();
    world.crash();
    for id in [
        running.job.id,
        deferred,
        parked.job.id,
        scheduled,
        queued,
        retried,
    ] {
        let job = world.job(&id);
        assert_eq!(
            (job.input, job.state.is_terminal(), job.stub),
            (json(r#"{"n":1}"#), false, false)
        );
    }
}

fn a_job_that_holds_its_key_is_kept_as_a_stub_and_then_not_at_all(world: &World) {
    let policy = || with_input(Dedup::idempotency_key("k"), r#"{"n":1}"#);
    let id = world.completed(policy());
    world.pass(Millis::from_days(7));
    world.upkeep();
    let stub = world.job(&id);
    assert_eq!(
        (stub.stub, stub.state, stub.input),
        (true, State::Complete, Json::null())
    );
    assert!(world.ids(JobFilter::default()).is_empty());
    let again = world.admitted(policy());
    assert_eq!(
        (again.outcome, again.job.id, again.job.state),
        (Outcome::Duplicate, id.clone(), State::Complete)
    );
    world.pass(Millis::from_days(23));
    world.upkeep();
    assert_eq!(world.find(&id), None);
    world.accepted(policy());
}

fn the_stub_of_a_key_held_forever_stays(world: &World) {
    let policy = || with(Dedup::explicit("k").hold(Hold::forever()));
    let id = world.completed(policy());
    world.pass(Millis::from_days(3_000));
    world.upkeep();
    world.crash();
    assert!(world.job(&id).stub);
    assert_eq!(world.admitted(policy()).job.id, id);
    world.release(digest_of(world, &id), &id);
    world.upkeep();
    assert_eq!(world.find(&id), None);
}

fn a_stub_is_made_once(world: &World) {
    world.completed(with(Dedup::idempotency_key("k")));
    world.pass(Millis::from_days(7));
    let first = world.upkeep_round(UpkeepRequest::default());
    let second = world.upkeep_round(UpkeepRequest::default());
    assert_eq!((first.stubbed, first.pruned), (1, 0));
    assert_eq!((second.stubbed, second.pruned, second.more), (0, 0, false));
}

fn absorbed_submissions_are_kept_for_thirty_days_and_counted_for_ever(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    world.submit(with(Dedup::explicit("k")));
    world.pass(Millis::from_days(29));
    world.submit(with(Dedup::explicit("k")));
    world.pass(Millis::from_days(1));
    world.upkeep();
    assert_eq!(world.ledger(LedgerFilter::default()).len(), 1);
    assert_eq!(world.key(digest_of(world, &id)).absorbed, 2);
    assert_eq!(world.counted(), [("accepted", 1), ("duplicate", 2)]);
}

fn the_ledger_of_a_key_is_bounded_and_its_total_exact(world: &World) {
    let id = world.accepted(with(Dedup::explicit("k")));
    let digest = digest_of(world, &id);
    for _ in 0..3 {
        world.submit_all((0..500).map(|_| with(Dedup::explicit("k"))).collect());
    }
    let newest = world.ledger(LedgerFilter::default())[0].n;
    world.upkeep();
    world.crash();
    let entries = world.ledger(LedgerFilter {
        digest: Some(digest),
        holder: None,
    });
    assert_eq!(
        (entries.len(), entries[0].n),
        (limits::LEDGER_PER_KEY, newest),
        "the newest are kept"
    );
    assert_eq!(world.key(digest).absorbed, 1_500);
}

fn the_total_of_a_key_goes_with_its_last_trace(world: &World) {
    let id = world.completed(with(Dedup::idempotency_key("k")));
    let digest = digest_of(world, &id);
    world.submit(with(Dedup::idempotency_key("k")));
    assert_eq!(world.key(digest).absorbed, 1);
    world.pass(Millis::from_days(60));
    world.upkeep();
    assert_eq!(
        world.block(world.store().key(digest)).expect("the store answers"),
        None
    );
    world.accepted(with(Dedup::idempotency_key("k")));
    assert_eq!(world.key(digest).absorbed, 0);
}

fn steps_are_kept_until_the_last_job_of_their_chain_goes(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    world.confirm(&claimed, "charge", "7");
    world.fail(&claimed, "broke");
    let letter = claimed.job.id;
    let fresh = world.replayed(&letter);
    world.pass(Millis::from_days(30));
    world.upkeep();
    assert_eq!((world.find(&letter), world.steps_of(&letter).len()), (None, 1));
    world.complete(&world.claim_one());
    world.pass(Millis::from_days(7));
    world.upkeep();
    assert_eq!((world.find(&fresh), world.steps_of(&letter).len()), (None, 0));
}

fn a_pruned_job_stays_counted(world: &World) {
    world.completed(plain());
    world.failed(plain(), "broke");
    world.pass(Millis::from_days(30));
    world.upkeep();
    assert!(world.exact_stats().jobs.is_empty());
    assert_eq!(
        world.counted(),
        [("accepted", 2), ("completed", 1), ("failed", 1)]
    );
}

fn a_complete_job_is_kept_for_seven_days(world: &World) {
    let id = world.completed(plain());
    world.pass(Millis::new(Millis::from_days(7).as_millis() - 1));
    world.upkeep();
    assert_eq!(world.state(&id), State::Complete);
    world.pass(Millis::new(1));
    world.upkeep();
    world.crash();
    assert_eq!(world.find(&id), None);
    assert!(world.attempts(&id).is_empty());
}

fn failed_and_cancelled_jobs_are_kept_for_thirty_days(world: &World) {
    let failed = world.failed(with(Dedup::explicit("k")), "broke");
    let cancelled = world.accepted(plain());
    world.cancel(&cancelled);
    world.pass(Millis::new(Millis::from_days(30).as_millis() - 1));
    world.upkeep();
    assert_eq!(
        (world.state(&failed), world.state(&cancelled)),
        (State::Failed, State::Cancelled)
    );
    world.pass(Millis::new(1));
    world.upkeep();
    assert_eq!((world.find(&failed), world.find(&cancelled)), (None, None));
    assert!(world.dead_letters().is_empty());
    let groups = world
        .block(world.store().dead_letter_groups(None))
        .expect("the store answers");
    assert!(groups.is_empty(), "{groups:?}");
}

fn how_long_things_are_kept_can_be_said(world: &World) {
    let complete = world.completed(plain());
    let failed = world.failed(with(Dedup::explicit("k")), "broke");
    world.accepted(with(Dedup::explicit("k")));
    world.submit(with(Dedup::explicit("k")));
    world.pass(secs(60));
    let ledger = Retention {
        ledger: secs(60),
        ..Retention::default()
    };
    keep(world, ledger);
    assert!(world.ledger(LedgerFilter::default()).is_empty());
    keep(
        world,
        Retention {
            complete: secs(60),
            ..Retention::default()
        },
    );
    assert_eq!(
        (world.find(&complete), world.state(&failed)),
        (None, State::Failed)
    );
    keep(
        world,
        Retention {
            failed: secs(60),
            ..Retention::default()
        },
    );
    assert_eq!(world.find(&failed), None);
}

fn a_pruned_job_is_forgotten_with_its_token(world: &World) {
    let submission = plain();
    let id = world.completed(submission.clone());
    world.pass(Millis::from_days(7));
    world.upkeep();
    assert_eq!(world.accepted(submission), id);
    let job = world.job(&id);
    assert_eq!(
        (job.state, job.attempt, job.enqueued_at),
        (State::Queued, 0, world.now())
    );
}

fn upkeep_goes_in_steps_no_longer_than_its_budget(world: &World) {
    world.submit_all((0..25).map(|_| plain()).collect());
    world
        .claim(25)
        .iter()
        .for_each(|claimed| drop(world.complete(claimed)));
    world.pass(Millis::from_days(7));
    let request = UpkeepRequest {
        budget: 10,
        ..UpkeepRequest::default()
    };
    let rounds: Vec<UpkeepReport> = (0..3).map(|_| world.upkeep_round(request)).collect();
    assert!(rounds.iter().all(|round| round.pruned <= 10), "{rounds:?}");
    assert_eq!(rounds.iter().map(|round| round.pruned).sum::<u64>(), 25);
    assert_eq!(
        rounds.iter().map(|round| round.more).collect::<Vec<_>>(),
        [true, true, false]
    );
}

fn upkeep_gives_expired_leases_back(world: &World) {
    let id = world.started(plain()).job.id;
    world.pass(Millis::new(29_999));
    assert_eq!(world.upkeep_round(UpkeepRequest::default()).expired, 0);
    world.pass(Millis::new(1));
    assert_eq!(world.upkeep_round(UpkeepRequest::default()).expired, 1);
    let job = world.job(&id);
    assert_eq!(
        (job.state, job.deliveries, job.lease_until),
        (State::Queued, 1, None)
    );
}

fn upkeep_that_finds_nothing_does_nothing(world: &World) {
    world.accepted(with(Dedup::explicit("k")));
    world.submit(with(Dedup::explicit("k")));
    world.failed(
        Submission {
            priority: 1,
            ..plain()
        },
        "broke",
    );
    world.upkeep();
    let before = (
        world.ids(JobFilter::default()),
        world.ledger(LedgerFilter::default()),
        world.counted(),
    );
    let report = world.upkeep_round(UpkeepRequest::default());
    assert_eq!(report, UpkeepReport::default());
    assert_eq!(
        (
            world.ids(JobFilter::default()),
            world.ledger(LedgerFilter::default()),
            world.counted()
        ),
        before
    );
}

fn log_lines_go_with_their_job(world: &World) {
    let logging = |submission| {
        let claimed = world.started(submission);
        let log = vec!["the card is 4711".to_owned()];
        let beat = Beat {
            id: claimed.job.id.clone(),
            fence: claimed.fence,
            progress: None,
            log,
        };
        let request = ExtendRequest {
            leases: vec![beat],
            lease: secs(30),
        };
        world
            .block(world.store().extend(request))
            .expect("the store answers");
        assert_eq!(world.feed(&log_feed(&claimed.job.id)).len(), 1);
        world.complete(&claimed);
        claimed.job.id
    };
    let (deleted, pruned) = (logging(plain()), logging(plain()));
    let stub = logging(with(Dedup::idempotency_key("k")));
    world.delete(&deleted);
    world.pass(Millis::from_days(7));
    world.upkeep();
    for id in [deleted, pruned, stub] {
        assert!(world.feed(&log_feed(&id)).is_empty(), "{id}");
    }
}

fn a_feed_is_bounded(world: &World) {
    for _ in 0..11 {
        let bodies = (0..1_000).map(|_| json("1")).collect();
        world
            .block(world.store().append("audit", bodies))
            .expect("the store answers");
    }
    world
        .block(world.store().append("other", vec![json("2")]))
        .expect("the store answers");
    world.upkeep();
    world.crash();
    let entries = world.feed("audit");
    assert_eq!(entries.len(), FEED_ENTRIES);
    assert_eq!(
        (entries[0].n, entries[FEED_ENTRIES - 1].n),
        (11_000, 1_001),
        "the newest are kept"
    );
    assert_eq!(world.feed("other").len(), 1);
}

fn a_document_disappears_after_its_ttl(world: &World) {
    let put = |ttl, expect| {
        let put = PutDocument {
            kind: name("worker"),
            name: "ada".into(),
            body: json("1"),
            expect,
            ttl,
        };
        world
            .block(world.store().put_document(put))
            .expect("the store answers")
    };
    let find = || {
        world
            .block(world.store().document(&name("worker"), "ada"))
            .expect("the store answers")
    };
    put(Some(secs(60)), Expect::Absent);
    assert_eq!(
        find().expect("it is there").expires_at,
        Some(world.now().plus(secs(60)))
    );
    world.pass(Millis::new(59_999));
    world.upkeep();
    let version = find().expect("it is still there").version;
    world.pass(Millis::new(1));
    assert_eq!(find(), None, "it is gone before anyone sweeps");
    world.upkeep();
    let PutOutcome::Done { version: next } = put(None, Expect::Absent) else {
        panic!("it is absent")
    };
    assert!(next > version);
    assert_eq!(find().expect("it is there").expires_at, None);
}

fn keep(world: &World, retention: Retention) {
    let report = world.upkeep_round(UpkeepRequest {
        retention,
        ..UpkeepRequest::default()
    });
    assert!(!report.more, "{report:?}");
}

fn digest_of(world: &World, id: &JobId) -> Digest {
    world.job(id).key.expect("a key").digest
}
