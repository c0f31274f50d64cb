//! Callers that hang up, services that fail, stores that are away.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod shop;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use axum::routing::post;
use http_body_util::{BodyExt, StreamBody};
use semel::testing::{Call, Intercept, InterceptedStore};
use semel::{Client, Retry, millis};
use semel_core::error::StoreError;
use semel_tower::{IdempotencyLayer, LayerBody};
use shop::{Shop, post_to};
use tokio::sync::Semaphore;
use tower::ServiceExt;
use tower_layer::Layer;

const K: (&str, &str) = ("idempotency-key", "\"k-1\"");

/// Stands in front of a guard: lets replies through one by one, or cuts the line.
#[derive(Default)]
struct Line {
    holds_replies: bool,
    replies: Option<Semaphore>,
    /// The calls from this one on fail.
    cut_from: Option<usize>,
    calls: AtomicUsize,
}

#[async_trait::async_trait]
impl Intercept for Line {
    async fn before(&self, call: &Call) -> Result<(), StoreError> {
        if *call != Call::Guard {
            return Ok(());
        }
        let n = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.cut_from.is_some_and(|from| n >= from) {
            true => Err(StoreError::unavailable("asking a guard")),
            false => Ok(()),
        }
    }

    async fn after(&self, call: &Call) -> Result<(), StoreError> {
        if let (Call::Guard, true, Some(replies)) = (call, self.holds_replies, &self.replies) {
            replies.acquire().await.unwrap().forget();
        }
        Ok(())
    }
}

async fn behind(line: &Arc<Line>) -> Client {
    let store = semel::connect("memory:").await.unwrap().store().clone();
    let retry = Retry {
        attempts: 2,
        first: millis(1),
        longest: millis(2),
    };
    let intercepted = Arc::new(InterceptedStore::new(store, line.clone()));
    semel::connect_to(intercepted).retry(retry).await.unwrap()
}

/// The store has reserved the key, its reply is on the way, and the caller hangs up. A layer that is dropped with its
/// caller leaves a key that nobody uses, and answers 409 for a day.
#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_while_the_key_is_being_reserved_finds_the_answer_later() {
    let line = Arc::new(Line {
        holds_replies: true,
        replies: Some(Semaphore::new(0)),
        ..Line::default()
    });
    let shop = Shop::on(&behind(&line).await, |layer| layer);
    let hanging_up = tokio::spawn({
        let shop = shop.clone();
        async move { shop.pay("k", "1").await }
    });
    while line.calls.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    hanging_up.abort();
    assert!(hanging_up.await.unwrap_err().is_cancelled());
    line.replies.as_ref().unwrap().add_permits(1_000);
    let mut again = shop.pay("k", "1").await;
    for _ in 0..500 {
        if again.status != 409 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        again = shop.pay("k", "1").await;
    }
    assert_eq!((again.status, shop.runs()), (201, 1), "{again:?}");
}

#[tokio::test]
async fn while_the_store_is_away_nothing_is_carried_out() {
    let line = Arc::new(Line {
        cut_from: Some(0),
        ..Line::default()
    });
    let shop = Shop::on(&behind(&line).await, |layer| layer);
    let refused = shop.pay("k", "1").await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (503, "store_unavailable")
    );
    assert_eq!(shop.runs(), 0);
    let unguarded = shop.ask(post_to("/payments", &[], "1")).await;
    assert_eq!(
        (unguarded.status, shop.runs()),
        (201, 1),
        "without a key no store is needed"
    );
}

/// What was done is done: its caller is told so, and who repeats it is not let in.
#[tokio::test]
async fn an_answer_that_cannot_be_kept_is_given_and_not_carried_out_again() {
    let line = Arc::new(Line {
        cut_from: Some(1),
        ..Line::default()
    });
    let whole = behind(&line).await;
    let shop = Shop::on(&whole, |layer| layer);
    assert_eq!(shop.pay("k", "1").await.status, 201);
    assert_eq!(shop.pay("k", "1").await.status, 503);
    assert_eq!(shop.runs(), 1);
}

/// A service that gives an error instead of an answer, as a time limit inside the layer does.
#[tokio::test]
async fn an_error_of_the_service_is_kept_like_a_panic() {
    let jobs = semel::connect("memory:").await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let failing = tower::service_fn(move |_: Request<LayerBody<Body>>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Err::<Response<Body>, _>(std::io::Error::other("out of time")) }
    });
    let service = IdempotencyLayer::new(&jobs).layer(failing);
    let first = service.clone().oneshot(post_to("/pay", &[K], "1")).await;
    assert_eq!(first.unwrap_err().to_string(), "out of time");
    let again = service.oneshot(post_to("/pay", &[K], "1")).await.unwrap();
    assert_eq!(again.status(), 500);
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A request that breaks off has no key yet: it can be sent again whole.
#[tokio::test]
async fn a_body_that_breaks_off_reserves_nothing() {
    let shop = Shop::open().await;
    let pieces = in_pieces([Ok("12"), Err("the line is dead")]);
    let broken = Request::post("/payments").header(K.0, K.1).body(pieces).unwrap();
    let refused = shop.ask(broken).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid"));
    assert_eq!(shop.runs(), 0);
    assert_eq!(shop.ask(post_to("/payments", &[K], "1234")).await.status, 201);
}

/// An answer that breaks off is not kept half, and the request is not carried out again.
#[tokio::test]
async fn an_answer_that_breaks_off_is_kept_as_a_failure() {
    let jobs = semel::connect("memory:").await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let half = async move || {
        count.fetch_add(1, Ordering::SeqCst);
        in_pieces([Ok("ha"), Err("the disk is gone")])
    };
    let app = axum::Router::new()
        .route("/half", post(half))
        .layer(IdempotencyLayer::new(&jobs));
    for _ in 0..2 {
        let got = app.clone().oneshot(post_to("/half", &[K], "1")).await.unwrap();
        assert_eq!(got.status(), 500);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// A body that arrives in pieces, one of which is an error.
fn in_pieces(pieces: [Result<&'static str, &'static str>; 2]) -> Body {
    let frames = pieces.map(|piece| {
        let data = piece.map(|text| http_body::Frame::data(Bytes::from_static(text.as_bytes())));
        data.map_err(std::io::Error::other)
    });
    Body::new(StreamBody::new(Pieces(frames.into_iter())).boxed_unsync())
}

struct Pieces<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Pieces<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}

/// A body that never ends is not read to its end, nor kept in memory.
#[tokio::test]
async fn a_body_without_an_end_is_refused_after_its_bound() {
    let shop = Shop::with(|layer| layer.request_bytes(100_000)).await;
    let read = Arc::new(AtomicUsize::new(0));
    let count = read.clone();
    let endless = std::iter::from_fn(move || {
        count.fetch_add(1_000, Ordering::SeqCst);
        Some(Ok::<_, std::io::Error>(http_body::Frame::data(
            Bytes::from_static(&[b'x'; 1_000]),
        )))
    });
    let body = Body::new(StreamBody::new(Pieces(endless)).boxed_unsync());
    let got = shop
        .ask(Request::post("/payments").header(K.0, K.1).body(body).unwrap())
        .await;
    assert_eq!((got.status, shop.runs()), (413, 0));
    assert!(read.load(Ordering::SeqCst) <= 102_000);
}

/// A request that takes longer than keys are kept: the second one is let in, and its answer is not overwritten.
#[tokio::test]
async fn who_is_slower_than_keys_are_kept_does_not_overwrite_the_answer() {
    let shop = Shop::with(|layer| layer.keep(Duration::from_millis(300))).await;
    let ask = || {
        let shop = shop.clone();
        tokio::spawn(async move { shop.ask(post_to("/slow", &[K], "1")).await })
    };
    let first = ask();
    while shop.runs() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    let second = ask();
    while shop.runs() == 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    shop.gate.add_permits(2);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(
        (first.body, second.body),
        (b"slow 1".to_vec(), b"slow 2".to_vec())
    );
    let kept = shop.ask(post_to("/slow", &[K], "1")).await;
    assert_eq!((kept.body.as_slice(), kept.is_replayed()), (&b"slow 2"[..], true));
}

/// Inside `nest` a layer sees what is left of the path: a scope that names the router keeps its keys apart.
#[tokio::test]
async fn nested_routers_are_kept_apart_by_their_scopes() {
    let jobs = semel::connect("memory:").await.unwrap();
    let router = |name: &'static str| {
        let layer = IdempotencyLayer::new(&jobs).scope(move |_| name.to_owned());
        axum::Router::new()
            .route("/", post(async move || name))
            .layer(layer)
    };
    let app = axum::Router::new()
        .nest("/orders", router("orders"))
        .nest("/refunds", router("refunds"));
    for name in ["orders", "refunds"] {
        let got = app.clone().oneshot(post_to(&format!("/{name}"), &[K], "1")).await;
        assert_eq!(shop::got(got.unwrap()).await.body, name.as_bytes());
    }
}
