//! Counters, alerts, advice, metrics, the stream.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
pub async fn counters_have_the_documented_names_and_can_be_exported() {
    let stage = Stage::new().await;
    for _ in 0..3 {
        stage
            .post("/v1/jobs", json!({"task": "=t", "input": 1, "unique": true}))
            .await;
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let stats = stage.get("/v1/stats").await.is(200);
    assert_eq!(
        (
            &stats.json["accepted"],
            &stats.json["duplicates"],
            &stats.json["active_keys"]
        ),
        (&json!(1), &json!(2), &json!(1))
    );
    assert_eq!(stats.json["jobs"]["queued"], 1);
    assert_eq!(stats.json["tasks"][0]["name"], "=t");
    let table = stage.get("/v1/stats?format=csv").await.is(200);
    assert!(table.text.starts_with("kind,name,accepted,"), "{}", table.text);
    assert!(table.text.contains("\"'=t\",1,2"), "{}", table.text);
    stage.get("/v1/stats/history?window_ms=60000").await.is(200);
    stage
        .get("/v1/stats/history?window_ms=0")
        .await
        .refused(400, "invalid");
    assert!(
        stage
            .get("/v1/stats/history?format=csv")
            .await
            .is(200)
            .text
            .starts_with("at,accepted")
    );
    stage.get("/v1/stats?format=xml").await.refused(400, "invalid");
    stage
        .post("/v1/stats/reset", json!({"reason": "new week"}))
        .await
        .is(200);
    assert_eq!(stage.get("/v1/stats").await.json["accepted"], 0);
}

#[tokio::test]
pub async fn work_without_a_worker_is_an_alert_with_the_command_that_helps() {
    let stage = Stage::new().await;
    let quiet = stage.get("/v1/alerts").await.is(200);
    assert_eq!(quiet.json["items"], json!([]), "{}", quiet.text);
    assert!(quiet.json["watched"].as_array().unwrap().len() >= 9);
    stage.submit(json!({"task": "thumbnail", "input": 1})).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let alerts = stage.get("/v1/alerts").await.is(200);
    assert_eq!(alerts.json["items"][0]["alert"], "no_worker");
    assert_eq!(
        alerts.json["items"][0]["command"],
        "semel work --task thumbnail --exec 'CMD'"
    );
    let (_, _) = stage.claim("thumbnail").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(stage.get("/v1/alerts").await.is(200).json["items"], json!([]));
}

#[tokio::test]
async fn an_alert_names_a_few_tasks_and_counts_the_others() {
    let stage = Stage::new().await;
    for n in 0..7 {
        stage
            .submit(json!({"task": format!("task-{n}"), "input": 1}))
            .await;
    }
    let alerts = stage.get("/v1/alerts").await.is(200);
    assert_eq!(
        alerts.json["items"][0]["message"],
        "7 jobs wait (task task-0, task-1, task-2, task-3, task-4 and 2 more) and no live worker serves them"
    );
}

#[tokio::test]
async fn the_page_of_queues_shows_the_busiest_and_finds_the_others() {
    let stage = Stage::new().await;
    let job = |n: usize| json!({"task": format!("task-{n:03}"), "input": 1});
    let jobs: Vec<_> = (0..210).chain(5..210).map(job).collect();
    stage.post("/v1/jobs/batch", json!({"jobs": jobs})).await.is(200);
    stage.post("/v1/tasks/task-002/pause", json!({})).await.is(200);
    let page = async |path: &str| {
        let request = stage.request("GET", path).header("accept", "text/html");
        request.send().await.unwrap().text().await.unwrap()
    };
    let all = page("/queues").await;
    let rows = |page: &str| page.matches("href=\"/jobs?task=").count();
    assert_eq!(rows(&all), 200, "{all}");
    assert!(all.contains("10 more can be found by name"), "{all}");
    assert!(
        all.contains("task-002"),
        "what is paused is shown, however idle: {all}"
    );
    assert!(!all.contains("task-001"), "{all}");
    let found = page("/queues?name=task-001").await;
    assert_eq!(rows(&found), 1, "{found}");
    assert!(found.contains("task-001"), "{found}");
}

#[tokio::test]
pub async fn what_a_young_store_has_counted_is_within_every_window() {
    // The first snapshot was once taken for the beginning of the window: what had failed before it was left out.
    let stage = Stage::new().await;
    stage.dead_letter("t", json!({"input": 1})).await;
    let upkeep = semel_core::store::UpkeepRequest::default();
    stage.client.store().upkeep(upkeep).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let alerts = stage.get("/v1/alerts").await.is(200);
    let items = alerts.json["watched"].as_array().unwrap();
    let rate = items.iter().find(|alert| alert["alert"] == "error_rate").unwrap();
    assert_eq!(rate["value"], 1.0, "{rate}");
}

#[tokio::test]
pub async fn advice_names_the_producer_behind_a_storm_and_the_ttl_that_is_needed() {
    let stage = Stage::new().await;
    assert_eq!(stage.get("/v1/advice").await.is(200).json["items"], json!([]));
    for _ in 0..31 {
        stage
            .post(
                "/v1/jobs",
                json!({"task": "t", "input": 1, "idempotency_key": "k", "producer": "cron-7"}),
            )
            .await;
    }
    let advice = stage.get("/v1/advice").await.is(200);
    let kinds: Vec<&str> = advice.json["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["storm", "ttl"]);
    assert!(
        advice.json["items"][0]["message"]
            .as_str()
            .unwrap()
            .contains("cron-7")
    );
    assert!(advice.json["items"][1]["ttl_ms"].as_i64().unwrap() < 60_000);
}

#[tokio::test]
pub async fn guarantees_health_and_readiness_are_told() {
    let mut stage = Stage::new().await;
    assert_eq!(
        stage.get("/v1/guarantees").await.is(200).json["capabilities"]["name"],
        "memory"
    );
    assert_eq!(stage.get("/healthz").await.is(200).json["status"], "ok");
    stage.get("/readyz").await.is(200);
    // A stop in order ends with every connection closed.
    let begun = tokio::time::Instant::now();
    stage.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert!(
        stage
            .http
            .get(format!("{}/healthz", stage.url))
            .send()
            .await
            .is_err()
    );
}

#[tokio::test]
pub async fn metrics_have_their_names_and_promtool_finds_nothing_wrong() {
    let stage = Stage::new().await;
    stage
        .submit(json!({"task": "a\"b\\c", "input": 1, "idempotency_key": "k"}))
        .await;
    stage.dead_letter("d", json!({"input": 1})).await;
    let text = stage.get("/metrics").await.is(200).text;
    for name in [
        "semel_submissions_total",
        "semel_jobs_finished_total",
        "semel_submit_duration_seconds_bucket",
        "semel_claim_duration_seconds_count",
        "semel_settle_duration_seconds_sum",
        "semel_run_duration_seconds_bucket",
        "semel_queue_wait_seconds_bucket",
        "semel_build_info",
        "semel_store_jobs",
        "semel_store_oldest_waiting_seconds",
        "semel_store_keys",
        "semel_store_bytes",
        "semel_store_hit_ratio",
        "semel_store_workers",
        "semel_store_dead_letters",
        "semel_store_steps_in_doubt",
        "semel_store_alert_firing",
        "semel_store_up 1",
    ] {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
    let mut child = std::process::Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("promtool is there: cargo xtask test installs it");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let checked = child.wait_with_output().unwrap();
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "{checked:?}\n{text}"
    );
}

#[tokio::test]
pub async fn keys_are_counted_by_hold() {
    let stage = Stage::new().await;
    stage
        .submit(json!({"task": "t", "input": 1, "idempotency_key": "k"}))
        .await;
    for n in 0..2 {
        stage
            .submit(json!({"task": "t", "input": n, "unique": true}))
            .await;
    }
    stage
        .submit(json!({"task": "t", "input": 1, "dedup": {"key": "for-ever", "hold": "forever"}}))
        .await;
    let text = stage.get("/metrics").await.is(200).text;
    for (hold, n) in [
        ("until_started", 0),
        ("until_finished", 2),
        ("window", 1),
        ("forever", 1),
    ] {
        let line = format!("semel_store_keys{{hold=\"{hold}\"}} {n}");
        assert!(text.contains(&line), "{line} is missing in\n{text}");
    }
    let stats = stage.get("/v1/stats").await.is(200);
    assert_eq!(
        stats.json["keys_by_hold"],
        json!({"until_finished": 2, "window": 1, "forever": 1})
    );
}

#[test]
fn rules_and_dashboard_speak_of_metrics_there_are() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let checked = std::process::Command::new("promtool")
        .args(["check", "rules", "--lint=all", "--lint-fatal"])
        .arg(format!("{docs}/prometheus-rules.yml"))
        .output()
        .expect("promtool is there: cargo xtask test installs it");
    assert!(checked.status.success(), "{checked:?}");
    let source = concat!(
        include_str!("../../src/metrics.rs"),
        include_str!("../../src/metrics/store.rs")
    );
    for file in ["prometheus-rules.yml", "grafana.json"] {
        let text = std::fs::read_to_string(format!("{docs}/{file}")).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let metrics: std::collections::BTreeSet<&str> = words
            .filter(|word| word.starts_with("semel_"))
            .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
            .collect();
        assert!(metrics.len() > 8, "{metrics:?}");
        for metric in metrics {
            // Workers that use the store directly go by no server: a rule that asked one would never fire.
            assert!(
                file != "prometheus-rules.yml" || metric.starts_with("semel_store_"),
                "a rule asks {metric} of a process"
            );
            let quoted = format!("\"{metric}\"");
            assert!(
                source.contains(&quoted),
                "{file} names {metric}, which is not exported"
            );
        }
    }
}

#[tokio::test]
pub async fn the_stream_tells_of_an_absorbed_duplicate() {
    let stage = Stage::new().await;
    let response = stage.request("GET", "/v1/stream").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut events = response.bytes_stream();
    let mut seen = String::new();
    let body = json!({"task": "t", "input": 1, "idempotency_key": "k"});
    stage.submit(body.clone()).await;
    let listening = async {
        while !(seen.contains("event: duplicate") && seen.contains("event: job")) {
            let chunk = events.next().await.unwrap().unwrap();
            seen.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    let repeating = async {
        // Whoever begins to listen is told what happens from then on.
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            stage.post("/v1/jobs", body.clone()).await.is(200);
            stage.submit(json!({"task": "u", "input": 1})).await;
        }
    };
    tokio::select! {
        () = listening => {}
        () = repeating => panic!("nothing was told: {seen}"),
    }
    assert!(seen.contains("event: hello"));
}

/// The events of a stream, as they come.
struct Events {
    bytes: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    text: String,
}

impl Events {
    async fn of(stage: &Stage) -> Self {
        let response = stage.request("GET", "/v1/stream").send().await.unwrap();
        Events {
            bytes: response.bytes_stream().boxed(),
            text: String::new(),
        }
    }

    /// The next event that is not of the kinds left out: its kind and data.
    async fn next(&mut self, without: &[&str]) -> (String, serde_json::Value) {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let member = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().to_owned()
                };
                let (kind, data) = (member("event: "), member("data: "));
                self.text = rest.to_owned();
                if !kind.is_empty() && !without.contains(&kind.as_str()) {
                    return (kind, serde_json::from_str(&data).unwrap());
                }
            }
            let piece = tokio::time::timeout(Duration::from_secs(20), self.bytes.next());
            let piece = piece.await.expect("something happens").unwrap().unwrap();
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}

#[tokio::test]
async fn a_burst_of_duplicates_is_told_whole_and_a_larger_one_as_a_gap() {
    let stage = Stage::new().await;
    let job = |n: usize| json!({"task": "t", "input": 1, "idempotency_key": format!("k{}", n % 10)});
    let batch = |n: usize| json!({"jobs": (0..n).map(job).collect::<Vec<_>>()});
    stage.post("/v1/jobs/batch", batch(10)).await.is(200);
    let mut events = Events::of(&stage).await;
    assert_eq!(events.next(&[]).await.0, "hello");
    // Whoever begins to listen is told what happens from then on.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    stage.post("/v1/jobs/batch", batch(1_000)).await.is(200);
    for n in 0..1_000 {
        let (kind, entry) = events.next(&["stats", "alert", "job"]).await;
        assert_eq!(
            (kind.as_str(), &entry["outcome"]),
            ("duplicate", &json!("duplicate")),
            "{n}"
        );
    }
    let many: Vec<_> = (0..1_000)
        .map(|n| {
            let request: semel::SubmitRequest = serde_json::from_value(job(n)).unwrap();
            request
        })
        .collect();
    for _ in 0..3 {
        for _ in 0..3 {
            let builders = many
                .iter()
                .map(|request| stage.client.submit_request(request.clone()));
            let absorbed = stage.client.submit_many(builders.collect::<Vec<_>>()).await;
            assert!(absorbed.iter().all(Result::is_ok));
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    // Until there is nothing more to come, which fails.
    while events.next(&["stats", "alert", "job"]).await.0 != "lagged" {}
}

#[tokio::test]
async fn the_stream_tells_totals_however_many_tasks_there_are() {
    let stage = Stage::new().await;
    let mut events = Events::of(&stage).await;
    assert_eq!(events.next(&[]).await.0, "hello");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    stage.submit(json!({"task": "t", "input": 1})).await;
    let (kind, stats) = events.next(&["job", "duplicate", "alert"]).await;
    assert_eq!((kind.as_str(), &stats["accepted"]), ("stats", &json!(1)));
    assert!(
        stats.get("queues").is_none() && stats.get("tasks").is_none(),
        "{stats}"
    );
}
