//! `semel serve`, `semel status` and `semel tokens`, as processes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use stage::Stage;

fn get(address: &str, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_answers_for_the_store_and_stops_in_order() {
    let stage = Stage::new();
    let id = stage.submit(&["thumbnail", "{}"]);
    let (mut child, address) = stage.serve(&[]);
    assert!(get(&address, "/healthz", "").starts_with("HTTP/1.1 200"));
    assert!(get(&address, &format!("/v1/jobs/{id}"), "").contains("thumbnail"));
    assert!(get(&address, "/", "Accept: text/html\r\n").contains("<h1>Overview</h1>"));
    let killed = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_server_relays_an_outbox() {
    let stage = Stage::new();
    let missing = stage.run(&["serve", "--listen", "127.0.0.1:0", "--outbox", "sqlite:shop.db"]);
    assert_eq!(missing.code, 2, "{missing:#?}");
    let wrong = stage.run(&["serve", "--listen", "127.0.0.1:0", "--outbox", "shop.db"]);
    assert_eq!(wrong.code, 2, "{wrong:#?}");
    let shop = rusqlite::Connection::open(stage.file("shop.db")).unwrap();
    shop.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        .unwrap();
    let (mut child, address) = stage.serve(&["--outbox", "sqlite:shop.db"]);
    let insert = "INSERT INTO semel_outbox (id, task, input) VALUES ('order-1-paid', 'receipt', '1')";
    shop.execute(insert, []).unwrap();
    stage.until("the event is a job", || {
        get(&address, "/v1/jobs?task=receipt", "").contains("order-1-paid")
    });
    stage.until("the event is marked", || {
        get(&address, "/v1/outbox", "").contains("\"pending\":0")
    });
    assert!(get(&address, "/outbox", "Accept: text/html\r\n").contains("<h1>Outbox</h1>"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn tokens_close_the_door_and_are_said_once() {
    let stage = Stage::new();
    stage.submit(&["t", "{}"]);
    let none = stage.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(none.code, 9, "{none:#?}");
    assert!(none.err.contains("there is no token"), "{none:#?}");
    let made = stage.run(&[
        "tokens", "create", "alice", "--role", "operate", "--role", "submit",
    ]);
    assert_eq!(made.code, 0, "{made:#?}");
    let token = made.out.trim().to_owned();
    assert!(token.starts_with("semel_") && token.len() == 86, "{token}");
    let plain = stage.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(plain.code, 9, "{plain:#?}");
    assert!(plain.err.contains("plain text"), "{plain:#?}");
    let (mut child, address) = stage.serve(&[]);
    assert!(get(&address, "/v1/stats", "").starts_with("HTTP/1.1 401"));
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert!(get(&address, "/v1/stats", &bearer).starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/v1/tokens", &bearer).starts_with("HTTP/1.1 403"));
    let list = stage.json(&["tokens", "list"]);
    assert_eq!(
        list["items"][0]["roles"],
        serde_json::json!(["submit", "operate"])
    );
    assert!(!list.to_string().contains(&token[22..]));
    assert_eq!(stage.run(&["tokens", "create", "bob", "--role", "king"]).code, 2);
    assert_eq!(stage.run(&["tokens", "revoke", "alice"]).code, 0);
    assert_eq!(stage.run(&["tokens", "revoke", "alice"]).code, 5);
    stage.until("the token is refused", || {
        get(&address, "/v1/stats", &bearer).starts_with("HTTP/1.1 401")
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn status_says_whether_work_flows() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["status"]).code, 6, "there is no store");
    let id = stage.submit(&["thumbnail", "{}"]);
    let stuck = stage.run(&["status", "--json"]);
    assert_eq!(stuck.code, 1, "{stuck:#?}");
    assert_eq!(stuck.json()["alerts"][0]["alert"], "no_worker");
    let told = stage.run(&["status"]);
    assert!(told.out.contains("semel work --task thumbnail"), "{told:#?}");
    assert!(told.out.contains("1 of 11 alerts fires."), "{told:#?}");
    assert_eq!(stage.run(&["jobs", "cancel", &id]).code, 0);
    let fine = stage.run(&["status"]);
    assert_eq!(fine.code, 0, "{fine:#?}");
    assert!(fine.out.contains("\nWork flows: no alert fires.\n"), "{fine:#?}");
}
