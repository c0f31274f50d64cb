//! How fast a relay is, how soon it hears, and what a million sent events cost.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use semel_outbox::{Boundary, Relay};

use crate::stage::{Kind, Stage, now};

/// What is left of the rate, at least, when many events were sent before.
const KEPT: f64 = 0.8;

pub async fn campaign(full: bool) -> String {
    let (events, sent, singles) = if full {
        (20_000, 1_000_000, 200)
    } else {
        (3_000, 20_000, 20)
    };
    let stage = Stage::new(Kind::Postgres).await;
    let url = format!("sqlite:{}", stage.dir.path().join("jobs.db").display());
    let jobs = semel::connect(&url).await.unwrap();
    let relay = Relay::new(stage.source.clone(), &jobs).batch(1_000);
    let mut n = 0;
    let mut rate = async || {
        fill(&stage, n, events).await;
        n += events;
        let begun = now();
        assert_eq!(relay.drain().await.unwrap().sent, u64::from(events));
        f64::from(events) / begun.elapsed().as_secs_f64()
    };
    let mut before = 0.0_f64;
    for _ in 0..3 {
        before = before.max(rate().await);
    }
    stage
        .run(&format!(
            "INSERT INTO semel_outbox (id, task, input, sent_at, job) SELECT 'old-' || n, 't', '{{}}', now(), 'j' \
             FROM generate_series(1, {sent}) n"
        ))
        .await;
    // On a machine that has other things to do one round says little: the best of several does.
    let (mut after, mut rounds) = (0.0_f64, 0);
    while rounds < 3 || (after < before * KEPT && rounds < 40) {
        after = after.max(rate().await);
        rounds += 1;
    }
    let [median, slow, worst] = latency(&stage, &jobs, singles).await;
    assert!(
        after >= before * KEPT,
        "{sent} sent events slow the relay from {before:.0} to {after:.0} events/s"
    );
    if full {
        assert!(
            before >= 5_000.0 && after >= 5_000.0,
            "too slow: {before:.0}, {after:.0} events/s"
        );
        assert!(
            slow < Duration::from_millis(10),
            "{median:?} until an event is a job, {slow:?} for one in twenty"
        );
    }
    format!(
        "relay from Postgres to the embedded store, best of several: {before:.0} events/s, with {sent} sent rows {after:.0} \
         events/s; idle, from commit to job: median {median:.1?}, 95 % {slow:.1?}, worst of {singles} {worst:.1?}"
    )
}

/// A backlog that comes all at once: what the planner knows is of the time before it.
async fn fill(stage: &Stage, from: u32, events: u32) {
    stage.run("ANALYZE semel_outbox").await;
    stage
        .run(&format!(
            "INSERT INTO semel_outbox (id, task, input, partition) SELECT 'e-' || n, 't', ('{{\"n\": ' || n || '}}')::json, \
             'p' || n % 100 FROM generate_series({from} + 1, {from} + {events}) n"
        ))
        .await;
}

/// From the end of a commit to the answer of the store, with a relay that has nothing else to do: the median, what one
/// in twenty takes, the worst.
async fn latency(stage: &Stage, jobs: &semel::Client, singles: usize) -> [Duration; 3] {
    let submitted: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let note = submitted.clone();
    let boundary = Boundary::new(move |name| {
        if name == "after submit" {
            note.lock().unwrap().push(now());
        }
    });
    let relay = Relay::new(stage.source.clone(), jobs).boundary(boundary);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move {
        let until = async {
            let _ = stopped.await;
        };
        relay.run_until(until).await
    });
    let client = stage.client().await;
    let mut all = Vec::new();
    tokio::time::sleep(Duration::from_millis(200)).await;
    for n in 0..singles {
        let event = format!(
            "INSERT INTO semel_outbox (id, task, input) VALUES ('single-{n}', 't', '{{\"s\": {n}}}')"
        );
        client.batch_execute(&event).await.unwrap();
        let committed = now();
        while submitted.lock().unwrap().len() <= n {
            assert!(
                committed.elapsed() < Duration::from_secs(30),
                "event {n} is not relayed"
            );
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        all.push(submitted.lock().unwrap()[n].saturating_duration_since(committed));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let _ = stop.send(());
    running.await.unwrap();
    all.sort();
    [
        all[all.len() / 2],
        all[all.len() * 95 / 100],
        *all.last().unwrap(),
    ]
}
