//! Workers killed across step boundaries, with the provider's books as the independent log of effects.
//!
//! Each job does three things: a row in the user's own database (inbox), a charge (`retry_with_key`), a letter (`park`).
//! Some then fail and are retried, some fail for good and are replayed.

use std::collections::HashSet;
use std::time::Duration;

use semel::{Client, Job, JobResult, State, Task, Worker, secs};
use semel_core::json::Json;
use semel_core::step::Resolution;
use semel_core::store::{JobFilter, Page};
use semel_outbox::{Delivery, Error, sqlite};
use tokio::sync::Mutex;

use crate::process::Process;
use crate::provider::{Provider, ask};
use crate::random::{Random, seed};
use crate::stage::{Kind, Stage};

const PAY: Task<i64, String> = Task::new("pay").max_attempts(3);
const WORKERS: usize = 2;

/// What a worker process has.
struct World {
    provider: String,
    shop: Mutex<rusqlite::Connection>,
}

/// A worker, until it is killed or nothing is left to do.
pub async fn work(jobs: &str, file: &str, provider: &str) {
    let shop = rusqlite::Connection::open(file).unwrap();
    shop.busy_timeout(Duration::from_secs(20)).unwrap();
    let world = std::sync::Arc::new(World {
        provider: provider.to_owned(),
        shop: Mutex::new(shop),
    });
    let jobs = semel::connect(jobs).await.unwrap();
    Worker::new(&jobs, world)
        .task(PAY, pay)
        .concurrency(4)
        .lease(secs(1))
        .run()
        .await
        .unwrap();
}

async fn pay(job: Job<i64>, world: std::sync::Arc<World>) -> JobResult<String> {
    let order = job.input;
    {
        let mut shop = world.shop.lock().await;
        let tx = shop.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        sqlite::once(&tx, Delivery::from(&*job), "book", |tx| {
            let booked = tx.execute("INSERT INTO booked (order_id) VALUES (?1)", [order]);
            booked.map_err(|source| Error::Database {
                doing: "booking",
                source: source.into(),
            })
        })?;
        tx.commit()?;
    }
    let charge = async |key: String| {
        ask(&world.provider, &format!("charge {key} {order}")).await?;
        Ok::<String, std::io::Error>(key)
    };
    let receipt = job.step("charge").retry_with_key(charge).await?;
    let letter = async || ask(&world.provider, &format!("letter {order}")).await;
    job.step("letter").park(letter).await?;
    // A third fails once and is retried, a third fails for good and is replayed.
    match order % 3 {
        1 if job.attempt() == 1 && job.id() == job.origin() => Err("fails once".into()),
        2 if job.id() == job.origin() => Err(semel::fail("fails for good")),
        _ => Ok(receipt),
    }
}

pub async fn campaign(full: bool) -> String {
    let (wanted, seed) = (if full { 1_000 } else { 20 }, seed());
    let stage = Stage::new(Kind::Sqlite).await;
    stage.run("CREATE TABLE booked (order_id INTEGER NOT NULL)").await;
    let url = format!("sqlite:{}", stage.dir.path().join("jobs.db").display());
    let jobs = semel::connect(&url).await.unwrap();
    let provider = Provider::default();
    let address = provider.open().await;
    let file = stage.file().display().to_string();
    let start = || Process::start(&["work", &url, &file, &address]);
    let mut random = Random::new(seed);
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| start()).collect();
    let (mut kills, mut in_a_call, mut orders) = (0, 0, 0_i64);
    while kills < wanted {
        while unfinished(&jobs).await < 40 {
            let batch = (0..40).map(|n| jobs.submit(PAY, &(orders + n)).max_deliveries(1_000));
            assert!(jobs.submit_many(batch).await.iter().all(Result::is_ok));
            orders += 40;
        }
        let before = provider.books.lock().unwrap().asked;
        let patience = Duration::from_secs(60);
        let busy = async {
            while provider.books.lock().unwrap().asked < before + 1 + random.below(6) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(patience, busy)
            .await
            .expect("the workers do nothing");
        // Half of them at once, while the effect has happened and nobody knows; half around what comes after it.
        if kills % 2 == 1 {
            tokio::time::sleep(Duration::from_micros(random.below(4_000))).await;
        }
        let last = provider.books.lock().unwrap().last;
        let victim = workers
            .iter()
            .position(|worker| worker.pid() == last)
            .unwrap_or(0);
        let asking = provider
            .books
            .lock()
            .unwrap()
            .waiting
            .get(&workers[victim].pid())
            .copied();
        std::mem::replace(&mut workers[victim], start()).kill();
        in_a_call += usize::from(asking.is_some_and(|calls| calls > 0));
        kills += 1;
        settle(&jobs).await;
    }
    for _ in 0..3_000 {
        settle(&jobs).await;
        if unfinished(&jobs).await == 0 && jobs.steps_in_doubt().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    workers.into_iter().for_each(Process::kill);
    let told = check(&stage, &jobs, &provider, orders).await;
    format!("steps, seed {seed}: {kills} kills, {in_a_call} of them while an effect was under way; {told}")
}

/// Decides what is in doubt, and replays what failed for good.
async fn settle(jobs: &Client) {
    let operator = jobs.operate("campaign").because("a worker was killed");
    for step in jobs.steps_in_doubt().await.unwrap() {
        // Somebody may have taken it up meanwhile.
        if step.name.as_str() == "letter" {
            let happened = Resolution::Happened { output: Json::null() };
            let _ = operator.resolve(&step.origin, "letter", happened).await;
        }
    }
    let failed = JobFilter {
        dead_letters: true,
        ..JobFilter::default()
    };
    for job in jobs.store().jobs(failed, Page::first(500)).await.unwrap().items {
        operator.replay(&job.id).await.unwrap();
    }
}

async fn unfinished(jobs: &Client) -> i64 {
    let stats = jobs.store().stats().await.unwrap();
    let live = |state: &State| !state.is_terminal();
    let unfinished: i64 = stats
        .jobs
        .iter()
        .filter(|(state, _)| live(state))
        .map(|(_, count)| count)
        .sum();
    let dead = JobFilter {
        dead_letters: true,
        ..JobFilter::default()
    };
    unfinished
        + jobs
            .store()
            .jobs(dead, Page::first(500))
            .await
            .unwrap()
            .items
            .len() as i64
}

async fn check(stage: &Stage, jobs: &Client, provider: &Provider, orders: i64) -> String {
    assert_eq!(unfinished(jobs).await, 0, "something never ended");
    let books = provider.books.lock().unwrap();
    let booked = stage.connection();
    let (rows, distinct): (i64, i64) = booked
        .query_row(
            "SELECT count(*), count(DISTINCT order_id) FROM booked",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let charged: HashSet<&str> = books.charges.values().map(|(order, _)| order.as_str()).collect();
    let asked: usize = books.charges.values().map(|(_, times)| times).sum();
    let begun_twice = books.letters.values().filter(|times| **times > 1).count();
    let told = format!(
        "{orders} jobs; case A: {rows} rows, {distinct} distinct; case B: {} keys for {} orders, asked for {asked} times, \
         {} with another body; park: {} letters, {begun_twice} begun twice",
        books.charges.len(),
        charged.len(),
        books.mixed_up,
        books.letters.len()
    );
    assert_eq!((rows, distinct), (orders, orders), "{told}");
    assert_eq!(
        (books.charges.len() as i64, charged.len() as i64, books.mixed_up),
        (orders, orders, 0),
        "{told}"
    );
    assert_eq!(begun_twice, 0, "{told}");
    assert!(books.letters.len() as i64 <= orders, "{told}");
    told
}
