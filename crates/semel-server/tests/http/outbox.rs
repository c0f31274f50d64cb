//! A server that relays an outbox, on a real database of another program.

use std::path::Path;
use std::time::Duration;

use reqwest::header;
use rusqlite::Connection;
use semel_core::time::Millis;
use semel_outbox::Plain;
use semel_server::Outbox;
use semel_server::role::Role;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{Stage, read};

/// A shop of its own with an outbox in its database, and a server that relays it.
struct Shop {
    dir: TempDir,
    stage: Stage,
}

impl Shop {
    async fn open(lag: Millis) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("shop.db");
        // A database that is there: the relay makes its tables in it, and nothing else.
        Connection::open(&file)
            .unwrap()
            .execute_batch("CREATE TABLE orders (id INTEGER)")
            .unwrap();
        let url = format!("sqlite:{}", file.display());
        let source = semel_outbox::open(&url, Plain::Refuse).await.unwrap();
        let stage = Stage::set(|settings| {
            settings.outbox = Some(Outbox::new(source));
            settings.thresholds.outbox_lag = lag;
        })
        .await;
        Shop { dir, stage }
    }

    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("shop.db")
    }

    /// Writes an event as a program in another language would.
    fn write(&self, id: &str, task: &str) {
        write(&self.file(), id, task);
    }

    /// Asks until the outbox is as wanted.
    async fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..600 {
            let outbox = self.stage.get("/v1/outbox").await.is(200).json;
            if wanted(&outbox) {
                return outbox;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "it never came to that: {}",
            self.stage.get("/v1/outbox").await.text
        );
    }
}

fn write(file: &Path, id: &str, task: &str) {
    let shop = Connection::open(file).unwrap();
    shop.busy_timeout(Duration::from_secs(20)).unwrap();
    shop.execute(
        "INSERT INTO semel_outbox (id, task, input, partition) VALUES (?1, ?2, '{\"order\": 7}', 'customer-3')",
        [id, task],
    )
    .unwrap();
}

#[tokio::test]
pub async fn committed_events_become_jobs_of_the_store_by_themselves() {
    let mut shop = Shop::open(Millis::from_secs(300)).await;
    let empty = shop.stage.get("/v1/outbox").await.is(200);
    assert_eq!(empty.json["pending"], 0);
    assert!(
        empty.json["oldest_at"].is_null() && empty.json["last_sent_at"].is_null(),
        "{}",
        empty.text
    );
    for n in 0..20 {
        shop.write(&format!("order-{n}-paid"), "send_receipt");
    }
    let done = shop
        .until(|outbox| outbox["pending"] == 0 && outbox["last_sent_at"].is_string())
        .await;
    assert_eq!((&done["parked"], &done["lag_ms"]), (&json!(0), &json!(0)));
    let jobs = shop
        .stage
        .get("/v1/jobs?task=send_receipt&limit=100")
        .await
        .is(200);
    let items = jobs.json["items"].as_array().unwrap();
    assert_eq!(items.len(), 20);
    assert_eq!(items[0]["key"]["text"], "order-19-paid");
    // The relay ends with the server, and what is committed afterwards waits for the next one.
    shop.stage.stop().await;
    shop.write("late", "send_receipt");
    let left: i64 = Connection::open(shop.file())
        .unwrap()
        .query_row(
            "SELECT count(*) FROM semel_outbox WHERE sent_at IS NULL",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 1);
}

#[tokio::test]
pub async fn a_parked_event_is_an_alert_and_can_be_tried_again_on_record() {
    let mut shop = Shop::open(Millis::from_secs(300)).await;
    // The key of the event is held by something else: no number of tries helps.
    let held = json!({"task": "send_receipt", "input": {"order": 8}, "idempotency_key": "order-7-paid"});
    shop.stage.submit(held).await;
    shop.write("order-7-paid", "send_receipt");
    shop.write("<img src=x>", "send_receipt");
    let outbox = shop
        .until(|outbox| outbox["parked"] == 1 && outbox["pending"] == 0)
        .await;
    let event = &outbox["parked_events"][0];
    assert_eq!(
        (&event["id"], &event["partition"]),
        (&json!("order-7-paid"), &json!("customer-3"))
    );
    let why = event["error"].as_str().unwrap();
    assert!(why.contains("the key of something else"), "{why}");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let alerts = shop.stage.get("/v1/alerts").await.is(200);
    let names: Vec<&Value> = alerts.json["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["alert"])
        .collect();
    assert!(names.contains(&&json!("outbox_parked")), "{names:?}");
    assert!(!names.contains(&&json!("outbox_lag")), "{names:?}");
    let page = html(&shop.stage, "/outbox").await;
    assert!(
        page.contains("order-7-paid") && page.contains("Try again"),
        "{page}"
    );
    let again = json!({"id": "order-7-paid", "reason": "the other job is gone"});
    // Nothing has changed: it is tried and parked again.
    let retried = shop.stage.post("/v1/outbox/retry", again.clone()).await.is(200);
    assert_eq!(retried.json["retried"], 1);
    let outbox = shop.until(|outbox| outbox["parked"] == 1).await;
    assert_eq!(outbox["parked_events"][0]["id"], "order-7-paid");
    shop.stage
        .post("/v1/outbox/retry", json!({"id": "unheard-of"}))
        .await
        .refused(404, "not_found");
    shop.stage
        .post("/v1/outbox/retry", json!({"ids": []}))
        .await
        .refused(400, "invalid");
    let audit = shop.stage.get("/v1/audit").await.is(200);
    let entry = &audit.json["items"][1];
    assert_eq!(
        (&entry["act"], &entry["reason"]),
        (&json!("retry_event"), &json!("the other job is gone"))
    );
    let reader = shop.stage.token("reader", &[Role::Read], &[]).await;
    shop.stage.token = Some(reader);
    shop.stage.get("/v1/outbox").await.is(200);
    shop.stage
        .post("/v1/outbox/retry", again)
        .await
        .refused(403, "forbidden");
    assert!(!html(&shop.stage, "/outbox").await.contains("Try again"));
}

#[tokio::test]
pub async fn lag_is_measured_and_watched() {
    let shop = Shop::open(Millis::from_secs(1)).await;
    // A closed task takes nothing: the event waits to be tried again.
    let close = json!({"intake": "closed"});
    shop.stage
        .call("PATCH", "/v1/tasks/send_receipt", close)
        .await
        .is(200);
    shop.write("order-1-paid", "send_receipt");
    let outbox = shop
        .until(|outbox| outbox["failing"] == 1 && outbox["lag_ms"].as_i64() > Some(1_000))
        .await;
    assert_eq!(outbox["pending"], 1);
    assert!(outbox["oldest_at"].is_string());
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let metrics = shop.stage.get("/metrics").await.is(200).text;
    for line in [
        "semel_store_outbox_pending 1",
        "semel_store_outbox_parked 0",
        "semel_store_alert_firing{alert=\"outbox_lag\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    let lag = metrics
        .lines()
        .find_map(|line| line.strip_prefix("semel_store_outbox_lag_seconds "))
        .unwrap();
    assert!(lag.parse::<f64>().unwrap() > 1.0, "{lag}");
    let open = json!({"intake": "open"});
    shop.stage
        .call("PATCH", "/v1/tasks/send_receipt", open)
        .await
        .is(200);
    shop.until(|outbox| outbox["pending"] == 0).await;
}

#[tokio::test]
pub async fn an_outbox_out_of_reach_is_told_and_harms_nothing_else() {
    let shop = Shop::open(Millis::from_secs(300)).await;
    Connection::open(shop.file())
        .unwrap()
        .execute_batch("DROP TABLE semel_outbox")
        .unwrap();
    shop.stage
        .get("/v1/outbox")
        .await
        .refused(503, "outbox_unavailable");
    shop.stage
        .post("/v1/outbox/retry", json!({}))
        .await
        .refused(503, "outbox_unavailable");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let alerts = shop.stage.get("/v1/alerts").await.is(200);
    assert_eq!(alerts.json["items"][0]["alert"], "outbox_lag", "{}", alerts.text);
    let metrics = shop.stage.get("/metrics").await.is(200).text;
    assert!(
        metrics.contains("semel_store_up 1") && !metrics.contains("outbox_pending"),
        "{metrics}"
    );
    shop.stage.submit(json!({"task": "t", "input": 1})).await;
}

#[tokio::test]
pub async fn a_server_without_an_outbox_says_how_to_get_one() {
    let stage = Stage::new().await;
    let none = stage.get("/v1/outbox").await.refused(404, "not_found");
    assert_eq!(none.json["hint"], "semel serve --outbox URL");
    stage
        .post("/v1/outbox/retry", json!({}))
        .await
        .refused(404, "not_found");
    assert!(html(&stage, "/outbox").await.contains("relays no outbox"));
    assert!(!html(&stage, "/").await.contains("href=\"/outbox\""));
    let metrics = stage.get("/metrics").await.is(200).text;
    assert!(!metrics.contains("outbox"), "{metrics}");
    let shop = Shop::open(Millis::from_secs(300)).await;
    assert!(html(&shop.stage, "/").await.contains("href=\"/outbox\""));
}

async fn html(stage: &Stage, path: &str) -> String {
    let request = stage.request("GET", path).header(header::ACCEPT, "text/html");
    let answer = read(request.send().await.unwrap()).await.is(200);
    assert!(!answer.text.contains("<img"), "{}", answer.text);
    answer.text
}
