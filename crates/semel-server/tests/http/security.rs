//! Who may come in, and what a browser cannot be tricked into.

use std::time::Duration;

use reqwest::header;
use semel_server::role::Role;
use semel_server::route::Access;
use serde_json::json;

use crate::stage::{Stage, read};

#[tokio::test]
pub async fn every_route_lets_in_who_has_its_role_and_nobody_else() {
    let mut stage = Stage::new().await;
    let mut tokens = Vec::new();
    for role in Role::ALL {
        tokens.push((role, stage.token(role.word(), &[role], &[]).await));
    }
    let mut pairs = 0;
    for route in semel_server::table::every() {
        let Access::Needs(wanted) = route.access else {
            continue;
        };
        let path = route
            .path
            .replace("{digest}", &"0".repeat(64))
            .replace(['{', '}'], "");
        stage.token = None;
        let nobody = read(stage.request(route.method.as_str(), &path).send().await.unwrap()).await;
        assert_eq!(
            nobody.status, 401,
            "{} {path} without a token: {nobody:?}",
            route.method
        );
        for (role, token) in &tokens {
            stage.token = Some(token.clone());
            // A long list of answers is not needed: whether one is let in is known from the status.
            let request = stage
                .request(route.method.as_str(), &path)
                .timeout(Duration::from_secs(20));
            let status = request.send().await.unwrap().status().as_u16();
            let let_in = !matches!(status, 401 | 403);
            assert_eq!(
                let_in,
                role.covers(wanted),
                "{} {path} as {}: {status}",
                route.method,
                role.word()
            );
            assert!(
                status < 500,
                "{} {path} as {}: {status}",
                route.method,
                role.word()
            );
            pairs += 1;
        }
    }
    assert!(pairs > 300, "{pairs}");
}

#[tokio::test]
pub async fn a_token_is_good_until_it_is_revoked_and_never_kept() {
    let mut stage = Stage::new().await;
    // Without any token everybody on this machine is let in. The first one closes the door, also for whoever made it.
    let locked = stage
        .post("/v1/tokens", json!({"name": "ci", "roles": ["submit"]}))
        .await
        .refused(400, "invalid");
    assert!(locked.json["hint"].is_string(), "{locked:#?}");
    stage.get("/v1/stats").await.is(200);
    let made = stage
        .post("/v1/tokens", json!({"name": "alice", "roles": ["admin"]}))
        .await
        .is(201);
    let token = made.json["token"].as_str().unwrap().to_owned();
    stage.get("/v1/stats").await.refused(401, "unauthorized");
    stage.token = Some(token.clone());
    stage.get("/v1/stats").await.is(200);
    stage
        .post("/v1/tokens", json!({"name": "alice", "roles": ["read"]}))
        .await
        .refused(409, "not_unique");
    // Further ahead than a time can be written.
    stage
        .post(
            "/v1/tokens",
            json!({"name": "bob", "roles": ["read"], "ttl_ms": i64::MAX}),
        )
        .await
        .refused(400, "invalid");
    stage
        .post("/v1/tokens", json!({"name": "bob", "roles": []}))
        .await
        .refused(400, "invalid");
    stage
        .post("/v1/tokens", json!({"name": "bob", "roles": ["king"]}))
        .await
        .refused(400, "invalid");
    let list = stage.get("/v1/tokens").await.is(200);
    assert_eq!(list.json["items"][0]["name"], "alice");
    assert!(!list.text.contains(&token[22..]) && !list.text.contains("sha256"));
    let short = stage
        .post(
            "/v1/tokens",
            json!({"name": "brief", "roles": ["read"], "ttl_ms": 1_000}),
        )
        .await
        .is(201);
    let paused = stage.post("/v1/pause", json!({})).await.is(200);
    assert!(paused.json["paused"].is_object());
    assert_eq!(stage.get("/v1/audit").await.json["items"][0]["actor"], "alice");
    let mut wrong = token.clone();
    wrong.replace_range(token.len() - 1.., if token.ends_with('0') { "1" } else { "0" });
    for bad in [wrong.as_str(), "semel_", "nonsense", &token[..40]] {
        stage.token = Some(bad.to_owned());
        stage.get("/v1/stats").await.refused(401, "unauthorized");
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    stage.token = Some(short.json["token"].as_str().unwrap().to_owned());
    stage.get("/v1/stats").await.refused(401, "unauthorized");
    stage.token = Some(token);
    stage
        .call("DELETE", "/v1/tokens/unheard-of", json!({}))
        .await
        .refused(404, "not_found");
    stage.token("carol", &[Role::Admin], &[]).await;
    stage
        .call("DELETE", "/v1/tokens/alice", json!({"reason": "left"}))
        .await
        .is(204);
    stage.get("/v1/stats").await.refused(401, "unauthorized");
}

#[tokio::test]
pub async fn signing_in_sets_a_cookie_that_scripts_cannot_read() {
    let stage = Stage::new().await;
    let token = stage.token("alice", &[Role::Operate], &[]).await;
    stage
        .post("/login", json!({"token": "semel_wrong"}))
        .await
        .refused(401, "unauthorized");
    let signed = stage.post("/login", json!({"token": token})).await.is(204);
    let cookie = signed.headers[header::SET_COOKIE].to_str().unwrap().to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(&token));
    assert!(!cookie.contains("Secure"), "nothing here is encrypted: {cookie}");
    // Behind a proxy that encrypts the browser says so.
    let origin = stage.url.replace("http://", "https://");
    for (name, value) in [("origin", origin.as_str()), ("x-forwarded-proto", "https")] {
        let request = stage.request("POST", "/login").header(name, value);
        let signed = stage
            .send("POST", "/login", request.json(&json!({"token": token})))
            .await
            .is(204);
        let cookie = signed.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.ends_with("; Secure"), "{name}: {cookie}");
    }
    let pair = cookie.split(';').next().unwrap().to_owned();
    // Another service on this host may have set a cookie of the same name, which browsers send first.
    let name = pair.split('=').next().unwrap();
    let pair = format!("theme=dark; {name}=guess; {pair}");
    let with = |method: &str, path: &str| stage.request(method, path).header(header::COOKIE, &pair);
    stage
        .send("GET", "/v1/stats", with("GET", "/v1/stats"))
        .await
        .is(200);
    // A page of another site cannot use it, whatever the browser says about where it comes from.
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "http://evil.example"),
    ] {
        let request = with("POST", "/v1/pause").header(name, value).json(&json!({}));
        stage
            .send("POST", "/v1/pause", request)
            .await
            .refused(403, "cross_origin");
    }
    let own = with("POST", "/v1/pause")
        .header("sec-fetch-site", "same-origin")
        .json(&json!({}));
    stage.send("POST", "/v1/pause", own).await.is(200);
    stage
        .send("POST", "/logout", with("POST", "/logout"))
        .await
        .is(204);
    stage
        .send("GET", "/v1/stats", with("GET", "/v1/stats"))
        .await
        .refused(401, "unauthorized");
}

#[tokio::test]
pub async fn a_name_that_was_pointed_here_is_refused() {
    let stage = Stage::set(|settings| settings.hosts = vec!["jobs.example".to_owned()]).await;
    for bad in ["evil.example", "127.0.0.1:1", "localhost.evil.example"] {
        let request = stage.request("GET", "/v1/stats").header(header::HOST, bad);
        stage
            .send("GET", "/v1/stats", request)
            .await
            .refused(421, "wrong_host");
    }
    let request = stage
        .request("GET", "/healthz")
        .header(header::HOST, "jobs.example");
    stage.send("GET", "/healthz", request).await.is(200);
}

#[tokio::test]
pub async fn every_answer_carries_its_headers_and_its_id() {
    let stage = Stage::new().await;
    for path in ["/v1/stats", "/v1/nothing", "/healthz"] {
        let answer = stage.get(path).await;
        let csp = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(
            csp.contains("default-src 'none'")
                && csp.contains("frame-ancestors 'none'")
                && !csp.contains("unsafe")
        );
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
        assert_eq!(answer.headers["x-request-id"].to_str().unwrap().len(), 36);
    }
    let named = stage
        .request("GET", "/v1/nothing")
        .header("x-request-id", "mine-7");
    let answer = stage.send("GET", "/v1/nothing", named).await;
    assert_eq!(
        (
            &answer.json["request_id"],
            answer.headers["x-request-id"].to_str().unwrap()
        ),
        (&json!("mine-7"), "mine-7")
    );
}

#[tokio::test]
pub async fn one_who_only_submits_sees_references_and_no_payloads() {
    let mut stage = Stage::new().await;
    let submit = stage.token("shop", &[Role::Submit], &[]).await;
    stage.token = Some(submit);
    let first = stage
        .post(
            "/v1/jobs",
            json!({"task": "t", "input": {"secret": 1}, "idempotency_key": "k"}),
        )
        .await
        .is(201);
    assert!(!first.text.contains("secret"));
    let conflict = stage
        .post(
            "/v1/jobs",
            json!({"task": "t", "input": {"secret": 2}, "idempotency_key": "k"}),
        )
        .await;
    let conflict = conflict.refused(422, "idempotency_conflict");
    assert!(
        !conflict.text.contains("secret") && conflict.json.get("differs").is_none(),
        "{}",
        conflict.text
    );
    assert_eq!(conflict.json["holder"]["id"], first.json["job"]["id"]);
    let id = first.json["job"]["id"].as_str().unwrap();
    stage
        .get(&format!("/v1/jobs/{id}"))
        .await
        .refused(403, "forbidden");
    stage.token = Some(stage.token("all", &[Role::Admin], &[]).await);
    assert_eq!(
        stage.get(&format!("/v1/jobs/{id}")).await.json["producer"],
        "shop"
    );
    // The output goes to one whose own input is equal, and to nobody else.
    let (_, fence) = stage.claim("t").await;
    let done = json!({"settlements": [{"id": id, "fence": fence, "result": "complete", "output": "paid"}]});
    stage.post("/v1/claims/settle", done).await.is(200);
    stage.token = Some(stage.token("shop-2", &[Role::Submit], &[]).await);
    let ignore = |input: i64| {
        json!({"task": "t", "input": {"secret": input}, "wait_ms": 1_000,
        "dedup": {"key": "k", "hold": "window", "on_mismatch": "ignore"}})
    };
    assert_eq!(
        stage.post("/v1/jobs", ignore(1)).await.is(200).json["output"],
        "paid"
    );
    assert!(
        stage
            .post("/v1/jobs", ignore(2))
            .await
            .is(200)
            .json
            .get("output")
            .is_none()
    );
}

#[tokio::test]
pub async fn a_lease_belongs_to_the_token_that_claimed_it() {
    let mut stage = Stage::new().await;
    let producer = stage.token("all", &[Role::Admin], &[]).await;
    let first = stage.token("worker-1", &[Role::Work], &["mail"]).await;
    let second = stage.token("worker-2", &[Role::Work], &[]).await;
    stage.token = Some(producer.clone());
    stage
        .submit(json!({"task": "t", "input": 1, "queue": "mail"}))
        .await;
    stage
        .submit(json!({"task": "t", "input": 1, "queue": "other"}))
        .await;
    stage.token = Some(first.clone());
    let claim =
        |queues: serde_json::Value| json!({"worker": "w", "queues": queues, "max": 10, "lease_ms": 30_000});
    stage
        .post("/v1/claims", claim(json!(["other"])))
        .await
        .refused(403, "forbidden");
    let claims = stage.post("/v1/claims", claim(json!([]))).await.is(200);
    assert_eq!(claims.json["claims"].as_array().unwrap().len(), 1);
    let (id, fence) = (
        &claims.json["claims"][0]["job"]["id"],
        &claims.json["claims"][0]["fence"],
    );
    let settle = json!({"settlements": [{"id": id, "fence": fence, "result": "complete"}]});
    stage.token = Some(second);
    assert_eq!(
        stage.post("/v1/claims/settle", settle.clone()).await.is(200).json["results"][0]["status"],
        "lease_lost"
    );
    let beat = json!({"leases": [{"id": id, "fence": fence}], "lease_ms": 30_000});
    assert_eq!(
        stage.post("/v1/claims/extend", beat).await.is(200).json["results"][0]["status"],
        "lease_lost"
    );
    let step = json!({"id": id, "fence": fence, "step": "s", "phase": "begin"});
    assert_eq!(
        stage.post("/v1/claims/steps", step).await.is(200).json["results"][0]["status"],
        "lease_lost"
    );
    stage.token = Some(first);
    assert_eq!(
        stage.post("/v1/claims/settle", settle).await.is(200).json["results"][0]["status"],
        "ok"
    );
}

#[tokio::test]
pub async fn what_is_named_to_be_hidden_is_never_shown() {
    let stage = Stage::set(|settings| settings.redact = vec!["/card".to_owned()]).await;
    let body = |card: &str| json!({"task": "t", "input": {"card": card, "n": 1}, "dedup": {"by": "fields", "pointers": ["/n"]}});
    let id = stage.submit(body("4111")).await;
    stage.post("/v1/jobs", body("4222")).await.is(200);
    let schedule =
        json!({"cron": "@yearly", "task": "t", "input": {"card": "4111"}, "headers": {"card": "4222"}});
    let set = stage.call("PUT", "/v1/schedules/yearly", schedule).await.is(200);
    assert!(
        !set.text.contains("4111") && !set.text.contains("4222"),
        "{}",
        set.text
    );
    let with_header =
        json!({"task": "t2", "input": null, "headers": {"card": "4222"}, "meta": {"card": "4111"}});
    stage.submit(with_header).await;
    let job = stage.get(&format!("/v1/jobs/{id}")).await.is(200);
    let key = job.json["key"]["digest"].as_str().unwrap();
    for path in [
        format!("/v1/jobs/{id}"),
        "/v1/jobs".to_owned(),
        "/v1/duplicates".to_owned(),
        "/v1/schedules".to_owned(),
        "/v1/schedules/yearly".to_owned(),
        format!("/v1/keys/{key}"),
        format!("/jobs/{id}"),
        format!("/keys/{key}"),
        "/duplicates".to_owned(),
    ] {
        let answer = stage.get(&path).await.is(200);
        assert!(
            !answer.text.contains("4111") && !answer.text.contains("4222"),
            "{path}: {}",
            answer.text
        );
    }
    // A worker needs what it works on.
    let claim = json!({"worker": "w", "tasks": ["t"], "max": 1, "lease_ms": 30_000});
    assert!(
        stage
            .post("/v1/claims", claim)
            .await
            .is(200)
            .text
            .contains("4111")
    );
}
