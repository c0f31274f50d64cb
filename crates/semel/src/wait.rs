//! Waiting for a job, and what it gave.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;

use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::store::{self, Interest};
use semel_core::submission::Submission;
use semel_core::view::Job;

use crate::client::Client;
use crate::error::Error;
use crate::submit::Submit;
use crate::submitted::refusal;

/// How long to sleep between looks where the store says nothing: it may miss a change made elsewhere.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The longest a job that has ended goes unnoticed in a busy store.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Waits for a job to end; ends in `.await` and gives the ended job.
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct Wait {
    client: Client,
    id: JobId,
    at_most: Option<Duration>,
    /// One that waits in the spool has to be sent first.
    spooled: Option<Box<Submission>>,
}

impl Wait {
    pub(crate) fn new(client: Client, id: JobId) -> Self {
        Wait {
            client,
            id,
            at_most: None,
            spooled: None,
        }
    }

    pub(crate) fn until_sent(mut self, submission: Box<Submission>) -> Self {
        self.spooled = Some(submission);
        self
    }

    /// Gives up with [`Error::WaitTimeout`] after a while; the job goes on.
    pub fn at_most(mut self, length: Duration) -> Self {
        self.at_most = Some(length);
        self
    }

    async fn run(self) -> Result<Job, Error> {
        let Some(length) = self.at_most else {
            return self.until_ended(&mut None).await;
        };
        let mut seen = None;
        match tokio::time::timeout(length, self.until_ended(&mut seen)).await {
            Ok(ended) => ended,
            Err(_) => Err(Error::WaitTimeout {
                id: self.id,
                state: seen,
            }),
        }
    }

    async fn until_ended(&self, seen: &mut Option<State>) -> Result<Job, Error> {
        let store = self.client.store();
        let mut id = match &self.spooled {
            Some(submission) => self.sent(submission).await?,
            None => self.id.clone(),
        };
        let mut pause = Duration::ZERO;
        loop {
            let mark = store.mark();
            let job = self
                .client
                .look_up(&id)
                .await?
                .ok_or_else(|| Error::no_job(&id))?;
            *seen = Some(job.state);
            match &job.replayed_as {
                // The dead letter's work goes on in its replay.
                Some(replay) => id = replay.clone(),
                None if job.state.is_terminal() => return Ok(job),
                None => drop(store.changed(mark, Interest::Ends, LOOK_EVERY).await),
            }
            // A store in which a lot ends says so all the time: the longer this takes, the less it is listened to.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            pause = (pause * 2).clamp(Duration::from_millis(1), LONGEST_PAUSE);
        }
    }

    /// The job that has a submission from the spool, once everything before it was sent.
    async fn sent(&self, submission: &Submission) -> Result<JobId, Error> {
        loop {
            let clear = match self.client.keeper() {
                Some(keeper) => keeper.is_clear().await,
                None => true,
            };
            if clear {
                // Its token makes this the submission that was sent from the spool, and the answer the first one.
                match self.client.send(submission).await {
                    Ok(store::Submitted::Job(admitted)) => return Ok(admitted.job.id),
                    Ok(refused) => return Err(refusal(refused)),
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl IntoFuture for Wait {
    type Output = Result<Job, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Waits for a job and gives its output; ends in `.await`.
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until this is awaited"]
pub struct Output<O> {
    of: Of,
    at_most: Option<Duration>,
    output: PhantomData<fn() -> O>,
}

#[derive(Clone, Debug)]
enum Of {
    Submission(Box<Submit>),
    Job(Wait),
}

impl<O: DeserializeOwned> Output<O> {
    pub(crate) fn of_submission(submit: Submit<O>) -> Self {
        Output {
            of: Of::Submission(Box::new(submit.untyped())),
            at_most: None,
            output: PhantomData,
        }
    }

    pub(crate) fn of_job(wait: Wait) -> Self {
        Output {
            of: Of::Job(wait),
            at_most: None,
            output: PhantomData,
        }
    }

    /// Gives up with [`Error::WaitTimeout`] if the job has not ended a while after it was submitted; it goes on.
    pub fn at_most(mut self, length: Duration) -> Self {
        self.at_most = Some(length);
        self
    }

    async fn run(self) -> Result<O, Error> {
        let mut wait = match self.of {
            Of::Job(wait) => wait,
            Of::Submission(submit) => (*submit).await?.wait(),
        };
        wait.at_most = self.at_most.or(wait.at_most);
        read(wait.await?)
    }
}

impl<O: DeserializeOwned + 'static> IntoFuture for Output<O> {
    type Output = Result<O, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The output of a job that has ended.
fn read<O: DeserializeOwned>(job: Job) -> Result<O, Error> {
    let id = job.id;
    match job.state {
        State::Cancelled => Err(Error::JobCancelled { id }),
        State::Failed => Err(Error::JobFailed {
            id,
            message: job.error.map(|error| error.message).unwrap_or_default(),
        }),
        _ => match job.output {
            Some(output) => output.read().map_err(|source| Error::Unreadable { id, source }),
            None if job.stub => Err(Error::OutputGone { id }),
            None => serde_json::from_str("null").map_err(|source| Error::Unreadable { id, source }),
        },
    }
}
