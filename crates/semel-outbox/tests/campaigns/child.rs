//! What a child process does until it is killed.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_outbox::sqlite::SqliteOutbox;
use semel_outbox::{Boundary, Plain, Relay, Source, open};

use crate::step_kills;

/// The first word of a child's command line.
pub const WORD: &str = "--effects-child";

pub fn run(words: &[String]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["record", from, to] => runtime.block_on(record(from, to)),
        ["relay", from, to, stop_at] => runtime.block_on(relay(from, to, stop_at.to_owned())),
        ["work", jobs, file, provider, log] => runtime.block_on(step_kills::work(jobs, file, provider, log)),
        _ => panic!("a child has no role {words:?}"),
    }
    ExitCode::SUCCESS
}

/// Relays what is due, and says each boundary that it comes to.
async fn record(from: &str, to: &str) {
    let relay = relay_from(from, to, say).await;
    relay.drain().await.unwrap();
}

/// Relays until nothing is left. When it comes to a boundary for the time that is named, such as `after claim 2`, it says
/// so and goes no further.
async fn relay(from: &str, to: &str, stop_at: String) {
    let times: Mutex<HashMap<&'static str, usize>> = Mutex::default();
    let told = move |name: &'static str| {
        let time = {
            let mut times = times.lock().unwrap();
            let time = times.entry(name).or_default();
            *time += 1;
            *time
        };
        if format!("{name} {time}") == stop_at {
            say(&stop_at);
            loop {
                std::thread::park();
            }
        }
    };
    let relay = relay_from(from, to, told).await;
    loop {
        relay.drain().await.unwrap();
        // What a dead relay has taken comes back after a while.
        if relay.status().await.unwrap().pending == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn relay_from(from: &str, to: &str, told: impl Fn(&'static str) + Send + Sync + 'static) -> Relay {
    let source: Arc<dyn Source> = match from.strip_prefix("sqlite:") {
        Some(file) => Arc::new(
            SqliteOutbox::open(file)
                .unwrap()
                .lease(Duration::from_millis(150)),
        ),
        None => open(from, Plain::Refuse).await.unwrap(),
    };
    let jobs = semel::connect(to).await.unwrap();
    Relay::new(source, &jobs).boundary(Boundary::new(told))
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
