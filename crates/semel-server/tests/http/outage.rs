//! A store that can be read and not be written: another process holds its file.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "it is measured how long callers are kept"
)]
async fn a_store_that_takes_no_writes_is_told_soon_and_goes_on_when_it_does() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("jobs.db");
    let client = semel_server::connect(format!("sqlite:{}", file.display()))
        .await
        .unwrap();
    let stage = Stage::on(client, |_| {}).await;
    stage.submit(json!({"task": "t", "input": 1})).await;
    stage.get("/readyz").await.is(200);
    assert!(stage.get("/metrics").await.text.contains("semel_store_up 1"));
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // That it took one is believed for a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let claim = json!({"worker": "w", "tasks": ["t"], "max": 1, "lease_ms": 30_000});
    let begun = Instant::now();
    let (submitted, claimed, paused, ready) = tokio::join!(
        stage.post("/v1/jobs", json!({"task": "t", "input": 2})),
        stage.post("/v1/claims", claim.clone()),
        stage.post("/v1/pause", json!({})),
        stage.get("/readyz"),
    );
    let took = begun.elapsed();
    for answer in [submitted, claimed, paused, ready] {
        let answer = answer.refused(503, "store_unavailable");
        assert!(answer.headers.contains_key("retry-after"), "{answer:#?}");
    }
    assert!(took < Duration::from_secs(12), "they were kept for {took:?}");
    // What only reads goes on.
    stage.get("/v1/jobs").await.is(200);
    stage.get("/healthz").await.is(200);
    let metrics = stage.get("/metrics").await.is(200).text;
    assert!(metrics.contains("semel_store_up 0"), "{metrics}");
    assert!(metrics.contains("semel_store_jobs"), "{metrics}");
    other.execute_batch("ROLLBACK").unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    stage.get("/readyz").await.is(200);
    let claims = stage.post("/v1/claims", claim).await.is(200);
    assert_eq!(claims.json["claims"].as_array().unwrap().len(), 1);
}
