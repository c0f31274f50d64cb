//! A worker with nothing to do.

use std::time::Duration;

use semel::workers;

use crate::place::{Place, eventually};

pub async fn campaign(full: bool) -> String {
    let place = Place::new().await;
    let worker = place.start("long", &["nothing"]);
    eventually("the worker to register", async || {
        workers::list(&place.jobs).await.expect("an answer").len() == 1
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let window = Duration::from_secs(if full { 30 } else { 2 });
    // What else the machine does can only add to it: the best of a few windows is what the worker itself costs.
    let mut share = f64::MAX;
    for _ in 0..5 {
        let before = cpu(worker.pid());
        tokio::time::sleep(window).await;
        let spent = cpu(worker.pid()) - before;
        share = share.min(spent.as_secs_f64() / window.as_secs_f64() * 100.0);
        if share < 1.0 {
            break;
        }
    }
    assert!(share < 1.0, "an idle worker takes {share:.2} % of a core");
    format!("idle: {share:.2} % of a core over {window:?}")
}

/// The time all threads of a process have had a core.
fn cpu(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let nanos = threads.map(|thread| {
        let path = thread.expect("a thread").path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first = text
            .split_whitespace()
            .next()
            .and_then(|number| number.parse().ok());
        first.unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}
