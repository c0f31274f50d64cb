//! What the processes do that these tests start, stop, wake and kill.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::{Job, JobError, JobResult, Task, Worker, millis, secs};

/// Tells a child from a run of the tests.
pub const WORD: &str = "as-a-child";

/// A job that takes so many milliseconds, and gives the process that ran it.
pub const LONG: Task<u64, u32> = Task::new("long");

/// A job with an effect outside.
pub const EFFECT: Task<u64, u32> = Task::new("effect");

/// A job to be picked up.
pub const HELLO: Task<u64> = Task::new("hello");

/// The lease of a worker that waits for its jobs: long enough for a busy machine to keep it.
pub const PATIENT_LEASE: Duration = secs(4);

pub fn run(arguments: &[String]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = runtime.expect("a runtime").block_on(async {
        match arguments.as_slice() {
            ["long", url, queue] => long(url, queue, secs(1), millis(10)).await,
            ["patient", url, queue] => long(url, queue, PATIENT_LEASE, secs(600)).await,
            ["effects", url, file] => effects(url, file).await,
            ["produce", url, count, pause] => produce(url, count, pause).await,
            other => panic!("{other:?} is no role"),
        }
    });
    done.expect("the child did its part");
    ExitCode::SUCCESS
}

/// Works on one queue until it is told to stop; says what it did.
async fn long(url: &str, queue: &str, lease: Duration, grace: Duration) -> Result<(), semel::Error> {
    async fn sleep(job: Job<u64>, _: ()) -> JobResult<u32> {
        tokio::time::sleep(Duration::from_millis(job.input)).await;
        Ok(std::process::id())
    }
    let jobs = semel::connect(url).await?;
    let worker = Worker::new(&jobs, ())
        .task(LONG, sleep)
        .queues([queue])
        .lease(lease);
    let report = worker.grace(grace).run().await?;
    println!("{} {}", report.refused_writes, report.completed);
    Ok(())
}

/// Works until it is killed; its effects are lines in a file: `key job`.
async fn effects(url: &str, file: &str) -> Result<(), semel::Error> {
    type Outside = Arc<Mutex<std::fs::File>>;
    async fn effect(job: Job<u64>, outside: Outside) -> JobResult<u32> {
        let write = async |key: String| {
            let line = format!("{key} {}\n", job.id());
            outside.lock().expect("a lock").write_all(line.as_bytes())?;
            tokio::time::sleep(millis(job.input)).await;
            Ok::<_, JobError>(std::process::id())
        };
        job.step("write").retry_with_key(write).await
    }
    let outside = std::fs::OpenOptions::new().append(true).create(true).open(file);
    let outside = Arc::new(Mutex::new(outside.expect("a file")));
    let jobs = semel::connect(url).await?;
    let worker = Worker::new(&jobs, outside).task(EFFECT, effect).lease(secs(1));
    worker.concurrency(8).run().await?;
    Ok(())
}

/// Submits jobs with pauses in between.
async fn produce(url: &str, count: &str, pause: &str) -> Result<(), semel::Error> {
    let jobs = semel::connect(url).await?;
    let (count, pause): (u64, u64) = (count.parse().expect("a number"), pause.parse().expect("a number"));
    for n in 0..count {
        jobs.submit(HELLO, &n).await?;
        // An odd pause, so that no rhythm of the store is met by chance.
        tokio::time::sleep(millis(pause + n * 7 % 11)).await;
    }
    Ok(())
}
