//! Effects that may have happened.

use axum::Extension;
use axum::extract::State;
use maud::html;
use semel_core::store::StepFilter;

use crate::api::Reply;
use crate::app::App;
use crate::clock;
use crate::pages::layout;
use crate::pages::parts::{self, command, path, when};
use crate::role::{Caller, Role};

/// Steps on the page.
const SHOWN: usize = 200;

/// `GET /in-doubt`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let now = clock::now();
    let steps = app.client.store().list_steps(StepFilter::InDoubt).await?;
    let operates = caller.may(Role::Operate);
    let doubts = steps.iter().take(SHOWN).map(|step| html! {
        div.doubt id={ "doubt-" (step.origin) "-" (step.name) } {
            p { b { (step.name) } " of job " (parts::job(step.job.as_str())) ", begun " (when(step.begun_at, now)) }
            p { span.quiet { "Handed downstream as " } code { (step.key) } }
            @if operates {
                form data-call={ "POST /v1/steps/" (path(step.origin.as_str())) "/" (path(step.name.as_str())) "/resolve" } data-confirm="Decide about this step? It cannot be taken back." {
                    label { "Did it happen?" select name="happened" data-kind="bool" required { option value="" { "choose" } option value="true" { "it happened" } option value="false" { "it did not" } } }
                    label { "Its output, JSON" input type="text" name="output" data-kind="json"; }
                    label { "How this is known" input type="text" name="reason" required maxlength="1000"; }
                    button.danger type="submit" { "Decide" } span.note role="status" {}
                }
            }
        }
    });
    let body = html! {
        p { "A worker began these and nobody knows whether the effect happened. Look at the other side, by the key that was handed to it, and decide. What happened counts as confirmed, with the output given, and is not done again; what did not is begun anew. A job that is parked for it then goes on." }
        p.quiet { "As a command: " (command("semel steps resolve ORIGIN STEP --happened --output JSON --reason TEXT")) " or " (command("--did-not-happen")) }
        div id="doubts" data-live {
            @if steps.is_empty() { p.none { "No step is in doubt." } }
            @for doubt in doubts { (doubt) }
            @if steps.len() > SHOWN { p.quiet { "These are the oldest " (SHOWN) " of " (steps.len()) "." } }
        }
    };
    Ok(layout::page(&app, &caller, "/in-doubt", "In doubt", body))
}
