//! What an attacker would try with somebody else's credential, with none, or with one that is no longer good.

use std::time::Duration;

use reqwest::header;
use semel_server::role::Role;
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn the_last_token_that_goes_does_not_open_the_door() {
    let mut stage = Stage::new().await;
    stage.get("/v1/stats").await.is(200);
    let made = stage
        .post(
            "/v1/tokens",
            json!({"name": "alice", "roles": ["admin"], "ttl_ms": 60_000}),
        )
        .await
        .is(201);
    stage.token = made.json["token"].as_str().map(str::to_owned);
    stage.call("DELETE", "/v1/tokens/alice", json!({})).await.is(204);
    stage.token = None;
    stage.get("/v1/stats").await.refused(401, "unauthorized");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    stage.get("/v1/stats").await.refused(401, "unauthorized");
}

#[tokio::test]
async fn a_token_that_ran_out_stays_known_and_its_name_can_be_had_again() {
    let mut stage = Stage::new().await;
    let admin = stage.token("root", &[Role::Admin], &[]).await;
    stage.token = Some(admin);
    let brief = json!({"name": "brief", "roles": ["read"], "ttl_ms": 1_000});
    stage.post("/v1/tokens", brief.clone()).await.is(201);
    stage
        .post("/v1/tokens", brief.clone())
        .await
        .refused(409, "not_unique");
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let list = stage.get("/v1/tokens").await.is(200);
    assert!(list.text.contains("brief"), "{}", list.text);
    stage.post("/v1/tokens", brief).await.is(201);
    let list = stage.get("/v1/tokens").await.is(200);
    assert_eq!(list.json["items"].as_array().unwrap().len(), 2, "{}", list.text);
}

#[tokio::test]
async fn whoever_comes_through_a_proxy_is_not_on_this_machine() {
    let stage = Stage::set(|settings| settings.hosts = vec!["jobs.example".to_owned()]).await;
    stage.get("/v1/stats").await.is(200);
    for (name, value) in [
        ("x-forwarded-for", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
        ("via", "1.1 proxy"),
        ("x-real-ip", "203.0.113.9"),
        ("host", "jobs.example"),
    ] {
        let request = stage.request("GET", "/v1/stats").header(name, value);
        stage
            .send("GET", "/v1/stats", request)
            .await
            .refused(401, "unauthorized");
    }
    let token = stage.token("alice", &[Role::Read], &[]).await;
    let request = stage
        .request("GET", "/v1/stats")
        .header(header::HOST, "jobs.example")
        .header("x-forwarded-for", "203.0.113.9")
        .bearer_auth(token);
    stage.send("GET", "/v1/stats", request).await.is(200);
}

#[tokio::test]
async fn another_site_cannot_make_a_browser_look() {
    let stage = Stage::new().await;
    for site in ["cross-site", "same-site"] {
        for mode in ["no-cors", "cors"] {
            let request = stage
                .request("GET", "/v1/stream")
                .header("sec-fetch-site", site)
                .header("sec-fetch-mode", mode);
            stage
                .send("GET", "/v1/stream", request)
                .await
                .refused(403, "cross_origin");
        }
        // A link from elsewhere leads here.
        let followed = stage
            .request("GET", "/")
            .header("sec-fetch-site", site)
            .header("sec-fetch-mode", "navigate");
        assert_eq!(followed.send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let mut stage = Stage::new().await;
    let admin = stage.token("root", &[Role::Admin], &[]).await;
    let watcher = stage.token("watcher", &[Role::Read], &[]).await;
    stage.token = Some(watcher);
    let mut stream = stage.request("GET", "/v1/stream").send().await.unwrap();
    assert!(
        stream.chunk().await.unwrap().is_some(),
        "it is heard: hello comes at once"
    );
    stage.token = Some(admin);
    stage
        .call("DELETE", "/v1/tokens/watcher", json!({}))
        .await
        .is(204);
    let ended = tokio::time::timeout(Duration::from_secs(10), async {
        while stream.chunk().await.unwrap().is_some() {}
    });
    ended.await.expect("it ends within seconds");
}

#[tokio::test]
async fn what_an_event_met_is_told_without_pointers_to_one_who_only_submits() {
    let mut stage = Stage::new().await;
    let admin = stage.token("root", &[Role::Admin], &[]).await;
    let shop = stage.token("shop", &[Role::Submit], &[]).await;
    stage.token = Some(admin.clone());
    stage
        .call("PUT", "/v1/events/order.paid/subscribers/receipt", json!({}))
        .await
        .is(200);
    let event = |amount: i64| json!({"input": {"amount": amount}, "idempotency_key": "evt-1"});
    stage.token = Some(shop);
    stage.post("/v1/events/order.paid", event(1)).await.is(200);
    let met = stage.post("/v1/events/order.paid", event(2)).await.is(200);
    assert!(met.json["results"][0]["error"].is_string(), "{}", met.text);
    assert!(!met.text.contains("amount"), "{}", met.text);
    stage.token = Some(admin);
    let met = stage.post("/v1/events/order.paid", event(2)).await.is(200);
    assert!(met.text.contains("/amount"), "{}", met.text);
}

#[tokio::test]
async fn settling_again_with_a_token_answers_the_same() {
    let mut stage = Stage::new().await;
    stage.token = Some(stage.token("root", &[Role::Admin], &[]).await);
    for (result, more) in [
        ("complete", json!({"output": 1})),
        ("fail", json!({"error": "no"})),
        ("retry", json!({"error": "later", "delay_ms": 60_000})),
        ("snooze", json!({"delay_ms": 60_000})),
    ] {
        stage.submit(json!({"task": result, "input": 1})).await;
        let (id, fence) = stage.claim(result).await;
        let mut one = json!({"id": id, "fence": fence, "result": result});
        one.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let settle = json!({"settlements": [one]});
        let first = stage.post("/v1/claims/settle", settle.clone()).await.is(200);
        assert_eq!(first.json["results"][0]["status"], "ok", "{result}");
        let again = stage.post("/v1/claims/settle", settle).await.is(200);
        assert_eq!(first.json, again.json, "{result}");
    }
}

#[tokio::test]
async fn no_name_leads_a_path_elsewhere() {
    let stage = Stage::new().await;
    for name in [".", ".."] {
        for body in [
            json!({"task": name, "input": 1}),
            json!({"task": "t", "input": 1, "queue": name}),
        ] {
            stage.post("/v1/jobs", body).await.refused(400, "invalid");
        }
    }
    let odd = "a/../b?x#y%2e";
    stage.submit(json!({"task": "t", "input": 1, "queue": odd})).await;
    let path = "/v1/queues/a%2F..%2Fb%3Fx%23y%252e/pause";
    stage.post(path, json!({})).await.is(200);
    let queues = stage.get("/v1/queues").await.is(200);
    assert_eq!(queues.json["items"][0]["name"], odd);
    assert!(queues.json["items"][0]["paused"].is_object(), "{}", queues.text);
    let all = stage.client.store().settings().await.unwrap();
    assert_eq!(all.len(), 1, "that queue, and nothing else: {all:?}");
}

#[tokio::test]
async fn header_values_cannot_carry_others() {
    let stage = Stage::new().await;
    for id in ["a b", "", &"x".repeat(129), "ü"] {
        let request = stage
            .request("GET", "/healthz")
            .header("x-request-id", id.as_bytes());
        let answer = stage.send("GET", "/healthz", request).await.is(200);
        assert_eq!(
            answer.headers["x-request-id"].to_str().unwrap().len(),
            36,
            "{id:?} is none of ours to repeat"
        );
    }
    // A line break in a path is no line break in an answer.
    let answer = stage.get("/v1/jobs/x%0d%0aSet-Cookie:%20a=b").await;
    assert!(!answer.headers.contains_key(header::SET_COOKIE), "{answer:?}");
}
