//! Working over HTTP: claim, extend, settle, speak about steps.

mod bound;
mod said;

pub use said::{ClaimSaid, Claims, ExtendSaid, Results, SettleSaid, StepSaid};

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use futures_util::{StreamExt, stream};
use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name};
use semel_core::lifecycle::{AttemptResult, Settle};
use semel_core::limits;
use semel_core::store::{
    Beat, ClaimRequest, Claimed, ExtendRequest, Interest, Settlement, StepOutcome, StepRequest, WriteOutcome,
};

use crate::api::claims::bound::Binding;
use crate::api::submit::LONGEST_WAIT;
use crate::api::{Reply, jobs, ok};
use crate::app::App;
use crate::ask::{Said, SaidMuch};
use crate::leases::Introduction;
use crate::problem::Problem;
use crate::role::Caller;
use crate::{clock, metrics};

/// Jobs that are claimed before the size of the others is guessed.
const FIRST: usize = 16;
/// Jobs that are claimed at once, however small the first ones were.
const PIECE: usize = 64;

/// `POST /v1/claims`
pub async fn claim(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Said(said): Said<ClaimSaid>,
) -> Reply {
    let wait = Duration::from_millis(said.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
    let queues = allowed_queues(&caller, said.queues.clone())?;
    let request = said.request(&Binding::of(&caller), queues)?;
    let holder = Arc::new(Introduction::of(&caller, &request));
    bound::register(&app, &holder).await;
    let claiming = Claiming {
        may_be_repeated: said.token.is_some(),
        request,
    };
    let claims = claim_within(&app, &caller, claiming, wait).await?;
    let answer = match app.room.hold(ok(&Claims::of(&claims))?) {
        Ok(answer) => answer,
        Err(problem) => {
            hand_back(&app, &claims).await;
            return Err(problem);
        }
    };
    let fresh = app.leases.given(&claims, &holder);
    metrics::claimed(&fresh);
    count_expirations(&app, &fresh).await;
    Ok(answer)
}

/// What cannot be delivered is not kept from others, and has not been tried.
async fn hand_back(app: &App, claims: &[Claimed]) {
    let settlements = claims.iter().map(|claim| Settlement {
        id: claim.job.id.clone(),
        fence: claim.fence,
        result: Settle::HandBack,
    });
    if let Err(error) = app.client.store().settle(settlements.collect()).await {
        tracing::warn!(%error, "jobs that could not be delivered wait until their lease expires");
    }
}

/// That leases have expired since a job was admitted says nothing about the last one: its attempts do.
async fn count_expirations(app: &App, fresh: &[&Claimed]) {
    let expired = fresh.iter().filter(|claim| claim.job.deliveries > 0);
    let looked = expired.map(|claim| async {
        let attempts = app.client.store().attempts(&claim.job.id).await;
        let last = attempts
            .ok()
            .and_then(|attempts| attempts.into_iter().next_back());
        if last.is_some_and(|last| last.end.result == AttemptResult::Expired) {
            metrics::lease_expired(claim.job.task.as_str());
        }
    });
    let looked: Vec<_> = looked.collect();
    stream::iter(looked).buffer_unordered(FIRST).collect::<()>().await;
}

/// A claim, and whether its sender can send it again.
struct Claiming {
    request: ClaimRequest,
    may_be_repeated: bool,
}

impl Claiming {
    /// Leases jobs in pieces until there are as many as were asked for, or as fit into an answer: what is leased and not
    /// delivered would wait for its lease to expire, and be a dead letter in the end that never ran.
    async fn lease(&self, app: &App) -> Result<Vec<Claimed>, StoreError> {
        let max = self.request.max;
        let mut claims: Vec<Claimed> = Vec::new();
        let (mut bytes, mut size) = (0, FIRST);
        for piece in 0.. {
            let asked = size.min(max - claims.len());
            let part = ClaimRequest {
                token: bound::piece_token(self.request.token, piece),
                max: asked,
                ..self.request.clone()
            };
            let given = match app.client.store().claim(part).await {
                Ok(given) => given,
                // What is leased is delivered.
                Err(_) if !claims.is_empty() => break,
                Err(error) => return Err(error),
            };
            // Of a piece that was given before, some may have ended meanwhile: then the next one is asked for all the same.
            let is_last = match self.may_be_repeated && max > FIRST {
                true => given.is_empty(),
                false => given.len() < asked,
            };
            bytes += given.iter().map(|claim| jobs::carried(&claim.job)).sum::<usize>();
            claims.extend(given);
            if is_last || claims.len() >= max || bytes >= jobs::ANSWER_BYTES {
                break;
            }
            let fitting = (jobs::ANSWER_BYTES - bytes) * claims.len() / bytes.max(1);
            size = fitting.clamp(1, PIECE);
        }
        Ok(claims)
    }
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
    claiming: Claiming,
    wait: Duration,
) -> Result<Vec<Claimed>, Problem> {
    let _turn = match wait.is_zero() {
        true => None,
        false => Some(app.turns.take(caller)?),
    };
    let store = app.client.store();
    let interest = Interest::Work {
        queues: claiming.request.queues.clone(),
        tasks: claiming.request.tasks.clone(),
    };
    let until = clock::instant() + wait;
    loop {
        let mark = store.mark();
        let begun = clock::instant();
        let claims = claiming.lease(app).await?;
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
        false => {
            let holders = holders(&app, &leases);
            let written = app.client.store().extend(ExtendRequest { leases, lease }).await?;
            for holder in holders {
                bound::register(&app, &holder).await;
            }
            written
        }
    };
    let refused = |outcome: &&WriteOutcome| matches!(outcome, WriteOutcome::Refused(_));
    metrics::stale_writes(written.iter().filter(refused).count());
    ok(&Results::of(&ids, |id| foreign.contains(id), written))
}

/// Who has these leases, each once. A worker on a long job says nothing but that it goes on: that it is there, too.
fn holders(app: &App, leases: &[Beat]) -> Vec<Arc<Introduction>> {
    let mut holders: Vec<Arc<Introduction>> = leases
        .iter()
        .filter_map(|lease| app.leases.holder(&lease.id, lease.fence))
        .collect();
    holders.sort_by(|a, b| a.worker.cmp(&b.worker));
    holders.dedup_by(|a, b| a.worker == b.worker);
    holders
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
    let outcome = outcomes.remove(0);
    metrics::stale_writes(usize::from(matches!(outcome, StepOutcome::Refused(_))));
    ok(&Results::of_step(&id, outcome))
}

#[cfg(test)]
mod tests {
    use semel_core::job::State as JobState;
    use serde_json::json;
    use tokio::sync::watch;

    use super::*;
    use crate::app::Settings;
    use crate::room::{BYTES, Held, SMALL};

    #[tokio::test]
    async fn a_claim_whose_answer_has_no_room_leaves_the_jobs_to_others() {
        let client = semel::connect("memory:").await.expect("a store");
        for _ in 0..3 {
            let large = json!({"task": "t", "input": "x".repeat(SMALL)});
            let request = serde_json::from_value(large).expect("a submission");
            client.submit_request(request).await.expect("it is taken");
        }
        let (_stop, stopping) = watch::channel(false);
        let listen = "127.0.0.1:0".parse().expect("an address");
        let app = App::new(client, Settings::on(listen), stopping);
        let others = Held::default();
        others
            .grow(&app.room, SMALL + BYTES, BYTES)
            .expect("all there is");
        let ask = || {
            let said = json!({"worker": "w", "max": 3, "lease_ms": 30_000});
            let said = Said(serde_json::from_value(said).expect("a claim"));
            claim(State(app.clone()), Extension(Caller::local()), said)
        };
        assert_eq!(ask().await.expect_err("there is no room").code(), "busy");
        let stats = app.client.store().stats().await.expect("counters");
        assert_eq!(stats.jobs.get(&JobState::Queued), Some(&3));
        drop(others);
        ask().await.expect("there is room");
        let stats = app.client.store().stats().await.expect("counters");
        assert_eq!(stats.jobs.get(&JobState::Running), Some(&3));
    }
}
