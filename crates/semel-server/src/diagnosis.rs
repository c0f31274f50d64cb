//! Why a job stands where it stands, in words: what an operator wants to know first.

use semel_core::job::State;
use semel_core::lifecycle::AttemptResult;
use semel_core::store::{Setting, Target};
use semel_core::time::Timestamp;
use semel_core::view::{AttemptView, Job};

use crate::text::{elide, flag, one_line, operand, plural, shell};
use crate::when::{exact, relative, span};

/// One reason, and what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A sentence.
    pub says: String,
    /// A command or an advice.
    pub hint: Option<String>,
}

impl Reason {
    fn new(says: impl Into<String>) -> Self {
        Reason {
            says: says.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What is known about a job and its surroundings.
#[derive(Debug)]
pub struct Case<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its deliveries that have ended, oldest first.
    pub attempts: &'a [AttemptView],
    /// Settings that are not at their default.
    pub settings: &'a [(Target, Setting)],
    /// Live workers that serve its task and queue.
    pub workers: usize,
    /// Now.
    pub now: Timestamp,
}

impl Case<'_> {
    /// The reasons, the most telling first.
    pub fn reasons(&self) -> Vec<Reason> {
        let mut reasons = match self.job.state {
            State::Scheduled => self.scheduled(),
            State::Queued => self.queued(),
            State::Running => vec![self.running()],
            State::Deferred => vec![self.deferred()],
            State::Parked => vec![self.parked()],
            State::Complete => vec![self.complete()],
            State::Failed => vec![self.failed()],
            State::Cancelled => vec![self.cancelled()],
        };
        reasons.extend(self.ran_again());
        reasons.extend(self.observed());
        reasons.extend(self.collided());
        reasons
    }

    fn scheduled(&self) -> Vec<Reason> {
        let job = self.job;
        let when = format!("{} ({})", relative(job.run_at, self.now), exact(job.run_at));
        let says = match self.attempts.last().map(|last| last.end.result) {
            Some(AttemptResult::Error) => format!(
                "Attempt {} of {} ended in an error; the next begins {when}.",
                job.attempt, job.max_attempts
            ),
            Some(AttemptResult::Snoozed) => format!("Its handler asked for later: {when}."),
            _ => format!("Its time has not come: it runs {when}."),
        };
        let mut reasons = vec![Reason::new(says)];
        reasons.extend(self.obstacles());
        reasons
    }

    fn queued(&self) -> Vec<Reason> {
        let obstacles = self.obstacles();
        if !obstacles.is_empty() {
            return obstacles;
        }
        let waited = span(self.now.since(self.job.run_at));
        vec![Reason::new(format!(
            "It has been due for {waited} and waits for a free slot: {} its task.",
            match self.workers {
                1 => "1 worker serves".to_owned(),
                n => format!("{n} workers serve"),
            }
        ))]
    }

    /// What would keep a worker from getting it.
    fn obstacles(&self) -> Vec<Reason> {
        let mut found: Vec<Reason> = self
            .settings
            .iter()
            .filter_map(|entry| self.pause(entry))
            .collect();
        if self.workers == 0 {
            found.push(no_worker(self.job));
        }
        found
    }

    fn pause(&self, (target, setting): &(Target, Setting)) -> Option<Reason> {
        let concerns = match target {
            Target::All => true,
            Target::Queue(name) => *name == self.job.queue,
            Target::Task(name) => *name == self.job.task,
        };
        let pause = setting
            .paused
            .as_ref()
            .filter(|_| concerns && setting.is_paused(self.now))?;
        let (what, resume) = match target {
            Target::All => ("Everything".to_owned(), "semel queues resume --all".to_owned()),
            Target::Queue(name) => (
                format!("Queue {name}"),
                format!("semel queues resume {}", operand(name.as_str())),
            ),
            Target::Task(name) => (
                format!("Task {name}"),
                format!("semel tasks resume {}", operand(name.as_str())),
            ),
        };
        let mut says = format!("{what} was paused {}", relative(pause.since, self.now));
        if let Some(until) = pause.until {
            says.push_str(&format!(", for another {}", span(until.since(self.now))));
        }
        if let Some(reason) = &pause.reason {
            says.push_str(&format!(" ({reason})"));
        }
        Some(Reason::new(says + ".").hint(resume))
    }

    fn running(&self) -> Reason {
        let worker = match &self.job.worker {
            Some(name) => format!("Worker {name}"),
            None => "A worker".to_owned(),
        };
        match self.job.lease_until {
            Some(until) if until <= self.now => Reason::new(format!(
                "{worker} was not heard of in time, its lease ran out {}: the next claim delivers the job again.",
                relative(until, self.now)
            )),
            Some(until) => Reason::new(format!(
                "{worker} runs it, attempt {} of {}; its lease is good for another {}.",
                self.job.attempt,
                self.job.max_attempts,
                span(until.since(self.now))
            )),
            None => Reason::new(format!("{worker} runs it.")),
        }
    }

    fn deferred(&self) -> Reason {
        match &self.job.blocked_by {
            Some(id) => Reason::new(format!(
                "It waits for job {id}, which holds its key, and is queued in the moment that one ends."
            ))
            .hint(format!("semel jobs show {}", operand(id.as_str()))),
            None => Reason::new("It waits for the holder of its key to end."),
        }
    }

    fn parked(&self) -> Reason {
        let why = self
            .job
            .error
            .as_ref()
            .map(|error| format!(": {}", error.message));
        Reason::new(format!(
            "An operator has to decide{}.",
            why.as_deref()
                .unwrap_or(": the effect of a step may have happened")
        ))
        .hint(format!(
            "semel steps resolve {} STEP --happened | --did-not-happen --reason TEXT",
            shell(self.job.origin.as_str())
        ))
    }

    fn complete(&self) -> Reason {
        let took = self.job.started_at.zip(self.job.finished_at);
        let took = took.map(|(start, end)| format!(", {} after it first started", span(end.since(start))));
        let took = took.unwrap_or_default();
        Reason::new(format!("It completed in attempt {}{took}.", self.job.attempt))
    }

    fn failed(&self) -> Reason {
        let job = self.job;
        let lost = job.deliveries >= job.max_deliveries;
        let how = match (lost, job.attempt >= job.max_attempts) {
            (true, _) => format!(
                "It was given up after its lease expired {}",
                times(job.deliveries)
            ),
            (_, true) => format!("It failed in the last of its {} attempts", job.max_attempts),
            _ => format!(
                "It failed for good in attempt {} of {}",
                job.attempt, job.max_attempts
            ),
        };
        match &job.replayed_as {
            Some(by) => {
                let show = format!("semel jobs show {}", operand(by.as_str()));
                Reason::new(format!("{how}, and was replayed as {by}.")).hint(show)
            }
            None => Reason::new(format!("{how}.")).hint(format!(
                "semel jobs retry {id} (a new life)\nsemel dead-letters replay {id} (fresh job)",
                id = operand(job.id.as_str())
            )),
        }
    }

    fn cancelled(&self) -> Reason {
        let when = self
            .job
            .finished_at
            .map(|at| format!(" {}", relative(at, self.now)));
        Reason::new(format!("It was cancelled{}.", when.unwrap_or_default()))
    }

    /// Why it ran more than once: one sentence per run that did not end it.
    fn ran_again(&self) -> Option<Reason> {
        const TOLD: usize = 3;
        let again = |one: &&AttemptView| {
            matches!(
                one.end.result,
                AttemptResult::Error | AttemptResult::Expired | AttemptResult::HandedBack
            )
        };
        let runs: Vec<&AttemptView> = self.attempts.iter().filter(again).collect();
        let is_over = self.job.state.is_terminal() || self.job.state == State::Running;
        if !is_over
            || self.attempts.len() + usize::from(self.job.state == State::Running) < 2
            || runs.is_empty()
        {
            return None;
        }
        let told = runs.iter().rev().take(TOLD).rev().map(|one| self.told_of(one));
        let more = match runs.len().saturating_sub(TOLD) {
            0 => String::new(),
            n => format!(
                "{} earlier. ",
                plural(i64::try_from(n).unwrap_or(i64::MAX), "more", "more")
            ),
        };
        Some(Reason::new(format!(
            "It ran more than once: {more}{} Steps that were confirmed are not done again.",
            told.collect::<Vec<_>>().join(" ")
        )))
    }

    fn told_of(&self, one: &AttemptView) -> String {
        let by = one
            .worker
            .as_ref()
            .map(|name| format!(" of {name}"))
            .unwrap_or_default();
        let when = relative(one.end.ended_at, self.now);
        match one.end.result {
            AttemptResult::Expired => format!("The lease{by} ran out {when}, so it was delivered again."),
            AttemptResult::HandedBack => format!("The run{by} was handed back {when}."),
            _ => {
                let error = one.end.error.as_deref().unwrap_or("an error");
                format!(
                    "Attempt {} ended {when} in: {}.",
                    one.end.attempt,
                    elide(&one_line(error), 80)
                )
            }
        }
    }

    fn observed(&self) -> Option<Reason> {
        let would = self.job.would.as_ref()?;
        Some(Reason::new(format!(
            "Its policy only observes: enforced, the answer would have been `{}`, because of job {}.",
            would.outcome.word(),
            would.holder
        )))
    }

    fn collided(&self) -> Option<Reason> {
        let other = self.job.collides_with.as_ref()?;
        Some(Reason::new(format!(
            "It has the same key fields as job {other} but another input: a collision, admitted on its own."
        )))
    }
}

/// The one sentence about work that nobody does.
pub fn no_worker(job: &Job) -> Reason {
    Reason::new(format!(
        "No live worker serves task {} in queue {}.",
        job.task, job.queue
    ))
    .hint(format!(
        "semel work {} --exec 'CMD'",
        flag("--task", job.task.as_str())
    ))
}

fn times(n: u32) -> String {
    plural(i64::from(n), "time", "times")
}
