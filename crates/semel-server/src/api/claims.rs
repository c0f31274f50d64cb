//! Working over HTTP: claim, extend, settle, speak about steps.

mod bound;
mod said;

pub use said::{ClaimSaid, Claims, ExtendSaid, Results, SettleSaid, StepSaid};

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use semel_core::ids::{JobId, Name};
use semel_core::limits;
use semel_core::store::{Beat, ClaimRequest, Claimed, ExtendRequest, Interest, StepRequest};

use crate::api::claims::bound::Binding;
use crate::api::submit::LONGEST_WAIT;
use crate::api::{Reply, ok};
use crate::app::App;
use crate::ask::{Said, SaidMuch};
use crate::problem::Problem;
use crate::role::Caller;
use crate::{clock, metrics};

/// `POST /v1/claims`
pub async fn claim(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Said(said): Said<ClaimSaid>,
) -> Reply {
    let wait = Duration::from_millis(said.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
    let queues = allowed_queues(&caller, said.queues.clone())?;
    let request = said.request(&Binding::of(&caller), queues)?;
    bound::register(&app, &request).await;
    let claims = claim_within(&app, &caller, request, wait).await?;
    app.leases.given(&claims);
    metrics::claimed(&claims);
    ok(&Claims::of(&claims))
}

/// A token that is bound to queues claims from those only.
fn allowed_queues(caller: &Caller, wanted: Vec<Name>) -> Result<Vec<Name>, Problem> {
    if caller.queues.is_empty() {
        return Ok(wanted);
    }
    if wanted.is_empty() {
        return Ok(caller.queues.clone());
    }
    match wanted.iter().find(|queue| !caller.queues.contains(queue)) {
        None => Ok(wanted),
        Some(other) => {
            let mine: Vec<&str> = caller.queues.iter().map(Name::as_str).collect();
            let detail = format!(
                "{} may not claim from queue {other}, only from {}",
                caller.name,
                mine.join(", ")
            );
            Err(Problem::new("forbidden", detail))
        }
    }
}

async fn claim_within(
    app: &App,
    caller: &Caller,
    request: ClaimRequest,
    wait: Duration,
) -> Result<Vec<Claimed>, Problem> {
    let _turn = match wait.is_zero() {
        true => None,
        false => Some(app.turns.take(caller)?),
    };
    let store = app.client.store();
    let interest = Interest::Work {
        queues: request.queues.clone(),
        tasks: request.tasks.clone(),
    };
    let until = clock::instant() + wait;
    loop {
        let mark = store.mark();
        let begun = clock::instant();
        let claims = store.claim(request.clone()).await?;
        metrics::claim_took(begun.elapsed());
        let left = until.saturating_duration_since(clock::instant());
        if !claims.is_empty() || left.is_zero() || app.is_stopping() {
            return Ok(claims);
        }
        tokio::select! {
            _ = store.changed(mark, interest.clone(), left.min(Duration::from_secs(1))) => {}
            () = app.stopping() => {}
        }
    }
}

/// `POST /v1/claims/extend`
pub async fn extend(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    SaidMuch(said): SaidMuch<ExtendSaid>,
) -> Reply {
    limits::check_batch("leases", said.leases.len())?;
    let ids: Vec<JobId> = said.leases.iter().map(|lease| lease.id.clone()).collect();
    let foreign = Binding::of(&caller).foreign(&app, &ids).await?;
    let (mine, lease) = said.split(|id| !foreign.contains(id));
    let leases: Vec<Beat> = mine;
    let written = match leases.is_empty() {
        true => Vec::new(),
        false => app.client.store().extend(ExtendRequest { leases, lease }).await?,
    };
    ok(&Results::of(&ids, |id| foreign.contains(id), written))
}

/// `POST /v1/claims/settle`
pub async fn settle(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    SaidMuch(said): SaidMuch<SettleSaid>,
) -> Reply {
    limits::check_batch("settlements", said.settlements.len())?;
    let settlements = said.settlements()?;
    let ids: Vec<JobId> = settlements.iter().map(|one| one.id.clone()).collect();
    let foreign = Binding::of(&caller).foreign(&app, &ids).await?;
    let mine: Vec<_> = settlements
        .into_iter()
        .filter(|one| !foreign.contains(&one.id))
        .collect();
    let begun = clock::instant();
    let written = match mine.is_empty() {
        true => Vec::new(),
        false => app.client.store().settle(mine.clone()).await?,
    };
    metrics::settle_took(begun.elapsed());
    for (settlement, outcome) in mine.iter().zip(&written) {
        let lease = app.leases.ended(&settlement.id, settlement.fence);
        metrics::settled(&settlement.result, outcome, lease.as_ref());
    }
    ok(&Results::of(&ids, |id| foreign.contains(id), written))
}

/// `POST /v1/claims/steps`
pub async fn steps(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Said(said): Said<StepSaid>,
) -> Reply {
    let request: StepRequest = said.request()?;
    let id = request.id.clone();
    let foreign = Binding::of(&caller)
        .foreign(&app, std::slice::from_ref(&id))
        .await?;
    if foreign.contains(&id) {
        return ok(&Results::lost(&id));
    }
    let mut outcomes = app.client.store().steps(vec![request]).await?;
    ok(&Results::of_step(&id, outcomes.remove(0)))
}
