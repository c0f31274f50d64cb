//! What goes wrong, and what becomes of it: retried, failed for good, put off, dead and replayed.
//!
//! `cargo run -p semel --example retries`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use semel::{Client, Error, Job, JobError, JobResult, State, Task, Worker, fail, millis, snooze};

const FETCH: Task<String, u32> = Task::new("fetch");
const PARSE: Task<String, u32> = Task::new("parse");
const REPORT: Task<String, u32> = Task::new("report");
const MAIL: Task<String> = Task::new("mail").max_attempts(2);

#[derive(Clone, Default)]
struct Outside {
    reports_asked_for: Arc<AtomicU32>,
    mail_is_up: Arc<AtomicBool>,
}

/// Any error is tried again. Here after a tenth of a second instead of the usual backoff of a second and more.
async fn fetch(job: Job<String>, _: Outside) -> JobResult<u32> {
    match job.attempt() {
        1 | 2 => Err(JobError::retry("503 from the server").after(millis(100))),
        attempt => Ok(attempt),
    }
}

/// An input that is no number will be none tomorrow either.
async fn parse(job: Job<String>, _: Outside) -> JobResult<u32> {
    job.input
        .parse()
        .map_err(|error| fail(format!("{:?}: {error}", job.input)))
}

/// Not ready is no error: it costs no attempt.
async fn report(job: Job<String>, outside: Outside) -> JobResult<u32> {
    if outside.reports_asked_for.fetch_add(1, Ordering::Relaxed) < 3 {
        return Err(snooze(millis(50)));
    }
    Ok(job.attempt())
}

async fn mail(_job: Job<String>, outside: Outside) -> JobResult {
    match outside.mail_is_up.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(JobError::retry("connection refused").after(millis(50))),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", place.path().join("jobs.db").display());
    let jobs = semel::connect(&url).await?;
    let outside = Outside::default();
    let mut told = Ok(());
    Worker::new(&jobs, outside.clone())
        .task(FETCH, fetch)
        .task(PARSE, parse)
        .task(REPORT, report)
        .task(MAIL, mail)
        .run_until(async { told = story(&jobs, &outside).await })
        .await?;
    told
}

async fn story(jobs: &Client, outside: &Outside) -> Result<(), Error> {
    let fetched = jobs
        .submit(FETCH, &"https://example.com".to_owned())
        .output()
        .await?;
    println!("fetch: two errors, then complete in attempt {fetched}");
    assert_eq!(fetched, 3);

    let bad = jobs.submit(PARSE, &"seven".to_owned()).await?.wait().await?;
    println!(
        "parse: {} in attempt {} of {}",
        bad.state.word(),
        bad.attempt,
        bad.max_attempts
    );
    assert_eq!((bad.state, bad.attempt), (State::Failed, 1));

    let snoozed = jobs.submit(REPORT, &"q3".to_owned()).output().await?;
    println!("report: put off three times, complete in attempt {snoozed}");
    assert_eq!(snoozed, 1);

    let dead = jobs
        .submit(MAIL, &"a@example.com".to_owned())
        .await?
        .wait()
        .await?;
    let error = dead.error.map(|error| error.message).unwrap_or_default();
    println!("mail: a dead letter after {} attempts: {error}", dead.attempt);
    assert_eq!((dead.state, dead.attempt), (State::Failed, 2));

    outside.mail_is_up.store(true, Ordering::Relaxed);
    let operator = jobs.operate("alice").because("the mail server is back");
    let replay = operator.replay(&dead.id).await?;
    let again = operator.replay(&dead.id).await?;
    assert_eq!(replay.id, again.id, "replaying twice gives one job");
    let done = jobs.job(replay.id.as_str())?.wait().await?;
    println!(
        "mail: replayed as another job of the same origin, {}",
        done.state.word()
    );
    assert_eq!((done.state, done.origin), (State::Complete, dead.id));
    Ok(())
}
