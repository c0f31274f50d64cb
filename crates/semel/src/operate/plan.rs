//! Planning a bulk act: everything that will be acted on is looked up and written down first.

use std::collections::{BTreeMap, HashSet};
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use semel_core::error::Invalid;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::job::State;
use semel_core::limits;
use semel_core::store::{JobFilter, KeyFilter, Page};
use semel_core::view::{HolderView, Job, error_group};

use crate::client::Client;
use crate::error::Error;
use crate::ids::fresh_token;
use crate::operate::Operator;
use crate::operate::action::{Action, Selection};
use crate::operate::operation::{Entry, Operation, Progress, Status};

/// How many can be acted on by one plan.
const MOST: usize = 1_000_000;
/// Keys that are looked at for collisions.
const KEYS_LOOKED_AT: usize = 10_000;
/// How many are shown.
const SAMPLES: usize = 10;

/// One of those to be acted on, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The job.
    pub id: JobId,
    /// Its task.
    pub task: Name,
    /// Where it stands.
    pub state: State,
    /// What went wrong with it.
    pub error: Option<String>,
}

impl Operator {
    /// Plans a bulk act and writes nothing but the plan. It is carried out on exactly those that it lists.
    pub fn plan(&self, action: Action, which: impl Into<Selection>) -> Planning {
        Planning {
            operator: self.clone(),
            action,
            which: which.into(),
        }
    }
}

/// A plan that is being made; ends in `.await`.
#[derive(Clone, Debug)]
#[must_use = "nothing is planned until this is awaited"]
pub struct Planning {
    operator: Operator,
    action: Action,
    which: Selection,
}

impl IntoFuture for Planning {
    type Output = Result<Operation, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl Planning {
    async fn run(self) -> Result<Operation, Error> {
        if self.action == Action::Release {
            self.operator.needs_reason("releasing keys")?;
        }
        let client = &self.operator.client;
        let mut draft = Draft::new(client, self.action);
        match &self.which {
            Selection::Jobs(filter) => draft.add_jobs(filter, None).await?,
            Selection::Grouped(filter, group) => draft.add_jobs(filter, Some(group)).await?,
            Selection::Keys(filter) if self.action == Action::Release => draft.add_keys(filter).await?,
            Selection::Keys(_) => {
                let what = format!("{} of keys", self.action.word());
                return Err(Invalid::new(what, "release; the others act on jobs").into());
            }
        }
        // Newest first is how lists come; what waited longest goes first.
        draft.entries.reverse();
        let parts: Vec<Vec<Entry>> = draft
            .entries
            .chunks(limits::BATCH)
            .map(<[Entry]>::to_vec)
            .collect();
        let operation = Operation {
            id: fresh_token().to_string(),
            action: self.action,
            filter: self.which.describe()?,
            actor: self.operator.actor()?.to_string(),
            reason: self.operator.reason()?.map(str::to_owned),
            status: Status::Planned,
            total: draft.entries.len() as u64,
            ineligible: draft.ineligible,
            by_state: draft.by_state,
            by_task: draft.by_task,
            samples: draft.samples,
            collisions: draft.collisions,
            collisions_complete: draft.looked_at <= KEYS_LOOKED_AT,
            progress: Progress::default(),
            parts: parts.len(),
        };
        operation.create(client, &parts).await?;
        Ok(operation)
    }
}

/// A plan while it is being made.
struct Draft<'a> {
    client: &'a Client,
    action: Action,
    entries: Vec<Entry>,
    ineligible: u64,
    by_state: BTreeMap<State, u64>,
    by_task: BTreeMap<Name, u64>,
    samples: Vec<Sample>,
    collisions: u64,
    looked_at: usize,
    keys: HashSet<Digest>,
}

impl<'a> Draft<'a> {
    fn new(client: &'a Client, action: Action) -> Self {
        Draft {
            client,
            action,
            entries: Vec::new(),
            ineligible: 0,
            by_state: BTreeMap::new(),
            by_task: BTreeMap::new(),
            samples: Vec::new(),
            collisions: 0,
            looked_at: 0,
            keys: HashSet::new(),
        }
    }

    async fn add_jobs(&mut self, filter: &JobFilter, group: Option<&str>) -> Result<(), Error> {
        let mut page = Page::first(limits::PAGE);
        loop {
            let found = self.client.store().jobs(filter.clone(), page).await?;
            let is_meant = |job: &&Job| group.is_none_or(|group| group_of(job) == group);
            for job in found.items.iter().filter(is_meant) {
                self.add_job(job).await?;
            }
            match found.next_cursor {
                Some(cursor) => page = Page::after(cursor, limits::PAGE),
                None => return Ok(()),
            }
        }
    }

    async fn add_job(&mut self, job: &Job) -> Result<(), Error> {
        if !self.action.applies_to(job) {
            self.ineligible += 1;
            return Ok(());
        }
        if matches!(self.action, Action::Retry | Action::Replay) {
            self.look_for_collision(job).await?;
        }
        let holder = HolderView {
            id: job.id.clone(),
            task: job.task.clone(),
            state: job.state,
            enqueued_at: job.enqueued_at,
        };
        let error = job.error.as_ref().map(|error| error.message.as_str());
        let entry = Entry {
            id: job.id.clone(),
            fence: (self.action == Action::Retry).then_some(job.fence),
            key: (self.action == Action::Release)
                .then(|| job.key.as_ref().map(|key| key.digest))
                .flatten(),
        };
        self.add(entry, &holder, error)
    }

    async fn add_keys(&mut self, filter: &KeyFilter) -> Result<(), Error> {
        let mut page = Page::first(limits::PAGE);
        loop {
            let found = self.client.store().keys(filter.clone(), page).await?;
            for row in &found.items {
                if !row.key.held {
                    self.ineligible += 1;
                    continue;
                }
                let entry = Entry {
                    id: row.holder.id.clone(),
                    fence: None,
                    key: Some(row.key.digest),
                };
                self.add(entry, &row.holder, None)?;
            }
            match found.next_cursor {
                Some(cursor) => page = Page::after(cursor, limits::PAGE),
                None => return Ok(()),
            }
        }
    }

    fn add(&mut self, entry: Entry, job: &HolderView, error: Option<&str>) -> Result<(), Error> {
        if self.entries.len() == MOST {
            return Err(Invalid::new("bulk act", format!("at most {MOST} at once"))
                .hint("narrow the filter, for example by since and until")
                .into());
        }
        *self.by_state.entry(job.state).or_default() += 1;
        *self.by_task.entry(job.task.clone()).or_default() += 1;
        if self.samples.len() < SAMPLES {
            self.samples.push(Sample {
                id: job.id.clone(),
                task: job.task.clone(),
                state: job.state,
                error: error.map(|error| limits::cut(error, 200).to_owned()),
            });
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Another job holds the key, or one of the plan itself will by then.
    async fn look_for_collision(&mut self, job: &Job) -> Result<(), Error> {
        let Some(key) = &job.key else { return Ok(()) };
        self.looked_at += 1;
        if self.looked_at > KEYS_LOOKED_AT {
            return Ok(());
        }
        let first = self.keys.insert(key.digest);
        let row = self.client.store().key(key.digest).await?;
        if !first || row.is_some_and(|row| row.key.held && row.holder.id != job.id) {
            self.collisions += 1;
        }
        Ok(())
    }
}

/// Which group of errors a job is counted with, as lists of dead letters count.
fn group_of(job: &Job) -> String {
    error_group(job.error.as_ref().map_or("", |error| &error.message))
}
