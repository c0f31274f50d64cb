//! Signing in.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use crate::pages::layout;
use crate::pages::parts::command;

/// `GET /login`
pub async fn page() -> Response {
    let body = html! {
        form data-call="POST /login" data-then="/" {
            label { "Token" input type="password" name="token" required autocomplete="current-password" autofocus; }
            button type="submit" { "Sign in" } span.note role="status" {}
        }
        p.quiet { "A token is made with " (command("semel tokens create NAME --role operate")) ". It is kept in no page and no address; a cookie stands for it until you sign out." }
    };
    layout::bare(StatusCode::OK, "Sign in", body)
}
