//! A bulk act: its plan, then its progress.

use axum::Extension;
use axum::extract::State;
use maud::html;
use semel::{Action, Operation, Status};
use semel_core::step::StepState;
use semel_core::view::StepView;

use crate::api::Reply;
use crate::app::App;
use crate::ask::Named;
use crate::pages::layout;
use crate::pages::parts::{self, act, path, state, table};
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::text::{count, plural};

/// `GET /operations/{id}`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>, Named(id): Named) -> Reply {
    let operation = app.client.operation(&id).await?;
    let n = |n: u64| count(i64::try_from(n).unwrap_or(i64::MAX));
    let total = i64::try_from(operation.total).unwrap_or(i64::MAX);
    let word = operation.action.word();
    let operates = caller.may(Role::Operate);
    let does_again = matches!(operation.action, Action::Retry | Action::Replay);
    let effects = match does_again {
        true => effects(&app, &operation).await?,
        false => Vec::new(),
    };
    let body = html! {
        div id="operation" data-live {
            p { "To " b { (word) } " " b { (plural(total, "job", "jobs")) } ", planned by " (operation.actor) @if let Some(reason) = &operation.reason { ": " (reason) } ". Exactly those, whatever comes later." }
            p { (parts::standing(&operation)) }
            @if operation.status != Status::Planned { progress max=(operation.total.max(1)) value=(operation.progress.seen()) {} }
            dl {
                dt { "Done" } dd { (n(operation.progress.done)) }
                @if !operation.progress.refused.is_empty() { dt { "Refused" } dd { @for (why, times) in &operation.progress.refused { (why) " " (n(*times)) " " } } }
                dt { "Not eligible" } dd { (n(operation.ineligible)) " matched, but their state does not allow it" }
                dt { "Collisions" } dd { (n(operation.collisions)) " would be refused, as another job holds their key" @if !operation.collisions_complete { " (not every key was looked at)" } }
                dt { "By state" } dd { @for (one, times) in &operation.by_state { (state(*one)) " " (n(*times)) " " } }
                dt { "By task" } dd { @for (task, times) in &operation.by_task { (task) " " (n(*times)) " " } }
            }
            @let is_begun = operation.status == Status::Running;
            @if operates && (operation.status == Status::Planned || is_begun) && operation.total > 0 {
                @if is_begun { p.quiet { "Where its server ended before it was done, it stands still. It is carried on where it stopped." } }
                form data-call="POST /v1/operations" data-confirm={ "Really " (word) " " (plural(total, "job", "jobs")) "?" } {
                    input type="hidden" name="action" value=(word); input type="hidden" name="plan" value=(operation.id); input type="hidden" name="dry_run" data-kind="bool" value="false";
                    label { "At most so many a second" input type="number" name="rate_per_s" data-kind="number" min="1"; }
                    label { "Reason" input type="text" name="reason" maxlength="1000"; }
                    button.danger type="submit" { (if is_begun { "Carry on" } else { "Carry out" }) } span.note role="status" {}
                }
            }
            @if operates && matches!(operation.status, Status::Planned | Status::Running) { (act(&format!("POST /v1/operations/{}/abort", path(&operation.id)), "Abort", None, false)) }
            h2 { "Some of them" }
            @if does_again { p.quiet { "Steps that were confirmed are not done again; one in doubt is decided as its code says." } }
            @let heads = ["Job", "Task", "State", "Error", "Effects already done"];
            (table(&heads[..4 + usize::from(does_again)], operation.samples.iter().enumerate().map(|(n, sample)| html! {
                td { (parts::job(sample.id.as_str())) } td.two { (sample.task) } td { (state(sample.state)) } td.wide { (sample.error.as_deref().unwrap_or_default()) }
                @if does_again { td.wide data-head="effects already done" { @match effects.get(n).map(Vec::as_slice) { None | Some([]) => "none", Some(steps) => { @for step in steps { span class=(if step.in_doubt { "state failed" } else { "state complete" }) { (step.name) @if step.in_doubt { " in doubt" } } " " } } } } }
            }).collect(), "None match."))
        }
    };
    Ok(layout::page(
        &app,
        &caller,
        "/jobs",
        &format!("Bulk {word}"),
        body,
    ))
}

/// What each of the samples has done outside already, or may have.
async fn effects(app: &App, operation: &Operation) -> Result<Vec<Vec<StepView>>, Problem> {
    let mut found = Vec::new();
    for sample in &operation.samples {
        let mut steps = match app.client.job(sample.id.as_str())?.steps().await {
            Ok(steps) => steps,
            // It has outlived its retention meanwhile.
            Err(semel::Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        steps.retain(|step| step.in_doubt || step.state == StepState::Confirmed);
        found.push(steps);
    }
    Ok(found)
}
