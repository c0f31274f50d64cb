//! A worker from the outside: jobs go in, handlers run, and end in one of the ways of contract 4.2.

mod worker_stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel::semel_core::lifecycle::AttemptResult;
use semel::{Client, Job, JobError, JobResult, State, Task, Worker, fail, millis, secs, snooze};
use serde_json::{Value, json};

use crate::worker_stage::{attempts, job, on_each_store, until_ended, until_state};

const DOUBLE: Task<u64, u64> = Task::new("double");
const ODD: Task<String, String> = Task::new("odd");

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

/// Does as its input says, once; from the second attempt on it succeeds.
async fn odd(job: Job<String>, _: ()) -> JobResult<String> {
    let first = job.attempt() == 1 && !job.headers().contains_key("always");
    match job.input.as_str() {
        "error" if first => Err("the other side is busy")?,
        "always" => Err(std::io::Error::other("no route to host"))?,
        "soon" if first => Err(JobError::retry("not yet").after(millis(1)))?,
        "fail" => Err(fail("card expired")),
        "cancel" => Err(JobError::cancelled()),
        "panic" if first => panic!("index out of bounds"),
        "slow" if first => {
            tokio::time::sleep(secs(60)).await;
            Ok("too late".to_owned())
        }
        "large" => Ok("x".repeat(300_000)),
        other => Ok(format!("{other} done")),
    }
}

/// Runs one job until it is in a state, and says what it was by then.
async fn run_to(jobs: &Client, input: &str, state: State) -> semel::view::Job {
    let sent = jobs
        .submit(ODD, &input.to_owned())
        .timeout(millis(100))
        .await
        .expect("submitted");
    let worker = Worker::new(jobs, ()).task(ODD, odd);
    let report = worker.run_until(until_state(jobs, sent.id(), state)).await;
    report.expect("it worked");
    job(jobs, sent.id()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_tried_again_after_the_backoff_and_costs_an_attempt() {
    on_each_store(async |jobs| {
        let waiting = run_to(&jobs, "error", State::Scheduled).await;
        assert_eq!(waiting.attempt, 1);
        assert_eq!(
            waiting.error.expect("it is told").message,
            "the other side is busy"
        );
        let ended = &attempts(&jobs, &waiting.id).await[0].end;
        assert_eq!(ended.result, AttemptResult::Error);
        let wait = waiting.run_at.since(ended.ended_at).as_millis();
        assert!((800..=1_200).contains(&wait), "1 s ± 20 %, not {wait} ms");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_may_say_when_to_try_again() {
    on_each_store(async |jobs| {
        let done = run_to(&jobs, "soon", State::Complete).await;
        assert_eq!(done.attempt, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_attempt_makes_a_dead_letter() {
    on_each_store(async |jobs| {
        let sent = jobs
            .submit(ODD, &"always".to_owned())
            .max_attempts(1)
            .await
            .expect("submitted");
        let worker = Worker::new(&jobs, ()).task(ODD, odd);
        let report = worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let ended = job(&jobs, sent.id()).await;
        assert_eq!((ended.state, report.failed), (State::Failed, 1));
        assert_eq!(ended.error.expect("it is told").message, "no route to host");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fatal_error_is_not_tried_again() {
    on_each_store(async |jobs| {
        let ended = run_to(&jobs, "fail", State::Failed).await;
        assert_eq!(ended.attempt, 1);
        assert_eq!(ended.error.expect("it is told").message, "card expired");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_say_that_the_job_is_no_longer_wanted() {
    on_each_store(async |jobs| {
        let ended = run_to(&jobs, "cancel", State::Cancelled).await;
        assert_eq!(
            attempts(&jobs, &ended.id).await[0].end.result,
            AttemptResult::Cancelled
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_and_harms_nothing_else() {
    on_each_store(async |jobs| {
        let waiting = run_to(&jobs, "panic", State::Scheduled).await;
        let error = waiting.error.expect("it is told").message;
        assert_eq!(error, "the handler panicked: index out of bounds");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_too_long_is_an_error() {
    on_each_store(async |jobs| {
        let waiting = run_to(&jobs, "slow", State::Scheduled).await;
        let error = waiting.error.expect("it is told").message;
        assert!(error.contains("longer than its timeout of 100ms"), "{error}");
    })
    .await;
}

/// Contract 1.7: a snooze costs neither an attempt nor a delivery.
#[tokio::test(flavor = "multi_thread")]
async fn a_snooze_costs_nothing() {
    async fn snoozer(job: Job<u64>, seen: Arc<AtomicUsize>) -> JobResult<u64> {
        if seen.fetch_add(1, Ordering::SeqCst) < 3 {
            return Err(snooze(millis(5)));
        }
        Ok(u64::from(job.attempt()))
    }
    on_each_store(async |jobs| {
        let sent = jobs.submit(DOUBLE, &1).max_attempts(1).await.expect("submitted");
        let worker = Worker::new(&jobs, Arc::default()).task(DOUBLE, snoozer);
        let report = worker.run_until(until_ended(&jobs, &[sent.id()])).await;
        assert_eq!(report.expect("it worked").snoozed, 3);
        let done = job(&jobs, sent.id()).await;
        assert_eq!(
            (done.state, done.attempt, done.deliveries),
            (State::Complete, 1, 0)
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_too_large_fails_with_a_sentence() {
    on_each_store(async |jobs| {
        let ended = run_to(&jobs, "large", State::Failed).await;
        let error = ended.error.expect("it is told").message;
        assert!(
            error.contains("ended well, but its output cannot be kept"),
            "{error}"
        );
        assert!(error.contains("hint: keep large things elsewhere"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_no_json_fails_with_a_sentence() {
    async fn pairs(_: Job<u64>, _: ()) -> JobResult<std::collections::HashMap<(u8, u8), u8>> {
        Ok([((1, 2), 3)].into())
    }
    const PAIRS: Task<u64, std::collections::HashMap<(u8, u8), u8>> = Task::new("pairs");
    on_each_store(async |jobs| {
        let sent = jobs.submit(PAIRS, &1).await.expect("submitted");
        let worker = Worker::new(&jobs, ()).task(PAIRS, pairs);
        let report = worker.run_until(until_ended(&jobs, &[sent.id()])).await;
        assert_eq!(report.expect("it worked").failed, 1);
        let error = job(&jobs, sent.id()).await.error.expect("it is told").message;
        assert!(error.contains("something that can be written as JSON"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_the_handler_cannot_read_is_an_error_that_names_the_task() {
    on_each_store(async |jobs| {
        let sent = jobs
            .submit_json("double", &json!({"no": "number"}))
            .await
            .expect("submitted");
        let worker = Worker::new(&jobs, 2).task(DOUBLE, double);
        let report = worker
            .run_until(until_state(&jobs, sent.id(), State::Scheduled))
            .await;
        assert_eq!(report.expect("it worked").retried, 1);
        let error = job(&jobs, sent.id()).await.error.expect("it is told").message;
        assert!(
            error.contains("not what the handler of task double takes"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_may_be_known_by_name_only() {
    async fn swap(job: Job<Value>, _: ()) -> JobResult<Value> {
        Ok(json!([job.input[1], job.input[0]]))
    }
    on_each_store(async |jobs| {
        let sent = jobs
            .submit_json("swap", &json!([1, "b"]))
            .await
            .expect("submitted");
        let name = format!("sw{}", "ap");
        let worker = Worker::new(&jobs, ()).task_json(name, swap);
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        assert_eq!(sent.output().await.expect("an output"), json!(["b", 1]));
    })
    .await;
}

/// A claim names its tasks, so a job that this worker has no handler for is never taken from one that has.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_other_tasks_and_queues_are_left_alone() {
    on_each_store(async |jobs| {
        let other_task = jobs.submit(ODD, &"plain".to_owned()).await.expect("submitted");
        let other_queue = jobs
            .submit(DOUBLE, &3)
            .queue("elsewhere")
            .await
            .expect("submitted");
        let mine = jobs.submit(DOUBLE, &4).queue("here").await.expect("submitted");
        let worker = Worker::new(&jobs, 2)
            .task(DOUBLE, double)
            .queues(["here", "there"]);
        let report = worker
            .run_until(until_ended(&jobs, &[mine.id()]))
            .await
            .expect("it worked");
        assert_eq!(report.completed, 1);
        for left in [other_task.id(), other_queue.id()] {
            assert_eq!(job(&jobs, left).await.state, State::Queued);
        }
    })
    .await;
}

/// Contract 4.1: priority first, larger first; then in order of arrival.
#[tokio::test(flavor = "multi_thread")]
async fn the_most_urgent_jobs_run_first() {
    async fn note(job: Job<u64>, seen: Arc<std::sync::Mutex<Vec<u64>>>) -> JobResult<u64> {
        seen.lock().expect("a lock").push(job.input);
        Ok(0)
    }
    on_each_store(async |jobs| {
        let mut sent = Vec::new();
        for (input, priority) in [(1, 0), (2, 5), (3, -5), (4, 5)] {
            sent.push(
                jobs.submit(DOUBLE, &input)
                    .priority(priority)
                    .await
                    .expect("submitted"),
            );
        }
        let seen = Arc::default();
        let worker = Worker::new(&jobs, Arc::clone(&seen))
            .task(DOUBLE, note)
            .concurrency(1);
        let ids: Vec<_> = sent.iter().map(|sent| sent.id()).collect();
        worker
            .run_until(until_ended(&jobs, &ids))
            .await
            .expect("it worked");
        assert_eq!(*seen.lock().expect("a lock"), [2, 4, 1, 3]);
    })
    .await;
}

/// Counts how many handlers run at once, in all and of one task.
#[derive(Clone, Default)]
struct Gauge {
    now: Arc<[AtomicUsize; 2]>,
    most: Arc<[AtomicUsize; 2]>,
}

impl Gauge {
    async fn held(&self, which: usize) {
        let now = self.now[which].fetch_add(1, Ordering::SeqCst) + 1;
        self.most[which].fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.now[which].fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_is_bounded_in_all_and_per_task() {
    async fn any(_: Job<u64>, gauge: Gauge) -> JobResult<u64> {
        gauge.held(0).await;
        Ok(0)
    }
    async fn scarce(_: Job<String>, gauge: Gauge) -> JobResult<String> {
        gauge.held(1).await;
        Ok(String::new())
    }
    on_each_store(async |jobs| {
        let mut sent = Vec::new();
        for n in 0..60 {
            sent.push(jobs.submit(DOUBLE, &n).await.expect("submitted").id().clone());
            sent.push(
                jobs.submit(ODD, &n.to_string())
                    .await
                    .expect("submitted")
                    .id()
                    .clone(),
            );
        }
        let gauge = Gauge::default();
        let worker = Worker::new(&jobs, gauge.clone())
            .task(DOUBLE, any)
            .task(ODD, scarce)
            .concurrency(8)
            .task_concurrency("odd", 2);
        let ids: Vec<_> = sent.iter().collect();
        let report = worker
            .run_until(until_ended(&jobs, &ids))
            .await
            .expect("it worked");
        let most = |which: usize| gauge.most[which].load(Ordering::SeqCst);
        assert_eq!(report.completed, 120);
        assert!(most(0) <= 8 && most(0) >= 5, "{} of 8 at once", most(0));
        assert_eq!(most(1), 2, "the scarce task fills its own bound and no more");
    })
    .await;
}

/// A flood of one task does not keep a task with a bound of its own from being served.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_its_own_bound_is_not_starved() {
    async fn flood(_: Job<u64>, done: Arc<AtomicUsize>) -> JobResult<u64> {
        tokio::time::sleep(millis(2)).await;
        done.fetch_add(1, Ordering::SeqCst);
        Ok(0)
    }
    async fn scarce(_: Job<String>, done: Arc<AtomicUsize>) -> JobResult<String> {
        Ok(done.load(Ordering::SeqCst).to_string())
    }
    on_each_store(async |jobs| {
        let batch = (0..600).map(|n| jobs.submit(DOUBLE, &n));
        for answer in jobs.submit_many(batch).await {
            answer.expect("submitted");
        }
        let sent = jobs.submit(ODD, &"last".to_owned()).await.expect("submitted");
        let worker = Worker::new(&jobs, Arc::default())
            .task(DOUBLE, flood)
            .task(ODD, scarce)
            .concurrency(2)
            .task_concurrency("odd", 1);
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let before: usize = sent.output().await.expect("an output").parse().expect("a number");
        assert!(before < 300, "it waited for {before} jobs of the flood");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_go_around_every_handler_the_last_one_outermost() {
    type Notes = Arc<std::sync::Mutex<Vec<String>>>;
    async fn inner(_: Job<u64>, notes: Notes) -> JobResult<u64> {
        notes.lock().expect("a lock").push("handler".to_owned());
        Err("plain")?
    }
    on_each_store(async |jobs| {
        let sent = jobs.submit(DOUBLE, &1).await.expect("submitted");
        let notes = Notes::default();
        let (first, second) = (notes.clone(), notes.clone());
        let worker = Worker::new(&jobs, notes.clone())
            .task(DOUBLE, inner)
            .layer(move |attempt, next| {
                let notes = first.clone();
                async move {
                    notes
                        .lock()
                        .expect("a lock")
                        .push(format!("first, {}", attempt.task()));
                    next.run()
                        .await
                        .map_err(|error| fail(format!("translated: {error}")))
                }
            })
            .layer(move |_, next| {
                let notes = second.clone();
                async move {
                    notes.lock().expect("a lock").push("second".to_owned());
                    next.run().await
                }
            });
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        assert_eq!(
            *notes.lock().expect("a lock"),
            ["second", "first, double", "handler"]
        );
        let error = job(&jobs, sent.id()).await.error.expect("it is told").message;
        assert_eq!(error, "translated: plain");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_panics_is_an_error_like_any_other() {
    on_each_store(async |jobs| {
        let sent = jobs.submit(DOUBLE, &1).max_attempts(1).await.expect("submitted");
        let worker = Worker::new(&jobs, 2)
            .task(DOUBLE, double)
            .concurrency(1)
            .layer(|attempt, next| {
                assert!(
                    attempt.is_last_attempt() && attempt.max_attempts() > 1,
                    "a layer with a bug"
                );
                next.run()
            });
        worker
            .run_until(until_ended(&jobs, &[sent.id()]))
            .await
            .expect("it worked");
        let error = job(&jobs, sent.id()).await.error.expect("it is told").message;
        assert_eq!(error, "the handler panicked: a layer with a bug");
    })
    .await;
}

/// Contract 8.1: what makes no sense is refused with what is allowed, before anything runs.
#[tokio::test]
async fn a_worker_that_makes_no_sense_is_refused() {
    let jobs = semel::connect("memory:").await.expect("a store");
    let worker = || Worker::new(&jobs, 2).task(DOUBLE, double);
    let bad = [
        (Worker::new(&jobs, 2), "at least one; hint: add one with .task"),
        (worker().task(DOUBLE, double), "one per task"),
        (worker().concurrency(0), "1 to 10000"),
        (worker().lease(millis(10)), "1 second to 1 hour"),
        (
            worker().task_concurrency("doubel", 1),
            "a task that this worker serves",
        ),
        (worker().task_concurrency("double", 0), "1 to 10000"),
        (worker().prefetch(5_000), "0 to 2000"),
        (worker().queues(["\n"]), "without control characters"),
        (
            worker().task_json("", async |_: Job<Value>, _: u64| Ok(json!(1))),
            "1 to 128 bytes",
        ),
    ];
    for (worker, allowed) in bad {
        let refused = worker
            .run_until(std::future::pending())
            .await
            .expect_err("refused");
        assert!(refused.to_string().contains(allowed), "{refused}");
    }
}

/// Contract 3.2: an event makes a job for the task that subscribed, also before its worker was ever started again.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_subscribes_its_task_to_an_event() {
    on_each_store(async |jobs| {
        let worker = || Worker::new(&jobs, 2).on_event("order.paid", DOUBLE, double);
        worker().run_until(async {}).await.expect("it worked");
        let sent = jobs
            .event("order.paid")
            .send_idempotent("evt_1", &5_u64)
            .await
            .expect("sent");
        let id = sent[0].submitted.as_ref().expect("submitted").id().clone();
        worker()
            .run_until(until_ended(&jobs, &[&id]))
            .await
            .expect("it worked");
        assert_eq!(job(&jobs, &id).await.output.expect("an output").as_str(), "10");
    })
    .await;
}
