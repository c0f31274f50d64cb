//! The outbox this server relays, if it was given one: a table in a database that is not the store's.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_outbox::{Error, ParkedEvent, Relay, Source, Status};

use crate::app::App;
use crate::problem::Problem;

/// How long its database may take to answer: whoever looks at the store does not wait for another database.
const PATIENCE: Duration = Duration::from_secs(2);

/// An outbox in the user's own database.
#[derive(Clone)]
pub struct Outbox {
    source: Arc<dyn Source>,
}

impl Outbox {
    /// The outbox of an open database; [`semel_outbox::open`] opens one.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Outbox { source }
    }

    /// Where it is, without a password.
    pub fn shown(&self) -> &str {
        self.source.shown()
    }

    /// How it stands.
    pub async fn status(&self) -> Result<Status, Problem> {
        self.within_patience(self.source.status()).await
    }

    /// Events that were given up, oldest first.
    pub async fn parked(&self, most: usize) -> Result<Vec<ParkedEvent>, Problem> {
        self.within_patience(self.source.parked(most)).await
    }

    /// Lets a parked event, or all of them, be tried again; says how many.
    pub async fn unpark(&self, id: Option<&str>) -> Result<u64, Problem> {
        self.within_patience(self.source.unpark(id)).await
    }

    async fn within_patience<T>(&self, asking: impl Future<Output = Result<T, Error>>) -> Result<T, Problem> {
        let told = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it did not answer within {} s", PATIENCE.as_secs()),
        };
        tracing::warn!(outbox = self.shown(), error = told, "the outbox is out of reach");
        let detail = format!("the outbox {} is out of reach: {told}", self.shown());
        Err(Problem::new("outbox_unavailable", detail).retry_after(2))
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Outbox").field(&self.shown()).finish()
    }
}

/// Relays until the server stops; the round that is under way is finished.
pub async fn relay(app: App) {
    let Some(outbox) = app.settings.outbox.clone() else {
        return;
    };
    let relay = Relay::new(outbox.source, &app.client);
    let done = relay.run_until(app.stopping()).await;
    tracing::info!(sent = done.sent, parked = done.parked, "the relay has stopped");
}
