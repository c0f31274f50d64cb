//! A payment service: a request with an `Idempotency-Key`, a row and an event in one Postgres transaction, a relay, a
//! worker, and a payment provider that honours keys. Whatever is repeated on the way, a card is charged once.
//!
//! `cargo run -p semel-outbox --example payment_service -- postgres://postgres@localhost/shop`

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use semel::{Client, Job, JobResult, Task, Worker};
use semel_outbox::{Event, Plain, Relay, open, postgres};
use semel_tower::IdempotencyLayer;
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;
use tower::ServiceExt;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Payment {
    order: String,
    amount: i64,
}

const CHARGE: Task<Payment, String> = Task::new("charge");

/// A provider as Stripe is one: the same key is the same charge.
#[derive(Clone, Default)]
pub struct Provider {
    charges: Arc<Mutex<HashMap<String, i64>>>,
}

impl Provider {
    async fn charge(&self, key: String, amount: i64) -> Result<String, std::io::Error> {
        let mut charges = self.charges.lock().expect("nobody panics here");
        charges.entry(key.clone()).or_insert(amount);
        Ok(format!("ch_{}", &key[..8]))
    }

    /// Every charge there was.
    pub fn charged(&self) -> Vec<i64> {
        self.charges
            .lock()
            .expect("nobody panics here")
            .values()
            .copied()
            .collect()
    }
}

/// Takes a payment: the row and the event commit together, or not at all.
async fn pay(State(database): State<String>, Json(payment): Json<Payment>) -> (StatusCode, String) {
    match record(&database, &payment).await {
        Ok(()) => (
            StatusCode::ACCEPTED,
            format!("payment of order {} is under way\n", payment.order),
        ),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}\n")),
    }
}

async fn record(database: &str, payment: &Payment) -> Result<()> {
    let (mut client, connection) = tokio_postgres::connect(database, NoTls).await?;
    tokio::spawn(connection);
    let tx = client.transaction().await?;
    let event = Event::new("charge", payment)?
        .id(format!("charge-{}", payment.order))
        .partition("payments");
    let business = async |tx: &tokio_postgres::Transaction<'_>| -> Result<()> {
        tx.execute(
            "INSERT INTO payments (order_id, amount) VALUES ($1, $2)",
            &[&payment.order, &payment.amount],
        )
        .await?;
        Ok(())
    };
    postgres::execute(&tx, business, &[event]).await?;
    tx.commit().await?;
    Ok(())
}

/// Charges the card. Should the worker die after the charge, the next one repeats it with the same key.
async fn charge(job: Job<Payment>, provider: Provider) -> JobResult<String> {
    let amount = job.input.amount;
    job.step("provider")
        .retry_with_key(async |key| provider.charge(key, amount).await)
        .await
}

/// The service: everything an application has to put together.
fn service(database: &str, jobs: &Client) -> Router {
    Router::new()
        .route("/payments", post(pay))
        .layer(IdempotencyLayer::new(jobs).required())
        .with_state(database.to_owned())
}

/// Sends one payment three times over, and says what came of it.
pub async fn story(database: &str, store: &str) -> Result<String> {
    let (client, connection) = tokio_postgres::connect(database, NoTls)
        .await
        .context("the shop's database")?;
    tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS payments (order_id text PRIMARY KEY, amount bigint NOT NULL)",
        )
        .await?;
    let source = open(database, Plain::Refuse).await?;
    let jobs = semel::connect(store).await?;
    let app = service(database, &jobs);
    // A new one each time: who tries this again has another payment.
    let order = format!("ORD-{}", semel::ids::fresh_token());
    let payment = serde_json::json!({"order": order, "amount": 4200});
    let mut told = String::new();
    for _ in 0..3 {
        let request = Request::post("/payments")
            .header("idempotency-key", format!("\"{order}\""))
            .header("content-type", "application/json")
            .body(Body::from(payment.to_string()))?;
        let answer = app.clone().oneshot(request).await?;
        let replayed = answer.headers().contains_key("idempotent-replayed");
        told.push_str(
            &format!(
                "{} {}\n",
                answer.status(),
                if replayed { "(replayed)" } else { "" }
            )
            .replace(" \n", "\n"),
        );
    }
    let provider = Provider::default();
    let relay = Relay::new(source, &jobs);
    let sent = relay.drain().await?.sent;
    // The relay has noted which job the event became.
    let noted = "SELECT job FROM semel_outbox WHERE id = $1";
    let row = client.query_one(noted, &[&format!("charge-{order}")]).await?;
    let job: Option<String> = row.get("job");
    let job = jobs.job(job.context("the event was not relayed")?)?;
    let worker = Worker::new(&jobs, provider.clone()).task(CHARGE, charge);
    worker
        .run_until(async {
            let _ = job.wait().await;
        })
        .await?;
    told.push_str(&format!(
        "{sent} event relayed, charges: {:?}\n",
        provider.charged()
    ));
    Ok(told)
}

#[tokio::main]
#[allow(dead_code)] // as part of a test it is not the main function
async fn main() -> Result<()> {
    let database = std::env::args()
        .nth(1)
        .context("usage: payment_service postgres://USER@HOST/DATABASE")?;
    print!("{}", story(&database, "memory:").await?);
    Ok(())
}
