//! Tokens: making, listing, revoking them.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::limits;
use semel_core::time::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::{Reply, Why, json, ok};
use crate::app::App;
use crate::ask::{MaybeSaid, Named, Said};
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::tokens::{self, NewToken, TokenRecord};
use crate::wire::{self, words};

/// A token, without the token.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub struct TokenRow<'a> {
    #[schema(value_type = String)]
    id: &'a str,
    #[schema(value_type = String)]
    name: &'a Name,
    #[schema(value_type = Vec<words::Role>)]
    roles: &'a [Role],
    #[schema(value_type = Vec<String>)]
    queues: &'a [Name],
    created_at: wire::Moment,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<wire::Moment>,
}

impl<'a> From<&'a TokenRecord> for TokenRow<'a> {
    fn from(token: &'a TokenRecord) -> Self {
        TokenRow {
            id: &token.id,
            name: &token.name,
            roles: &token.roles,
            queues: &token.queues,
            created_at: token.created_at.into(),
            expires_at: token.expires_at.map(wire::Moment),
        }
    }
}

/// A token that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct MadeToken<'a> {
    #[serde(flatten)]
    row: TokenRow<'a>,
    /// The token itself. It is said once and kept nowhere.
    token: String,
}

impl<'a> MadeToken<'a> {
    /// A token with its secret.
    pub fn new(record: &'a TokenRecord, token: String) -> Self {
        MadeToken {
            row: TokenRow::from(record),
            token,
        }
    }
}

/// `GET /v1/tokens`
pub async fn list(State(app): State<App>) -> Reply {
    let found = tokens::list(&app.client).await?;
    ok(&wire::List::whole(found.iter().map(TokenRow::from)))
}

/// A token, as it is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TokenRequest)]
pub struct TokenSaid {
    /// Who has it.
    #[schema(value_type = String)]
    name: Name,
    #[schema(value_type = Vec<words::Role>)]
    roles: Vec<Role>,
    /// The queues a worker may claim from; all where none is said.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    queues: Vec<Name>,
    /// How long it is good, at most ten years; for ever where nothing is said.
    ttl_ms: Option<i64>,
    /// Why.
    reason: Option<String>,
}

/// `POST /v1/tokens`
pub async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Said(said): Said<TokenSaid>,
) -> Reply {
    let longest = limits::LONGEST.as_millis();
    if let Some(ttl) = said.ttl_ms
        && !(1_000..=longest).contains(&ttl)
    {
        let allowed = format!("1000 to {longest}, which is ten years");
        return Err(Invalid::new("ttl_ms", allowed).found(ttl.to_string()).into());
    }
    if caller.token.is_none() && !said.roles.contains(&Role::Admin) {
        return Err(Problem::invalid(
            "the first token has to have the role admin: it closes the door behind it",
        )
        .hint("make one for whoever administers this server, and then the others with it"));
    }
    let new = NewToken {
        name: said.name,
        roles: said.roles,
        queues: said.queues,
        ttl: said.ttl_ms.map(Millis::new),
    };
    let subject = format!("token {}", new.name);
    let operator = app.operator(&caller, said.reason.as_deref());
    let creating = tokens::create(&app.client, new);
    let made = operator.on_record("create_token", &subject, creating).await;
    let (record, token) = made.map_err(|error| match error {
        semel::Error::Invalid(invalid) if invalid.what == tokens::NAME => {
            Problem::from(invalid).coded("not_unique")
        }
        error => error.into(),
    })?;
    app.keyring.forget().await;
    json(StatusCode::CREATED, &MadeToken::new(&record, token))
}

/// `DELETE /v1/tokens/{id}`
pub async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Named(id): Named,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let operator = app.operator(&caller, why.reason.as_deref());
    let revoking = tokens::revoke(&app.client, &id);
    operator
        .on_record("revoke_token", &format!("token {id}"), revoking)
        .await?;
    app.keyring.forget().await;
    Ok(StatusCode::NO_CONTENT.into_response())
}
