//! What people do to a store: with a name, for a reason, on record (contract 6, 7.3).

mod client_stage;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use client_stage::{Stage, Wrapped, complete, failure, name, on_each_store};
use semel::semel_core::counters::Counter;
use semel::semel_core::dedup::Mode;
use semel::semel_core::store::{JobFilter, KeyFilter, Page};
use semel::{
    Action, AuditEntry, Error, Outcome, Retry, State, Status, Target, Task, connect_to, millis, mins,
};

const SYNC: Task<u64> = Task::new("sync_user");

async fn audit(stage: &Stage) -> Vec<AuditEntry> {
    let mut entries = stage.jobs.audit(Page::first(500)).await.expect("a feed").items;
    entries.reverse();
    entries
}

fn state(state: State) -> JobFilter {
    JobFilter {
        state: Some(state),
        ..JobFilter::default()
    }
}

/// Jobs that failed, each with an idempotency key of its own.
async fn dead_letters(stage: &Stage, count: u64) {
    for n in 0..count {
        stage
            .jobs
            .submit(SYNC, &n)
            .idempotency_key(n.to_string())
            .await
            .expect("accepted");
    }
    fail_all(stage).await;
}

async fn fail_all(stage: &Stage) {
    loop {
        let claimed = stage.claim(500).await;
        if claimed.is_empty() {
            return;
        }
        for one in claimed {
            client_stage::settle(&stage.jobs, &one, failure("provider is down")).await;
        }
    }
}

#[tokio::test]
async fn pausing_holds_work_back_for_a_while_and_is_on_record() {
    on_each_store(async |stage| {
        let operator = stage.jobs.operate("alice").because("provider is down");
        let mail = Target::Queue(name("mail"));
        stage.jobs.submit(SYNC, &1).queue("mail").await.expect("accepted");
        let setting = operator.pause_for(mail.clone(), mins(5)).await.expect("paused");
        assert_eq!(
            setting.paused.and_then(|pause| pause.reason).as_deref(),
            Some("provider is down")
        );
        assert!(stage.claim(1).await.is_empty(), "contract 6.1");
        stage.pass(mins(5));
        assert_eq!(stage.claim(1).await.len(), 1, "it was for a while");

        operator.pause(Target::All).await.expect("paused");
        stage.jobs.submit(SYNC, &2).await.expect("accepted");
        assert!(stage.claim(1).await.is_empty());
        operator.resume(Target::All).await.expect("resumed");
        assert_eq!(stage.claim(1).await.len(), 1);

        let acts: Vec<(String, String)> = audit(&stage)
            .await
            .into_iter()
            .map(|entry| (entry.act, entry.subject))
            .collect();
        let expected = [
            ("pause", "queue mail"),
            ("pause", "the store"),
            ("resume", "the store"),
        ];
        assert_eq!(
            acts,
            expected.map(|(act, subject)| (act.to_owned(), subject.to_owned()))
        );
        let first = &audit(&stage).await[0];
        assert_eq!(
            (first.actor.as_str(), first.reason.as_deref()),
            ("alice", Some("provider is down"))
        );
    })
    .await;
}

#[tokio::test]
async fn an_act_that_is_refused_is_on_record_with_the_reason() {
    on_each_store(async |stage| {
        let sent = stage.jobs.submit(SYNC, &1).await.expect("accepted");
        stage.run_next(complete("null")).await;
        let operator = stage.jobs.operate("alice");
        let refused = operator.cancel(sent.id()).await.expect_err("it has ended");
        assert!(matches!(
            refused,
            Error::WrongState {
                state: State::Complete,
                ..
            }
        ));
        let entries = audit(&stage).await;
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[1].refused.as_deref(), Some(refused.to_string().as_str()));
        let nobody = stage.jobs.operate("").pause(Target::All).await;
        assert!(matches!(nobody, Err(Error::Invalid(_))));
        assert!(
            stage.store.settings().await.expect("settings").is_empty(),
            "nothing without a name"
        );
        let long = stage
            .jobs
            .operate("bob")
            .because("x".repeat(1_001))
            .pause(Target::All)
            .await;
        assert!(matches!(long, Err(Error::Invalid(_))));
    })
    .await;
}

#[tokio::test]
async fn releasing_a_key_names_its_holder_and_a_reason() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let sent = jobs
            .submit(SYNC, &1)
            .idempotency_key("k")
            .await
            .expect("accepted");
        let digest = sent.key().expect("a key");
        let silent = jobs.operate("alice").release(digest, sent.id()).await;
        assert!(
            matches!(silent, Err(Error::Invalid(_))),
            "contract 7.3: {silent:?}"
        );
        let operator = jobs.operate("alice").because("customer asked to pay again");
        let other = jobs.submit(SYNC, &2).await.expect("accepted");
        let wrong = operator
            .release(digest, other.id())
            .await
            .expect_err("not the holder");
        assert_eq!(wrong.holder().map(|holder| &holder.id), Some(sent.id()));
        operator.release(digest, sent.id()).await.expect("released");
        let next = jobs
            .submit(SYNC, &1)
            .idempotency_key("k")
            .await
            .expect("accepted");
        assert_eq!(next.outcome(), Outcome::Accepted);
    })
    .await;
}

#[tokio::test]
async fn retry_replay_delete_and_the_removal_of_a_queue() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let operator = jobs.operate("alice");
        let sent = jobs.submit(SYNC, &1).queue("mail").await.expect("accepted");
        stage.run_next(failure("no")).await;
        assert_eq!(
            operator.retry(sent.id()).await.expect("retried").state,
            Some(State::Queued)
        );
        stage.run_next(failure("no")).await;
        let replay = operator.replay(sent.id()).await.expect("replayed");
        assert_eq!(operator.replay(sent.id()).await.expect("the same").id, replay.id);
        let gone = operator.retry(sent.id()).await.expect_err("replayed");
        assert!(matches!(gone, Error::Replayed { by, .. } if by == replay.id));
        stage.run_next(complete("null")).await;
        operator.delete(&replay.id).await.expect("deleted");
        assert!(matches!(
            operator.delete(&replay.id).await,
            Err(Error::NotFound { .. })
        ));
        assert_eq!(operator.remove_queue("mail").await.expect("removed"), 1);
        operator.mode(Target::All, Mode::Observe).await.expect("set");
        jobs.submit(SYNC, &2).unique().await.expect("accepted");
        assert!(
            jobs.submit(SYNC, &2)
                .unique()
                .await
                .expect("accepted")
                .would()
                .is_some()
        );
        operator.reset_stats().await.expect("reset");
        assert_eq!(stage.count(Counter::Accepted).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_plan_says_what_it_will_do_and_is_carried_out_on_exactly_that() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        dead_letters(&stage, 25).await;
        jobs.submit(SYNC, &100).await.expect("accepted");
        // Three keys were released and taken by others meanwhile: their letters cannot come back.
        for n in 0..3_u64 {
            let held = jobs
                .submit(SYNC, &n)
                .idempotency_key(n.to_string())
                .await
                .expect("absorbed");
            let operator = jobs.operate("alice").because("test");
            operator
                .release(held.key().expect("a key"), held.id())
                .await
                .expect("released");
            jobs.submit(SYNC, &n)
                .idempotency_key(n.to_string())
                .await
                .expect("accepted");
        }
        let operator = jobs.operate("alice").because("provider is back");
        let plan = operator
            .plan(Action::Replay, JobFilter::default())
            .await
            .expect("a plan");
        assert_eq!(
            (plan.status, plan.total, plan.ineligible),
            (Status::Planned, 25, 4)
        );
        assert_eq!((plan.collisions, plan.collisions_complete), (3, true));
        assert_eq!(plan.by_state[&State::Failed], 25);
        assert_eq!(
            (plan.samples.len(), plan.samples[0].error.as_deref()),
            (10, Some("provider is down"))
        );
        assert_eq!(stage.count(Counter::Accepted).await, 29, "a plan changes nothing");

        // One more fails after the plan was made: it is none of the plan's business.
        for claimed in stage.claim(1).await {
            client_stage::settle(jobs, &claimed, failure("later")).await;
        }
        let done = operator.carry_out(&plan.id).await.expect("carried out");
        assert_eq!((done.status, done.progress.done), (Status::Done, 22));
        assert_eq!(done.progress.refused, [("held".to_owned(), 3)].into());
        assert_eq!((done.progress.refusals.len(), done.progress.seen()), (3, 25));
        assert_eq!(stage.count(Counter::Accepted).await, 29 + 22);
        let letters = JobFilter {
            dead_letters: true,
            ..JobFilter::default()
        };
        let left = stage.store.jobs(letters, Page::first(100)).await.expect("a list");
        assert_eq!(
            left.items.len(),
            4,
            "three that were refused, one that came later"
        );
        assert_eq!(jobs.operation(&plan.id).await.expect("a document"), done);
        let parts = stage
            .store
            .documents(&name("operation_part"), "", Page::first(10))
            .await
            .expect("a list");
        assert!(parts.items.is_empty(), "nothing is left but what came of it");
        let again = operator.carry_out(&plan.id).await.expect("done before");
        assert_eq!(again, done, "carrying out twice is carrying out once");
    })
    .await;
}

#[tokio::test]
async fn cancel_retry_release_and_delete_by_filter() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let operator = jobs.operate("alice").because("clean-up");
        for n in 0..120_u64 {
            jobs.submit(SYNC, &n)
                .idempotency_key(n.to_string())
                .await
                .expect("accepted");
        }
        let run = async |action: Action, filter: JobFilter| {
            let plan = operator.plan(action, filter).await.expect("a plan");
            let done = operator.carry_out(&plan.id).await.expect("carried out");
            assert_eq!(done.progress.done, done.total, "{done:?}");
            done.total
        };
        assert_eq!(run(Action::Cancel, state(State::Queued)).await, 120);
        assert_eq!(run(Action::Retry, state(State::Cancelled)).await, 120);
        assert_eq!(stage.count(Counter::Retried).await, 120);
        fail_all(&stage).await;

        let filter = KeyFilter {
            text: Some("11".to_owned()),
            ..KeyFilter::default()
        };
        let keys = operator
            .plan(Action::Release, filter.clone())
            .await
            .expect("a plan");
        assert_eq!(keys.total, 11, "11 and 110 to 119");
        assert_eq!(
            operator
                .carry_out(&keys.id)
                .await
                .expect("released")
                .progress
                .done,
            11
        );
        let free = jobs
            .submit(SYNC, &11)
            .idempotency_key("11")
            .await
            .expect("accepted");
        assert_eq!(free.outcome(), Outcome::Accepted);
        let wrong = operator.plan(Action::Delete, filter).await;
        assert!(matches!(wrong, Err(Error::Invalid(_))), "keys are not deleted");

        assert_eq!(run(Action::Release, state(State::Failed)).await, 109);
        assert_eq!(run(Action::Delete, state(State::Failed)).await, 120);
        let left = stage
            .store
            .jobs(JobFilter::default(), Page::first(10))
            .await
            .expect("a list");
        assert_eq!(left.items.len(), 1);
        let empty = operator
            .plan(Action::Cancel, state(State::Parked))
            .await
            .expect("an empty plan");
        assert_eq!(
            operator.carry_out(&empty.id).await.expect("done").status,
            Status::Done
        );
    })
    .await;
}

#[tokio::test]
async fn an_operation_keeps_its_rate_shows_its_progress_and_stops_when_aborted() {
    on_each_store(async |stage| {
        dead_letters(&stage, 60).await;
        let operator = stage.jobs.operate("alice");
        let plan = operator
            .plan(Action::Retry, state(State::Failed))
            .await
            .expect("a plan");
        let running = tokio::spawn(operator.carry_out(&plan.id).rate(10).into_future());
        let progress = loop {
            let seen = stage.jobs.operation(&plan.id).await.expect("a document");
            if seen.progress.done > 0 {
                break seen;
            }
            tokio::time::sleep(millis(5)).await;
        };
        assert_eq!(
            (progress.status, progress.progress.done),
            (Status::Running, 10),
            "ten a second"
        );
        let second = operator.carry_out(&plan.id).await;
        assert!(
            matches!(second, Err(Error::UnderWay { .. })),
            "one at a time: {second:?}"
        );
        operator.abort(&plan.id).await.expect("aborted");
        let ended = running.await.expect("no panic").expect("ended");
        assert_eq!(ended.status, Status::Aborted);
        assert!(ended.progress.done <= 20, "{ended:?}");
        let after = operator.carry_out(&plan.id).await.expect("it stays aborted");
        assert_eq!(
            (after.status, after.progress.done),
            (Status::Aborted, ended.progress.done)
        );
        assert!(matches!(
            operator.carry_out("nothing").await,
            Err(Error::NotFound { .. })
        ));
        assert!(matches!(
            operator.carry_out(&plan.id).rate(0).await,
            Err(Error::Invalid(_))
        ));
        let words: Vec<String> = audit(&stage).await.into_iter().map(|entry| entry.act).collect();
        assert_eq!(words, ["carry_out", "abort"]);
    })
    .await;
}

/// The one who carries out ends between an act and the note of it, the worst moment there is; another carries
/// on, and nothing is done twice.
#[tokio::test]
async fn an_operation_is_carried_on_from_where_it_was_left() {
    on_each_store(async |stage| {
        dead_letters(&stage, 250).await;
        let store = Arc::new(Wrapped::new(stage.store.clone()));
        let jobs = connect_to(store.clone())
            .retry(Retry::never())
            .await
            .expect("a client");
        let operator = jobs.operate("alice");
        let plan = operator
            .plan(Action::Retry, state(State::Failed))
            .await
            .expect("a plan");
        store.down_after_act.store(true, Ordering::Release);
        let cut_off = operator.carry_out(&plan.id).await;
        assert!(
            matches!(cut_off, Err(Error::StoreUnavailable { .. })),
            "{cut_off:?}"
        );
        assert_eq!(stage.count(Counter::Retried).await, 100, "a step was done");
        assert_eq!(
            stage
                .jobs
                .operation(&plan.id)
                .await
                .expect("a document")
                .progress
                .seen(),
            0,
            "and not noted"
        );

        // What was retried has failed again by now: a step that is repeated must leave it alone.
        fail_all(&stage).await;
        store.is_down(false);
        let early = operator.carry_out(&plan.id).await;
        assert!(
            matches!(early, Err(Error::UnderWay { .. })),
            "its turn has not run out: {early:?}"
        );
        stage.pass(mins(1));
        let done = operator.carry_out(&plan.id).await.expect("carried on");
        assert_eq!((done.status, done.progress.seen()), (Status::Done, 250));
        assert_eq!(done.progress.refused, [("changed".to_owned(), 100)].into());
        assert_eq!(stage.count(Counter::Retried).await, 250, "each once");
    })
    .await;
}

/// Whoever stops waiting stops it; another carries on.
#[tokio::test]
async fn an_operation_that_was_dropped_is_carried_on() {
    on_each_store(async |stage| {
        dead_letters(&stage, 250).await;
        let operator = stage.jobs.operate("alice");
        let plan = operator
            .plan(Action::Replay, state(State::Failed))
            .await
            .expect("a plan");
        let running = tokio::spawn(operator.carry_out(&plan.id).rate(100).into_future());
        while stage.count(Counter::Accepted).await < 350 {
            tokio::time::sleep(millis(2)).await;
        }
        running.abort();
        let _ = running.await;
        stage.pass(mins(1));
        let done = operator.carry_out(&plan.id).await.expect("carried on");
        assert_eq!((done.status, done.progress.done), (Status::Done, 250));
        assert_eq!(stage.count(Counter::Accepted).await, 500);
    })
    .await;
}

#[tokio::test]
async fn lost_replies_do_not_spoil_an_operation() {
    on_each_store(async |stage| {
        dead_letters(&stage, 150).await;
        let store = Arc::new(Wrapped::new(stage.store.clone()));
        let retry = Retry {
            first: millis(1),
            ..Retry::default()
        };
        let jobs = connect_to(store.clone()).retry(retry).await.expect("a client");
        let operator = jobs.operate("alice");
        let plan = operator
            .plan(Action::Replay, state(State::Failed))
            .await
            .expect("a plan");
        store.lose_replies.store(2, Ordering::Release);
        let done = operator.carry_out(&plan.id).await.expect("carried out");
        assert_eq!(done.progress.done, 150);
        assert_eq!(stage.count(Counter::Accepted).await, 300);
    })
    .await;
}
