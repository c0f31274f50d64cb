//! What would this submission get?

use axum::Extension;
use axum::extract::State;
use maud::html;

use crate::api::Reply;
use crate::app::App;
use crate::pages::layout;
use crate::role::Caller;

/// `GET /explain`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let body = html! {
        p { "Nothing is written." }
        form data-call="POST /v1/jobs/explain" data-show="answer" {
            label { "Task" input type="text" name="task" required; }
            label { "Queue" input type="text" name="queue" placeholder="default"; }
            label { "Idempotency key" input type="text" name="idempotency_key"; }
            label { "Policy" select name="unique" data-kind="bool" { option value="" { "by the key or policy given here" } option value="true" { "unique by input" } option value="false" { "no deduplication" } } }
            label { "Input, JSON" textarea name="input" data-kind="json" required { "{}" } }
            label { "Whole policy, JSON" textarea name="dedup" data-kind="json" placeholder="{\"by\": \"fields\", \"pointers\": [\"/day\"]}" {} }
            button type="submit" { "Explain" } span.note role="status" {}
        }
        h2 { "Answer" }
        p id="answer-said" aria-live="polite" { "Fill in what a producer would send." }
        pre id="answer" { "…" }
    };
    Ok(layout::page(&app, &caller, "/explain", "Explain", body))
}
