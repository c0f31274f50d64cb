//! What happens, as it happens: one look at the store per half second for all who watch.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use semel_core::ids::JobId;
use semel_core::job::State as JobState;
use semel_core::limits;
use semel_core::store::{JobFilter, LedgerFilter, Page};
use semel_core::view::LedgerEntry;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::alerts;
use crate::api::Reply;
use crate::app::App;
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::turns::Turn;
use crate::wire;

/// How often the store is looked at while somebody watches.
const EVERY: Duration = Duration::from_millis(500);
/// The newest jobs that are followed, and the duplicates that are looked at first.
const NEWEST: usize = 100;
/// Duplicates of one look that are told; of more, only that there were more.
const TOLD: usize = 1_000;
/// How often a stream on which nothing happens asks whether its token is still good.
const ASKED_AGAIN: Duration = Duration::from_secs(5);
/// What a slow watcher may fall behind: all that two looks can bring.
const BEHIND: usize = 4_096;

/// Something that happened.
#[derive(Clone, Debug)]
pub struct News {
    kind: &'static str,
    data: Arc<str>,
}

/// Where news are told.
#[derive(Debug)]
pub struct Hub(broadcast::Sender<News>);

impl Default for Hub {
    fn default() -> Self {
        Hub(broadcast::channel(BEHIND).0)
    }
}

impl Hub {
    fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    fn tell(&self, kind: &'static str, data: &impl serde::Serialize) {
        if let Ok(data) = serde_json::to_string(data) {
            // Nobody listening is fine.
            let _ = self.0.send(News {
                kind,
                data: data.into(),
            });
        }
    }
}

/// `GET /v1/stream`
pub async fn listen(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let turn = app.turns.take(&caller)?;
    let listening = Listening {
        news: app.hub.0.subscribe(),
        app: app.clone(),
        caller,
        _turn: turn,
        begun: false,
    };
    let events = stream::unfold(listening, |mut listening| async move {
        let event = listening.next().await?;
        Some((Ok::<_, Infallible>(event), listening))
    });
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

struct Listening {
    news: broadcast::Receiver<News>,
    app: App,
    caller: Caller,
    _turn: Turn,
    begun: bool,
}

impl Listening {
    async fn next(&mut self) -> Option<Event> {
        if !self.begun {
            // The client knows at once that it is heard.
            self.begun = true;
            return Some(Event::default().event("hello").data("{}"));
        }
        let news = loop {
            let news = tokio::select! {
                news = self.news.recv() => Some(news),
                () = tokio::time::sleep(ASKED_AGAIN) => None,
                () = self.app.stopping() => return None,
            };
            if !self.may_still_listen().await {
                return None;
            }
            if let Some(news) = news {
                break news;
            }
        };
        match news {
            Ok(news) => Some(Event::default().event(news.kind).data(&*news.data)),
            // Too slow: it has to look for itself.
            Err(RecvError::Lagged(_)) => Some(Event::default().event("lagged").data("{}")),
            Err(RecvError::Closed) => None,
        }
    }
}

impl Listening {
    /// A stream outlives the second in which its token was revoked or ran out, but not by much.
    async fn may_still_listen(&self) -> bool {
        let Some(token) = &self.caller.token else {
            return true;
        };
        let caller = self.app.keyring.signed_in(&self.app.client, token).await;
        caller.is_ok_and(|caller| caller.is_some_and(|caller| caller.may(Role::Read)))
    }
}

/// Watches the store for those who watch.
pub async fn watch(app: App) {
    let mut seen: Option<Seen> = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = app.stopping() => return,
        }
        if !app.hub.is_watched() {
            seen = None;
            continue;
        }
        match Seen::look(&app, seen.as_ref().map(|seen| seen.newest)).await {
            Ok(now) => {
                if let Some(before) = &seen {
                    now.tell(before, &app.hub);
                }
                seen = Some(now);
            }
            Err(problem) => tracing::debug!(detail = problem.detail(), "the store could not be watched"),
        }
    }
}

struct Seen {
    jobs: Vec<semel_core::view::Job>,
    states: HashMap<JobId, JobState>,
    /// Those that were not known before, newest first.
    duplicates: Vec<LedgerEntry>,
    /// There were more of them than are told.
    lagged: bool,
    newest: i64,
    stats: Arc<semel_core::view::Stats>,
    alerts: Vec<alerts::Alert>,
}

impl Seen {
    /// Looks; of the ledger, back to the entry that was the newest `known`.
    async fn look(app: &App, known: Option<i64>) -> Result<Seen, Problem> {
        let store = app.client.store();
        let jobs = store.jobs(JobFilter::default(), Page::first(NEWEST)).await?.items;
        let (duplicates, lagged, newest) = absorbed(app, known).await?;
        let view = app.view().await?;
        Ok(Seen {
            states: jobs.iter().map(|job| (job.id.clone(), job.state)).collect(),
            newest,
            jobs,
            duplicates,
            lagged,
            stats: app.stats().await?,
            alerts: alerts::watch(&view, &app.settings.thresholds),
        })
    }

    fn tell(&self, before: &Seen, hub: &Hub) {
        if self.lagged {
            // What is told begins after a gap: whoever needs all of it has to look.
            hub.tell("lagged", &serde_json::json!({}));
        }
        for entry in self.duplicates.iter().rev() {
            let bare = LedgerEntry {
                input: None,
                ..entry.clone()
            };
            hub.tell("duplicate", &wire::LedgerEntry::from(&bare));
        }
        for job in self.jobs.iter().rev() {
            if before.states.get(&job.id) != Some(&job.state) {
                hub.tell("job", &wire::Holder::of(job));
            }
        }
        for alert in &self.alerts {
            let was = before.alerts.iter().find(|other| other.alert == alert.alert);
            if was.is_none_or(|was| was.firing != alert.firing) {
                hub.tell("alert", alert);
            }
        }
        if self.stats.raw != before.stats.raw || self.stats.jobs != before.stats.jobs {
            hub.tell("stats", &wire::Stats::totals(&self.stats));
        }
    }
}

/// Submissions absorbed since the newest `known` entry, newest first; whether there were more than are told; and the
/// newest of all. Who begins to watch is told of none.
async fn absorbed(app: &App, known: Option<i64>) -> Result<(Vec<LedgerEntry>, bool, i64), Problem> {
    let store = app.client.store();
    let mut found = store.ledger(LedgerFilter::default(), Page::first(NEWEST)).await?;
    let newest = found.items.first().map_or(0, |entry| entry.n);
    let Some(known) = known else {
        return Ok((Vec::new(), false, newest));
    };
    let mut entries = std::mem::take(&mut found.items);
    let is_new = |entry: &LedgerEntry| entry.n > known;
    while entries.len() <= TOLD
        && entries.last().is_some_and(is_new)
        && let Some(cursor) = found.next_cursor.take()
    {
        let page = Page::after(cursor, limits::PAGE.min(TOLD + 1 - entries.len()));
        found = store.ledger(LedgerFilter::default(), page).await?;
        entries.append(&mut found.items);
    }
    entries.retain(is_new);
    let lagged = entries.len() > TOLD;
    entries.truncate(TOLD);
    Ok((entries, lagged, newest))
}
