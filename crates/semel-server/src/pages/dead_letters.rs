//! What failed for good, by what it died of.

use axum::Extension;
use axum::extract::State;
use maud::html;
use semel_core::store::{JobFilter, Page};

use crate::api::{Reply, jobs};
use crate::app::App;
use crate::clock;
use crate::pages::parts::{self, act, table, when};
use crate::pages::{jobs as job_page, layout};
use crate::role::{Caller, Role};
use crate::text::count;

/// Dead letters on the page.
const NEWEST: usize = 50;

/// `GET /dead-letters`
pub async fn page(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply {
    let now = clock::now();
    let store = app.client.store();
    let groups = store.dead_letter_groups(None).await?;
    let filter = JobFilter {
        dead_letters: true,
        ..JobFilter::default()
    };
    let mut letters = store.jobs(filter, Page::first(NEWEST)).await?.items;
    jobs::hide(&app, &mut letters);
    let operates = caller.may(Role::Operate);
    let body = html! {
        div id="letters" data-live {
            h2 { "By what they died of" }
            (table(&["Task", "Error", "#Jobs", "Newest", ""], groups.iter().map(|group| html! {
                td { (group.task) } td.wide { (group.error) } td.num data-head="jobs" { (count(group.jobs)) } td.wide data-head="newest" { (parts::job(group.newest.as_str())) " " (when(group.newest_at, now)) }
                td.wide { @if operates {
                    form.act data-call="POST /v1/operations" data-then="/operations/{id}" {
                        input type="hidden" name="filter.task" value=(group.task); input type="hidden" name="filter.dead_letters" data-kind="bool" value="true";
                        // An empty text is a group, too: that of jobs that failed without a word.
                        input type="hidden" name="filter.error_group" data-kind="text" value=(group.error);
                        select name="action" aria-label="What" { option value="replay" { "replay" } option value="retry" { "retry" } option value="delete" { "drop" } }
                        button type="submit" { "Plan" } span.note role="status" {}
                    }
                } }
            }).collect(), "No dead letters."))
            h2 { "The newest" }
            (table(&["Job", "Task", "Queue", "State", "#Attempt", "Admitted", "Key", "Error", ""], letters.iter().map(|job| html! {
                (job_page::line(job, now)) td.wide { @if operates { (act(&format!("POST /v1/dead-letters/{}/replay", parts::path(job.id.as_str())), "Replay", None, false)) } }
            }).collect(), "No dead letters."))
        }
        @if letters.len() == NEWEST { p.next { a href="/jobs?dead_letters=true" { "All of them, to be filtered →" } } }
        p.quiet { "A replay is a fresh job of the same origin: steps that were confirmed are not done again." }
    };
    Ok(layout::page(&app, &caller, "/dead-letters", "Dead letters", body))
}
