//! Alerts about the room a store has left, and what takes it up for nothing.

use crate::alerts::{Alert, Thresholds};
use crate::sight::View;
use crate::text::{bytes, percent, plural};

/// How full the store is, where it is known how much it can take.
pub(super) fn storage(view: &View, limits: &Thresholds) -> Option<Alert> {
    let most = view.stats.storage_limit.filter(|most| *most > 0)?;
    let taken = view.stats.storage_bytes;
    let share = taken as f64 / most as f64;
    Some(Alert {
        alert: "storage",
        firing: share > limits.storage,
        message: format!(
            "The store takes {} of the {} it can have ({}){}",
            bytes(taken),
            bytes(most),
            percent(share),
            if share > limits.storage {
                ": keep less (retention), or give it more room"
            } else {
                ""
            }
        ),
        value: share,
        threshold: limits.storage,
        command: "semel config show".to_owned(),
    })
}

/// Jobs that are only kept for keys whose time has passed: housekeeping does not keep up, or nobody does it.
pub(super) fn expired_keys(view: &View, limits: &Thresholds) -> Alert {
    let waiting = view.stats.expired_keys;
    Alert {
        alert: "expired_keys",
        firing: waiting > limits.expired_keys,
        message: match waiting {
            0 => "No expired key waits to be cleaned up".to_owned(),
            n => format!(
                "{} to be cleaned up: servers and workers do so, a part at a time",
                plural(n, "expired key waits", "expired keys wait")
            ),
        },
        value: waiting as f64,
        threshold: limits.expired_keys as f64,
        command: "semel doctor".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use semel_core::view::Stats;

    use super::*;
    use crate::alerts::watch;

    async fn firing(change: impl FnOnce(&mut Stats)) -> Vec<&'static str> {
        let client = semel::connect("memory:").await.expect("a store in memory");
        let mut view = View::look(&client).await.expect("it can be looked at");
        let mut stats = Stats::clone(&view.stats);
        change(&mut stats);
        view.stats = Arc::new(stats);
        let watched = watch(&view, &Thresholds::default());
        let fires = |alert: Alert| alert.firing.then_some(alert.alert);
        watched.into_iter().filter_map(fires).collect()
    }

    #[tokio::test]
    async fn a_store_that_is_nearly_full_is_an_alert() {
        let full = |bytes| {
            move |stats: &mut Stats| {
                (stats.storage_bytes, stats.storage_limit) = (bytes, Some(1_000));
            }
        };
        assert!(firing(full(800)).await.is_empty());
        assert_eq!(firing(full(801)).await, ["storage"]);
        let unknown = |stats: &mut Stats| (stats.storage_bytes, stats.storage_limit) = (801, None);
        assert!(firing(unknown).await.is_empty());
    }

    #[tokio::test]
    async fn keys_that_nobody_cleans_up_are_an_alert() {
        assert!(firing(|stats| stats.expired_keys = 1_000).await.is_empty());
        assert_eq!(firing(|stats| stats.expired_keys = 1_001).await, ["expired_keys"]);
    }
}
