//! A store with a million jobs and a million keys: how long every page and list takes.

use std::path::Path;
use std::time::{Duration, Instant};

use semel::SubmitRequest;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, KeyFilter, Page, Settlement};
use semel_core::time::Millis;

use crate::Verdict;
use crate::process::Served;
use crate::wire::{Wire, p99};

const JOBS: usize = 1_000_000;
/// Each is asked for so often, over more than a second: what is remembered for a second is made anew within.
const TIMES: usize = 200;
const PAUSE: Duration = Duration::from_millis(8);

/// Fills a store, then looks at every page.
pub async fn look(dir: &Path) -> Vec<Verdict> {
    let store = dir.join("large.db");
    let begun = Instant::now();
    let (job, digest) = fill(&store).await;
    println!("  {JOBS} jobs and keys in {:.0} s", begun.elapsed().as_secs_f64());
    let served = Served::start(&store);
    let mut wire = Wire::to(&served.address).await;
    // The server learns from the first two looks that it should not let anybody wait for them.
    for _ in 0..2 {
        let begun = Instant::now();
        assert_eq!(wire.get("/v1/stats").await, 200);
        println!("  a look at the whole store took {:.0} ms", ms(begun.elapsed()));
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
    let pages = [
        "/",
        "/keys",
        "/keys?text=ORD-4711",
        "/keys?state=all",
        "/jobs",
        "/jobs?state=queued",
        "/jobs?state=failed",
        "/jobs?task=task-3",
        "/jobs?key=ORD-4711",
        "/queues",
        "/workers",
        "/duplicates",
        "/dead-letters",
        "/schedules",
        "/explain",
        "/in-doubt",
        "/configuration",
        "/audit",
        "/v1/jobs",
        "/v1/keys",
        "/v1/duplicates",
        "/v1/dead-letters",
        "/v1/queues",
        "/v1/tasks",
        "/v1/alerts",
        "/v1/advice",
        "/v1/stats/history",
        "/metrics",
    ];
    let mut paths: Vec<String> = pages.map(str::to_owned).to_vec();
    paths.extend([format!("/jobs/{job}"), format!("/keys/{digest}")]);
    let mut verdicts = Vec::new();
    for path in &paths {
        verdicts.push(took(&mut wire, path, Duration::from_millis(100)).await);
    }
    verdicts.push(took(&mut wire, "/v1/stats", Duration::from_millis(5)).await);
    verdicts
}

async fn took(wire: &mut Wire, path: &str, bar: Duration) -> Verdict {
    let mut times = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        assert_eq!(
            wire.get(path).await,
            200,
            "{path}: {}",
            String::from_utf8_lossy(wire.body())
        );
        times.push(begun.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    times.sort_unstable();
    let (middle, slow) = (times[TIMES / 2], p99(times));
    Verdict::new(
        slow < bar,
        format!(
            "{path}: p50 {:.1} ms, p99 {:.1} ms (bar {} ms)",
            ms(middle),
            ms(slow),
            bar.as_millis()
        ),
    )
}

fn ms(length: Duration) -> f64 {
    length.as_secs_f64() * 1e3
}

/// Jobs with a key each, some of them complete and some failed; one of the jobs and its key.
async fn fill(file: &Path) -> (String, String) {
    let client = semel::connect(format!("sqlite:{}", file.display()))
        .await
        .unwrap();
    let store = client.store();
    for first in (0..JOBS).step_by(1_000) {
        let batch = (first..first + 1_000).map(|n| {
            let input = Json::new(format!(r#"{{"order":{n}}}"#)).unwrap();
            let mut request = SubmitRequest::new(format!("task-{}", n % 20), input);
            request.queue = Some(format!("queue-{}", n % 7));
            request.idempotency_key = Some(format!("ORD-{n}"));
            request.submission().unwrap()
        });
        store.submit(batch.collect()).await.unwrap();
        if first % 10_000 == 0 {
            settle_some(&client).await;
        }
    }
    // A few that were absorbed.
    for n in 0..200 {
        let input = serde_json::json!({"order": n % 10});
        let sent = client.submit_json(&format!("task-{}", n % 10), &input);
        let sent = sent
            .queue(format!("queue-{}", (n % 10) % 7))
            .idempotency_key(format!("ORD-{}", n % 10));
        assert!(sent.await.unwrap().is_duplicate());
    }
    let keys = store.keys(KeyFilter::default(), Page::first(1)).await.unwrap();
    let row = &keys.items[0];
    (row.holder.id.to_string(), row.key.digest.to_string())
}

async fn settle_some(client: &semel::Client) {
    let store = client.store();
    let fresh = SubmitRequest::new("fresh", Json::null()).submission().unwrap();
    let request = ClaimRequest {
        token: fresh.token,
        worker: Name::new("filler").unwrap(),
        queues: Vec::new(),
        tasks: Vec::new(),
        max: 500,
        lease: Millis::from_secs(60),
    };
    let claimed = store.claim(request).await.unwrap();
    let settlements = claimed.iter().enumerate().map(|(n, claimed)| Settlement {
        id: claimed.job.id.clone(),
        fence: claimed.fence,
        result: match n % 50 {
            0 => Settle::Fail {
                error: format!("card {n} expired"),
            },
            _ => Settle::Complete { output: None },
        },
    });
    store.settle(settlements.collect()).await.unwrap();
}
