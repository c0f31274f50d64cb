//! `--json`: one shape, the same that HTTP answers have.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use serde_json::Value;
use stage::Stage;

const CHARGE: &str = "01a3185c-5000-7101-8101-010101010101";

/// The answer, one member per line, for a snapshot.
fn pretty(run: stage::Run) -> stage::Run {
    let out = serde_json::to_string_pretty(&run.json()).unwrap() + "\n";
    stage::Run { out, ..run }
}

macro_rules! answer {
    ($name:ident, $($arg:expr),+) => {
        #[test]
        fn $name() {
            let stage = Stage::new().eventful();
            let run = stage.run(&[$($arg),+, "--json"]);
            assert_eq!(run.out.lines().count(), 1, "one document on one line");
            let run = pretty(run);
            let mut settings = insta::Settings::clone_current();
            // Fences are times, sizes and generations are the store's own business.
            settings.add_filter(r#""fence": \d+"#, "\"fence\": 0");
            settings.add_filter(r#""storage_bytes": \d+"#, "\"storage_bytes\": 0");
            settings.bind(|| assert_seen!(stage, run));
        }
    };
}

answer!(a_job_as_json, "jobs", "show", CHARGE);
answer!(jobs_as_json, "jobs", "list", "--state", "running");
answer!(keys_as_json, "keys", "list");
answer!(a_key_as_json, "keys", "show", "ORD-1");
answer!(stats_as_json, "stats");
answer!(queues_as_json, "queues", "list");
answer!(tasks_as_json, "tasks", "list");
answer!(dead_letters_as_json, "dead-letters", "list");
answer!(guarantees_as_json, "guarantees");
answer!(
    an_explanation_as_json,
    "explain",
    "charge_customer",
    "7",
    "--key",
    "ORD-1"
);
answer!(a_plan_as_json, "dead-letters", "replay", "--all");

/// Names end in `_at` or `_until` if and only if they are moments, in `_ms` if they are lengths.
fn check_names(path: &str, value: &Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}/{name}");
                assert!(
                    name.chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                    "{path}"
                );
                let is_moment = name.ends_with("_at")
                    || ["at", "since", "until", "as_of", "lease_until"].contains(&name.as_str());
                if is_moment && !value.is_null() {
                    let text = value.as_str().unwrap_or_else(|| panic!("{path} is {value}"));
                    assert!(
                        text.parse::<jiff::Timestamp>().is_ok() && text.ends_with('Z'),
                        "{path}: {text}"
                    );
                }
                if name.ends_with("_ms") {
                    assert!(value.is_i64(), "{path} is {value}");
                }
                if !["input", "output", "meta", "headers", "by_task"].contains(&name.as_str()) {
                    check_names(&path, value);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| check_names(path, item)),
        _ => {}
    }
}

#[test]
fn times_are_rfc_3339_and_lengths_milliseconds_everywhere() {
    let stage = Stage::new().eventful();
    stage.json(&[
        "schedules",
        "set",
        "s",
        "--cron",
        "@daily",
        "--task",
        "t",
        "--timeout",
        "5s",
    ]);
    stage.json(&["events", "subscribe", "e", "t"]);
    let answers: [&[&str]; 14] = [
        &["jobs", "list"],
        &["jobs", "show", CHARGE],
        &["keys", "list"],
        &["keys", "show", "ORD-1"],
        &["stats"],
        &["queues", "list"],
        &["tasks", "list"],
        &["workers", "list"],
        &["schedules", "list"],
        &["events", "list"],
        &["dead-letters", "list"],
        &["guarantees"],
        &["doctor"],
        &["config", "show"],
    ];
    for args in answers {
        check_names(&args.join(" "), &stage.json(args));
    }
}

#[test]
fn pages_of_a_list_are_followed_by_their_cursor() {
    let stage = Stage::new().eventful();
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut args = vec!["jobs", "list", "--limit", "3"];
        if let Some(cursor) = &cursor {
            args.extend(["--cursor", cursor]);
        }
        let page = stage.json(&args);
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    let all = stage.json(&["jobs", "list", "--limit", "1000"]);
    let all: Vec<String> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(seen, all);
    assert_eq!(seen.len(), 9);
}

#[test]
fn the_bench_prints_one_object_per_measurement() {
    let stage = Stage::new();
    let dir = stage.path().to_str().unwrap().to_owned();
    let run = stage.run(&[
        "bench",
        "--quick",
        "--only",
        "singles,bulk,sizes",
        "--dir",
        &dir,
        "--json",
    ]);
    assert_eq!(run.code, 0, "{run:#?}");
    let lines: Vec<Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let metrics: Vec<&str> = lines
        .iter()
        .map(|line| line["metric"].as_str().unwrap())
        .collect();
    for metric in [
        "ceiling_1",
        "enqueue_1",
        "ratio_enqueue_1",
        "enqueue_unique",
        "enqueue_bulk",
        "enqueue_unique_bulk",
        "mem_job",
        "mem_dedupe",
    ] {
        assert!(metrics.contains(&metric), "{metric} in {metrics:?}");
    }
    assert!(
        lines
            .iter()
            .all(|line| line["peer"] == "semel" && line["value"].is_number() && line["unit"].is_string())
    );
    assert_eq!(stage.run(&["bench", "--only", "speed"]).code, 2);
}
