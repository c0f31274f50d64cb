//! `semel doctor`, and files that are not as they should be.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use stage::Stage;

/// A store in which two waiting jobs have lost their place in the order of dispatch.
fn broken() -> Stage {
    let stage = Stage::new();
    for n in ["1", "2"] {
        stage.submit(&["t", n]);
    }
    let file = rusqlite::Connection::open(stage.file("semel.db")).unwrap();
    assert_eq!(file.execute("DELETE FROM ready", []).unwrap(), 2);
    stage
}

#[test]
fn what_is_broken_is_named() {
    let stage = broken();
    let run = stage.run(&["doctor"]);
    assert_eq!(run.code, 1);
    assert_seen!(stage, run);
}

/// Contract 9.5: what can be derived from the rest is repaired, and the work goes on.
#[test]
fn what_is_broken_is_repaired_on_demand() {
    let stage = broken();
    let run = stage.run(&["doctor", "--repair"]);
    assert_eq!(run.code, 0, "{run:#?}");
    assert_seen!(stage, run);
    assert!(stage.json(&["doctor"])["items"].as_array().unwrap().is_empty());
    let worked = stage.run(&["work", "--task", "t", "--exec", "true", "--drain"]);
    assert!(worked.out.contains("2 completed"), "{worked:#?}");
}

#[test]
fn machines_learn_what_was_repaired() {
    let stage = broken();
    let run = stage.run(&["doctor", "--json"]);
    assert_eq!(
        (run.code, run.json()["items"][0]["repaired"].as_bool()),
        (1, Some(false)),
        "{run:#?}"
    );
    let run = stage.run(&["doctor", "--repair", "--json"]);
    assert_eq!(
        (run.code, run.json()["items"][0]["repaired"].as_bool()),
        (0, Some(true)),
        "{run:#?}"
    );
}

/// A damaged file is an error with a hint, never an answer and never a panic.
#[test]
fn a_damaged_file_is_said_so() {
    let stage = Stage::new().wide();
    for n in 0..50 {
        stage.submit(&["t", &n.to_string()]);
    }
    let file = stage.file("semel.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[8_192..end].fill(0x5a);
    std::fs::write(&file, bytes).unwrap();
    for args in [&["stats"][..], &["jobs", "list"], &["submit", "t", "1"]] {
        let run = stage.run(args);
        assert_eq!(run.code, 6, "{run:#?}");
        assert!(
            run.err.contains("damaged") && run.err.contains("hint:"),
            "{run:#?}"
        );
    }
}
