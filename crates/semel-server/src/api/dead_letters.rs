//! Dead letters: what they died of, replaying and dropping them.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use semel_core::ids::{JobId, Name};
use semel_core::job::State as JobState;
use semel_core::store::JobFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::query::{page, said};
use crate::api::{Reply, Why, jobs, json, ok};
use crate::app::App;
use crate::ask::{Asked, MaybeSaid, Named};
use crate::problem::Problem;
use crate::role::Caller;
use crate::wire;

/// Which dead letters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct LettersQuery {
    /// Of this task.
    task: Option<String>,
    /// Whose error contains this text.
    error: Option<String>,
    /// The next_cursor of the page before.
    cursor: Option<String>,
    /// At most so many, 1 to 500.
    limit: Option<usize>,
}

/// `GET /v1/dead-letters`
pub async fn list(State(app): State<App>, Asked(query): Asked<LettersQuery>) -> Reply {
    let task = said(query.task.as_deref()).map(Name::new).transpose()?;
    let store = app.client.store();
    let groups = store.dead_letter_groups(task.clone()).await?;
    let filter = JobFilter {
        task,
        error: said(query.error.as_deref()).map(str::to_owned),
        dead_letters: true,
        ..JobFilter::default()
    };
    let found = jobs::page_of(&app, filter, page(query.cursor, query.limit)).await?;
    ok(&wire::DeadLetters {
        groups: groups.iter().map(wire::ErrorGroup::from).collect(),
        items: found.items.iter().map(wire::Job::from).collect(),
        next_cursor: found.next_cursor,
    })
}

/// `POST /v1/dead-letters/{id}/replay`
pub async fn replay(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let id = JobId::new(id)?;
    let acted = app.operator(&caller, why.reason.as_deref()).replay(&id).await?;
    app.look_again().await;
    let status = match acted.state {
        Some(_) => StatusCode::CREATED,
        None => StatusCode::OK,
    };
    json(status, &wire::Acted::new(&id, &acted))
}

/// `DELETE /v1/dead-letters/{id}`
pub async fn drop_one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let job = jobs::find(&app, &id).await?;
    if job.state != JobState::Failed || job.replayed_as.is_some() {
        return Err(Problem::not_found(format!("dead letter {id}")));
    }
    let acted = app
        .operator(&caller, why.reason.as_deref())
        .delete(&job.id)
        .await?;
    app.look_again().await;
    ok(&wire::Acted::new(&job.id, &acted))
}
