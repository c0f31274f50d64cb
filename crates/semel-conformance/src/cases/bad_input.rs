//! Bad input is refused with what is allowed, and nothing is written (contract 8.1).

use semel_core::dedup::{Dedup, Hold};
use semel_core::error::{Invalid, StoreError};
use semel_core::guard::GuardCall;
use semel_core::ids::{JobId, Name};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::limits;
use semel_core::step::{Resolution, StepPhase, StepState};
use semel_core::store::{
    Act, ActOutcome, Beat, ClaimRequest, Claimed, Expect, ExtendRequest, GuardRequest, JobFilter, KeyFilter,
    LedgerFilter, Page, PutDocument, Settlement, StepOutcome, StepRequest, Submitted, WriteOutcome,
};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::{Millis, Timestamp};

use super::list::cases;
use crate::kit::{World, claim_request, json, name, of, plain, refused, said, secs, token, with};

cases![
    "8.1" => a_name_has_one_to_a_hundred_and_twenty_eight_bytes,
    "8.1" => an_invalid_item_does_not_harm_its_neighbours,
    "8.1" => a_priority_outside_its_bounds_is_refused,
    "8.1" => attempts_and_deliveries_have_bounds,
    "8.1" => a_run_at_outside_the_calendar_is_refused,
    "8.1" => an_input_that_is_too_large_is_refused,
    "8.1" => headers_and_metadata_have_bounds,
    "8.1" => a_timeout_of_nothing_is_refused,
    "8.1" => a_key_that_is_empty_or_too_long_is_refused,
    "8.1" => a_ttl_of_nothing_is_refused,
    "8.1" => a_hold_beyond_ten_years_is_refused,
    "8.1" => a_debounce_cannot_push_a_job_out_of_the_calendar,
    "8.1" => a_batch_of_more_than_a_thousand_is_refused_as_a_whole,
    "8.1" => every_other_batch_has_the_same_bound,
    "8.1" => an_empty_batch_is_answered_with_nothing,
    "8.1" => a_claim_of_none_or_too_many_is_refused,
    "8.1" => a_lease_outside_its_bounds_is_refused,
    "8.1" => progress_that_is_no_fraction_is_refused,
    "8.1" => an_output_that_is_too_large_is_refused,
    "8.1" => the_output_of_a_step_that_is_too_large_is_refused,
    "8.1" => a_resolution_that_is_too_large_is_refused,
    "8.1" => a_delay_beyond_ten_years_is_refused,
    "8.1" => a_page_has_one_to_five_hundred_rows,
    "8.1" => a_cursor_that_is_none_is_refused,
    "8.1" => an_id_that_is_none_is_not_found,
    "8.1" => the_number_of_queues_is_bounded,
    "8.1" => the_number_of_tasks_is_bounded,
    "8.1" => documents_and_their_names_have_bounds,
    "8.1" => feeds_and_their_names_have_bounds,
];

fn a_name_has_one_to_a_hundred_and_twenty_eight_bytes(world: &World) {
    for wrong in [
        String::new(),
        "x".repeat(129),
        "ü".repeat(65),
        "a\nb".into(),
        "a\0b".into(),
        // In a path these are steps, and nothing can be written for them that is not: a lever on the queue `..` would be
        // one on everything.
        ".".into(),
        "..".into(),
    ] {
        assert!(
            said(Name::new(wrong).expect_err("no name"))
                .allowed
                .contains("128")
        );
    }
    let long = "ü".repeat(64);
    let id = world.accepted(Submission {
        queue: name(&long),
        producer: Some(name(&long)),
        ..of(&long, "{}")
    });
    let job = world.job(&id);
    assert_eq!(
        (job.queue.as_str(), job.task.as_str()),
        (long.as_str(), long.as_str())
    );
}

fn an_invalid_item_does_not_harm_its_neighbours(world: &World) {
    let wrong = Submission {
        priority: 101,
        ..with(Dedup::explicit("k"))
    };
    let answers = world.submit_all(vec![plain(), wrong, with(Dedup::explicit("k"))]);
    assert!(matches!(answers[1], Submitted::Invalid(_)), "{answers:?}");
    for answer in [&answers[0], &answers[2]] {
        assert!(matches!(answer, Submitted::Job(_)), "{answers:?}");
    }
    assert_eq!(world.counted(), [("accepted", 2)]);
}

fn a_priority_outside_its_bounds_is_refused(world: &World) {
    for priority in [-128, -101, 101, 127] {
        assert_eq!(
            invalid(world, Submission { priority, ..plain() }).what,
            "priority"
        );
    }
    for priority in [-100, 100] {
        world.accepted(Submission { priority, ..plain() });
    }
}

fn attempts_and_deliveries_have_bounds(world: &World) {
    for (max_attempts, max_deliveries) in [(0, 1), (1, 0), (1_001, 1), (1, 1_001), (u32::MAX, 1)] {
        let invalid = invalid(
            world,
            Submission {
                max_attempts,
                max_deliveries,
                ..plain()
            },
        );
        assert_eq!(invalid.allowed, "1 to 1000");
    }
    world.accepted(Submission {
        max_attempts: 1_000,
        max_deliveries: 1_000,
        ..plain()
    });
}

fn a_run_at_outside_the_calendar_is_refused(world: &World) {
    let past_the_end = Timestamp::from_millis(Timestamp::MAX.as_millis() + 1);
    let wrong = [
        RunAt::At(past_the_end),
        RunAt::At(Timestamp::from_millis(i64::MAX)),
        RunAt::At(Timestamp::from_millis(-1)),
        RunAt::At(Timestamp::from_millis(i64::MIN)),
        RunAt::After(Millis::new(i64::MAX)),
    ];
    for run_at in wrong {
        assert!(
            invalid(world, Submission { run_at, ..plain() })
                .allowed
                .contains("9999")
        );
    }
    let last = world.accepted(Submission {
        run_at: RunAt::At(Timestamp::MAX),
        ..plain()
    });
    assert_eq!(
        (world.state(&last), world.job(&last).run_at),
        (State::Scheduled, Timestamp::MAX)
    );
    let past = world.accepted(Submission {
        run_at: RunAt::At(Timestamp::from_millis(0)),
        ..plain()
    });
    assert_eq!(world.claimed_ids(), [past]);
}

fn an_input_that_is_too_large_is_refused(world: &World) {
    let mut submission = plain();
    submission.content.input = text_of(limits::INPUT_BYTES + 1);
    assert_eq!(invalid(world, submission.clone()).what, "input");
    submission.content.input = text_of(limits::INPUT_BYTES);
    let id = world.accepted(submission);
    assert_eq!(world.job(&id).input.as_str().len(), limits::INPUT_BYTES);
}

fn headers_and_metadata_have_bounds(world: &World) {
    let with_header = |bytes: usize| {
        let mut submission = plain();
        submission
            .content
            .headers
            .insert("h".into(), "x".repeat(bytes - 1));
        submission
    };
    assert_eq!(
        invalid(world, with_header(limits::HEADERS_BYTES + 1)).what,
        "headers"
    );
    world.accepted(with_header(limits::HEADERS_BYTES));
    let with_meta = |meta: Json| {
        let mut submission = plain();
        submission.content.meta = Some(meta);
        submission
    };
    let huge = Json::trusted(format!("{{\"a\":{}}}", text_of(limits::META_BYTES)));
    for meta in [json("[]"), json("1"), huge] {
        assert_eq!(invalid(world, with_meta(meta)).what, "meta");
    }
    world.accepted(with_meta(json("{}")));
}

fn a_timeout_of_nothing_is_refused(world: &World) {
    let mut submission = plain();
    submission.content.timeout = Some(Millis::ZERO);
    assert_eq!(invalid(world, submission.clone()).what, "timeout");
    submission.content.timeout = Some(Millis::new(1));
    world.accepted(submission);
}

/// An empty key was accepted and made one job of all.
fn a_key_that_is_empty_or_too_long_is_refused(world: &World) {
    for text in [String::new(), " \t ".into(), "x".repeat(256), "a\u{7}b".into()] {
        assert!(
            invalid(world, with(Dedup::explicit(text)))
                .allowed
                .contains("255")
        );
    }
    world.accepted(with(Dedup::explicit(format!("  {}  ", "x".repeat(255)))));
    assert_eq!(world.exact_stats().active_keys, 1);
}

/// A time to live of zero was accepted and protected nobody.
fn a_ttl_of_nothing_is_refused(world: &World) {
    let holds = [
        Hold::window(Millis::ZERO),
        Hold::window(Millis::new(-5)),
        Hold::until_started().ttl(Millis::ZERO),
        Hold::until_finished().ttl(Millis::ZERO),
        Hold::until_finished().cool_down(Millis::ZERO),
    ];
    for hold in holds {
        invalid(world, with(Dedup::explicit("k").hold(hold)));
    }
    world.accepted(with(Dedup::explicit("k").hold(Hold::window(Millis::new(1)))));
}

fn a_hold_beyond_ten_years_is_refused(world: &World) {
    let too_long = Millis::new(limits::LONGEST.as_millis() + 1);
    let holds = [
        Hold::window(too_long),
        Hold::until_started().ttl(too_long),
        Hold::until_finished().cool_down(Millis::new(i64::MAX)),
    ];
    for hold in holds {
        invalid(world, with(Dedup::explicit("k").hold(hold)));
    }
    world.accepted(with(Dedup::explicit("k").hold(Hold::window(limits::LONGEST))));
}

fn a_debounce_cannot_push_a_job_out_of_the_calendar(world: &World) {
    for delay in [
        Millis::new(i64::MAX),
        Millis::new(limits::LONGEST.as_millis() + 1),
    ] {
        invalid(world, with(Dedup::explicit("k").debounce(delay, None)));
    }
    let id = world.accepted(with(Dedup::explicit("k").debounce(secs(5), Some(secs(60)))));
    assert_eq!(world.job(&id).run_at, world.now().plus(secs(5)));
}

fn a_batch_of_more_than_a_thousand_is_refused_as_a_whole(world: &World) {
    let batch: Vec<Submission> = (0..1_001).map(|_| plain()).collect();
    let invalid = refused(world.block(world.store().submit(batch.clone())));
    assert!(invalid.allowed.contains("1000"), "{invalid}");
    assert!(world.counted().is_empty());
    assert_eq!(world.submit_all(batch[..1_000].to_vec()).len(), 1_000);
    assert_eq!(world.counted(), [("accepted", 1_000)]);
}

fn every_other_batch_has_the_same_bound(world: &World) {
    let claimed = world.started(plain());
    let (id, fence, store) = (claimed.job.id, claimed.fence, world.store());
    let settlement = Settlement {
        id: id.clone(),
        fence,
        result: Settle::Complete { output: None },
    };
    refused(world.block(store.settle(vec![settlement; 1_001])));
    let beat = Beat {
        id: id.clone(),
        fence,
        progress: Some(0.5),
        log: Vec::new(),
    };
    refused(world.block(store.extend(ExtendRequest {
        leases: vec![beat; 1_001],
        lease: secs(60),
    })));
    let begin = StepPhase::Begin { token: token() };
    let step = StepRequest {
        id: id.clone(),
        fence,
        step: name("charge"),
        phase: begin,
    };
    refused(world.block(store.steps(vec![step; 1_001])));
    refused(world.block(store.act(vec![Act::Cancel { id: id.clone() }; 1_001])));
    let call = GuardCall::Reserve {
        token: token(),
        ttl: secs(1),
    };
    refused(world.block(store.guard(vec![
        GuardRequest {
            key: "k".into(),
            call
        };
        1_001
    ])));
    let job = world.job(&id);
    assert_eq!(
        (job.state, job.progress, job.lease_until),
        (State::Running, None, Some(claimed.lease_until))
    );
    assert_eq!(
        (world.steps_of(&id).len(), world.exact_stats().guard.fresh),
        (0, 0)
    );
}

fn an_empty_batch_is_answered_with_nothing(world: &World) {
    let store = world.store();
    assert_eq!(
        world
            .block(store.submit(vec![]))
            .expect("the store answers")
            .len(),
        0
    );
    assert_eq!(
        world
            .block(store.settle(vec![]))
            .expect("the store answers")
            .len(),
        0
    );
    assert_eq!(
        world.block(store.steps(vec![])).expect("the store answers").len(),
        0
    );
    assert_eq!(
        world.block(store.guard(vec![])).expect("the store answers").len(),
        0
    );
    assert_eq!(
        world.block(store.act(vec![])).expect("the store answers").len(),
        0
    );
    assert_eq!(
        world
            .block(store.jobs_by_id(&[]))
            .expect("the store answers")
            .len(),
        0
    );
    let beats = ExtendRequest {
        leases: vec![],
        lease: secs(30),
    };
    assert_eq!(
        world.block(store.extend(beats)).expect("the store answers").len(),
        0
    );
}

fn a_claim_of_none_or_too_many_is_refused(world: &World) {
    let id = world.accepted(plain());
    for max in [0, 1_001, usize::MAX] {
        refused(world.block(world.store().claim(claim_request(max))));
    }
    assert_eq!(world.state(&id), State::Queued);
    assert_eq!(world.claim(1_000).len(), 1);
}

fn a_lease_outside_its_bounds_is_refused(world: &World) {
    let id = world.accepted(plain());
    let wrong = [
        Millis::ZERO,
        Millis::new(999),
        Millis::new(3_600_001),
        Millis::new(i64::MAX),
    ];
    let claim = |lease| {
        world.block(world.store().claim(ClaimRequest {
            lease,
            ..claim_request(1)
        }))
    };
    for lease in wrong {
        assert_eq!(refused(claim(lease)).allowed, "1 second to 1 hour");
    }
    assert_eq!(world.state(&id), State::Queued);
    let claimed = claim(Millis::new(1_000)).expect("the store answers").remove(0);
    assert_eq!(claimed.lease_until, world.now().plus(secs(1)));
    for lease in wrong {
        assert_eq!(
            refused(extend(world, &claimed, None, lease)).allowed,
            "1 second to 1 hour"
        );
    }
    assert_eq!(world.job(&id).lease_until, Some(claimed.lease_until));
    extend(world, &claimed, None, secs(3_600)).expect("the store answers");
    assert_eq!(world.job(&id).lease_until, Some(world.now().plus(secs(3_600))));
}

fn progress_that_is_no_fraction_is_refused(world: &World) {
    let claimed = world.started(plain());
    world.pass(secs(5));
    for progress in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 1.1] {
        let answers = extend(world, &claimed, Some(progress), secs(30)).expect("the store answers");
        assert!(
            matches!(&answers[0], WriteOutcome::Invalid(invalid) if !invalid.allowed.is_empty()),
            "{answers:?}"
        );
    }
    let job = world.job(&claimed.job.id);
    assert_eq!((job.progress, job.lease_until), (None, Some(claimed.lease_until)));
}

fn an_output_that_is_too_large_is_refused(world: &World) {
    let claimed = world.started(plain());
    let settle = |bytes| {
        let output = Some(text_of(bytes));
        world.settle(&claimed.job.id, claimed.fence, Settle::Complete { output })
    };
    assert!(matches!(
        settle(limits::OUTPUT_BYTES + 1),
        WriteOutcome::Invalid(_)
    ));
    assert_eq!(world.state(&claimed.job.id), State::Running);
    assert_eq!(world.counted(), [("accepted", 1)]);
    assert_eq!(settle(limits::OUTPUT_BYTES), WriteOutcome::Ok(State::Complete));
    assert_eq!(
        world.job(&claimed.job.id).output,
        Some(text_of(limits::OUTPUT_BYTES))
    );
}

fn the_output_of_a_step_that_is_too_large_is_refused(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    let confirm = |bytes| {
        world.step(
            &claimed,
            "charge",
            StepPhase::Confirm {
                output: text_of(bytes),
            },
        )
    };
    assert!(matches!(
        confirm(limits::OUTPUT_BYTES + 1),
        StepOutcome::Invalid(_)
    ));
    assert_eq!(world.steps_of(&claimed.job.id)[0].state, StepState::Begun);
    assert!(matches!(confirm(limits::OUTPUT_BYTES), StepOutcome::Answer(_)));
}

fn a_resolution_that_is_too_large_is_refused(world: &World) {
    let claimed = world.started(plain());
    world.begin_fresh(&claimed, "charge");
    world.fail(&claimed, "broke off");
    let output = text_of(limits::OUTPUT_BYTES + 1);
    let resolution = Resolution::Happened { output };
    let act = Act::Resolve {
        origin: claimed.job.id,
        step: name("charge"),
        resolution,
    };
    let outcome = world.act(act);
    assert!(matches!(outcome, ActOutcome::Invalid(_)), "{outcome:?}");
    assert_eq!(world.in_doubt(), ["charge"]);
}

fn a_delay_beyond_ten_years_is_refused(world: &World) {
    let claimed = world.started(plain());
    let too_long = Millis::new(limits::LONGEST.as_millis() + 1);
    for delay in [too_long, Millis::new(i64::MAX)] {
        for result in [
            Settle::Snooze { delay },
            Settle::Retry {
                error: "x".into(),
                delay: Some(delay),
            },
        ] {
            let answer = world.settle(&claimed.job.id, claimed.fence, result);
            assert!(matches!(answer, WriteOutcome::Invalid(_)), "{answer:?}");
        }
    }
    assert_eq!(world.state(&claimed.job.id), State::Running);
    let longest = Settle::Snooze {
        delay: limits::LONGEST,
    };
    assert_eq!(
        world.settle(&claimed.job.id, claimed.fence, longest),
        WriteOutcome::Ok(State::Scheduled)
    );
}

fn a_page_has_one_to_five_hundred_rows(world: &World) {
    world.accepted(plain());
    let store = world.store();
    for limit in [0, 501, usize::MAX] {
        let page = || Page::first(limit);
        assert_eq!(
            refused(world.block(store.jobs(JobFilter::default(), page()))).allowed,
            "1 to 500"
        );
        assert_eq!(
            refused(world.block(store.keys(KeyFilter::default(), page()))).allowed,
            "1 to 500"
        );
        assert_eq!(
            refused(world.block(store.ledger(LedgerFilter::default(), page()))).allowed,
            "1 to 500"
        );
        assert_eq!(
            refused(world.block(store.feed("audit", page()))).allowed,
            "1 to 500"
        );
        assert_eq!(
            refused(world.block(store.documents(&name("note"), "", page()))).allowed,
            "1 to 500"
        );
    }
    assert_eq!(world.ids(JobFilter::default()).len(), 1);
}

fn a_cursor_that_is_none_is_refused(world: &World) {
    world.submit_all((0..5).map(|_| plain()).collect());
    let store = world.store();
    for cursor in [
        "",
        "1",
        ".",
        "x.y",
        "-1",
        "1.0000000000000000",
        "'; --",
        "9".repeat(1_000).as_str(),
    ] {
        let page = || Page::after(cursor, 10);
        assert_eq!(
            refused(world.block(store.jobs(JobFilter::default(), page()))).what,
            "cursor"
        );
        assert_eq!(
            refused(world.block(store.keys(KeyFilter::default(), page()))).what,
            "cursor"
        );
        assert_eq!(
            refused(world.block(store.documents(&name("note"), "", page()))).what,
            "cursor"
        );
        assert_eq!(refused(world.block(store.feed("audit", page()))).what, "cursor");
    }
}

fn an_id_that_is_none_is_not_found(world: &World) {
    let nobody = JobId::new("../jobs' --").expect("an id");
    assert_eq!(world.find(&nobody), None);
    assert_eq!(world.settle(&nobody, 1, Settle::HandBack), WriteOutcome::NotFound);
    assert_eq!(world.extend(&nobody, 1), WriteOutcome::NotFound);
    assert!(world.attempts(&nobody).is_empty() && world.steps_of(&nobody).is_empty());
    assert!(said(JobId::new("").expect_err("no id")).allowed.contains("128"));
    assert!(JobId::new("x".repeat(129)).is_err() && JobId::new("a\nb").is_err());
}

fn the_number_of_queues_is_bounded(world: &World) {
    let in_queue = |n: usize| Submission {
        queue: name(&format!("q{n}")),
        ..plain()
    };
    let answers = world.submit_all((0..limits::QUEUES).map(in_queue).collect());
    assert!(answers.iter().all(|answer| matches!(answer, Submitted::Job(_))));
    invalid(world, in_queue(limits::QUEUES));
    world.accepted(in_queue(7));
    world
        .block(world.store().remove_queue(&name("q7")))
        .expect("the store answers");
    world.accepted(in_queue(limits::QUEUES));
    invalid(world, in_queue(limits::QUEUES + 1));
}

fn the_number_of_tasks_is_bounded(world: &World) {
    let of_task = |n: usize| of(&format!("t{n}"), "{}");
    for thousand in 0..limits::TASKS / 1_000 {
        let answers = world.submit_all((0..1_000).map(|n| of_task(thousand * 1_000 + n)).collect());
        assert!(answers.iter().all(|answer| matches!(answer, Submitted::Job(_))));
    }
    invalid(world, of_task(limits::TASKS));
    world.accepted(of_task(7));
}

fn documents_and_their_names_have_bounds(world: &World) {
    let put = |title: &str, body: Json| {
        let put = PutDocument {
            kind: name("note"),
            name: title.to_owned(),
            body,
            expect: Expect::Any,
            ttl: None,
        };
        world.block(world.store().put_document(put))
    };
    for title in ["", "a\nb", &"x".repeat(513)] {
        refused(put(title, json("1")));
    }
    refused(put("a", text_of(limits::DOCUMENT_BYTES + 1)));
    let listing = world
        .block(world.store().documents(&name("note"), "", Page::first(10)))
        .expect("an answer");
    assert!(listing.items.is_empty());
    put(&"x".repeat(512), text_of(limits::DOCUMENT_BYTES)).expect("within the bounds");
}

fn feeds_and_their_names_have_bounds(world: &World) {
    for feed in ["", "a\nb", &"x".repeat(513)] {
        refused(world.block(world.store().append(feed, vec![json("1")])));
    }
    let longest = "x".repeat(512);
    world
        .block(world.store().append(&longest, vec![json("1")]))
        .expect("within the bounds");
    assert_eq!(world.feed(&longest).len(), 1);
}

/// A submission that must be refused; nothing of it is counted or listed.
fn invalid(world: &World, submission: Submission) -> Invalid {
    let (id, counted) = (JobId::from(submission.token), world.counted());
    let invalid = match world.submit(submission) {
        Submitted::Invalid(invalid) => said(invalid),
        other => panic!("expected a refusal, got {other:?}"),
    };
    assert_eq!((world.find(&id), world.counted()), (None, counted));
    invalid
}

fn extend(
    world: &World,
    claimed: &Claimed,
    progress: Option<f64>,
    lease: Millis,
) -> Result<Vec<WriteOutcome>, StoreError> {
    let beat = Beat {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        progress,
        log: vec!["line".into()],
    };
    world.block(world.store().extend(ExtendRequest {
        leases: vec![beat],
        lease,
    }))
}

/// A JSON string that takes so many bytes.
fn text_of(bytes: usize) -> Json {
    Json::trusted(format!("\"{}\"", "x".repeat(bytes - 2)))
}
