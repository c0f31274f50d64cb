//! Ways in that are not the door: other spellings of a path, other methods, cursors nobody gave out, repeated tokens,
//! bodies of strangers.

use semel_server::role::Role;
use semel_server::route::Access;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Stage, read};

/// The whole answer to a head as it stands, which no client library would send.
async fn raw(stage: &Stage, first: &str, more: &str) -> String {
    let address = stage.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{first} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn no_spelling_of_a_path_and_no_header_goes_around_the_roles() {
    let stage = Stage::new().await;
    stage.token("root", &[Role::Admin], &[]).await;
    for path in [
        "//v1/tokens",
        "/v1//tokens",
        "/v1/tokens/",
        "/v1/./tokens",
        "/assets/../v1/tokens",
        "/assets/%2e%2e/v1/tokens",
        "/V1/tokens",
        "/%76%31/tokens",
        "/v1/tokens%00",
        "/v1/tokens;a=b",
        "/v1/tokens?token=root",
        "/healthz/../v1/tokens",
        "/healthz%2f..%2fv1%2ftokens",
        "http://evil.example/v1/tokens",
        "*",
    ] {
        let answer = raw(&stage, &format!("GET {path}"), "").await;
        let refused = ["400", "401", "404", "405", "421"]
            .iter()
            .any(|status| answer.starts_with(&format!("HTTP/1.1 {status}")));
        assert!(refused && !answer.contains("\"items\""), "{path}: {answer}");
    }
    for header in [
        "X-Original-URL: /v1/tokens",
        "X-Rewrite-URL: /v1/tokens",
        "X-HTTP-Method-Override: GET",
        "X-Forwarded-For: 127.0.0.1",
        "Cookie: semel_session=",
        "Authorization: Bearer",
        "Authorization: Bearer ",
        "Authorization: Bearer semel_",
        "Authorization: Basic cm9vdDpyb290",
    ] {
        let answer = raw(&stage, "GET /v1/tokens", &format!("{header}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{header}: {answer}");
    }
}

#[tokio::test]
async fn a_token_is_whole_and_the_only_one_or_it_is_none() {
    let stage = Stage::new().await;
    let token = stage.token("root", &[Role::Admin], &[]).await;
    let (begin, end) = token.split_at(token.len() - 1);
    let flipped = if end == "0" { "1" } else { "0" };
    for said in [
        format!("Authorization: Bearer {begin}\r\n"),
        format!("Authorization: Bearer {begin}{flipped}\r\n"),
        format!("Authorization: Bearer {token}0\r\n"),
        format!("Authorization: Bearer {}\r\n", token.to_uppercase()),
        format!("Authorization: Bearer semel_wrong\r\nAuthorization: Bearer {token}\r\n"),
        format!("Authorization: Bearer {token}\r\nAuthorization: Bearer semel_wrong\r\n"),
    ] {
        let answer = raw(&stage, "GET /v1/stats", &said).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{said}: {answer}");
    }
    let good = raw(
        &stage,
        "GET /v1/stats",
        &format!("Authorization: bearer  {token}\r\n"),
    )
    .await;
    assert!(good.starts_with("HTTP/1.1 200"), "{good}");
}

#[tokio::test]
async fn other_methods_open_nothing() {
    let stage = Stage::new().await;
    stage.token("root", &[Role::Admin], &[]).await;
    for route in semel_server::table::every() {
        let path = route
            .path
            .replace("{digest}", &"0".repeat(64))
            .replace(['{', '}'], "");
        for method in ["HEAD", "OPTIONS", "TRACE", "PROPFIND"] {
            let answer = read(stage.request(method, &path).send().await.unwrap()).await;
            let may = method == "HEAD" && route.access == Access::Open;
            assert!(
                may || (400..500).contains(&answer.status),
                "{method} {path}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn cursors_that_nobody_gave_out_are_refused_or_lead_nowhere() {
    let stage = Stage::new().await;
    for n in 0..3 {
        let body = json!({"task": "t", "input": n, "idempotency_key": format!("k{n}")});
        stage.submit(body.clone()).await;
        stage.post("/v1/jobs", body).await.is(200);
        stage.dead_letter("dead", json!({"input": n})).await;
        stage.post("/v1/pause", json!({})).await.is(200);
        stage.post("/v1/resume", json!({})).await.is(200);
    }
    let row = stage.get("/v1/keys?limit=1").await.is(200);
    let digest = row.json["items"][0]["digest"].as_str().unwrap().to_owned();
    let job = row.json["items"][0]["holder"]["id"].as_str().unwrap().to_owned();
    let lists = [
        "/v1/jobs".to_owned(),
        "/v1/keys".to_owned(),
        "/v1/duplicates".to_owned(),
        "/v1/dead-letters".to_owned(),
        "/v1/audit".to_owned(),
        format!("/v1/keys/{digest}"),
        format!("/v1/jobs/{job}/logs"),
    ];
    let mut cursors: Vec<String> = [
        "x",
        "-1",
        "0",
        "99999999999999999999999999",
        "9223372036854775807",
        "-9223372036854775808",
        "%00",
        "..%2F..",
        "'%20OR%201=1--",
        "%F0%9F%A6%80",
        "e30",
        "1:1:1:1",
    ]
    .map(str::to_owned)
    .to_vec();
    cursors.push("a".repeat(20_000));
    for list in &lists {
        let page = stage.get(&format!("{list}?limit=1")).await.is(200);
        cursors.extend(page.json["next_cursor"].as_str().map(str::to_owned));
    }
    assert!(
        cursors.len() >= 17,
        "real cursors are tried on other lists: {cursors:?}"
    );
    for list in &lists {
        for cursor in &cursors {
            let answer = stage.get(&format!("{list}?limit=2&cursor={cursor}")).await;
            assert!(matches!(answer.status, 200 | 400), "{list} {cursor}: {answer:?}");
        }
    }
    for limit in ["0", "501", "-1", "18446744073709551616", "1e3", ""] {
        for list in &lists {
            let answer = stage.get(&format!("{list}?limit={limit}")).await;
            assert_eq!(answer.status, 400, "{list} {limit}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_is_answered_again_only_to_the_token_that_made_it() {
    let mut stage = Stage::new().await;
    let mine = stage.token("mine", &[Role::Work, Role::Submit], &[]).await;
    let other = stage.token("other", &[Role::Work], &[]).await;
    stage.token = Some(mine.clone());
    stage
        .submit(json!({"task": "t", "queue": "q", "input": "a secret"}))
        .await;
    let claim =
        json!({"worker": "w", "max": 1, "lease_ms": 30_000, "token": "01890000-0000-7000-8000-000000000001"});
    let first = stage.post("/v1/claims", claim.clone()).await.is(200);
    assert!(first.text.contains("a secret"));
    stage.token = Some(other);
    let stolen = stage.post("/v1/claims", claim.clone()).await.is(200);
    assert_eq!(stolen.json["claims"], json!([]), "{}", stolen.text);
    stage.token = Some(mine);
    let again = stage.post("/v1/claims", claim).await.is(200);
    assert_eq!(again.json["claims"][0]["fence"], first.json["claims"][0]["fence"]);
}

#[tokio::test]
async fn the_output_of_another_task_is_not_had_by_an_equal_input() {
    let mut stage = Stage::new().await;
    let admin = stage.token("root", &[Role::Admin], &[]).await;
    let submit = stage.token("shop", &[Role::Submit], &[]).await;
    stage.token = Some(admin);
    let said = |task: &str| json!({"task": task, "input": {}, "wait_ms": 500, "dedup": {"key": "k", "scope": "global", "hold": "window", "on_mismatch": "ignore"}});
    let mut first = said("payroll");
    first.as_object_mut().unwrap().remove("wait_ms");
    stage.submit(first).await;
    let (id, fence) = stage.claim("payroll").await;
    let done =
        json!({"settlements": [{"id": id, "fence": fence, "result": "complete", "output": "salaries"}]});
    stage.post("/v1/claims/settle", done).await.is(200);
    stage.token = Some(submit);
    let own = stage.post("/v1/jobs", said("payroll")).await.is(200);
    assert_eq!(own.json["output"], "salaries");
    let spying = stage.post("/v1/jobs", said("spy")).await.is(200);
    assert!(!spying.text.contains("salaries"), "{}", spying.text);
}

#[tokio::test]
async fn who_cannot_wait_has_submitted_nothing() {
    let stage = Stage::new().await;
    let mut open = Vec::new();
    while open.len() < 256 {
        open.push(stage.request("GET", "/v1/stream").send().await.unwrap());
    }
    let waiting = json!({"task": "t", "input": 1, "wait_ms": 1_000});
    stage.post("/v1/jobs", waiting).await.refused(429, "too_many");
    assert_eq!(stage.get("/v1/jobs").await.is(200).json["items"], json!([]));
}

#[tokio::test]
async fn a_stranger_may_say_little() {
    let mut stage = Stage::new().await;
    let token = stage.token("root", &[Role::Admin], &[]).await;
    let long = json!({"token": "x".repeat(5_000)});
    stage.post("/login", long).await.refused(413, "too_large");
    stage.post("/login", json!({"token": token})).await.is(204);
    stage.token = Some(token);
    let large = json!({"task": "t", "input": "x".repeat(200 * 1024)});
    stage.post("/v1/jobs", large).await.is(201);
}

#[tokio::test]
async fn a_key_in_two_headers_is_no_key() {
    let stage = Stage::new().await;
    let request = |second: &str| {
        stage
            .request("POST", "/v1/jobs")
            .header("Idempotency-Key", "a")
            .header("Idempotency-Key", second)
            .json(&json!({"task": "t", "input": 1}))
    };
    let refused = stage.send("POST", "/v1/jobs", request("b")).await;
    refused.refused(400, "invalid");
}
