//! What operators do: pause, close, replay, release, bulk acts.

use std::time::Duration;

use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
pub async fn a_paused_queue_hands_nothing_out_until_it_is_resumed() {
    let stage = Stage::new().await;
    stage
        .submit(json!({"task": "t", "input": 1, "queue": "mail"}))
        .await;
    let claim = json!({"worker": "w", "max": 1, "lease_ms": 30_000});
    for (pause, resume) in [
        ("/v1/queues/mail/pause", "/v1/queues/mail/resume"),
        ("/v1/tasks/t/pause", "/v1/tasks/t/resume"),
        ("/v1/pause", "/v1/resume"),
    ] {
        let paused = stage
            .post(pause, json!({"for_ms": 60_000, "reason": "provider is down"}))
            .await
            .is(200);
        assert_eq!(paused.json["paused"]["reason"], "provider is down");
        assert_eq!(
            stage.post("/v1/claims", claim.clone()).await.is(200).json["claims"],
            json!([])
        );
        assert!(
            stage
                .post(resume, json!({}))
                .await
                .is(200)
                .json
                .get("paused")
                .is_none()
        );
    }
    assert_eq!(
        stage.post("/v1/claims", claim).await.is(200).json["claims"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let audit = stage.get("/v1/audit").await.is(200);
    assert_eq!(audit.json["items"].as_array().unwrap().len(), 6);
    assert_eq!(
        (&audit.json["items"][5]["act"], &audit.json["items"][5]["reason"]),
        (&json!("pause"), &json!("provider is down"))
    );
    stage
        .post("/v1/queues/mail/pause", json!({"for_ms": 0}))
        .await
        .refused(400, "invalid");
}

#[tokio::test]
pub async fn intake_mode_and_uniqueness_are_levers() {
    let stage = Stage::new().await;
    let closed = stage
        .call(
            "PATCH",
            "/v1/queues/mail",
            json!({"intake": "closed", "reason": "moving"}),
        )
        .await
        .is(200);
    assert_eq!(closed.json["intake"], "closed");
    let refused = stage
        .post("/v1/jobs", json!({"task": "t", "input": 1, "queue": "mail"}))
        .await
        .refused(503, "closed");
    assert!(refused.headers.contains_key("retry-after"));
    stage
        .post(
            "/v1/jobs/explain",
            json!({"task": "t", "input": 1, "queue": "mail"}),
        )
        .await
        .refused(503, "closed");
    stage
        .call(
            "PATCH",
            "/v1/queues/mail",
            json!({"intake": "open", "unique": true}),
        )
        .await
        .is(200);
    let first = stage
        .submit(json!({"task": "t", "input": 1, "queue": "mail"}))
        .await;
    let again = stage
        .post("/v1/jobs", json!({"task": "t", "input": 1, "queue": "mail"}))
        .await
        .is(200);
    assert_eq!(again.json["job"]["id"], first);
    assert_eq!(
        stage
            .call("PATCH", "/v1/tasks/t", json!({"mode": "observe"}))
            .await
            .is(200)
            .json["mode"],
        "observe"
    );
    stage
        .call("PATCH", "/v1/tasks/t", json!({"unique": true}))
        .await
        .refused(400, "invalid");
    stage
        .call("PATCH", "/v1/tasks/t", json!({}))
        .await
        .refused(400, "invalid");
    let queues = stage.get("/v1/queues").await.is(200);
    assert_eq!(
        (
            &queues.json["items"][0]["name"],
            &queues.json["items"][0]["unique"]
        ),
        (&json!("mail"), &json!(true))
    );
    assert_eq!(
        stage.get("/v1/tasks").await.is(200).json["items"][0]["mode"],
        "observe"
    );
    assert_eq!(
        stage
            .call("DELETE", "/v1/queues/mail", json!({"reason": "done"}))
            .await
            .is(200)
            .json["removed"],
        1
    );
    stage
        .get(&format!("/v1/jobs/{first}"))
        .await
        .refused(404, "not_found");
}

#[tokio::test]
pub async fn closing_and_observing_can_end_by_themselves() {
    let stage = Stage::new().await;
    for kind in ["queues", "tasks"] {
        let path = format!("/v1/{kind}/default");
        let job = json!({"task": "default", "input": 1, "idempotency_key": "k"});
        let closed = stage
            .call(
                "PATCH",
                &path,
                json!({"intake": "closed", "for_ms": 700, "reason": "moving"}),
            )
            .await
            .is(200);
        assert!(closed.json["closed_until"].is_string(), "{}", closed.text);
        stage.post("/v1/jobs", job.clone()).await.refused(503, "closed");
        tokio::time::sleep(Duration::from_millis(800)).await;
        let first = stage.post("/v1/jobs", job.clone()).await;
        assert!(matches!(first.status, 200 | 201), "{first:?}");
        let observed = stage
            .call("PATCH", &path, json!({"mode": "observe", "for_ms": 700}))
            .await
            .is(200);
        assert!(observed.json["observed_until"].is_string(), "{}", observed.text);
        let let_in = stage.post("/v1/jobs", job.clone()).await.is(201);
        assert_eq!(let_in.json["would"]["outcome"], "duplicate");
        tokio::time::sleep(Duration::from_millis(800)).await;
        stage.post("/v1/jobs", job).await.is(200);
        for wrong in [
            json!({"intake": "closed", "for_ms": 0}),
            json!({"intake": "open", "for_ms": 1_000}),
            json!({"mode": "enforce", "for_ms": 1_000}),
            json!({"intake": "closed", "unique": true, "for_ms": 1_000}),
            json!({"intake": "closed", "for_ms": u64::MAX}),
            json!({"for_ms": 1_000}),
        ] {
            stage.call("PATCH", &path, wrong).await.refused(400, "invalid");
        }
    }
    let lanes = stage.get("/v1/queues").await.is(200);
    assert_eq!(
        (&lanes.json["items"][0]["intake"], &lanes.json["items"][0]["mode"]),
        (&json!("open"), &json!("enforce"))
    );
}

#[tokio::test]
pub async fn dead_letters_are_grouped_replayed_once_and_dropped() {
    let stage = Stage::new().await;
    let id = stage
        .dead_letter("charge", json!({"input": 1, "dedup": {}}))
        .await;
    let list = stage.get("/v1/dead-letters?task=charge").await.is(200);
    assert_eq!(list.json["groups"][0]["error"], "card # expired");
    assert_eq!(list.json["items"][0]["id"], id);
    let path = format!("/v1/dead-letters/{id}/replay");
    let holder = stage
        .submit(json!({"task": "charge", "input": 1, "dedup": {}}))
        .await;
    let held = stage
        .post(&path, json!({}))
        .await
        .refused(409, "duplicate_rejected");
    assert_eq!(held.json["holder"]["id"], holder);
    stage
        .post(&format!("/v1/jobs/{holder}/cancel"), json!({}))
        .await
        .is(200);
    let fresh = stage.post(&path, json!({"reason": "card renewed"})).await.is(201);
    let again = stage.post(&path, json!({})).await.is(200);
    assert_eq!(fresh.json["id"], again.json["id"]);
    stage
        .call("DELETE", &format!("/v1/dead-letters/{id}"), json!({}))
        .await
        .refused(404, "not_found");
    let other = stage.dead_letter("mail", json!({"input": 2})).await;
    stage
        .call("DELETE", &format!("/v1/dead-letters/{other}"), json!({}))
        .await
        .is(200);
    stage
        .post("/v1/dead-letters/unheard-of/replay", json!({}))
        .await
        .refused(404, "not_found");
    stage
        .call("DELETE", "/v1/dead-letters/unheard-of", json!({}))
        .await
        .refused(404, "not_found");
}

#[tokio::test]
pub async fn keys_are_found_shown_with_their_ledger_and_released_by_naming_the_holder() {
    let stage = Stage::new().await;
    let body = json!({"task": "t", "input": {"a": 1}, "idempotency_key": "ORD-1", "producer": "shop"});
    let id = stage.submit(body.clone()).await;
    stage.post("/v1/jobs", body).await.is(200);
    let list = stage.get("/v1/keys?text=ORD").await.is(200);
    let digest = list.json["items"][0]["digest"].as_str().unwrap().to_owned();
    assert_eq!(list.json["items"][0]["holder"]["id"], id);
    assert_eq!(
        stage.get(&format!("/v1/keys?text={digest}")).await.is(200).json["items"][0]["text"],
        "ORD-1"
    );
    let page = stage.get(&format!("/v1/keys/{digest}")).await.is(200);
    assert_eq!(
        (
            &page.json["ledger"][0]["outcome"],
            &page.json["ledger"][0]["producer"]
        ),
        (&json!("duplicate"), &json!("shop"))
    );
    assert_eq!(
        stage
            .get(&format!("/v1/duplicates?key={digest}"))
            .await
            .is(200)
            .json["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let path = format!("/v1/keys/{digest}/release");
    stage
        .post(&path, json!({"holder": id}))
        .await
        .refused(400, "invalid");
    stage
        .post(&path, json!({"holder": "another", "reason": "x"}))
        .await
        .refused(409, "holder_changed");
    stage
        .post(&path, json!({"holder": id, "reason": "customer asked"}))
        .await
        .is(200);
    assert_eq!(
        stage.get("/v1/keys?text=ORD").await.is(200).json["items"],
        json!([])
    );
    assert_eq!(
        stage.get("/v1/keys?text=ORD&state=all").await.is(200).json["items"][0]["held"],
        false
    );
    stage
        .get(&format!("/v1/keys/{}", "0".repeat(64)))
        .await
        .refused(404, "not_found");
    stage.get("/v1/keys/short").await.refused(400, "invalid");
    stage.get("/v1/keys?state=odd").await.refused(400, "invalid");
    stage
        .post(
            &format!("/v1/keys/{}/release", "0".repeat(64)),
            json!({"holder": id, "reason": "x"}),
        )
        .await
        .refused(404, "not_found");
}

async fn one_carries_a_plan_out_at_a_time(stage: &Stage) {
    let jobs: Vec<_> = (0..20).map(|n| json!({"task": "slow", "input": n})).collect();
    stage.post("/v1/jobs/batch", json!({"jobs": jobs})).await.is(200);
    let body = json!({"action": "cancel", "filter": {"task": "slow"}, "dry_run": false, "rate_per_s": 1});
    let begun = stage.post("/v1/operations", body).await.is(202);
    let nulls = |value: &serde_json::Value| value.as_object().unwrap().values().any(|one| one.is_null());
    assert!(!nulls(&begun.json["filter"]), "{}", begun.text);
    assert!(!nulls(&begun.json["samples"][0]), "{}", begun.text);
    let id = begun.json["id"].as_str().unwrap();
    let carry = json!({"action": "cancel", "plan": id, "dry_run": false});
    stage
        .post("/v1/operations", carry)
        .await
        .refused(409, "under_way");
    stage
        .post(&format!("/v1/operations/{id}/abort"), json!({}))
        .await
        .is(200);
}

#[tokio::test]
pub async fn a_bulk_act_is_planned_carried_out_and_can_be_aborted() {
    let stage = Stage::new().await;
    for n in 0..10 {
        stage.submit(json!({"task": "t", "input": n})).await;
    }
    let plan = stage
        .post(
            "/v1/operations",
            json!({"action": "cancel", "filter": {"task": "t"}}),
        )
        .await
        .is(200);
    assert_eq!(
        (&plan.json["status"], &plan.json["total"]),
        (&json!("planned"), &json!(10))
    );
    assert_eq!(stage.get("/v1/stats").await.json["cancelled"], 0);
    let id = plan.json["id"].as_str().unwrap();
    let carry = json!({"action": "cancel", "plan": id, "dry_run": false, "reason": "wrong batch"});
    stage.post("/v1/operations", carry).await.is(202);
    let mut done = stage.get(&format!("/v1/operations/{id}")).await.is(200);
    for _ in 0..200 {
        if done.json["status"] == "done" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        done = stage.get(&format!("/v1/operations/{id}")).await.is(200);
    }
    assert_eq!(
        (&done.json["status"], &done.json["done"]),
        (&json!("done"), &json!(10))
    );
    assert_eq!(
        stage.get("/v1/operations").await.is(200).json["items"][0]["id"],
        id
    );
    let other = stage
        .post(
            "/v1/operations",
            json!({"action": "delete", "filter": {"task": "t"}}),
        )
        .await
        .is(200);
    let abort = format!("/v1/operations/{}/abort", other.json["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(
            stage.post(&abort, json!({})).await.is(200).json["status"],
            "aborted"
        );
    }
    // What is done is done: nothing is stopped, and nothing is on record as if it were.
    stage
        .post(&format!("/v1/operations/{id}/abort"), json!({}))
        .await
        .refused(409, "terminal");
    let again = json!({"action": "cancel", "plan": id, "dry_run": false});
    assert_eq!(
        stage.post("/v1/operations", again).await.is(200).json["status"],
        "done"
    );
    let acts = stage.get("/v1/audit").await.is(200);
    let acts = acts.json["items"].as_array().unwrap();
    assert_eq!(acts.iter().filter(|entry| entry["act"] == "abort").count(), 1);
    one_carries_a_plan_out_at_a_time(&stage).await;
    stage
        .post("/v1/operations", json!({"action": "cancel"}))
        .await
        .refused(400, "invalid");
    stage
        .post("/v1/operations", json!({"action": "delete", "plan": id}))
        .await
        .refused(400, "invalid");
    stage
        .post(
            "/v1/operations",
            json!({"action": "cancel", "filter": {"text": "x"}}),
        )
        .await
        .refused(400, "invalid");
    stage
        .post(
            "/v1/operations",
            json!({"action": "cancel", "plan": "unheard-of"}),
        )
        .await
        .refused(404, "not_found");
    stage
        .get("/v1/operations/unheard-of")
        .await
        .refused(404, "not_found");
    stage
        .post("/v1/operations/unheard-of/abort", json!({}))
        .await
        .refused(404, "not_found");
}
