//! How long a caller waits when the store is busy but not overrun.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::rig::Rig;
use crate::rounds::rate;
use crate::stopwatch::Stopwatch;
use crate::subjects::Callers;

/// How often it is looked whether calls are due: timers of the runtime are too coarse for that.
const TICK: Duration = Duration::from_micros(200);

/// What was seen.
pub(crate) struct Paced {
    /// Jobs per second that were really submitted.
    pub(crate) rate: f64,
    latencies: Histogram<u64>,
}

impl Paced {
    /// So many of the calls took no longer.
    pub(crate) fn millis(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1_000.0
    }
}

/// Does something with each item at a rate; at most as many calls at once as there are callers.
pub(crate) fn paced<T, F>(
    rig: &Rig,
    items: Vec<T>,
    per_second: f64,
    act: impl Fn(T) -> F + Clone + Send + 'static,
) -> Result<Paced>
where
    T: Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let jobs = items.len();
    let due = Arc::new(Semaphore::new(0));
    let waiting = Arc::new(Mutex::new(items));
    let pacer = {
        let due = due.clone();
        std::thread::spawn(move || pace(&due, per_second, jobs))
    };
    let watch = Stopwatch::start();
    let latencies = rig.block_on(async {
        let mut callers = JoinSet::new();
        for _ in 0..Callers::COUNT {
            callers.spawn_on(call(act.clone(), due.clone(), waiting.clone()), rig.handle());
        }
        let mut latencies = Histogram::new(3)?;
        while let Some(caller) = callers.join_next().await {
            for latency in caller.context("a caller panicked")?? {
                latencies.record(latency)?;
            }
        }
        anyhow::Ok(latencies)
    })?;
    let rate = rate(jobs, watch.elapsed());
    pacer.join().ok().context("the pacer panicked")?;
    Ok(Paced { rate, latencies })
}

/// Lets calls begin when they are due; at the end every caller, so that it sees that nothing is left.
fn pace(due: &Semaphore, per_second: f64, jobs: usize) {
    let watch = Stopwatch::start();
    let mut given = 0;
    while given < jobs {
        std::thread::sleep(TICK);
        let now = ((watch.elapsed().as_secs_f64() * per_second) as usize).min(jobs);
        due.add_permits(now - given);
        given = now;
    }
    due.add_permits(Callers::COUNT);
}

async fn call<T, F: Future<Output = Result<()>>>(
    act: impl Fn(T) -> F,
    due: Arc<Semaphore>,
    waiting: Arc<Mutex<Vec<T>>>,
) -> Result<Vec<u64>> {
    let mut latencies = Vec::new();
    loop {
        due.acquire().await?.forget();
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(item) = next else {
            return Ok(latencies);
        };
        let watch = Stopwatch::start();
        act(item).await?;
        latencies.push(u64::try_from(watch.elapsed().as_micros())?);
    }
}
