//! Events: one job per task that subscribed, durably (contract 3.2).

mod subscriber;

pub use subscriber::Subscriber;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

use semel_core::dedup::{Dedup, Hold};
use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::submission::{Policy, Submission};
use semel_core::time::Millis;

use crate::client::Client;
use crate::error::Error;
use crate::submit::Submit;
use crate::submitted::Submitted;
use crate::task::Task;

impl Client {
    /// An event by its name.
    ///
    /// ```
    /// # use semel::Task;
    /// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
    /// const RECEIPT: Task<u64> = Task::new("send_receipt");
    /// let jobs = semel::connect("memory:").await?;
    /// jobs.event("order.paid").subscribe(RECEIPT).await?;
    /// let sent = jobs.event("order.paid").send_idempotent("evt_1", &42).await?;
    /// assert!(sent[0].submitted.is_ok());
    /// # Ok(()) }
    /// ```
    pub fn event(&self, name: impl Into<String>) -> Event {
        Event {
            client: self.clone(),
            name: name.into(),
        }
    }
}

/// Something that happens, and that tasks subscribe to.
#[derive(Clone, Debug)]
pub struct Event {
    client: Client,
    name: String,
}

impl Event {
    /// Lets a task have a job for each event of this name, from now on and until [`unsubscribe`](Event::unsubscribe).
    /// Subscribing again changes nothing.
    pub async fn subscribe<I, O>(&self, task: Task<I, O>) -> Result<(), Error> {
        let subscriber = Subscriber::of_task(&self.name, task)?;
        subscriber.store(&self.client).await
    }

    /// As [`subscribe`](Event::subscribe), for a task that is known by name only.
    pub async fn subscribe_named(&self, task: &str, queue: Option<&str>) -> Result<(), Error> {
        let subscriber = Subscriber::named(&self.name, task, queue)?;
        subscriber.store(&self.client).await
    }

    /// Takes a task off the list; says whether it was on it.
    pub async fn unsubscribe(&self, task: &str) -> Result<bool, Error> {
        Subscriber::remove(&self.client, &self.name, task).await
    }

    /// The tasks that have subscribed, by name.
    pub async fn subscribers(&self) -> Result<Vec<Subscriber>, Error> {
        Subscriber::list(&self.client, Some(&self.name)).await
    }

    /// Tells every subscriber.
    pub fn send<I: Serialize + ?Sized>(&self, input: &I) -> Sending {
        Sending {
            event: self.clone(),
            input: Json::of(input),
            key: None,
            ttl: Hold::DEFAULT_WINDOW,
            allow_none: false,
        }
    }

    /// Tells every subscriber once, however often the same key is sent. Not atomic over the subscribers: sending
    /// again completes it.
    pub fn send_idempotent<I: Serialize + ?Sized>(&self, key: impl Into<String>, input: &I) -> Sending {
        Sending {
            key: Some(key.into()),
            ..self.send(input)
        }
    }
}

/// An event that is being sent; ends in `.await` and gives an outcome per subscriber.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until this is awaited"]
pub struct Sending {
    event: Event,
    input: Result<Json, Invalid>,
    key: Option<String>,
    ttl: Millis,
    allow_none: bool,
}

/// What became of an event for one subscriber.
#[derive(Debug)]
pub struct Delivered {
    /// The task that subscribed.
    pub task: Name,
    /// Where its jobs wait, if it says so.
    pub queue: Option<String>,
    /// Its job, or why it has none.
    pub submitted: Result<Submitted, Error>,
}

impl Sending {
    /// An event nobody subscribed to is fine.
    pub fn allow_none(mut self) -> Self {
        self.allow_none = true;
        self
    }

    /// How long the key is kept: 30 days by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl.into();
        self
    }

    async fn run(self) -> Result<Vec<Delivered>, Error> {
        let client = self.event.client.clone();
        let input = self.input.clone()?;
        let subscribers = self.event.subscribers().await?;
        if subscribers.is_empty() && !self.allow_none {
            return Err(Error::NoSubscribers {
                event: self.event.name,
            });
        }
        let submissions = subscribers
            .iter()
            .map(|subscriber| self.submission(subscriber, &input))
            .collect::<Result<Vec<_>, Invalid>>()?;
        let builders = submissions
            .into_iter()
            .map(|submission| Submit::whole(&client, submission));
        let answers = client.submit_many(builders).await;
        let delivered = subscribers.into_iter().zip(answers);
        Ok(delivered
            .map(|(subscriber, submitted)| Delivered {
                task: subscriber.task,
                queue: subscriber.queue,
                submitted,
            })
            .collect())
    }

    /// The job of one subscriber: the scope of the key is its task, so each has its own.
    fn submission(&self, subscriber: &Subscriber, input: &Json) -> Result<Submission, Invalid> {
        let mut submission = subscriber.submission(input.clone())?;
        if let Some(key) = &self.key {
            let policy = Dedup::idempotency_key(key).hold(Hold::window(self.ttl));
            policy.check()?;
            submission.policy = Policy::from(policy);
        }
        Ok(submission)
    }
}

impl IntoFuture for Sending {
    type Output = Result<Vec<Delivered>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
