//! The door every request comes through: whose is it, may it, and what goes out with every answer.

mod origin;

pub use origin::{Hosts, check_embedding, check_origin};

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::room::Held;
use crate::{clock, ids, metrics, sessions};

/// Names a request, in and out.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Lets a request in, and finishes its answer.
pub async fn enter(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = clock::instant();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let page = wants_page(&request).then(|| request.uri().clone());
    let checked = check(&app, &request);
    let told = Told::of(&app, &request);
    let admitted = match checked {
        Ok(()) => who(&app, &told).await,
        Err(problem) => Err(problem),
    };
    let op = match admitted {
        Ok(_) => op(&method, &path),
        Err(_) => Some("tokens"),
    };
    // Dropped with the answer: what a handler made of a large body lasts as long as the handler.
    let held = Held::default();
    let response = match admitted {
        Ok(caller) => {
            request.extensions_mut().insert(held.clone());
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(problem) => axum::response::IntoResponse::into_response(problem),
    };
    drop(held);
    let problem = response.extensions().get::<Problem>();
    if let (Some(op), Some("store_unavailable")) = (op, problem.map(Problem::code)) {
        metrics::unanswered(op);
    }
    let response = finish(app.room.hold_answer(response), &id, page.as_ref());
    let took = begun.elapsed();
    metrics::request(response.status(), took);
    tracing::debug!(
        request_id = id,
        %method,
        path,
        status = response.status().as_u16(),
        took_ms = took.as_secs_f64() * 1_000.0,
        "request"
    );
    response
}

/// What is asked of the store, in a word; nothing where whoever submits counts what has no answer.
fn op(method: &Method, path: &str) -> Option<&'static str> {
    match path {
        "/v1/jobs" | "/v1/jobs/batch" if method == Method::POST => None,
        "/v1/claims" => Some("claim"),
        "/v1/claims/extend" => Some("extend"),
        "/v1/claims/settle" => Some("settle"),
        "/v1/claims/steps" => Some("step"),
        path if path.starts_with("/v1/events/") && method == Method::POST => None,
        path if path.starts_with("/v1/guard/") => Some("guard"),
        _ if is_safe(method) => Some("look"),
        _ => Some("act"),
    }
}

/// What tells who sent a request; the rest of its head is not copied.
struct Told {
    credentials: HeaderMap,
    is_direct: bool,
}

impl Told {
    fn of(app: &App, request: &Request) -> Self {
        let headers = request.headers();
        let mut credentials = HeaderMap::new();
        for name in [header::AUTHORIZATION, header::COOKIE] {
            for value in headers.get_all(&name) {
                credentials.append(name.clone(), value.clone());
            }
        }
        Told {
            credentials,
            is_direct: Hosts::of(&app.settings).is_direct(request),
        }
    }
}

/// Lets through who has the role.
pub async fn allow(wanted: Role, request: Request, next: Next) -> Response {
    match request.extensions().get::<Caller>() {
        Some(caller) if caller.may(wanted) => next.run(request).await,
        Some(caller) => {
            let detail = format!(
                "{} has no role {}: {}",
                caller.name,
                wanted.word(),
                has(&caller.roles)
            );
            axum::response::IntoResponse::into_response(Problem::new("forbidden", detail))
        }
        None => axum::response::IntoResponse::into_response(
            Problem::new(
                "unauthorized",
                "this server asks for a token, and the request has none",
            )
            .hint("send Authorization: Bearer TOKEN, or sign in at /login"),
        ),
    }
}

/// Lets through what has no query string, where none is understood.
pub async fn without_query(request: Request, next: Next) -> Response {
    match request.uri().query().filter(|query| !query.is_empty()) {
        None => next.run(request).await,
        Some(_) => axum::response::IntoResponse::into_response(Problem::invalid(
            "the query string is not understood: this route takes none",
        )),
    }
}

fn has(roles: &[Role]) -> String {
    let words: Vec<&str> = roles.iter().map(|role| role.word()).collect();
    format!("it has {}", words.join(", "))
}

fn check(app: &App, request: &Request) -> Result<(), Problem> {
    Hosts::of(&app.settings).check(request)?;
    match is_safe(request.method()) {
        true => check_embedding(request.headers()),
        false => check_origin(request.headers()),
    }
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

async fn who(app: &App, told: &Told) -> Result<Option<Caller>, Problem> {
    let headers = &told.credentials;
    let mut authorizations = headers.get_all(header::AUTHORIZATION).iter();
    if let Some(said) = authorizations.next() {
        // Two of them could be read differently by whoever passed the request on.
        let is_only = authorizations.next().is_none();
        let token = said.to_str().ok().filter(|_| is_only).and_then(bearer);
        let Some(token) = token else {
            return Err(Problem::new(
                "unauthorized",
                "Authorization has to be Bearer and a token, once",
            ));
        };
        let found = app.keyring.caller(&app.client, token).await?;
        return match found {
            Some(caller) => Ok(Some(caller)),
            None => Err(Problem::new(
                "unauthorized",
                "the token is unknown, was revoked or has run out",
            )),
        };
    }
    if app.keyring.is_open(&app.client).await? {
        // Whoever reaches a loopback address is on this machine, unless a proxy stands between; elsewhere the server does
        // not start without a token.
        return Ok(told.is_direct.then(Caller::local));
    }
    let mut secrets = sessions::of_request(headers, app.settings.listen.port());
    let Some(token) = secrets.find_map(|secret| app.sessions.token(secret)) else {
        return Ok(None);
    };
    Ok(app.keyring.signed_in(&app.client, &token).await?)
}

fn bearer(said: &str) -> Option<&str> {
    let (scheme, token) = said.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Keeps the caller's own name of a request, if it is a decent one.
fn request_id(headers: &HeaderMap) -> String {
    let said = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let decent = |id: &&str| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    said.filter(decent).map_or_else(ids::request, str::to_owned)
}

fn wants_page(request: &Request) -> bool {
    let accepts = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    !request.uri().path().starts_with("/v1/") && accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// `page` is the page that was asked for, if it was one.
fn finish(mut response: Response, id: &str, page: Option<&Uri>) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = match page {
            Some(page) => crate::pages::problem(&problem, id, page),
            None => problem.answer(id),
        };
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The answer where there is no route.
pub async fn nowhere(request: Request) -> Problem {
    let path = semel_core::limits::cut(request.uri().path(), 200);
    Problem::not_found(format!("route {} {path}", request.method())).hint("/openapi.json lists the routes")
}

/// The answer where a route has no such method.
pub async fn no_such_method(request: Request) -> Problem {
    let path = semel_core::limits::cut(request.uri().path(), 200);
    Problem::new(
        "method_not_allowed",
        format!("{path} knows no {}", request.method()),
    )
}
