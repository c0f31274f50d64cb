//! The bridge between a real Redis with node-resque on one side and a store on the other.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../../semel-redis/tests/server/mod.rs"]
mod server;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use semel::ids::fresh_token;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Page, Settlement, Store, Submitted};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_resque::{Bridge, Crossed, Resque, START_AT};
use server::Server;

use semel::Name;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn bridge(server: &Server, store: &Arc<dyn Store>) -> Bridge {
    Bridge::new(Resque::new(&server.url(), "resque").unwrap(), store.clone())
}

async fn store() -> Arc<dyn Store> {
    semel::connect("memory:").await.unwrap().store().clone()
}

/// What the server answers to a command.
fn ask<T: redis::FromRedisValue>(server: &Server, words: &[&str]) -> T {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    ask_bytes(server, &words)
}

fn ask_bytes<T: redis::FromRedisValue>(server: &Server, words: &[&[u8]]) -> T {
    let mut wire = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query(&mut wire).unwrap()
}

/// node-resque, installed by `cargo xtask test`.
fn node(server: &Server, arguments: &[&str]) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules: PathBuf = here.join("../../target/node/node_modules");
    assert!(
        modules.join("node-resque").is_dir(),
        "node-resque is missing; `cargo xtask test` installs it"
    );
    let (what, rest) = arguments.split_first().unwrap();
    let output = Command::new("node")
        .arg(here.join("tests/node/resque.js"))
        .arg(what)
        .arg(server.port().to_string())
        .args(rest)
        .env("NODE_PATH", modules)
        .output()
        .expect("node starts; `cargo xtask test` installs it");
    assert!(
        output.status.success(),
        "node: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

async fn claim_all(store: &Arc<dyn Store>, queue: &str) -> Vec<semel_core::store::Claimed> {
    let mut all = Vec::new();
    loop {
        let request = ClaimRequest {
            token: fresh_token(),
            worker: name("w"),
            queues: vec![name(queue)],
            tasks: Vec::new(),
            max: 1_000,
            lease: Millis::new(60_000),
        };
        let claimed = store.claim(request).await.unwrap();
        if claimed.is_empty() {
            return all;
        }
        let settlement = |claimed: &semel_core::store::Claimed| Settlement {
            id: claimed.job.id.clone(),
            fence: claimed.fence,
            result: Settle::Complete { output: None },
        };
        store
            .settle(claimed.iter().map(settlement).collect())
            .await
            .unwrap();
        all.extend(claimed);
    }
}

async fn submit(store: &Arc<dyn Store>, queue: &str, input: String) {
    let mut submission = Submission::new(fresh_token(), name("Mail::Send"), Json::new(input).unwrap());
    submission.queue = name(queue);
    let answers = store.submit(vec![submission]).await.unwrap();
    assert!(matches!(answers[..], [Submitted::Job(_)]));
}

#[tokio::test]
async fn what_node_resque_pushes_becomes_jobs_each_once() {
    let (server, store) = (Server::start(), store().await);
    node(&server, &["push", "mail", "0", "500"]);
    let crossed = bridge(&server, &store)
        .inward([name("mail")])
        .drain()
        .await
        .unwrap();
    assert_eq!((crossed.submitted, crossed.failed), (500, 0));
    let claimed = claim_all(&store, "mail").await;
    let inputs: Vec<String> = claimed
        .iter()
        .map(|claimed| claimed.job.input.as_str().to_owned())
        .collect();
    let pushed: Vec<String> = (0..500).map(|n| format!(r#"[{{"n":{n}}},"text"]"#)).collect();
    assert_eq!(inputs, pushed, "in the order of the list");
    assert!(
        claimed
            .iter()
            .all(|claimed| claimed.job.task == name("Mail::Send"))
    );
    assert_eq!(
        ask::<i64>(
            &server,
            &["EXISTS", "resque:queue:mail", "resque:semel:under_way:mail"]
        ),
        0
    );
}

#[tokio::test]
async fn what_is_submitted_reaches_a_worker_of_node_resque_once() {
    let (server, store) = (Server::start(), store().await);
    for n in 0..300 {
        submit(&store, "mail", format!(r#"[{{"n":{n}}}]"#)).await;
    }
    let crossed = bridge(&server, &store)
        .outward([name("mail")])
        .drain()
        .await
        .unwrap();
    assert_eq!((crossed.pushed, crossed.repeated), (300, 0));
    let worked = tokio::task::spawn_blocking(move || {
        let worked = node(&server, &["work", "mail", "300"]);
        assert_eq!(
            ask::<i64>(
                &server,
                &["EXISTS", "resque:queue:mail", "resque:semel:pushed:mail"]
            ),
            0
        );
        worked
    });
    let worked = worked.await.unwrap();
    let expected: Vec<String> = (0..300).map(|n| format!(r#"[{{"n":{n}}}]"#)).collect();
    assert_eq!(worked.lines().map(str::to_owned).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_bridge_that_died_between_any_two_steps_is_continued() {
    let (server, store) = (Server::start(), store().await);
    // It took a payload, and died: before or after the store had it.
    let (before, after) = (fresh_token(), fresh_token());
    for (token, n) in [(&before, 1), (&after, 2)] {
        let payload = format!(r#" {{"class":"A","args":[{n}]}}"#);
        let _new: i64 = ask_bytes(
            &server,
            &[
                b"HSET",
                b"resque:semel:under_way:mail",
                token.as_bytes(),
                payload.as_bytes(),
            ],
        );
    }
    let mut submission = Submission::new(after, name("A"), Json::new("[2]").unwrap());
    submission.queue = name("mail");
    store.submit(vec![submission]).await.unwrap();
    bridge(&server, &store)
        .inward([name("mail")])
        .drain()
        .await
        .unwrap();
    let inputs: BTreeSet<String> = claim_all(&store, "mail")
        .await
        .iter()
        .map(|c| c.job.input.as_str().to_owned())
        .collect();
    assert_eq!(inputs, BTreeSet::from(["[1]".to_owned(), "[2]".to_owned()]));
    // It pushed a job, and died before it could settle it.
    submit(&store, "out", "[3]".to_owned()).await;
    let page = Page {
        cursor: None,
        limit: 10,
    };
    let job = store
        .jobs(Default::default(), page)
        .await
        .unwrap()
        .items
        .into_iter()
        .find(|job| job.queue == name("out"))
        .unwrap();
    let _new: i64 = ask(
        &server,
        &["HSET", "resque:semel:pushed:out", job.id.as_str(), "1"],
    );
    let crossed = bridge(&server, &store)
        .outward([name("out")])
        .drain()
        .await
        .unwrap();
    assert_eq!(
        crossed,
        Crossed {
            repeated: 1,
            ..Crossed::default()
        }
    );
    assert_eq!(ask::<i64>(&server, &["LLEN", "resque:queue:out"]), 0);
}

#[tokio::test]
async fn a_unique_queue_keeps_its_set_and_its_times_in_step() {
    let (server, store) = (Server::start(), store().await);
    for n in [1, 2, 1] {
        submit(&store, "orders", format!("[{n}]")).await;
    }
    let out = || {
        bridge(&server, &store)
            .outward([name("orders")])
            .unique([name("orders")])
    };
    let crossed = out().drain().await.unwrap();
    assert_eq!((crossed.pushed, crossed.present), (2, 1));
    for (command, key) in [
        ("LLEN", "queue:orders"),
        ("SCARD", "queue:orders:uniqueue"),
        ("LLEN", "queue:orders:start_at"),
    ] {
        assert_eq!(
            ask::<i64>(&server, &[command, &format!("resque:{key}")]),
            2,
            "{key}"
        );
    }
    let into = self::store().await;
    let crossed = bridge(&server, &into)
        .inward([name("orders")])
        .unique([name("orders")])
        .drain()
        .await
        .unwrap();
    assert_eq!((crossed.submitted, crossed.mended), (2, 0));
    for key in ["queue:orders", "queue:orders:uniqueue", "queue:orders:start_at"] {
        assert_eq!(
            ask::<i64>(&server, &["EXISTS", &format!("resque:{key}")]),
            0,
            "{key}"
        );
    }
    let claimed = claim_all(&into, "orders").await;
    assert!(
        claimed
            .iter()
            .all(|claimed| claimed.job.headers[START_AT].parse::<i64>().unwrap() > 1_600_000_000)
    );
}

#[tokio::test]
async fn a_wedged_queue_is_mended_and_goes_on() {
    let payload = |n: u8| format!(r#"{{"class":"A","args":[{n}]}}"#);
    let broken: [&[&[&str]]; 4] = [
        // A plain push: the set and the times lack it. Twice: one of them is a duplicate.
        &[&["RPUSH", "queue", "1", "2", "2"]],
        // A payload that is in the set and not in the list would be kept out for good.
        &[
            &["RPUSH", "queue", "1", "2"],
            &["SADD", "set", "1", "9"],
            &["RPUSH", "times", "5", "6"],
        ],
        &[&["RPUSH", "queue", "1", "2"], &["SADD", "set", "1", "2"]],
        &[
            &["RPUSH", "queue", "1", "2"],
            &["SADD", "set", "1", "2"],
            &["RPUSH", "times", "5", "6", "7"],
        ],
    ];
    for steps in broken {
        let (server, store) = (Server::start(), store().await);
        for step in steps {
            let key = match step[1] {
                "queue" => "resque:queue:orders",
                "set" => "resque:queue:orders:uniqueue",
                _ => "resque:queue:orders:start_at",
            };
            let rest: Vec<String> = step[2..]
                .iter()
                .map(|n| {
                    if step[1] == "times" {
                        (*n).to_owned()
                    } else {
                        payload(n.parse().unwrap())
                    }
                })
                .collect();
            let mut command = vec![step[0], key];
            command.extend(rest.iter().map(String::as_str));
            let _length: i64 = ask(&server, &command);
        }
        let bridge = bridge(&server, &store)
            .inward([name("orders")])
            .unique([name("orders")]);
        let crossed = bridge.drain().await.unwrap();
        assert_eq!((crossed.submitted, crossed.mended), (2, 1), "{steps:?}");
        assert_eq!(
            ask::<i64>(
                &server,
                &[
                    "EXISTS",
                    "resque:queue:orders",
                    "resque:queue:orders:uniqueue",
                    "resque:queue:orders:start_at"
                ]
            ),
            0
        );
    }
}

#[tokio::test]
async fn what_nobody_can_run_goes_to_the_failed_ones() {
    let (server, store) = (Server::start(), store().await);
    let _length: i64 = ask(
        &server,
        &[
            "RPUSH",
            "resque:queue:mail",
            "no payload",
            r#"{"class":"A","args":[1]}"#,
        ],
    );
    let crossed = bridge(&server, &store)
        .inward([name("mail")])
        .drain()
        .await
        .unwrap();
    assert_eq!((crossed.submitted, crossed.failed), (1, 1));
    let failed: Vec<String> = ask(&server, &["LRANGE", "resque:failed", "0", "-1"]);
    let failed = failed.join("");
    assert!(
        failed.contains("no payload") && failed.contains("Semel::Invalid"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_queue_in_both_directions_is_refused() {
    let (server, store) = (Server::start(), store().await);
    let both = bridge(&server, &store)
        .inward([name("mail")])
        .outward([name("mail")]);
    let error = both.drain().await.unwrap_err();
    assert!(error.to_string().contains("circles"), "{error}");
    assert!(bridge(&server, &store).drain().await.is_err(), "no queue at all");
    assert!(Resque::new("redis+cluster://127.0.0.1:1", "resque").is_err());
}
