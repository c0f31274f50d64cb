//! `semel submit`: every answer of the closed set, every way to say an input.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use stage::Stage;

#[test]
fn a_duplicate_is_done_a_conflict_is_four_a_rejection_three() {
    let stage = Stage::new();
    let first = stage.json(&["submit", "charge", r#"{"order":1,"amount":2}"#, "--key", "ORD-1"]);
    assert_eq!(first["outcome"], "accepted");
    // Contract 2.2: the order of members does not matter.
    let again = stage.json(&[
        "submit",
        "charge",
        r#"{"amount":2.0,"order":1}"#,
        "--key",
        "ORD-1",
    ]);
    assert_eq!(again["outcome"], "duplicate");
    assert_eq!(again["job"]["id"], first["job"]["id"]);
    assert_eq!(again["key"]["digest"], first["key"]["digest"]);
    assert_eq!(
        (&first["key"]["absorbed"], &again["key"]["absorbed"]),
        (&0.into(), &1.into())
    );

    // Contract 2.6: another input under the same key; the answer names pointers, never values.
    let other = stage.run(&[
        "submit",
        "charge",
        r#"{"order":1,"amount":77777}"#,
        "--key",
        "ORD-1",
        "--json",
    ]);
    assert_eq!(other.code, 4);
    assert_eq!(other.json()["outcome"], "conflict");
    assert_eq!(other.json()["differs"], serde_json::json!(["/amount"]));
    assert_eq!(other.json()["holder"]["id"], first["job"]["id"]);
    assert!(!other.out.contains("77777") && !other.err.contains("77777"));

    stage.json(&["submit", "charge", "1", "--exclusive", "X"]);
    let rejected = stage.run(&["submit", "charge", "1", "--exclusive", "X", "--json"]);
    assert_eq!(rejected.code, 3);
    assert_eq!(rejected.json()["outcome"], "rejected");
    let problem: serde_json::Value = serde_json::from_str(&rejected.err).unwrap();
    assert_eq!(problem["code"], "duplicate_rejected");
}

#[test]
fn policies_are_said_in_flags() {
    let stage = Stage::new();
    let outcome = |args: &[&str]| {
        let mut all = vec!["submit"];
        all.extend(args);
        stage.json(&all)["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(outcome(&["a", "1", "--unique"]), "accepted");
    assert_eq!(outcome(&["a", "1", "--unique"]), "duplicate");
    assert_eq!(outcome(&["a", "2", "--unique"]), "accepted");
    assert_eq!(outcome(&["a", "1"]), "accepted", "no policy, no key");
    assert_eq!(outcome(&["b", r#"{"d":1,"x":1}"#, "--fields", "/d"]), "accepted");
    assert_eq!(outcome(&["b", r#"{"d":1,"x":2}"#, "--fields", "/d"]), "duplicate");
    assert_eq!(
        outcome(&[
            "b",
            r#"{"d":1,"x":2}"#,
            "--fields",
            "/d",
            "--on-duplicate",
            "replace"
        ]),
        "replaced"
    );
    assert_eq!(outcome(&["c", r#"{"d":1,"t":1}"#, "--except", "/t"]), "accepted");
    assert_eq!(outcome(&["c", r#"{"d":1,"t":2}"#, "--except", "/t"]), "duplicate");
    assert_eq!(
        outcome(&["d", "1", "--key", "k", "--scope", "global"]),
        "accepted"
    );
    assert_eq!(
        outcome(&[
            "d",
            "2",
            "--key",
            "k",
            "--scope",
            "global",
            "--on-mismatch",
            "ignore"
        ]),
        "duplicate"
    );
    assert_eq!(
        outcome(&["d", "1", "--key", "k"]),
        "accepted",
        "scope task is another scope"
    );
    assert_eq!(
        outcome(&["e", r#"{"p":1,"v":1}"#, "--debounce", "1h", "--fields", "/p"]),
        "accepted"
    );
    assert_eq!(
        outcome(&["e", r#"{"p":1,"v":2}"#, "--debounce", "1h", "--fields", "/p"]),
        "debounced"
    );
    assert_eq!(
        outcome(&["f", "1", "--once-per", "month", "--zone", "Europe/Berlin"]),
        "accepted"
    );
    assert_eq!(
        outcome(&["f", "1", "--once-per", "month", "--zone", "Europe/Berlin"]),
        "duplicate"
    );
    assert_eq!(
        outcome(&[
            "g",
            "1",
            "--unique",
            "--hold",
            "forever",
            "--release-on",
            "failed,cancelled"
        ]),
        "accepted"
    );

    let key = &stage.json(&["keys", "list", "--task", "g"])["items"][0];
    assert_eq!(key["hold"], "forever");
    assert_eq!(key["release_on"], serde_json::json!(["failed", "cancelled"]));
}

#[test]
fn observing_admits_and_says_what_would_have_been() {
    let stage = Stage::new();
    let first = stage.submit(&["a", "1", "--unique"]);
    let seen = stage.json(&["submit", "a", "1", "--unique", "--observe"]);
    assert_eq!(seen["outcome"], "accepted");
    assert_eq!(seen["would"]["outcome"], "duplicate");
    assert_eq!(seen["would"]["holder"], first);
}

#[test]
fn a_unique_queue_deduplicates_what_says_nothing() {
    let stage = Stage::new();
    stage.submit(&["warm", "0"]);
    assert_eq!(stage.run(&["queues", "unique", "q"]).code, 0);
    let outcome = |args: &[&str]| stage.json(args)["outcome"].as_str().unwrap().to_owned();
    assert_eq!(outcome(&["submit", "a", "1", "--queue", "q"]), "accepted");
    assert_eq!(outcome(&["submit", "a", "1", "--queue", "q"]), "duplicate");
    assert_eq!(
        outcome(&["submit", "a", "1", "--queue", "q", "--no-dedup"]),
        "accepted"
    );
    assert_eq!(stage.run(&["queues", "unique", "q", "--off"]).code, 0);
    assert_eq!(outcome(&["submit", "a", "1", "--queue", "q"]), "accepted");
}

/// Contract 3.5: the same token is the same submission, and counts nothing.
#[test]
fn a_repeated_token_is_the_same_submission() {
    let stage = Stage::new();
    let token = "01a1e57b-0fd5-73de-a304-addf6f655376";
    for _ in 0..2 {
        let answer = stage.json(&["submit", "a", "1", "--token", token]);
        assert_eq!(
            (answer["outcome"].as_str(), answer["job"]["id"].as_str()),
            (Some("accepted"), Some(token))
        );
    }
    assert_eq!(stage.json(&["stats"])["accepted"], 1);
}

#[test]
fn the_input_is_typed_piped_or_read() {
    let stage = Stage::new();
    stage.write("in.json", "{\"from\": \"a file\"}\n");
    let typed = stage.submit(&["a", r#""text""#]);
    let read = stage.submit(&["a", "@in.json"]);
    let none = stage.submit(&["a"]);
    let piped = stage
        .run_fed("[1, 2]\n", &["submit", "a", "-", "-q"])
        .out
        .trim()
        .to_owned();
    let input = |id: &str| stage.job(id)["input"].clone();
    assert_eq!(input(&typed), "text");
    assert_eq!(input(&read)["from"], "a file");
    assert_eq!(input(&piped), serde_json::json!([1, 2]));
    assert!(input(&none).is_null());
}

#[test]
fn numbers_stay_what_they_were() {
    let stage = Stage::new();
    let id = stage.submit(&["a", r#"{"big":9007199254740993,"decimal":1.10}"#]);
    let shown = stage.run(&["jobs", "show", &id]).out;
    assert!(
        shown.contains(r#"{"big":9007199254740993,"decimal":1.10}"#),
        "{shown}"
    );
    let json = stage.run(&["jobs", "show", &id, "--json"]).out;
    assert!(
        json.contains(r#""big":9007199254740993,"decimal":1.10"#),
        "{json}"
    );
}

#[test]
fn what_travels_with_a_job_is_kept() {
    let stage = Stage::new();
    let id = stage.submit(&[
        "a",
        "1",
        "--queue",
        "q",
        "--priority",
        "-7",
        "--delay",
        "1h",
        "--max-attempts",
        "3",
        "--max-deliveries",
        "2",
        "--timeout",
        "90s",
        "--header",
        "trace=abc",
        "--header",
        "x=a=b",
        "--meta",
        r#"{"who":"me"}"#,
        "--producer",
        "shop",
    ]);
    let job = stage.job(&id);
    assert_eq!(job["state"], "scheduled");
    assert_eq!(
        (job["queue"].as_str(), job["priority"].as_i64()),
        (Some("q"), Some(-7))
    );
    assert_eq!(
        (job["max_attempts"].as_i64(), job["max_deliveries"].as_i64()),
        (Some(3), Some(2))
    );
    assert_eq!(job["timeout_ms"], 90_000);
    assert_eq!(job["headers"], serde_json::json!({"trace": "abc", "x": "a=b"}));
    assert_eq!(job["meta"]["who"], "me");
    assert_eq!(job["producer"], "shop");
}

#[test]
fn a_closed_queue_takes_nothing() {
    let stage = Stage::new().wide();
    stage.submit(&["a", "1"]);
    stage.run(&["queues", "close", "default"]);
    let run = stage.run(&["submit", "a", "1"]);
    assert_eq!(run.code, 6, "{run:#?}");
    assert!(
        run.err.contains("takes no submissions") && run.err.contains("hint:"),
        "{run:#?}"
    );
    stage.run(&["queues", "open", "default"]);
    assert_eq!(stage.run(&["submit", "a", "1"]).code, 0);
}

#[test]
fn a_person_sees_the_store_the_answer_and_what_is_missing() {
    let stage = Stage::new();
    let run = stage.run(&["submit", "charge", "1", "--key", "K"]);
    assert_seen!(stage, run);
}

#[test]
fn a_person_sees_whose_key_it_is() {
    let stage = Stage::new().eventful();
    let run = stage.run(&[
        "submit",
        "charge_customer",
        r#"{"order":"ORD-1","amount":4200}"#,
        "--key",
        "ORD-1",
    ]);
    assert_seen!(stage, run);
}

#[test]
fn a_person_sees_a_conflict() {
    let stage = Stage::new().eventful();
    let run = stage.run(&[
        "submit",
        "charge_customer",
        r#"{"order":"ORD-1"}"#,
        "--key",
        "ORD-1",
    ]);
    assert_seen!(stage, run);
}
