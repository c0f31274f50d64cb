//! Effects inside a handler, each done once (contract 5.1, 5.2).

use std::fmt;
use std::time::Duration;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Digest, Name};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::step::{StepAnswer, StepPhase};
use semel_core::store::{StepOutcome, StepRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock;
use crate::ids;
use crate::job_error::{JobError, JobResult, fail, snooze};
use crate::worker::jitter::Trouble;
use crate::worker::job::Attempt;
use crate::worker::lease::Fate;

impl Attempt {
    /// A named effect: once it is confirmed it is never run again, through retries, redelivery and replays;
    /// its output is given instead. The names within a job have to differ.
    ///
    /// A crash between the effect and its record leaves it *in doubt*. What then, is said by how it is run:
    /// [`retry_with_key`](Step::retry_with_key), [`verify`](Step::verify) or [`park`](Step::park). An error does
    /// not prove that nothing happened; [`did_not_happen`](crate::did_not_happen) does, of the run that says so. Of an
    /// earlier run that left the step in doubt it proves nothing.
    ///
    /// A step is not begun on a lease that has run out or was taken away: the handler gets an error instead.
    pub fn step(&self, name: impl AsRef<str>) -> Step<'_> {
        Step {
            attempt: self,
            name: Name::new(name),
        }
    }
}

/// A named effect that is about to be run.
#[must_use = "a step does nothing until it is run"]
pub struct Step<'a> {
    attempt: &'a Attempt,
    name: Result<Name, Invalid>,
}

/// What is known of a step when a handler comes to it.
enum Standing {
    /// It has not happened.
    Fresh(Digest),
    /// It may have happened.
    InDoubt(Digest),
    /// It has happened, and gave this.
    Done(Json),
}

impl Step<'_> {
    /// Runs an effect that recognises a repeated key, such as a payment: in doubt, it is run again with the key it
    /// had the first time. The key is made from the origin of the job and the name of the step, never from the attempt.
    ///
    /// [`did_not_happen`](crate::did_not_happen) moves the key on if the step was not in doubt when this run began. If it
    /// was, an earlier run may have done it under this very key: the step stays in doubt, the key stays the same, until a
    /// run confirms it or an operator decides.
    pub async fn retry_with_key<T, E, F>(self, effect: F) -> JobResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
        F: AsyncFnOnce(String) -> Result<T, E>,
    {
        match self.begin().await? {
            Standing::Done(output) => self.stored(&output),
            Standing::Fresh(key) => {
                let result = effect(key.to_string()).await;
                self.end(result).await
            }
            Standing::InDoubt(key) => {
                let result = effect(key.to_string()).await;
                self.end_in_doubt(result).await
            }
        }
    }

    /// Runs an effect that can be looked up: in doubt, `check` says whether it happened (`Some`, with its output)
    /// or not (`None`, and it is run). An error of `check` is no answer: the step stays in doubt.
    ///
    /// [`did_not_happen`](crate::did_not_happen) always counts: whenever the effect is run, it is known of all earlier
    /// runs that they did nothing, by what they said themselves or by `check`.
    pub async fn verify<T, E, D, C, F>(self, check: C, effect: F) -> JobResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
        D: Into<JobError>,
        C: AsyncFnOnce() -> Result<Option<T>, D>,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        match self.begin().await? {
            Standing::Done(output) => return self.stored(&output),
            Standing::Fresh(_) => {}
            Standing::InDoubt(_) => {
                let checked = check().await.map_err(|error| JobError::uncertain(error.into()))?;
                if let Some(output) = checked {
                    return self.confirm(output).await;
                }
                self.say(StepPhase::Refused).await?;
                match self.begin().await? {
                    Standing::Done(output) => return self.stored(&output),
                    Standing::Fresh(_) => {}
                    // What was looked up does not hold for somebody who began after that.
                    Standing::InDoubt(_) => {
                        return Err(JobError::retry(format!(
                            "step {} was begun twice at once; hint: the names of the steps within a job have to differ",
                            self.name()?
                        )));
                    }
                }
            }
        }
        let result = effect().await;
        self.end(result).await
    }

    /// Runs an effect that can neither be repeated nor looked up, such as a letter: in doubt, the job is parked and
    /// an operator decides. The effect is never run in doubt, so [`did_not_happen`](crate::did_not_happen) always
    /// counts.
    pub async fn park<T, E, F>(self, effect: F) -> JobResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        match self.begin().await? {
            Standing::Done(output) => self.stored(&output),
            Standing::Fresh(_) => {
                let result = effect().await;
                self.end(result).await
            }
            Standing::InDoubt(_) => Err(JobError::park(format!(
                "step {} may have happened; an operator has to decide",
                self.name()?
            ))),
        }
    }

    async fn begin(&self) -> JobResult<Standing> {
        let token = ids::fresh_token();
        let standing = match self.say(StepPhase::Begin { token }).await? {
            StepAnswer::Ok { key } => Standing::Fresh(key),
            StepAnswer::InDoubt { key } => Standing::InDoubt(key),
            StepAnswer::Confirmed { output } => return Ok(Standing::Done(output)),
            StepAnswer::NotBegun => return Err(JobError::retry("a step that was begun is not known")),
        };
        match self.is_ours() {
            true => Ok(standing),
            false => Err(self.leave(standing).await),
        }
    }

    /// Whether an effect may be run. The answer of the store may have been long in coming, and the handler's task may not
    /// have been told yet what everybody else knows.
    fn is_ours(&self) -> bool {
        let lease = &self.attempt.lease;
        lease.fate() == Fate::Held && !lease.has_run_out(clock::instant())
    }

    /// Leaves a step whose effect will not be run after all.
    async fn leave(&self, standing: Standing) -> JobError {
        // It was this call that began it: it need not be left in doubt. If somebody else has the job by now, the store
        // does not listen, and whoever is at it judges for itself.
        let lease = &self.attempt.lease;
        if let (Standing::Fresh(_), Ok(request)) = (standing, self.request(StepPhase::Refused)) {
            let _ = lease.store.steps(vec![request]).await;
        }
        match lease.fate() {
            // The worker goes home: as good as handed back.
            Fate::Stopped => snooze(Duration::ZERO),
            Fate::Cancelled | Fate::Lost => lease_lost(),
            Fate::Held => {
                lease.tell(Fate::Lost);
                lease_lost()
            }
        }
    }

    /// How a run ends of which nothing was known to have happened when it began.
    async fn end<T, E>(&self, result: Result<T, E>) -> JobResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
    {
        let error = match result {
            Ok(output) => return self.confirm(output).await,
            Err(error) => error.into(),
        };
        if error.is_certain() {
            self.say(StepPhase::Refused).await?;
        }
        Err(error.uncertain())
    }

    /// How a run ends whose step was in doubt when it began: that this call did nothing says nothing of the earlier one,
    /// and a new key would let the receiver do it twice.
    async fn end_in_doubt<T, E>(&self, result: Result<T, E>) -> JobResult<T>
    where
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
    {
        let error = match result {
            Ok(output) => return self.confirm(output).await,
            Err(error) => error.into(),
        };
        if error.is_certain() {
            let (job, step) = (self.attempt.id(), self.name()?);
            tracing::info!(job_id = %job, %step, "this run did nothing, an earlier one may have: the step stays in doubt");
        }
        Err(error.uncertain())
    }

    /// Stores the output; from here on the effect is never run again.
    async fn confirm<T: Serialize + DeserializeOwned>(&self, output: T) -> JobResult<T> {
        let stored = Json::of(&output).map_err(|invalid| {
            fail(format!(
                "step {} happened, but its output cannot be kept (at most {} bytes of JSON): {invalid}; hint: keep large things elsewhere and give a reference",
                self.name.as_ref().map_or("?", Name::as_str),
                limits::OUTPUT_BYTES
            ))
        })?;
        match self.say(StepPhase::Confirm { output: stored }).await? {
            // Somebody confirmed it before: what is stored never changes (I19).
            StepAnswer::Confirmed { output } => self.stored(&output),
            StepAnswer::Ok { .. } | StepAnswer::InDoubt { .. } => Ok(output),
            // Said to have happened and said not to have happened: to run it again would be to guess.
            StepAnswer::NotBegun => Err(fail(format!(
                "step {} happened, but was said not to have happened meanwhile; hint: the names of the steps within a job have to differ",
                self.name()?
            ))),
        }
    }

    fn stored<T: DeserializeOwned>(&self, output: &Json) -> JobResult<T> {
        output.read().map_err(|error| {
            fail(format!(
                "the stored output of step {} is not what the handler expects: {error}; hint: give the step another name when its type changes",
                self.name.as_ref().map_or("?", Name::as_str)
            ))
        })
    }

    /// Tells the store, again until it answers: the token and the fence make it the same call. Should the lease be
    /// lost meanwhile, the handler is dropped.
    async fn say(&self, phase: StepPhase) -> JobResult<StepAnswer> {
        let lease = &self.attempt.lease;
        let request = self.request(phase)?;
        let mut trouble = Trouble::default();
        loop {
            match lease.store.steps(vec![request.clone()]).await {
                Ok(outcomes) => return self.heard(outcomes),
                Err(error) if error.is_retryable() && lease.fate() == Fate::Held => {
                    tracing::warn!(%error, step = %request.step, "a step could not be recorded; trying again");
                    tokio::time::sleep(trouble.again()).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn request(&self, phase: StepPhase) -> JobResult<StepRequest> {
        let lease = &self.attempt.lease;
        Ok(StepRequest {
            id: lease.job.id.clone(),
            fence: lease.fence,
            step: self.name()?,
            phase,
        })
    }

    fn heard(&self, outcomes: Vec<StepOutcome>) -> JobResult<StepAnswer> {
        match outcomes.into_iter().next() {
            Some(StepOutcome::Answer(answer)) => Ok(answer),
            Some(StepOutcome::Invalid(invalid)) => Err(fail(invalid)),
            Some(StepOutcome::Refused(_) | StepOutcome::NotFound) => {
                self.attempt.lease.tell(Fate::Lost);
                Err(lease_lost())
            }
            None => Err(StoreError::corrupt("a step without an answer").into()),
        }
    }

    fn name(&self) -> JobResult<Name> {
        self.name.clone().map_err(fail)
    }
}

fn lease_lost() -> JobError {
    JobError::retry("the lease is lost: the job was cancelled or given to another worker")
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Step").field(&self.name).finish()
    }
}
