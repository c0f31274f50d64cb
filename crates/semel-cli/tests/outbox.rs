//! The outbox on the command line, on a SQLite database as any program writes one.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use serde_json::json;
use stage::Stage;

const FROM: &str = "sqlite:shop.db";

/// A shop with three orders, the second of which was forgotten.
fn shop(stage: &Stage) -> rusqlite::Connection {
    let shop = rusqlite::Connection::open(stage.file("shop.db")).unwrap();
    shop.execute_batch(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1), (2), (3)",
    )
    .unwrap();
    assert_eq!(stage.run(&["outbox", "status", "--from", FROM]).code, 0);
    for order in [1, 3] {
        write(&shop, &format!("order-{order}"), "receipt");
    }
    shop
}

fn write(shop: &rusqlite::Connection, id: &str, task: &str) {
    shop.execute(
        "INSERT INTO semel_outbox (id, task, input, partition) VALUES (?1, ?2, json_object('id', ?1), 'p')",
        [id, task],
    )
    .unwrap();
}

const ROWS: &str =
    "SELECT 'order-' || id AS id, 'receipt' AS task, json_object('id', 'order-' || id) AS input FROM orders";

#[test]
fn an_outbox_is_relayed_once() {
    let stage = Stage::new();
    let _shop = shop(&stage);
    // There is no store yet: on a new machine the relay may be the first to use it.
    let run = stage.run(&[
        "outbox",
        "relay",
        "--from",
        FROM,
        "--to",
        "sqlite:semel.db",
        "--drain",
    ]);
    assert_seen!(stage, run);
    let again = stage.json(&["outbox", "relay", "--from", FROM, "--drain"]);
    assert_eq!(
        again,
        json!({"taken": 0, "sent": 0, "repeated": 0, "later": 0, "parked": 0})
    );
    let jobs = stage.json(&["jobs", "list", "--task", "receipt"]);
    assert_eq!(jobs["items"].as_array().unwrap().len(), 2);
    let status = stage.json(&["outbox", "status", "--from", FROM]);
    assert_eq!((&status["pending"], &status["parked"]), (&json!(0), &json!(0)));
    assert!(
        status["last_sent_at"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z')),
        "{status}"
    );
}

#[test]
fn what_was_parked_is_shown_and_tried_again() {
    let stage = Stage::new();
    let shop = shop(&stage);
    stage.submit(&["receipt", "1", "--key", "order-1"]);
    let run = stage.run(&["outbox", "relay", "--from", FROM, "--drain"]);
    assert_seen!(stage, run);
    let status = stage.json(&["outbox", "status", "--from", FROM]);
    assert_eq!(status["parked_events"][0]["id"], "order-1");
    let page = stage.run(&["outbox", "status", "--from", FROM]).out;
    assert!(
        page.contains("order-1") && page.contains("--retry-parked"),
        "{page}"
    );
    // The key turns out to have been a mistake.
    shop.execute("UPDATE semel_outbox SET id = 'order-1b' WHERE id = 'order-1'", [])
        .unwrap();
    let again = stage.json(&["outbox", "relay", "--from", FROM, "--drain", "--retry-parked"]);
    assert_eq!(again["sent"], 1);
}

#[test]
fn rows_without_an_event_are_found() {
    let stage = Stage::new();
    let _shop = shop(&stage);
    let run = stage.run(&["outbox", "audit", "--from", FROM, "--query", ROWS]);
    assert_seen!(stage, run);
}

#[test]
fn rows_without_an_event_get_one() {
    let stage = Stage::new();
    let _shop = shop(&stage);
    let run = stage.run(&["outbox", "rebuild", "--from", FROM, "--query", ROWS]);
    assert_seen!(stage, run);
    assert_eq!(
        stage
            .run(&["outbox", "audit", "--from", FROM, "--query", ROWS])
            .code,
        0
    );
}

#[test]
fn only_what_was_sent_is_pruned() {
    let stage = Stage::new();
    let shop = shop(&stage);
    stage.json(&["outbox", "relay", "--from", FROM, "--drain"]);
    write(&shop, "order-4", "receipt");
    shop.execute("UPDATE semel_outbox SET created_at = 0", [])
        .unwrap();
    assert_eq!(stage.json(&["outbox", "prune", "--from", FROM])["pruned"], 0);
    let run = stage.run(&["outbox", "prune", "--from", FROM, "--older-than", "0s"]);
    assert_eq!(run.code, 0, "{run:#?}");
    assert_eq!(stage.json(&["outbox", "status", "--from", FROM])["pending"], 1);
    // Orders 1 and 3 had their receipts: nobody wants a second one.
    let again = stage.run(&["outbox", "rebuild", "--from", FROM, "--query", ROWS]);
    assert_eq!(again.code, 2, "{again:#?}");
    assert!(again.err.contains("--pruned-left-out"), "{again:#?}");
    let newer = format!("{ROWS} WHERE id = 2");
    let rebuilt = stage.json(&[
        "outbox",
        "rebuild",
        "--from",
        FROM,
        "--query",
        &newer,
        "--pruned-left-out",
    ]);
    assert_eq!(rebuilt["added"], 1);
}

#[test]
fn what_is_no_outbox_is_said_so() {
    let stage = Stage::new();
    for (from, code) in [
        ("mysql://root:secret@db/shop", 2),
        ("sqlite:nowhere.db", 2),
        ("postgres://app:secret@db.example.com/shop", 2),
        ("postgres://app:secret@127.0.0.1:1/shop", 6),
    ] {
        let run = stage.run(&["outbox", "status", "--from", from]);
        assert_eq!(run.code, code, "{run:#?}");
        assert!(!run.err.contains("secret"), "{run:#?}");
    }
    let _shop = shop(&stage);
    let run = stage.run(&[
        "outbox",
        "audit",
        "--from",
        FROM,
        "--query",
        "DELETE FROM orders RETURNING id",
    ]);
    assert_ne!(run.code, 0, "{run:#?}");
}
