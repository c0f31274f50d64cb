//! How much memory the server uses for a waiting job and for a key, read from the server.
//!
//! `cargo run --release -p semel-redis --example memory -- [items]` starts a server of its own and prints one JSON
//! object per measurement: what `used_memory` grew by, divided by the items.

#[path = "../tests/server/mod.rs"]
mod server;

use semel_conformance::kit::{claim_request, secs, with};
use semel_core::dedup::{Dedup, Hold};
use semel_core::ids::Token;
use semel_core::job::Outcome;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{Control as _, Retention, Settlement, Store as _, Submitted, UpkeepRequest};
use semel_core::submission::Submission;
use semel_core::time::Millis;
use semel_redis::{Raw, RedisOptions, RedisStore};
use server::Server;

const BATCH: usize = 500;
const PAYLOAD: usize = 300;

/// A server with a store on it, and what it used when the store was empty.
struct Measure {
    server: Server,
    store: RedisStore,
    empty: i64,
    items: usize,
}

impl Measure {
    async fn begin(items: usize) -> Self {
        let server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "no"]);
        let store = RedisStore::connect(&server.url()).await.expect("the store opens");
        let empty = used(&server);
        Measure {
            server,
            store,
            empty,
            items,
        }
    }

    fn say(&self, what: &str) {
        let bytes = (used(&self.server) - self.empty) as f64 / self.items as f64;
        println!(
            r#"{{"name":"{what}","items":{},"bytes_each":{bytes:.1}}}"#,
            self.items
        );
    }

    async fn submit(&self, make: impl Fn(usize) -> Submission) {
        for first in (0..self.items).step_by(BATCH) {
            let batch = (first..(first + BATCH).min(self.items)).map(&make).collect();
            let answers = self.store.submit(batch).await.expect("the store answers");
            let accepted = |answer: &Submitted| answer.outcome() == Some(Outcome::Accepted);
            assert!(answers.iter().all(accepted), "{:?}", answers[0]);
        }
    }

    async fn complete_all(&self) {
        loop {
            let claims = self
                .store
                .claim(claim_request(BATCH))
                .await
                .expect("the store answers");
            if claims.is_empty() {
                return;
            }
            let done = claims.into_iter().map(|claimed| Settlement {
                id: claimed.job.id,
                fence: claimed.fence,
                result: Settle::Complete { output: None },
            });
            self.store
                .settle(done.collect())
                .await
                .expect("the store answers");
        }
    }

    /// Retention is over at once: of a job that has ended only its key is left.
    async fn prune(&self) {
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        let request = UpkeepRequest {
            retention: Retention {
                complete: Millis::new(1),
                failed: Millis::new(1),
                ledger: Millis::new(1),
            },
            ..UpkeepRequest::default()
        };
        while self.store.upkeep(request).await.expect("the store answers").more {}
    }
}

/// Bytes the server uses, without what connections and the log hold for the moment.
fn used(server: &Server) -> i64 {
    std::thread::sleep(std::time::Duration::from_millis(300));
    let info = server.command(&["INFO", "memory"]);
    let fact = |name: &str| -> i64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok())
            .expect("the server says it")
    };
    fact("used_memory:") - fact("mem_clients_normal:") - fact("mem_aof_buffer:")
}

/// With a token as a client makes it, now.
#[expect(
    clippy::disallowed_methods,
    reason = "a token says when it was made; no store takes it for its time"
)]
fn sized(mut submission: Submission, n: usize) -> Submission {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut random = [7; 10];
    random[2..].copy_from_slice(&(n as u64).to_be_bytes());
    submission.token = Token::from_parts(now.expect("after 1970").as_millis() as u64, &random);
    let text = "x".repeat(PAYLOAD - 20);
    submission.content.input = Json::trusted(format!(r#"{{"n":{},"text":"{text}"}}"#, n + 100_000));
    submission
}

#[tokio::main]
async fn main() {
    let said = std::env::args().nth(1).map(|items| items.parse());
    let items: usize = match said.unwrap_or(Ok(100_000)) {
        Ok(items) if items > 0 => items,
        _ => {
            eprintln!("error: the number of items has to be a number of at least 1");
            std::process::exit(2);
        }
    };
    let waiting = Measure::begin(items).await;
    waiting
        .submit(|n| sized(semel_conformance::kit::plain(), n))
        .await;
    waiting.say("waiting_job_300_bytes");

    let keyed = Measure::begin(items).await;
    keyed
        .submit(|n| sized(with(Dedup::explicit(format!("key-{n}"))), n))
        .await;
    keyed.say("waiting_job_300_bytes_with_key");

    let window = Measure::begin(items).await;
    let policy = |n: usize| Dedup::explicit(format!("key-{n}")).hold(Hold::window(secs(86_400)));
    window.submit(|n| sized(with(policy(n)), n)).await;
    window.complete_all().await;
    window.say("complete_job_300_bytes_with_window_key");
    window.prune().await;
    window.say("stub_with_window_key_after_its_job");
    let options = RedisOptions::from_url(&window.server.url()).expect("a URL");
    let raw = Raw::new(&options).expect("a place to connect to");
    let keys = raw
        .bytes_of_keys(&options.namespace)
        .await
        .expect("the server answers");
    let each = keys as f64 / items as f64;
    println!(r#"{{"name":"window_key","items":{items},"bytes_each":{each:.1}}}"#);
}
