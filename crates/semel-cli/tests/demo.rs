//! The seeds' four scenarios with real processes: producers, workers that are killed, an outside world (contract 2.8,
//! 1.1, 1.5, 5.1, 5.2).

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

fn demo(seconds: &str, more: &[&str]) -> (bool, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(["demo", "--json", "--seconds", seconds])
        .args(more)
        .output()
        .expect("the demo runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    let tally = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said} {told}"));
    (output.status.success(), tally)
}

fn number(row: &Value, name: &str) -> i64 {
    row[name].as_i64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

#[test]
fn work_that_is_submitted_again_and_again_by_all_is_done_once_though_workers_are_killed() {
    let (good, tally) = demo("4", &[]);
    assert!(good, "{tally}");
    assert!(number(&tally, "workers_killed") >= 3, "{tally}");
    let rows = tally["scenarios"].as_array().expect("scenarios");
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(number(row, "twice"), 0, "{row}");
        assert_eq!(number(row, "lost"), 0, "{row}");
        assert_eq!(number(row, "effects"), number(row, "accepted"), "{row}");
        assert_eq!(
            number(row, "submitted"),
            number(row, "accepted") + number(row, "absorbed"),
            "{row}"
        );
        assert!(
            number(row, "accepted") > 0 && number(row, "absorbed") > 0,
            "{row}"
        );
    }
    // What each scenario is made of: two clicks an order, three deliveries an event, 25 tries a user.
    assert_eq!(number(&rows[0], "submitted"), 2 * number(&rows[0], "accepted"));
    assert_eq!(number(&rows[1], "submitted"), 25 * number(&rows[1], "accepted"));
    assert_eq!(number(&rows[2], "submitted"), 3 * number(&rows[2], "accepted"));
}

#[test]
fn a_kept_demo_can_be_looked_at_and_is_not_run_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let keep = directory.path().join("demo");
    let keep = keep.to_str().expect("a path in words");
    let (good, _) = demo("1", &["--keep", keep]);
    assert!(good);
    let stats = Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(["stats", "--json", "--store", &format!("sqlite:{keep}/demo.db")])
        .output()
        .expect("stats runs");
    let stats: Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    assert!(number(&stats, "accepted") > 0, "{stats}");
    let again = Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(["demo", "--keep", keep])
        .output()
        .expect("it answers");
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already"));
}

/// The overview of the dashboard at a URL.
fn overview(url: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("the dashboard listens");
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\nAccept: text/html\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn the_dashboard_is_up_meanwhile_and_until_somebody_ends_it() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_semel"))
        .args(["demo", "--json", "--seconds", "2", "--serve"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the demo runs");
    let mut lines = BufReader::new(child.stdout.take().expect("its output"));
    let mut said = serde_json::Deserializer::from_reader(&mut lines).into_iter::<Value>();
    let first = said.next().expect("an address").expect("JSON");
    let url = first["url"].as_str().expect("an address").to_owned();
    assert!(overview(&url).contains("<h1>Overview</h1>"));
    let tally = said.next().expect("a tally").expect("JSON");
    assert_eq!(tally["scenarios"].as_array().map(Vec::len), Some(4), "{tally}");
    assert!(
        overview(&url).contains("Work flows"),
        "the demo is over, the dashboard is not"
    );
    let told = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(told.success());
    assert!(child.wait().expect("it ends").success());
}
