//! Bad input: a sentence, a hint, the documented exit code, and nothing written (contract 8.1).

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use stage::Stage;

/// The command line, the exit code, and words that the answer has to contain.
type Case = (&'static [&'static str], i32, &'static [&'static str]);

const CASES: &[Case] = &[
    (&["frobnicate"], 2, &["frobnicate", "--help"]),
    (&["submti"], 2, &["submti", "submit"]),
    (&["jobs", "lsit"], 2, &["lsit", "list"]),
    (
        &["--store", "mongo:jobs", "stats"],
        2,
        &["mongo", "sqlite:FILE", "hint:"],
    ),
    (
        &["--store", "redis://me:geheim@host/0", "stats"],
        2,
        &["redis", "hint:"],
    ),
    (
        &["--store", "jobs.db", "stats"],
        2,
        &["did you mean sqlite:jobs.db?"],
    ),
    (&["--store", "sqlite:", "stats"], 2, &["file", "hint:"]),
    (
        &["--store", "sqlite:nope.db", "stats"],
        6,
        &["there is no store", "hint:"],
    ),
    (
        &["--store", "sqlite:x.db?colour=red", "submit", "t"],
        2,
        &["colour", "namespace"],
    ),
    (
        &["--store", "sqlite:no/such/dir/x.db", "submit", "t"],
        6,
        &["hint:"],
    ),
    (&["--config", "nope.toml", "stats"], 2, &["nope.toml", "hint:"]),
    (&["--profile", "prod", "stats"], 2, &["profile \"prod\"", "hint:"]),
    (&["submit", "t", "@nope.json"], 2, &["nope.json", "hint:"]),
    (&["submit", "t", "{a:1}"], 2, &["not JSON", "byte 1", "hint:"]),
    (&["submit", "t", "hello"], 2, &["not JSON", "hint:"]),
    (&["submit", "t", "{\"a\":1,\"a\":2}"], 2, &["not JSON"]),
    (&["submit", "t", "1", "--meta", "[]"], 2, &["meta", "object"]),
    (&["submit", "", "1"], 2, &["name", "1 to 128 bytes"]),
    (
        &["submit", "t", "1", "--unique-for", "10q"],
        2,
        &["10q", "ms, s, m, h, d, w", "hint:"],
    ),
    (&["submit", "t", "1", "--delay", "soon"], 2, &["soon", "hint:"]),
    (
        &["submit", "t", "1", "--run-at", "tomorrow"],
        2,
        &["tomorrow", "RFC 3339", "hint:"],
    ),
    (
        &[
            "submit",
            "t",
            "1",
            "--run-at",
            "2026-01-01T00:00:00Z",
            "--delay",
            "1s",
        ],
        2,
        &["--delay", "--run-at"],
    ),
    (&["submit", "t", "1", "--priority", "101"], 2, &["-100 to 100"]),
    (&["submit", "t", "1", "--max-attempts", "0"], 2, &["1 to 1000"]),
    (
        &["submit", "t", "1", "--key", "  "],
        2,
        &["idempotency key", "1 to 255 bytes"],
    ),
    (
        &["submit", "t", "1", "--key", "a", "--unique"],
        2,
        &["two policies"],
    ),
    (
        &["submit", "t", "1", "--unique", "--latest"],
        2,
        &["two policies"],
    ),
    (&["submit", "t", "1", "--ttl", "1h"], 2, &["key", "hint:"]),
    (&["submit", "t", "1", "--fields", "day"], 2, &["pointer"]),
    (&["submit", "t", "{\"a\":1}", "--fields", "/b"], 2, &["/b"]),
    (
        &["submit", "t", "1", "--unique", "--hold", "forever", "--ttl", "1h"],
        2,
        &["forever"],
    ),
    (
        &["submit", "t", "1", "--hold", "while_running", "--unique"],
        2,
        &["while_running", "until_finished"],
    ),
    (
        &["submit", "t", "1", "--once-per", "day", "--zone", "Mars/Olympus"],
        2,
        &["Mars/Olympus", "hint:"],
    ),
    (
        &["submit", "t", "1", "--scope", "galaxy", "--key", "k"],
        2,
        &["galaxy", "custom:NAME"],
    ),
    (&["submit", "t", "1", "--token", "7"], 2, &["UUID"]),
    (&["submit", "t", "1", "--header", "novalue"], 2, &["NAME=VALUE"]),
    (&["work", "--exec", "true"], 2, &["--task"]),
    (&["work", "--task", "t"], 2, &["--exec"]),
    (
        &["work", "--task", "t", "--exec", "true", "--lease", "1ms"],
        2,
        &["1 second to 1 hour"],
    ),
    (
        &["work", "--task", "t", "--exec", "true", "--concurrency", "0"],
        2,
        &["concurrency"],
    ),
];

/// These need a store, and leave it as it is.
const WITH_STORE: &[Case] = &[
    (&["jobs", "show", "nope"], 5, &["there is no job nope", "hint:"]),
    (&["jobs", "wait", "nope"], 5, &["there is no job nope"]),
    (&["jobs", "cancel", "nope"], 5, &["there is no job nope"]),
    (
        &["jobs", "retry", "nope", "nope2"],
        5,
        &["no job nope", "no job nope2"],
    ),
    (&["jobs", "cancel"], 2, &["nothing to cancel", "hint:"]),
    (&["jobs", "cancel", "x", "--task", "t"], 2, &["ids and a filter"]),
    (&["jobs", "cancel", "--plan", "nope"], 5, &["nope"]),
    (&["jobs", "list", "--state", "asleep"], 2, &["asleep", "queued"]),
    (&["jobs", "list", "--cursor", "x.1"], 2, &["cursor"]),
    (&["jobs", "list", "--limit", "0"], 2, &["limit"]),
    (
        &["jobs", "list", "--since", "yesterday"],
        2,
        &["yesterday", "hint:"],
    ),
    (
        &["keys", "show", "nope"],
        5,
        &["there is no key \"nope\"", "hint:"],
    ),
    (
        &["keys", "release", "nope", "--reason", "r"],
        5,
        &["there is no key"],
    ),
    (&["keys", "release", "nope"], 2, &["reason"]),
    (&["dead-letters", "replay", "nope"], 5, &["there is no job nope"]),
    (&["dead-letters", "replay"], 2, &["nothing to replay"]),
    (
        &["queues", "delete", "nope", "--yes"],
        5,
        &["there is no queue nope", "hint:"],
    ),
    (&["queues", "pause"], 2, &["--all"]),
    (
        &["queues", "pause", "q", "--for", "5 parsecs"],
        2,
        &["5 parsecs", "hint:"],
    ),
    (&["schedules", "delete", "nope"], 5, &["there is no schedule"]),
    (
        &["schedules", "set", "s", "--task", "t", "--cron", "0 0 30 2 *"],
        2,
        &["comes to pass", "hint:"],
    ),
    (
        &["schedules", "set", "s", "--task", "t", "--cron", "61 * * * *"],
        2,
        &["cron", "hint:"],
    ),
    (
        &[
            "schedules",
            "set",
            "s",
            "--task",
            "t",
            "--cron",
            "@daily",
            "--zone",
            "Europe/Berlni",
        ],
        2,
        &["Europe/Berlni", "hint:"],
    ),
    (
        &["events", "send", "nobody.listens", "1"],
        5,
        &["nobody is subscribed", "hint:"],
    ),
    (
        &["events", "subscribe", "e", "t", "--off"],
        5,
        &["not subscribed"],
    ),
];

fn check(stage: &Stage, (args, code, words): &Case) {
    let run = stage.run(args);
    assert_eq!(run.code, *code, "{run:#?}");
    assert_eq!(run.out, "", "an error leaves the standard output alone: {run:#?}");
    assert!(run.err.starts_with("error: "), "{run:#?}");
    assert!(
        !run.err.contains("geheim") && !run.err.contains("panicked"),
        "{run:#?}"
    );
    for word in *words {
        assert!(run.err.contains(word), "{word:?} is missing: {run:#?}");
    }
}

#[test]
fn bad_input_is_refused_and_no_store_is_made() {
    let stage = Stage::new().wide();
    for case in CASES {
        check(&stage, case);
    }
    let left: Vec<_> = std::fs::read_dir(stage.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    // What was wrong only with the submission itself is found after the store was opened.
    assert!(
        left.iter()
            .all(|name| name.to_string_lossy().starts_with("semel.db")),
        "{left:?}"
    );
}

#[test]
fn what_is_not_there_and_what_makes_no_sense_is_said() {
    let stage = Stage::new().wide().eventful();
    let before = stage.json(&["stats"]);
    for case in WITH_STORE {
        check(&stage, case);
    }
    let after = stage.json(&["stats"]);
    assert_eq!(before["jobs"], after["jobs"]);
    assert_eq!(before["accepted"], after["accepted"]);
}

#[test]
fn how_a_few_of_them_look() {
    let stage = Stage::new().wide();
    let mut seen = String::new();
    for args in [
        &["--store", "mongo:jobs", "stats"][..],
        &["stats"],
        &["submit", "t", "{a:1}"],
        &["submit", "t", "1", "--unique-for", "10q"],
        &["submit", "t", "1", "--ttl", "1h"],
        &["jobs", "lsit"],
    ] {
        seen.push_str(&stage.run(args).seen());
        seen.push('\n');
    }
    let run = stage::Run {
        line: "…".to_owned(),
        code: 0,
        out: seen,
        err: String::new(),
    };
    assert_seen!(stage, run);
}

#[test]
fn machines_get_a_problem_with_a_stable_code() {
    let stage = Stage::new().wide().eventful();
    let run = stage.run(&["jobs", "show", "nope", "--json"]);
    let problem: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!((run.code, run.out.as_str()), (5, ""));
    assert_eq!(problem["code"], "not_found");
    assert_eq!(problem["exit"], 5);
    assert!(problem["hint"].as_str().unwrap().contains("semel jobs list"));

    let run = stage.run(&["--store", "sqlite:gone.db", "stats", "--json"]);
    let problem: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(
        (run.code, problem["code"].as_str()),
        (6, Some("store_unavailable"))
    );
}

/// A file of another program is refused, and left as it is.
#[test]
fn a_file_that_is_no_store_is_left_alone() {
    let stage = Stage::new().wide();
    stage.write(
        "notes.txt",
        "remember the milk, and that this is no database at all\n"
            .repeat(40)
            .as_str(),
    );
    for args in [
        &["--store", "sqlite:notes.txt", "stats"][..],
        &["--store", "sqlite:notes.txt", "submit", "t"],
    ] {
        let run = stage.run(args);
        assert_eq!(run.code, 6, "{run:#?}");
        assert!(run.err.contains("hint:"), "{run:#?}");
    }
    assert!(
        std::fs::read_to_string(stage.file("notes.txt"))
            .unwrap()
            .starts_with("remember the milk")
    );
}
