//! Effects in doubt, seen and decided.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use serde_json::{Value, json};
use stage::Stage;

/// The parked job of the story: its letter may have been sent.
const REFUND: &str = "01a3185c-5000-7c0c-8c0c-0c0c0c0c0c0c";

#[test]
fn no_step_in_doubt_is_said_so() {
    let stage = Stage::new();
    stage.submit(&["t", "1"]);
    let run = stage.run(&["steps", "list"]);
    assert_seen!(stage, run);
}

#[test]
fn steps_in_doubt_are_listed_with_what_to_do() {
    let stage = Stage::new().eventful();
    let run = stage.run(&["steps", "list"]);
    assert_seen!(stage, run);
}

#[test]
fn steps_in_doubt_as_json() {
    let stage = Stage::new().eventful();
    let run = stage.run(&["steps", "list", "--json"]);
    assert_seen!(stage, run);
}

#[test]
fn all_steps_of_a_job_are_listed() {
    let stage = Stage::new().eventful();
    let run = stage.run(&["steps", "list", "--job", REFUND]);
    assert_seen!(stage, run);
}

/// Contract 5.2: what has happened is confirmed with its output, and the parked job goes on.
#[test]
fn what_happened_is_confirmed_and_the_job_goes_on() {
    let stage = Stage::new().eventful();
    let run = stage.run(&[
        "steps",
        "resolve",
        REFUND,
        "mail",
        "--happened",
        "--output",
        r#"{"id":"m_1"}"#,
        "--reason",
        "found it",
    ]);
    assert_seen!(stage, run);

    let job = stage.job(REFUND);
    let mail = job["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["name"] == "mail");
    assert_eq!(
        (
            job["state"].as_str(),
            &mail.unwrap()["state"],
            &mail.unwrap()["output"]
        ),
        (Some("queued"), &json!("confirmed"), &json!({"id": "m_1"}))
    );
    assert_eq!(stage.json(&["steps", "list"])["items"], json!([]));
}

/// Only a decision that it did not happen moves the downstream key on.
#[test]
fn what_did_not_happen_is_run_again_with_another_key() {
    let stage = Stage::new().eventful();
    let before = stage.json(&["steps", "list"])["items"][0]["key"].clone();
    let run = stage.run(&[
        "steps",
        "resolve",
        REFUND,
        "mail",
        "--did-not-happen",
        "--reason",
        "the provider has no trace of it",
    ]);
    assert_seen!(stage, run);
    let steps = stage.json(&["steps", "list", "--job", REFUND]);
    let mail = steps["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["name"] == "mail")
        .unwrap();
    assert_eq!(mail["state"], "refused");
    assert_ne!(mail["key"], before);
}

#[test]
fn a_step_is_decided_once() {
    let stage = Stage::new().eventful();
    let decide = [
        "steps",
        "resolve",
        REFUND,
        "mail",
        "--happened",
        "--reason",
        "seen",
        "--json",
    ];
    assert_eq!(stage.run(&decide).json()["state"], "queued");
    let again = stage.run(&decide);
    let problem: Value = serde_json::from_str(&again.err).unwrap();
    assert_eq!(
        (again.code, problem["code"].as_str()),
        (1, Some("not_in_doubt")),
        "{again:#?}"
    );
}

#[test]
fn a_decision_that_makes_no_sense_is_refused_and_changes_nothing() {
    let stage = Stage::new().eventful();
    for (args, code) in [
        (&["steps", "resolve", REFUND, "mail", "--reason", "r"][..], 2),
        (&["steps", "resolve", REFUND, "mail", "--happened"], 2),
        (
            &["steps", "resolve", REFUND, "mail", "--happened", "--reason", " "],
            2,
        ),
        (
            &[
                "steps",
                "resolve",
                REFUND,
                "mail",
                "--happened",
                "--did-not-happen",
                "--reason",
                "r",
            ],
            2,
        ),
        (
            &[
                "steps",
                "resolve",
                REFUND,
                "mail",
                "--did-not-happen",
                "--output",
                "1",
                "--reason",
                "r",
            ],
            2,
        ),
        (
            &[
                "steps",
                "resolve",
                REFUND,
                "mail",
                "--happened",
                "--output",
                "{",
                "--reason",
                "r",
            ],
            2,
        ),
        (
            &["steps", "resolve", REFUND, "post", "--happened", "--reason", "r"],
            5,
        ),
        (
            &[
                "steps",
                "resolve",
                "nobody",
                "mail",
                "--happened",
                "--reason",
                "r",
            ],
            5,
        ),
        (
            &[
                "steps",
                "resolve",
                REFUND,
                "stripe",
                "--did-not-happen",
                "--reason",
                "r",
            ],
            1,
        ),
    ] {
        let run = stage.run(args);
        assert_eq!(run.code, code, "{run:#?}");
    }
    assert_eq!(
        stage.json(&["steps", "list"])["items"].as_array().unwrap().len(),
        1
    );
    assert_eq!(stage.job(REFUND)["state"], "parked");
}
