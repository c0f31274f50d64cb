//! Only `submit` and `work` make a store; looking never does.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use stage::Stage;

const READING: &[&[&str]] = &[
    &["stats"],
    &["jobs", "list"],
    &["jobs", "show", "x"],
    &["jobs", "wait", "x"],
    &["jobs", "cancel", "x"],
    &["jobs", "retry", "--task", "t", "--yes"],
    &["keys", "list"],
    &["keys", "show", "x"],
    &["keys", "release", "x", "--reason", "r"],
    &["dead-letters", "list"],
    &["dead-letters", "replay", "--all", "--yes"],
    &["dead-letters", "delete", "x"],
    &["queues", "list"],
    &["queues", "pause", "q"],
    &["queues", "resume", "q"],
    &["queues", "unique", "q"],
    &["queues", "close", "q"],
    &["queues", "open", "q"],
    &["queues", "delete", "q", "--yes"],
    &["tasks", "list"],
    &["tasks", "pause", "t"],
    &["tasks", "resume", "t"],
    &["workers", "list"],
    &["schedules", "list"],
    &["schedules", "set", "s", "--cron", "@daily", "--task", "t"],
    &["schedules", "delete", "s"],
    &["events", "list"],
    &["events", "subscribe", "e", "t"],
    &["events", "send", "e", "1"],
    &["explain", "t", "1", "--unique"],
    &["submit", "t", "1", "--dry-run"],
    &["guarantees"],
    &["doctor"],
    &["doctor", "--repair"],
];

#[test]
fn a_missing_store_is_an_error_and_stays_missing() {
    let stage = Stage::new().wide();
    for args in READING {
        let run = stage.run(args);
        assert_eq!(run.code, 6, "{run:#?}");
        assert!(
            run.err.contains("there is no store at") && run.err.contains("hint:"),
            "{run:#?}"
        );
        assert_eq!(
            std::fs::read_dir(stage.path()).unwrap().count(),
            0,
            "{} made a file",
            run.line
        );
    }
}

#[test]
fn an_empty_file_is_no_store_and_stays_empty() {
    let stage = Stage::new().wide();
    stage.write("semel.db", "");
    for args in READING {
        let run = stage.run(args);
        assert_eq!(run.code, 6, "{run:#?}");
    }
    assert_eq!(std::fs::metadata(stage.file("semel.db")).unwrap().len(), 0);
    assert_eq!(std::fs::read_dir(stage.path()).unwrap().count(), 1);
    stage.submit(&["t", "1"]);
    assert_eq!(stage.json(&["stats"])["accepted"], 1);
}

#[test]
fn settings_and_scripts_need_no_store() {
    let stage = Stage::new();
    for args in [&["config", "show"][..], &["completions", "bash"]] {
        assert_eq!(stage.run(args).code, 0);
    }
    assert_eq!(std::fs::read_dir(stage.path()).unwrap().count(), 0);
}

/// Contract 2.14: explaining writes nothing, not even a count.
#[test]
fn a_dry_run_writes_nothing() {
    let stage = Stage::new().eventful();
    let before = stage.json(&["stats"]);
    for how in ["--dry-run", "--dry-run=explain"] {
        let run = stage.run(&["submit", "charge_customer", "7", "--key", "fresh", how]);
        assert_eq!(run.code, 0, "{run:#?}");
    }
    let conflict = stage.run(&["submit", "charge_customer", "7", "--key", "ORD-1", "--dry-run"]);
    assert_eq!(conflict.code, 4, "{conflict:#?}");
    let after = stage.json(&["stats"]);
    for counter in ["accepted", "duplicates", "conflicts", "active_keys"] {
        assert_eq!(before[counter], after[counter], "{counter}");
    }
    assert_eq!(before["jobs"], after["jobs"]);
}
