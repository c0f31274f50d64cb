//! Signing in at the page: the token goes into a body once, and a cookie that no script can read stands for it.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::Reply;
use crate::app::App;
use crate::ask::{MaybeSaid, Said};
use crate::problem::Problem;
use crate::sessions;

/// A token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Login)]
pub struct LoginSaid {
    /// As `semel tokens create` said it.
    token: String,
}

/// `POST /login`
pub async fn sign_in(State(app): State<App>, headers: HeaderMap, Said(said): Said<LoginSaid>) -> Reply {
    let caller = app.keyring.caller(&app.client, said.token.trim()).await?;
    let id = caller.and_then(|caller| caller.token);
    let Some(id) = id else {
        // A moment's pause makes guessing slower and costs nobody else anything.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        return Err(Problem::new(
            "unauthorized",
            "the token is unknown, was revoked or has run out",
        ));
    };
    let secret = app.sessions.begin(id)?;
    let cookie = sessions::set_cookie(Some(&secret), &app.settings, &headers);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Nothing.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Nothing)]
pub struct NothingSaid {}

/// `POST /logout`
pub async fn sign_out(
    State(app): State<App>,
    headers: HeaderMap,
    MaybeSaid(_): MaybeSaid<NothingSaid>,
) -> Reply {
    for secret in sessions::of_request(&headers, app.settings.listen.port()) {
        app.sessions.end(secret);
    }
    let cookie = sessions::set_cookie(None, &app.settings, &headers);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
