//! Workers as operators see them (contract 4.4).

use semel_core::ids::Name;
use semel_core::store::{Document, Page};
use semel_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;

/// The kind of document a worker registers with.
pub const KIND: &str = "worker";

/// What a worker says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// What its owner calls it; several may be called the same.
    pub name: Option<String>,
    /// The machine it runs on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// The version of the application.
    pub version: Option<String>,
    /// The tasks it serves; empty: all.
    pub tasks: Vec<Name>,
    /// The queues it looks into; empty: all.
    pub queues: Vec<Name>,
    /// How many jobs it runs at once.
    pub slots: usize,
    /// How many it runs now.
    pub running: usize,
    /// Since when it works, in the store's time.
    pub started_at: Option<Timestamp>,
}

/// A worker that was heard of lately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// Tells it from all others; the `worker` of the jobs it runs.
    pub id: String,
    /// What it says about itself.
    #[serde(flatten)]
    pub info: WorkerInfo,
    /// When it was heard of last.
    pub heartbeat_at: Timestamp,
}

impl WorkerView {
    /// Whether jobs of this task in this queue get to it.
    pub fn serves(&self, task: &str, queue: &str) -> bool {
        self.serves_task(task) && is_named(&self.info.queues, queue)
    }

    /// Whether jobs of this task get to it, from whatever queue.
    pub fn serves_task(&self, task: &str) -> bool {
        is_named(&self.info.tasks, task)
    }
}

/// A worker that names none means all.
fn is_named(names: &[Name], wanted: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name.as_str() == wanted)
}

/// The workers that are alive, by id. One that was killed is listed for up to half a minute.
pub async fn list(client: &Client) -> Result<Vec<WorkerView>, Error> {
    let kind = kind();
    let mut workers = Vec::new();
    let mut page = Page::first(semel_core::limits::PAGE);
    loop {
        let listing = client.store().documents(&kind, "", page).await?;
        workers.extend(listing.items.into_iter().filter_map(view));
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, semel_core::limits::PAGE),
            None => return Ok(workers),
        }
    }
}

/// A document that a later version wrote in a way this one cannot read is left out.
fn view(document: Document) -> Option<WorkerView> {
    Some(WorkerView {
        info: document.body.read().ok()?,
        id: document.name,
        heartbeat_at: document.updated_at,
    })
}

pub(crate) fn kind() -> Name {
    Name::new(KIND).expect("a valid name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(tasks: &[&str], queues: &[&str]) -> WorkerView {
        let names = |names: &[&str]| names.iter().map(|name| Name::new(name).unwrap()).collect();
        WorkerView {
            id: "w".to_owned(),
            info: WorkerInfo {
                name: None,
                host: "over HTTP".to_owned(),
                pid: 0,
                version: None,
                tasks: names(tasks),
                queues: names(queues),
                slots: 1,
                running: 0,
                started_at: None,
            },
            heartbeat_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn one_who_names_no_task_or_queue_serves_all() {
        assert!(worker(&[], &[]).serves("mail", "default"));
        assert!(worker(&[], &["default"]).serves("mail", "default"));
        assert!(worker(&["mail"], &[]).serves("mail", "default"));
        assert!(!worker(&[], &["other"]).serves("mail", "default"));
        assert!(!worker(&["other"], &[]).serves("mail", "default"));
        assert!(worker(&["mail"], &["other"]).serves_task("mail"));
    }
}
