//! Submitting, looking, waiting, cancelling, retrying.

use reqwest::header;
use serde_json::json;

use crate::stage::{Stage, read};

#[tokio::test]
pub async fn a_submission_is_accepted_once_and_then_names_the_same_job() {
    let stage = Stage::new().await;
    let body = json!({"task": "charge", "input": {"order": 7}, "idempotency_key": "ORD-7"});
    let first = stage.post("/v1/jobs", body.clone()).await.is(201);
    assert_eq!(first.json["outcome"], "accepted");
    let key = &first.json["key"];
    assert_eq!(
        (&key["text"], &key["scope"], &key["hold"], &key["absorbed"]),
        (&json!("ORD-7"), &json!("task"), &json!("window"), &json!(0))
    );
    let again = stage.post("/v1/jobs", body).await.is(200);
    assert_eq!(again.json["outcome"], "duplicate");
    assert_eq!(again.json["job"]["id"], first.json["job"]["id"]);
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.json["key"]["absorbed"], 1);
    assert_eq!(
        again.json["key"]["expires_at"], key["expires_at"],
        "what an accepted one is told is what is stored"
    );
    assert_eq!(again.json["key"]["taken_at"], key["taken_at"]);
    assert_eq!(again.json["key"]["digest"], key["digest"]);
}

#[tokio::test]
pub async fn the_header_is_the_key_quoted_or_bare() {
    let stage = Stage::new().await;
    let send = |value: &'static str, order: u32| {
        let body = json!({"task": "charge", "input": order});
        let request = stage
            .request("POST", "/v1/jobs")
            .header("Idempotency-Key", value)
            .json(&body);
        stage.send("POST", "/v1/jobs", request)
    };
    let quoted = send("\"ORD-8\"", 8).await.is(201);
    let bare = send("ORD-8", 8).await.is(200);
    assert_eq!(quoted.json["job"]["id"], bare.json["job"]["id"]);
    let conflict = send("ORD-8", 9).await.refused(422, "idempotency_conflict");
    assert_eq!(conflict.json["holder"]["id"], quoted.json["job"]["id"]);
    assert_eq!(conflict.json["differs"], json!([""]));
    for (value, text) in [
        (r#""a\\\"b""#, r#"a\"b"#),
        (r#""\"c\"""#, r#""c""#),
        (r#""d\\""#, r"d\"),
        (r#""e\f""#, r"e\f"),
    ] {
        let answer = send(value, 1).await.is(201);
        assert_eq!(answer.json["key"]["text"], text, "{value}");
    }
    let body = json!({"task": "charge", "input": 8, "idempotency_key": "other"});
    let both = stage
        .request("POST", "/v1/jobs")
        .header("Idempotency-Key", "ORD-8")
        .json(&body);
    stage.send("POST", "/v1/jobs", both).await.refused(400, "invalid");
}

#[tokio::test]
pub async fn a_policy_that_rejects_is_answered_with_the_holder() {
    let stage = Stage::new().await;
    let body = json!({"task": "sync", "input": 1, "dedup": {"on_duplicate": "reject"}});
    let id = stage.submit(body.clone()).await;
    let refused = stage
        .post("/v1/jobs", body)
        .await
        .refused(409, "duplicate_rejected");
    assert_eq!(refused.json["holder"]["id"], id);
}

#[tokio::test]
pub async fn what_makes_no_sense_is_refused_and_says_what_is_allowed() {
    let stage = Stage::new().await;
    for body in [
        json!({"task": "t"}),
        json!({"task": "t", "input": 1, "prio": 3}),
        json!({"task": "", "input": 1}),
        json!({"task": "t", "input": 1, "priority": 1000}),
        json!({"task": "t", "input": 1, "unique": true, "dedup": {}}),
        json!({"task": "t", "input": 1, "run_at": "tomorrow"}),
        json!(["t"]),
    ] {
        let answer = stage.post("/v1/jobs", body).await.refused(400, "invalid");
        assert!(answer.json["detail"].as_str().unwrap().len() > 10);
    }
    let plain = stage.request("POST", "/v1/jobs").body("{}");
    stage
        .send("POST", "/v1/jobs", plain)
        .await
        .refused(415, "not_json");
    let packed = stage
        .request("POST", "/v1/jobs")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_ENCODING, "gzip")
        .body("x");
    stage
        .send("POST", "/v1/jobs", packed)
        .await
        .refused(415, "not_json");
    let twice = stage
        .request("POST", "/v1/jobs")
        .header(header::CONTENT_TYPE, "application/json")
        .body(r#"{"task":"a","task":"b","input":1}"#);
    stage
        .send("POST", "/v1/jobs", twice)
        .await
        .refused(400, "invalid");
    assert_eq!(stage.get("/v1/stats").await.json["accepted"], 0);
}

#[tokio::test]
pub async fn a_batch_is_answered_item_by_item() {
    let stage = Stage::new().await;
    let batch = json!({"jobs": [
        {"task": "t", "input": 1, "idempotency_key": "a"},
        {"task": "t", "input": 1, "idempotency_key": "a"},
        {"task": "t", "input": 2, "idempotency_key": "a"},
        {"task": "t", "nonsense": true},
        {"task": "t", "input": 3},
    ]});
    let answer = stage.post("/v1/jobs/batch", batch).await.is(200);
    let results = answer.json["results"].as_array().unwrap();
    let statuses: Vec<i64> = results
        .iter()
        .map(|result| result["status"].as_i64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 200, 422, 400, 201]);
    assert_eq!(results[1]["job"]["id"], results[0]["job"]["id"]);
    assert_eq!(results[2]["code"], "idempotency_conflict");
    let many = vec![json!({"task": "t", "input": 1}); 1_001];
    stage
        .post("/v1/jobs/batch", json!({"jobs": many}))
        .await
        .refused(400, "invalid");
}

#[tokio::test]
pub async fn explain_says_what_would_happen_and_writes_nothing() {
    let stage = Stage::new().await;
    let body = json!({"task": "t", "input": 1, "idempotency_key": "k"});
    let free = stage.post("/v1/jobs/explain", body.clone()).await.is(200);
    assert_eq!(free.json["outcome"], "accepted");
    let id = stage.submit(body.clone()).await;
    let held = stage.post("/v1/jobs/explain", body).await.is(200);
    assert_eq!(
        (&held.json["outcome"], &held.json["holder"]["id"]),
        (&json!("duplicate"), &json!(id))
    );
    assert_eq!(stage.get("/v1/duplicates").await.is(200).json["items"], json!([]));
}

#[tokio::test]
pub async fn jobs_are_listed_by_filter_and_page() {
    let stage = Stage::new().await;
    for n in 0..5 {
        stage.submit(json!({"task": if n < 3 { "a" } else { "b" }, "input": n, "idempotency_key": format!("k{n}")})).await;
    }
    let list = stage.get("/v1/jobs?task=a&limit=2").await.is(200);
    assert_eq!(list.json["items"].as_array().unwrap().len(), 2);
    let cursor = list.json["next_cursor"].as_str().unwrap();
    let rest = stage
        .get(&format!("/v1/jobs?task=a&limit=2&cursor={cursor}"))
        .await
        .is(200);
    assert_eq!(rest.json["items"].as_array().unwrap().len(), 1);
    let by_key = stage.get("/v1/jobs?key=k4").await.is(200);
    assert_eq!(by_key.json["items"][0]["input"], 4);
    stage
        .get(&format!("/v1/jobs?task=b&cursor={cursor}"))
        .await
        .refused(400, "invalid");
    stage.get("/v1/jobs?state=nonsense").await.refused(400, "invalid");
    stage.get("/v1/jobs?color=red").await.refused(400, "invalid");
    stage.get("/v1/jobs?limit=501").await.refused(400, "invalid");
    stage
        .get("/v1/jobs?key=unheard-of")
        .await
        .refused(404, "not_found");
}

#[tokio::test]
pub async fn a_page_of_large_jobs_ends_early_and_goes_on() {
    let stage = Stage::new().await;
    let large = "x".repeat(200_000);
    for n in 0..60 {
        let (task, input) = if n % 2 == 0 {
            ("large", large.as_str())
        } else {
            ("small", "x")
        };
        for _ in 0..2 {
            stage.submit(json!({"task": task, "input": input})).await;
        }
    }
    let listed = async |path: &str| {
        let page = stage.get(path).await.is(200);
        let cursor = page.json["next_cursor"].as_str().map(str::to_owned);
        (page.json["items"].as_array().unwrap().len(), cursor)
    };
    assert_eq!(listed("/v1/jobs?task=small&limit=500").await, (60, None));
    let (first, cursor) = listed("/v1/jobs?task=large&limit=500").await;
    assert_eq!(first, 50, "the first fifty are ten megabytes");
    let rest = format!("/v1/jobs?task=large&limit=500&cursor={}", cursor.unwrap());
    assert_eq!(listed(&rest).await, (10, None));
    for limit in ["0", "501"] {
        stage
            .get(&format!("/v1/jobs?limit={limit}"))
            .await
            .refused(400, "invalid");
    }
}

#[tokio::test]
pub async fn a_job_is_shown_with_its_attempts_logs_and_steps() {
    let stage = Stage::new().await;
    let id = stage
        .submit(json!({"task": "t", "input": 1, "unique": true}))
        .await;
    let (claimed, fence) = stage.claim("t").await;
    assert_eq!(claimed, id);
    let beat = json!({"leases": [{"id": id, "fence": fence, "progress": 0.5, "log": ["half way"]}], "lease_ms": 30_000});
    assert_eq!(
        stage.post("/v1/claims/extend", beat).await.is(200).json["results"][0]["status"],
        "ok"
    );
    let begin = json!({"id": id, "fence": fence, "step": "mail", "phase": "begin"});
    let begun = stage.post("/v1/claims/steps", begin).await.is(200);
    assert_eq!(begun.json["results"][0]["status"], "ok");
    assert_eq!(begun.json["results"][0]["key"].as_str().unwrap().len(), 64);
    let confirm =
        json!({"id": id, "fence": fence, "step": "mail", "phase": "confirm", "output": {"sent": true}});
    stage.post("/v1/claims/steps", confirm).await.is(200);
    let settle = json!({"settlements": [{"id": id, "fence": fence, "result": "retry", "error": "boom", "delay_ms": 60_000}]});
    stage.post("/v1/claims/settle", settle).await.is(200);
    let job = stage.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert_eq!(
        (&job.json["state"], &job.json["error"]["message"]),
        (&json!("scheduled"), &json!("boom"))
    );
    let attempts = stage.get(&format!("/v1/jobs/{id}/attempts")).await.is(200);
    assert_eq!(attempts.json["items"][0]["result"], "error");
    let logs = stage.get(&format!("/v1/jobs/{id}/logs")).await.is(200);
    assert!(logs.text.contains("half way"), "{}", logs.text);
    let steps = stage.get(&format!("/v1/jobs/{id}/steps")).await.is(200);
    assert_eq!(steps.json["items"][0]["output"], json!({"sent": true}));
    for part in ["", "/attempts", "/logs", "/steps", "/wait?timeout_ms=1"] {
        stage
            .get(&format!("/v1/jobs/unheard-of{part}"))
            .await
            .refused(404, "not_found");
    }
}

#[tokio::test]
pub async fn waiting_ends_with_the_job_or_goes_on() {
    let stage = Stage::new().await;
    let id = stage.submit(json!({"task": "t", "input": 1})).await;
    let going = stage
        .get(&format!("/v1/jobs/{id}/wait?timeout_ms=20"))
        .await
        .is(202);
    assert_eq!(going.json["state"], "queued");
    let path = format!("/v1/jobs/{id}/wait?timeout_ms=20000");
    let waiting = stage.get(&path);
    let working = async {
        let (id, fence) = stage.claim("t").await;
        let done =
            json!({"settlements": [{"id": id, "fence": fence, "result": "complete", "output": {"n": 42}}]});
        stage.post("/v1/claims/settle", done).await.is(200);
    };
    let (waited, ()) = tokio::join!(waiting, working);
    assert_eq!(waited.is(200).json["output"], json!({"n": 42}));
    let body = json!({"task": "u", "input": 1, "idempotency_key": "k", "wait_ms": 20_000});
    let submitting = stage.post("/v1/jobs", body);
    let working = async {
        loop {
            let claim = json!({"worker": "w", "tasks": ["u"], "max": 1, "lease_ms": 1_000, "wait_ms": 5_000});
            let claims = stage.post("/v1/claims", claim).await.is(200);
            let Some(claim) = claims.json["claims"].get(0).cloned() else {
                continue;
            };
            let done = json!({"settlements": [{"id": claim["job"]["id"], "fence": claim["fence"], "result": "complete", "output": 7}]});
            return stage.post("/v1/claims/settle", done).await.is(200);
        }
    };
    let (answer, _) = tokio::join!(submitting, working);
    let answer = answer.is(201);
    assert_eq!(
        (&answer.json["output"], &answer.json["job"]["state"]),
        (&json!(7), &json!("complete"))
    );
}

#[tokio::test]
pub async fn jobs_are_cancelled_and_retried_and_a_final_state_is_said() {
    let stage = Stage::new().await;
    let id = stage.submit(json!({"task": "t", "input": 1, "dedup": {}})).await;
    stage
        .post(&format!("/v1/jobs/{id}/retry"), json!({}))
        .await
        .refused(409, "not_terminal");
    let cancelled = stage
        .post(&format!("/v1/jobs/{id}/cancel"), json!({"reason": "not wanted"}))
        .await
        .is(200);
    assert_eq!(cancelled.json["state"], "cancelled");
    let again = stage
        .post(&format!("/v1/jobs/{id}/cancel"), json!({}))
        .await
        .refused(409, "terminal");
    assert_eq!(again.json["state"], "cancelled");
    let other = stage.submit(json!({"task": "t", "input": 1, "dedup": {}})).await;
    let held = stage
        .post(&format!("/v1/jobs/{id}/retry"), json!({}))
        .await
        .refused(409, "duplicate_rejected");
    assert_eq!(held.json["holder"]["id"], other);
    stage
        .post(&format!("/v1/jobs/{other}/cancel"), json!({}))
        .await
        .is(200);
    // Without a body at all.
    let bare = stage.request("POST", &format!("/v1/jobs/{id}/retry"));
    stage
        .send("POST", &format!("/v1/jobs/{id}/retry"), bare)
        .await
        .is(200);
    stage
        .post("/v1/jobs/unheard-of/cancel", json!({}))
        .await
        .refused(404, "not_found");
    stage
        .post("/v1/jobs/unheard-of/retry", json!({}))
        .await
        .refused(404, "not_found");
    let letter = stage.dead_letter("u", json!({"input": 1})).await;
    stage
        .post(&format!("/v1/dead-letters/{letter}/replay"), json!({}))
        .await
        .is(201);
    let replayed = stage
        .post(&format!("/v1/jobs/{letter}/retry"), json!({}))
        .await
        .refused(409, "replayed");
    assert!(replayed.json["replayed_as"].is_string());
}

#[tokio::test]
pub async fn concurrent_submissions_of_one_key_are_one_job() {
    let stage = std::sync::Arc::new(Stage::new().await);
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let stage = stage.clone();
        all.spawn(async move {
            let body = json!({"task": "t", "input": 1, "idempotency_key": "storm"});
            let response = stage
                .request("POST", "/v1/jobs")
                .json(&body)
                .send()
                .await
                .unwrap();
            let answer = read(response).await;
            (
                answer.status,
                answer.json["job"]["id"].as_str().unwrap().to_owned(),
            )
        });
    }
    let answers = all.join_all().await;
    assert_eq!(answers.iter().filter(|(status, _)| *status == 201).count(), 1);
    let ids: std::collections::BTreeSet<&String> = answers.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 1);
}
