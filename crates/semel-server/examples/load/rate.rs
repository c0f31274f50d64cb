//! How many submissions a second, beside the library's own rate in the same run; and memory over a million of them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, JoinSet};

use crate::Verdict;
use crate::process::Served;
use crate::wire::Wire;

const CALLERS: usize = 64;
const LASTING: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;
/// The share of the library's rate that is left over HTTP.
const BAR: f64 = 0.35;

/// The best of some rounds of each, by turns.
pub async fn compare(dir: &Path) -> Vec<Verdict> {
    let (mut library, mut server, mut cost) = (0.0_f64, 0.0_f64, f64::MAX);
    for round in 0..ROUNDS {
        let own = of_library(&dir.join(format!("library-{round}.db"))).await;
        let served = Served::start(&dir.join(format!("server-{round}.db")));
        // Warm: the first requests find nothing in any cache.
        submit_for(&served, Duration::from_millis(500)).await;
        let before = served.processor_time();
        let (rate, requests) = submit_for(&served, LASTING).await;
        let each = (served.processor_time() - before).as_secs_f64() * 1e6 / requests as f64;
        println!("  library {own:.0}/s, server {rate:.0}/s, {each:.1} µs of processor time per request");
        library = library.max(own);
        server = server.max(rate);
        cost = cost.min(each);
    }
    let ratio = server / library;
    vec![Verdict::new(
        ratio >= BAR,
        format!(
            "unique submissions, {CALLERS} connections kept: {server:.0}/s, {ratio:.2} of the library's {library:.0}/s \
             (bar {BAR}), {cost:.1} µs of processor time per request"
        ),
    )]
}

/// A million requests on one server.
pub async fn million(dir: &Path) -> Vec<Verdict> {
    const ALL: u64 = 1_000_000;
    let served = Served::start(&dir.join("million.db"));
    let counted = Arc::new(AtomicU64::new(0));
    let calling = call(&served, counted.clone(), move |n| n < ALL);
    let mut seen = Vec::new();
    while seen.len() < 10 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if counted.load(Ordering::Relaxed) >= (seen.len() as u64 + 1) * ALL / 10 {
            seen.push(served.memory());
        }
    }
    calling.await.unwrap();
    println!("  MiB after each tenth: {seen:.0?}");
    let (early, late) = (seen[2], seen[9]);
    vec![Verdict::new(
        late <= early * 1.1 + 8.0,
        format!("a million submissions: {early:.0} MiB after 300,000, {late:.0} MiB at the end"),
    )]
}

async fn of_library(store: &Path) -> f64 {
    let client = semel::connect(format!("sqlite:{}", store.display()))
        .await
        .unwrap();
    let counted = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, counted) = (client.clone(), counted.clone());
        callers.spawn(async move {
            while begun.elapsed() < LASTING {
                let n = counted.fetch_add(1, Ordering::Relaxed);
                let input = serde_json::json!({"order": n, "note": "x".repeat(100)});
                client
                    .submit_json("load", &input)
                    .idempotency_key(format!("ORD-{n}"))
                    .await
                    .unwrap();
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    counted.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}

/// The rate and how many there were.
async fn submit_for(served: &Served, lasting: Duration) -> (f64, u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let counted = Arc::new(AtomicU64::new(NEXT.load(Ordering::Relaxed)));
    let first = counted.load(Ordering::Relaxed);
    let begun = Instant::now();
    call(served, counted.clone(), move |_| begun.elapsed() < lasting)
        .await
        .unwrap();
    let last = counted.load(Ordering::Relaxed);
    NEXT.store(last, Ordering::Relaxed);
    (
        (last - first) as f64 / begun.elapsed().as_secs_f64(),
        last - first,
    )
}

/// All callers on one thread: the other processor is the server's.
fn call(
    served: &Served,
    counted: Arc<AtomicU64>,
    goes_on: impl Fn(u64) -> bool + Clone + Send + 'static,
) -> JoinHandle<()> {
    let address = served.address.clone();
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let mut callers = JoinSet::new();
            for _ in 0..CALLERS {
                callers.spawn(one_after_another(
                    address.clone(),
                    counted.clone(),
                    goes_on.clone(),
                ));
            }
            while let Some(ended) = callers.join_next().await {
                ended.unwrap();
            }
        });
    })
}

async fn one_after_another(address: String, counted: Arc<AtomicU64>, goes_on: impl Fn(u64) -> bool) {
    let mut wire = Wire::to(&address).await;
    let note = "x".repeat(100);
    loop {
        let n = counted.fetch_add(1, Ordering::Relaxed);
        if !goes_on(n) {
            return;
        }
        let body = format!(
            r#"{{"task":"load","input":{{"order":{n},"note":"{note}"}},"idempotency_key":"ORD-{n}"}}"#
        );
        assert_eq!(wire.submit(&body).await, 201);
    }
}
