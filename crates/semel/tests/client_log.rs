//! Lines in the log that people search for (contract 7.6).

mod client_stage;

use std::io;
use std::sync::{Arc, Mutex};

use client_stage::{complete, on_each_store};
use semel::{Client, Error, Task, connect_to, days};
use tracing_subscriber::fmt::MakeWriter;

const CHARGE: Task<u64> = Task::new("charge_customer");

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("unpoisoned").clone();
        String::from_utf8(bytes)
            .expect("text")
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

fn listen(level: tracing::Level) -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .with_max_level(level)
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    (log, guard)
}

#[tokio::test]
async fn a_blocked_duplicate_is_a_line_with_everything_one_wants_to_know() {
    on_each_store(async |stage| {
        let (log, _guard) = listen(tracing::Level::INFO);
        let jobs = &stage.jobs;
        let token = semel::ids::fresh_token();
        let first = jobs
            .submit(CHARGE, &1)
            .idempotency_key("ORD-123")
            .idempotency_ttl(days(365))
            .await
            .expect("accepted");
        assert!(
            !log.lines()
                .iter()
                .any(|line| line.contains("duplicate job blocked"))
        );
        let again = jobs
            .submit(CHARGE, &1)
            .idempotency_key("ORD-123")
            .queue("billing")
            .token(token);
        again.await.expect("a duplicate");
        let lines = log.lines();
        let line = lines
            .iter()
            .find(|line| line.contains("duplicate job blocked"))
            .expect("a line");
        assert!(line.contains("INFO"), "{line}");
        for field in [
            "idempotency_key=\"ORD-123\"".to_owned(),
            format!("job_id={token}"),
            "queue=billing".to_owned(),
            format!("original_job_id={}", first.id()),
            "ttl_remaining=\"".to_owned(),
            "outcome=\"duplicate\"".to_owned(),
        ] {
            assert!(line.contains(&field), "no {field} in {line}");
        }
        let rejected = jobs.submit(CHARGE, &2).exclusive("lock");
        rejected.clone().await.expect("accepted");
        assert!(matches!(
            rejected.token(semel::ids::fresh_token()).await,
            Err(Error::Duplicate { .. })
        ));
        let last = log.lines().pop().expect("a line");
        assert!(
            last.contains("outcome=\"rejected\"") && last.contains("idempotency_key=\"lock\""),
            "{last}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_batch_tells_of_each_duplicate_and_a_quiet_log_costs_nothing() {
    on_each_store(async |stage| {
        let (log, guard) = listen(tracing::Level::INFO);
        let jobs = &stage.jobs;
        let batch = || (0..3).map(|n| jobs.submit(CHARGE, &n).unique());
        jobs.submit_many(batch()).await;
        jobs.submit_many(batch()).await;
        let told = log
            .lines()
            .iter()
            .filter(|line| line.contains("duplicate job blocked"))
            .count();
        assert_eq!(told, 3);
        drop(guard);
        let (log, _guard) = listen(tracing::Level::ERROR);
        jobs.submit_many(batch()).await;
        assert!(log.lines().is_empty());
    })
    .await;
}

#[tokio::test]
async fn keys_that_are_private_are_shown_as_digests() {
    on_each_store(async |stage| {
        let (log, _guard) = listen(tracing::Level::INFO);
        let jobs: Client = connect_to(stage.store.clone())
            .hide_keys()
            .await
            .expect("a client");
        let first = jobs
            .submit(CHARGE, &1)
            .idempotency_key("jane@example.org")
            .await
            .expect("accepted");
        jobs.submit(CHARGE, &1)
            .idempotency_key("jane@example.org")
            .await
            .expect("a duplicate");
        let line = log
            .lines()
            .into_iter()
            .find(|line| line.contains("duplicate job blocked"))
            .expect("a line");
        assert!(
            !line.contains("jane") && line.contains(&first.key().expect("a key").to_string()),
            "{line}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_queue_of_which_most_is_absorbed_is_warned_about_once() {
    on_each_store(async |stage| {
        let (log, _guard) = listen(tracing::Level::WARN);
        for _ in 0..300 {
            stage.jobs.submit(CHARGE, &1).unique().await.expect("an answer");
        }
        stage.run_next(complete("null")).await;
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        for field in [
            "high duplicate rate detected",
            "queue=default",
            "hit_rate=0.9",
            "threshold=0.5",
            "suggestion=",
        ] {
            assert!(lines[0].contains(field), "no {field} in {}", lines[0]);
        }
    })
    .await;
}
