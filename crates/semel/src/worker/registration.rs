//! Letting operators know: a document that is renewed while the worker lives and disappears with it.

use std::sync::Arc;
use std::time::Duration;

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::store::{Expect, PutDocument};
use semel_core::time::{Millis, Timestamp};

use crate::worker::desk::Desk;
use crate::worker::jitter::{self, about};
use crate::worker::stop::Stage;
use crate::worker::workers::{self, WorkerInfo};

/// How often a worker says that it is there.
const EVERY: Duration = Duration::from_secs(8);

/// How long it is believed.
const BELIEVED: Millis = Millis::from_secs(30);

/// Registers, and takes the document away once the worker has left.
pub(crate) async fn register(desk: Arc<Desk>) {
    let mut registration = Registration {
        desk: desk.clone(),
        started_at: None,
    };
    tokio::select! {
        () = desk.stop.comes_to(Stage::Leaving) => {}
        () = registration.renew_again_and_again() => {}
    }
    let id = desk.settings.id.as_str();
    if let Err(error) = desk.store.delete_document(&workers::kind(), id, None).await {
        tracing::debug!(%error, "the worker could not take its name off the list; it will disappear by itself");
    }
}

struct Registration {
    desk: Arc<Desk>,
    started_at: Option<Timestamp>,
}

impl Registration {
    async fn renew_again_and_again(&mut self) {
        loop {
            if let Err(error) = self.renew().await {
                tracing::warn!(%error, "the worker could not say that it is there; trying again");
            }
            tokio::time::sleep(about(EVERY)).await;
        }
    }

    async fn renew(&mut self) -> Result<(), StoreError> {
        let Desk { store, settings, .. } = &*self.desk;
        let info = self.info();
        store
            .put_document(PutDocument {
                kind: workers::kind(),
                name: settings.id.as_str().to_owned(),
                body: Json::of(&info)?,
                expect: Expect::Any,
                ttl: Some(BELIEVED),
            })
            .await?;
        if self.started_at.is_none() {
            let written = store.document(&workers::kind(), settings.id.as_str()).await?;
            self.started_at = written.map(|document| document.updated_at);
        }
        Ok(())
    }

    fn info(&self) -> WorkerInfo {
        let settings = &self.desk.settings;
        WorkerInfo {
            name: settings.name.clone(),
            host: host(),
            pid: std::process::id(),
            version: settings.version.clone(),
            tasks: self.desk.handlers.tasks(),
            queues: settings.queues.clone(),
            slots: settings.slots,
            running: self.desk.floor.running(),
            started_at: self.started_at,
        }
    }
}

/// A name that no other worker has.
pub(crate) fn unique_name(given: Option<&str>) -> Name {
    let tail = format!("{}-{}", std::process::id(), jitter::suffix());
    let room = Name::MAX_BYTES - tail.len() - 2;
    let printable = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let head = match given {
        Some(given) => format!("{}@{}", printable(given), printable(&host())),
        None => printable(&host()),
    };
    let head = semel_core::limits::cut(&head, room);
    Name::new(format!("{head}-{tail}")).expect("short and printable")
}

fn host() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let told = told.or_else(|| std::env::var("HOSTNAME").ok());
    let told = told.or_else(|| std::env::var("COMPUTERNAME").ok());
    let host = told.unwrap_or_default();
    match host.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_fit() {
        let long = "wörker".repeat(100);
        let (first, second) = (unique_name(Some(&long)), unique_name(Some("a\nb")));
        assert!(first.as_str().len() <= Name::MAX_BYTES && second.as_str().starts_with("ab@"));
        assert_ne!(unique_name(None), unique_name(None));
    }
}
