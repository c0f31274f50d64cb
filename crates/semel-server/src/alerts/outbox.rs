//! Alerts of a server that relays an outbox.

use semel_core::time::Millis;
use semel_outbox::Status;

use crate::alerts::{Alert, Thresholds};
use crate::sight::View;
use crate::text::plural;
use crate::when::span;

/// The command that says how an outbox stands.
const COMMAND: &str = "semel outbox status --from URL";

/// What is watched of an outbox; nothing where there is none.
pub(super) fn watch(view: &View, limits: &Thresholds) -> Vec<Alert> {
    match &view.outbox {
        None => Vec::new(),
        Some(Err(told)) => vec![out_of_reach(told, limits)],
        Some(Ok(status)) => vec![lag(status, limits), parked(status)],
    }
}

/// Nobody knows how far it is behind: that is as bad as being behind.
fn out_of_reach(told: &str, limits: &Thresholds) -> Alert {
    Alert {
        alert: "outbox_lag",
        firing: true,
        message: format!("Nothing is relayed: {told}"),
        value: 0.0,
        threshold: seconds(limits.outbox_lag),
        command: COMMAND.to_owned(),
    }
}

fn lag(status: &Status, limits: &Thresholds) -> Alert {
    let waited = Millis::new(status.lag_ms);
    Alert {
        alert: "outbox_lag",
        firing: status.pending > 0 && waited > limits.outbox_lag,
        message: match status.pending {
            0 => "Every event of the outbox is sent or parked".to_owned(),
            n => format!(
                "{} in the outbox, the oldest for {}",
                plural(n, "event waits", "events wait"),
                span(waited)
            ),
        },
        value: seconds(waited),
        threshold: seconds(limits.outbox_lag),
        command: COMMAND.to_owned(),
    }
}

fn parked(status: &Status) -> Alert {
    Alert {
        alert: "outbox_parked",
        firing: status.parked > 0,
        message: match status.parked {
            0 => "No event of the outbox is parked".to_owned(),
            n => format!(
                "{} until somebody has looked at why",
                plural(
                    n,
                    "event of the outbox is parked",
                    "events of the outbox are parked"
                )
            ),
        },
        value: status.parked as f64,
        threshold: 0.0,
        command: COMMAND.to_owned(),
    }
}

fn seconds(length: Millis) -> f64 {
    length.as_millis() as f64 / 1_000.0
}
