//! `semel work`: real commands, real processes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stage::Stage;

/// Works until nothing is left.
fn drain(stage: &Stage, tasks: &[&str], exec: &str) -> stage::Run {
    let mut args = vec!["work", "--exec", exec, "--drain"];
    tasks.iter().for_each(|task| args.extend(["--task", task]));
    let run = stage.run(&args);
    assert_eq!(run.code, 0, "{run:#?}");
    run
}

/// A worker in the background; it is killed if the test fails.
struct Background(Option<Child>);

impl Background {
    fn start(stage: &Stage, args: &[&str]) -> Self {
        let child = stage
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Background(Some(child))
    }

    fn signal(&self, signal: Signal) {
        let id = self.0.as_ref().unwrap().id();
        kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn input_goes_in_output_comes_out() {
    let stage = Stage::new();
    let same = stage.submit(&["echo", r#"{"b":1,"a":[1,2]}"#]);
    let text = stage.submit(&["text"]);
    let none = stage.submit(&["none"]);
    drain(&stage, &["echo"], "cat");
    drain(&stage, &["text"], "echo plain words");
    drain(&stage, &["none"], "true");
    assert_eq!(stage.job(&same)["output"], json!({"a": [1, 2], "b": 1}));
    assert_eq!(stage.job(&text)["output"], "plain words");
    assert_eq!(stage.job(&none)["output"], Value::Null);
    for id in [same, text, none] {
        assert_eq!(stage.job(&id)["state"], "complete");
    }
}

/// The table of exit codes: 0 complete, 75 retry later, 65 fail now, else error.
#[test]
fn the_exit_code_is_how_the_job_fares() {
    let stage = Stage::new();
    let ids: Vec<String> = ["0", "75", "65", "1", "137"]
        .iter()
        .map(|code| stage.submit(&["t", code]))
        .collect();
    let run = drain(
        &stage,
        &["t"],
        "code=$(cat); echo \"told to $code\" >&2; exit $code",
    );
    let jobs: Vec<Value> = ids.iter().map(|id| stage.job(id)).collect();
    let states: Vec<&str> = jobs.iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(
        states,
        ["complete", "scheduled", "failed", "scheduled", "scheduled"]
    );

    // Contract 1.7: to be put off costs nothing, an error costs an attempt.
    let attempts: Vec<i64> = jobs.iter().map(|job| job["attempt"].as_i64().unwrap()).collect();
    assert_eq!(attempts, [1, 0, 1, 1, 1]);
    assert_eq!(jobs[1]["attempts"][0]["result"], "snoozed");
    assert_eq!(jobs[2]["error"]["message"], "exit code 65: told to 65");
    assert_eq!(jobs[3]["error"]["message"], "exit code 1: told to 1");
    assert_eq!(jobs[3]["attempts"][0]["result"], "error");
    assert!(
        run.out
            .contains("stopped: 1 completed, 2 to be retried, 1 failed, 1 put off"),
        "{run:#?}"
    );
}

#[test]
fn an_error_is_retried_until_the_attempts_are_used_up() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1", "--max-attempts", "2"]);
    let worker = Background::start(&stage, &["work", "--task", "t", "--exec", "exit 3"]);
    stage.until("the job has failed", || stage.job(&id)["state"] == "failed");
    drop(worker);
    let job = stage.job(&id);
    assert_eq!(
        (job["attempt"].as_i64(), job["attempts"].as_array().map(Vec::len)),
        (Some(2), Some(2))
    );
    assert!(job["why"][0].as_str().unwrap().contains("last of its 2 attempts"));
}

#[test]
fn the_environment_says_which_job_it_is() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1", "--key", "ORD 7", "--queue", "q"]);
    let plain = stage.submit(&["t", "2"]);
    let exec = r#"printf '{"id":"%s","attempt":"%s","key":"%s","task":"%s","queue":"%s","origin":"%s","most":"%s"}' "$SEMEL_JOB_ID" "$SEMEL_ATTEMPT" "${SEMEL_KEY-unset}" "$SEMEL_TASK" "$SEMEL_QUEUE" "$SEMEL_ORIGIN" "$SEMEL_MAX_ATTEMPTS""#;
    drain(&stage, &["t"], exec);
    let told = stage.job(&id)["output"].clone();
    let expected = json!({"id": id, "attempt": "1", "key": "ORD 7", "task": "t", "queue": "q", "origin": id, "most": "5"});
    assert_eq!(told, expected);
    assert_eq!(stage.job(&plain)["output"]["key"], "unset");
}

#[test]
fn a_command_can_submit_to_the_same_store() {
    let stage = Stage::new();
    stage.submit(&["parent", "1"]);
    let exec = format!("{} submit child '{{}}' -q", env!("CARGO_BIN_EXE_semel"));
    drain(&stage, &["parent"], &exec);
    let children = stage.json(&["jobs", "list", "--task", "child"]);
    assert_eq!(children["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn lines_on_stderr_are_the_jobs_log() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    drain(&stage, &["t"], "echo one >&2; echo two >&2; echo 5");
    let job = stage.job(&id);
    let lines: Vec<&str> = job["logs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["line"].as_str().unwrap())
        .collect();
    assert_eq!(lines, ["one", "two"]);
    assert_eq!(job["output"], 5);
}

#[test]
fn too_much_output_is_refused_and_does_not_hang() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    drain(&stage, &["t"], "head -c 3000000 /dev/zero | tr '\\0' x");
    let job = stage.job(&id);
    assert_eq!(job["state"], "failed");
    assert!(
        job["error"]["message"]
            .as_str()
            .unwrap()
            .contains("more than 262144 bytes"),
        "{job}"
    );
}

#[test]
fn a_command_that_does_not_exist_is_an_error_of_the_job() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1", "--max-attempts", "1"]);
    drain(&stage, &["t"], "no-such-command-at-all");
    assert!(
        stage.job(&id)["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("exit code 127")
    );
}

/// A daemon left behind keeps the pipe open; the job is done all the same.
#[test]
fn what_a_command_leaves_behind_does_not_keep_the_job() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    let begun = began();
    drain(&stage, &["t"], "echo 7; sleep 30 & exit 0");
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(stage.job(&id)["output"], 7);
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test measures how long it really takes"
)]
fn began() -> Instant {
    Instant::now()
}

/// Contract 4.5: a cancelled job's command is told, with everything it has started.
#[test]
fn cancelling_ends_the_command_and_its_children() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    let exec = "trap 'touch told; exit 0' TERM; sh -c 'echo $$ > child; sleep 60' & echo $$ > parent; wait";
    let worker = Background::start(&stage, &["work", "--task", "t", "--exec", exec]);
    let read = |name: &str| std::fs::read_to_string(stage.file(name)).unwrap_or_default();
    stage.until("the command runs", || {
        !read("child").trim().is_empty() && !read("parent").trim().is_empty()
    });
    assert_eq!(stage.run(&["jobs", "cancel", &id]).code, 0);
    stage.until("the command was told", || stage.file("told").exists());
    let gone = |name: &str| !std::path::Path::new(&format!("/proc/{}", read(name).trim())).exists();
    stage.until("parent and child are gone", || gone("parent") && gone("child"));
    worker.signal(Signal::TERM);
    let (code, out) = worker.end();
    assert_eq!(code, Some(0));
    assert!(out.contains("1 cancelled"), "{out}");
    assert_eq!(stage.job(&id)["state"], "cancelled");
}

#[test]
fn an_attempt_that_takes_too_long_is_ended_with_its_children() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1", "--timeout", "300ms", "--max-attempts", "1"]);
    let exec = "sh -c 'echo $$ > child; sleep 60'; true";
    drain(&stage, &["t"], exec);
    let child = std::fs::read_to_string(stage.file("child")).unwrap();
    let proc = format!("/proc/{}", child.trim());
    stage.until("the child is gone", || !std::path::Path::new(&proc).exists());
    assert_eq!(stage.job(&id)["state"], "failed");
}

/// Contract 4.3: no new claims, what runs may finish, the rest is handed back.
#[test]
fn a_signal_lets_the_running_job_finish() {
    let stage = Stage::new();
    let running = stage.submit(&["t", "1"]);
    let waiting = stage.submit(&["t", "2"]);
    let exec = "touch begun; while [ ! -e go ]; do sleep 0.05; done; cat";
    let worker = Background::start(
        &stage,
        &["work", "--task", "t", "--exec", exec, "--concurrency", "1"],
    );
    stage.until("the first runs", || stage.file("begun").exists());
    worker.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    stage.write("go", "");
    let (code, out) = worker.end();
    assert_eq!(code, Some(0), "{out}");
    assert_eq!(stage.job(&running)["state"], "complete");
    assert_eq!(stage.job(&waiting)["state"], "queued");
    assert_eq!(stage.job(&waiting)["attempt"], 0);
}

/// Contract 1.1: a worker that is killed loses its lease, and the job is delivered again.
#[test]
fn a_killed_workers_job_is_delivered_again() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    let exec = "touch begun; sleep 2; echo late";
    let args = ["work", "--task", "t", "--exec", exec, "--lease", "1s"];
    let worker = Background::start(&stage, &args);
    stage.until("it runs", || stage.file("begun").exists());
    worker.signal(Signal::KILL);
    drop(worker);
    let second = Background::start(
        &stage,
        &["work", "--task", "t", "--exec", "echo again", "--lease", "1s"],
    );
    stage.until("it is complete", || stage.job(&id)["state"] == "complete");
    drop(second);
    let job = stage.job(&id);
    assert_eq!(job["output"], "again");
    assert_eq!(job["deliveries"], 1);
    assert_eq!(job["attempts"][0]["result"], "expired");
}

#[test]
fn a_worker_is_listed_and_nobody_says_that_there_is_none() {
    let stage = Stage::new();
    stage.submit(&["seen", "1", "--delay", "1h"]);
    let worker = Background::start(
        &stage,
        &[
            "work", "--task", "seen", "--exec", "cat", "--name", "night", "--queue", "default",
        ],
    );
    stage.until("it is listed", || {
        !stage.json(&["workers", "list"])["items"]
            .as_array()
            .unwrap()
            .is_empty()
    });
    let listed = stage.json(&["workers", "list"])["items"][0].clone();
    assert_eq!(
        (listed["name"].as_str(), &listed["tasks"], &listed["queues"]),
        (Some("night"), &json!(["seen"]), &json!(["default"]))
    );
    assert!(listed["heartbeat_at"].as_str().unwrap().ends_with('Z'));
    let page = stage.run(&["workers", "list"]).out;
    assert!(page.contains("night pid "), "{page}");

    let served = stage.run(&["submit", "seen", "1", "--delay", "1h"]);
    assert!(!served.out.contains("no live worker"), "{served:#?}");
    let elsewhere = stage.run(&["submit", "seen", "1", "--queue", "other"]);
    assert!(
        elsewhere.out.contains("in the queue it waits in"),
        "{elsewhere:#?}"
    );
    worker.signal(Signal::INT);
    assert_eq!(worker.end().0, Some(0));
    assert!(
        stage.json(&["workers", "list"])["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_task_nobody_has_heard_of_is_said_so() {
    let stage = Stage::new();
    stage.submit(&["charge", "1", "--delay", "1h"]);
    let run = stage.run(&["work", "--task", "chrage", "--exec", "true", "--drain"]);
    assert_seen!(stage, run);
}

#[test]
fn machines_get_a_line_per_attempt_and_a_sum() {
    let stage = Stage::new();
    let id = stage.submit(&["t", "1"]);
    let run = stage.run(&["work", "--task", "t", "--exec", "exit 65", "--drain", "--json"]);
    let lines: Vec<Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (
            lines[0]["event"].as_str(),
            lines[0]["job"].as_str(),
            lines[0]["exit"].as_i64()
        ),
        (Some("attempt"), Some(&*id), Some(65))
    );
    assert_eq!(
        (lines[1]["event"].as_str(), lines[1]["failed"].as_i64()),
        (Some("stopped"), Some(1))
    );
    assert_eq!(lines.len(), 2);
}

#[test]
fn waiting_gives_the_output_or_says_why_not() {
    let stage = Stage::new().wide();
    let slow = stage.submit(&["t", "1"]);
    let early = stage.run(&["jobs", "wait", &slow, "--timeout", "100ms"]);
    assert_eq!(early.code, 8, "{early:#?}");
    let worker = Background::start(
        &stage,
        &[
            "work",
            "--task",
            "t",
            "--exec",
            "n=$(cat); [ $n = 13 ] && { echo unlucky >&2; exit 65; }; echo $((n * 2))",
        ],
    );
    let done = stage.run(&["jobs", "wait", &slow]);
    assert_eq!((done.code, done.out.as_str()), (0, "2\n"), "{done:#?}");
    let joined = stage.run(&["submit", "t", "21", "--wait=20s", "--json"]);
    assert_eq!(
        (joined.code, joined.json()["output"].as_i64()),
        (0, Some(42)),
        "{joined:#?}"
    );
    let failed = stage.run(&["submit", "t", "13", "--wait"]);
    assert_eq!(failed.code, 7, "{failed:#?}");
    assert!(failed.err.contains("unlucky"), "{failed:#?}");
    // Contract 3.3: a duplicate of a finished job gets its stored output.
    for _ in 0..2 {
        let keyed = stage.run(&["submit", "t", "4", "--key", "four", "--wait"]);
        assert_eq!((keyed.code, keyed.out.as_str()), (0, "8\n"), "{keyed:#?}");
    }
    drop(worker);
}
