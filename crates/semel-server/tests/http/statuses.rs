//! Every route has been seen to answer with every status the document says it has.

use std::collections::BTreeSet;

use reqwest::header;
use semel_server::role::Role;
use semel_server::route::{Access, Route};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::described;
use crate::stage::{Stage, document};
use crate::{jobs, operating, outbox, security, seeing, working};

/// Tests whose answers count: what each route does when all goes well, and what it alone refuses.
const TOLD: &[fn()] = &[
    jobs::a_submission_is_accepted_once_and_then_names_the_same_job,
    jobs::a_policy_that_rejects_is_answered_with_the_holder,
    jobs::a_batch_is_answered_item_by_item,
    jobs::explain_says_what_would_happen_and_writes_nothing,
    jobs::jobs_are_listed_by_filter_and_page,
    jobs::a_job_is_shown_with_its_attempts_logs_and_steps,
    jobs::waiting_ends_with_the_job_or_goes_on,
    jobs::jobs_are_cancelled_and_retried_and_a_final_state_is_said,
    operating::a_paused_queue_hands_nothing_out_until_it_is_resumed,
    operating::intake_mode_and_uniqueness_are_levers,
    operating::dead_letters_are_grouped_replayed_once_and_dropped,
    operating::keys_are_found_shown_with_their_ledger_and_released_by_naming_the_holder,
    operating::a_bulk_act_is_planned_carried_out_and_can_be_aborted,
    outbox::a_parked_event_is_an_alert_and_can_be_tried_again_on_record,
    outbox::a_server_without_an_outbox_says_how_to_get_one,
    outbox::an_outbox_out_of_reach_is_told_and_harms_nothing_else,
    security::a_token_is_good_until_it_is_revoked_and_never_kept,
    security::signing_in_sets_a_cookie_that_scripts_cannot_read,
    seeing::counters_have_the_documented_names_and_can_be_exported,
    seeing::work_without_a_worker_is_an_alert_with_the_command_that_helps,
    seeing::advice_names_the_producer_behind_a_storm_and_the_ttl_that_is_needed,
    seeing::guarantees_health_and_readiness_are_told,
    working::claims_are_strict_and_a_repeated_one_is_the_same,
    working::every_way_to_settle_is_understood_and_a_lost_lease_is_a_result,
    working::a_step_that_may_have_happened_is_in_doubt_until_somebody_decides,
    working::a_guard_is_reserved_once_and_answers_what_was_confirmed,
    working::events_reach_their_subscribers_once,
    working::schedules_are_set_shown_and_removed,
];

/// What no test brings about here, and why that is fine.
fn is_elsewhere(route: &Route, status: u16) -> bool {
    let refuses = |code: &str| route.refusals.iter().any(|(_, word)| *word == code);
    match status {
        // A mistake of ours that we know of would be mended, not tested.
        500 => true,
        // Half a minute each: one body that does not arrive is among the tests of hostile clients.
        408 => true,
        // The store is out of reach, or the server full: what every route does alike is tested once, on a real store.
        503 => !refuses("closed") && !refuses("outbox_unavailable"),
        // What takes neither a body nor a query has nothing to misunderstand.
        400 => route.body.is_none() && !route.path.starts_with("/v1/"),
        // Nobody needs a token there.
        401 => route.access == Access::Open && route.path != "/login",
        // It failed when it was looked at, and somebody retried it before it was dropped.
        409 => route.method == "DELETE" && route.path == "/v1/dead-letters/{id}",
        _ => false,
    }
}

#[test]
fn every_described_status_of_every_route_has_been_seen() {
    std::thread::scope(|scope| {
        for test in TOLD {
            scope.spawn(test);
        }
        scope.spawn(|| alone(what_every_route_refuses()));
        scope.spawn(|| alone(what_waits_is_bounded()));
        scope.spawn(|| alone(what_is_not_there_is_not_found()));
        scope.spawn(|| alone(what_else_is_answered()));
    });
    let seen = described::seen();
    let mut missing = BTreeSet::new();
    let mut counted = 0;
    for route in semel_server::table::api() {
        let method = route.method.as_str().to_ascii_lowercase();
        let responses = &document()["paths"][route.path][&method]["responses"];
        for status in responses.as_object().unwrap().keys() {
            let status: u16 = status.parse().unwrap();
            let was = seen.contains(&(method.clone(), route.path.to_owned(), status));
            counted += usize::from(was);
            if !was && !is_elsewhere(&route, status) {
                missing.insert(format!("{method} {} {status}", route.path));
            }
        }
    }
    assert!(missing.is_empty(), "never answered: {missing:#?}");
    let codes = described::codes();
    let elsewhere = ["internal", "timeout", "busy", "store_unavailable"];
    let unheard = semel_server::CODES.iter().map(|code| code.word);
    let unheard: Vec<&str> = unheard
        .filter(|word| !codes.contains(*word) && !elsewhere.contains(word))
        .collect();
    assert!(unheard.is_empty(), "documented, and never answered: {unheard:?}");
    assert!(counted > 450, "{counted} pairs of route and status");
}

fn alone(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}

fn concrete(route: &Route) -> String {
    let path = route.path.replace("{digest}", &"0".repeat(64));
    path.replace(['{', '}'], "")
}

async fn what_every_route_refuses() {
    let mut stage = Stage::new().await;
    let weak = stage.token("weak", &[Role::Submit], &[]).await;
    let other = stage.token("other", &[Role::Read], &[]).await;
    let admin = stage.token("root", &[Role::Admin], &[]).await;
    for route in semel_server::table::api() {
        let (method, path) = (route.method.as_str(), concrete(&route));
        stage.token = Some(admin.clone());
        let foreign = stage.request(method, &path).header(header::HOST, "evil.example");
        stage
            .send(method, &path, foreign)
            .await
            .refused(421, "wrong_host");
        let tricked = stage
            .request(method, &path)
            .header("sec-fetch-site", "cross-site");
        stage
            .send(method, &path, tricked)
            .await
            .refused(403, "cross_origin");
        if let Access::Needs(role) = route.access {
            stage.token = None;
            stage
                .send(method, &path, stage.request(method, &path))
                .await
                .refused(401, "unauthorized");
            let lesser = if Role::Submit.covers(role) { &other } else { &weak };
            stage.token = Some(lesser.clone());
            stage
                .send(method, &path, stage.request(method, &path))
                .await
                .refused(403, "forbidden");
        }
        stage.token = Some(admin.clone());
        if route.path.starts_with("/v1/") {
            let strange = format!("{path}?nonsense=1");
            stage
                .send(method, &strange, stage.request(method, &strange))
                .await
                .refused(400, "invalid");
        }
        if route.body.is_none() {
            continue;
        }
        stage
            .call(method, &path, json!({"nonsense": 1}))
            .await
            .refused(400, "invalid");
        let text = stage
            .request(method, &path)
            .header(header::CONTENT_TYPE, "text/plain")
            .body("{}");
        stage.send(method, &path, text).await.refused(415, "not_json");
        let status = too_large(&stage, method, &path, &admin).await;
        described::saw(method, &path, status);
        assert_eq!(status, 413, "{method} {path}");
    }
}

/// The status of a request that announces 20 MB and sends none of it.
async fn too_large(stage: &Stage, method: &str, path: &str, token: &str) -> u16 {
    let address = stage.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 20000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.unwrap();
    std::str::from_utf8(&begin[9..]).unwrap().parse().unwrap()
}

async fn what_waits_is_bounded() {
    let stage = Stage::new().await;
    let id = stage.submit(json!({"task": "t", "input": 1})).await;
    let mut open = Vec::new();
    while open.len() < 256 {
        let heard = stage.request("GET", "/v1/stream").send().await.unwrap();
        described::saw("GET", "/v1/stream", heard.status().as_u16());
        open.push(heard);
    }
    stage.get("/v1/stream").await.refused(429, "too_many");
    stage
        .get(&format!("/v1/jobs/{id}/wait"))
        .await
        .refused(429, "too_many");
    let claim = json!({"worker": "w", "tasks": ["u"], "max": 1, "lease_ms": 30_000, "wait_ms": 1_000});
    stage.post("/v1/claims", claim).await.refused(429, "too_many");
    let waiting = json!({"task": "t", "input": 1, "wait_ms": 1_000});
    stage.post("/v1/jobs", waiting).await.refused(429, "too_many");
}

async fn what_is_not_there_is_not_found() {
    let stage = Stage::new().await;
    for route in semel_server::table::api() {
        let refuses = |word: &str| route.refusals.iter().any(|(_, code)| *code == word);
        if !refuses("not_found") || route.path.starts_with("/v1/outbox") {
            continue;
        }
        let (method, path) = (route.method.as_str(), concrete(&route));
        let (path, body) = match (method, route.path) {
            ("GET", "/v1/jobs") => ("/v1/jobs?key=never".to_owned(), json!(null)),
            ("POST", "/v1/operations") => (path, json!({"action": "cancel", "plan": "never"})),
            ("POST", "/v1/keys/{digest}/release") => (path, json!({"holder": "never", "reason": "r"})),
            ("POST", "/v1/steps/{origin}/{step}/resolve") => (path, json!({"happened": true, "reason": "r"})),
            _ => (path, json!({})),
        };
        match method {
            "GET" => stage.get(&path).await,
            _ => stage.call(method, &path, body).await,
        }
        .refused(404, "not_found");
    }
}

async fn what_else_is_answered() {
    let stage = Stage::new().await;
    for path in [
        "/v1/audit",
        "/v1/operations",
        "/v1/tasks",
        "/v1/events",
        "/v1/steps",
        "/metrics",
        "/openapi.json",
    ] {
        stage.get(path).await.is(200);
    }
    stage
        .call(
            "PATCH",
            "/v1/tasks/t",
            json!({"mode": "observe", "for_ms": 60_000}),
        )
        .await
        .is(200);
    stage.call("DELETE", "/v1/queues/mail", json!({})).await.is(200);
    stage
        .call("PUT", "/v1/jobs", json!({}))
        .await
        .refused(405, "method_not_allowed");
    // A replay is a submission, and is refused where none is taken.
    let id = stage
        .dead_letter("t", json!({"input": 1, "queue": "letters"}))
        .await;
    let closed = json!({"intake": "closed"});
    stage.call("PATCH", "/v1/queues/letters", closed).await.is(200);
    stage
        .post(&format!("/v1/dead-letters/{id}/replay"), json!({}))
        .await
        .refused(503, "closed");
}
