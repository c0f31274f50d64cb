//! `semel outbox relay --from postgres://… --to redis://…` as a process between two real servers, killed on the way.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../../semel-outbox/tests/outbox/stage/server.rs"]
#[allow(dead_code)]
mod postgres;
#[path = "../../semel-redis/tests/server/mod.rs"]
mod server;
mod stage;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use postgres::{PostgresServer, connect};
use server::Server;
use stage::Stage;

const ORDERS: u64 = 400;
const KILLS: u64 = 8;

/// A relay that is killed when it is dropped.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn relay(stage: &Stage, from: &str, to: &str) -> Relay {
    let mut command = stage.command(&["outbox", "relay", "--from", from, "--to", to, "--batch", "7"]);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    Relay(command.spawn().unwrap())
}

async fn number(client: &tokio_postgres::Client, sql: &str) -> u64 {
    let number: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    number.unsigned_abs()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(
    clippy::disallowed_methods,
    reason = "how soon it hears is measured in real time"
)]
async fn events_of_postgres_become_jobs_in_redis_each_once() {
    let (shop, redis, stage) = (PostgresServer::start(), Server::start(), Stage::new());
    let from = format!("postgres://postgres@127.0.0.1:{}/postgres", shop.port);
    let to = redis.url();
    let made = stage.run(&["outbox", "status", "--from", &from]);
    assert_eq!(made.code, 0, "{made:#?}");
    let client = connect(&from).await;
    client
        .batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
        .await
        .unwrap();
    for kill in 0..KILLS {
        let (first, last) = (kill * ORDERS / KILLS + 1, (kill + 1) * ORDERS / KILLS);
        let sent = "SELECT count(*) FROM semel_outbox WHERE sent_at IS NOT NULL";
        let before = number(&client, sent).await;
        let running = relay(&stage, &from, &to);
        let orders = format!(
            "BEGIN; INSERT INTO orders SELECT generate_series({first}, {last}); \
             INSERT INTO semel_outbox (id, task, input, partition) \
             SELECT 'order-' || n, 'receipt', ('[' || n || ']')::json, 'p' || n % 3 FROM generate_series({first}, {last}) n; COMMIT"
        );
        client.batch_execute(&orders).await.unwrap();
        // It is killed once it has begun, at another point each time.
        let begun = Instant::now();
        while number(&client, sent).await <= before + kill * 3 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the relay does nothing"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(running);
    }
    let drained = stage.json(&["outbox", "relay", "--from", &from, "--to", &to, "--drain"]);
    let status = stage.json(&["outbox", "status", "--from", &from]);
    assert_eq!(
        (&status["pending"], &status["parked"]),
        (&0.into(), &0.into()),
        "{drained}"
    );
    let stats = stage.json(&["stats", "--store", &to]);
    assert_eq!(stats["accepted"], ORDERS, "{stats}");
    let paired = "SELECT count(*) FROM orders o JOIN semel_outbox e ON e.id = 'order-' || o.id WHERE e.sent_at IS NOT NULL AND e.job IS NOT NULL";
    assert_eq!(number(&client, paired).await, ORDERS);
    let jobs = "SELECT count(DISTINCT job) FROM semel_outbox";
    assert_eq!(number(&client, jobs).await, ORDERS, "a job for each");

    // With nothing to do it hears of a commit at once: on its own it looks once in a second.
    let running = relay(&stage, &from, &to);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut soonest = Duration::MAX;
    for n in 0..10 {
        let event =
            format!("INSERT INTO semel_outbox (id, task, input) VALUES ('single-{n}', 'receipt', '1')");
        client.batch_execute(&event).await.unwrap();
        let committed = Instant::now();
        let waiting = "SELECT count(*) FROM semel_outbox WHERE sent_at IS NULL";
        while number(&client, waiting).await > 0 {
            assert!(
                committed.elapsed() < Duration::from_secs(30),
                "event {n} is not relayed"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        soonest = soonest.min(committed.elapsed());
    }
    drop(running);
    assert!(soonest < Duration::from_millis(500), "{soonest:?}");
}
