//! What went wrong, for people.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::html;

use crate::ask::Named;
use crate::pages::layout;
use crate::problem::{CODES, Problem};

/// `GET /problems/{code}`
pub async fn page(Named(code): Named) -> Result<Response, Problem> {
    let found = CODES.iter().find(|known| known.word == code);
    let found = found.ok_or_else(|| Problem::not_found(format!("code {code}")))?;
    let body = html! {
        p { code { (found.word) } " comes with status " (found.status) "." }
        p { (found.when) }
        p { b { "What to do: " } (found.remedy) }
        p { a href="/" { "Overview" } }
    };
    Ok(layout::bare(StatusCode::OK, found.title, body))
}

/// A problem as a page; who is not known is asked to sign in, and gets to the page that was asked for afterwards.
pub fn problem(problem: &Problem, id: &str, asked_for: &Uri) -> Response {
    if problem.status() == StatusCode::UNAUTHORIZED && asked_for.path() != "/login" {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, sign_in(asked_for))]).into_response();
    }
    let body = html! {
        p { (problem.detail()) }
        @if let Some(hint) = problem.hinted() { p.quiet { (hint) } }
        p { a href={ "/problems/" (problem.code()) } { (problem.code()) } " · request " code { (id) } " · " a href="/" { "Overview" } }
    };
    layout::bare(problem.status(), "That did not work", body)
}

/// Where to sign in. The page is named behind a `#`, which browsers keep to themselves and only our script reads.
fn sign_in(asked_for: &Uri) -> String {
    let page = asked_for.path_and_query().map_or("/", |page| page.as_str());
    match page.bytes().all(|byte| byte.is_ascii_graphic()) && page != "/" {
        true => format!("/login#{page}"),
        false => "/login".to_owned(),
    }
}
