//! A worker process that dies between the charge and its record: the customer is still charged once.
//!
//! `cargo run -p semel --example steps` (starts itself a second time, as the worker that dies)

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use semel::{Client, Error, Job, JobError, JobResult, Task, Worker, millis, secs};

const CHARGE: Task<u64, String> = Task::new("charge_customer");

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The world outside. A bank that recognises a key it has seen, as the real ones do, and a printer.
#[derive(Clone)]
struct Outside {
    place: PathBuf,
    dies: bool,
}

impl Outside {
    fn note(&self, file: &str, line: &str) -> std::io::Result<()> {
        let path = self.place.join(file);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{line}")
    }

    fn noted(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.place.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn charge(&self, key: &str) -> std::io::Result<String> {
        self.note("bank", key)?;
        if self.dies {
            // The money has moved, and nobody has written it down.
            std::process::abort();
        }
        Ok(format!("receipt-{}", &key[..8]))
    }
}

async fn charge(job: Job<u64>, outside: Outside) -> JobResult<String> {
    let receipt = job
        .step("charge")
        .retry_with_key(async |key| outside.charge(&key))
        .await?;
    job.step("print")
        .park(async || outside.note("printer", &receipt))
        .await?;
    if job.attempt() == 1 {
        return Err(JobError::retry("something else went wrong").after(millis(100)));
    }
    Ok(receipt)
}

async fn worker(jobs: &Client, outside: Outside, until: impl Future<Output = ()>) -> Result<(), Error> {
    let worker = Worker::new(jobs, outside).task(CHARGE, charge).lease(secs(1));
    worker.run_until(until).await.map(drop)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match std::env::args().nth(1) {
        Some(place) => die(Path::new(&place)).await,
        None => live().await,
    }
}

fn url(place: &Path) -> String {
    format!("sqlite:{}", place.join("jobs.db").display())
}

/// The worker that dies in the middle of the step.
async fn die(place: &Path) -> Result<(), Failure> {
    let jobs = semel::connect(url(place)).existing().await?;
    let outside = Outside {
        place: place.to_owned(),
        dies: true,
    };
    worker(&jobs, outside, std::future::pending()).await?;
    Ok(())
}

async fn live() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let place = directory.path();
    let jobs = semel::connect(url(place)).await?;
    let sent = jobs.submit(CHARGE, &4_200).idempotency_key("ORD-123").await?;

    let ended = tokio::process::Command::new(std::env::current_exe()?)
        .arg(place)
        .status()
        .await?;
    println!("the first worker died: {ended}");
    assert!(!ended.success());

    let outside = Outside {
        place: place.to_owned(),
        dies: false,
    };
    let until_done = async {
        sent.wait().await.ok();
    };
    worker(&jobs, outside.clone(), until_done).await?;
    println!("the second worker finished the job: {}", sent.output().await?);

    let requests = outside.noted("bank");
    let charges: BTreeSet<&String> = requests.iter().collect();
    println!(
        "the bank was asked {} times with {} key",
        requests.len(),
        charges.len()
    );
    assert_eq!(
        (requests.len(), charges.len()),
        (2, 1),
        "asked twice, charged once"
    );

    let printed = outside.noted("printer").len();
    println!("the receipt was printed {printed} time, though the job ran again after it");
    assert_eq!(printed, 1);

    for step in jobs.job(sent.id().as_str())?.steps().await? {
        println!("step {}: {:?}", step.name, step.state);
        assert!(!step.in_doubt);
    }
    Ok(())
}
