//! An event: a job that is to be submitted once the transaction around it is committed.

use std::collections::BTreeMap;

use semel::SubmitRequest;
use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::submission::Submission;
use serde::Serialize;

/// A job to be, written in the transaction that makes it necessary.
///
/// ```
/// use semel_outbox::Event;
///
/// let event = Event::new("send_receipt", &serde_json::json!({"order": 7}))?
///     .id("order-7-paid")
///     .partition("customer-3");
/// # Ok::<(), semel_core::error::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub(crate) id: String,
    pub(crate) task: String,
    pub(crate) queue: Option<String>,
    pub(crate) partition: Option<String>,
    pub(crate) input: Json,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) priority: Option<i8>,
    /// Why what another program wrote cannot become a job.
    pub(crate) flaw: Option<Invalid>,
}

impl Event {
    /// A job of this task with this input. Its id is fresh, unless one is said.
    pub fn new<I: Serialize + ?Sized>(task: impl Into<String>, input: &I) -> Result<Self, Invalid> {
        Ok(Event {
            id: semel::ids::fresh_token().to_string(),
            task: task.into(),
            queue: None,
            partition: None,
            input: Json::of(input)?,
            headers: BTreeMap::new(),
            priority: None,
            flaw: None,
        })
    }

    /// Its id: the key of its job. One that is made from the business data lets an audit find rows without an event.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Events of one partition become jobs in the order in which they were written; a failing one holds back those
    /// behind it, and nobody else.
    #[must_use]
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.partition = Some(partition.into());
        self
    }

    /// The queue its job waits in.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The priority of its job.
    #[must_use]
    pub fn priority(mut self, priority: i8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// A small text that travels with it, such as trace context.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Refuses what no store would take: better in the transaction of the business than in the relay.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if let Some(partition) = &self.partition {
            Name::new(partition).map_err(|invalid| Invalid {
                what: "partition".to_owned(),
                ..invalid
            })?;
        }
        self.submission()?.check(semel::clock::now())
    }

    /// The submission it becomes: its id is the key (contract 5.5).
    pub(crate) fn submission(&self) -> Result<Submission, Invalid> {
        if let Some(flaw) = &self.flaw {
            return Err(flaw.clone());
        }
        // A key is trimmed: two ids that differ in spaces only would be one job.
        if self.id.trim() != self.id {
            return Err(Invalid::new("id of the event", "a text without spaces around it"));
        }
        // What another program wrote is JSON to the database; here a little more is asked of it.
        let input = Json::new(self.input.as_str())?;
        let mut request = SubmitRequest::new(self.task.clone(), input);
        request.queue.clone_from(&self.queue);
        request.idempotency_key = Some(self.id.clone());
        request.priority = self.priority.map(i64::from);
        request.headers.clone_from(&self.headers);
        request.producer = Some("outbox".to_owned());
        request.submission()
    }

    /// An event as it is found in the table. Whatever is wrong with it is its own flaw: others do not wait for it.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn read(columns: &impl Columns) -> Self {
        let mut flaw = None;
        let mut text = |name: &'static str| {
            columns.text(name).unwrap_or_else(|invalid| {
                flaw.get_or_insert(invalid);
                None
            })
        };
        let id = text("id").unwrap_or_default();
        let task = text("task").unwrap_or_default();
        let (queue, partition) = (text("queue"), text("partition"));
        let input = text("input").unwrap_or_else(|| "null".to_owned());
        let headers = text("headers").map(|headers| serde_json::from_str(&headers));
        let headers = headers.unwrap_or_else(|| Ok(BTreeMap::new()));
        let priority = columns.number("priority").and_then(|number| {
            let small = number.map(i8::try_from).transpose();
            small.map_err(|_| Invalid::new("priority", "a number from -100 to 100"))
        });
        if let Err(error) = &headers {
            let allowed = "an object whose values are texts";
            flaw.get_or_insert(Invalid::new("headers", allowed).found(error.to_string()));
        }
        if let Err(invalid) = &priority {
            flaw.get_or_insert(invalid.clone());
        }
        Event {
            id,
            task,
            queue,
            partition,
            // The relay judges what it says; the database has checked that it is JSON.
            input: Json::trusted(input),
            headers: headers.unwrap_or_default(),
            priority: priority.unwrap_or_default(),
            flaw,
        }
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn headers_json(&self) -> Option<String> {
        let written = serde_json::to_string(&self.headers);
        written.ok().filter(|_| !self.headers.is_empty())
    }
}

/// A row of the outbox, which any program may have written.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) trait Columns {
    /// A column that is to hold a text.
    fn text(&self, name: &'static str) -> Result<Option<String>, Invalid>;

    /// A column that is to hold a whole number.
    fn number(&self, name: &'static str) -> Result<Option<i64>, Invalid>;
}
