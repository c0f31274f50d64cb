//! The store's time: ticks are due by it, not by the clock of whoever looks (contract 1.8).

use std::time::Duration;

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::store::{Expect, PutDocument, Store};
use semel_core::time::{Millis, Timestamp};
use tokio::time::Instant;

use crate::clock;

/// How long a reading is carried on with our own clock before the store is asked again.
const CARRIED_ON: Duration = Duration::from_secs(60);

/// The store's time right now. A document tells when it was written, so one is written.
pub(crate) async fn of(store: &dyn Store) -> Result<Timestamp, StoreError> {
    let kind = Name::new("clock").expect("a valid name");
    let put = PutDocument {
        kind: kind.clone(),
        name: "now".to_owned(),
        body: Json::null(),
        expect: Expect::Any,
        ttl: Some(Millis::from_secs(60)),
    };
    store.put_document(put).await?;
    let written = store.document(&kind, "now").await?;
    written
        .map(|document| document.updated_at)
        .ok_or_else(|| StoreError::unavailable("asking for the store's time"))
}

/// A reading of the store's time, carried on for a while without asking again.
#[derive(Debug, Default)]
pub(crate) struct Anchor {
    read: Option<(Timestamp, Instant)>,
}

impl Anchor {
    pub(crate) async fn now(&mut self, store: &dyn Store) -> Result<Timestamp, StoreError> {
        let here = clock::instant();
        if let Some((there, at)) = self.read {
            let passed = here.saturating_duration_since(at);
            if passed < CARRIED_ON {
                return Ok(there.plus(passed.into()));
            }
        }
        let there = of(store).await?;
        self.read = Some((there, clock::instant()));
        Ok(there)
    }
}
