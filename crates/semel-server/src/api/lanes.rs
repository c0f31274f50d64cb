//! Queues and tasks: how they do, and the levers on them.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use semel::{Operator, Target};
use semel_core::dedup::Mode;
use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::limits;
use semel_core::store;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::{Reply, Why, ok};
use crate::app::App;
use crate::ask::{MaybeSaid, Named, Said};
use crate::lanes::{self, Sum};
use crate::problem::Problem;
use crate::role::Caller;
use crate::sight::View;
use crate::wire::{self, words};

/// `GET /v1/queues`
pub async fn queues(State(app): State<App>) -> Reply {
    let view = app.view().await?;
    let rows = queue_sums(&view).into_iter().map(|sum| {
        let setting = setting(&view, &Target::Queue(sum.name.clone()));
        wire::QueueRow::new(&sum, &setting, view.now)
    });
    ok(&wire::List::whole(rows))
}

/// `GET /v1/tasks`
pub async fn tasks(State(app): State<App>) -> Reply {
    let view = app.view().await?;
    let rows = task_sums(&view).into_iter().map(|sum| {
        let setting = setting(&view, &Target::Task(sum.name.clone()));
        wire::TaskRow::new(&sum, &setting, view.serving_task(&sum.name), view.now)
    });
    ok(&wire::List::whole(rows))
}

/// Queues with numbers, and those that are only set.
pub fn queue_sums(view: &View) -> Vec<Sum> {
    let set = view.settings.iter().filter_map(|(target, _)| match target {
        Target::Queue(name) => Some(name),
        Target::All | Target::Task(_) => None,
    });
    with_names(lanes::by_queue(&view.stats.lanes), set)
}

/// Tasks with numbers, and those that are only set. What only a worker names is no task yet: it could name anything.
pub fn task_sums(view: &View) -> Vec<Sum> {
    let set = view.settings.iter().filter_map(|(target, _)| match target {
        Target::Task(name) => Some(name),
        Target::All | Target::Queue(_) => None,
    });
    with_names(lanes::by_task(&view.stats.lanes), set)
}

fn with_names<'a>(mut sums: Vec<Sum>, names: impl Iterator<Item = &'a Name>) -> Vec<Sum> {
    let known: BTreeSet<Name> = sums.iter().map(|sum| sum.name.clone()).collect();
    let others: BTreeSet<&Name> = names.filter(|name| !known.contains(*name)).collect();
    sums.extend(others.into_iter().cloned().map(Sum::empty));
    sums.sort_by(|a, b| a.name.cmp(&b.name));
    sums
}

/// How a target is set.
pub fn setting(view: &View, target: &Target) -> store::Setting {
    let found = view.settings.iter().find(|(other, _)| other == target);
    found.map(|(_, setting)| setting.clone()).unwrap_or_default()
}

/// How long, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSaid {
    /// Go on by itself after this.
    for_ms: Option<u64>,
    /// Why, for whoever looks next.
    reason: Option<String>,
}

/// Levers of a queue or task.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LaneSaid {
    /// Submissions without a policy are deduplicated by input; queues only.
    unique: Option<bool>,
    /// Whether submissions are taken.
    #[schema(value_type = Option<words::Intake>)]
    intake: Option<IntakeWord>,
    /// Whether policies act or only watch.
    #[schema(value_type = Option<words::Mode>)]
    mode: Option<Mode>,
    /// With intake closed, mode observe, or both: back to normal by itself after this.
    for_ms: Option<u64>,
    /// Why.
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IntakeWord {
    Open,
    Closed,
}

/// How many jobs went with a queue.
#[derive(Debug, Serialize, ToSchema)]
pub struct Removed {
    /// Jobs that were in it.
    removed: i64,
}

fn queue(name: String) -> Result<Target, Invalid> {
    Name::new(name).map(Target::Queue)
}

fn task(name: String) -> Result<Target, Invalid> {
    Name::new(name).map(Target::Task)
}

async fn pause(app: App, caller: Caller, target: Target, said: PauseSaid) -> Reply {
    let operator = app.operator(&caller, said.reason.as_deref());
    let set = match span(said.for_ms)? {
        Some(length) => operator.pause_for(target, length).await?,
        None => operator.pause(target).await?,
    };
    now_set(&app, &set).await
}

async fn resume(app: App, caller: Caller, target: Target, why: Why) -> Reply {
    let set = app
        .operator(&caller, why.reason.as_deref())
        .resume(target)
        .await?;
    now_set(&app, &set).await
}

async fn change(app: App, caller: Caller, target: Target, said: LaneSaid) -> Reply {
    if said.unique.is_none() && said.intake.is_none() && said.mode.is_none() {
        return Err(Problem::invalid(
            "nothing to change: allowed is unique, intake or mode, at least one",
        ));
    }
    let length = lasting(&said)?;
    let operator: Operator = app.operator(&caller, said.reason.as_deref());
    let mut set = store::Setting::default();
    if let Some(unique) = said.unique {
        set = operator.unique(target.clone(), unique).await?;
    }
    if let Some(intake) = said.intake {
        set = match (intake, length) {
            (IntakeWord::Open, _) => operator.open(target.clone()).await?,
            (IntakeWord::Closed, None) => operator.close(target.clone()).await?,
            (IntakeWord::Closed, Some(length)) => operator.close_for(target.clone(), length).await?,
        };
    }
    if let Some(mode) = said.mode {
        set = match (mode, length) {
            (Mode::Observe, Some(length)) => operator.observe_for(target, length).await?,
            (mode, _) => operator.mode(target, mode).await?,
        };
    }
    now_set(&app, &set).await
}

/// How long a change lasts; only what has a normal to go back to can last.
fn lasting(said: &LaneSaid) -> Result<Option<Duration>, Problem> {
    let lasts = said.intake == Some(IntakeWord::Closed) || said.mode == Some(Mode::Observe);
    let stays =
        said.unique.is_some() || said.intake == Some(IntakeWord::Open) || said.mode == Some(Mode::Enforce);
    match said.for_ms {
        Some(_) if stays || !lasts => Err(Problem::invalid(
            "for_ms: allowed is with intake closed or mode observe, and nothing beside them",
        )),
        length => span(length),
    }
}

fn span(for_ms: Option<u64>) -> Result<Option<Duration>, Problem> {
    let most = limits::LONGEST.as_millis().unsigned_abs();
    match for_ms {
        Some(length) if length == 0 || length > most => Err(Invalid::new("for_ms", format!("1 to {most}"))
            .found(length.to_string())
            .into()),
        length => Ok(length.map(Duration::from_millis)),
    }
}

async fn now_set(app: &App, set: &store::Setting) -> Reply {
    app.look_again().await;
    ok(&wire::Setting::at(set, crate::clock::now()))
}

/// `POST /v1/queues/{queue}/pause`
pub async fn pause_queue(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    MaybeSaid(said): MaybeSaid<PauseSaid>,
) -> Reply {
    pause(app, caller, queue(name)?, said).await
}

/// `POST /v1/tasks/{task}/pause`
pub async fn pause_task(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    MaybeSaid(said): MaybeSaid<PauseSaid>,
) -> Reply {
    pause(app, caller, task(name)?, said).await
}

/// `POST /v1/pause`
pub async fn pause_all(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    MaybeSaid(said): MaybeSaid<PauseSaid>,
) -> Reply {
    pause(app, caller, Target::All, said).await
}

/// `POST /v1/queues/{queue}/resume`
pub async fn resume_queue(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    resume(app, caller, queue(name)?, why).await
}

/// `POST /v1/tasks/{task}/resume`
pub async fn resume_task(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    resume(app, caller, task(name)?, why).await
}

/// `POST /v1/resume`
pub async fn resume_all(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    resume(app, caller, Target::All, why).await
}

/// `PATCH /v1/queues/{queue}`
pub async fn change_queue(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Said(said): Said<LaneSaid>,
) -> Reply {
    change(app, caller, queue(name)?, said).await
}

/// `PATCH /v1/tasks/{task}`
pub async fn change_task(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Said(said): Said<LaneSaid>,
) -> Reply {
    change(app, caller, task(name)?, said).await
}

/// `DELETE /v1/queues/{queue}`
pub async fn delete_queue(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let removed = app
        .operator(&caller, why.reason.as_deref())
        .remove_queue(&name)
        .await?;
    app.look_again().await;
    ok(&Removed { removed })
}
