//! What went wrong, for people.

use axum::http::{StatusCode, header};
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

/// A problem as a page; who is not known is asked to sign in.
pub fn problem(problem: &Problem, id: &str, path: &str) -> Response {
    if problem.status() == StatusCode::UNAUTHORIZED && path != "/login" {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, "/login")]).into_response();
    }
    let body = html! {
        p { (problem.detail()) }
        @if let Some(hint) = problem.hinted() { p.quiet { (hint) } }
        p { a href={ "/problems/" (problem.code()) } { (problem.code()) } " · request " code { (id) } " · " a href="/" { "Overview" } }
    };
    layout::bare(problem.status(), "That did not work", body)
}
