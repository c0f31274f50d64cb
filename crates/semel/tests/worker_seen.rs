//! What operators see of work (contract 4.4): progress, log lines, attempts, the workers themselves; and traces.

mod worker_stage;

use std::sync::{Arc, Mutex};

use semel::semel_core::store::{Page, log_feed};
use semel::{Job, JobResult, Task, Worker, fail, millis, secs, workers};
use tokio::sync::Notify;

use crate::worker_stage::{attempts, eventually, job, on_each_store, until_ended};

const LOUD: Task<u64> = Task::new("loud");

async fn lines(jobs: &semel::Client, id: &semel::JobId) -> Vec<String> {
    let feed = jobs
        .store()
        .feed(&log_feed(id), Page::first(100))
        .await
        .expect("an answer");
    let mut lines: Vec<String> = feed
        .items
        .iter()
        .map(|entry| entry.body.read().expect("a text"))
        .collect();
    lines.reverse();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_log_lines_are_seen_while_the_job_runs_and_none_is_lost_at_its_end() {
    async fn loud(job: Job<u64>, go_on: Arc<Notify>) -> JobResult {
        job.log("beginning");
        job.progress(0.25)?;
        go_on.notified().await;
        job.progress(1.0)?;
        job.log(format_args!("{} lines in all", 2));
        Ok(())
    }
    on_each_store(async |jobs| {
        let sent = jobs.submit(LOUD, &0).await.expect("submitted");
        let go_on = Arc::new(Notify::new());
        let worker = Worker::new(&jobs, go_on.clone()).task(LOUD, loud);
        let seen = async {
            // The lease is 30 s: what is said does not wait for a heartbeat.
            eventually("the progress to be seen", async || {
                job(&jobs, sent.id()).await.progress == Some(0.25)
            })
            .await;
            assert_eq!(lines(&jobs, sent.id()).await, ["beginning"]);
            go_on.notify_one();
            until_ended(&jobs, &[sent.id()]).await;
        };
        let report = worker.run_until(seen).await.expect("it worked");
        assert_eq!((report.completed, report.refused_writes), (1, 0));
        assert_eq!(lines(&jobs, sent.id()).await, ["beginning", "2 lines in all"]);
    })
    .await;
}

/// Contract 8.1: progress that is none is a typed error.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_a_number_from_0_to_1() {
    async fn wild(job: Job<u64>, _: ()) -> JobResult {
        assert!(job.progress(-0.1).is_err() && job.progress(1.1).is_err());
        job.progress(f64::NAN).map_err(fail)
    }
    on_each_store(async |jobs| {
        let sent = jobs.submit(LOUD, &0).await.expect("submitted");
        let worker = Worker::new(&jobs, ()).task(LOUD, wild);
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let error = job(&jobs, sent.id()).await.error.expect("it is told").message;
        assert_eq!(error, "progress (NaN): allowed is a number from 0 to 1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_lines_is_bounded_and_long_lines_are_cut() {
    async fn flood(job: Job<u64>, _: ()) -> JobResult {
        job.log("x".repeat(20_000));
        for n in 0..5_000 {
            job.log(n);
        }
        Ok(())
    }
    on_each_store(async |jobs| {
        let sent = jobs.submit(LOUD, &0).await.expect("submitted");
        let worker = Worker::new(&jobs, ()).task(LOUD, flood);
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let newest = lines(&jobs, sent.id()).await.pop().expect("lines");
        assert_eq!(newest, "… 4001 lines too many at once, not kept");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_listed_with_their_errors_and_their_worker() {
    async fn stubborn(job: Job<u64>, _: ()) -> JobResult {
        match job.is_last_attempt() {
            true => Err(fail(format!("gave up at attempt {}", job.attempt()))),
            false => Err(semel::JobError::retry("no").after(millis(1))),
        }
    }
    on_each_store(async |jobs| {
        let sent = jobs.submit(LOUD, &0).max_attempts(2).await.expect("submitted");
        let worker = Worker::new(&jobs, ()).task(LOUD, stubborn).name("billing");
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let seen = attempts(&jobs, sent.id()).await;
        let errors: Vec<_> = seen.iter().map(|attempt| attempt.end.error.as_deref()).collect();
        assert_eq!(errors, [Some("no"), Some("gave up at attempt 2")]);
        let worker = seen[1].worker.as_ref().expect("somebody ran it");
        assert!(worker.as_str().starts_with("billing@"), "{worker}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_workers_are_listed_with_what_they_serve() {
    async fn quiet(_: Job<u64>, _: ()) -> JobResult {
        Ok(())
    }
    on_each_store(async |jobs| {
        let worker = Worker::new(&jobs, ())
            .task(LOUD, quiet)
            .name("billing")
            .version("1.2.3")
            .queues(["fast"])
            .concurrency(3);
        let seen = async {
            eventually("the worker to be listed", async || {
                workers::list(&jobs).await.expect("an answer").len() == 1
            })
            .await;
            let seen = workers::list(&jobs).await.expect("an answer").remove(0);
            assert_eq!(seen.info.name.as_deref(), Some("billing"));
            assert_eq!(seen.info.version.as_deref(), Some("1.2.3"));
            assert_eq!((seen.info.slots, seen.info.pid), (3, std::process::id()));
            assert!(seen.id.starts_with("billing@") && !seen.info.host.is_empty());
            assert!(
                seen.serves("loud", "fast") && !seen.serves("loud", "slow") && !seen.serves("quiet", "fast")
            );
        };
        worker.run_until(seen).await.expect("it worked");
    })
    .await;
}

/// One span per attempt, with the trace that came in the headers.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_a_span_within_the_producers_trace() {
    async fn quiet(job: Job<u64>, _: ()) -> JobResult {
        tracing::info!("inside {}", job.id());
        Ok(())
    }
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_global_default(subscriber);
    on_each_store(async |jobs| {
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let sent = jobs
            .submit(LOUD, &0)
            .header(semel::TRACEPARENT, traceparent)
            .await
            .expect("submitted");
        let worker = Worker::new(&jobs, ()).task(LOUD, quiet).grace(secs(1));
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let text = String::from_utf8(log.0.lock().expect("a lock").clone()).expect("text");
        let inside = format!("inside {}", sent.id());
        let line = text
            .lines()
            .find(|line| line.contains(&inside))
            .expect("the handler's line");
        for part in [
            format!("attempt{{job_id={}", sent.id()),
            "task=loud".to_owned(),
            "attempt=1".to_owned(),
            "trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"".to_owned(),
            "parent_id=\"00f067aa0ba902b7\"".to_owned(),
        ] {
            assert!(line.contains(&part), "{part} in {line}");
        }
    })
    .await;
}

/// What a handler submits goes on with the trace of its job, unless it brings its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_trace_is_carried_on_by_what_a_handler_submits() {
    const NEXT: Task<u64> = Task::new("next");
    async fn submits(job: Job<u64>, jobs: semel::Client) -> JobResult {
        jobs.submit(NEXT, &job.input).await?;
        jobs.submit(NEXT, &job.input)
            .header(semel::TRACEPARENT, "my own")
            .await?;
        Ok(())
    }
    on_each_store(async |jobs| {
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let sent = jobs
            .submit(LOUD, &0)
            .header(semel::TRACEPARENT, traceparent)
            .await;
        let sent = sent.expect("submitted");
        let worker = Worker::new(&jobs, jobs.clone()).task(LOUD, submits);
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let filter = semel::semel_core::store::JobFilter {
            task: Some(semel::Name::new("next").expect("a name")),
            ..Default::default()
        };
        let next = jobs
            .store()
            .jobs(filter, Page::first(10))
            .await
            .expect("an answer")
            .items;
        let mut traces: Vec<&str> = next
            .iter()
            .map(|job| job.headers[semel::TRACEPARENT].as_str())
            .collect();
        traces.sort_unstable();
        assert_eq!(traces, [traceparent, "my own"]);
    })
    .await;
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}
