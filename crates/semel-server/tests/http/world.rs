//! Stores with something to see.

use serde_json::json;

use crate::stage::Stage;

/// The screens that need no name.
pub const SCREENS: [&str; 15] = [
    "/",
    "/keys",
    "/keys?state=all",
    "/jobs",
    "/queues",
    "/workers",
    "/duplicates",
    "/dead-letters",
    "/schedules",
    "/explain",
    "/in-doubt",
    "/configuration",
    "/audit",
    "/login",
    "/problems/invalid",
];

/// Everything a user can name is this text. Gives the path of every page on which something of it is shown.
pub async fn hostile(stage: &Stage, text: &str) -> Vec<String> {
    let dead = stage
        .dead_letter(
            text,
            json!({"input": {text: text}, "queue": text, "producer": text}),
        )
        .await;
    let body = json!({"task": text, "input": text, "queue": text, "idempotency_key": text, "producer": text});
    let held = stage.submit(body.clone()).await;
    stage.post("/v1/jobs", body).await.is(200);
    let (claimed, fence) = stage.claim(text).await;
    let step = json!({"id": claimed, "fence": fence, "step": text, "phase": "begin"});
    stage.post("/v1/claims/steps", step).await.is(200);
    let told = json!({"leases": [{"id": claimed, "fence": fence, "log": [text]}], "lease_ms": 30_000});
    stage.post("/v1/claims/extend", told).await.is(200);
    let park = json!({"settlements": [{"id": claimed, "fence": fence, "result": "park", "error": text}]});
    stage.post("/v1/claims/settle", park).await.is(200);
    stage
        .submit(json!({"task": text, "input": 1, "headers": {"h": text}, "meta": {"m": text}}))
        .await;
    let claim = json!({"worker": text, "tasks": [text], "max": 1, "lease_ms": 30_000});
    let claim = stage.post("/v1/claims", claim).await.is(200);
    let (done, fence) = (
        claim.json["claims"][0]["job"]["id"].as_str().unwrap().to_owned(),
        claim.json["claims"][0]["fence"].clone(),
    );
    for (phase, output) in [("begin", json!(null)), ("confirm", json!({ text: text }))] {
        let mut step = json!({"id": done, "fence": fence, "step": text, "phase": phase});
        if phase == "confirm" {
            step["output"] = output;
        }
        stage.post("/v1/claims/steps", step).await.is(200);
    }
    let settle = json!({"settlements": [{"id": done, "fence": fence, "result": "complete", "output": text}]});
    stage.post("/v1/claims/settle", settle).await.is(200);
    stage.post("/v1/pause", json!({"reason": text})).await.is(200);
    let schedule = json!({"cron": "@daily", "task": text, "input": text});
    stage.call("PUT", "/v1/schedules/hostile", schedule).await.is(200);
    let plan = json!({"action": "delete", "filter": {"task": text}, "reason": text});
    let plan = stage.post("/v1/operations", plan).await.is(200);
    with_details(stage, &[&dead, &held, &done], plan.json["id"].as_str().unwrap()).await
}

/// A shop on an ordinary day.
pub async fn shop(stage: &Stage) -> Vec<String> {
    for n in 0..12 {
        let order = format!("ORD-{n}");
        let body = json!({"task": "charge_customer", "queue": "payments", "input": {"order": order, "amount": 4200 + n},
            "idempotency_key": format!("charge-{order}"), "producer": "billing-api"});
        stage.submit(body.clone()).await;
        for _ in 0..n % 4 {
            stage.post("/v1/jobs", body.clone()).await.is(200);
        }
        let mail = json!({"task": "send_mail", "input": {"to": format!("customer-{n}@example.com")}, "unique": true});
        stage.submit(mail).await;
    }
    let other = json!({"task": "charge_customer", "queue": "payments", "input": {"order": "ORD-11", "amount": 1},
        "idempotency_key": "charge-ORD-11", "producer": "webhook"});
    stage.post("/v1/jobs", other).await.is(422);
    for _ in 0..5 {
        let (id, fence) = stage.claim("send_mail").await;
        let done = json!({"settlements": [{"id": id, "fence": fence, "result": "complete", "output": {"sent": true}}]});
        stage.post("/v1/claims/settle", done).await.is(200);
    }
    let running = stage.claim("charge_customer").await.0;
    let dead = uploaded_and_failed(stage).await;
    stage
        .dead_letter(
            "sync_invoice",
            json!({"input": {"invoice": 2}, "queue": "reports"}),
        )
        .await;
    stage
        .submit(json!({"task": "capture", "input": {"order": "ORD-3"}, "idempotency_key": "capture-ORD-3"}))
        .await;
    let (parked, fence) = stage.claim("capture").await;
    let step = json!({"id": parked, "fence": fence, "step": "stripe", "phase": "begin"});
    stage.post("/v1/claims/steps", step).await.is(200);
    let park = json!({"settlements": [{"id": parked, "fence": fence, "result": "park", "error": "the connection was lost"}]});
    stage.post("/v1/claims/settle", park).await.is(200);
    let schedule = json!({"cron": "30 8 * * MON", "task": "weekly_report", "input": {}});
    stage.call("PUT", "/v1/schedules/weekly", schedule).await.is(200);
    let closed = json!({"intake": "closed", "for_ms": 900_000, "reason": "moving house"});
    stage.call("PATCH", "/v1/tasks/send_mail", closed).await.is(200);
    let pause = json!({"reason": "the printer is on fire", "for_ms": 600_000});
    stage.post("/v1/queues/reports/pause", pause).await.is(200);
    let plan =
        json!({"action": "replay", "filter": {"dead_letters": true}, "reason": "the card service is back"});
    let plan = stage.post("/v1/operations", plan).await.is(200);
    with_details(
        stage,
        &[&dead, &running, &parked],
        plan.json["id"].as_str().unwrap(),
    )
    .await
}

/// A job that was tried twice, did one of its two effects, and failed for good.
async fn uploaded_and_failed(stage: &Stage) -> String {
    let invoice = json!({"task": "sync_invoice", "input": {"invoice": 1}, "queue": "reports"});
    stage.submit(invoice).await;
    let settle = async |id: &str, fence: i64, result: &str, error: &str| {
        let mut one = json!({"id": id, "fence": fence, "result": result, "error": error});
        if result == "retry" {
            one["delay_ms"] = 0.into();
        }
        let settled = stage
            .post("/v1/claims/settle", json!({"settlements": [one]}))
            .await;
        assert_eq!(settled.json["results"][0]["status"], "ok", "{settled:?}");
    };
    let (id, fence) = stage.claim("sync_invoice").await;
    for step in [
        json!({"id": id, "fence": fence, "step": "upload", "phase": "begin"}),
        json!({"id": id, "fence": fence, "step": "upload", "phase": "confirm", "output": {"file": "invoice-1.pdf"}}),
    ] {
        stage.post("/v1/claims/steps", step).await.is(200);
    }
    settle(&id, fence, "retry", "the ledger answered 503 after 30 s").await;
    let (id, fence) = stage.claim("sync_invoice").await;
    settle(&id, fence, "fail", "card 4711 expired").await;
    id
}

async fn with_details(stage: &Stage, jobs: &[&str], plan: &str) -> Vec<String> {
    let keys = stage.get("/v1/keys").await.is(200);
    let most = keys.json["items"].as_array().unwrap().iter().rev();
    let most = most.max_by_key(|key| key["absorbed"].as_i64()).unwrap();
    let digest = most["digest"].as_str().unwrap().to_owned();
    let mut paths: Vec<String> = SCREENS.map(str::to_owned).to_vec();
    paths.extend(jobs.iter().map(|id| format!("/jobs/{id}")));
    paths.extend([format!("/keys/{digest}"), format!("/operations/{plan}")]);
    paths
}
