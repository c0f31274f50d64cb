//! What a producer is answered, preset by preset (contract 2, 3.1–3.3).

mod client_stage;

use client_stage::{MONDAY, complete, failure, name, on_each_store, token};
use semel::semel_core::counters::Counter;
use semel::semel_core::job::Outcome;
use semel::{Dedup, Error, Hold, OnDuplicate, Period, Scope, State, SubmitRequest, Target, Task, Unit};
use semel::{days, hours, mins, secs};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Charge {
    order: String,
    cents: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: u64,
}

const CHARGE: Task<Charge, Receipt> = Task::new("charge_customer").max_attempts(3).timeout(secs(30));
const SYNC: Task<u64> = Task::new("sync_user");

fn charge(cents: u64) -> Charge {
    Charge {
        order: "ORD-123".to_owned(),
        cents,
    }
}

#[tokio::test]
async fn an_idempotency_key_gives_the_same_job_for_thirty_days_and_tells_another_input_apart() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let first = jobs
            .submit(CHARGE, &charge(100))
            .idempotency_key(" ORD-123 ")
            .await
            .expect("accepted");
        assert_eq!(first.outcome(), Outcome::Accepted);
        stage.run_next(complete(r#"{"number": 7}"#)).await;

        stage.pass(days(29));
        let again = jobs
            .submit(CHARGE, &charge(100))
            .idempotency_key("ORD-123")
            .await
            .expect("a duplicate");
        assert!(again.is_duplicate());
        assert_eq!((again.id(), again.holder().state), (first.id(), State::Complete));
        assert_eq!(again.key(), first.key());

        let other = jobs.submit(CHARGE, &charge(999)).idempotency_key("ORD-123").await;
        match other {
            Err(Error::IdempotencyConflict { holder, differs }) => {
                assert_eq!(
                    (&holder.id, differs.as_slice()),
                    (first.id(), ["/cents".to_owned()].as_slice())
                );
            }
            other => panic!("contract 2.6: a conflict, not {other:?}"),
        }
        stage.pass(days(2));
        let later = jobs
            .submit(CHARGE, &charge(999))
            .idempotency_key("ORD-123")
            .await
            .expect("accepted");
        assert_eq!(later.outcome(), Outcome::Accepted);
    })
    .await;
}

#[tokio::test]
async fn ttl_and_scope_of_an_idempotency_key_are_the_producers() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let submit = |task: &str, scope: Scope| {
            jobs.submit_json(task, &1)
                .idempotency_key("k")
                .idempotency_ttl(hours(1))
                .idempotency_scope(scope)
        };
        assert_eq!(
            submit("a", Scope::Task).await.expect("an answer").outcome(),
            Outcome::Accepted
        );
        assert_eq!(
            submit("b", Scope::Task).await.expect("an answer").outcome(),
            Outcome::Accepted
        );
        assert_eq!(
            submit("a", Scope::Global).await.expect("an answer").outcome(),
            Outcome::Accepted
        );
        let taken = submit("b", Scope::Global).await;
        assert!(
            matches!(taken, Err(Error::IdempotencyConflict { .. })),
            "another task is another thing"
        );
        let custom = Scope::Custom(name("tenant-7"));
        assert_eq!(
            submit("b", custom).await.expect("an answer").outcome(),
            Outcome::Accepted
        );

        for claimed in stage.claim(10).await {
            client_stage::settle(jobs, &claimed, complete("null")).await;
        }
        stage.pass(hours(1));
        assert_eq!(
            submit("a", Scope::Task).await.expect("an answer").outcome(),
            Outcome::Accepted
        );
    })
    .await;
}

#[tokio::test]
async fn unique_means_one_at_a_time_and_unique_for_lets_another_in_after_a_while() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let first = jobs.submit(SYNC, &7).unique().await.expect("accepted");
        let second = jobs.submit(SYNC, &7).unique().await.expect("a duplicate");
        assert_eq!((second.outcome(), second.id()), (Outcome::Duplicate, first.id()));
        assert!(
            !jobs
                .submit(SYNC, &8)
                .unique()
                .await
                .expect("accepted")
                .is_duplicate()
        );
        stage.run_next(complete("null")).await;
        assert!(
            !jobs
                .submit(SYNC, &7)
                .unique()
                .await
                .expect("accepted")
                .is_duplicate()
        );

        assert!(
            !jobs
                .submit(SYNC, &9)
                .unique_for(mins(10))
                .await
                .expect("accepted")
                .is_duplicate()
        );
        stage.pass(mins(9));
        assert!(
            jobs.submit(SYNC, &9)
                .unique_for(mins(10))
                .await
                .expect("an answer")
                .is_duplicate()
        );
        stage.pass(mins(1));
        assert!(
            !jobs
                .submit(SYNC, &9)
                .unique_for(mins(10))
                .await
                .expect("accepted")
                .is_duplicate()
        );
    })
    .await;
}

#[tokio::test]
async fn once_per_period_counts_by_the_calendar_of_its_zone() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let daily = || jobs.submit(SYNC, &1).once_per(Unit::Day);
        let in_auckland = || {
            let period = Period::new(Unit::Day, "Pacific/Auckland").expect("a zone");
            jobs.submit(SYNC, &2).once_per(period)
        };
        assert!(!daily().await.expect("accepted").is_duplicate());
        assert!(!in_auckland().await.expect("accepted").is_duplicate());
        for claimed in stage.claim(10).await {
            client_stage::settle(jobs, &claimed, complete("null")).await;
        }
        stage.pass(hours(4));
        // 12:00 in UTC is 01:00 of the next day in Auckland, which is thirteen hours ahead in January.
        assert!(daily().await.expect("an answer").is_duplicate());
        assert!(!in_auckland().await.expect("accepted").is_duplicate());
        stage.pass(hours(12));
        assert!(!daily().await.expect("accepted").is_duplicate());
    })
    .await;
}

#[tokio::test]
async fn exclusive_rejects_while_the_job_is_active() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let first = jobs.submit(SYNC, &1).exclusive("lock").await.expect("accepted");
        let error = jobs
            .submit(SYNC, &1)
            .exclusive("lock")
            .await
            .expect_err("rejected");
        assert_eq!(error.holder().map(|holder| &holder.id), Some(first.id()));
        assert!(matches!(error, Error::Duplicate { .. }) && !error.is_retryable());
        stage.run_next(failure("no")).await;
        assert!(
            jobs.submit(SYNC, &1).exclusive("lock").await.is_ok(),
            "freed whatever the end"
        );
    })
    .await;
}

#[tokio::test]
async fn latest_replaces_what_waits_and_follows_what_runs() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let render = |version: u64| {
            jobs.submit_json("render", &json!({"page": "home", "version": version}))
                .by_fields(["/page"])
                .latest()
        };
        let first = render(1).await.expect("accepted");
        let second = render(2).await.expect("replaced");
        assert_eq!((second.outcome(), second.id()), (Outcome::Replaced, first.id()));
        let claimed = stage.claim(1).await;
        assert_eq!(claimed[0].job.input.as_str(), r#"{"page":"home","version":2}"#);
        let third = render(3).await.expect("deferred");
        assert_eq!(third.outcome(), Outcome::Deferred);
        assert_ne!(third.id(), first.id());
        let fourth = render(4).await.expect("deferred");
        assert_eq!(fourth.id(), third.id(), "the newest wins");
        client_stage::settle(jobs, &claimed[0], complete("null")).await;
        let follower = stage.claim(5).await;
        assert_eq!(follower.len(), 1);
        assert_eq!(follower[0].job.input.as_str(), r#"{"page":"home","version":4}"#);
    })
    .await;
}

#[tokio::test]
async fn debounce_waits_for_quiet_but_not_for_ever() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let index = |version: u64| {
            jobs.submit_json("index", &json!({"doc": 1, "version": version}))
                .by_fields(["/doc"])
                .debounce(secs(10), secs(15))
        };
        let first = index(1).await.expect("accepted");
        stage.pass(secs(8));
        let second = index(2).await.expect("debounced");
        assert_eq!((second.outcome(), second.id()), (Outcome::Debounced, first.id()));
        stage.pass(secs(6));
        assert!(stage.claim(1).await.is_empty(), "it is not quiet yet");
        stage.pass(secs(1));
        let claimed = stage.claim(1).await;
        assert_eq!(claimed[0].job.input.as_str(), r#"{"doc":1,"version":2}"#);
    })
    .await;
}

#[tokio::test]
async fn a_whole_policy_reads_as_a_sentence() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let report = |task: &str| {
            jobs.submit_json(task, &json!({"day": "2027-01-18", "try": task}))
                .dedup(
                    Dedup::fields(["/day"])
                        .scope(Scope::Global)
                        .hold(Hold::window(days(1)))
                        .on_duplicate(OnDuplicate::Reject),
                )
                .delay(secs(5))
                .priority(3)
                .queue("reports")
        };
        let sent = report("report").await.expect("accepted");
        let job = jobs
            .job(sent.id().as_str())
            .expect("an id")
            .job()
            .await
            .expect("a job");
        assert_eq!(
            (job.queue.as_str(), job.priority, job.state),
            ("reports", 3, State::Scheduled)
        );
        assert_eq!(job.run_at, MONDAY.plus(secs(5).into()));
        assert!(matches!(report("report").await, Err(Error::Duplicate { .. })));
        assert!(matches!(
            report("other").await,
            Err(Error::IdempotencyConflict { .. })
        ));
    })
    .await;
}

#[tokio::test]
async fn what_contradicts_itself_is_refused_with_a_sentence_and_writes_nothing() {
    const ONCE: Task<u64> = Task::new("once").unique();
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let cases = [
            ("two policies", jobs.submit(SYNC, &1).unique().latest()),
            (
                "two policies",
                jobs.submit(SYNC, &1).unique().idempotency_key("k"),
            ),
            (
                "two policies",
                jobs.submit(SYNC, &1).idempotency_key("k").exclusive("k"),
            ),
            (
                "two policies",
                jobs.submit(SYNC, &1).idempotency_key("k").idempotency_key("l"),
            ),
            (
                "two policies",
                jobs.submit(SYNC, &1).by_key("k").dedup(Dedup::input()),
            ),
            ("idempotency_ttl", jobs.submit(SYNC, &1).idempotency_ttl(days(1))),
            (
                "idempotency_ttl",
                jobs.submit(SYNC, &1).unique().idempotency_ttl(days(1)),
            ),
            (
                "idempotency_scope",
                jobs.submit(SYNC, &1).idempotency_scope(Scope::Queue),
            ),
            (
                "a policy beside the one of task once",
                jobs.submit(ONCE, &1).exclusive("k"),
            ),
            (
                "run_at with debounce",
                jobs.submit(SYNC, &1).debounce(secs(1), None).delay(secs(5)),
            ),
            ("run_at", jobs.submit(SYNC, &1).delay(secs(1)).run_at(MONDAY)),
            ("pointer", jobs.submit(SYNC, &1).by_fields(["day"]).latest()),
            (
                "hold",
                jobs.submit(SYNC, &1)
                    .dedup(Dedup::input().hold(Hold::forever().ttl(days(1)))),
            ),
            ("idempotency key", jobs.submit(SYNC, &1).idempotency_key("  ")),
            ("name", jobs.submit(SYNC, &1).queue("")),
            ("priority", jobs.submit(SYNC, &1).priority(101)),
            ("max_attempts", jobs.submit(SYNC, &1).max_attempts(0)),
            ("timeout", jobs.submit(SYNC, &1).timeout(secs(0))),
            ("meta", jobs.submit(SYNC, &1).meta(&[1, 2])),
        ];
        for (word, submit) in cases {
            let error = submit.await.expect_err(word);
            let Error::Invalid(invalid) = &error else {
                panic!("{word}: {error:?}");
            };
            let sentence = invalid.to_string();
            assert!(
                sentence.contains(word) && sentence.contains("allowed is"),
                "{word}: {sentence}"
            );
        }
        let typo = jobs.submit_text("t", "{\"a\": 1").await.expect_err("no JSON");
        assert!(typo.to_string().contains("a strict JSON document"), "{typo}");
        let twice = jobs
            .submit_text("t", r#"{"a": 1, "a": 2}"#)
            .await
            .expect_err("a member twice");
        assert!(matches!(twice, Error::Invalid(_)));
        let stats = jobs.store().stats().await.expect("stats");
        assert!(stats.totals.is_zero() && stats.jobs.values().all(|count| *count == 0));
    })
    .await;
}

#[tokio::test]
async fn the_policy_of_a_task_holds_for_all_its_producers() {
    const DAILY: Task<u64> = Task::new("daily")
        .once_per(Unit::Day)
        .queue("reports")
        .priority(5)
        .max_deliveries(2);
    const NEWEST: Task<u64> = Task::new("newest").dedup(|| Dedup::input().latest());
    const SHORT: Task<u64> = Task::new("short").unique_for(mins(1));
    const FREE: Task<u64> = Task::new("free").without_dedup();
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let first = jobs.submit(DAILY, &1).await.expect("accepted");
        assert!(jobs.submit(DAILY, &1).await.expect("an answer").is_duplicate());
        let job = jobs
            .job(first.id().as_str())
            .expect("an id")
            .job()
            .await
            .expect("a job");
        assert_eq!(
            (job.queue.as_str(), job.priority, job.max_deliveries),
            ("reports", 5, 2)
        );
        jobs.submit(NEWEST, &1).await.expect("accepted");
        assert_eq!(
            jobs.submit(NEWEST, &1).await.expect("an answer").outcome(),
            Outcome::Replaced
        );
        jobs.submit(SHORT, &1).await.expect("accepted");
        stage.pass(mins(1));
        assert_eq!(
            jobs.submit(SHORT, &1).await.expect("accepted").outcome(),
            Outcome::Accepted
        );

        // Contract 2.15: a unique queue, and a task that opts out.
        jobs.operate("alice")
            .unique(Target::All, true)
            .await
            .expect("set");
        jobs.submit(SYNC, &1).await.expect("accepted");
        assert!(jobs.submit(SYNC, &1).await.expect("an answer").is_duplicate());
        jobs.submit(FREE, &1).await.expect("accepted");
        assert!(!jobs.submit(FREE, &1).await.expect("accepted").is_duplicate());
        assert!(
            !jobs
                .submit(SYNC, &1)
                .without_dedup()
                .await
                .expect("accepted")
                .is_duplicate()
        );
    })
    .await;
}

#[tokio::test]
async fn some_queues_can_be_unique_and_others_not() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        jobs.submit(SYNC, &1)
            .queue("mail")
            .await
            .expect("before it was unique");
        let mail = Target::Queue(name("mail"));
        jobs.operate("alice")
            .unique(mail.clone(), true)
            .await
            .expect("set");
        let first = jobs
            .submit(SYNC, &1)
            .queue("mail")
            .await
            .expect("accepted: needs no empty queue");
        assert_eq!(first.outcome(), Outcome::Accepted);
        assert!(
            jobs.submit(SYNC, &1)
                .queue("mail")
                .await
                .expect("an answer")
                .is_duplicate()
        );
        assert!(
            !jobs
                .submit(SYNC, &1)
                .queue("other")
                .await
                .expect("accepted")
                .is_duplicate()
        );
        assert!(
            !jobs
                .submit(SYNC, &1)
                .queue("other")
                .await
                .expect("accepted")
                .is_duplicate()
        );
        jobs.operate("alice").unique(mail, false).await.expect("set");
        assert!(
            !jobs
                .submit(SYNC, &1)
                .queue("mail")
                .await
                .expect("accepted")
                .is_duplicate()
        );
        let refused = jobs
            .operate("alice")
            .unique(Target::Task(name("sync_user")), true)
            .await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
    })
    .await;
}

#[tokio::test]
async fn output_joins_the_holder_and_replays_a_finished_one() {
    on_each_store(async |stage| {
        let jobs = stage.jobs.clone();
        let joining: Vec<_> = (0..8)
            .map(|_| {
                let output = jobs
                    .submit(CHARGE, &charge(100))
                    .idempotency_key("ORD-123")
                    .output();
                tokio::spawn(output.into_future())
            })
            .collect();
        while stage.count(Counter::Duplicate).await < 7 {
            tokio::task::yield_now().await;
        }
        stage.run_next(complete(r#"{"number": 7}"#)).await;
        for joined in joining {
            assert_eq!(
                joined.await.expect("no panic").expect("an output"),
                Receipt { number: 7 }
            );
        }
        let replayed = jobs
            .submit(CHARGE, &charge(100))
            .idempotency_key("ORD-123")
            .output()
            .await;
        assert_eq!(replayed.expect("contract 3.3"), Receipt { number: 7 });
        assert_eq!(stage.count(Counter::Accepted).await, 1);
        assert_eq!(stage.count(Counter::Completed).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_holder_that_failed_was_cancelled_or_takes_too_long_is_an_error_by_name() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let submit = |n: u64| jobs.submit(CHARGE, &charge(n)).idempotency_key(n.to_string());
        submit(1).await.expect("accepted");
        stage.run_next(failure("card expired")).await;
        let failed = submit(1).await.expect("a duplicate");
        assert_eq!(
            failed.holder().state,
            State::Failed,
            "contract 2.7: a failed holder is said so"
        );
        match failed.output().await {
            Err(Error::JobFailed { id, message }) => {
                assert_eq!((&id, message.as_str()), (failed.id(), "card expired"));
            }
            other => panic!("{other:?}"),
        }

        let sent = submit(2).await.expect("accepted");
        let handle = jobs.job(sent.id().as_str()).expect("an id");
        handle.cancel().await.expect("cancelled");
        assert!(matches!(sent.output().await, Err(Error::JobCancelled { .. })));
        let again = handle.cancel().await.expect_err("it is cancelled");
        assert!(
            matches!(
                again,
                Error::WrongState {
                    state: State::Cancelled,
                    ..
                }
            ),
            "{again}"
        );

        let slow = submit(3).output().at_most(semel::millis(20)).await;
        assert!(
            matches!(
                slow,
                Err(Error::WaitTimeout {
                    state: Some(State::Queued),
                    ..
                })
            ),
            "{slow:?}"
        );
        let none = jobs.job("no-such-job").expect("an id").wait().await;
        assert!(matches!(none, Err(Error::NotFound { .. })));

        stage.run_next(complete(r#""text""#)).await;
        assert!(matches!(submit(3).output().await, Err(Error::Unreadable { .. })));
    })
    .await;
}

#[tokio::test]
async fn whoever_waits_for_a_dead_letter_gets_the_output_of_its_replay() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let sent = jobs.submit(CHARGE, &charge(1)).await.expect("accepted");
        stage.run_next(failure("provider down")).await;
        jobs.operate("alice").replay(sent.id()).await.expect("replayed");
        stage.run_next(complete(r#"{"number": 9}"#)).await;
        assert_eq!(sent.output().await.expect("an output"), Receipt { number: 9 });
    })
    .await;
}

#[tokio::test]
async fn an_output_that_is_no_longer_kept_is_said_so() {
    on_each_store(async |stage| {
        let submit = || stage.jobs.submit(CHARGE, &charge(1)).idempotency_key("k");
        let sent = submit().await.expect("accepted");
        stage.run_next(complete(r#"{"number": 1}"#)).await;
        stage
            .jobs
            .operate("alice")
            .delete(sent.id())
            .await
            .expect("deleted");
        let gone = submit().output().await;
        assert!(
            matches!(gone, Err(Error::OutputGone { .. })),
            "a stub holds the key: {gone:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn submit_idempotent_rejects_and_wait_idempotent_joins_under_the_same_key() {
    on_each_store(async |stage| {
        let task = stage.jobs.task(CHARGE);
        let first = task
            .submit_idempotent("ORD-123", &charge(1))
            .await
            .expect("accepted");
        match task.submit_idempotent("ORD-123", &charge(1)).await {
            Err(Error::Duplicate { holder, .. }) => assert_eq!(&holder.id, first.id()),
            other => panic!("contract 3.2: {other:?}"),
        }
        let joining = tokio::spawn(task.wait_idempotent("ORD-123", &charge(1)).into_future());
        while stage.count(Counter::Duplicate).await < 1 {
            tokio::task::yield_now().await;
        }
        stage.run_next(complete(r#"{"number": 1}"#)).await;
        assert_eq!(
            joining.await.expect("no panic").expect("an output"),
            Receipt { number: 1 }
        );
        // The key is free at the end: both run anew.
        let second = task
            .submit_idempotent("ORD-123", &charge(1))
            .await
            .expect("accepted");
        assert_ne!(second.id(), first.id());
    })
    .await;
}

#[tokio::test]
async fn many_submissions_of_several_tasks_are_answered_one_by_one_in_order() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let sent = jobs
            .submit_many([
                jobs.submit(SYNC, &1).unique().untyped(),
                jobs.submit(SYNC, &2).queue("").untyped(),
                jobs.submit(CHARGE, &charge(1)).exclusive("k").untyped(),
                jobs.submit(SYNC, &1).unique().untyped(),
                jobs.submit(CHARGE, &charge(1)).exclusive("k").untyped(),
                jobs.submit_json("other", &json!({"a": 1})),
            ])
            .await;
        let words: Vec<&str> = sent
            .iter()
            .map(|answer| match answer {
                Ok(submitted) => submitted.outcome().word(),
                Err(Error::Invalid(_)) => "invalid",
                Err(Error::Duplicate { .. }) => "rejected",
                Err(other) => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            words,
            [
                "accepted",
                "invalid",
                "accepted",
                "duplicate",
                "rejected",
                "accepted"
            ]
        );

        let many = jobs
            .submit_many((0..2_500).map(|n| jobs.submit(SYNC, &(n + 10)).unique()))
            .await;
        assert_eq!(many.len(), 2_500);
        assert!(many.iter().all(|answer| {
            answer
                .as_ref()
                .is_ok_and(|sent| sent.outcome() == Outcome::Accepted)
        }));
        assert!(jobs.submit_many(Vec::<semel::Submit>::new()).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn explaining_answers_as_submitting_would_and_writes_nothing() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let submit = || jobs.submit(CHARGE, &charge(1)).idempotency_key("k");
        let before = submit().explain().await.expect("an explanation");
        assert_eq!(before.submitted.outcome(), Some(Outcome::Accepted));
        assert_eq!(stage.count(Counter::Accepted).await, 0);
        let sent = submit().await.expect("accepted");
        let after = submit().explain().await.expect("an explanation");
        assert_eq!(after.submitted.outcome(), Some(Outcome::Duplicate));
        assert_eq!(
            after.holder.map(|(holder, _)| holder.id).as_ref(),
            Some(sent.id())
        );
        assert_eq!(stage.count(Counter::Duplicate).await, 0);
    })
    .await;
}

#[tokio::test]
async fn everything_said_about_a_job_arrives_with_it() {
    on_each_store(async |stage| {
        let jobs = stage.jobs.named("billing-api").expect("a name");
        let sent = jobs
            .submit(CHARGE, &charge(1))
            .header(
                "traceparent",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            )
            .headers([("tenant", "7")])
            .meta(&json!({"why": "invoice"}))
            .run_at(jiff_time("2027-02-01T00:00:00Z"))
            .max_deliveries(2)
            .token(token(5))
            .await
            .expect("accepted");
        assert_eq!(sent.id().as_str(), token(5).to_string());
        let job = jobs
            .job(sent.id().as_str())
            .expect("an id")
            .job()
            .await
            .expect("a job");
        assert_eq!(
            job.producer.as_ref().map(|name| name.as_str()),
            Some("billing-api")
        );
        assert_eq!(job.headers["tenant"], "7");
        assert!(job.headers["traceparent"].starts_with("00-4bf9"));
        assert_eq!(job.meta.expect("meta").as_str(), r#"{"why":"invoice"}"#);
        assert_eq!(job.run_at.to_string(), "2027-02-01T00:00:00Z");
        assert_eq!((job.max_attempts, job.max_deliveries), (3, 2));
        assert_eq!(job.timeout, Some(secs(30).into()));
    })
    .await;
}

fn jiff_time(text: &str) -> semel::semel_core::time::Timestamp {
    let request: SubmitRequest =
        serde_json::from_value(json!({"task": "t", "input": 1, "run_at": text})).expect("a request");
    match request.submission().expect("a submission").run_at {
        semel::semel_core::submission::RunAt::At(at) => at,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn observing_admits_and_says_what_would_have_been() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let first = jobs.submit(SYNC, &1).unique().await.expect("accepted");
        let watched = jobs
            .submit(SYNC, &1)
            .dedup(Dedup::input().observe())
            .await
            .expect("accepted");
        assert_eq!(watched.outcome(), Outcome::Accepted);
        let would = watched.would().expect("contract 2.13");
        assert_eq!((would.outcome, &would.holder), (Outcome::Duplicate, first.id()));

        let hybrid = |value: u64| {
            jobs.submit_json("import", &json!({"file": "a.csv", "size": value}))
                .by_hybrid(["/file"])
                .unique()
        };
        let one = hybrid(1).await.expect("accepted");
        let two = hybrid(2).await.expect("accepted: another input");
        assert_eq!(two.collides_with(), Some(one.id()), "contract 2.1");
        assert!(hybrid(2).await.expect("an answer").is_duplicate());
    })
    .await;
}

#[tokio::test]
async fn a_closed_intake_refuses_and_says_so() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let queue = Target::Queue(name("mail"));
        let operator = jobs.operate("alice").because("provider is down");
        operator.close(queue.clone()).await.expect("closed");
        let refused = jobs
            .submit(SYNC, &1)
            .queue("mail")
            .await
            .expect_err("contract 6.1");
        assert!(matches!(&refused, Error::Closed { target } if *target == queue));
        assert!(refused.is_retryable());
        assert!(jobs.submit(SYNC, &1).await.is_ok(), "others are taken");
        operator.open(queue).await.expect("opened");
        assert!(jobs.submit(SYNC, &1).queue("mail").await.is_ok());
        operator
            .close(Target::Task(name("sync_user")))
            .await
            .expect("closed");
        assert!(matches!(jobs.submit(SYNC, &2).await, Err(Error::Closed { .. })));
    })
    .await;
}

#[tokio::test]
async fn a_request_as_json_says_the_same_as_the_builder() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let sent = jobs
            .submit(CHARGE, &charge(1))
            .idempotency_key("k")
            .await
            .expect("accepted");
        let request = json!({
            "task": "charge_customer",
            "input": {"cents": 1.0, "order": "ORD-123"},
            "dedup": {"key": "k", "hold": "window"},
        });
        let request: SubmitRequest = serde_json::from_value(request).expect("a request");
        let again = jobs.submit_request(request.clone()).await.expect("a duplicate");
        assert_eq!(again.id(), sent.id());
        assert!(matches!(
            jobs.submit_request(request).unique().await,
            Err(Error::Invalid(_))
        ));

        for (wrong, word) in [
            (
                json!({"task": "t", "input": 1, "unique": true, "dedup": {}}),
                "two policies",
            ),
            (
                json!({"task": "t", "input": 1, "delay_ms": 1, "run_at": "2027-01-01T00:00:00Z"}),
                "run_at",
            ),
            (json!({"task": "t", "input": 1, "run_at": "tomorrow"}), "RFC 3339"),
            (json!({"task": "t", "input": 1, "priority": 500}), "priority"),
            (
                json!({"task": "t", "input": 1, "dedup": {"by": "fields"}}),
                "pointer",
            ),
            (
                json!({"task": "t", "input": 1, "dedup": {"scope": "custom"}}),
                "scope name",
            ),
            (
                json!({"task": "t", "input": 1, "dedup": {"on_duplicate": "debounce"}}),
                "debounce_ms",
            ),
            (
                json!({"task": "t", "input": 1, "idempotency_ttl_ms": 5}),
                "idempotency_ttl",
            ),
            (
                json!({"task": "t", "input": 1, "unique": false, "unique_for_ms": 5}),
                "unique",
            ),
        ] {
            let request: SubmitRequest = serde_json::from_value(wrong).expect("it is a request");
            let refused = jobs.submit_request(request).await.expect_err(word);
            assert!(refused.to_string().contains(word), "{word}: {refused}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_computed_key_is_the_one_a_submission_gets() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let input = json!({"order": 7, "cents": 100});
        for (name, pointers) in [("content_hash", &[][..]), ("hybrid", &["/order"][..])] {
            let strategy = semel::KeyStrategy::named(name, pointers).expect("a strategy");
            let key = strategy.compute("default", "charge", &input).expect("a key");
            let sent = jobs
                .submit_json("charge", &input)
                .dedup(strategy.dedup())
                .await
                .expect("accepted");
            let digest = match key {
                semel::ComputedKey::ContentHash(digest) => digest,
                semel::ComputedKey::Hybrid { whole, .. } => whole,
                semel::ComputedKey::Generated(_) => panic!("not asked for"),
            };
            assert_eq!(sent.key(), Some(digest));
            assert_eq!(strategy.validate(&key.to_string()).expect("valid"), key);
        }
        let generated = semel::KeyStrategy::named("generated", &[]).expect("a strategy");
        let keys = [1, 2].map(|_| generated.compute("default", "charge", &input).expect("a key"));
        assert_ne!(keys[0], keys[1], "each submission is its own");
        assert!(semel::KeyStrategy::named("md5", &[]).is_err());
        assert!(semel::KeyStrategy::named("hybrid", &[]).is_err());
        assert!(semel::KeyStrategy::named("content_hash", &["/a"]).is_err());
    })
    .await;
}
