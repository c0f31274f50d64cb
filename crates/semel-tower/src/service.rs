//! One request on its way through the layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use semel::{Guard, Reservation, Reserved};
use semel_core::json::Json;
use tower_service::Service;

use crate::answer::Kept;
use crate::body::{LayerBody, Whole, whole};
use crate::key;
use crate::layer::{NothingDone, Rules};
use crate::problem::Problem;
use crate::request::{fingerprint, guarded_as};

/// A service behind the `Idempotency-Key` header; made by an [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Clone)]
pub struct Idempotency<S> {
    pub(crate) inner: S,
    pub(crate) guard: Guard,
    pub(crate) rules: Rules,
}

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<Response<T>, E>> + Send>>;

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: fmt::Display + Send,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
    R::Error: fmt::Display + Send,
{
    type Response = Response<LayerBody<R>>;
    type Error = S::Error;
    type Future = Answering<LayerBody<R>, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was found ready is the one to call.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let key = match self.rules.methods.contains(request.method()) {
            true => key::read(request.headers()),
            false => Ok(None),
        };
        let refused = match &key {
            Err(why) => Some(Problem::invalid(*why)),
            Ok(None) if self.rules.required && self.rules.methods.contains(request.method()) => {
                Some(Problem::invalid("this request needs an Idempotency-Key header"))
            }
            Ok(_) => None,
        };
        if let Some(problem) = refused {
            return Box::pin(async { Ok(sent(problem)) });
        }
        let Ok(Some(key)) = key else {
            let answering = inner.call(request.map(|body| LayerBody::passed(body)));
            return Box::pin(async { Ok(answering.await?.map(LayerBody::passed)) });
        };
        let (guard, rules) = (self.guard.clone(), self.rules.clone());
        Box::pin(guarded(inner, request, key, guard, rules))
    }
}

async fn guarded<S, B, R>(
    inner: S,
    request: Request<B>,
    key: String,
    guard: Guard,
    rules: Rules,
) -> Result<Response<LayerBody<R>>, S::Error>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: fmt::Display + Send,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
    R::Error: fmt::Display + Send,
{
    let (parts, body) = request.into_parts();
    let body = match whole(body, rules.request_bytes).await {
        Ok(Whole::Bytes(bytes)) => bytes,
        Ok(Whole::TooMuch(..)) => return Ok(sent(Problem::too_large(rules.request_bytes))),
        Err(error) => {
            return Ok(sent(Problem::invalid(format!(
                "the body could not be read: {error}"
            ))));
        }
    };
    // On a task of its own: a caller who hangs up must not stop it half-way, nor leave a key reserved that nobody uses.
    let deciding = tokio::spawn(decide(inner, parts, body, key, guard, rules));
    match deciding.await {
        Ok(answer) => answer,
        Err(_) => Ok(sent(Problem::panicked())),
    }
}

async fn decide<S, B, R>(
    inner: S,
    parts: Parts,
    body: Bytes,
    key: String,
    guard: Guard,
    rules: Rules,
) -> Result<Response<LayerBody<R>>, S::Error>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
    R::Error: fmt::Display + Send,
{
    let fingerprint = fingerprint(&parts, &body);
    let guarded_as = guarded_as(&(rules.scope)(&parts), &key);
    let reservation = match guard.reserve(guarded_as, rules.keep).await {
        Ok(Reserved::Fresh(reservation)) => reservation,
        Ok(Reserved::InProgress) => return Ok(sent(Problem::in_progress())),
        Ok(Reserved::Done(stored)) => return Ok(replayed(&stored, &fingerprint)),
        Err(error) => {
            tracing::error!(%error, "a key could not be reserved; the request is refused");
            return Ok(sent(Problem::unavailable()));
        }
    };
    carry_out(inner, parts, body, fingerprint, reservation, rules).await
}

async fn carry_out<S, B, R>(
    mut inner: S,
    parts: Parts,
    body: Bytes,
    fingerprint: String,
    reservation: Reservation,
    rules: Rules,
) -> Result<Response<LayerBody<R>>, S::Error>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
    R::Error: fmt::Display + Send,
{
    let request = Request::from_parts(parts, LayerBody::whole(body));
    let running = tokio::spawn(async move { inner.call(request).await });
    let (head, body) = match running.await {
        Ok(Ok(answer)) => answer.into_parts(),
        // How far it came is not known: what is kept is that it went wrong.
        Ok(Err(error)) => {
            keep_failure(fingerprint, &reservation).await;
            return Err(error);
        }
        Err(_) => {
            let response = keep_failure(fingerprint, &reservation).await;
            return Ok(response.map(LayerBody::whole));
        }
    };
    let (kept, body) = match whole(body, rules.answer_bytes).await {
        Ok(Whole::Bytes(bytes)) => {
            let kept = Kept::new(fingerprint, head.status, &head.headers, &bytes);
            (kept, LayerBody::whole(bytes))
        }
        Ok(Whole::TooMuch(read, rest)) => (Kept::without_answer(fingerprint), LayerBody::long(read, rest)),
        Err(error) => {
            tracing::error!(%error, "an answer broke off; it is not kept");
            let response = keep_failure(fingerprint, &reservation).await;
            return Ok(response.map(LayerBody::whole));
        }
    };
    let nothing_done = head.extensions.get::<NothingDone>().is_some();
    match nothing_done || (rules.undone)(head.status) {
        true => give_back(reservation).await,
        false => keep(&reservation, &kept).await,
    }
    Ok(Response::from_parts(head, body))
}

/// Keeps, as the answer, that the request went wrong; gives that answer.
async fn keep_failure(fingerprint: String, reservation: &Reservation) -> Response<Bytes> {
    let response = Problem::panicked().into_response();
    let kept = Kept::new(
        fingerprint,
        response.status(),
        response.headers(),
        response.body(),
    );
    keep(reservation, &kept).await;
    response
}

/// The caller gets its answer in any case: what was done is done. A repeated call is then told that it is in progress.
async fn keep(reservation: &Reservation, kept: &Kept) {
    if let Err(error) = reservation.confirm(kept).await {
        tracing::error!(%error, "an answer could not be kept; a repeated request will not get it");
    }
}

async fn give_back(reservation: Reservation) {
    if let Err(error) = reservation.release().await {
        tracing::warn!(%error, "a key could not be given back; it lapses by itself");
    }
}

fn replayed<R>(stored: &Json, fingerprint: &str) -> Response<LayerBody<R>> {
    match stored.read::<Kept>() {
        Ok(kept) if kept.fingerprint != fingerprint => sent(Problem::conflict()),
        Ok(kept) => match kept.replay() {
            Some(response) => response.map(LayerBody::whole),
            None => sent(Problem::answer_not_kept()),
        },
        Err(error) => {
            tracing::error!(%error, "a kept answer cannot be read");
            sent(Problem::answer_not_kept())
        }
    }
}

fn sent<R>(problem: Problem) -> Response<LayerBody<R>> {
    problem.into_response().map(LayerBody::whole)
}

impl<S> fmt::Debug for Idempotency<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Idempotency").finish_non_exhaustive()
    }
}
