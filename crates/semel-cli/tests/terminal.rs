//! On a terminal: colour, and a question before what cannot be taken back.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use std::io::Write;
use std::process::{Command, Stdio};

use stage::Stage;

/// Runs the binary on a terminal of its own, types something, and gives everything that was shown.
fn on_terminal(stage: &Stage, args: &[&str], typed: &str, env: &[(&str, &str)]) -> (i32, String) {
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let line = format!("'{}' {}", env!("CARGO_BIN_EXE_semel"), quoted.join(" "));
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(stage.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TERM", "xterm-256color")
        .env("COLUMNS", "80")
        .env("USER", "tester")
        .envs(env.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

const ESCAPE: &str = "\u{1b}[";

#[test]
fn colour_is_for_terminals_and_can_be_declined() {
    let stage = Stage::new().eventful();
    let args = ["jobs", "list"];
    assert!(on_terminal(&stage, &args, "", &[]).1.contains(ESCAPE));
    assert!(
        !on_terminal(&stage, &args, "", &[("NO_COLOR", "1")])
            .1
            .contains(ESCAPE)
    );
    assert!(
        !on_terminal(&stage, &["jobs", "list", "--color", "never"], "", &[])
            .1
            .contains(ESCAPE)
    );
    assert!(!stage.run(&args).out.contains(ESCAPE), "a pipe gets none");
    assert!(
        stage
            .run(&["jobs", "list", "--color", "always"])
            .out
            .contains(ESCAPE)
    );
    assert!(
        !stage
            .run(&["jobs", "list", "--json", "--color", "always"])
            .out
            .contains(ESCAPE)
    );
}

#[test]
fn a_terminal_is_asked_before_a_plan_is_carried_out() {
    let stage = Stage::new().eventful();
    let failed = |stage: &Stage| {
        stage.json(&["dead-letters", "list"])["items"]
            .as_array()
            .unwrap()
            .len()
    };
    let args = ["dead-letters", "delete", "--all"];
    let (code, shown) = on_terminal(&stage, &args, "n\n", &[]);
    assert_eq!(code, 9, "{shown}");
    assert!(
        shown.contains("plan:") && shown.contains("Carry this plan out? [y/N]"),
        "{shown}"
    );
    assert_eq!(failed(&stage), 1);
    let (code, shown) = on_terminal(&stage, &args, "y\n", &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("deleted") && shown.contains("1 of 1"), "{shown}");
    assert_eq!(failed(&stage), 0);
}

#[test]
fn a_terminal_is_asked_before_a_queue_is_removed() {
    let stage = Stage::new().eventful();
    let (code, shown) = on_terminal(&stage, &["queues", "delete", "mail"], "\n", &[]);
    assert_eq!(code, 9, "{shown}");
    assert!(shown.contains("This removes queue mail with 2 jobs"), "{shown}");
    let (code, _) = on_terminal(&stage, &["queues", "delete", "mail"], "yes\n", &[]);
    assert_eq!(code, 0);
    assert_eq!(
        stage.json(&["jobs", "list", "--queue", "mail"])["items"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let stage = Stage::new().eventful();
    let line = format!(
        "'{}' jobs list | head -n 1; echo \"${{PIPESTATUS[0]}}\"",
        env!("CARGO_BIN_EXE_semel")
    );
    let output = Command::new("bash")
        .args(["-c", &line])
        .current_dir(stage.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("store sqlite:") && text.trim_end().ends_with('0'),
        "{text}"
    );
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
