//! What a worker on the command line says while it works: a line per attempt, a sum at the end.

use std::time::Duration;

use semel::{Attempt, WorkReport};
use semel_core::time::Millis;
use serde::Serialize;

use crate::problem::Problem;
use crate::screen::{Screen, Tone, clean, elide, one_line, paint, span};

/// Says what happens.
#[derive(Clone, Debug)]
pub struct Teller {
    screen: Screen,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub enum Ending<'a> {
    /// It exited by itself.
    Exit(i32, &'a str),
    /// Something ended it, or it could not be started.
    Error(&'a str),
    /// It was taken away: its time was over, its lease lost, or the worker stopped.
    TakenAway,
}

#[derive(Serialize)]
struct AttemptLine<'a> {
    event: &'static str,
    job: &'a str,
    task: &'a str,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    took_ms: u128,
}

#[derive(Serialize)]
struct ReportLine {
    event: &'static str,
    completed: u64,
    retried: u64,
    failed: u64,
    snoozed: u64,
    handed_back: u64,
    cancelled: u64,
    lost: u64,
    refused_writes: u64,
}

impl Teller {
    /// Says it there.
    pub fn new(screen: Screen) -> Self {
        Teller { screen }
    }

    /// An attempt is over here; what the store makes of it is in the report.
    pub fn attempt(&self, attempt: &Attempt, ending: Ending<'_>, took: Duration) {
        let (exit, error) = match ending {
            Ending::Exit(code, error) => (Some(code), Some(error).filter(|_| code != 0)),
            Ending::Error(error) => (None, Some(error)),
            Ending::TakenAway => (None, Some("taken away")),
        };
        // Whoever reads may be gone; the work goes on.
        let _ = match self.screen.json {
            true => self.screen.print_json(&AttemptLine {
                event: "attempt",
                job: attempt.id().as_str(),
                task: attempt.task(),
                attempt: attempt.attempt(),
                exit,
                error,
                took_ms: took.as_millis(),
            }),
            false => self.screen.write(&line(attempt, exit, error, took)),
        };
    }

    /// The worker has stopped.
    pub fn ended(&self, report: &WorkReport) -> Result<(), Problem> {
        if self.screen.json {
            return self.screen.print_json(&ReportLine {
                event: "stopped",
                completed: report.completed,
                retried: report.retried,
                failed: report.failed,
                snoozed: report.snoozed,
                handed_back: report.handed_back,
                cancelled: report.cancelled,
                lost: report.lost,
                refused_writes: report.refused_writes,
            });
        }
        let others = [
            (report.retried, "to be retried"),
            (report.failed, "failed"),
            (report.snoozed, "put off"),
            (report.handed_back, "handed back"),
            (report.cancelled, "cancelled"),
            (report.lost, "leases lost"),
            (report.refused_writes, "stale writes refused"),
        ];
        let mut text = format!("\nstopped: {} completed", report.completed);
        for (n, word) in others.into_iter().filter(|(n, _)| *n > 0) {
            text.push_str(&format!(", {n} {word}"));
        }
        self.screen.write(&(text + "\n"))
    }
}

fn line(attempt: &Attempt, exit: Option<i32>, error: Option<&str>, took: Duration) -> String {
    let (tone, word) = match exit {
        Some(0) => (Tone::Good, "exit 0".to_owned()),
        Some(75) => (Tone::Quiet, "exit 75".to_owned()),
        Some(65) => (Tone::Bad, "exit 65".to_owned()),
        Some(code) => (Tone::Warn, format!("exit {code}")),
        None => (Tone::Warn, "no exit".to_owned()),
    };
    let mut text = format!(
        "{} {}  {} {}/{} in {}",
        attempt.id(),
        paint(tone, format!("{word:<8}")),
        clean(attempt.task()),
        attempt.attempt(),
        attempt.max_attempts(),
        span(Millis::from(took)),
    );
    if let Some(error) = error.filter(|error| !error.is_empty()) {
        text.push_str(&format!("  {}", elide(&one_line(error), 120)));
    }
    text + "\n"
}
