//! Jobs: looking at them, waiting for them, cancelling and retrying them.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use semel_core::ids::JobId;
use semel_core::job::State as JobState;
use semel_core::limits;
use semel_core::store::{JobFilter, Page, log_feed};
use semel_core::view::{Job, Listing};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::query::{JobsQuery, PageQuery, page};
use crate::api::submit::LONGEST_WAIT;
use crate::api::{Reply, Why, json, ok};
use crate::app::App;
use crate::ask::{Asked, MaybeSaid, Named};
use crate::problem::Problem;
use crate::role::Caller;
use crate::{metrics, redact, wire};

/// Jobs that are looked at before the size of the others is guessed.
const FIRST: usize = 50;
/// What the jobs of an answer carry, about.
pub const ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// `GET /v1/jobs`
pub async fn list(State(app): State<App>, Asked(query): Asked<JobsQuery>) -> Reply {
    let filter = query.filter(&app).await?;
    let found = page_of(&app, filter, query.page()).await?;
    ok(&wire::List {
        items: found.items.iter().map(wire::Job::from).collect(),
        next_cursor: found.next_cursor,
    })
}

/// `GET /v1/jobs/{id}`
pub async fn show(State(app): State<App>, Named(id): Named) -> Reply {
    let job = find(&app, &id).await?;
    let row = match &job.key {
        Some(key) => app.client.store().key(key.digest).await?,
        None => None,
    };
    ok(&wire::Job::with_key(&job, row.as_ref()))
}

/// `GET /v1/jobs/{id}/attempts`
pub async fn attempts(State(app): State<App>, Named(id): Named) -> Reply {
    let job = find(&app, &id).await?;
    let attempts = app.client.store().attempts(&job.id).await?;
    ok(&wire::List::whole(attempts.iter().map(wire::Attempt::from)))
}

/// `GET /v1/jobs/{id}/logs`
pub async fn logs(State(app): State<App>, Named(id): Named, Asked(query): Asked<PageQuery>) -> Reply {
    let job = find(&app, &id).await?;
    let page = page(query.cursor, query.limit);
    let found = app.client.store().feed(&log_feed(&job.id), page).await?;
    ok(&wire::List {
        items: found.items.iter().filter_map(wire::LogLine::of).collect(),
        next_cursor: found.next_cursor,
    })
}

/// `GET /v1/jobs/{id}/steps`
pub async fn steps(State(app): State<App>, Named(id): Named) -> Reply {
    let mut steps = app.client.job(id)?.steps().await?;
    for step in &mut steps {
        redact::step(step, &app.settings.redact);
    }
    ok(&wire::List::whole(steps.iter().map(wire::Step::from)))
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// At most so long; 30,000 where none is said, at most 60,000.
    timeout_ms: Option<u64>,
}

/// `GET /v1/jobs/{id}/wait`
pub async fn wait(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    Asked(query): Asked<WaitQuery>,
) -> Reply {
    let _turn = app.turns.take(&caller)?;
    let handle = app.client.job(&id)?;
    let length = Duration::from_millis(query.timeout_ms.unwrap_or(30_000)).min(LONGEST_WAIT);
    let waited = tokio::select! {
        waited = handle.wait().at_most(length).into_future() => waited,
        () = app.stopping() => Err(semel::Error::WaitTimeout { id: handle.id().clone(), state: None }),
    };
    match waited {
        Ok(mut job) => {
            redact::job(&mut job, &app.settings.redact);
            ok(&wire::Job::from(&job))
        }
        Err(semel::Error::WaitTimeout { .. }) => {
            let job = find(&app, &id).await?;
            json(StatusCode::ACCEPTED, &wire::Job::from(&job))
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /v1/jobs/{id}/cancel`
pub async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let id = JobId::new(id)?;
    let acted = app.operator(&caller, why.reason.as_deref()).cancel(&id).await?;
    // It is cancelled; that its queue and task cannot be counted is no reason to say otherwise.
    let found = app
        .client
        .store()
        .jobs_by_id(std::slice::from_ref(&acted.id))
        .await;
    for job in found.into_iter().flatten().flatten() {
        if job.state == JobState::Cancelled {
            metrics::cancelled(&job);
        }
    }
    app.look_again().await;
    ok(&wire::Acted::new(&id, &acted))
}

/// `POST /v1/jobs/{id}/retry`
pub async fn retry(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let id = JobId::new(id)?;
    let acted = app.operator(&caller, why.reason.as_deref()).retry(&id).await?;
    app.look_again().await;
    ok(&wire::Acted::new(&id, &acted))
}

/// A job, with what is not to be seen hidden.
pub async fn find(app: &App, id: &str) -> Result<Job, Problem> {
    let mut job = app.client.job(id)?.job().await?;
    redact::job(&mut job, &app.settings.redact);
    Ok(job)
}

/// A page of jobs, with what is not to be seen hidden. Five hundred jobs with all they may carry are more than fits into
/// one answer: a page of large ones ends sooner, and the next goes on from there.
pub async fn page_of(app: &App, filter: JobFilter, wanted: Page) -> Result<Listing<Job>, Problem> {
    let store = app.client.store();
    let limit = wanted.limit;
    // What is too many is the store's to refuse.
    let first = if limit > limits::PAGE {
        limit
    } else {
        limit.min(FIRST)
    };
    let mut found = store
        .jobs(
            filter.clone(),
            Page {
                limit: first,
                ..wanted
            },
        )
        .await?;
    let bytes = found.items.iter().map(carried).sum::<usize>().max(1);
    let fitting = (ANSWER_BYTES.saturating_sub(bytes) * found.items.len() / bytes).min(limit - first);
    if let Some(cursor) = found.next_cursor.clone()
        && found.items.len() == first
        && fitting > 0
    {
        let more = store.jobs(filter, Page::after(cursor, fitting)).await?;
        found.items.extend(more.items);
        found.next_cursor = more.next_cursor;
    }
    hide(app, &mut found.items);
    Ok(found)
}

/// Bytes a job brings into an answer that others do not.
pub fn carried(job: &Job) -> usize {
    let optional = [&job.output, &job.meta];
    let optional = optional.into_iter().flatten().map(|json| json.as_str().len());
    job.input.as_str().len() + optional.sum::<usize>()
}

/// Hides what is not to be seen.
pub fn hide(app: &App, jobs: &mut [Job]) {
    for job in jobs {
        redact::job(job, &app.settings.redact);
    }
}
