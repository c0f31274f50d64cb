//! What a child process does until it is killed.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
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
        ["relay", from, to, stop_at] => runtime.block_on(relay(from, to, stop_at.to_owned())),
        ["work", jobs, file, provider, log] => runtime.block_on(step_kills::work(jobs, file, provider, log)),
        _ => panic!("a child has no role {words:?}"),
    }
    ExitCode::SUCCESS
}

/// Relays until nothing is left. At the boundary of this name it says where it is, and goes no further.
async fn relay(from: &str, to: &str, stop_at: String) {
    let source: Arc<dyn Source> = match from.strip_prefix("sqlite:") {
        Some(file) => Arc::new(
            SqliteOutbox::open(file)
                .unwrap()
                .lease(Duration::from_millis(150)),
        ),
        None => open(from, Plain::Refuse).await.unwrap(),
    };
    let jobs = semel::connect(to).await.unwrap();
    let boundary = Boundary::new(move |name| {
        if name == stop_at {
            let mut out = std::io::stdout();
            writeln!(out, "{name}").unwrap();
            out.flush().unwrap();
            loop {
                std::thread::park();
            }
        }
    });
    let relay = Relay::new(source, &jobs).batch(16).boundary(boundary);
    loop {
        relay.drain().await.unwrap();
        // What a dead relay has taken comes back after a while.
        if relay.status().await.unwrap().pending == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
