//! A subscription as it is kept in the store: it outlives the process that made it.

use serde::{Deserialize, Serialize};

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{Document, Expect, Page, PutDocument, PutOutcome};
use semel_core::submission::Submission;

use crate::client::Client;
use crate::error::Error;
use crate::request::{DedupRequest, SubmitRequest};
use crate::submit::Submit;
use crate::task::Task;

/// A task that has a job for each event of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriber {
    /// The event.
    pub event: String,
    /// The task.
    pub task: Name,
    /// Where its jobs wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How many attempts may end in an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How many leases may expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deliveries: Option<u32>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// −100 to 100, larger first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// The policy that stands on the task; an event with a key brings its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup: Option<DedupRequest>,
}

impl Subscriber {
    /// A task that is known by name only.
    pub(crate) fn named(event: &str, task: &str, queue: Option<&str>) -> Result<Self, Invalid> {
        check_event(event)?;
        Ok(Subscriber {
            event: event.to_owned(),
            task: Name::new(task)?,
            queue: queue
                .map(|queue| Name::new(queue).map(String::from))
                .transpose()?,
            max_attempts: None,
            max_deliveries: None,
            timeout_ms: None,
            priority: None,
            dedup: None,
        })
    }

    /// A task with all it says about its jobs.
    pub(crate) fn of_task<I, O>(event: &str, task: Task<I, O>) -> Result<Self, Error> {
        let mut subscriber = Subscriber::named(event, task.name(), task.queue_name())?;
        let request = SubmitRequest::from(&Submit::probe(task)?);
        subscriber.max_attempts = request.max_attempts;
        subscriber.max_deliveries = request.max_deliveries;
        subscriber.timeout_ms = request.timeout_ms;
        subscriber.priority = request.priority;
        subscriber.dedup = request.dedup;
        Ok(subscriber)
    }

    /// The submission of its job.
    pub(super) fn submission(&self, input: Json) -> Result<Submission, Invalid> {
        let mut request = SubmitRequest::new(self.task.as_str(), input);
        request.queue = self.queue.clone();
        request.max_attempts = self.max_attempts;
        request.max_deliveries = self.max_deliveries;
        request.timeout_ms = self.timeout_ms;
        request.priority = self.priority;
        request.dedup = self.dedup.clone();
        request.submission()
    }

    /// Puts it on the list; an equal one is left as it is, so that every start of a worker writes nothing.
    pub(super) async fn store(&self, client: &Client) -> Result<(), Error> {
        let name = document_name(&self.event, self.task.as_str());
        let body = Json::of(self)?;
        let found = client.store().document(&kind(), &name).await?;
        if found.is_some_and(|document| document.body == body) {
            return Ok(());
        }
        let put = PutDocument {
            kind: kind(),
            name,
            body,
            expect: Expect::Any,
            ttl: None,
        };
        client.store().put_document(put).await?;
        Ok(())
    }

    pub(super) async fn remove(client: &Client, event: &str, task: &str) -> Result<bool, Error> {
        check_event(event)?;
        let name = document_name(event, Name::new(task)?.as_str());
        let gone = client.store().delete_document(&kind(), &name, None).await?;
        Ok(matches!(gone, PutOutcome::Done { .. }))
    }

    /// Those of one event, or all there are.
    pub(crate) async fn list(client: &Client, event: Option<&str>) -> Result<Vec<Subscriber>, Error> {
        let prefix = match event {
            Some(event) => {
                check_event(event)?;
                document_name(event, "")
            }
            None => String::new(),
        };
        let mut subscribers = Vec::new();
        let mut page = Page::first(limits::PAGE);
        loop {
            let found = client.store().documents(&kind(), &prefix, page).await?;
            let read = found.items.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            subscribers.extend(read);
            match found.next_cursor {
                Some(cursor) => page = Page::after(cursor, limits::PAGE),
                None => return Ok(subscribers),
            }
        }
    }
}

impl Client {
    /// All subscriptions, by event and task.
    pub async fn subscribers(&self) -> Result<Vec<Subscriber>, Error> {
        Subscriber::list(self, None).await
    }
}

fn read(document: &Document) -> Result<Subscriber, StoreError> {
    let what = || StoreError::corrupt(format!("the subscriber {} cannot be read", document.name));
    document.body.read().map_err(|_| what())
}

/// The length in front keeps an event that contains a slash apart from every other.
fn document_name(event: &str, task: &str) -> String {
    format!("{}:{event}/{task}", event.len())
}

fn kind() -> Name {
    Name::new("subscriber").expect("a valid name")
}

fn check_event(event: &str) -> Result<(), Invalid> {
    Name::new(event).map(drop).map_err(|invalid| Invalid {
        what: "name of an event".to_owned(),
        ..invalid
    })
}
