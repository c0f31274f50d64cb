//! Workers, guards, events and schedules over HTTP.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Answer, Stage};

#[tokio::test]
pub async fn claims_are_strict_and_a_repeated_one_is_the_same() {
    let stage = Stage::new().await;
    stage.submit(json!({"task": "t", "input": 1})).await;
    for body in [
        json!({"worker": "w", "max": 0, "lease_ms": 30_000}),
        json!({"worker": "w", "max": 1, "lease_ms": 10}),
        json!({"worker": "", "max": 1, "lease_ms": 30_000}),
        json!({"max": 1, "lease_ms": 30_000}),
    ] {
        stage.post("/v1/claims", body).await.refused(400, "invalid");
    }
    let token = "0190d5b2-7c1e-7a53-9f0e-3c1f0a5b6d7e";
    let body = json!({"worker": "w", "tasks": ["t"], "max": 5, "lease_ms": 30_000, "token": token});
    let first = stage.post("/v1/claims", body.clone()).await.is(200);
    let again = stage.post("/v1/claims", body).await.is(200);
    assert_eq!(first.json["claims"][0]["fence"], again.json["claims"][0]["fence"]);
    let workers = stage.get("/v1/workers").await.is(200);
    assert_eq!(workers.json["items"][0]["tasks"], json!(["t"]));
    let names: Vec<String> = (0..201).map(|n| format!("n{n}")).collect();
    for member in ["tasks", "queues"] {
        let mut body = json!({"worker": "w", "max": 5, "lease_ms": 30_000});
        body[member] = json!(names);
        stage
            .post("/v1/claims", body.clone())
            .await
            .refused(400, "invalid");
        body[member] = json!(names[..200]);
        stage.post("/v1/claims", body).await.is(200);
    }
}

/// The jobs of an answer to a claim, each with its fence.
fn leased(answer: &Answer) -> Vec<(String, i64)> {
    let claims = answer.json["claims"].as_array().unwrap().iter();
    claims
        .map(|claim| {
            let id = claim["job"]["id"].as_str().unwrap();
            (id.to_owned(), claim["fence"].as_i64().unwrap())
        })
        .collect()
}

async fn running(stage: &Stage) -> usize {
    let stats = stage.client.store().stats().await.unwrap();
    let running = stats.jobs.get(&semel_core::job::State::Running);
    usize::try_from(running.copied().unwrap_or(0)).unwrap()
}

#[tokio::test]
async fn a_claim_leases_no_more_than_it_delivers() {
    // A thousand large jobs were leased once, and the answer had no room: each claim spent a delivery of all of them.
    let stage = Stage::new().await;
    let large = "x".repeat(200 * 1024);
    for _ in 0..2 {
        let batch = json!({"jobs": vec![json!({"task": "t", "input": large}); 50]});
        stage.post("/v1/jobs/batch", batch).await.is(200);
    }
    let token = "0190d5b2-7c1e-7a53-9f0e-3c1f0a5b6d7e";
    let mut body = json!({"worker": "w", "tasks": ["t"], "max": 1_000, "lease_ms": 30_000, "token": token});
    let first = leased(&stage.post("/v1/claims", body.clone()).await.is(200));
    assert!((30..70).contains(&first.len()), "{} jobs of 200 KiB", first.len());
    assert_eq!(running(&stage).await, first.len());
    let again = leased(&stage.post("/v1/claims", body.clone()).await.is(200));
    assert_eq!(again, first, "a repeated claim is the same claim");
    body.as_object_mut().unwrap().remove("token");
    let mut all: BTreeSet<(String, i64)> = first.into_iter().collect();
    for _ in 0..5 {
        let more = leased(&stage.post("/v1/claims", body.clone()).await.is(200));
        let before = all.len();
        let n = more.len();
        all.extend(more);
        assert_eq!(all.len(), before + n, "a job was leased twice");
        assert_eq!(running(&stage).await, all.len());
    }
    assert_eq!(all.len(), 100);
}

#[tokio::test]
async fn many_small_jobs_are_one_claim_that_can_be_repeated() {
    let stage = Stage::new().await;
    let batch = json!({"jobs": vec![json!({"task": "t", "input": 1}); 200]});
    stage.post("/v1/jobs/batch", batch).await.is(200);
    let token = "0190d5b2-7c1e-7a53-9f0e-3c1f0a5b6d7e";
    let body = json!({"worker": "w", "tasks": ["t"], "max": 150, "lease_ms": 30_000, "token": token});
    let first = leased(&stage.post("/v1/claims", body.clone()).await.is(200));
    assert_eq!(first.len(), 150);
    let (id, fence) = &first[0];
    let settle = json!({"settlements": [{"id": id, "fence": fence, "result": "complete"}]});
    stage.post("/v1/claims/settle", settle).await.is(200);
    let again = leased(&stage.post("/v1/claims", body).await.is(200));
    assert_eq!(again[..149], first[1..], "what still runs is answered again");
    assert_eq!(running(&stage).await, again.len());
}

#[tokio::test]
async fn made_up_workers_and_tasks_fill_no_list() {
    let stage = Stage::new().await;
    for n in 0..220 {
        let body =
            json!({"worker": format!("w{n}"), "tasks": [format!("t{n}")], "max": 1, "lease_ms": 30_000});
        stage.post("/v1/claims", body).await.is(200);
    }
    let workers = stage.get("/v1/workers").await.is(200);
    assert_eq!(workers.json["items"].as_array().unwrap().len(), 200);
    assert_eq!(stage.get("/v1/tasks").await.is(200).json["items"], json!([]));
}

#[tokio::test]
async fn a_worker_that_names_no_task_serves_all_of_them() {
    let stage = Stage::new().await;
    for n in 0..2 {
        stage.submit(json!({"task": "thumbnail", "input": n})).await;
    }
    let body = json!({"worker": "w", "max": 1, "lease_ms": 30_000});
    stage.post("/v1/claims", body).await.is(200);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(stage.get("/v1/alerts").await.is(200).json["items"], json!([]));
    let tasks = stage.get("/v1/tasks").await.is(200);
    assert_eq!(tasks.json["items"][0]["workers"], 1, "{}", tasks.text);
    let page = stage.request("GET", "/queues").header("accept", "text/html");
    let page = page.send().await.unwrap().text().await.unwrap();
    assert!(
        page.contains("thumbnail") && !page.contains("no worker"),
        "{page}"
    );
    let metrics = stage.get("/metrics").await.is(200).text;
    assert!(
        metrics.contains("semel_store_workers{task=\"*\",version=\"\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_worker_on_a_long_job_stays_on_the_list_with_its_heartbeats() {
    let stage = Stage::new().await;
    stage.submit(json!({"task": "t", "input": 1})).await;
    let (id, fence) = stage.claim("t").await;
    // As if it had been silent for so long that it is no longer believed to be there.
    let kind = semel_core::ids::Name::new(semel::workers::KIND).unwrap();
    assert!(
        stage
            .client
            .store()
            .delete_document(&kind, "w1", None)
            .await
            .is_ok()
    );
    tokio::time::sleep(Duration::from_millis(15_500)).await;
    assert_eq!(stage.get("/v1/workers").await.is(200).json["items"], json!([]));
    let beat = json!({"leases": [{"id": id, "fence": fence}], "lease_ms": 30_000});
    stage.post("/v1/claims/extend", beat).await.is(200);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let workers = stage.get("/v1/workers").await.is(200);
    assert_eq!(workers.json["items"][0]["name"], "w1", "{}", workers.text);
    assert_eq!(workers.json["items"][0]["tasks"], json!(["t"]));
}

#[tokio::test]
pub async fn every_way_to_settle_is_understood_and_a_lost_lease_is_a_result() {
    let stage = Stage::new().await;
    for (result, extra, state) in [
        ("complete", json!({"output": 1}), "complete"),
        ("retry", json!({"error": "e"}), "scheduled"),
        ("fail", json!({"error": "e"}), "failed"),
        ("snooze", json!({"delay_ms": 60_000}), "scheduled"),
        ("hand_back", json!({}), "queued"),
        ("park", json!({"error": "who knows"}), "parked"),
        ("cancel", json!({}), "cancelled"),
    ] {
        let task = format!("t-{result}");
        stage.submit(json!({"task": task, "input": 1})).await;
        let (id, fence) = stage.claim(&task).await;
        let mut settlement = json!({"id": id, "fence": fence, "result": result});
        settlement
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let settled = stage
            .post("/v1/claims/settle", json!({"settlements": [settlement]}))
            .await
            .is(200);
        assert_eq!(
            settled.json["results"][0],
            json!({"id": id, "status": "ok", "state": state}),
            "{result}"
        );
    }
    for bad in [
        json!({"id": "a", "fence": 1, "result": "retry"}),
        json!({"id": "a", "fence": 1, "result": "snooze"}),
        json!({"id": "a", "fence": 1, "result": "vanish"}),
    ] {
        stage
            .post("/v1/claims/settle", json!({"settlements": [bad]}))
            .await
            .refused(400, "invalid");
    }
    stage.submit(json!({"task": "z", "input": 1})).await;
    let (id, fence) = stage.claim("z").await;
    let stale = json!({"settlements": [
        {"id": id, "fence": fence - 1, "result": "complete"},
        {"id": "unheard-of", "fence": 1, "result": "complete"},
    ]});
    let settled = stage.post("/v1/claims/settle", stale).await.is(200);
    assert_eq!(settled.json["results"][0]["status"], "lease_lost");
    assert_eq!(settled.json["results"][1]["status"], "not_found");
    stage
        .post(&format!("/v1/jobs/{id}/cancel"), json!({}))
        .await
        .is(200);
    let beat = json!({"leases": [{"id": id, "fence": fence}], "lease_ms": 30_000});
    assert_eq!(
        stage.post("/v1/claims/extend", beat).await.is(200).json["results"][0]["status"],
        "cancelled"
    );
}

#[tokio::test]
pub async fn a_step_that_may_have_happened_is_in_doubt_until_somebody_decides() {
    let stage = Stage::new().await;
    let id = stage.submit(json!({"task": "t", "input": 1})).await;
    let (_, fence) = stage.claim("t").await;
    let step = |phase: &str, fence: i64| json!({"id": id, "fence": fence, "step": "pay", "phase": phase});
    stage.post("/v1/claims/steps", step("begin", fence)).await.is(200);
    let park = json!({"settlements": [{"id": id, "fence": fence, "result": "park", "error": "no answer"}]});
    stage.post("/v1/claims/settle", park).await.is(200);
    let doubts = stage.get("/v1/steps?state=in_doubt").await.is(200);
    assert_eq!(
        (
            &doubts.json["items"][0]["origin"],
            &doubts.json["items"][0]["name"]
        ),
        (&json!(id), &json!("pay"))
    );
    stage.get("/v1/steps?state=fine").await.refused(400, "invalid");
    let path = format!("/v1/steps/{id}/pay/resolve");
    stage
        .post(&path, json!({"happened": true}))
        .await
        .refused(400, "invalid");
    stage
        .post(&path, json!({"happened": true, "reason": " "}))
        .await
        .refused(400, "invalid");
    stage
        .post(
            &path,
            json!({"happened": true, "output": {"id": 9}, "reason": "seen in the bank's log"}),
        )
        .await
        .is(200);
    stage
        .post(&path, json!({"happened": false, "reason": "again"}))
        .await
        .refused(409, "not_in_doubt");
    stage
        .post(
            "/v1/steps/unheard-of/pay/resolve",
            json!({"happened": false, "reason": "x"}),
        )
        .await
        .refused(404, "not_found");
    let (_, fence) = stage.claim("t").await;
    let known = stage.post("/v1/claims/steps", step("begin", fence)).await.is(200);
    assert_eq!(known.json["results"][0]["status"], "confirmed");
    assert_eq!(known.json["results"][0]["output"], json!({"id": 9}));
    let lost = stage
        .post("/v1/claims/steps", step("begin", fence - 1))
        .await
        .is(200);
    assert_eq!(lost.json["results"][0]["status"], "lease_lost");
}

#[tokio::test]
pub async fn a_worker_over_http_confirms_an_effect_once_through_retry_and_replay() {
    let stage = Stage::new().await;
    let id = stage.submit(json!({"task": "t", "input": 1})).await;
    let step = |id: &str, fence: i64, phase: &str, name: &str| json!({"id": id, "fence": fence, "step": name, "phase": phase});
    let say = async |body: Value| {
        let answer = stage.post("/v1/claims/steps", body).await.is(200);
        answer.json["results"][0].clone()
    };
    let end = async |id: &str, fence: i64, result: &str| {
        let settle = json!({"settlements": [{"id": id, "fence": fence, "result": result, "error": "e", "delay_ms": 0}]});
        stage.post("/v1/claims/settle", settle).await.is(200);
    };
    let (_, first) = stage.claim("t").await;
    assert_eq!(
        say(step(&id, first, "confirm", "pay")).await["status"],
        "not_begun"
    );
    // A begin that is sent again, as its answer was lost, is the same call.
    let mut begin = step(&id, first, "begin", "pay");
    begin["token"] = "0190d5b2-7c1e-7a53-9f0e-3c1f0a5b6d7e".into();
    let begun = say(begin.clone()).await;
    assert_eq!(begun["status"], "ok");
    assert_eq!(say(begin).await, begun);
    let key = begun["key"].as_str().unwrap().to_owned();
    // The attempt ends with the effect neither confirmed nor refused: the next one is told, and gets the same key.
    end(&id, first, "retry").await;
    let (_, second) = stage.claim("t").await;
    let doubt = say(step(&id, second, "begin", "pay")).await;
    assert_eq!(
        (&doubt["status"], &doubt["key"]),
        (&json!("in_doubt"), &json!(key))
    );
    // It looked, and nothing had happened: only that gives the next try a key of its own.
    assert_eq!(say(step(&id, second, "refused", "pay")).await["status"], "ok");
    let again = say(step(&id, second, "begin", "pay")).await;
    assert_eq!(again["status"], "ok");
    assert_ne!(again["key"], json!(key));
    assert_eq!(
        say(step(&id, first, "confirm", "pay")).await["status"],
        "lease_lost"
    );
    let mut confirm = step(&id, second, "confirm", "pay");
    confirm["output"] = json!({"receipt": 9});
    let confirmed = say(confirm.clone()).await;
    assert!(
        matches!(confirmed["status"].as_str(), Some("ok" | "confirmed")),
        "{confirmed}"
    );
    let known = async |id: &str, fence: i64| {
        let known = say(step(id, fence, "begin", "pay")).await;
        assert_eq!(known["status"], "confirmed");
        assert_eq!(known["output"], json!({"receipt": 9}));
    };
    // What is kept never changes.
    confirm["output"] = json!({"receipt": 10});
    say(confirm).await;
    known(&id, second).await;
    end(&id, second, "fail").await;
    stage
        .post(&format!("/v1/jobs/{id}/retry"), json!({}))
        .await
        .is(200);
    let (_, third) = stage.claim("t").await;
    known(&id, third).await;
    end(&id, third, "fail").await;
    let replay = stage
        .post(&format!("/v1/dead-letters/{id}/replay"), json!({}))
        .await
        .is(201);
    let (replayed, fourth) = stage.claim("t").await;
    assert_ne!(replayed, id, "{}", replay.text);
    known(&replayed, fourth).await;
    let steps = stage.get(&format!("/v1/jobs/{replayed}/steps")).await.is(200);
    assert_eq!(steps.json["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
pub async fn a_guard_is_reserved_once_and_answers_what_was_confirmed() {
    let stage = Stage::new().await;
    let reserve = json!({"key": "invoice-7", "ttl_ms": 60_000});
    let fresh = stage.post("/v1/guard/reserve", reserve.clone()).await.is(200);
    assert_eq!(fresh.json["state"], "fresh");
    let token = fresh.json["token"].clone();
    assert_eq!(
        stage
            .post("/v1/guard/reserve", reserve.clone())
            .await
            .is(200)
            .json["state"],
        "in_progress"
    );
    let other = "0190d5b2-7c1e-7a53-9f0e-3c1f0a5b6d7e";
    stage
        .post(
            "/v1/guard/confirm",
            json!({"key": "invoice-7", "token": other, "output": 1}),
        )
        .await
        .refused(409, "not_yours");
    stage
        .post("/v1/guard/release", json!({"key": "invoice-7", "token": other}))
        .await
        .refused(409, "not_yours");
    stage
        .post(
            "/v1/guard/confirm",
            json!({"key": "invoice-7", "token": token, "output": {"n": 1}}),
        )
        .await
        .is(200);
    let done = stage.post("/v1/guard/reserve", reserve).await.is(200);
    assert_eq!(
        (&done.json["state"], &done.json["output"]),
        (&json!("done"), &json!({"n": 1}))
    );
    let second = stage
        .post("/v1/guard/reserve", json!({"key": "b", "ttl_ms": 60_000}))
        .await
        .is(200);
    let released = stage
        .post(
            "/v1/guard/release",
            json!({"key": "b", "token": second.json["token"]}),
        )
        .await
        .is(200);
    assert_eq!(released.json["state"], "released");
    stage
        .post("/v1/guard/reserve", json!({"key": "", "ttl_ms": 60_000}))
        .await
        .refused(400, "invalid");
}

#[tokio::test]
pub async fn events_reach_their_subscribers_once() {
    let stage = Stage::new().await;
    let event = json!({"input": {"order": 1}, "idempotency_key": "evt_1"});
    stage
        .post("/v1/events/order.paid", event.clone())
        .await
        .refused(409, "no_subscribers");
    let path = "/v1/events/order.paid/subscribers/receipt";
    stage.get(path).await.refused(404, "not_found");
    stage.call("PUT", path, json!({"queue": "mail"})).await.is(200);
    assert_eq!(stage.get(path).await.is(200).json["queue"], "mail");
    assert_eq!(
        stage.get("/v1/events").await.is(200).json["items"][0]["task"],
        "receipt"
    );
    assert_eq!(
        stage.get("/v1/events/order.paid/subscribers").await.is(200).json["items"][0]["task"],
        "receipt"
    );
    let sent = stage.post("/v1/events/order.paid", event.clone()).await.is(200);
    let again = stage.post("/v1/events/order.paid", event).await.is(200);
    assert_eq!(sent.json["results"][0]["outcome"], "accepted");
    assert_eq!(again.json["results"][0]["outcome"], "duplicate");
    stage.call("DELETE", path, json!({})).await.is(204);
    stage
        .call("DELETE", path, json!({}))
        .await
        .refused(404, "not_found");
    let allowed = stage
        .post("/v1/events/order.paid", json!({"input": 1, "allow_none": true}))
        .await
        .is(200);
    assert_eq!(allowed.json["results"], json!([]));
}

#[tokio::test]
pub async fn schedules_are_set_shown_and_removed() {
    let stage = Stage::new().await;
    let path = "/v1/schedules/nightly";
    stage.get(path).await.refused(404, "not_found");
    let body = json!({"cron": "0 3 * * *", "zone": "Europe/Berlin", "task": "report", "input": {}, "overlap": "queue"});
    let set = stage.call("PUT", path, body).await.is(200);
    assert!(set.json["next_at"].is_string());
    assert_eq!(stage.get(path).await.is(200).json["overlap"], "queue");
    assert_eq!(
        stage.get("/v1/schedules").await.is(200).json["items"][0]["name"],
        "nightly"
    );
    stage
        .call("PUT", path, json!({"cron": "nonsense", "task": "t", "input": 1}))
        .await
        .refused(400, "invalid");
    stage.call("DELETE", path, json!({})).await.is(204);
    stage
        .call("DELETE", path, json!({}))
        .await
        .refused(404, "not_found");
}
