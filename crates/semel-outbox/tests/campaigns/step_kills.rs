//! Workers killed across step boundaries, with the provider's books as the independent log of effects.
//!
//! Each job does three things: a row in the user's own database (inbox), a charge (`retry_with_key`), a letter (`park`).
//! Some then fail and are retried, some fail for good and are replayed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use semel::testing::InterceptedStore;
use semel::{Client, Job, JobResult, State, Task, Worker, secs};
use semel_core::json::Json;
use semel_core::step::Resolution;
use semel_core::store::{JobFilter, Page};
use semel_outbox::{Delivery, Error, sqlite};
use tokio::sync::Mutex;

use crate::aim::{Histogram, Victim, choose};
use crate::calls::{Calls, under_way};
use crate::process::Process;
use crate::provider::{Provider, ask};
use crate::random::{Random, seed};
use crate::redis::Server;
use crate::stage::{Kind, Stage};

const PAY: Task<i64, String> = Task::new("pay").max_attempts(3);
const WORKERS: usize = 2;
/// Orders that are submitted at once, when fewer are unfinished.
const FEW: i64 = 40;
/// How long the workers may do nothing that the provider sees.
const PATIENCE: Duration = Duration::from_secs(60);
/// Kills on each store: of a full campaign, and of the short one.
const KILLS: (usize, usize) = (1_000, 20);

/// What a worker process has.
struct World {
    calls: Arc<Calls>,
    provider: String,
    shop: Mutex<rusqlite::Connection>,
}

/// A worker, until it is killed or nothing is left to do.
pub async fn work(jobs: &str, file: &str, provider: &str, log: &str) {
    let shop = rusqlite::Connection::open(file).unwrap();
    shop.busy_timeout(Duration::from_secs(20)).unwrap();
    let calls = Arc::new(Calls::open(log));
    let world = Arc::new(World {
        calls: calls.clone(),
        provider: provider.to_owned(),
        shop: Mutex::new(shop),
    });
    let jobs = semel::connect(jobs).await.unwrap();
    let jobs = Client::from_store(Arc::new(InterceptedStore::new(jobs.store().clone(), calls)));
    Worker::new(&jobs, world)
        .task(PAY, pay)
        .concurrency(4)
        .lease(secs(1))
        .run()
        .await
        .unwrap();
}

async fn pay(job: Job<i64>, world: Arc<World>) -> JobResult<String> {
    let order = job.input;
    {
        let mut shop = world.shop.lock().await;
        let _under_way = world.calls.begin("own database: a booking");
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
    // By this the books tell a delivery that began after a confirmation from one that was merely slow.
    let delivery = format!("{} {}", job.id(), job.fence());
    let charge = async |key: String| {
        let _under_way = world.calls.begin("provider: a charge");
        ask(&world.provider, &format!("charge {delivery} {order} {key}")).await?;
        Ok::<String, std::io::Error>(key)
    };
    let receipt = job.step("charge").retry_with_key(charge).await?;
    ask(&world.provider, &format!("confirmed {delivery} {order} charge")).await?;
    let letter = async || {
        let _under_way = world.calls.begin("provider: a letter");
        ask(&world.provider, &format!("letter {delivery} {order}")).await
    };
    job.step("letter").park(letter).await?;
    ask(&world.provider, &format!("confirmed {delivery} {order} letter")).await?;
    // A third fails once and is retried, a third fails for good and is replayed.
    match order % 3 {
        1 if job.attempt() == 1 && job.id() == job.origin() => Err("fails once".into()),
        2 if job.id() == job.origin() => Err(semel::fail("fails for good")),
        _ => Ok(receipt),
    }
}

pub async fn sqlite(full: bool) -> String {
    let stage = Stage::new(Kind::Sqlite).await;
    let url = format!("sqlite:{}", stage.dir.path().join("jobs.db").display());
    campaign("SQLite", &stage, &url, full).await
}

pub async fn redis(full: bool) -> String {
    let stage = Stage::new(Kind::Sqlite).await;
    let server = Server::start();
    campaign("Redis", &stage, &server.url(), full).await
}

async fn campaign(name: &str, stage: &Stage, url: &str, full: bool) -> String {
    // Few kills say little about a share.
    let (wanted, least) = if full { (KILLS.0, 80) } else { (KILLS.1, 50) };
    let seed = seed();
    stage.run("CREATE TABLE booked (order_id INTEGER NOT NULL)").await;
    let jobs = semel::connect(url).await.unwrap();
    let provider = Provider::default();
    let address = provider.open().await;
    let mut started = 0;
    let mut start = || {
        started += 1;
        let log = stage.dir.path().join(format!("calls-{started}"));
        let (file, shown) = (stage.file().display().to_string(), log.display().to_string());
        let process = Process::start(&["work", url, &file, &address, &shown]);
        Victim { process, log }
    };
    let mut random = Random::new(seed);
    let mut workers: Vec<Victim> = (0..WORKERS).map(|_| start()).collect();
    let (mut histogram, mut orders) = (Histogram::default(), 0_i64);
    for kill in 0..wanted {
        let enough = provider.books.lock().unwrap().asked + 1 + random.below(6);
        let busy = async {
            while provider.books.lock().unwrap().asked < enough {
                // A replay asks the provider for nothing, nor does what is in doubt: there have to be new orders.
                settle(&jobs).await;
                orders += top_up(&jobs, orders).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, busy).await.is_err() {
            panic!(
                "kill {kill}: the workers do nothing; {}",
                standing(&jobs, &workers).await
            );
        }
        let feed = async || {
            settle(&jobs).await;
            orders += top_up(&jobs, orders).await;
        };
        let (victim, interrupted) = choose(kill, &workers, &mut random, feed).await;
        histogram.note(interrupted);
        let killed = std::mem::replace(&mut workers[victim], start());
        killed.process.kill();
        // One that was killed at its very start has none.
        let _ = std::fs::remove_file(killed.log);
    }
    for _ in 0..3_000 {
        settle(&jobs).await;
        if unfinished(&jobs).await == 0 && jobs.steps_in_doubt().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for worker in workers {
        at_rest(&worker).await;
        worker.process.kill();
    }
    let told = check(stage, &jobs, &provider, orders).await;
    format!("steps on {name}, seed {seed}: {told}\n{}", histogram.told(least))
}

/// Submits orders if few are left; says how many.
async fn top_up(jobs: &Client, orders: i64) -> i64 {
    if unfinished(jobs).await >= FEW {
        return 0;
    }
    let batch = (0..FEW).map(|n| jobs.submit(PAY, &(orders + n)).max_deliveries(1_000));
    assert!(jobs.submit_many(batch).await.iter().all(Result::is_ok));
    FEW
}

/// How everything stands, for whoever has to find out why nothing moves.
async fn standing(jobs: &Client, workers: &[Victim]) -> String {
    let states = jobs.store().stats().await.unwrap().jobs;
    let doubts = jobs.steps_in_doubt().await.unwrap();
    let calls: Vec<_> = workers.iter().map(|worker| under_way(&worker.log)).collect();
    format!("jobs {states:?}\nin doubt {doubts:?}\nunder way {calls:?}")
}

/// A worker without work comes to rest. Would its log still say otherwise, the log would not count what it says.
async fn at_rest(worker: &Victim) {
    for _ in 0..500 {
        if under_way(&worker.log).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?} never ended", under_way(&worker.log));
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
         {} with another body; park: {} letters, {begun_twice} begun twice; begun after they were confirmed: {}",
        books.charges.len(),
        charged.len(),
        books.mixed_up,
        books.letters.len(),
        books.too_late
    );
    assert_eq!((rows, distinct), (orders, orders), "{told}");
    assert_eq!(
        (books.charges.len() as i64, charged.len() as i64, books.mixed_up),
        (orders, orders, 0),
        "{told}"
    );
    assert_eq!((begun_twice, books.too_late), (0, 0), "{told}");
    // Every effect that the books know of was confirmed, or decided by the operator of this campaign.
    assert_eq!(books.confirmed.len() as i64, 2 * orders, "{told}");
    assert!(books.letters.len() as i64 <= orders, "{told}");
    told
}
