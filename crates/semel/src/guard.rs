//! Once-only outside jobs: a key is reserved, the thing is done, its answer is kept (contract 5.3).

mod journal;
mod outage;

pub use outage::{Outage, Reconciled};

use std::fmt;
use std::time::Duration;

use semel_core::error::StoreError;
use semel_core::guard::{GuardAnswer, GuardCall};
use semel_core::ids::Token;
use semel_core::json::Json;
use semel_core::store::{GuardOutcome, GuardRequest};
use semel_core::time::Millis;
use semel_core::view::GuardStats;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::Error;
use crate::ids::fresh_token;

impl Client {
    /// Does things once that are no jobs: a request that is answered at once, a file that is fetched.
    ///
    /// ```
    /// use semel::{Once, hours};
    /// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
    /// let jobs = semel::connect("memory:").await?;
    /// let charge = async || Ok::<u32, std::io::Error>(4200);
    /// let first = jobs.guard().once("charge-ORD-1", hours(24), charge).await?;
    /// assert!(matches!(first, Once::Ran(4200)));
    /// let again = jobs.guard().once("charge-ORD-1", hours(24), charge).await?;
    /// assert!(matches!(again, Once::Before(4200)));
    /// # Ok(()) }
    /// ```
    pub fn guard(&self) -> Guard {
        Guard { client: self.clone() }
    }
}

/// The way to keys that are guarded outside jobs.
#[derive(Clone, Debug)]
pub struct Guard {
    client: Client,
}

/// The answer to who asks for a key.
#[derive(Debug)]
pub enum Reserved {
    /// It is yours: do it, then confirm.
    Fresh(Reservation),
    /// Someone else is at it, or died at it.
    InProgress,
    /// It was done, and gave this.
    Done(Json),
}

/// What came of doing something once.
#[derive(Debug)]
pub enum Once<T, E> {
    /// It was done now.
    Ran(T),
    /// It was done before, and gave this.
    Before(T),
    /// Someone else is at it, or died at it; its reservation lapses with its ttl.
    InProgress,
    /// It went wrong. That does not prove that nothing happened, so the key stays reserved until its ttl has
    /// passed; who knows better gives it back with [`Reservation::release`].
    Failed(E, Reservation),
    /// The store was out of reach, before it or when its answer was to be kept, and it was done all the same because
    /// that was asked for (see [`Outage`]). Its answer is in the journal.
    Unguarded(Result<T, E>),
}

impl Guard {
    /// Asks for a key. Of many who ask at once, one is told [`Reserved::Fresh`].
    ///
    /// The ttl counts from the reservation and, once it is confirmed, anew from there: for so long the answer is kept.
    ///
    /// Dropping this call while it is under way can leave the key reserved until its ttl has passed: whoever may be
    /// dropped, such as a handler of HTTP requests, asks from a task of its own.
    pub async fn reserve(&self, key: impl Into<String>, ttl: Duration) -> Result<Reserved, Error> {
        self.reserve_as(fresh_token(), key.into(), ttl).await
    }

    /// The token makes a repeated call the same call, also one of another process.
    async fn reserve_as(&self, token: Token, key: String, ttl: Duration) -> Result<Reserved, Error> {
        let call = GuardCall::Reserve {
            token,
            ttl: Millis::from(ttl),
        };
        match self.say(&key, call, token).await? {
            GuardAnswer::Fresh => Ok(Reserved::Fresh(Reservation {
                guard: self.clone(),
                key,
                token,
            })),
            GuardAnswer::InProgress => Ok(Reserved::InProgress),
            GuardAnswer::Done(output) => Ok(Reserved::Done(output)),
            GuardAnswer::Ok | GuardAnswer::NotYours => Err(unexpected()),
        }
    }

    /// Does something unless it was done before, and keeps what it gives.
    ///
    /// If the store goes away while it is being done, the answer is [`Error::DoneButNotKept`], which has what it gave.
    /// That is not retryable; every other error says that it was not done by this call.
    pub async fn once<T, E, F>(
        &self,
        key: impl Into<String>,
        ttl: Duration,
        effect: F,
    ) -> Result<Once<T, E>, Error>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        let key = key.into();
        match self.reserve(key.clone(), ttl).await? {
            Reserved::InProgress => Ok(Once::InProgress),
            Reserved::Done(output) => before(key, &output),
            Reserved::Fresh(reservation) => match effect().await {
                Ok(output) => match reservation.keep(&output).await {
                    Ok(()) => Ok(Once::Ran(output)),
                    Err(lost) => Err(lost.into_error(key)),
                },
                Err(error) => Ok(Once::Failed(error, reservation)),
            },
        }
    }

    /// As [`once`](Guard::once); while the store is out of reach, also after the retries of this client, the work of a
    /// queue that [`Outage`] names goes on without a guard, and any other is refused. Where the store goes away while such
    /// work is being done, its answer goes into the journal as well; the reservation keeps others away until its ttl has
    /// passed.
    pub async fn once_or_unguarded<T, E, F>(
        &self,
        outage: &Outage,
        queue: &str,
        key: impl Into<String>,
        ttl: Duration,
        effect: F,
    ) -> Result<Once<T, E>, Error>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        let (key, token) = (key.into(), fresh_token());
        let reserved = match self.reserve_as(token, key.clone(), ttl).await {
            Err(error) if error.is_retryable() && outage.allows(queue) => {
                // The reservation may have been made and only its reply lost: by its token it is known again.
                outage.begin(token, queue, &key, ttl).await?;
                let done = effect().await;
                if let Ok(output) = &done {
                    outage.end(token, &key, output).await;
                }
                return Ok(Once::Unguarded(done));
            }
            reserved => reserved?,
        };
        let reservation = match reserved {
            Reserved::InProgress => return Ok(Once::InProgress),
            Reserved::Done(output) => return before(key, &output),
            Reserved::Fresh(reservation) => reservation,
        };
        let output = match effect().await {
            Ok(output) => output,
            Err(error) => return Ok(Once::Failed(error, reservation)),
        };
        let lost = match reservation.keep(&output).await {
            Ok(()) => return Ok(Once::Ran(output)),
            Err(lost) => lost,
        };
        match (&lost.output, lost.error.is_retryable() && outage.allows(queue)) {
            // By the token of its reservation it is known again, also where only the reply to its answer was lost.
            (Some(kept), true) => match outage.keep(token, queue, &key, ttl, kept).await {
                Ok(()) => Ok(Once::Unguarded(Ok(output))),
                Err(unwritten) => {
                    tracing::error!(key, error = %unwritten, "done, but the journal cannot be written either");
                    Err(lost.into_error(key))
                }
            },
            _ => Err(lost.into_error(key)),
        }
    }

    /// How often guards were asked, by answer, since the counters were reset.
    pub async fn stats(&self) -> Result<GuardStats, Error> {
        Ok(self.client.store().stats().await?.guard)
    }

    async fn say(&self, key: &str, call: GuardCall, token: Token) -> Result<GuardAnswer, Error> {
        let request = GuardRequest {
            key: key.to_owned(),
            call,
        };
        // The token makes a repeated call the same call.
        let call = || self.client.store().guard(vec![request.clone()]);
        let outcomes = self.client.options().retry.run(token.as_bytes(), call).await?;
        match outcomes.into_iter().next() {
            Some(GuardOutcome::Answer(answer)) => Ok(answer),
            Some(GuardOutcome::Invalid(invalid)) => Err(invalid.into()),
            None => Err(unexpected()),
        }
    }
}

/// A key that is yours. Dropping it leaves the key reserved until its ttl has passed: what was begun may have happened.
#[must_use = "confirm it once it is done, or release it if it certainly was not"]
pub struct Reservation {
    guard: Guard,
    key: String,
    token: Token,
}

impl Reservation {
    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// It was done, and gave this; who asks again is given the same.
    pub async fn confirm<T: Serialize>(&self, output: &T) -> Result<(), Error> {
        let output = Json::of(output)?;
        let token = self.token;
        self.end(GuardCall::Confirm { token, output }).await
    }

    /// It was done, and this call has to know: why its answer is not kept, and what it is.
    async fn keep<T: Serialize>(&self, output: &T) -> Result<(), NotKept> {
        let output = Json::of(output).map_err(|invalid| NotKept {
            output: None,
            error: invalid.into(),
        })?;
        let confirm = GuardCall::Confirm {
            token: self.token,
            output: output.clone(),
        };
        self.end(confirm).await.map_err(|error| NotKept {
            output: Some(output),
            error,
        })
    }

    /// It certainly was not done: the key is free again.
    pub async fn release(self) -> Result<(), Error> {
        let token = self.token;
        self.end(GuardCall::Release { token }).await
    }

    async fn end(&self, call: GuardCall) -> Result<(), Error> {
        let is_release = matches!(call, GuardCall::Release { .. });
        match self.guard.say(&self.key, call, self.token).await? {
            GuardAnswer::Ok => Ok(()),
            // The reply to an earlier call may have been lost, not the call: then it is free, as was asked.
            GuardAnswer::NotYours if is_release => Ok(()),
            GuardAnswer::NotYours => Err(Error::ReservationLost {
                key: self.key.clone(),
            }),
            GuardAnswer::Fresh | GuardAnswer::InProgress | GuardAnswer::Done(_) => Err(unexpected()),
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is what proves ownership: it is not shown.
        formatter
            .debug_struct("Reservation")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The answer of something that was done, and why the store does not have it.
struct NotKept {
    output: Option<Json>,
    error: Error,
}

impl NotKept {
    fn into_error(self, key: String) -> Error {
        Error::DoneButNotKept {
            key,
            output: self.output,
            source: Box::new(self.error),
        }
    }
}

fn before<T: DeserializeOwned, E>(key: String, output: &Json) -> Result<Once<T, E>, Error> {
    output
        .read()
        .map(Once::Before)
        .map_err(|source| Error::UnreadableAnswer { key, source })
}

fn unexpected() -> Error {
    StoreError::corrupt("a guard gave no answer that fits").into()
}
