//! The command line on a Redis server: the same words, another store.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../../semel-redis/tests/server/mod.rs"]
mod server;
mod stage;

use server::Server;
use stage::Stage;

/// A directory whose settings name a server.
fn on(server: &Server) -> Stage {
    let stage = Stage::new().wide();
    stage.write("semel.toml", &format!("store = '{}'", server.url()));
    stage
}

#[test]
fn jobs_are_submitted_worked_and_looked_at() {
    let server = Server::start();
    let stage = on(&server);
    // Whoever only looks makes no store.
    let missing = stage.run(&["stats"]);
    assert_eq!(missing.code, 6, "{missing:#?}");
    assert!(missing.err.contains("there is no store"), "{missing:#?}");

    let id = stage.submit(&["echo", r#"{"n":1}"#, "--key", "k"]);
    let again = stage.submit(&["echo", r#"{"n":1}"#, "--key", "k"]);
    assert_eq!(again, id, "a duplicate is led to the job that holds the key");
    let worked = stage.run(&["work", "--task", "echo", "--exec", "cat", "--drain"]);
    assert_eq!(worked.code, 0, "{worked:#?}");
    let job = stage.job(&id);
    assert_eq!(
        (&job["state"], &job["output"]["n"]),
        (&"complete".into(), &1.into())
    );
    let stats = stage.json(&["stats"]);
    let counted = ["accepted", "duplicate", "completed"].map(|name| stats[name].as_i64());
    assert_eq!(counted, [1, 1, 1].map(Some), "{stats}");
}

#[test]
fn what_is_promised_is_probed_and_what_is_broken_is_mended() {
    let server = Server::start();
    let stage = on(&server);
    for n in ["1", "2"] {
        stage.submit(&["t", n]);
    }
    let sheet = stage.run(&["guarantees"]);
    assert_eq!(sheet.code, 0, "{sheet:#?}");
    for word in ["appendfsync always", "maxmemory-policy noeviction", "failover"] {
        assert!(sheet.out.contains(word), "{word}: {sheet:#?}");
    }
    server.command(&["DEL", "semel:{default/1/0}:ready:0:0"]);
    let found = stage.run(&["doctor"]);
    assert_eq!(found.code, 1, "{found:#?}");
    let mended = stage.run(&["doctor", "--repair"]);
    assert_eq!(mended.code, 0, "{mended:#?}");
    let worked = stage.run(&["work", "--task", "t", "--exec", "true", "--drain"]);
    assert!(worked.out.contains("2 completed"), "{worked:#?}");
}

#[test]
fn a_server_that_cannot_keep_the_promises_is_refused_with_a_hint() {
    for (settings, reason) in [
        (&["--appendonly", "no"][..], "append-only file"),
        (
            &["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"],
            "maxmemory-policy allkeys-lru",
        ),
    ] {
        let server = Server::start_with(settings);
        let run = on(&server).run(&["submit", "t"]);
        assert_eq!(run.code, 6, "{run:#?}");
        assert!(
            run.err.contains(reason) && run.err.contains("hint:"),
            "{reason}: {run:#?}"
        );
    }
}

#[test]
fn a_server_is_measured_only_where_it_is_named_for_it() {
    let server = Server::start();
    let stage = on(&server);
    let arguments = ["bench", "--quick", "--only", "singles", "--json"];
    let metrics = |run: &stage::Run| -> Vec<String> {
        assert_eq!(run.code, 0, "{run:#?}");
        let lines = run.out.lines();
        lines
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["metric"].to_string())
            .collect()
    };
    // What the file names is measured by nobody.
    let embedded = metrics(&stage.run(&arguments));
    assert!(embedded.contains(&"\"ceiling_1\"".to_owned()), "{embedded:?}");
    let url = server.url();
    let measured = metrics(&stage.run(&[&arguments[..], &["--store", &url]].concat()));
    assert!(measured.contains(&"\"ceiling_set_1\"".to_owned()), "{measured:?}");
    assert_eq!(
        server.command(&["DBSIZE"]).trim(),
        ":0",
        "nothing is left on the server"
    );
}

#[test]
fn a_store_is_spread_over_another_number_of_shards() {
    let server = Server::start();
    let stage = on(&server);
    let ids: Vec<String> = ["1", "2", "3"]
        .iter()
        .map(|n| stage.submit(&["t", n, "--key", n]))
        .collect();
    assert_eq!(stage.json(&["shards", "show"])["shards"], 1);
    // Said, and not done.
    let plan = stage.json(&["shards", "set", "4", "--dry-run"]);
    assert_eq!(
        (&plan["from"], &plan["to"], &plan["jobs"], &plan["changed"]),
        (&1.into(), &4.into(), &3.into(), &false.into()),
        "{plan}"
    );
    let unasked = stage.run(&["shards", "set", "4"]);
    assert_eq!(unasked.code, 9, "{unasked:#?}");
    assert!(
        unasked.err.contains("spread 3 jobs of 1 shard over 4 shards"),
        "{unasked:#?}"
    );
    let done = stage.run(&["shards", "set", "4", "--yes"]);
    assert_eq!(done.code, 0, "{done:#?}");
    assert!(
        done.out.contains("3 jobs are spread over 4 shards now."),
        "{done:#?}"
    );
    assert!(done.out.contains("write shards=4"), "{done:#?}");
    let refused = stage.run(&["stats"]);
    assert!(refused.err.contains("write shards=4"), "{refused:#?}");

    stage.write("semel.toml", &format!("store = '{}?shards=4'", server.url()));
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(stage.job(id)["state"], "queued");
        let n = (n + 1).to_string();
        assert_eq!(
            &stage.submit(&["t", &n, "--key", &n]),
            id,
            "its key is still held"
        );
    }
    let worked = stage.run(&["work", "--task", "t", "--exec", "true", "--drain"]);
    assert!(worked.out.contains("3 completed"), "{worked:#?}");
    let same = stage.run(&["shards", "set", "4", "--yes"]);
    assert!(same.out.contains("over 4 shards already"), "{same:#?}");
}

#[test]
fn only_a_redis_store_has_shards_to_change() {
    let stage = Stage::new();
    let refused = stage.run(&["shards", "set", "4"]);
    assert_eq!(refused.code, 2, "{refused:#?}");
    assert!(refused.err.contains("only a Redis store"), "{refused:#?}");
}
