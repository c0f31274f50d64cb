//! One submission, said as a sentence that ends in `.await`.

mod draft;
mod many;
mod moment;
pub(crate) mod wish;

pub use moment::Moment;

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use semel_core::dedup::{Period, Scope};
use semel_core::error::Invalid;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::store::Explanation;
use semel_core::submission::{RunAt, Submission};

use crate::client::Client;
use crate::error::Error;
use crate::policy::Dedup;
use crate::request::SubmitRequest;
use crate::submit::draft::Draft;
use crate::submit::wish::{Shape, Source};
use crate::submitted::Submitted;
use crate::task::{Settings, Task};
use crate::wait::Output;

impl Client {
    /// Submits a job of a task. Nothing happens until the builder is awaited.
    ///
    /// ```
    /// # use semel::{Task, days};
    /// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
    /// const CHARGE: Task<u64, String> = Task::new("charge_customer");
    /// let jobs = semel::connect("memory:").await?;
    /// let sent = jobs.submit(CHARGE, &42).idempotency_key("ORD-123").idempotency_ttl(days(30)).await?;
    /// let again = jobs.submit(CHARGE, &42).idempotency_key("ORD-123").await?;
    /// assert!(again.is_duplicate() && again.id() == sent.id());
    /// # Ok(()) }
    /// ```
    pub fn submit<I: Serialize, O>(&self, task: Task<I, O>, input: &I) -> Submit<O> {
        Submit::new(self, task.name(), Json::of(input), task.settings())
    }

    /// Submits a job of a task that is known by name only.
    pub fn submit_json<I: Serialize + ?Sized>(&self, task: &str, input: &I) -> Submit<serde_json::Value> {
        Submit::new(self, task, Json::of(input), Settings::default())
    }

    /// Submits a job with an input that is JSON text already; text that is none is refused when awaited.
    pub fn submit_text(&self, task: &str, input: &str) -> Submit<serde_json::Value> {
        Submit::new(self, task, Json::new(input), Settings::default())
    }

    /// Submits what a request says.
    pub fn submit_request(&self, request: SubmitRequest) -> Submit<serde_json::Value> {
        Submit::of(self, request.submission())
    }
}

/// A submission that is being put together; ends in `.await`, [`output`](Submit::output) or [`explain`](Submit::explain).
///
/// What makes no sense is said then, as [`Error::Invalid`], and nothing is written.
#[derive(Clone, Debug)]
#[must_use = "nothing is submitted until this is awaited"]
pub struct Submit<O = serde_json::Value> {
    client: Client,
    draft: Result<Draft, Invalid>,
    output: PhantomData<fn() -> O>,
}

impl<O> Submit<O> {
    fn new(client: &Client, task: &str, input: Result<Json, Invalid>, settings: Settings) -> Self {
        let draft = Draft::new(task, input, settings).map(|mut draft| {
            draft.submission.producer = client.producer().cloned();
            draft
        });
        Submit {
            client: client.clone(),
            draft,
            output: PhantomData,
        }
    }

    /// A submission that came as a whole.
    pub(crate) fn whole(client: &Client, submission: Submission) -> Self {
        Submit::of(client, Ok(submission))
    }

    fn of(client: &Client, submission: Result<Submission, Invalid>) -> Self {
        let draft = submission.map(|mut submission| {
            submission.producer = submission.producer.or_else(|| client.producer().cloned());
            Draft::whole(submission)
        });
        Submit {
            client: client.clone(),
            draft,
            output: PhantomData,
        }
    }

    /// One job for this key, kept 30 days; another input under the same key is a conflict.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        let source = Source::Idempotency(key.into());
        self.with(|draft| draft.wish.source(source))
    }

    /// How long the idempotency key is kept, from the submission on.
    pub fn idempotency_ttl(self, ttl: Duration) -> Self {
        self.set(|draft| draft.wish.ttl(ttl))
    }

    /// Where the key must be unique.
    pub fn idempotency_scope(self, scope: Scope) -> Self {
        self.set(|draft| draft.wish.scope(scope))
    }

    /// Lets a text be the key of `unique_for`, `once_per`, `latest` or `debounce`.
    pub fn by_key(self, text: impl Into<String>) -> Self {
        self.by(Dedup::explicit(text))
    }

    /// Lets the input at these JSON pointers be the key of `unique`, `unique_for`, `once_per`, `latest` or `debounce`.
    pub fn by_fields<P: AsRef<str>>(self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.by(Dedup::fields(pointers))
    }

    /// Lets the input without these JSON pointers be the key.
    pub fn by_input_except<P: AsRef<str>>(self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.by(Dedup::except(pointers))
    }

    /// Lets fields be the key, and tells another input with the same fields apart as a collision.
    pub fn by_hybrid<P: AsRef<str>>(self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.by(Dedup::hybrid(pointers))
    }

    /// One job per input at a time.
    pub fn unique(self) -> Self {
        self.shape(Shape::Unique)
    }

    /// One job per input at a time, letting another in after `ttl` if the first is still waiting.
    pub fn unique_for(self, ttl: Duration) -> Self {
        self.shape(Shape::UniqueFor(ttl))
    }

    /// One job per input and calendar period: `once_per(Unit::Day)` in UTC, or a [`Period`] in a time zone.
    pub fn once_per(self, period: impl Into<Period>) -> Self {
        self.shape(Shape::OncePer(period.into()))
    }

    /// While a job with this key is active, another is an [`Error::Duplicate`].
    pub fn exclusive(self, key: impl Into<String>) -> Self {
        self.shape(Shape::Exclusive(key.into()))
    }

    /// The newest submission wins, and runs after the one that is running. Say by which key with
    /// [`by_fields`](Submit::by_fields) or [`by_key`](Submit::by_key); else it is the whole input.
    pub fn latest(self) -> Self {
        self.shape(Shape::Latest)
    }

    /// Starts when things have been quiet for `delay`, at the latest `max_wait` after the first submission.
    /// Say by which key with [`by_fields`](Submit::by_fields) or [`by_key`](Submit::by_key); else it is the whole input.
    pub fn debounce(self, delay: Duration, max_wait: impl Into<Option<Duration>>) -> Self {
        self.shape(Shape::Debounce(delay, max_wait.into()))
    }

    /// A whole policy.
    pub fn dedup(self, policy: impl Into<Dedup>) -> Self {
        self.shape(Shape::Whole(policy.into()))
    }

    /// No deduplication, also on a queue that was declared unique.
    pub fn without_dedup(self) -> Self {
        self.shape(Shape::Without)
    }

    /// Not before a while from now has passed.
    pub fn delay(self, delay: Duration) -> Self {
        self.run(RunAt::After(delay.into()))
    }

    /// Not before a moment.
    pub fn run_at(self, at: impl Into<Moment>) -> Self {
        self.run(RunAt::At(at.into().0))
    }

    /// −100 to 100, larger first.
    pub fn priority(self, priority: i8) -> Self {
        self.set(|draft| draft.submission.priority = priority)
    }

    /// Where the job waits.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.with(|draft| {
            draft.submission.queue = Name::new(queue)?;
            Ok(())
        })
    }

    /// How many attempts may end in an error.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.set(|draft| draft.submission.max_attempts = attempts)
    }

    /// How many leases may expire.
    pub fn max_deliveries(self, deliveries: u32) -> Self {
        self.set(|draft| draft.submission.max_deliveries = deliveries)
    }

    /// How long one attempt may take.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|draft| draft.submission.content.timeout = Some(timeout.into()))
    }

    /// A small text that travels with the job, such as trace context.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers([(name.into(), value.into())])
    }

    /// Small texts that travel with the job.
    pub fn headers<N: Into<String>, V: Into<String>>(
        self,
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let headers = headers
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.set(|draft| draft.submission.content.headers.extend(headers))
    }

    /// A JSON object for people and tools.
    pub fn meta<M: Serialize + ?Sized>(self, meta: &M) -> Self {
        self.with(|draft| {
            draft.submission.content.meta = Some(Json::of(meta)?);
            Ok(())
        })
    }

    /// Makes this submission the same as any other with this token (contract 3.5). One is made where none is given.
    pub fn token(self, token: Token) -> Self {
        self.set(|draft| draft.submission.token = token)
    }

    /// Who submits, for the ledger; else the client's name.
    pub fn producer(self, producer: impl AsRef<str>) -> Self {
        self.with(|draft| {
            draft.submission.producer = Some(Name::new(producer)?);
            Ok(())
        })
    }

    /// Forgets the type of the output, so that builders of several tasks fit into one
    /// [`submit_many`](Client::submit_many).
    pub fn untyped(self) -> Submit<serde_json::Value> {
        Submit {
            client: self.client,
            draft: self.draft,
            output: PhantomData,
        }
    }

    /// The submission as a store takes it.
    pub fn submission(self) -> Result<Submission, Error> {
        Ok(self.draft.and_then(Draft::finish)?)
    }

    /// The answer this submission would get. Writes nothing (contract 2.14).
    pub async fn explain(self) -> Result<Explanation, Error> {
        let client = self.client.clone();
        let submission = self.submission()?;
        Ok(client.store().explain(submission).await?)
    }

    fn by(self, source: Dedup) -> Self {
        self.with(|draft| draft.wish.source(Source::By(source)))
    }

    fn shape(self, shape: Shape) -> Self {
        self.with(|draft| draft.wish.shape(shape))
    }

    fn run(self, at: RunAt) -> Self {
        self.with(|draft| {
            if draft.submission.run_at != RunAt::Now {
                return Err(Invalid::new("delay or run_at, said twice", "one of them, once"));
            }
            draft.submission.run_at = at;
            Ok(())
        })
    }

    fn set(self, change: impl FnOnce(&mut Draft)) -> Self {
        self.with(|draft| {
            change(draft);
            Ok(())
        })
    }

    /// Goes on with a draft that makes sense so far; the first mistake is the one that is said.
    fn with(mut self, change: impl FnOnce(&mut Draft) -> Result<(), Invalid>) -> Self {
        if let Ok(draft) = &mut self.draft
            && let Err(invalid) = change(draft)
        {
            self.draft = Err(invalid);
        }
        self
    }
}

impl Submit {
    /// A submission of a task without an input: what the task says about all its jobs.
    pub(crate) fn probe<I, O>(task: Task<I, O>) -> Result<Submission, Invalid> {
        Draft::new(task.name(), Ok(Json::null()), task.settings()).and_then(Draft::finish)
    }
}

impl<O: DeserializeOwned> Submit<O> {
    /// Submits, joins the job that has it, and gives its output; a finished one is not run again (contract 3.1, 3.3).
    pub fn output(self) -> Output<O> {
        Output::of_submission(self)
    }
}

impl<O> IntoFuture for Submit<O> {
    type Output = Result<Submitted<O>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.client.clone();
        let submission = self.submission();
        Box::pin(async move { client.admit(submission?).await })
    }
}
