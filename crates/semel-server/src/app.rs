//! What every handler is given: the store's client, the settings, what is known and what is bounded.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use semel::{Client, Operator, Retention};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::alerts::Thresholds;
use crate::leases::Leases;
use crate::outbox::Outbox;
use crate::pulse::Pulse;
use crate::role::Caller;
use crate::room::Room;
use crate::sessions::Sessions;
use crate::sight::Sight;
use crate::stream::Hub;
use crate::tokens::Keyring;
use crate::turns::Turns;

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names it is reached by, besides its address.
    pub hosts: Vec<String>,
    /// JSON pointers whose values are never shown.
    pub redact: Vec<String>,
    /// How long things are kept.
    pub retention: Retention,
    /// When alerts fire.
    pub thresholds: Thresholds,
    /// The outbox it relays.
    pub outbox: Option<Outbox>,
    /// Whether connections are encrypted: then cookies are for such only.
    pub encrypted: bool,
    /// Configuration as shown to people: name, value, where it came from.
    pub shown: Vec<(String, String, String)>,
}

impl Settings {
    /// A server on an address, with everything at its default.
    pub fn on(listen: SocketAddr) -> Self {
        Settings {
            listen,
            hosts: Vec::new(),
            redact: Vec::new(),
            retention: Retention::default(),
            thresholds: Thresholds::default(),
            outbox: None,
            encrypted: false,
            shown: Vec::new(),
        }
    }
}

/// A running server, as its handlers see it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// What an [`App`] has.
#[derive(Debug)]
pub struct Parts {
    /// The way to the store; concurrent requests become batches in it.
    pub client: Client,
    /// How the server behaves.
    pub settings: Settings,
    /// Who may come in.
    pub keyring: Keyring,
    /// Who has signed in at the page.
    pub sessions: Sessions,
    /// Long polls and streams, bounded.
    pub turns: Turns,
    /// Large bodies, bounded.
    pub room: Room,
    /// What was seen of the store within the last second.
    pub sight: Sight,
    /// Whether the store takes writes.
    pub pulse: Pulse,
    /// Who watches.
    pub hub: Hub,
    /// Leases given out by this process, for its metrics and the list of workers.
    pub leases: Leases,
    /// Bulk acts that are being carried out; they end with the server, and can be carried on.
    pub background: Mutex<JoinSet<()>>,
    /// Which of them this server carries out.
    pub carried_out: std::sync::Mutex<HashSet<String>>,
    stop: watch::Receiver<bool>,
}

impl App {
    pub(crate) fn new(client: Client, settings: Settings, stop: watch::Receiver<bool>) -> Self {
        App(Arc::new(Parts {
            client,
            settings,
            keyring: Keyring::default(),
            sessions: Sessions::default(),
            turns: Turns::default(),
            room: Room::default(),
            sight: Sight::default(),
            pulse: Pulse::default(),
            hub: Hub::default(),
            leases: Leases::default(),
            background: Mutex::new(JoinSet::new()),
            carried_out: std::sync::Mutex::default(),
            stop,
        }))
    }

    /// Acts as whoever sent a request, on record.
    pub fn operator(&self, caller: &Caller, reason: Option<&str>) -> Operator {
        let operator = self.client.operate(caller.name.as_str());
        match reason.filter(|reason| !reason.trim().is_empty()) {
            Some(reason) => operator.because(reason),
            None => operator,
        }
    }

    /// Whether the server is to stop.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the server is to stop: long polls and streams end then.
    pub async fn stopping(&self) {
        let mut stop = self.stop.clone();
        // The sender lives as long as the server.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
