//! Events and those who subscribed to them (contract 3.2).

mod client_stage;

use client_stage::{complete, failure, on_each_store};
use semel::semel_core::job::Outcome;
use semel::{Error, Task, connect, mins, secs};
use serde_json::json;

const RECEIPT: Task<u64> = Task::new("send_receipt")
    .queue("mail")
    .max_attempts(2)
    .timeout(secs(9));
const LEDGER: Task<u64> = Task::new("book_payment").unique_for(mins(5));

#[tokio::test]
async fn each_subscriber_has_one_job_however_often_the_event_is_sent() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let paid = jobs.event("order.paid");
        paid.subscribe(RECEIPT).await.expect("subscribed");
        paid.subscribe(LEDGER).await.expect("subscribed");
        let first = paid.send_idempotent("evt_1", &42).await.expect("sent");
        let tasks: Vec<&str> = first.iter().map(|delivered| delivered.task.as_str()).collect();
        assert_eq!(tasks, ["book_payment", "send_receipt"]);
        for claimed in stage.claim(10).await {
            client_stage::settle(jobs, &claimed, complete("null")).await;
        }
        let second = paid.send_idempotent("evt_1", &42).await.expect("sent again");
        for (one, two) in first.iter().zip(&second) {
            let (one, two) = (
                one.submitted.as_ref().expect("accepted"),
                two.submitted.as_ref().expect("absorbed"),
            );
            assert_eq!(
                (one.outcome(), two.outcome()),
                (Outcome::Accepted, Outcome::Duplicate)
            );
            assert_eq!(one.id(), two.id(), "kept after the end: window, use_existing");
        }
        let another = paid.send_idempotent("evt_2", &42).await.expect("sent");
        assert!(
            another
                .iter()
                .all(|delivered| delivered.submitted.as_ref().is_ok_and(|it| !it.is_duplicate()))
        );
    })
    .await;
}

#[tokio::test]
async fn sending_again_completes_what_one_subscriber_missed() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let paid = jobs.event("order.paid");
        paid.subscribe(RECEIPT).await.expect("subscribed");
        paid.send_idempotent("evt_1", &42).await.expect("sent");
        paid.subscribe(LEDGER).await.expect("subscribed later");
        let again = paid.send_idempotent("evt_1", &42).await.expect("sent again");
        let outcomes: Vec<_> = again
            .iter()
            .map(|it| it.submitted.as_ref().expect("an answer").outcome())
            .collect();
        assert_eq!(outcomes, [Outcome::Accepted, Outcome::Duplicate]);

        let other = paid
            .send_idempotent("evt_1", &43)
            .await
            .expect("sent with another input");
        assert!(
            other
                .iter()
                .all(|it| matches!(it.submitted, Err(Error::IdempotencyConflict { .. })))
        );
    })
    .await;
}

#[tokio::test]
async fn the_jobs_of_an_event_are_what_their_task_says() {
    on_each_store(async |stage| {
        let jobs = stage.jobs.named("shop").expect("a name");
        let paid = jobs.event("order.paid");
        paid.subscribe(RECEIPT).await.expect("subscribed");
        paid.subscribe(LEDGER).await.expect("subscribed");
        paid.subscribe_named("audit", Some("slow"))
            .await
            .expect("subscribed");
        let sent = paid.send(&7).await.expect("sent");
        let ids: Vec<_> = sent
            .iter()
            .map(|it| it.submitted.as_ref().expect("accepted").id().clone())
            .collect();
        let found: Vec<_> = jobs
            .store()
            .jobs_by_id(&ids)
            .await
            .expect("an answer")
            .into_iter()
            .flatten()
            .collect();
        let (audit, ledger, receipt) = (&found[0], &found[1], &found[2]);
        assert_eq!((receipt.queue.as_str(), receipt.max_attempts), ("mail", 2));
        assert_eq!(receipt.timeout, Some(secs(9).into()));
        assert_eq!((audit.queue.as_str(), ledger.queue.as_str()), ("slow", "default"));
        assert!(
            ledger.key.is_some() && receipt.key.is_none(),
            "the policy of the task stands"
        );
        assert_eq!(receipt.producer.as_ref().map(|name| name.as_str()), Some("shop"));
        let again = paid.send(&7).await.expect("sent");
        let outcomes: Vec<_> = again
            .iter()
            .map(|it| it.submitted.as_ref().expect("an answer").outcome())
            .collect();
        assert_eq!(
            outcomes,
            [Outcome::Accepted, Outcome::Duplicate, Outcome::Accepted]
        );
    })
    .await;
}

#[tokio::test]
async fn an_event_nobody_waits_for_is_an_error_unless_allowed() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        let lost = jobs.event("order.paid").send(&json!({"order": 1})).await;
        match lost {
            Err(error @ Error::NoSubscribers { .. }) => {
                assert!(error.to_string().contains("hint: "), "{error}")
            }
            other => panic!("{other:?}"),
        }
        assert!(
            jobs.event("order.paid")
                .send(&1)
                .allow_none()
                .await
                .expect("allowed")
                .is_empty()
        );
        jobs.event("order.paid")
            .subscribe(RECEIPT)
            .await
            .expect("subscribed");
        assert!(
            jobs.event("order.paid")
                .unsubscribe("send_receipt")
                .await
                .expect("gone")
        );
        assert!(
            !jobs
                .event("order.paid")
                .unsubscribe("send_receipt")
                .await
                .expect("was not there")
        );
        assert!(matches!(
            jobs.event("order.paid").send(&1).await,
            Err(Error::NoSubscribers { .. })
        ));
        assert!(matches!(jobs.event("").send(&1).await, Err(Error::Invalid(_))));
        assert!(matches!(
            jobs.event("order.paid").subscribe_named("", None).await,
            Err(Error::Invalid(_))
        ));
    })
    .await;
}

#[tokio::test]
async fn names_with_slashes_do_not_run_into_each_other() {
    on_each_store(async |stage| {
        let jobs = &stage.jobs;
        jobs.event("a")
            .subscribe_named("b/c", None)
            .await
            .expect("subscribed");
        jobs.event("a/b")
            .subscribe_named("c", None)
            .await
            .expect("subscribed");
        let tasks = async |event: &str| {
            let found = jobs.event(event).subscribers().await.expect("a list");
            found
                .into_iter()
                .map(|it| it.task.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(tasks("a").await, ["b/c"]);
        assert_eq!(tasks("a/b").await, ["c"]);
        assert_eq!(jobs.subscribers().await.expect("all").len(), 2);
    })
    .await;
}

/// More than a page of documents, more than one call of submissions.
#[tokio::test]
async fn an_event_reaches_any_number_of_subscribers() {
    let jobs = connect("memory:").await.expect("a store");
    for n in 0..1_200 {
        jobs.event("tick")
            .subscribe_named(&format!("task-{n}"), None)
            .await
            .expect("subscribed");
    }
    let sent = jobs
        .event("tick")
        .send_idempotent("t1", &1)
        .ttl(mins(1))
        .await
        .expect("sent");
    assert_eq!(sent.len(), 1_200);
    assert!(sent.iter().all(|delivered| delivered.submitted.is_ok()));
}

/// A subscription outlives the process that made it, and starting again writes nothing.
#[tokio::test]
async fn subscriptions_are_durable() {
    let place = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let document = async |jobs: &semel::Client| {
        let kind = semel::Name::new("subscriber").expect("a name");
        let page = semel::semel_core::store::Page::first(10);
        let listed = jobs.store().documents(&kind, "", page).await.expect("a list");
        listed.items[0].clone()
    };
    let jobs = connect(&url).await.expect("a store");
    jobs.event("order.paid")
        .subscribe(RECEIPT)
        .await
        .expect("subscribed");
    let before = document(&jobs).await;
    drop(jobs);
    let jobs = connect(&url).await.expect("a store");
    jobs.event("order.paid").subscribe(RECEIPT).await.expect("again");
    assert_eq!(document(&jobs).await, before);
    let sent = jobs
        .event("order.paid")
        .send_idempotent("evt_1", &1)
        .await
        .expect("sent");
    assert_eq!(sent.len(), 1);
}

#[tokio::test]
async fn a_failed_job_of_an_event_keeps_its_key() {
    on_each_store(async |stage| {
        let paid = stage.jobs.event("order.paid");
        paid.subscribe(RECEIPT).await.expect("subscribed");
        paid.send_idempotent("evt_1", &42).await.expect("sent");
        stage.run_next(failure("no such address")).await;
        let again = paid.send_idempotent("evt_1", &42).await.expect("sent again");
        let submitted = again[0].submitted.as_ref().expect("absorbed");
        assert_eq!(
            submitted.holder().state,
            semel::State::Failed,
            "said so, and not run again"
        );
    })
    .await;
}
