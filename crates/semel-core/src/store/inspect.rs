//! What can be asked of a store.

use serde::Serialize;

use crate::error::Invalid;
use crate::ids::{Digest, JobId, Name};
use crate::job::State;
use crate::limits;
use crate::time::{Millis, Timestamp};

/// Which part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where to go on; `None`: from the beginning.
    pub cursor: Option<String>,
    /// At most this many rows.
    pub limit: usize,
}

impl Page {
    /// The first rows.
    pub fn first(limit: usize) -> Self {
        Page { cursor: None, limit }
    }

    /// The rows after a page.
    pub fn after(cursor: impl Into<String>, limit: usize) -> Self {
        Page {
            cursor: Some(cursor.into()),
            limit,
        }
    }

    /// The cursor as the number a store wrote into it for this query; anything else is refused (contract 8.1).
    ///
    /// `query` names the list and its filter, so a cursor of another query is told apart.
    pub fn position(&self, query: &str) -> Result<Option<i64>, Invalid> {
        self.place(query)?
            .map(|position| position.parse().map_err(|_| wrong_cursor()))
            .transpose()
    }

    /// As [`Page::position`], for a cursor that is a text.
    pub fn place(&self, query: &str) -> Result<Option<&str>, Invalid> {
        if self.limit == 0 || self.limit > limits::PAGE {
            return Err(Invalid::new("limit", format!("1 to {}", limits::PAGE)).found(self.limit.to_string()));
        }
        let Some(cursor) = &self.cursor else {
            return Ok(None);
        };
        let (tag, place) = cursor.split_once('.').ok_or_else(wrong_cursor)?;
        if tag != query_tag(query) {
            return Err(wrong_cursor());
        }
        Ok(Some(place))
    }

    /// The cursor for a position in a query.
    pub fn cursor(query: &str, position: impl std::fmt::Display) -> String {
        format!("{}.{position}", query_tag(query))
    }
}

fn wrong_cursor() -> Invalid {
    Invalid::new(
        "cursor",
        "the next_cursor of the page before, with the same filter",
    )
}

fn query_tag(query: &str) -> String {
    let hash = query.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Which jobs. Everything that is set has to hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// In this state.
    pub state: Option<State>,
    /// In this queue.
    pub queue: Option<Name>,
    /// Of this task.
    pub task: Option<Name>,
    /// With this key.
    pub key: Option<Digest>,
    /// Whose last error contains this text.
    pub error: Option<String>,
    /// Admitted at or after.
    pub since: Option<Timestamp>,
    /// Admitted before.
    pub until: Option<Timestamp>,
    /// Only failed jobs that were neither replayed nor dropped.
    pub dead_letters: bool,
}

/// Which keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeyFilter {
    /// Whose text contains this.
    pub text: Option<String>,
    /// Of this scope, as [`crate::dedup::Key::scope`] spells it.
    pub scope: Option<String>,
    /// Whose holder has this task.
    pub task: Option<Name>,
    /// Held by this job.
    pub job: Option<JobId>,
    /// Also those that are free again.
    pub also_free: bool,
}

/// Which absorbed submissions.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LedgerFilter {
    /// Of this key.
    pub digest: Option<Digest>,
    /// Blocked by this job.
    pub holder: Option<JobId>,
}

/// Which steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepFilter {
    /// Of this chain.
    Origin(JobId),
    /// Those whose effect may have happened and that nobody is at, oldest first.
    InDoubt,
}

/// What may differ between stores: a closed list (contract 9.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The name of the store: `memory`, `sqlite`, …
    pub name: &'static str,
    /// Whether claim order holds over the whole store, or per shard.
    pub strict_order: bool,
    /// How soon an idle worker of another process learns of new work.
    pub wake_up: Millis,
    /// Whether an answered call survives `kill -9` of every process.
    pub durable: bool,
    /// Whether counters are exact at once, or after upkeep.
    pub counters_at_once: bool,
    /// How finely the store tells time.
    pub clock_resolution: Millis,
    /// Whether keys are found by text through an index, or by a search that says how far it went.
    pub key_search: bool,
    /// Whether a submission can join the caller's own transaction.
    pub joins_transaction: bool,
    /// Whether a token is known whatever key it is sent with; otherwise only with the key it came with.
    pub tokens_stand_alone: bool,
    /// Whether several processes can share it.
    pub shared_by_processes: bool,
}

/// One line of the guarantee sheet (contract 9.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guarantee {
    /// What it is about.
    pub subject: &'static str,
    /// What holds.
    pub statement: String,
    /// How it was found out.
    pub probed: String,
}
