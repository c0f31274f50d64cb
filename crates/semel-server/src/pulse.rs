//! Whether the store takes writes. One that can be read and not be written answers, and is of no use to whoever submits
//! or works: a small write tells, at most once a second however many ask.

use std::time::{Duration, Instant};

use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::store::{Expect, PutDocument};
use semel_core::time::Millis;
use tokio::sync::{Notify, watch};

use crate::app::App;
use crate::clock;
use crate::problem::Problem;

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(1);
/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long what is written stays.
const KEPT: Millis = Millis::from_secs(60);

/// What was found last.
#[derive(Debug)]
pub struct Pulse {
    felt: watch::Sender<Option<(Instant, Result<(), Problem>)>>,
    wanted: Notify,
}

impl Default for Pulse {
    fn default() -> Self {
        Pulse {
            felt: watch::Sender::new(None),
            wanted: Notify::new(),
        }
    }
}

impl App {
    /// Whether the store took a write within the last second, or takes one now.
    pub async fn takes_writes(&self) -> Result<(), Problem> {
        let mut felt = self.pulse.felt.subscribe();
        let is_fresh = |felt: &Option<(Instant, Result<(), Problem>)>| {
            let age = felt.as_ref().map(|(at, _)| clock::instant().duration_since(*at));
            age.is_some_and(|age| age < FRESH)
        };
        if !is_fresh(&felt.borrow()) {
            self.pulse.wanted.notify_one();
        }
        let told = tokio::time::timeout(PATIENCE + FRESH, felt.wait_for(is_fresh)).await;
        match told {
            Ok(Ok(felt)) => felt.as_ref().map_or(Ok(()), |(_, felt)| felt.clone()),
            _ => Err(silent()),
        }
    }
}

/// Writes for those who ask: one who asks and goes away leaves no write behind.
pub async fn feel(app: App) {
    loop {
        tokio::select! {
            () = app.pulse.wanted.notified() => {}
            () = app.stopping() => return,
        }
        let written = tokio::time::timeout(PATIENCE, write(&app)).await;
        let felt = written.unwrap_or_else(|_| Err(silent()));
        app.pulse.felt.send_replace(Some((clock::instant(), felt)));
        // Whoever asks within that time is answered with this.
        tokio::select! {
            () = tokio::time::sleep(FRESH) => {}
            () = app.stopping() => return,
        }
    }
}

async fn write(app: &App) -> Result<(), Problem> {
    let put = PutDocument {
        kind: Name::new("probe")?,
        name: "readyz".to_owned(),
        body: Json::null(),
        expect: Expect::Any,
        ttl: Some(KEPT),
    };
    app.client.store().put_document(put).await?;
    Ok(())
}

fn silent() -> Problem {
    let detail = format!("the store did not take a write within {} s", PATIENCE.as_secs());
    Problem::new("store_unavailable", detail).retry_after(2)
}
