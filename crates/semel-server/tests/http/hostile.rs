//! Clients that mean harm: too large, too deep, too slow, too many.

use std::time::Duration;

use reqwest::header;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::Stage;

async fn raw(stage: &Stage) -> TcpStream {
    TcpStream::connect(stage.url.trim_start_matches("http://"))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let stage = Stage::new().await;
    // One gigabyte is announced; nothing of it has to be sent for the refusal.
    let mut stream = raw(&stage).await;
    let host = stage.url.trim_start_matches("http://");
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0_u8; 64];
    let n = stream.read(&mut answer).await.unwrap();
    assert!(
        answer[..n].starts_with(b"HTTP/1.1 413"),
        "{}",
        String::from_utf8_lossy(&answer[..n])
    );
    // Without saying how long it is, it is read to the bound and no further.
    let chunks = futures_util::stream::iter((0..64).map(|_| Ok::<_, std::io::Error>(vec![b' '; 64 * 1024])));
    let endless = stage
        .request("POST", "/v1/jobs")
        .header(header::CONTENT_TYPE, "application/json")
        .body(reqwest::Body::wrap_stream(chunks));
    if let Ok(response) = endless.send().await {
        assert_eq!(response.status(), 413);
    }
    let large = json!({"task": "t", "input": "x".repeat(300 * 1024)});
    stage.post("/v1/jobs", large).await.refused(400, "invalid");
    stage.get("/healthz").await.is(200);
}

#[tokio::test]
async fn a_batch_may_be_sixteen_times_as_large_and_no_larger() {
    let stage = Stage::new().await;
    let job = json!({"task": "t", "input": "x".repeat(200 * 1024)});
    let batch = |jobs: usize| json!({"jobs": vec![job.clone(); jobs]});
    let taken = stage.post("/v1/jobs/batch", batch(75)).await.is(200);
    assert_eq!(taken.json["results"].as_array().unwrap().len(), 75);
    assert!(
        taken.json["results"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["status"] == 201)
    );
    // Refused by what it announces; a client that goes on sending may not see the answer.
    let larger = stage.request("POST", "/v1/jobs/batch").json(&batch(90));
    if let Ok(response) = larger.send().await {
        assert_eq!(response.status(), 413);
    }
    let jobs = stage.get("/v1/stats").await.is(200);
    assert_eq!(jobs.json["accepted"], 75);
}

#[tokio::test]
async fn a_body_that_is_too_deep_is_refused() {
    let stage = Stage::new().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        format!("{{\"task\":\"t\",\"input\":{deep}}}"),
        deep.clone(),
        format!("{{\"task\":\"t\",\"input\":1,\"dedup\":{deep}}}"),
    ] {
        let request = stage
            .request("POST", "/v1/jobs")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        stage
            .send("POST", "/v1/jobs", request)
            .await
            .refused(400, "invalid");
    }
}

#[tokio::test]
async fn one_who_never_finishes_a_request_is_shown_out() {
    let stage = Stage::new().await;
    let mut stream = raw(&stage).await;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: ")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(25), stream.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "the connection was kept open");
}

#[tokio::test]
async fn streams_are_bounded_and_the_server_answers_others() {
    let stage = Stage::new().await;
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..300 {
        let response = stage.request("GET", "/v1/stream").send().await.unwrap();
        match response.status().as_u16() {
            200 => open.push(response),
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((open.len(), refused), (256, 44));
    stage.get("/healthz").await.is(200);
    drop(open);
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if stage.request("GET", "/v1/stream").send().await.unwrap().status() == 200 {
            return;
        }
    }
    panic!("streams that were closed made no room");
}

#[tokio::test]
async fn hostile_names_stay_what_they_are() {
    let stage = Stage::new().await;
    for name in [
        "<script>alert(1)</script>",
        "'; DROP TABLE job; --",
        "../../etc/passwd",
        "a%00b",
        "\u{202e}txt",
        "=cmd|' /C calc'!A0",
    ] {
        let id = stage
            .submit(json!({"task": name, "input": name, "queue": name, "idempotency_key": name}))
            .await;
        let job = stage.get(&format!("/v1/jobs/{id}")).await.is(200);
        assert_eq!(
            (&job.json["task"], &job.json["input"], &job.json["key"]["text"]),
            (&json!(name), &json!(name), &json!(name))
        );
    }
    stage
        .post("/v1/jobs", json!({"task": "a\u{0}b", "input": 1}))
        .await
        .refused(400, "invalid");
    assert_eq!(stage.get("/v1/stats").await.json["accepted"], 6);
}
