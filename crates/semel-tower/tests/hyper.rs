//! The layer around a plain hyper service, on a real socket.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use semel_tower::{IdempotencyLayer, LayerBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer;

const REQUEST: &str = "POST /pay HTTP/1.1\r\nhost: shop\r\nidempotency-key: \"k\"\r\ncontent-length: 4\r\nconnection: close\r\n\r\n4200";

#[tokio::test(flavor = "multi_thread")]
async fn a_hyper_service_answers_equal_requests_once() {
    let jobs = semel::connect("memory:").await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let pay = tower::service_fn(move |request: Request<LayerBody<Incoming>>| {
        let n = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let text = format!("receipt {n} for {}", String::from_utf8_lossy(&body));
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
        }
    });
    let service = IdempotencyLayer::new(&jobs).layer(pay);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    let mut replayed = 0;
    for _ in 0..5 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(REQUEST.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nreceipt 1 for 4200"), "{answer}");
        replayed += usize::from(answer.contains("idempotent-replayed: true"));
    }
    assert_eq!((runs.load(Ordering::SeqCst), replayed), (1, 4));
    serving.abort();
}
