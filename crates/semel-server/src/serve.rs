//! Listening, and stopping in order.

mod patience;
mod tls;

pub use tls::load as load_tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use semel::{Client, Connecting, Retry};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::app::{App, Settings};
use crate::serve::patience::Patience;
use crate::{metrics, outbox, pulse, sight, stream, table};

/// Connections at once; further ones wait in the system's own queue.
const CONNECTIONS: usize = 4_096;
/// How long a client may take for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a client may take to agree on encryption.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How long requests that are under way may go on after a stop.
const GRACE: Duration = Duration::from_secs(20);
/// How long a round of the relay may go on after a stop. Cut short, it gives the same jobs when it is done again.
const RELAY_GRACE: Duration = Duration::from_secs(5);

/// Connects to a store as a server should: whoever asks it hears within some five seconds that the store is out of reach,
/// and can go elsewhere or come again. A client on its own has more patience.
pub fn connect(url: impl Into<String>) -> Connecting {
    let retry = Retry {
        attempts: 2,
        ..Retry::default()
    };
    semel::connect(url).retry(retry).briefly()
}

/// A server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    app: App,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Begins to listen. With port 0 the system chooses one; [`Server::address`] says which.
    pub async fn bind(
        client: Client,
        mut settings: Settings,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.listen).await?;
        settings.listen = listener.local_addr()?;
        settings.encrypted = tls.is_some();
        let (stop, stopping) = watch::channel(false);
        Ok(Server {
            listener,
            tls,
            app: App::new(client, settings, stopping),
            stop,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.app.settings.listen
    }

    /// Answers until `until` ends; then takes no more connections, lets what is under way finish, and returns.
    pub async fn run_until(self, until: impl Future<Output = ()>) {
        let router = table::router(&self.app);
        let mut tasks = JoinSet::new();
        tasks.spawn(stream::watch(self.app.clone()));
        tasks.spawn(keep_up(self.app.clone()));
        tasks.spawn(sight::look_ahead(self.app.clone()));
        tasks.spawn(pulse::feel(self.app.clone()));
        let mut relay = JoinSet::new();
        relay.spawn(outbox::relay(self.app.clone()));
        let graceful = GracefulShutdown::new();
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        tokio::pin!(until);
        loop {
            let permit = tokio::select! {
                () = &mut until => break,
                permit = room.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
            };
            let accepted = tokio::select! {
                () = &mut until => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Out of descriptors, most likely: those that are open have to end first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let answering = answer(stream, self.tls.clone(), router.clone(), graceful.watcher());
            connections.spawn(async move {
                answering.await;
                drop(permit);
            });
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        let _ = self.stop.send(true);
        if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
            tracing::warn!(
                "requests were still under way at the end of the grace; their connections are closed"
            );
        }
        let _ = tokio::time::timeout(RELAY_GRACE, relay.join_next()).await;
        relay.shutdown().await;
        connections.shutdown().await;
        tasks.shutdown().await;
    }
}

async fn answer(
    stream: tokio::net::TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let Some(tls) = tls else {
        return speak(stream, router, watcher).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIME, TlsAcceptor::from(tls).accept(stream));
    match handshake.await {
        Ok(Ok(stream)) => speak(stream, router, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "a client could not agree on encryption"),
        Err(_) => tracing::debug!("a client took too long to agree on encryption"),
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(64 * 1024)
        .serve_connection(
            TokioIo::new(Patience::with(stream)),
            TowerToHyperService::new(router),
        );
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Housekeeping and schedules, for as long as the server runs: a store that only has a server is kept up, too.
async fn keep_up(app: App) {
    let sweep = async {
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            app.leases.sweep(Duration::from_secs(2 * 3_600));
        }
    };
    // What was measured is kept one by one until it is folded, and nobody may ever ask for it.
    let fold = async {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            metrics::start().run_upkeep();
        }
    };
    tokio::join!(
        semel::upkeep::keep_up(&app.client, app.settings.retention),
        sweep,
        fold
    );
}
