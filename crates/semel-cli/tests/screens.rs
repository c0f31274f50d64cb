//! Every screen as a person sees it, at 80 columns, over a store with a past.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use stage::Stage;

/// Ids in the order of submission: tokens are made in order, so ids are known.
const CHARGE: &str = "01a3185c-5000-7101-8101-010101010101";

macro_rules! screen {
    ($name:ident, $($arg:expr),+) => {
        #[test]
        fn $name() {
            let stage = Stage::new().eventful();
            let run = stage.run(&[$($arg),+]);
            assert_seen!(stage, run);
        }
    };
}

screen!(stats_fit_on_one_screen, "stats");
screen!(jobs_are_listed_newest_first, "jobs", "list");
screen!(jobs_are_listed_by_state, "jobs", "list", "--state", "failed");
screen!(a_list_goes_on_where_it_ended, "jobs", "list", "--limit", "2");
screen!(nothing_is_like_that, "jobs", "list", "--error", "no such error");
screen!(a_failed_job_says_why_and_whom_it_blocked, "jobs", "show", CHARGE);
screen!(keys_are_listed_with_their_holders, "keys", "list");
screen!(
    a_key_says_who_was_blocked_and_what_differed,
    "keys",
    "show",
    "ORD-1"
);
screen!(queues_are_listed_with_their_settings, "queues", "list");
screen!(tasks_are_listed_with_their_workers, "tasks", "list");
screen!(
    dead_letters_are_grouped_by_what_they_died_of,
    "dead-letters",
    "list"
);
screen!(no_worker_is_said_so, "workers", "list");
screen!(no_schedules, "schedules", "list");
screen!(no_subscriptions, "events", "list");
screen!(guarantees_are_probed, "guarantees");
screen!(a_sound_store_is_in_order, "doctor");
screen!(
    a_duplicate_is_explained,
    "explain",
    "charge_customer",
    r#"{"order":"ORD-1","amount":4200}"#,
    "--key",
    "ORD-1"
);
screen!(
    a_conflict_is_explained,
    "submit",
    "charge_customer",
    r#"{"order":"ORD-1"}"#,
    "--key",
    "ORD-1",
    "--dry-run=explain"
);
screen!(
    a_dry_run_is_one_sentence,
    "submit",
    "charge_customer",
    "1",
    "--key",
    "ORD-2",
    "--dry-run"
);
screen!(
    a_bulk_act_shows_its_plan_and_does_nothing,
    "dead-letters",
    "replay",
    "--all"
);

/// The newest job of a task, shown.
fn show(task: &str, state: &str) -> (Stage, stage::Run) {
    let stage = Stage::new().eventful();
    let found = stage.json(&["jobs", "list", "--task", task, "--state", state]);
    let id = found["items"][0]["id"].as_str().unwrap().to_owned();
    let run = stage.run(&["jobs", "show", &id]);
    (stage, run)
}

macro_rules! shown {
    ($name:ident, $task:expr, $state:expr) => {
        #[test]
        fn $name() {
            let (stage, run) = show($task, $state);
            assert_seen!(stage, run);
        }
    };
}

shown!(a_job_in_a_paused_queue_says_so, "send_mail", "queued");
shown!(a_job_nobody_serves_says_so, "sync_user", "queued");
shown!(
    a_running_job_says_who_has_it_and_how_far_it_is,
    "render",
    "running"
);
shown!(a_deferred_job_says_whom_it_waits_for, "render", "deferred");
shown!(a_parked_job_shows_the_step_in_doubt, "refund", "parked");
shown!(a_scheduled_job_says_when, "report", "scheduled");
shown!(a_complete_job_shows_its_output, "send_mail", "complete");
shown!(a_cancelled_job_says_so, "sync_user", "cancelled");

#[test]
fn a_wide_screen_shows_queue_and_key_as_well() {
    let stage = Stage::new().eventful();
    let run = stage.run_with(&[("COLUMNS", "140")], &["jobs", "list"]);
    assert_seen!(stage, run);
}

/// Contract 8: what a producer or a handler wrote does not steer the terminal.
#[test]
fn hostile_text_is_tamed() {
    let stage = Stage::new();
    let evil = "boom \u{1b}[2J\u{1b}]0;owned\u{7} \u{202e}gnp.exe\r\nsecond line";
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut seeds = stage.seeds();
        let mut job = seeds.submission("evil", "{\"a\":\"\u{9b}31m\"}", "shop");
        job.max_attempts = 1;
        seeds.submit(job).await;
        let claimed = seeds.claim("evil", "w").await;
        let error = evil.to_owned();
        seeds
            .settle(claimed, semel_core::lifecycle::Settle::Fail { error })
            .await;
    });
    let id = stage.json(&["jobs", "list"])["items"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for args in [
        &["jobs", "show", &id][..],
        &["dead-letters", "list"],
        &["jobs", "list"],
    ] {
        let run = stage.run(args);
        let hostile = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!run.out.chars().any(hostile), "{run:#?}");
    }
}

/// At 80 columns no line is longer, but for what has to be copied whole.
#[test]
fn no_screen_is_wider_than_its_terminal() {
    let stage = Stage::new().eventful();
    let screens: [&[&str]; 9] = [
        &["stats"],
        &["jobs", "list"],
        &["jobs", "show", CHARGE],
        &["keys", "list"],
        &["keys", "show", "ORD-1"],
        &["queues", "list"],
        &["tasks", "list"],
        &["dead-letters", "list"],
        &["guarantees"],
    ];
    for args in screens {
        let run = stage.run(args);
        // The first line names the store, however deep its directory is.
        for line in run.out.lines().skip(1) {
            assert!(line.chars().count() <= 80, "{}: {line}", run.line);
        }
    }
}
