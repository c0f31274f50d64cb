//! Clients that other people make from the OpenAPI document: one that tries everything, and one that is generated.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../http/described.rs"]
#[allow(dead_code, reason = "shared with the tests of the HTTP API")]
mod described;
#[path = "../http/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of the HTTP API")]
mod stage;

use std::path::{Path, PathBuf};
use std::process::Output;

use semel_server::role::Role;
use serde_json::json;
use tokio::process::Command;

use crate::stage::Stage;

/// A program of the environment that `cargo xtask test` makes.
fn program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("../python/bin")
        .join(name);
    assert!(
        program.is_file(),
        "there is no {}\nhint: cargo xtask test installs it",
        program.display()
    );
    program
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(name)
}

#[track_caller]
fn good(what: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{what}:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// How everything is tried.
struct Trial<'a> {
    checks: &'a str,
    phases: &'a str,
    /// Routes that are left alone.
    but: &'a str,
    token: Option<&'a str>,
}

/// Tries every route with values that are allowed, and with others. The seed is fixed: a failure comes again.
async fn try_everything(stage: &Stage, trial: Trial<'_>) -> Output {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("schemathesis"));
    command.args(["run", &format!("{}/openapi.json", stage.url)]);
    let seed = ["--seed", "7", "--workers", "1", "--max-examples", "4"];
    let bounds = ["--no-shrink", "--continue-on-failure", "--request-timeout", "20"];
    let quiet = [
        "--suppress-health-check",
        "all",
        "--warnings",
        "off",
        "--no-color",
    ];
    command
        .args(["--checks", trial.checks, "--phases", trial.phases])
        .args(["--exclude-path-regex", trial.but])
        .args(seed)
        .args(bounds)
        .args(quiet)
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", here(""))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // Its database of examples belongs to this run alone.
        .current_dir(scratch.path());
    if let Some(token) = trial.token {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    command.output().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nothing_that_is_sent_makes_the_server_fail() {
    let stage = Stage::new().await;
    stage
        .dead_letter("t", json!({"input": 1, "idempotency_key": "K"}))
        .await;
    let trial = Trial {
        checks: "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        phases: "coverage,fuzzing",
        // The stream never ends, and a token that is made closes the door.
        but: "^/v1/(stream|tokens)",
        token: None,
    };
    let tried = try_everything(&stage, trial).await;
    good("schemathesis without tokens", &tried);
    stage.get("/healthz").await.is(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nobody_comes_in_without_a_token() {
    let stage = Stage::new().await;
    let reader = stage.token("reader", &[Role::Read], &[]).await;
    let trial = Trial {
        checks: "nobody_comes_in,not_a_server_error",
        phases: "fuzzing",
        but: "^/v1/stream$",
        token: None,
    };
    good(
        "schemathesis without the token",
        &try_everything(&stage, trial).await,
    );
    let trial = Trial {
        checks: "only_reads,not_a_server_error,response_schema_conformance",
        phases: "fuzzing",
        but: "^/v1/stream$",
        token: Some(&reader),
    };
    good(
        "schemathesis with a token that may read",
        &try_everything(&stage, trial).await,
    );
    // The checks see what they are meant to see: an open server lets everybody in.
    let open = Stage::new().await;
    let trial = Trial {
        checks: "nobody_comes_in",
        phases: "fuzzing",
        but: "^/(?!v1/stats$)",
        token: None,
    };
    assert!(!try_everything(&open, trial).await.status.success());
    let jobs = stage
        .request("GET", "/v1/jobs")
        .bearer_auth(&reader)
        .send()
        .await
        .unwrap();
    assert_eq!(
        stage::read(jobs).await.json["items"],
        json!([]),
        "nothing was submitted"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_generated_client_works() {
    let stage = Stage::new().await;
    let token = stage.token("generated", &[Role::Admin], &[]).await;
    let scratch = tempfile::tempdir().unwrap();
    let document = scratch.path().join("openapi.json");
    std::fs::write(&document, stage::document().to_string()).unwrap();
    let generated = Command::new(program("openapi-python-client"))
        .args(["generate", "--fail-on-warning", "--meta", "none", "--path"])
        .arg(&document)
        .args(["--output-path", "semel_client"])
        // It looks for its formatter beside itself.
        .env("PATH", program("python").parent().unwrap())
        .current_dir(scratch.path())
        .output()
        .await
        .unwrap();
    good("generating the client", &generated);
    let python = program("python");
    let compiled = Command::new(&python)
        .args(["-m", "compileall", "-q", "semel_client"])
        .current_dir(scratch.path())
        .output();
    good("compiling the client", &compiled.await.unwrap());
    let smoke = Command::new(&python)
        .arg(here("smoke.py"))
        .args([&stage.url, &token])
        .env("PYTHONPATH", scratch.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output();
    good("using the client", &smoke.await.unwrap());
    let stats = stage.client.store().stats().await.unwrap();
    assert_eq!(stats.totals.get(semel_core::counters::Counter::Completed), 1);
}
