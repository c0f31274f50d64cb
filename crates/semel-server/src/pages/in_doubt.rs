//! Effects that may have happened.

use axum::Extension;
use axum::extract::State;
use maud::html;
use semel_core::store::StepFilter;

use crate::api::Reply;
use crate::app::App;
use crate::clock;
use crate::pages::layout;
use crate::pages::parts::{self, path, table, when};
use crate::role::{Caller, Role};

/// `GET /in-doubt`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let now = clock::now();
    let steps = app.client.store().list_steps(StepFilter::InDoubt).await?;
    let operates = caller.may(Role::Operate);
    let rows = steps.iter().take(200).map(|step| html! {
        td { (step.name) } td { (parts::job(step.job.as_str())) } td { (when(step.begun_at, now)) } td.mono title="The key that was handed downstream: ask the other side for it" { (step.key) }
        td { @if operates {
            form data-call={ "POST /v1/steps/" (path(step.origin.as_str())) "/" (path(step.name.as_str())) "/resolve" } data-confirm="Decide about this step? It cannot be taken back." {
                label { "Did it happen?" select name="happened" data-kind="bool" { option value="true" { "it happened" } option value="false" { "it did not" } } }
                label { "Its output, JSON" input type="text" name="output" data-kind="json"; }
                label { "How this is known" input type="text" name="reason" required maxlength="1000"; }
                button.danger type="submit" { "Decide" } span.note role="status" {}
            }
        } }
    });
    let body = html! {
        p { "A worker began these and nobody knows whether the effect happened. Look at the other side, by the key that was handed to it, and decide." }
        div id="doubts" data-live { (table(&["Step", "Job", "Begun", "Downstream key", ""], rows.collect(), "No step is in doubt.")) }
    };
    Ok(layout::page(&app, &caller, "/in-doubt", "In doubt", body))
}
