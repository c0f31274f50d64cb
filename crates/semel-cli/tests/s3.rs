//! The command line on a bucket: the same words, another store.

#![cfg(feature = "s3")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../../semel-s3/tests/server/mod.rs"]
mod server;
mod stage;

use server::{Kind, Server};
use stage::{Run, Stage};

/// Credentials come from the environment, as everywhere.
const CREDENTIALS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];

fn run(stage: &Stage, args: &[&str]) -> Run {
    stage.run_with(&CREDENTIALS, args)
}

fn good(stage: &Stage, args: &[&str]) -> String {
    let run = run(stage, args);
    assert_eq!(run.code, 0, "{run:#?}");
    run.out.trim().to_owned()
}

#[test]
fn jobs_are_submitted_worked_and_looked_at_in_a_bucket() {
    let server = Server::start(Kind::Ministack);
    let stage = Stage::new().wide();
    stage.write("semel.toml", &format!("store = '{}'", server.fresh_url()));
    // Whoever only looks makes no store.
    let missing = run(&stage, &["stats"]);
    assert_eq!(missing.code, 6, "{missing:#?}");
    assert!(missing.err.contains("there is no store"), "{missing:#?}");

    let submit = ["submit", "echo", r#"{"n":1}"#, "--key", "k", "-q"];
    let id = good(&stage, &submit);
    assert_eq!(
        good(&stage, &submit),
        id,
        "a duplicate is led to the job that holds the key"
    );
    good(&stage, &["work", "--task", "echo", "--exec", "cat", "--drain"]);
    let job = run(&stage, &["jobs", "show", &id, "--json"]).json();
    assert_eq!(
        (&job["state"], &job["output"]["n"]),
        (&"complete".into(), &1.into())
    );
    let stats = run(&stage, &["stats", "--json"]).json();
    let counted = ["accepted", "duplicate", "completed"].map(|name| stats[name].as_i64());
    assert_eq!(counted, [1, 1, 1].map(Some), "{stats}");
    let sheet = good(&stage, &["guarantees"]);
    assert!(sheet.contains("a second create"), "{sheet}");
    assert!(sheet.contains("from the Date of"), "{sheet}");
    good(&stage, &["doctor"]);
}
