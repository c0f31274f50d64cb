//! One job, one command.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel::{Attempt, Job, JobError, JobResult, fail, snooze};
use semel_core::limits;
use serde_json::Value;

use crate::clock;
use crate::commands::work::child::{Left, Running};
use crate::commands::work::tell::{Ending, Teller};

/// Try again later, at no cost: `EX_TEMPFAIL`.
pub const LATER: i32 = 75;
/// No attempt would be spared this: `EX_DATAERR`.
pub const FATAL: i32 = 65;

/// How jobs are run.
#[derive(Debug)]
pub struct Exec {
    /// The command.
    pub command: String,
    /// When exit code 75 is tried again.
    pub retry_after: Duration,
    /// The store, for commands that submit further jobs.
    pub store: String,
    /// Says how it went.
    pub teller: Teller,
}

/// Runs the command for a job.
pub async fn handle(job: Job<Value>, exec: Arc<Exec>) -> JobResult<Value> {
    let (_, attempt) = job.into_parts();
    let mut watch = Watch::begin(&attempt, &exec.teller);
    let mut running = match Running::start(&exec.command, environment(&attempt, &exec.store)) {
        Ok(running) => running,
        Err(error) => {
            let message = format!("the command could not be started: {error}");
            watch.ended(Ending::Error(&message));
            return Err(JobError::retry(message));
        }
    };
    let input = attempt.view().input.clone();
    let line = |text: &str| attempt.log(text);
    let mut cancelled = false;
    let left = {
        let finishing = running.finish(input.as_str(), limits::OUTPUT_BYTES, line);
        tokio::pin!(finishing);
        tokio::select! {
            left = &mut finishing => Some(left),
            () = attempt.cancelled() => None,
        }
    };
    let left = match left {
        Some(left) => left,
        None => {
            cancelled = true;
            running.terminate();
            running.finish("", limits::OUTPUT_BYTES, |_| {}).await
        }
    };
    match left {
        _ if cancelled => {
            watch.ended(Ending::Error("cancelled"));
            Err(JobError::cancelled())
        }
        Ok(left) => judge(&left, exec.retry_after, &mut watch),
        Err(error) => {
            let message = format!("the command could not be waited for: {error}");
            watch.ended(Ending::Error(&message));
            Err(JobError::retry(message))
        }
    }
}

/// What the exit code means.
fn judge(left: &Left, retry_after: Duration, watch: &mut Watch) -> JobResult<Value> {
    let told = left.tail.trim();
    let Some(code) = left.status.code() else {
        let signal = left.status.signal().unwrap_or(0);
        let message = with_reason(format!("killed by signal {signal}"), told);
        watch.ended(Ending::Error(&message));
        return Err(JobError::retry(message));
    };
    watch.ended(Ending::Exit(code, told));
    match code {
        0 => output(left),
        LATER => Err(snooze(retry_after)),
        FATAL => Err(fail(with_reason(format!("exit code {code}"), told))),
        _ => Err(JobError::retry(with_reason(format!("exit code {code}"), told))),
    }
}

/// What happened, with the reason that was told.
pub fn with_reason(what: String, told: &str) -> String {
    match told.is_empty() {
        true => what,
        false => format!("{what}: {told}"),
    }
}

/// JSON is taken as it is, anything else as text, nothing as null.
pub fn output(left: &Left) -> JobResult<Value> {
    let Some(bytes) = &left.output else {
        return Err(fail(format!(
            "the command exited with 0, but wrote more than {} bytes; hint: keep large things elsewhere and write a reference",
            limits::OUTPUT_BYTES
        )));
    };
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    if text.is_empty() {
        return Ok(Value::Null);
    }
    Ok(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())))
}

fn environment(attempt: &Attempt, store: &str) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("SEMEL_JOB_ID", attempt.id().to_string()),
        ("SEMEL_ORIGIN", attempt.origin().to_string()),
        ("SEMEL_TASK", attempt.task().to_owned()),
        ("SEMEL_QUEUE", attempt.queue().to_owned()),
        ("SEMEL_ATTEMPT", attempt.attempt().to_string()),
        ("SEMEL_MAX_ATTEMPTS", attempt.max_attempts().to_string()),
        ("SEMEL_STORE", store.to_owned()),
    ];
    if let Some(key) = attempt.key() {
        let text = key.text.clone().unwrap_or_else(|| key.digest.to_string());
        variables.push(("SEMEL_KEY", text));
    }
    variables
}

/// Says how an attempt ended, also when it is taken away from here.
struct Watch {
    attempt: Attempt,
    teller: Teller,
    began: Instant,
    said: bool,
}

impl Watch {
    fn begin(attempt: &Attempt, teller: &Teller) -> Self {
        Watch {
            attempt: attempt.clone(),
            teller: teller.clone(),
            began: clock::instant(),
            said: false,
        }
    }

    fn ended(&mut self, ending: Ending<'_>) {
        self.said = true;
        let took = clock::instant().duration_since(self.began);
        self.teller.attempt(&self.attempt, ending, took);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.said {
            self.ended(Ending::TakenAway);
        }
    }
}
