//! Bulk acts: a plan first, then its progress (contract 6.6).

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use semel::{Action, Operation, Operator, Selection, Status};
use semel_core::ids::Name;
use semel_core::store::{KeyFilter, Page};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::query::{JobsQuery, KeysQuery, said};
use crate::api::{Reply, Why, json, ok};
use crate::app::App;
use crate::ask::{MaybeSaid, Named, Said};
use crate::problem::Problem;
use crate::role::Caller;
use crate::wire::{self, words};

/// A bulk act.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OperationRequest)]
pub struct OperationSaid {
    /// What is done to each.
    #[schema(value_type = words::Action)]
    action: Action,
    /// Which are meant; left out where a plan is named.
    filter: Option<FilterSaid>,
    /// Only plan; true unless said otherwise.
    dry_run: Option<bool>,
    /// Carry out a plan that was made before.
    plan: Option<String>,
    /// At most so many a second.
    rate_per_s: Option<u32>,
    /// Why.
    reason: Option<String>,
}

/// Which jobs; with text, scope or job: which keys, to release them.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OperationFilter)]
#[allow(missing_docs)]
pub struct FilterSaid {
    pub state: Option<String>,
    pub queue: Option<String>,
    pub task: Option<String>,
    /// The digest or the text of a key.
    pub key: Option<String>,
    pub error: Option<String>,
    /// Whose last error is of this group: the error of a group of dead letters, exactly.
    pub error_group: Option<String>,
    pub since: Option<String>,
    pub until: Option<String>,
    pub dead_letters: Option<bool>,
    pub text: Option<String>,
    pub scope: Option<String>,
    pub job: Option<String>,
}

impl FilterSaid {
    async fn selection(self, app: &App) -> Result<Selection, Problem> {
        let keys = KeysQuery {
            text: self.text,
            scope: self.scope,
            job: self.job,
            ..KeysQuery::default()
        };
        let filter: KeyFilter = keys.filter()?;
        let jobs = JobsQuery {
            state: self.state,
            queue: self.queue,
            task: self.task,
            key: self.key,
            error: self.error,
            since: self.since,
            until: self.until,
            dead_letters: self.dead_letters,
            ..JobsQuery::default()
        };
        if filter == KeyFilter::default() {
            let filter = jobs.filter(app).await?;
            return Ok(match self.error_group {
                Some(group) => Selection::Grouped(filter, group),
                None => Selection::Jobs(filter),
            });
        }
        let others = [
            &jobs.state,
            &jobs.queue,
            &jobs.key,
            &jobs.error,
            &self.error_group,
            &jobs.since,
            &jobs.until,
        ];
        if others.into_iter().any(|other| said(other.as_deref()).is_some()) || jobs.dead_letters.is_some() {
            return Err(Problem::invalid(
                "text, scope and job choose keys, the others choose jobs: allowed is one kind, beside task",
            ));
        }
        Ok(Selection::Keys(KeyFilter {
            task: said(jobs.task.as_deref()).map(Name::new).transpose()?,
            ..filter
        }))
    }
}

/// `POST /v1/operations`
pub async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Said(said): Said<OperationSaid>,
) -> Reply {
    let operator = app.operator(&caller, said.reason.as_deref());
    let planned = match (&said.plan, said.filter) {
        (Some(_), Some(_)) => return Err(Problem::invalid("plan with filter: allowed is one of them")),
        (None, None) => {
            return Err(
                Problem::invalid("neither filter nor plan: allowed is one of them")
                    .hint("an empty filter {} means everything"),
            );
        }
        (Some(id), None) => app.client.operation(id).await?,
        (None, Some(filter)) => operator.plan(said.action, filter.selection(&app).await?).await?,
    };
    if planned.action != said.action {
        let detail = format!(
            "plan {} is to {}, not to {}",
            planned.id,
            planned.action.word(),
            said.action.word()
        );
        return Err(Problem::invalid(detail));
    }
    if said.dry_run.unwrap_or(true) {
        return ok(&wire::Operation::from(&planned));
    }
    if said.rate_per_s == Some(0) {
        return Err(Problem::invalid("rate_per_s: allowed is at least 1"));
    }
    if matches!(planned.status, Status::Done | Status::Aborted) {
        return ok(&wire::Operation::from(&planned));
    }
    operator.may_carry_out(&planned)?;
    carry_out(&app, operator, &planned, said.rate_per_s).await?;
    json(StatusCode::ACCEPTED, &wire::Operation::from(&planned))
}

/// Carries a plan out while the caller goes on; if the server ends before, it can be carried on.
async fn carry_out(
    app: &App,
    operator: Operator,
    planned: &Operation,
    rate: Option<u32>,
) -> Result<(), Problem> {
    // Whoever carries it out on another server keeps a document for as long as it does.
    let turn = Name::new("operation_turn")?;
    let elsewhere = app.client.store().document(&turn, &planned.id).await?;
    if elsewhere.is_some() || !carried_out(app).insert(planned.id.clone()) {
        let id = planned.id.clone();
        return Err(semel::Error::UnderWay { id }.into());
    }
    let carrying = operator.carry_out(&planned.id);
    let carrying = rate
        .into_iter()
        .fold(carrying, |carrying, rate| carrying.rate(rate));
    let (app_then, id) = (app.clone(), planned.id.clone());
    let mut background = app.background.lock().await;
    // Those that have ended are let go of.
    while background.try_join_next().is_some() {}
    background.spawn(async move {
        if let Err(error) = carrying.await {
            tracing::warn!(%error, operation = id, "a bulk act was not carried out to its end");
        }
        carried_out(&app_then).remove(&id);
        app_then.look_again().await;
    });
    Ok(())
}

fn carried_out(app: &App) -> MutexGuard<'_, HashSet<String>> {
    app.carried_out.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `GET /v1/operations`
pub async fn list(State(app): State<App>) -> Reply {
    let found = all(&app).await?;
    ok(&wire::List::whole(found.iter().map(wire::Operation::from)))
}

/// The newest bulk acts.
pub async fn all(app: &App) -> Result<Vec<Operation>, Problem> {
    let kind = Name::new("operation")?;
    let mut operations: Vec<Operation> = Vec::new();
    let mut page = Page::first(500);
    loop {
        let found = app.client.store().documents(&kind, "", page).await?;
        operations.extend(
            found
                .items
                .iter()
                .filter_map(|document| document.body.read().ok()),
        );
        match found.next_cursor {
            Some(cursor) if operations.len() < 5_000 => page = Page::after(cursor, 500),
            _ => break,
        }
    }
    // Their ids grow with time.
    operations.reverse();
    operations.truncate(100);
    Ok(operations)
}

/// `GET /v1/operations/{id}`
pub async fn show(State(app): State<App>, Named(id): Named) -> Reply {
    ok(&wire::Operation::from(&app.client.operation(&id).await?))
}

/// `POST /v1/operations/{id}/abort`
pub async fn abort(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let found = app.client.operation(&id).await?;
    let operation = match found.status {
        Status::Done => return Err(Problem::new("terminal", format!("operation {id} is done"))),
        // It is as it was asked to be: nothing was done that would be worth a record.
        Status::Aborted => found,
        Status::Planned | Status::Running => {
            let operator = app.operator(&caller, why.reason.as_deref());
            operator.abort(&id).await?
        }
    };
    ok(&wire::Operation::from(&operation))
}
