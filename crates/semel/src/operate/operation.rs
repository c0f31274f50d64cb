//! A bulk act as it is kept in the store: its plan, and how far it has come.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::store::{Document, Expect, PutDocument, PutOutcome};
use semel_core::time::Millis;

use crate::client::Client;
use crate::error::Error;
use crate::operate::action::Action;
use crate::operate::plan::Sample;

/// A list of keys that were released is looked through later if it has no more parts than this.
pub(super) const PARTS_TOLD: usize = 5;
/// How long plans and what came of them are kept.
const KEPT: Millis = Millis::from_days(30);

/// A bulk act: what is planned, how far it has come (contract 6.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its identity; the plan is carried out by it.
    pub id: String,
    /// What is done to each.
    pub action: Action,
    /// Which were meant, as JSON.
    pub filter: Json,
    /// Who planned it.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// How many are to be acted on: exactly those, whatever comes later.
    pub total: u64,
    /// How many matched, but are in a state that does not allow it.
    pub ineligible: u64,
    /// Those to be acted on, by state.
    pub by_state: BTreeMap<State, u64>,
    /// Those to be acted on, by task.
    pub by_task: BTreeMap<Name, u64>,
    /// Some of them.
    pub samples: Vec<Sample>,
    /// For retry and replay: how many would be refused, as another job holds their key.
    pub collisions: u64,
    /// Whether every key was looked at for that.
    pub collisions_complete: bool,
    /// How far it has come.
    pub progress: Progress,
    /// The list is kept in so many parts.
    pub(super) parts: usize,
}

/// Where a bulk act stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing was done yet.
    Planned,
    /// It was begun. If nobody is at it any more, it can be carried on.
    Running,
    /// All was done.
    Done,
    /// Somebody stopped it.
    Aborted,
}

/// How far a bulk act has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Acted on.
    pub done: u64,
    /// Refused, by the reason in a word: `held`, `wrong_state`, `not_found`, `replayed`, `closed`, `changed`.
    pub refused: BTreeMap<String, u64>,
    /// Some that were refused, with the reason.
    pub refusals: Vec<(JobId, String)>,
    /// The next part of the list.
    pub(super) part: usize,
    /// The next place in that part.
    pub(super) place: usize,
}

impl Progress {
    /// Acted on or refused.
    pub fn seen(&self) -> u64 {
        self.done + self.refused.values().sum::<u64>()
    }
}

/// One of those to be acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: JobId,
    /// For retry: the life that is meant. A job that has begun another one is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<i64>,
    /// For release: the key that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<Digest>,
}

impl Operation {
    /// Writes it for the first time, after its parts: a plan that can be found is whole.
    pub(super) async fn create(&self, client: &Client, parts: &[Vec<Entry>]) -> Result<(), Error> {
        for (n, part) in parts.iter().enumerate() {
            let name = part_name(&self.id, n);
            put(client, "operation_part", name, Json::of(part)?, Expect::Any).await?;
        }
        put(
            client,
            "operation",
            self.id.clone(),
            Json::of(self)?,
            Expect::Absent,
        )
        .await?;
        Ok(())
    }

    /// Reads it with its version.
    pub(super) async fn read(client: &Client, id: &str) -> Result<(Operation, i64), Error> {
        let found = client.store().document(&kind("operation"), id).await?;
        let document = found.ok_or_else(|| Error::NotFound {
            what: format!("operation {id}"),
        })?;
        Ok((parse(&document)?, document.version))
    }

    /// Writes it over a version; says whether that was still there.
    pub(super) async fn write(&self, client: &Client, version: i64) -> Result<Option<i64>, Error> {
        let expect = Expect::Version(version);
        put(client, "operation", self.id.clone(), Json::of(self)?, expect).await
    }

    /// A part of its list.
    pub(super) async fn part(&self, client: &Client, n: usize) -> Result<Vec<Entry>, Error> {
        let name = part_name(&self.id, n);
        let found = client.store().document(&kind("operation_part"), &name).await?;
        let document = found.ok_or_else(|| Error::NotFound {
            what: format!("part {n} of operation {}", self.id),
        })?;
        Ok(parse(&document)?)
    }
}

impl Operation {
    /// Removes its list, unless it is a short one of keys: their pages tell who freed them. What cannot be removed now
    /// disappears by itself.
    pub(super) async fn drop_parts(&self, client: &Client) {
        if self.action == Action::Release && self.parts <= PARTS_TOLD {
            return;
        }
        let kind = kind("operation_part");
        for n in 0..self.parts {
            let name = part_name(&self.id, n);
            let _ = client.store().delete_document(&kind, &name, None).await;
        }
    }
}

/// Writes a document; gives its version, or `None` if something else was there.
pub(super) async fn put(
    client: &Client,
    of: &str,
    name: String,
    body: Json,
    expect: Expect,
) -> Result<Option<i64>, Error> {
    put_for(client, of, name, body, expect, KEPT).await
}

pub(super) async fn put_for(
    client: &Client,
    of: &str,
    name: String,
    body: Json,
    expect: Expect,
    ttl: Millis,
) -> Result<Option<i64>, Error> {
    let put = PutDocument {
        kind: kind(of),
        name,
        body,
        expect,
        ttl: Some(ttl),
    };
    match client.store().put_document(put).await? {
        PutOutcome::Done { version } => Ok(Some(version)),
        PutOutcome::Mismatch { .. } => Ok(None),
    }
}

pub(super) fn kind(word: &str) -> Name {
    Name::new(word).expect("a valid name")
}

fn part_name(id: &str, n: usize) -> String {
    format!("{id}/{n:06}")
}

fn parse<T: serde::de::DeserializeOwned>(document: &Document) -> Result<T, StoreError> {
    let what = || StoreError::corrupt(format!("the {} {} cannot be read", document.kind, document.name));
    document.body.read().map_err(|_| what())
}
