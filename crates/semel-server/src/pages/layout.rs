//! The frame of every page.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::app::App;
use crate::clock;
use crate::role::{Caller, Role};

const OUTBOX: &str = "/outbox";

/// The screens, by what one wants to know. That of the outbox is for servers that have one.
const SCREENS: [(&str, &str); 14] = [
    ("/", "Overview"),
    ("/keys", "Keys"),
    ("/jobs", "Jobs"),
    ("/queues", "Queues and tasks"),
    ("/workers", "Workers"),
    ("/duplicates", "Duplicates"),
    ("/dead-letters", "Dead letters"),
    ("/schedules", "Schedules"),
    ("/explain", "Explain"),
    ("/in-doubt", "In doubt"),
    (OUTBOX, "Outbox"),
    ("/configuration", "Configuration"),
    ("/audit", "Audit"),
    ("/openapi.json", "API"),
];

/// A page for somebody who came in.
pub fn page(app: &App, caller: &Caller, here: &str, title: &str, body: Markup) -> Response {
    let markup = shell(
        title,
        html! {
            nav aria-label="Screens" {
                a.brand href="/" { "semel" }
                ul {
                    @for (path, name) in SCREENS.into_iter().filter(|(path, _)| *path != OUTBOX || app.settings.outbox.is_some()) {
                        li { a href=(path) aria-current=[(path == here).then_some("page")] { (name) } }
                    }
                }
                p.who {
                    (caller.name) " · " (words(&caller.roles))
                    @if caller.token.is_some() {
                        form data-call="POST /logout" data-then="/login" { button.link type="submit" { "Sign out" } }
                    }
                }
            }
            main id="main" {
                header.top {
                    h1 { (title) }
                    p.store { "store " code { (app.client.url()) } " " span.live id="live" { "not live" } }
                }
                (body)
            }
        },
    );
    Html(markup.into_string()).into_response()
}

/// A page without the screens.
pub fn bare(status: StatusCode, title: &str, body: Markup) -> Response {
    let markup = shell(title, html! { main.bare id="main" { h1 { (title) } (body) } });
    (status, Html(markup.into_string())).into_response()
}

fn shell(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · semel" }
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/script.js" defer {}
            }
            body data-now=(clock::now().as_millis()) { a.skip href="#main" { "Skip to the content" } (body) }
        }
    }
}

fn words(roles: &[Role]) -> String {
    roles
        .iter()
        .map(|role| role.word())
        .collect::<Vec<_>>()
        .join(", ")
}
