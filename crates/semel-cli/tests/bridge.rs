//! `semel bridge resque` as a process: between a real Redis and a file, killed on the way.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../../semel-redis/tests/server/mod.rs"]
mod server;
mod stage;

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::Duration;

use server::Server;
use stage::Stage;

const PAYLOADS: usize = 2_000;
const KILLS: usize = 12;

fn payload(n: usize) -> String {
    format!(r#"{{"class":"Mail::Send","args":[{n}]}}"#)
}

fn start(stage: &Stage, args: &[&str]) -> Child {
    let mut command = stage.command(args);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The numbers in the arguments of whatever is in a list.
fn numbers(server: &Server, list: &str) -> Vec<usize> {
    let length: usize = server.command(&["LLEN", list])[1..].trim().parse().unwrap();
    let number = |at: usize| {
        let payload = server.command(&["LINDEX", list, &at.to_string()]);
        let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
        usize::try_from(payload["args"][0].as_u64().unwrap()).unwrap()
    };
    (0..length).map(number).collect()
}

#[test]
fn a_queue_crosses_in_and_out_again_whole_although_the_bridge_is_killed() {
    let server = Server::start();
    let stage = Stage::new();
    for first in (0..PAYLOADS).step_by(500) {
        let payloads: Vec<String> = (first..first + 500).map(payload).collect();
        let mut push = vec!["RPUSH", "resque:queue:mail"];
        push.extend(payloads.iter().map(String::as_str));
        server.command(&push);
    }
    let url = server.url();
    let inward = ["bridge", "resque", "--redis", &url, "--in", "mail"];
    for kill in 0..KILLS {
        let mut bridge = start(&stage, &inward);
        std::thread::sleep(Duration::from_millis(15 + 9 * kill as u64));
        bridge.kill().unwrap();
        bridge.wait().unwrap();
    }
    let rest = [&inward[..], &["--drain"]].concat();
    let ended = stage.run(&rest);
    assert_eq!(ended.code, 0, "{ended:#?}");
    let stats = stage.json(&["stats"]);
    assert_eq!(stats["accepted"], PAYLOADS, "each payload is one job");
    assert_eq!(
        server
            .command(&["EXISTS", "resque:queue:mail", "resque:semel:under_way:mail"])
            .trim(),
        ":0"
    );

    // The same way back, to another server: each job is one payload.
    let other = Server::start();
    let url = other.url();
    let outward = ["bridge", "resque", "--redis", &url, "--out", "mail"];
    for kill in 0..KILLS {
        let mut bridge = start(&stage, &outward);
        std::thread::sleep(Duration::from_millis(15 + 9 * kill as u64));
        bridge.kill().unwrap();
        bridge.wait().unwrap();
    }
    let drained = stage.run(&[&outward[..], &["--drain"]].concat());
    assert_eq!(drained.code, 0, "{drained:#?}");
    // What a killed bridge had in hand is leased to it for a minute more; it may or may not have been pushed.
    let stats = stage.json(&["stats"]);
    let (complete, running) = (
        stats["completed"].as_u64().unwrap(),
        stats["jobs"]["running"].as_u64().unwrap_or(0),
    );
    assert_eq!(complete + running, PAYLOADS as u64, "{stats}");
    let moved = numbers(&other, "resque:queue:mail");
    let once: BTreeSet<usize> = moved.iter().copied().collect();
    assert_eq!(once.len(), moved.len(), "nothing was pushed twice");
    assert!(once.len() as u64 >= complete, "what is complete was pushed");
    assert!(complete > 0, "the bridge got to work between the kills");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let server = Server::start();
    let stage = Stage::new();
    let url = server.url();
    let both = stage.run(&[
        "bridge", "resque", "--redis", &url, "--in", "a", "--out", "a", "--drain",
    ]);
    assert_eq!(both.code, 2, "{both:#?}");
    assert!(both.err.contains("circles"), "{both:#?}");
    let none = stage.run(&["bridge", "resque", "--redis", &url]);
    assert_eq!(none.code, 2, "{none:#?}");
    let nobody = stage.run(&[
        "bridge",
        "resque",
        "--redis",
        "redis://127.0.0.1:1/0",
        "--in",
        "a",
        "--drain",
    ]);
    assert_eq!(nobody.code, 6, "{nobody:#?}");
}
