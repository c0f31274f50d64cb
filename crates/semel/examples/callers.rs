//! How many submissions a second 64 concurrent callers get through a client, and through the store itself.
//!
//! `cargo run -p semel --example callers [rounds] [callers]`

use std::sync::Arc;
use std::time::Duration;

use semel::{Client, Task};
use tokio::time::Instant;

const SYNC: Task<u64> = Task::new("sync_user");
const EACH: u64 = 150;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Store,
    Client,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let rounds = arguments.next().unwrap_or(5);
    let callers = arguments.next().unwrap_or(64);
    for unique in [false, true] {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (at, way) in [Way::Store, Way::Client].into_iter().enumerate() {
                let directory = tempfile::tempdir()?;
                let url = format!("sqlite:{}", directory.path().join("jobs.db").display());
                let jobs = semel::connect(url).await?;
                rates[at].push(measure(jobs, way, callers, unique).await);
            }
        }
        let mut ratios: Vec<f64> = rates[1]
            .iter()
            .zip(&rates[0])
            .map(|(client, store)| client.0 / store.0)
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!("client / store, paired: median {:.2}", ratios[ratios.len() / 2]);
        for (way, rates) in ["store ", "client"].iter().zip(&mut rates) {
            rates.sort_by(|a: &(f64, _), b| a.0.total_cmp(&b.0));
            let (rate, p50): (f64, Duration) = rates[rates.len() / 2];
            let best = rates.last().map_or(rate, |best| best.0);
            println!(
                "{way} callers={callers} unique={unique}: median {rate:>7.0} best {best:>7.0} a second, p50 {p50:?}"
            );
        }
    }
    Ok(())
}

async fn measure(jobs: Client, way: Way, callers: u64, unique: bool) -> (f64, Duration) {
    let jobs = Arc::new(jobs);
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let jobs = jobs.clone();
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(EACH as usize);
            for n in 0..EACH {
                let began = Instant::now();
                let submit = jobs.submit(SYNC, &(caller * EACH + n));
                let submit = if unique { submit.unique() } else { submit };
                match way {
                    Way::Client => drop(submit.await.expect("an answer")),
                    Way::Store => {
                        let submission = submit.submission().expect("a submission");
                        drop(jobs.store().submit(vec![submission]).await.expect("an answer"));
                    }
                }
                times.push(began.elapsed());
            }
            times
        });
    }
    let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    times.sort();
    (rate, times[times.len() / 2])
}
