//! From a business transaction to a job (contract 5.5).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel::testing::{Call, Intercept, InterceptedStore};
use semel_core::error::StoreError;
use semel_outbox::{Error, Event, Relay, postgres, sqlite};

use crate::stage::{Kind, Stage, now};

/// Inserts by the SQLite that another language brings along, which may be years older than ours.
const OTHER_PROGRAM: &str = "import sqlite3, sys
shop = sqlite3.connect(sys.argv[1])
shop.execute(sys.argv[2])
shop.commit()";

fn receipt(order: i64) -> Event {
    let input = serde_json::json!({"id": format!("order-{order}")});
    Event::new("send_receipt", &input)
        .unwrap()
        .id(format!("order-{order}"))
        .partition("customer-1")
        .queue("mail")
        .priority(3)
        .header("traceparent", "00-1")
}

/// Does the business of one order; commits or not.
async fn order(stage: &Stage, id: i64, commit: bool) -> Result<(), Error> {
    let insert = format!("INSERT INTO orders (id, customer) VALUES ({id}, 'ann')");
    match stage.kind {
        Kind::Postgres => {
            let mut client = stage.client().await;
            let tx = client.transaction().await.unwrap();
            let business = async |tx: &tokio_postgres::Transaction<'_>| {
                tx.batch_execute(&insert).await.unwrap();
                Ok::<(), Error>(())
            };
            postgres::execute(&tx, business, &[receipt(id)]).await?;
            match commit {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
        }
        Kind::Sqlite => {
            let mut connection = stage.connection();
            let tx = connection.transaction().unwrap();
            let business = |tx: &rusqlite::Transaction<'_>| {
                tx.execute_batch(&insert).unwrap();
                Ok::<(), Error>(())
            };
            sqlite::execute(&tx, business, &[receipt(id)])?;
            match commit {
                true => tx.commit().unwrap(),
                false => tx.rollback().unwrap(),
            }
        }
    }
    Ok(())
}

pub async fn business_and_event_are_one_transaction(kind: Kind) {
    let stage = Stage::new(kind).await;
    order(&stage, 1, true).await.unwrap();
    order(&stage, 2, false).await.unwrap();
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 1);
    assert_eq!(stage.number("SELECT count(*) FROM semel_outbox").await, 1);
    let round = Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    assert_eq!((round.sent, round.repeated), (1, 0));
    assert_eq!(stage.submitted().await, ["order-1"]);
}

pub async fn an_event_becomes_one_job_with_its_id_as_key(kind: Kind) {
    let stage = Stage::new(kind).await;
    order(&stage, 7, true).await.unwrap();
    let relay = Relay::new(stage.source.clone(), &stage.jobs);
    assert_eq!(relay.drain().await.unwrap().sent, 1);
    assert_eq!(
        relay.drain().await.unwrap().taken,
        0,
        "what was sent is not sent again"
    );
    let jobs = stage.jobs.store();
    let found = jobs
        .jobs(Default::default(), semel_core::store::Page::first(10))
        .await
        .unwrap();
    let [job] = &found.items[..] else {
        panic!("{:?}", found.items);
    };
    assert_eq!(
        (job.task.as_str(), job.queue.as_str(), job.priority),
        ("send_receipt", "mail", 3)
    );
    assert_eq!(job.headers["traceparent"], "00-1");
    assert_eq!(job.key.as_ref().unwrap().text.as_deref(), Some("order-7"));
    let marked = format!(
        "SELECT count(*) FROM semel_outbox WHERE sent_at IS NOT NULL AND job = '{}'",
        job.id
    );
    assert_eq!(stage.number(&marked).await, 1);
}

/// A relay that died after the store had answered: its successor sends again, and that is the same job.
pub async fn an_event_that_was_sent_before_gives_the_same_job(kind: Kind) {
    let stage = Stage::new(kind).await;
    stage.event("e-1", "t", None).await;
    let input = serde_json::json!({"id": "e-1"});
    let first = stage
        .jobs
        .submit_json("t", &input)
        .idempotency_key("e-1")
        .await
        .unwrap();
    let round = Relay::new(stage.source.clone(), &stage.jobs)
        .drain()
        .await
        .unwrap();
    assert_eq!((round.sent, round.repeated), (1, 1));
    assert_eq!(stage.submitted().await.len(), 1);
    let marked = format!("SELECT count(*) FROM semel_outbox WHERE job = '{}'", first.id());
    assert_eq!(stage.number(&marked).await, 1);
}

pub async fn the_insert_that_is_documented_works_from_other_programs(kind: Kind) {
    let stage = Stage::new(kind).await;
    let migration = match kind {
        Kind::Postgres => postgres::MIGRATION,
        Kind::Sqlite => sqlite::MIGRATION,
    };
    let mut lines = migration.lines().filter_map(|line| line.strip_prefix("--   "));
    let insert = lines.next().unwrap();
    assert!(insert.starts_with("INSERT INTO semel_outbox"), "{insert}");
    match kind {
        Kind::Postgres => stage.run(insert).await,
        Kind::Sqlite => {
            let file = stage.file().display().to_string();
            let mut program = std::process::Command::new("python3");
            let done = program
                .args(["-c", OTHER_PROGRAM, &file, insert])
                .output()
                .unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
    let status = stage.source.status().await.unwrap();
    assert!(status.pending == 1 && status.lag_ms < 600_000, "{status:?}");
    let relay = Relay::new(stage.source.clone(), &stage.jobs);
    assert_eq!(relay.drain().await.unwrap().sent, 1);
}

pub async fn what_makes_no_sense_is_refused_before_anything_is_done(kind: Kind) {
    let stage = Stage::new(kind).await;
    let long = "x".repeat(256);
    for event in [
        Event::new("", &1).unwrap(),
        Event::new("t", &1).unwrap().id(""),
        Event::new("t", &1).unwrap().id(long.as_str()),
        Event::new("t", &1).unwrap().partition(long.as_str()),
        Event::new("t", &1).unwrap().priority(101),
    ] {
        let refused = match kind {
            Kind::Postgres => {
                let mut client = stage.client().await;
                let tx = client.transaction().await.unwrap();
                let business = async |_: &tokio_postgres::Transaction<'_>| -> Result<(), Error> {
                    panic!("the business was done");
                };
                postgres::execute(&tx, business, std::slice::from_ref(&event)).await
            }
            Kind::Sqlite => {
                let mut connection = stage.connection();
                let tx = connection.transaction().unwrap();
                let business = |_: &rusqlite::Transaction<'_>| -> Result<(), Error> {
                    panic!("the business was done");
                };
                sqlite::execute(&tx, business, std::slice::from_ref(&event))
            }
        };
        assert!(
            matches!(refused, Err(Error::Invalid(_))),
            "{event:?}: {refused:?}"
        );
    }
}

/// With nothing to wake it a relay would look again after a minute.
pub async fn a_relay_hears_of_an_event_at_once(kind: Kind) {
    let stage = Stage::new(kind).await;
    let relay = Relay::new(stage.source.clone(), &stage.jobs).idle(Duration::from_secs(60));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move {
        relay
            .run_until(async {
                let _ = stopped.await;
            })
            .await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = now();
    stage.event("e-1", "t", None).await;
    while stage.submitted().await.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "nobody woke the relay");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(()).unwrap();
    assert_eq!(running.await.unwrap().sent, 1);
}

/// Many lose events here: an error of the store that is taken for an answer.
pub async fn while_the_store_does_not_answer_nothing_is_marked(kind: Kind) {
    for lost_reply in [false, true] {
        let stage = Stage::new(kind).await;
        stage.event("e-1", "t", Some("p")).await;
        let out_of_reach = Arc::new(OutOfReach {
            lost_reply,
            left: AtomicUsize::new(1),
        });
        let broken = Arc::new(InterceptedStore::new(stage.jobs.store().clone(), out_of_reach));
        let jobs = semel::connect_to(broken).await.unwrap();
        let relay = Relay::new(stage.source.clone(), &jobs);
        assert!(matches!(relay.round().await, Err(Error::Store(_))));
        let untouched = "SELECT count(*) FROM semel_outbox WHERE sent_at IS NULL AND attempts = 0";
        assert_eq!(stage.number(untouched).await, 1);
        let round = relay.drain().await.unwrap();
        assert_eq!((round.sent, round.repeated), (1, u64::from(lost_reply)));
        assert_eq!(stage.submitted().await, ["e-1"]);
    }
}

/// A store that cannot be reached for a submission, or whose reply is lost.
struct OutOfReach {
    lost_reply: bool,
    left: AtomicUsize,
}

impl OutOfReach {
    fn meet(&self, call: &Call) -> Result<(), StoreError> {
        let met = *call == Call::Submit
            && self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok();
        match met {
            true => Err(StoreError::unavailable("submitting")),
            false => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Intercept for OutOfReach {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        if self.lost_reply { Ok(()) } else { self.meet(call) }
    }

    async fn after(&self, call: &Call) -> Result<(), StoreError> {
        if self.lost_reply { self.meet(call) } else { Ok(()) }
    }
}
