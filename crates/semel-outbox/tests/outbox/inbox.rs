//! Effects on the user's own database, exactly once (contract 5.4).

use semel::testing::Kit;
use semel::{Job, JobResult, Task, Worker};
use semel_outbox::{Delivery, Error, postgres, sqlite};

use crate::stage::{Kind, Stage};

fn delivery(fence: i64) -> Delivery {
    Delivery {
        origin: "job-1".to_owned(),
        job: "job-1".to_owned(),
        fence,
    }
}

/// Inserts an order in a transaction of its own, once; says which was kept.
async fn once(stage: &Stage, delivery: Delivery, order: i64, commit: bool) -> Result<i64, Error> {
    let insert = format!("INSERT INTO orders (id, customer) VALUES ({order}, 'ann')");
    match stage.kind {
        Kind::Postgres => {
            let mut client = stage.client().await;
            let tx = client.transaction().await.unwrap();
            let effect = async |tx: &tokio_postgres::Transaction<'_>| {
                tx.batch_execute(&insert).await.unwrap();
                Ok::<i64, Error>(order)
            };
            let kept = postgres::once(&tx, delivery, "insert", effect).await?;
            if commit {
                tx.commit().await.unwrap();
            }
            Ok(kept)
        }
        Kind::Sqlite => {
            let mut connection = stage.connection();
            let tx = connection
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
                .unwrap();
            let effect = |tx: &rusqlite::Transaction<'_>| {
                tx.execute_batch(&insert).unwrap();
                Ok::<i64, Error>(order)
            };
            let kept = sqlite::once(&tx, delivery, "insert", effect)?;
            if commit {
                tx.commit().unwrap();
            }
            Ok(kept)
        }
    }
}

pub async fn effect_and_record_commit_together(kind: Kind) {
    let stage = Stage::new(kind).await;
    assert_eq!(once(&stage, delivery(1), 1, false).await.unwrap(), 1);
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 0);
    assert_eq!(stage.number("SELECT count(*) FROM semel_inbox").await, 0);
    assert_eq!(
        once(&stage, delivery(1), 1, true).await.unwrap(),
        1,
        "what was not committed is done again"
    );
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 1);
}

/// Half of an effect, then an error, and a caller that commits all the same.
pub async fn an_effect_that_fails_leaves_nothing_even_where_the_caller_commits(kind: Kind) {
    let stage = Stage::new(kind).await;
    let insert = "INSERT INTO orders (id, customer) VALUES (1, 'half')";
    let failed = || Error::from(semel_core::error::Invalid::new("the effect", "another one"));
    match kind {
        Kind::Postgres => {
            let mut client = stage.client().await;
            let tx = client.transaction().await.unwrap();
            let effect = async |tx: &tokio_postgres::Transaction<'_>| {
                tx.batch_execute(insert).await.unwrap();
                Err::<(), Error>(failed())
            };
            postgres::once(&tx, delivery(3), "insert", effect)
                .await
                .unwrap_err();
            // A statement that fails is no reason to lose what the caller did before.
            let effect = async |tx: &tokio_postgres::Transaction<'_>| {
                tx.batch_execute("SELECT 1 / 0").await.map_err(|_| failed())
            };
            postgres::once(&tx, delivery(3), "insert", effect)
                .await
                .unwrap_err();
            tx.batch_execute("INSERT INTO orders (id, customer) VALUES (9, 'caller')")
                .await
                .unwrap();
            tx.commit().await.unwrap();
        }
        Kind::Sqlite => {
            let mut connection = stage.connection();
            let tx = connection.transaction().unwrap();
            let effect = |tx: &rusqlite::Transaction<'_>| {
                tx.execute_batch(insert).unwrap();
                Err::<(), Error>(failed())
            };
            sqlite::once(&tx, delivery(3), "insert", effect).unwrap_err();
            tx.execute_batch("INSERT INTO orders (id, customer) VALUES (9, 'caller')")
                .unwrap();
            tx.commit().unwrap();
        }
    }
    assert_eq!(stage.number("SELECT count(*) FROM semel_inbox").await, 0);
    assert_eq!(
        stage.number("SELECT count(*) FROM orders").await,
        1,
        "the caller's own row and nothing of the effect"
    );
    assert_eq!(once(&stage, delivery(3), 1, true).await.unwrap(), 1);
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 2);
}

pub async fn an_effect_is_carried_out_once_and_its_output_kept(kind: Kind) {
    let stage = Stage::new(kind).await;
    once(&stage, delivery(1), 1, true).await.unwrap();
    let replayed = Delivery {
        origin: "job-1".to_owned(),
        job: "job-2".to_owned(),
        fence: 9,
    };
    assert_eq!(
        once(&stage, delivery(5), 2, true).await.unwrap(),
        1,
        "the first output, not a second effect"
    );
    assert_eq!(
        once(&stage, replayed, 3, true).await.unwrap(),
        1,
        "through a replay too"
    );
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 1);
}

pub async fn an_older_delivery_changes_nothing(kind: Kind) {
    let stage = Stage::new(kind).await;
    let other_step = Delivery {
        origin: "job-0".to_owned(),
        ..delivery(7)
    };
    once(&stage, other_step, 1, true).await.unwrap();
    let stale = once(&stage, delivery(6), 2, true).await;
    assert!(matches!(stale, Err(Error::Stale { fence: 6, .. })), "{stale:?}");
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 1);
    once(&stage, delivery(7), 3, true).await.unwrap();
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 2);
}

pub async fn of_many_deliveries_at_once_one_carries_it_out(kind: Kind) {
    let stage = std::sync::Arc::new(Stage::new(kind).await);
    let all: Vec<_> = (1..=30)
        .map(|fence| {
            let stage = stage.clone();
            tokio::spawn(async move { once(&stage, delivery(fence), fence, true).await })
        })
        .collect();
    let mut kept = Vec::new();
    for one in all {
        match one.await.unwrap() {
            Ok(order) => kept.push(order),
            Err(Error::Stale { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 1);
    let order = stage.number("SELECT CAST(id AS bigint) FROM orders").await;
    assert!(
        !kept.is_empty() && kept.iter().all(|found| *found == order),
        "{kept:?} {order}"
    );
}

const BOOK: Task<i64, i64> = Task::new("book").max_attempts(2);

/// Fails after its effect, as a worker does that dies between commit and settle.
async fn book(job: Job<i64>, stage: std::sync::Arc<Stage>) -> JobResult<i64> {
    let kept = once(&stage, Delivery::from(&*job), job.input, true).await?;
    if job.attempt() < 3 && job.id() == job.origin() {
        return Err("lost on the way home".into());
    }
    Ok(kept)
}

pub async fn a_job_has_its_effect_once_through_retry_and_replay(kind: Kind) {
    let stage = std::sync::Arc::new(Stage::new(kind).await);
    let kit = Kit::new();
    let jobs = kit.client();
    let worker = kit
        .worker(Worker::new(jobs, stage.clone()).task(BOOK, book))
        .await;
    let sent = jobs.submit(BOOK, &41).await.unwrap();
    worker.run_all().await;
    let failed = jobs.job(sent.id().as_str()).unwrap().job().await.unwrap();
    assert_eq!((failed.state, failed.attempt), (semel::State::Failed, 2));
    let replay = jobs.operate("tester").replay(sent.id()).await.unwrap();
    worker.run_all().await;
    let done = jobs.job(replay.id.as_str()).unwrap().job().await.unwrap();
    assert_eq!(done.state, semel::State::Complete);
    assert_eq!(stage.number("SELECT count(*) FROM orders WHERE id = 41").await, 1);
}
