//! What the metrics of a process count. They are kept per process: in one of its own, what is counted is exact.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use rusqlite::Connection;
use semel_server::{Server, Settings};
use serde_json::{Value, json};

struct Stage {
    url: String,
    http: reqwest::Client,
}

impl Stage {
    async fn on(file: &std::path::Path) -> Self {
        // Built together with the command line, the HTTP client can encrypt and asks with what.
        let _set_before = rustls::crypto::ring::default_provider().install_default();
        let client = semel_server::connect(format!("sqlite:{}", file.display()))
            .await
            .unwrap();
        let settings = Settings::on("127.0.0.1:0".parse().unwrap());
        let server = Server::bind(client, settings, None).await.unwrap();
        let url = format!("http://{}", server.address());
        tokio::spawn(server.run_until(std::future::pending()));
        Stage {
            url,
            http: reqwest::Client::new(),
        }
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = self
            .http
            .request(method.parse().unwrap(), format!("{}{path}", self.url));
        let response = request.json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, json) = self.call("POST", path, body).await;
        assert!(status < 300, "{path}: {status} {json}");
        json
    }

    async fn claim(&self, task: &str, lease_ms: i64) -> (Value, i64) {
        let body = json!({"worker": "w", "tasks": [task], "max": 1, "lease_ms": lease_ms});
        let answer = self.post("/v1/claims", body).await;
        let claim = &answer["claims"][0];
        (claim["job"]["id"].clone(), claim["fence"].as_i64().unwrap())
    }

    async fn metrics(&self) -> Metrics {
        let response = self.http.get(format!("{}/metrics", self.url)).send().await;
        Metrics(response.unwrap().text().await.unwrap())
    }
}

struct Metrics(String);

impl Metrics {
    /// The sum of all series of a metric that have these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        let series = self.0.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{']))
                && labels.iter().all(|label| line.contains(label.as_str()))
        });
        series
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }
}

#[tokio::test]
async fn everything_is_counted_once_and_nothing_is_left_out() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("jobs.db");
    let stage = Stage::on(&file).await;

    // One key by itself, two in a batch, one of an event.
    let keyed = |key: &str| json!({"task": "keyed", "input": 1, "idempotency_key": key});
    stage.post("/v1/jobs", keyed("a")).await;
    stage.post("/v1/jobs", keyed("a")).await;
    let batch = json!({"jobs": [keyed("b"), keyed("c"), keyed("a")]});
    stage.post("/v1/jobs/batch", batch).await;
    let subscribe = stage.call(
        "PUT",
        "/v1/events/paid/subscribers/receipt",
        json!({"queue": "mail"}),
    );
    assert_eq!(subscribe.await.0, 200);
    for _ in 0..2 {
        let event = json!({"input": 1, "idempotency_key": "evt"});
        stage.post("/v1/events/paid", event).await;
    }

    // A lease that expired is counted when the job is handed out again, and not again after the attempt that follows.
    stage.post("/v1/jobs", json!({"task": "lazy", "input": 1})).await;
    let (_, lost) = stage.claim("lazy", 1_000).await;
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    let (id, fence) = stage.claim("lazy", 30_000).await;
    let retry = json!({"id": id, "fence": fence, "result": "retry", "error": "e", "delay_ms": 0});
    stage
        .post("/v1/claims/settle", json!({"settlements": [retry]}))
        .await;
    stage.claim("lazy", 30_000).await;

    // Whoever comes too late, with whatever it has to say.
    let late = json!({"id": id, "fence": lost, "result": "complete"});
    stage
        .post("/v1/claims/settle", json!({"settlements": [late]}))
        .await;
    let beat = json!({"leases": [{"id": id, "fence": lost}], "lease_ms": 30_000});
    stage.post("/v1/claims/extend", beat).await;
    let step = json!({"id": id, "fence": lost, "step": "pay", "phase": "begin"});
    stage.post("/v1/claims/steps", step).await;

    let gone = stage.post("/v1/jobs", json!({"task": "gone", "input": 1})).await;
    let cancel = format!("/v1/jobs/{}/cancel", gone["job"]["id"].as_str().unwrap());
    stage.post(&cancel, json!({})).await;

    // What the store does not answer, by what was to be done.
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for (path, body) in [
        ("/v1/jobs", json!({"task": "never", "input": 1})),
        ("/v1/claims", json!({"worker": "w", "max": 1, "lease_ms": 30_000})),
        ("/v1/pause", json!({})),
    ] {
        assert_eq!(stage.call("POST", path, body).await.0, 503, "{path}");
    }
    other.execute_batch("ROLLBACK").unwrap();

    let metrics = stage.metrics().await;
    for (name, labels, n) in [
        (
            "semel_submissions_total",
            &[("task", "keyed"), ("outcome", "accepted")][..],
            3.0,
        ),
        (
            "semel_submissions_total",
            &[("task", "keyed"), ("outcome", "duplicate")],
            2.0,
        ),
        (
            "semel_submissions_total",
            &[("task", "receipt"), ("queue", "mail"), ("outcome", "accepted")],
            1.0,
        ),
        (
            "semel_submissions_total",
            &[("task", "receipt"), ("queue", "mail"), ("outcome", "duplicate")],
            1.0,
        ),
        ("semel_key_ttl_seconds_count", &[], 4.0),
        ("semel_lease_expirations_total", &[], 1.0),
        ("semel_lease_expirations_total", &[("task", "lazy")], 1.0),
        ("semel_retries_total", &[("task", "lazy")], 1.0),
        ("semel_stale_writes_total", &[], 3.0),
        ("semel_store_stale_writes", &[], 3.0),
        ("semel_jobs_finished_total", &[], 1.0),
        (
            "semel_jobs_finished_total",
            &[("task", "gone"), ("queue", "default"), ("state", "cancelled")],
            1.0,
        ),
        ("semel_errors_total", &[], 3.0),
        ("semel_errors_total", &[("op", "submit")], 1.0),
        ("semel_errors_total", &[("op", "claim")], 1.0),
        ("semel_errors_total", &[("op", "act")], 1.0),
    ] {
        assert_eq!(
            metrics.sum(name, labels),
            n,
            "{name} {labels:?} in\n{}",
            metrics.0
        );
    }
}
