//! `semel serve`, `semel status` and `semel tokens`, as processes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
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

/// A submission over HTTP: the answer's body.
fn post(address: &str, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

/// What a server logs while something is done with it, every line as JSON.
fn logged(stage: &Stage, doing: impl FnOnce(&str)) -> Vec<Value> {
    let args = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let mut child = stage.command(&args).env("SEMEL_LOG", "info").spawn().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        text
    });
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let address = said["url"].as_str().unwrap().trim_end_matches('/');
    doing(address.split("//").nth(1).unwrap());
    let killed = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(child.wait().unwrap().success());
    let text = reading.join().unwrap();
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn told<'a>(log: &'a [Value], message: &str) -> Vec<&'a Value> {
    log.iter().filter(|line| line["msg"] == message).collect()
}

/// Contract 7.6: two messages can be relied upon, by their wording and their fields.
#[test]
fn log_lines_have_the_words_of_the_contract() {
    let stage = Stage::new();
    let order = |input: i64| json!({"task": "charge", "queue": "billing", "input": input, "idempotency_key": "ORD-1"});
    let mut first = Value::Null;
    let log = logged(&stage, |address| {
        first = post(address, "/v1/jobs", &order(1))["job"]["id"].clone();
        assert_eq!(post(address, "/v1/jobs", &order(1))["outcome"], "duplicate");
        assert_eq!(
            post(address, "/v1/jobs", &order(2))["code"],
            "idempotency_conflict"
        );
        let many = vec![json!({"task": "mail", "queue": "letters", "input": 1, "unique": true}); 110];
        post(address, "/v1/jobs/batch", &json!({ "jobs": many }));
    });
    let blocked: Vec<&Value> = told(&log, "duplicate job blocked")
        .into_iter()
        .filter(|line| line["queue"] == "billing")
        .collect();
    assert_eq!(blocked.len(), 1, "a conflict is none: {blocked:#?}");
    let line = blocked[0];
    assert_eq!(
        (&line["level"], &line["idempotency_key"], &line["original_job_id"]),
        (&json!("info"), &json!("ORD-1"), &first)
    );
    assert_eq!(line["ttl_remaining"], "29d 23h", "{line}");
    assert!(line["job_id"].is_string() && line["job_id"] != first, "{line}");
    let at = line["ts"].as_str().unwrap();
    assert!(at.ends_with('Z') && at.starts_with("20"), "{line}");
    let conflicts = told(&log, "conflicting job refused");
    assert_eq!(conflicts.len(), 1, "{log:#?}");
    assert_eq!(conflicts[0]["original_job_id"], first);
    let high = told(&log, "high duplicate rate detected");
    assert_eq!(high.len(), 1, "{log:#?}");
    assert_eq!(
        (&high[0]["level"], &high[0]["queue"], &high[0]["threshold"]),
        (&json!("warn"), &json!("letters"), &json!(0.5))
    );
    assert!(high[0]["hit_rate"].as_f64().unwrap() > 0.9, "{}", high[0]);
    assert!(high[0]["suggestion"].is_string(), "{}", high[0]);
}

#[test]
fn the_texts_of_keys_are_as_private_in_the_log_as_payloads() {
    let body = json!({"task": "t", "input": 1, "idempotency_key": "jane@example.org"});
    for (file, is_hidden) in [
        ("", false),
        ("redact_keys = true", true),
        ("redact = ['/card']", true),
        ("redact = ['/card']\nredact_keys = false", false),
    ] {
        let stage = Stage::new();
        stage.write("semel.toml", file);
        let log = logged(&stage, |address| {
            post(address, "/v1/jobs", &body);
            post(address, "/v1/jobs", &body);
        });
        let blocked = told(&log, "duplicate job blocked");
        assert_eq!(blocked.len(), 1, "{log:#?}");
        let key = blocked[0]["idempotency_key"].as_str().unwrap();
        assert_eq!(
            (key != "jane@example.org", key.len() == 64),
            (is_hidden, is_hidden),
            "{file}: {key}"
        );
        assert_eq!(!format!("{log:?}").contains("jane"), is_hidden, "{file}");
    }
}

#[test]
fn what_the_file_says_about_a_server_is_in_effect_or_refused() {
    let stage = Stage::new();
    let refused = |file: &str, told: &str| {
        stage.write("semel.toml", file);
        let run = stage.run(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(run.code, 2, "{file}: {run:#?}");
        assert!(run.err.contains(told), "{file}: {run:#?}");
    };
    refused("redact = ['card']", "JSON pointer");
    refused("redact = ['/cards/*/number']", "there is no *");
    refused("[server]\nhost = ['jobs.example']", "unknown field");
    refused("[server]\ntls_cert = 'cert.pem'", "server.tls_key");
    stage.write(
        "semel.toml",
        "[server]\nhosts = ['jobs.example']\noutbox = 'sqlite:shop.db'\n[tasks.charge]\nmax_attempts = 3\n",
    );
    rusqlite::Connection::open(stage.file("shop.db"))
        .unwrap()
        .execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        .unwrap();
    let (mut child, address) = stage.serve(&[]);
    let status = |host: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].to_owned()
    };
    // A name of its own, but not that of its machine: it asks for a token.
    assert_eq!(
        (status("jobs.example"), status("other.example")),
        ("401".to_owned(), "421".to_owned())
    );
    let page = |path: &str| get(&address, path, "Accept: text/html\r\n");
    assert!(page("/outbox").contains("<h1>Outbox</h1>"));
    // What is for commands does not look as if it were for requests.
    let shown = page("/configuration");
    let task = shown.split("tasks.charge.max_attempts").nth(1).unwrap();
    let task = task.split("</tr>").next().unwrap();
    assert!(task.contains("requests over HTTP say it themselves"), "{task}");
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

/// Whatever a producer calls a task, copying the command that helps runs that command and no other.
#[test]
fn names_in_commands_are_quoted_for_a_shell() {
    let stage = Stage::new().wide();
    let id = stage.submit(&["x; id #", "{}"]);
    let work = "semel work --task 'x; id #' --exec 'CMD'";
    for args in [&["status"][..], &["jobs", "list"], &["jobs", "show", &id]] {
        let run = stage.run(args);
        assert!(run.out.contains(work) || run.err.contains(work), "{run:#?}");
    }
    assert_eq!(stage.run(&["tasks", "pause", "x; id #"]).code, 0);
    let paused = stage.run(&["jobs", "show", &id]);
    assert!(paused.out.contains("semel tasks resume 'x; id #'"), "{paused:#?}");
}
