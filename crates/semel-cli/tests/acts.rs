//! What people do to jobs, keys, queues and schedules.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use serde_json::{Value, json};
use stage::Stage;

const CHARGE: &str = "01a3185c-5000-7101-8101-010101010101";

#[test]
fn cancel_and_retry_by_id() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    let cancelled = stage.json(&["jobs", "cancel", &id]);
    assert_eq!(
        cancelled["items"][0],
        json!({"asked": id, "id": id, "state": "cancelled"})
    );

    // Contract 6.2: a terminal job is left as it is, and its state is said.
    let again = stage.run(&["jobs", "cancel", &id, "--json"]);
    let problem: Value = serde_json::from_str(&again.err).unwrap();
    assert_eq!(
        (again.code, problem["code"].as_str(), problem["state"].as_str()),
        (1, Some("terminal"), Some("cancelled"))
    );

    let retried = stage.json(&["jobs", "retry", &id]);
    assert_eq!(retried["items"][0]["state"], "queued");
    let early = stage.run(&["jobs", "retry", &id, "--json"]);
    let problem: Value = serde_json::from_str(&early.err).unwrap();
    assert_eq!((early.code, problem["code"].as_str()), (1, Some("not_terminal")));
}

#[test]
fn of_several_ids_each_is_tried() {
    let stage = Stage::new();
    let (one, two) = (stage.submit(&["t", "1"]), stage.submit(&["t", "2"]));
    let run = stage.run(&["jobs", "cancel", &one, "nope", &two]);
    assert_eq!(run.code, 5);
    assert!(run.err.contains("there is no job nope"), "{run:#?}");
    for id in [one, two] {
        assert_eq!(stage.job(&id)["state"], "cancelled");
    }
}

/// Contract 6.6: a plan first; only --yes or a person's agreement carries it out, on exactly those.
#[test]
fn a_bulk_act_is_planned_then_carried_out() {
    let stage = Stage::new();
    for n in 0..5 {
        stage.submit(&["bulk", &n.to_string()]);
    }
    stage.submit(&["other", "1"]);
    let plan = stage.json(&["jobs", "cancel", "--task", "bulk"]);
    assert_eq!(
        (plan["status"].as_str(), plan["total"].as_i64()),
        (Some("planned"), Some(5))
    );
    assert_eq!(
        stage.json(&["stats"])["jobs"],
        json!({"queued": 6}),
        "a plan changes nothing"
    );

    let late = stage.submit(&["bulk", "6"]);
    let id = plan["id"].as_str().unwrap();
    let done = stage.json(&["jobs", "cancel", "--plan", id, "--yes"]);
    assert_eq!(
        (done["status"].as_str(), done["done"].as_i64()),
        (Some("done"), Some(5))
    );
    assert_eq!(
        stage.job(&late)["state"],
        "queued",
        "what came after the plan is left alone"
    );
    assert_eq!(
        stage.json(&["stats"])["jobs"],
        json!({"queued": 2, "cancelled": 5})
    );

    let wrong = stage.run(&["jobs", "retry", "--plan", id, "--yes"]);
    assert_eq!(wrong.code, 2, "{wrong:#?}");
    let none = stage.json(&["jobs", "cancel", "--task", "nobody", "--yes"]);
    assert_eq!(none["total"], 0);
}

#[test]
fn a_bulk_act_tells_what_it_did() {
    let stage = Stage::new();
    for n in 0..3 {
        stage.submit(&["bulk", &n.to_string()]);
    }
    let run = stage.run(&["jobs", "cancel", "--task", "bulk", "--yes", "--rate", "100"]);
    assert_seen!(stage, run);
}

/// Contract 6.5: a replay is a fresh job with the same origin; replaying twice gives one job.
#[test]
fn a_dead_letter_is_replayed_once() {
    let stage = Stage::new().eventful();
    let first = stage.json(&["dead-letters", "replay", CHARGE]);
    let fresh = first["items"][0]["id"].as_str().unwrap().to_owned();
    assert_ne!(fresh, CHARGE);
    let again = stage.json(&["dead-letters", "replay", CHARGE]);
    assert_eq!(again["items"][0]["id"], fresh.as_str());
    let job = stage.job(&fresh);
    assert_eq!(
        (job["replayed_from"].as_str(), job["origin"].as_str()),
        (Some(CHARGE), Some(CHARGE))
    );
    assert!(
        stage.json(&["dead-letters", "list"])["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );

    let retry = stage.run(&["jobs", "retry", CHARGE]);
    assert_eq!(retry.code, 1, "{retry:#?}");
    assert!(retry.err.contains(&fresh), "{retry:#?}");
    let page = stage.run(&["jobs", "show", CHARGE]).out;
    assert!(page.contains("was replayed as"), "{page}");
}

#[test]
fn a_dead_letter_whose_key_is_held_stays() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1", "--key", "k", "--hold", "until_finished"]);
    assert_eq!(
        stage
            .run(&["work", "--task", "t", "--exec", "exit 65", "--drain"])
            .code,
        0
    );
    let holder = stage.submit(&["t", "2", "--key", "k", "--hold", "until_finished"]);
    let run = stage.run(&["dead-letters", "replay", &id, "--json"]);
    let problem: Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(
        (run.code, problem["holder"]["id"].as_str()),
        (3, Some(holder.as_str())),
        "{run:#?}"
    );
    let plan = stage.json(&["dead-letters", "replay", "--all"]);
    assert_eq!(
        (plan["total"].as_i64(), plan["collisions"].as_i64()),
        (Some(1), Some(1))
    );
    let done = stage.run(&["dead-letters", "replay", "--all", "--yes"]);
    assert_eq!(done.code, 1);
    assert!(done.out.contains("1 refused: held"), "{done:#?}");
    assert_eq!(
        stage.json(&["dead-letters", "list"])["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn dead_letters_are_dropped_by_filter() {
    let stage = Stage::new().eventful();
    let none = stage.json(&["dead-letters", "delete", "--error", "another reason", "--yes"]);
    assert_eq!(none["total"], 0);
    let done = stage.json(&["dead-letters", "delete", "--error", "card declined", "--yes"]);
    assert_eq!(done["done"], 1);
    assert!(
        stage.json(&["dead-letters", "list"])["groups"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// Contract 7.3, 2.10: a release names the holder it means and a reason.
#[test]
fn a_key_is_released_by_hand() {
    let stage = Stage::new().wide().eventful();
    let unconfirmed = stage.run(&["keys", "release", "ORD-1", "--reason", "refund"]);
    assert_eq!(unconfirmed.code, 9, "{unconfirmed:#?}");
    assert!(
        unconfirmed.err.contains(CHARGE) && unconfirmed.err.contains("--yes"),
        "{unconfirmed:#?}"
    );

    let wrong = stage.run(&[
        "keys",
        "release",
        "ORD-1",
        "--reason",
        "refund",
        "--holder",
        "someone-else",
    ]);
    assert!(wrong.code != 0 && wrong.err.contains(CHARGE), "{wrong:#?}");
    assert_eq!(stage.json(&["keys", "show", "ORD-1"])["held"], true);

    let digest = stage.json(&["keys", "show", "ORD-1"])["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    let freed = stage.json(&[
        "keys",
        "release",
        &digest[..10],
        "--reason",
        "refund",
        "--holder",
        CHARGE,
    ]);
    assert_eq!(freed["digest"], digest.as_str());
    assert_eq!(stage.json(&["keys", "show", &digest])["held"], false);
    let again = stage.run(&["keys", "release", "ORD-1", "--reason", "refund", "--yes"]);
    assert_eq!(again.code, 5, "{again:#?}");
    assert_eq!(
        stage.json(&["submit", "charge_customer", "1", "--key", "ORD-1"])["outcome"],
        "accepted"
    );
}

#[test]
fn a_key_is_found_by_text_digest_or_its_beginning() {
    let stage = Stage::new().wide();
    stage.submit(&["a", "1", "--key", "same"]);
    stage.submit(&["b", "1", "--key", "same"]);
    let several = stage.run(&["keys", "show", "same"]);
    assert_eq!(several.code, 2, "{several:#?}");
    assert!(
        several.err.contains("several") && several.err.contains("hint:"),
        "{several:#?}"
    );
    for row in stage.json(&["keys", "list"])["items"].as_array().unwrap() {
        let digest = row["digest"].as_str().unwrap();
        for said in [digest, &digest[..12], &digest[..12].to_uppercase()] {
            assert_eq!(
                stage.json(&["keys", "show", said])["holder"]["task"],
                row["holder"]["task"]
            );
        }
    }
    let by_key = stage.json(&[
        "jobs",
        "list",
        "--key",
        stage.json(&["keys", "list", "--task", "a"])["items"][0]["digest"]
            .as_str()
            .unwrap(),
    ]);
    assert_eq!(by_key["items"][0]["task"], "a");
}

/// Contract 6.1: after the answer nothing paused is handed out.
#[test]
fn pausing_holds_work_back_and_resuming_lets_it_go() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    let paused = stage.json(&[
        "queues",
        "pause",
        "default",
        "--for",
        "1h",
        "--reason",
        "provider down",
    ]);
    assert_eq!(paused["paused"]["reason"], "provider down");
    stage.run(&["work", "--task", "t", "--exec", "true", "--drain"]);
    assert_eq!(stage.job(&id)["state"], "queued");
    assert!(
        stage.job(&id)["why"][0]
            .as_str()
            .unwrap()
            .contains("provider down")
    );
    assert_eq!(
        stage.json(&["queues", "resume", "default"])["paused"],
        Value::Null
    );

    stage.run(&["tasks", "pause", "t"]);
    stage.run(&["work", "--task", "t", "--exec", "true", "--drain"]);
    assert_eq!(stage.job(&id)["state"], "queued");
    stage.run(&["tasks", "resume", "t"]);

    stage.run(&["queues", "pause", "--all"]);
    assert!(stage.run(&["queues", "list"]).out.contains("All queues: paused"));
    stage.run(&["work", "--task", "t", "--exec", "true", "--drain"]);
    assert_eq!(stage.job(&id)["state"], "queued");
    stage.run(&["queues", "resume", "--all"]);
    stage.run(&["work", "--task", "t", "--exec", "true", "--drain"]);
    assert_eq!(stage.job(&id)["state"], "complete");
}

/// Contract 2.16.
#[test]
fn a_queue_is_removed_with_its_jobs() {
    let stage = Stage::new().wide();
    stage.submit(&["t", "1", "--queue", "old", "--key", "k", "--scope", "queue"]);
    let unconfirmed = stage.run(&["queues", "delete", "old"]);
    assert_eq!(unconfirmed.code, 9);
    assert!(
        unconfirmed.err.contains("1 job, 1 of them not ended"),
        "{unconfirmed:#?}"
    );
    assert_eq!(
        stage.json(&["queues", "delete", "old", "--yes"]),
        json!({"queue": "old", "jobs": 1})
    );
    assert!(
        stage.json(&["jobs", "list"])["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert_eq!(stage.json(&["stats"])["accepted"], 1, "counters stay");
}

#[test]
fn a_schedule_is_set_changed_and_removed() {
    let stage = Stage::new();
    stage.submit(&["t", "1"]);
    let set = stage.json(&[
        "schedules",
        "set",
        "nightly",
        r#"{"k":1}"#,
        "--cron",
        "0 3 * * *",
        "--zone",
        "Europe/Berlin",
        "--task",
        "report",
        "--overlap",
        "replace",
    ]);
    assert_eq!(
        (set["overlap"].as_str(), set["zone"].as_str()),
        (Some("replace"), Some("Europe/Berlin"))
    );
    assert!(set["next_at"].as_str().unwrap().ends_with('Z'));
    stage.json(&[
        "schedules",
        "set",
        "nightly",
        "--cron",
        "@hourly",
        "--task",
        "report",
    ]);
    let listed = stage.json(&["schedules", "list"]);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (
            listed["items"][0]["cron"].as_str(),
            listed["items"][0]["input"].clone()
        ),
        (Some("@hourly"), Value::Null)
    );
    assert_eq!(stage.run(&["schedules", "delete", "nightly"]).code, 9);
    assert_eq!(stage.run(&["schedules", "delete", "nightly", "--yes"]).code, 0);
    assert!(
        stage.json(&["schedules", "list"])["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// Contract 6.7: the worker's upkeep carries schedules out.
#[test]
fn a_schedule_submits_by_itself() {
    let stage = Stage::new();
    stage.submit(&["t", "1", "--delay", "1h"]);
    stage.json(&[
        "schedules",
        "set",
        "tick",
        "7",
        "--cron",
        "* * * * * *",
        "--task",
        "ticked",
    ]);
    let mut worker = stage
        .command(&["work", "--task", "ticked", "--exec", "cat"])
        .spawn()
        .unwrap();
    stage.until("a tick was run", || {
        let jobs = stage.json(&["jobs", "list", "--task", "ticked", "--state", "complete"]);
        jobs["items"].as_array().is_some_and(|items| !items.is_empty())
    });
    let _ = worker.kill();
    let _ = worker.wait();
    let last = stage.json(&["schedules", "list"])["items"][0]["last"].clone();
    assert_eq!(last["outcome"], "submitted", "{last}");
    let page = stage.run(&["schedules", "list"]).out;
    assert!(page.contains("tick") && page.contains("submitted"), "{page}");
}

/// Contract 3.2: one job per subscriber; a second sending completes and duplicates nothing.
#[test]
fn an_event_reaches_every_subscriber_once() {
    let stage = Stage::new();
    stage.submit(&["t", "1"]);
    for task in ["receipt", "ship"] {
        assert_eq!(stage.run(&["events", "subscribe", "order.paid", task]).code, 0);
    }
    for outcome in ["accepted", "duplicate"] {
        let sent = stage.json(&["events", "send", "order.paid", r#"{"order":7}"#, "--key", "evt_1"]);
        let outcomes: Vec<&str> = sent["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["outcome"].as_str().unwrap())
            .collect();
        assert_eq!(outcomes, [outcome, outcome]);
    }
    let conflict = stage.run(&[
        "events",
        "send",
        "order.paid",
        r#"{"order":8}"#,
        "--key",
        "evt_1",
        "--json",
    ]);
    assert_eq!(conflict.code, 1);
    assert_eq!(conflict.json()["items"][0]["outcome"], "conflict");
    assert_eq!(
        stage
            .run(&["events", "subscribe", "order.paid", "ship", "--off"])
            .code,
        0
    );
    assert_eq!(
        stage.json(&["events", "list"])["items"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(
        stage.run(&["events", "send", "nobody", "1", "--allow-none"]).code,
        0
    );
}

/// Contract 7.1: a reset moves the baseline.
#[test]
fn counters_are_reset_on_demand() {
    let stage = Stage::new().eventful();
    assert_eq!(stage.run(&["stats", "--reset"]).code, 9);
    let stats = stage.json(&["stats", "--reset", "--yes"]);
    assert_eq!(
        (stats["accepted"].as_i64(), stats["duplicates"].as_i64()),
        (Some(0), Some(0))
    );
    assert!(stats["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(stats["jobs"]["queued"], 2);
}

/// Contract 7.3: what people do is on record, with name and reason.
#[test]
fn acts_are_on_record() {
    let stage = Stage::new().eventful();
    stage.json(&["queues", "pause", "default", "--reason", "night shift"]);
    stage.json(&["keys", "release", "ORD-1", "--reason", "refund", "--yes"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = format!("sqlite:{}", stage.file("semel.db").display());
    let entries = runtime.block_on(async {
        let client = semel::Client::connect_existing(&url).await.unwrap();
        client
            .audit(semel_core::store::Page::first(10))
            .await
            .unwrap()
            .items
    });
    let told: Vec<(&str, &str, Option<&str>)> = entries
        .iter()
        .map(|entry| (entry.actor.as_str(), entry.act.as_str(), entry.reason.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("tester", "release", Some("refund")),
            ("tester", "pause", Some("night shift"))
        ]
    );
}
