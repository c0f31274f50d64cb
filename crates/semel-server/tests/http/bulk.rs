//! Which jobs and keys a bulk act means, and why it may act on them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Answer, Stage};

/// A job of task `t` that failed with this error.
async fn failed(stage: &Stage, error: &str) -> String {
    stage.submit(json!({"task": "t", "input": error})).await;
    let (id, fence) = stage.claim("t").await;
    let settle = json!({"settlements": [{"id": id, "fence": fence, "result": "fail", "error": error}]});
    stage.post("/v1/claims/settle", settle).await.is(200);
    id
}

/// Carries a bulk act out, to its end.
pub async fn carried_out(stage: &Stage, mut act: Value) -> Answer {
    act["dry_run"] = false.into();
    let begun = stage.post("/v1/operations", act).await.is(202);
    let path = format!("/v1/operations/{}", begun.json["id"].as_str().unwrap());
    for _ in 0..200 {
        let answer = stage.get(&path).await.is(200);
        if answer.json["status"] == "done" {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} did not come to its end");
}

#[tokio::test]
async fn a_plan_for_a_group_of_dead_letters_takes_no_other_group() {
    let stage = Stage::new().await;
    for error in ["500", "502", "timeout", "timeout of card 42", "timeout 7"] {
        failed(&stage, error).await;
    }
    let groups = stage.get("/v1/dead-letters").await.is(200);
    let groups: Vec<(&str, i64)> = groups.json["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["error"].as_str().unwrap(), group["jobs"].as_i64().unwrap()))
        .collect();
    assert_eq!(groups.len(), 4, "{groups:?}");
    for (group, jobs) in groups {
        let filter = json!({"task": "t", "dead_letters": true, "error_group": group});
        let plan = json!({"action": "replay", "filter": filter});
        let plan = stage.post("/v1/operations", plan).await.is(200);
        assert_eq!(plan.json["total"], jobs, "{group}: {}", plan.text);
        assert_eq!(plan.json["filter"]["error_group"], group);
    }
    let none = json!({"action": "replay", "filter": {"error_group": ""}});
    assert_eq!(stage.post("/v1/operations", none).await.is(200).json["total"], 0);
    let mixed = json!({"action": "release", "filter": {"text": "x", "error_group": "#"}, "reason": "r"});
    stage.post("/v1/operations", mixed).await.refused(400, "invalid");
}

#[tokio::test]
async fn keys_are_released_in_bulk_for_a_reason_only() {
    let stage = Stage::new().await;
    let body = json!({"task": "t", "input": 1, "idempotency_key": "ORD-1"});
    stage.submit(body).await;
    for reason in [json!(null), json!(" ")] {
        for filter in [json!({"task": "t"}), json!({"text": "ORD"})] {
            for dry_run in [true, false] {
                let act =
                    json!({"action": "release", "filter": filter, "dry_run": dry_run, "reason": reason});
                stage.post("/v1/operations", act).await.refused(400, "invalid");
            }
        }
    }
    let keys = stage.get("/v1/keys").await.is(200);
    assert_eq!(keys.json["items"][0]["held"], true);
    assert_eq!(stage.get("/v1/audit").await.is(200).json["items"], json!([]));
    // What the plan was made for is on record when it is carried out, whoever does it.
    let plan = json!({"action": "release", "filter": {"task": "t"}, "reason": "refunded"});
    let plan = stage.post("/v1/operations", plan).await.is(200);
    carried_out(&stage, json!({"action": "release", "plan": plan.json["id"]})).await;
    assert_eq!(stage.get("/v1/keys").await.is(200).json["items"], json!([]));
    let audit = stage.get("/v1/audit").await.is(200);
    assert_eq!(
        (&audit.json["items"][0]["act"], &audit.json["items"][0]["reason"]),
        (&json!("carry_out"), &json!("refunded"))
    );
}

#[tokio::test]
async fn a_key_is_found_by_its_whole_text_among_many_that_contain_it() {
    let stage = Stage::new().await;
    let first = json!({"task": "t", "input": 1, "idempotency_key": "ord-1"});
    let id = stage.submit(first).await;
    for hundred in 0..6 {
        let jobs: Vec<Value> = (0..100)
            .map(|n| json!({"task": "t", "input": n, "idempotency_key": format!("ord-1{hundred}{n:02}")}))
            .collect();
        stage
            .post("/v1/jobs/batch", json!({ "jobs": jobs }))
            .await
            .is(200);
    }
    let found = stage.get("/v1/jobs?key=ord-1").await.is(200);
    assert_eq!(found.json["items"].as_array().unwrap().len(), 1, "{}", found.text);
    assert_eq!(found.json["items"][0]["id"], id);
    let plan = json!({"action": "cancel", "filter": {"key": " ord-1 "}});
    assert_eq!(stage.post("/v1/operations", plan).await.is(200).json["total"], 1);
    stage.get("/v1/jobs?key=ord").await.refused(404, "not_found");
    let twice = json!({"task": "u", "input": 1, "idempotency_key": "ord-1"});
    stage.submit(twice).await;
    // Which tasks there are is looked at once a second.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    stage.get("/v1/jobs?key=ord-1").await.refused(400, "invalid");
}
