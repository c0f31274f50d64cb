//! How fast the store is beside plain `SET` on the same server, by the same client, in the same run.
//!
//! `cargo run --release -p semel-redis --example speed -- [jobs]` starts a server of its own and prints one JSON object
//! per measurement: the value of the best of three rounds, and ratios as the median over the rounds. What
//! `redis-benchmark` says of the same server is printed beside it. The server does not rewrite its log meanwhile: that
//! would fall on whatever happens to be measured then.

#[path = "../tests/server/mod.rs"]
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_conformance::kit::{self, claim_request, with};
use semel_core::dedup::Dedup;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{Claimed, Settlement, Store as _};
use semel_core::submission::Submission;
use semel_redis::RedisStore;
use server::Server;

const ROUNDS: usize = 3;
const BATCH: usize = 512;
const PIPELINE: usize = 64;
const PAYLOAD: usize = 300;

#[expect(
    clippy::disallowed_methods,
    reason = "a measurement takes time; no store sees it"
)]
fn now() -> Instant {
    Instant::now()
}

fn rate(jobs: usize, begun: Instant) -> f64 {
    jobs as f64 / begun.elapsed().as_secs_f64()
}

fn keyed(n: usize) -> Submission {
    let mut submission = with(Dedup::idempotency_key(format!("key-{n}")));
    let text = "x".repeat(PAYLOAD - 20);
    submission.content.input = Json::trusted(format!(r#"{{"n":{n},"text":"{text}"}}"#));
    submission
}

/// Plain writes, so many in a pipeline; one at a time is awaited.
async fn sets(
    wire: &mut redis::aio::MultiplexedConnection,
    from: usize,
    count: usize,
    pipeline: usize,
) -> f64 {
    let (begun, value) = (now(), "x".repeat(PAYLOAD));
    for first in (from..from + count).step_by(pipeline) {
        let mut pipe = redis::pipe();
        for n in first..first + pipeline {
            pipe.cmd("SET").arg(format!("plain-{n}")).arg(&value).ignore();
        }
        pipe.exec_async(wire).await.expect("the server answers");
    }
    rate(count, begun)
}

async fn submits(store: &RedisStore, from: usize, count: usize, batch: usize) -> f64 {
    let batches: Vec<Vec<Submission>> = (from..from + count)
        .step_by(batch)
        .map(|first| (first..first + batch).map(keyed).collect())
        .collect();
    let begun = now();
    for batch in batches {
        store.submit(batch).await.expect("the store answers");
    }
    rate(count, begun)
}

async fn by_callers(store: &Arc<RedisStore>, callers: usize, from: usize, count: usize) -> f64 {
    let begun = now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in (from + caller..from + count).step_by(callers) {
                    store.submit(vec![keyed(n)]).await.expect("the store answers");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a caller ends");
    }
    rate(count, begun)
}

/// How long callers wait at a given rate of all of them together: the 50th and 99th of a hundred, in milliseconds.
async fn waits<F, R>(callers: usize, count: usize, rate: f64, call: F) -> (f64, f64)
where
    F: Fn(usize) -> R + Clone + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let pause = Duration::from_secs_f64(callers as f64 / rate);
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut waits = Vec::new();
                let mut next = tokio::time::Instant::now() + pause.mul_f64(caller as f64 / callers as f64);
                for n in (caller..count).step_by(callers) {
                    tokio::time::sleep_until(next).await;
                    next += pause;
                    let made = call(n);
                    let begun = now();
                    made.await;
                    waits.push(begun.elapsed().as_secs_f64() * 1_000.0);
                }
                waits
            })
        })
        .collect();
    let mut all = Vec::with_capacity(count);
    for task in tasks {
        all.extend(task.await.expect("a caller ends"));
    }
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[all.len() * 99 / 100])
}

/// Claims and completes everything that waits; jobs per second.
async fn drain(store: &RedisStore) -> f64 {
    let (begun, mut jobs) = (now(), 0);
    loop {
        let claims: Vec<Claimed> = store
            .claim(claim_request(BATCH))
            .await
            .expect("the store answers");
        if claims.is_empty() {
            return rate(jobs, begun);
        }
        jobs += claims.len();
        let settle = |claimed: Claimed| Settlement {
            id: claimed.job.id,
            fence: claimed.fence,
            result: Settle::Complete { output: None },
        };
        let batch = claims.into_iter().map(settle).collect();
        store.settle(batch).await.expect("the store answers");
    }
}

/// What the server's own tool says.
fn benchmark(server: &Server) -> Option<f64> {
    let output = std::process::Command::new("redis-benchmark")
        .args(["-p", &server.port().to_string(), "-t", "set", "-n", "300000"])
        .args(["-P", "64", "-d", "300", "-r", "1000000", "--csv"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().find(|line| line.starts_with("\"SET\""))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

fn say(metric: &str, value: f64, unit: &str) {
    let rounded = (value * 1_000.0).round() / 1_000.0;
    println!("{{\"peer\":\"semel\",\"metric\":\"{metric}\",\"value\":{rounded},\"unit\":\"{unit}\"}}");
}

fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    let jobs: usize = std::env::args()
        .nth(1)
        .map_or(40_960, |jobs| jobs.parse().expect("a number of jobs"));
    let jobs = jobs.next_multiple_of(BATCH);
    let log = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let server = Server::start_with(&[&log[..], &["--auto-aof-rewrite-percentage", "0"]].concat());
    let store = Arc::new(RedisStore::connect(&server.url()).await.expect("the store opens"));
    store.submit(vec![kit::plain()]).await.expect("the store answers");
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut wire = client
        .get_multiplexed_async_connection()
        .await
        .expect("the server answers");
    let names = [
        "ceiling_set_p64",
        "ceiling_set_1",
        "enqueue_unique_bulk",
        "enqueue_unique_1",
        "enqueue_unique_c64",
        "claim_and_settle",
        "lifecycle",
        "enqueue_dup",
    ];
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    let singles = (jobs / 20).next_multiple_of(64);
    let mut from = 0;
    for _ in 0..ROUNDS {
        let set_many = sets(&mut wire, from, jobs.next_multiple_of(PIPELINE), PIPELINE).await;
        let set_one = sets(&mut wire, from, singles, 1).await;
        let one = submits(&store, from, singles, 1).await;
        let callers = by_callers(&store, 64, from + singles, singles * 4).await;
        drain(&store).await;
        let bulk = submits(&store, from + jobs, jobs, BATCH).await;
        let duplicates = submits(&store, from + jobs, jobs, BATCH).await;
        let worked = drain(&store).await;
        // One job after the other: the times of both halves add up.
        let lifecycle = 1.0 / (1.0 / bulk + 1.0 / worked);
        let measured = [
            set_many, set_one, bulk, one, callers, worked, lifecycle, duplicates,
        ];
        for (all, value) in values.iter_mut().zip(measured) {
            all.push(value);
        }
        from += 3 * jobs;
    }
    for (name, values) in names.iter().zip(&values) {
        say(name, best(values), "per second");
    }
    let half = median(values[4].clone()) / 2.0;
    // What plain writes wait at the same rate is the machine's part of it.
    for (name, stored) in [
        ("set", false),
        ("enqueue_unique", true),
        ("set", false),
        ("enqueue_unique", true),
    ] {
        let (store, wire) = (store.clone(), wire.clone());
        let first = from;
        from += singles * 8;
        let (middle, slow) = waits(64, singles * 8, half, move |n| {
            let (store, mut wire, submission) = (store.clone(), wire.clone(), keyed(first + n));
            async move {
                if stored {
                    store.submit(vec![submission]).await.expect("the store answers");
                } else {
                    let mut set = redis::cmd("SET");
                    set.arg(format!("plain-{n}"))
                        .arg(submission.content.input.as_str());
                    set.exec_async(&mut wire).await.expect("the server answers");
                }
            }
        })
        .await;
        say(&format!("{name}_c64_half_rate_p50"), middle, "ms");
        say(&format!("{name}_c64_half_rate_p99"), slow, "ms");
    }
    let ratio = |name: &str, of: usize, to: usize| {
        let ratios = values[of].iter().zip(&values[to]).map(|(of, to)| of / to);
        say(name, median(ratios.collect()), "ratio");
    };
    ratio("ratio_enqueue_unique_bulk", 2, 0);
    ratio("ratio_lifecycle", 6, 0);
    ratio("ratio_enqueue_unique_c64", 4, 0);
    ratio("ratio_enqueue_unique_1", 3, 1);
    if let Some(rate) = benchmark(&server) {
        say("ceiling_redis_benchmark_set_p64", rate, "per second");
    }
}
