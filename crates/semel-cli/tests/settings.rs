//! Flags, then environment, then `semel.toml`; and what the file says about jobs.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use stage::Stage;

/// The value and the source of a setting.
fn setting(run: &stage::Run, name: &str) -> (String, String) {
    let json = run.json();
    let items = json["items"].as_array().unwrap();
    let found = items
        .iter()
        .find(|item| item["name"] == name)
        .unwrap_or_else(|| panic!("{name} in {json}"));
    let text = |member: &str| found[member].as_str().unwrap().to_owned();
    (text("value"), text("source"))
}

#[test]
fn flags_win_over_environment_over_file_over_default() {
    let stage = Stage::new();
    let at = |name: &str| format!("sqlite:{}", stage.file(name).display());
    let show = ["config", "show", "--json"];
    assert_eq!(
        setting(&stage.run(&show), "store"),
        (at("semel.db"), "default".to_owned())
    );
    stage.write("semel.toml", "store = 'sqlite:file.db'");
    let file = stage.file("semel.toml").display().to_string();
    assert_eq!(setting(&stage.run(&show), "store"), (at("file.db"), file));
    let env = [("SEMEL_STORE", "sqlite:env.db")];
    assert_eq!(
        setting(&stage.run_with(&env, &show), "store"),
        (at("env.db"), "SEMEL_STORE".to_owned())
    );
    let flag = ["config", "show", "--json", "--store", "sqlite:flag.db"];
    assert_eq!(
        setting(&stage.run_with(&env, &flag), "store"),
        (at("flag.db"), "--store".to_owned())
    );
    let empty = stage.run_with(&[("SEMEL_STORE", "")], &show);
    assert_eq!(
        setting(&empty, "store").0,
        at("file.db"),
        "an empty variable says nothing"
    );
}

#[test]
fn a_path_in_the_file_is_taken_from_where_the_file_is() {
    let stage = Stage::new();
    std::fs::create_dir(stage.file("etc")).unwrap();
    stage.write("etc/my.toml", "store = 'sqlite:jobs.db'");
    let expected = format!("sqlite:{}", stage.file("etc/jobs.db").display());
    let by_flag = stage.run(&["config", "show", "--json", "--config", "etc/my.toml"]);
    assert_eq!(setting(&by_flag, "store").0, expected);
    let by_variable = stage.run_with(&[("SEMEL_CONFIG", "etc/my.toml")], &["config", "show", "--json"]);
    assert_eq!(setting(&by_variable, "store").0, expected);
    assert_eq!(setting(&by_variable, "config").1, "SEMEL_CONFIG");
}

#[test]
fn profiles_are_chosen_by_name() {
    let stage = Stage::new().wide();
    stage.write(
        "semel.toml",
        "store = 'sqlite:a.db'\n[profiles.test]\nstore = 'sqlite:b.db'\n",
    );
    let run = stage.run(&["config", "show", "--json", "--profile", "test"]);
    assert!(setting(&run, "store").0.ends_with("/b.db"));
    let unknown = stage.run(&["config", "show", "--profile", "prod"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("there are: test"), "{unknown:#?}");
}

#[test]
fn everything_is_shown_with_its_source_and_without_passwords() {
    let stage = Stage::new().wide();
    stage.write(
        "semel.toml",
        r#"
store = "sqlite:jobs.db"
redact = ["/card/number"]
[profiles.prod]
store = "redis://app:geheim@redis:6379/0"
[retention]
complete = "2d"
[queues.reports]
priority = -5
[tasks.charge]
queue = "billing"
timeout = "30s"
dedup = { unique_for = "10m" }
[alerts]
oldest_waiting = "5m"
"#,
    );
    let run = stage.run(&["config", "show"]);
    assert!(!run.out.contains("geheim"));
    // How wide the columns are depends on where the directory is.
    let run = stage::Run {
        out: run
            .out
            .lines()
            .map(|line| {
                line.split("  ")
                    .filter(|part| !part.is_empty())
                    .map(str::trim)
                    .collect::<Vec<_>>()
                    .join("  ")
                    + "\n"
            })
            .collect(),
        ..run
    };
    assert_seen!(stage, run);
}

#[test]
fn a_mistake_in_the_file_is_shown_where_it_is() {
    let stage = Stage::new().wide();
    stage.write(
        "semel.toml",
        "store = 'sqlite:a.db'\n[tasks.charge]\nmax_atempts = 3\n",
    );
    let run = stage.run(&["stats"]);
    assert_eq!(run.code, 2);
    for word in ["semel.toml", "max_atempts", "max_attempts", "line 3"] {
        assert!(run.err.contains(word), "{word} in {run:#?}");
    }
    stage.write("semel.toml", "[retention]\ncomplete = '5 parsecs'\n");
    let run = stage.run(&["stats"]);
    assert!(run.code == 2 && run.err.contains("ms, s, m, h, d, w"), "{run:#?}");
}

#[test]
fn the_file_says_what_submissions_of_a_task_get() {
    let stage = Stage::new();
    stage.write(
        "semel.toml",
        "[queues.billing]\npriority = 7\nmax_attempts = 9\n[tasks.charge]\nqueue = 'billing'\nmax_attempts = 3\ntimeout = '30s'\ndedup = { fields = ['/order'] }\n",
    );
    let first = stage.submit(&["charge", r#"{"order":1,"n":1}"#]);
    let job = stage.job(&first);
    assert_eq!(
        (job["queue"].as_str(), job["priority"].as_i64()),
        (Some("billing"), Some(7))
    );
    assert_eq!(
        (job["max_attempts"].as_i64(), job["timeout_ms"].as_i64()),
        (Some(3), Some(30_000))
    );
    let again = stage.json(&["submit", "charge", r#"{"order":1,"n":2}"#]);
    assert_eq!(again["outcome"], "duplicate");
    let own = stage.json(&[
        "submit",
        "charge",
        r#"{"order":1,"n":2}"#,
        "--unique",
        "--max-attempts",
        "1",
    ]);
    assert_eq!(own["outcome"], "accepted", "a flag wins over the file");
    assert_eq!(stage.job(own["job"]["id"].as_str().unwrap())["max_attempts"], 1);
}

#[test]
fn redacted_values_are_shown_to_nobody() {
    let stage = Stage::new();
    stage.write("semel.toml", "redact = ['/card/number', '/token']\n");
    let id = stage.submit(&[
        "charge",
        r#"{"card":{"number":"4111","name":"Ann"}}"#,
        "--meta",
        r#"{"token":"s3cret"}"#,
        "--key",
        "k",
    ]);
    stage.run(&["submit", "charge", r#"{"card":{"number":"4222"}}"#, "--key", "k"]);
    for args in [
        &["jobs", "show", &id][..],
        &["jobs", "show", &id, "--json"],
        &["jobs", "list", "--json"],
        &["keys", "show", "k", "--json"],
    ] {
        let run = stage.run(args);
        for secret in ["4111", "4222", "s3cret"] {
            assert!(!run.out.contains(secret), "{run:#?}");
        }
    }
    assert_eq!(
        stage.job(&id)["input"],
        serde_json::json!({"card": {"number": "***", "name": "Ann"}})
    );
}

/// Contract 7.6: an absorbed submission is an info line, as JSON where no person watches.
#[test]
fn logs_are_asked_for_and_structured() {
    let stage = Stage::new();
    let quiet = stage.run(&["submit", "a", "1", "--key", "k"]);
    assert_eq!(quiet.err, "");
    let told = stage.run_with(&[("SEMEL_LOG", "info")], &["submit", "a", "1", "--key", "k"]);
    let line: serde_json::Value = told
        .err
        .lines()
        .find_map(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| panic!("{told:#?}"));
    assert_eq!(
        (line["level"].as_str(), line["idempotency_key"].as_str()),
        (Some("info"), Some("k")),
        "{line}"
    );
    let wrong = stage.run_with(&[("SEMEL_LOG", "a=b=c")], &["stats"]);
    assert!(wrong.code == 2 && wrong.err.contains("SEMEL_LOG"), "{wrong:#?}");
}

#[test]
fn namespaces_share_a_file_and_nothing_else() {
    let stage = Stage::new();
    stage.json(&[
        "--store",
        "sqlite:x.db?namespace=a",
        "submit",
        "t",
        "1",
        "--key",
        "k",
    ]);
    let b = stage.json(&[
        "--store",
        "sqlite:x.db?namespace=b",
        "submit",
        "t",
        "2",
        "--key",
        "k",
    ]);
    assert_eq!(b["outcome"], "accepted");
    assert_eq!(
        stage.json(&["--store", "sqlite:x.db?namespace=a", "stats"])["accepted"],
        1
    );
}
