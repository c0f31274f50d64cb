//! Workers that are killed from outside, in the middle of things: every job ends exactly once (I2, I10, I11, I17).

use std::collections::{BTreeMap, BTreeSet};

use semel::semel_core::counters::Counter;
use semel::semel_core::job::State;
use semel::semel_core::store::{JobFilter, Page};
use semel::{Client, millis};

use crate::child::EFFECT;
use crate::place::{Place, Process, eventually};

/// Workers at a time.
const TOGETHER: usize = 3;

/// Jobs for each kill: there is always work in hand.
const PER_KILL: usize = 60;

pub async fn campaign(full: bool) -> String {
    // Few kills say little about a share.
    let (kills, least) = if full { (200, 8) } else { (12, 5) };
    let place = Place::new().await;
    let file = place.file("effects").display().to_string();
    let mut workers: Vec<Process> = (0..TOGETHER).map(|_| place.start("effects", &[&file])).collect();
    let mut sent = 0;
    let mut hit = 0;
    for kill in 0..kills {
        sent += submit(&place.jobs, kill).await;
        tokio::time::sleep(millis(20 + (kill as u64 * 37) % 60)).await;
        let victim = workers.remove(0);
        let pid = format!("-{}-", victim.pid());
        victim.kill();
        hit += usize::from(has_work(&place.jobs, &pid).await);
        workers.push(place.start("effects", &[&file]));
    }
    let done = async || counted(&place.jobs, Counter::Completed).await >= sent as i64;
    eventually("every job to end", done).await;
    drop(workers);
    let repeated = check(&place, sent).await;
    assert!(
        hit * 10 >= kills * least,
        "only {hit} of {kills} kills hit a worker with jobs in hand"
    );
    let stale = counted(&place.jobs, Counter::StaleWrites).await;
    format!(
        "kills: {kills} (-9), of which {hit} hit a worker with jobs in hand; {sent} jobs, each complete exactly once; \
         one key per job outside, effects repeated under it: {repeated}; stale writes refused: {stale}"
    )
}

async fn submit(jobs: &Client, round: usize) -> usize {
    let batch = (0..PER_KILL).map(|n| {
        let length = ((round * 7 + n) % 40) as u64;
        jobs.submit(EFFECT, &length).max_deliveries(1_000)
    });
    for answer in jobs.submit_many(batch).await {
        answer.expect("submitted");
    }
    PER_KILL
}

/// Whether a killed worker had jobs in hand.
async fn has_work(jobs: &Client, pid: &str) -> bool {
    let filter = JobFilter {
        state: Some(State::Running),
        ..JobFilter::default()
    };
    let running = jobs
        .store()
        .jobs(filter, Page::first(500))
        .await
        .expect("an answer");
    let names = running.items.iter().filter_map(|job| job.worker.as_ref());
    names.into_iter().any(|name| name.as_str().contains(pid))
}

async fn counted(jobs: &Client, counter: Counter) -> i64 {
    let stats = jobs.store().stats().await.expect("an answer");
    stats.raw.get(counter)
}

/// Looks at every job and every effect; says how many effects were repeated under their key.
async fn check(place: &Place, sent: usize) -> usize {
    let jobs = &place.jobs;
    assert_eq!(counted(jobs, Counter::Accepted).await, sent as i64);
    assert_eq!(counted(jobs, Counter::Completed).await, sent as i64);
    for counter in [Counter::Failed, Counter::Cancelled, Counter::Retried] {
        assert_eq!(counted(jobs, counter).await, 0, "{counter:?}");
    }
    let stats = jobs.store().stats().await.expect("an answer");
    let others = stats
        .jobs
        .iter()
        .filter(|(state, n)| **state != State::Complete && **n > 0);
    assert_eq!(others.count(), 0, "{:?}", stats.jobs);
    assert_eq!(stats.steps_in_doubt, 0);
    let text = std::fs::read_to_string(place.file("effects")).expect("effects");
    let mut keys = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut lines = 0;
    for line in text.lines() {
        let (key, job) = line.split_once(' ').expect("a whole line");
        keys.entry(job).or_default().insert(key);
        lines += 1;
    }
    assert_eq!(keys.len(), sent, "every job had its effect");
    assert!(
        keys.values().all(|of_job| of_job.len() == 1),
        "a job used two keys"
    );
    lines - sent
}
