//! A bridge killed from outside, between any two of its steps and at any moment: each payload is one job, each job one
//! payload.
//!
//! Every script is one step to Redis and every call one to the store, so the moments before and after the calls to the
//! store are all the boundaries there are. The default is a short run; `cargo xtask faults effects` runs it whole.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[path = "../../semel-outbox/tests/campaigns/random.rs"]
mod random;
#[path = "../../semel-redis/tests/server/mod.rs"]
mod server;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use libtest_mimic::{Arguments, Failed, Trial};
use semel::ids::fresh_token;
use semel::testing::{Call, Intercept, InterceptedStore};
use semel::{Name, State};
use semel_core::error::StoreError;
use semel_core::json::Json;
use semel_core::store::{JobFilter, Page, Store, Submitted};
use semel_core::submission::Submission;
use semel_resque::{Bridge, Resque};

use random::{Random, seed};
use server::Server;

const CHILD: &str = "--bridge-child";
/// Payloads and jobs that are new before each kill, in each queue.
const NEW: usize = 20;
/// The queues: inward, outward, and the same kept by resque-uniqueue.
const QUEUES: [&str; 4] = ["in", "out", "unique-in", "unique-out"];
/// Every boundary, by the call to the store that it is at.
const BOUNDARIES: [&str; 6] = [
    "before a submission",
    "after a submission",
    "before a claim",
    "after a claim",
    "before a settlement",
    "after a settlement",
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, redis, store, stop_at] = &words[..]
        && word == CHILD
    {
        run(child(redis, store, stop_at.clone()));
        return ExitCode::SUCCESS;
    }
    let full = std::env::var("SEMEL_CAMPAIGN").is_ok_and(|value| value == "full");
    let trial = |name: &str, campaign: fn(bool) -> String| {
        Trial::test(name, move || {
            eprintln!("{}", campaign(full));
            Ok::<(), Failed>(())
        })
    };
    let trials = vec![
        trial("a_bridge_killed_at_every_boundary", |full| {
            run(at_boundaries(full))
        }),
        trial("a_bridge_killed_at_any_moment", |full| run(at_any_moment(full))),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn bridge(redis: &str, store: Arc<dyn Store>) -> Bridge {
    Bridge::new(Resque::new(redis, "resque").unwrap(), store)
        .inward([name("in"), name("unique-in")])
        .outward([name("out"), name("unique-out")])
        .unique([name("unique-in"), name("unique-out")])
        .poll(Duration::from_millis(5))
        .lease(Duration::from_secs(1))
}

/// Says where it is at one boundary, and goes no further.
struct Stop(String);

impl Stop {
    fn meet(&self, moment: &str, call: &Call) {
        if format!("{moment} {call}") == self.0 {
            say(&self.0);
            loop {
                std::thread::park();
            }
        }
    }
}

#[async_trait]
impl Intercept for Stop {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        self.meet("before", call);
        Ok(())
    }

    async fn after(&self, call: &Call) -> Result<(), StoreError> {
        self.meet("after", call);
        Ok(())
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").unwrap();
    out.flush().unwrap();
}

async fn child(redis: &str, store: &str, stop_at: String) {
    let jobs = semel::connect(store).await.unwrap();
    let any = stop_at.is_empty();
    let store = Arc::new(InterceptedStore::new(
        jobs.store().clone(),
        Arc::new(Stop(stop_at)),
    ));
    if any {
        say("at work");
    }
    let forever = std::future::pending();
    bridge(redis, store).run_until(forever).await.unwrap();
}

/// A child that has come to where it says something; killed when it is dropped.
struct Victim(Child);

impl Victim {
    fn start(stage: &Stage, stop_at: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([CHILD, &stage.redis.url(), &stage.url, stop_at])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (give, take) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = out.read_line(&mut line);
            let _ = give.send(line);
        });
        let victim = Victim(child);
        let line = take.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
        assert!(!line.is_empty(), "a bridge never came to {stop_at:?}");
        victim
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both sides, and how much was put into each queue.
struct Stage {
    redis: Server,
    store: Arc<dyn Store>,
    url: String,
    put: usize,
    _dir: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("jobs.db").display());
        let store = semel::connect(&url).await.unwrap().store().clone();
        Stage {
            redis: Server::start(),
            store,
            url,
            put: 0,
            _dir: dir,
        }
    }

    /// New payloads on one side, new jobs on the other.
    async fn put(&mut self) {
        let numbers = self.put..self.put + NEW;
        self.put += NEW;
        let payloads: Vec<String> = numbers
            .clone()
            .map(|n| format!(r#"{{"class":"A","args":[{n}]}}"#))
            .collect();
        for queue in ["in", "unique-in"] {
            self.push("RPUSH", &format!("resque:queue:{queue}"), &payloads);
        }
        self.push("SADD", "resque:queue:unique-in:uniqueue", &payloads);
        let times = vec!["1700000000".to_owned(); NEW];
        self.push("RPUSH", "resque:queue:unique-in:start_at", &times);
        let mut batch = Vec::new();
        for queue in ["out", "unique-out"] {
            for n in numbers.clone() {
                let input = Json::new(format!("[{n}]")).unwrap();
                let mut submission = Submission::new(fresh_token(), name("A"), input);
                submission.queue = name(queue);
                submission.max_deliveries = 1_000;
                batch.push(submission);
            }
        }
        let answers = self.store.submit(batch).await.unwrap();
        let all = answers.iter().all(|answer| matches!(answer, Submitted::Job(_)));
        assert!(all, "{answers:?}");
    }

    fn push(&self, command: &str, key: &str, values: &[String]) {
        let mut words = vec![command, key];
        words.extend(values.iter().map(String::as_str));
        self.redis.command(&words);
    }

    fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let client = redis::Client::open(self.redis.url()).unwrap();
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut client.get_connection().unwrap()).unwrap()
    }

    /// What a dead bridge had in hand.
    async fn in_hand(&self) -> &'static str {
        let under_way: i64 = ["in", "unique-in"]
            .iter()
            .map(|queue| self.ask::<i64>(&["HLEN", &format!("resque:semel:under_way:{queue}")]))
            .sum();
        let marked: i64 = ["out", "unique-out"]
            .iter()
            .map(|queue| self.ask::<i64>(&["HLEN", &format!("resque:semel:pushed:{queue}")]))
            .sum();
        match (under_way > 0, marked > 0) {
            (true, _) => "payloads under way",
            (false, true) => "jobs that were pushed",
            (false, false) => "nothing that is marked",
        }
    }

    /// Lets a bridge finish, then compares both sides one by one.
    async fn check(&self) -> String {
        for _ in 0..600 {
            bridge(&self.redis.url(), self.store.clone())
                .drain()
                .await
                .unwrap();
            if self.count("out", Some(State::Complete)).await == self.put
                && self.count("unique-out", Some(State::Complete)).await == self.put
            {
                break;
            }
            // What a dead bridge had in hand is leased for a second.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Marks that were left are taken away by the next one that starts.
        bridge(&self.redis.url(), self.store.clone())
            .drain()
            .await
            .unwrap();
        let wanted: Vec<usize> = (0..self.put).collect();
        for queue in QUEUES {
            let mut found = match queue {
                "in" | "unique-in" => self.inputs(queue).await,
                _ => self.pushed(queue),
            };
            found.sort_unstable();
            assert_eq!(found, wanted, "{queue}: each once");
        }
        let set: usize = self.ask(&["SCARD", "resque:queue:unique-out:uniqueue"]);
        let times: usize = self.ask(&["LLEN", "resque:queue:unique-out:start_at"]);
        assert_eq!((set, times), (self.put, self.put), "in step with the list");
        let left: i64 = self.ask(&[
            "EXISTS",
            "resque:semel:under_way:in",
            "resque:semel:under_way:unique-in",
            "resque:semel:pushed:out",
            "resque:semel:pushed:unique-out",
            "resque:failed",
        ]);
        assert_eq!(left, 0, "nothing is left behind");
        format!("{} in each of {QUEUES:?}, each once on the other side", self.put)
    }

    async fn inputs(&self, queue: &str) -> Vec<usize> {
        let mut all = Vec::new();
        let mut page = Page::first(500);
        loop {
            let found = self.store.jobs(of(queue, None), page).await.unwrap();
            for job in &found.items {
                all.push(job.input.read::<[usize; 1]>().unwrap()[0]);
            }
            match found.next_cursor {
                Some(cursor) => page = Page::after(cursor, 500),
                None => return all,
            }
        }
    }

    fn pushed(&self, queue: &str) -> Vec<usize> {
        let payloads: Vec<String> = self.ask(&["LRANGE", &format!("resque:queue:{queue}"), "0", "-1"]);
        let number = |payload: &String| {
            let payload: serde_json::Value = serde_json::from_str(payload).unwrap();
            usize::try_from(payload["args"][0].as_u64().unwrap()).unwrap()
        };
        payloads.iter().map(number).collect()
    }

    async fn count(&self, queue: &str, state: Option<State>) -> usize {
        let mut count = 0;
        let mut page = Page::first(500);
        loop {
            let found = self.store.jobs(of(queue, state), page).await.unwrap();
            count += found.items.len();
            match found.next_cursor {
                Some(cursor) => page = Page::after(cursor, 500),
                None => return count,
            }
        }
    }
}

fn of(queue: &str, state: Option<State>) -> JobFilter {
    JobFilter {
        queue: Some(name(queue)),
        state,
        ..JobFilter::default()
    }
}

async fn at_boundaries(full: bool) -> String {
    let rounds = if full { 20 } else { 2 };
    let mut stage = Stage::new().await;
    let mut kills: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..rounds {
        for boundary in BOUNDARIES {
            stage.put().await;
            drop(Victim::start(&stage, boundary));
            *kills.entry(boundary).or_default() += 1;
        }
    }
    let told = stage.check().await;
    format!("bridge: {} kills, {kills:?}; {told}", rounds * BOUNDARIES.len())
}

async fn at_any_moment(full: bool) -> String {
    let kills = if full { 300 } else { 25 };
    let seed = seed();
    let (mut stage, mut random) = (Stage::new().await, Random::new(seed));
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..kills {
        stage.put().await;
        let victim = Victim::start(&stage, "");
        tokio::time::sleep(Duration::from_micros(random.below(15_000))).await;
        drop(victim);
        *found.entry(stage.in_hand().await).or_default() += 1;
    }
    let told = stage.check().await;
    format!("bridge, seed {seed}: {kills} kills at any moment, in hand: {found:?}; {told}")
}
