//! Postgres itself killed under load: what is committed becomes one job each, and nothing else does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use semel_outbox::{Error, Event, Plain, Relay, open, postgres};
use tokio_postgres::NoTls;

use crate::random::{Random, seed};
use crate::stage::server::PostgresServer;
use crate::stage::{Kind, Stage, books};

const WRITERS: i64 = 4;

pub async fn campaign(full: bool) -> String {
    let kills = if full { 20 } else { 2 };
    let mut server = PostgresServer::start();
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", server.port);
    let source = open(&url, Plain::Refuse).await.unwrap();
    let setup = crate::stage::server::connect(&url).await;
    setup
        .batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let jobs = semel::connect(format!("sqlite:{}", dir.path().join("jobs.db").display()))
        .await
        .unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let answered = Arc::new(AtomicI64::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(url.clone(), writer, stopped.clone(), answered.clone())))
        .collect();
    let relays: Vec<_> = (0..2)
        .map(|_| {
            let relay = Relay::new(source.clone(), &jobs)
                .batch(50)
                .idle(Duration::from_millis(100));
            let mut stopped = stopped.clone();
            tokio::spawn(async move {
                let until = async move {
                    let _ = stopped.wait_for(|stop| *stop).await;
                };
                relay.run_until(until).await
            })
        })
        .collect();
    let mut random = Random::new(seed());
    for _ in 0..kills {
        some_more(&answered).await;
        tokio::time::sleep(Duration::from_millis(random.below(40))).await;
        tokio::task::block_in_place(|| {
            server.kill();
            server.launch();
        });
    }
    some_more(&answered).await;
    stop.send(true).unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    for relay in relays {
        relay.await.unwrap();
    }
    let relay = Relay::new(source.clone(), &jobs);
    while relay.status().await.unwrap().pending > 0 {
        relay.drain().await.unwrap();
    }
    let stage = Stage {
        kind: Kind::Postgres,
        source,
        jobs,
        dir,
        url,
    };
    let booked = books(&stage, &stage.jobs, WRITERS).await;
    let orders = stage.number("SELECT count(*) FROM orders").await;
    let answered = answered.load(Ordering::SeqCst);
    let told = format!("Postgres: {kills} kills under load; {answered} commits answered, {booked}");
    assert!(orders >= answered, "an answered commit was lost: {told}");
    told
}

/// Waits until some more commits were answered.
async fn some_more(answered: &AtomicI64) {
    let before = answered.load(Ordering::SeqCst);
    let waiting = async {
        while answered.load(Ordering::SeqCst) < before + 40 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(120), waiting).await;
    waited.expect("the database takes no orders any more");
}

/// Orders, one transaction each, until told to stop; a server that is gone is waited for.
async fn write(
    url: String,
    writer: i64,
    stopped: tokio::sync::watch::Receiver<bool>,
    answered: Arc<AtomicI64>,
) {
    let mut n = 0;
    while !*stopped.borrow() {
        let Ok((mut client, connection)) = tokio_postgres::connect(&url, NoTls).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let driving = tokio::spawn(connection);
        while !*stopped.borrow() {
            n += 1;
            // A number that is never used again: whether an unanswered commit was applied does not matter.
            let id = n * WRITERS + writer;
            if order(&mut client, id).await.is_err() {
                break;
            }
            answered.fetch_add(1, Ordering::SeqCst);
        }
        driving.abort();
    }
}

async fn order(client: &mut tokio_postgres::Client, id: i64) -> Result<(), Error> {
    let failed = |source: tokio_postgres::Error| Error::Database {
        doing: "taking an order",
        source: source.into(),
    };
    let tx = client.transaction().await.map_err(failed)?;
    // The orders of one writer follow each other; those of several have no order.
    let event = Event::new("t", &serde_json::json!({"id": format!("order-{id}")}))?
        .id(format!("order-{id}"))
        .partition(format!("writer-{}", id % WRITERS));
    let business = async |tx: &tokio_postgres::Transaction<'_>| {
        tx.execute("INSERT INTO orders VALUES ($1)", &[&id])
            .await
            .map_err(failed)?;
        Ok::<(), Error>(())
    };
    postgres::execute(&tx, business, &[event]).await?;
    tx.commit().await.map_err(failed)
}
