//! Reading filters and pages, as query strings and bodies have them.

use std::collections::HashSet;

use semel_core::dedup::key::{check_text, derive};
use semel_core::dedup::{Dedup, Scope};
use semel_core::error::Invalid;
use semel_core::ids::{Digest, JobId, Name, Token};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store::{JobFilter, KeyFilter, Page};
use semel_core::submission::Submission;
use semel_core::time::Timestamp;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::clock;
use crate::problem::Problem;
use crate::text::count;

/// Rows in a page, where none is said.
const ROWS: usize = 50;
/// Pages of keys that are looked through for one with a whole text. A text that many others contain is among them.
const PAGES_LOOKED_THROUGH: usize = 40;
/// Queues with their tasks in which a key is looked up before it is searched for.
const LANES_LOOKED_UP: usize = 200;

/// Which part of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// The next_cursor of the page before.
    pub cursor: Option<String>,
    /// At most so many, 1 to 500.
    pub limit: Option<usize>,
}

/// A page as a store takes it.
pub fn page(cursor: Option<String>, limit: Option<usize>) -> Page {
    Page {
        cursor: cursor.filter(|cursor| !cursor.is_empty()),
        limit: limit.unwrap_or(ROWS),
    }
}

/// Which jobs.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsQuery {
    /// scheduled, queued, running, deferred, parked, complete, failed or cancelled.
    pub state: Option<String>,
    /// In this queue.
    pub queue: Option<String>,
    /// Of this task.
    pub task: Option<String>,
    /// With this key: its digest or its text.
    pub key: Option<String>,
    /// Whose last error contains this text.
    pub error: Option<String>,
    /// Admitted at or after this moment.
    pub since: Option<String>,
    /// Admitted before this moment.
    pub until: Option<String>,
    /// Only dead letters.
    pub dead_letters: Option<bool>,
    /// The next_cursor of the page before.
    pub cursor: Option<String>,
    /// At most so many, 1 to 500.
    pub limit: Option<usize>,
}

impl JobsQuery {
    /// The filter, if it makes sense.
    pub async fn filter(&self, app: &App) -> Result<JobFilter, Problem> {
        Ok(JobFilter {
            state: self
                .state
                .as_deref()
                .filter(|text| !text.is_empty())
                .map(state)
                .transpose()?,
            queue: name(self.queue.as_deref())?,
            task: name(self.task.as_deref())?,
            key: match said(self.key.as_deref()) {
                Some(text) => Some(digest_of(app, text).await?),
                None => None,
            },
            error: said(self.error.as_deref()).map(str::to_owned),
            since: said(self.since.as_deref())
                .map(|text| moment("since", text))
                .transpose()?,
            until: said(self.until.as_deref())
                .map(|text| moment("until", text))
                .transpose()?,
            dead_letters: self.dead_letters.unwrap_or(false),
        })
    }

    /// Which part of the list.
    pub fn page(&self) -> Page {
        page(self.cursor.clone(), self.limit)
    }
}

/// Which keys.
#[derive(Clone, Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeysQuery {
    /// Whose text contains this; a whole digest finds its key.
    pub text: Option<String>,
    /// Of this scope: task, queue, global or custom:NAME.
    pub scope: Option<String>,
    /// Whose holder has this task.
    pub task: Option<String>,
    /// Held by this job.
    pub job: Option<String>,
    /// held (the default) or all.
    pub state: Option<String>,
    /// The next_cursor of the page before.
    pub cursor: Option<String>,
    /// At most so many, 1 to 500.
    pub limit: Option<usize>,
}

impl KeysQuery {
    /// The filter, if it makes sense.
    pub fn filter(&self) -> Result<KeyFilter, Problem> {
        Ok(KeyFilter {
            text: said(self.text.as_deref()).map(str::to_owned),
            scope: said(self.scope.as_deref()).map(str::to_owned),
            task: name(self.task.as_deref())?,
            job: said(self.job.as_deref()).map(JobId::new).transpose()?,
            also_free: match said(self.state.as_deref()) {
                None | Some("held") => false,
                Some("all") => true,
                Some(other) => return Err(Invalid::new("state of keys", "held or all").found(other).into()),
            },
        })
    }

    /// Which part of the list.
    pub fn page(&self) -> Page {
        page(self.cursor.clone(), self.limit)
    }
}

/// What a form leaves empty was not said.
pub fn said(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn name(text: Option<&str>) -> Result<Option<Name>, Invalid> {
    said(text).map(Name::new).transpose()
}

/// The state of a word.
pub fn state(word: &str) -> Result<State, Invalid> {
    let found = State::ALL.into_iter().find(|state| state.word() == word);
    let words = State::ALL.map(State::word).join(", ");
    found.ok_or_else(|| Invalid::new("state", words).found(word))
}

/// A moment as people write it.
pub fn moment(what: &str, text: &str) -> Result<Timestamp, Invalid> {
    let parsed: jiff::Timestamp = text.parse().map_err(|_| {
        Invalid::new(what, "a moment as in RFC 3339, such as 2027-01-31T08:00:00Z").found(text)
    })?;
    Ok(Timestamp::from_millis(parsed.as_millisecond()))
}

/// The key of this text among those that are looked up rather than searched for: in the scope of a task or queue that is
/// known, or of all. None if there is none of them, or more than one.
async fn likely(app: &App, text: &str) -> Result<Option<Digest>, Problem> {
    if check_text(text).is_err() {
        return Ok(None);
    }
    let view = app.view().await?;
    let mut digests = HashSet::new();
    for lane in view.stats.lanes.iter().take(LANES_LOOKED_UP) {
        let mut submission = Submission::new(Token::from_parts(0, &[0; 10]), lane.task.clone(), Json::null());
        submission.queue = lane.queue.clone();
        for scope in [Scope::Task, Scope::Queue, Scope::Global] {
            let policy = Dedup::explicit(text).scope(scope);
            let key = derive(app.client.store().namespace(), &submission, &policy, clock::now())?;
            digests.insert(key.digest);
        }
    }
    let mut found = None;
    for digest in digests {
        if app.client.store().key(digest).await?.is_some() && found.replace(digest).is_some() {
            return Ok(None);
        }
    }
    Ok(found)
}

/// The key that is meant by its digest or its whole text.
async fn digest_of(app: &App, text: &str) -> Result<Digest, Problem> {
    if let Ok(digest) = text.parse() {
        return Ok(digest);
    }
    // As stores keep it.
    let text = text.trim();
    if let Some(digest) = likely(app, text).await? {
        return Ok(digest);
    }
    let filter = KeyFilter {
        text: Some(text.to_owned()),
        also_free: true,
        ..KeyFilter::default()
    };
    let mut found: Option<Digest> = None;
    let mut page = Page::first(limits::PAGE);
    for _ in 0..PAGES_LOOKED_THROUGH {
        let keys = app.client.store().keys(filter.clone(), page).await?;
        let exact = keys
            .items
            .iter()
            .filter(|row| row.key.text.as_deref() == Some(text));
        for digest in exact.map(|row| row.key.digest) {
            if found.is_some_and(|other| other != digest) {
                return Err(Problem::invalid(format!("there are several keys {text:?}"))
                    .hint("name one by its digest; GET /v1/keys?text= lists them"));
            }
            found = Some(digest);
        }
        match keys.next_cursor {
            Some(cursor) => page = Page::after(cursor, limits::PAGE),
            None => return found.ok_or_else(|| Problem::not_found(format!("key {text:?}"))),
        }
    }
    found.ok_or_else(|| {
        let looked_through = count((PAGES_LOOKED_THROUGH * limits::PAGE) as i64);
        Problem::not_found(format!("key {text:?}")).hint(format!(
            "the newest {looked_through} keys were looked through; a digest is found at any age"
        ))
    })
}
