//! A worker from the outside: jobs go in, handlers run, outputs come out (contract 4).

mod worker_stage;

use semel::{Job, JobResult, Task, Worker};

use crate::worker_stage::{on_each_store, until_ended};

const DOUBLE: Task<u64, u64> = Task::new("double");

async fn double(job: Job<u64>, factor: u64) -> JobResult<u64> {
    Ok(job.input * factor)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_run_and_their_outputs_kept() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(DOUBLE, &21).await.expect("submitted");
        let worker = Worker::new(&jobs, 2).task(DOUBLE, double);
        let report = worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        assert_eq!(sent.output().await.expect("an output"), 42);
        assert_eq!(report.completed, 1);
    })
    .await;
}
