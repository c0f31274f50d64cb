//! Housekeeping and schedules: in every worker, safe to run everywhere at once.
//!
//! Promoting, rescuing and expiring happen in every call to a store; upkeep sees to it that they also happen
//! when nobody calls, prunes what has outlived its retention, takes snapshots, and carries out schedules.

use std::time::Duration;

use semel_core::store::{Retention, Store, UpkeepReport, UpkeepRequest};

use crate::client::Client;
use crate::clock;
use crate::error::Error;
use crate::schedule::{self, Anchor};
use crate::worker::about;

/// How often housekeeping is done.
const EVERY: Duration = Duration::from_secs(15);

/// How soon it goes on when there is more to do: others want to write in between.
const MORE: Duration = Duration::from_millis(100);

/// How often schedules are looked at, if none is due sooner.
const LOOK: Duration = Duration::from_secs(5);

/// One round of housekeeping and schedules. If its report says that there is more, another may follow at once.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
/// let jobs = semel::connect("memory:").await?;
/// let report = semel::upkeep::run_once(&jobs, semel::Retention::default()).await?;
/// assert!(!report.more);
/// # Ok(()) }
/// ```
pub async fn run_once(client: &Client, retention: Retention) -> Result<UpkeepReport, Error> {
    let store = &**client.store();
    schedule::tick_all(store, &mut Anchor::default()).await?;
    let request = UpkeepRequest {
        retention,
        ..UpkeepRequest::default()
    };
    Ok(store.upkeep(request).await?)
}

/// Housekeeping and schedules for as long as it is polled: for a process that has no worker, such as a server.
pub async fn keep_up(client: &Client, retention: Retention) {
    run(&**client.store(), retention).await;
}

/// Keeps up for as long as it is polled.
pub(crate) async fn run(store: &dyn Store, retention: Retention) {
    tokio::join!(house(store, retention), schedules(store));
}

async fn house(store: &dyn Store, retention: Retention) {
    let mut wait = about(MORE * 10);
    let request = UpkeepRequest {
        retention,
        regular: true,
        ..UpkeepRequest::default()
    };
    loop {
        tokio::time::sleep(wait).await;
        wait = match store.upkeep(request).await {
            Ok(report) if report.more => about(MORE),
            Ok(_) => about(EVERY),
            Err(error) => {
                tracing::warn!(%error, "housekeeping was not done; trying again");
                about(EVERY)
            }
        };
    }
}

async fn schedules(store: &dyn Store) {
    let mut anchor = Anchor::default();
    loop {
        let begun = clock::instant();
        let next = match schedule::tick_all(store, &mut anchor).await {
            Ok(next) => next.unwrap_or(LOOK),
            Err(error) => {
                tracing::warn!(%error, "schedules were not carried out; trying again");
                about(LOOK)
            }
        };
        // A little late is right; a little early would only look once more.
        tokio::time::sleep_until(begun + next.min(LOOK) + Duration::from_millis(2)).await;
    }
}
