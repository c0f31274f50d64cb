//! The quick mode on servers that are started for it: everything that is documented is said once, and nothing is left
//! behind. How fast is not asked.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::BTreeMap;
use std::process::{Command, Output};

#[cfg(feature = "s3")]
use futures_util::StreamExt as _;
use serde::Deserialize;

#[cfg(feature = "redis")]
#[path = "../../semel-redis/tests/server/mod.rs"]
mod redis_server;
#[cfg(feature = "s3")]
#[path = "../../semel-s3/tests/server/mod.rs"]
mod s3_server;

#[derive(Deserialize)]
struct Line {
    peer: String,
    metric: String,
    value: f64,
    unit: String,
}

fn bench(store: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel-bench"));
    command.env("AWS_ACCESS_KEY_ID", "test");
    command.env("AWS_SECRET_ACCESS_KEY", "test");
    command.args(["--store", store]).args(args).output().unwrap()
}

fn said(store: &str, args: &[&str]) -> String {
    let output = bench(store, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every metric once, with a value and a unit; rates also as ratios.
fn check(text: &str, rates: &[&str], others: &[&str]) {
    let mut found: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).unwrap();
        found.entry(line.metric.clone()).or_default().push(line);
    }
    let ratios: Vec<String> = rates.iter().map(|metric| format!("ratio_{metric}")).collect();
    let documented = rates.iter().chain(others).copied();
    for metric in documented.chain(ratios.iter().map(String::as_str)) {
        let lines = found.remove(metric).unwrap_or_default();
        let [line] = &lines[..] else {
            panic!("{metric} is reported {} times: {text}", lines.len())
        };
        assert!(
            line.value.is_finite() && line.value > 0.0,
            "{metric} is {}",
            line.value
        );
        assert_eq!(line.peer, "semel");
        assert!(!line.unit.is_empty(), "{metric} has a unit");
    }
    assert!(found.is_empty(), "not documented: {:?}", found.keys());
}

#[cfg(feature = "redis")]
#[test]
fn a_redis_server_is_measured_and_left_as_it_was() {
    let server = redis_server::Server::start_with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    server.command(&["SET", "mine", "1"]);
    let text = said(&server.url(), &["--quick", "--json"]);
    let rates = [
        "enqueue_1",
        "enqueue_unique",
        "enqueue_c64",
        "enqueue_unique_c64",
        "enqueue_bulk_64",
        "enqueue_unique_bulk_64",
        "enqueue_bulk",
        "enqueue_unique_bulk",
        "enqueue_dup",
        "process",
        "claim",
        "settle",
        "process_worker",
        "process_unique",
        "claim_unique",
        "settle_unique",
        "lifecycle_sequential",
        "lifecycle_pipelined",
        "lifecycle",
    ];
    let others = [
        "ceiling_set_1",
        "ceiling_set_c64",
        "ceiling_set_p64",
        "ceiling_redis_benchmark_p64",
        "enqueue_c64_p50",
        "enqueue_c64_p99",
        "enqueue_unique_c64_p50",
        "enqueue_unique_c64_p99",
        "enqueue_c64_half_rate",
        "enqueue_c64_half_p50",
        "enqueue_c64_half_p99",
        "enqueue_unique_c64_half_rate",
        "enqueue_unique_c64_half_p50",
        "enqueue_unique_c64_half_p99",
        "unique_over_plain",
        "mem_job",
        "mem_dedupe",
        "mem_window_key",
        "mem_window_stub",
        "enqueue_c64_half_set_p99",
        "enqueue_unique_c64_half_set_p99",
    ];
    check(&text, &rates, &others);
    assert_eq!(
        server.command(&["DBSIZE"]).trim(),
        ":1",
        "nothing is left but what was there"
    );
}

/// Each slice has the jobs that were asked for, in a store of its own: the duplicates are of that one, and a worker finds
/// exactly those jobs.
#[cfg(feature = "redis")]
#[test]
fn slices_of_so_many_jobs_are_measured_on_stores_that_have_just_begun() {
    let server = redis_server::Server::start_with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let only = ["--only", "bulk,duplicates,process,lifecycle"];
    let text = said(
        &server.url(),
        &[&["--quick", "--jobs", "2_000"][..], &only].concat(),
    );
    assert!(text.contains("medians of 1 rounds of 2000 jobs"), "{text}");
    let made = server.command(&["INFO", "commandstats"]);
    let probes = made
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_copy:calls="));
    let probes: usize = probes.unwrap().split(',').next().unwrap().parse().unwrap();
    // Each store that is opened tries what it may do. Ten contestants open one for the slice that does not count, and one
    // for the other.
    assert_eq!(probes, 20);
    assert_eq!(server.command(&["DBSIZE"]).trim(), ":0");
}

#[cfg(feature = "s3")]
#[test]
fn a_bucket_is_measured_and_left_as_it_was() {
    let server = s3_server::Server::start(s3_server::Kind::Ministack);
    let url = server.fresh_url();
    let text = said(&url, &["--quick", "--json"]);
    let rates = [
        "enqueue_1",
        "enqueue_unique",
        "enqueue_c16",
        "enqueue_unique_c16",
        "enqueue_dup",
        "process",
        "claim",
        "settle",
        "process_unique",
        "claim_unique",
        "settle_unique",
        "lifecycle_sequential",
        "lifecycle_pipelined",
        "lifecycle",
    ];
    let others = [
        "ceiling_put_1",
        "ceiling_put_c16",
        "enqueue_c16_p50",
        "enqueue_c16_p99",
        "enqueue_unique_c16_p50",
        "enqueue_unique_c16_p99",
        "enqueue_dup_p50",
        "enqueue_dup_p99",
        "requests_enqueue_1",
        "requests_enqueue_unique",
        "requests_enqueue_dup",
        "requests_claim_1",
        "requests_settle_1",
        "requests_claim",
        "requests_settle",
        "requests_claim_elsewhere",
        "requests_settle_elsewhere",
    ];
    check(&text, &rates, &others);
    let bucket = semel_s3::S3Store::bucket(&s3_server::options(&url)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let left: Vec<_> = runtime.block_on(bucket.list(None).collect());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    for (store, args, reason) in [
        ("mysql://db", &[][..], "redis://"),
        ("redis://127.0.0.1", &["--only", "syncs"], "singles"),
        ("s3://b/p", &["--only", "sizes"], "requests"),
    ] {
        let output = bench(store, args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(errors.contains(reason) && errors.contains("hint:"), "{errors}");
    }
}
