//! What every command is given: settings, a screen, a way to the store.

use std::path::PathBuf;
use std::sync::Arc;

use semel::{Client, Connecting, Operator, StoreUrl};
use semel_core::error::StoreError;
use semel_core::store::Store;
use tokio::signal::unix::{SignalKind, signal};

use crate::problem::Problem;
use crate::screen::{Page, Screen};
use crate::settings::Settings;

/// One run of the program.
#[derive(Clone, Debug)]
pub struct Session {
    /// Everything that was set.
    pub settings: Settings,
    /// Where output goes.
    pub screen: Screen,
}

impl Session {
    /// Connects to the store, which has to be there: looking never makes one.
    pub async fn existing(&self) -> Result<Client, Problem> {
        let url = &self.settings.store.value;
        if let Some(file) = empty_file(url) {
            return Err(StoreError::Refused {
                reason: format!("{} is an empty file, not a store", file.display()),
                hint: "submit a job first, or name another file".to_owned(),
            }
            .into());
        }
        Ok(self.connecting().existing().await?)
    }

    /// Connects to the store, making it where there is none.
    pub async fn create(&self) -> Result<Client, Problem> {
        self.warn_of_memory();
        Ok(self.connecting().await?)
    }

    /// The same for a server, whose callers do not wait for ever.
    pub async fn create_to_serve(&self) -> Result<Client, Problem> {
        self.warn_of_memory();
        let connecting = semel_server::connect(&self.settings.store.value);
        Ok(self.as_set(connecting).await?)
    }

    fn warn_of_memory(&self) {
        if self.settings.store.value.starts_with("memory:") {
            self.screen.note("note: a memory: store ends with this command");
        }
    }

    /// The way to the store, with what the settings say about it.
    fn connecting(&self) -> Connecting {
        self.as_set(semel::connect(&self.settings.store.value))
    }

    fn as_set(&self, connecting: Connecting) -> Connecting {
        let connecting = connecting.name(person());
        match self.settings.hides_keys() {
            true => connecting.hide_keys(),
            false => connecting,
        }
    }

    /// The store itself, which has to be there.
    pub async fn store(&self) -> Result<Arc<dyn Store>, Problem> {
        Ok(self.existing().await?.store().clone())
    }

    /// Acts under the name of whoever typed the command, on record.
    pub fn operator(&self, client: &Client, reason: Option<&str>) -> Operator {
        let operator = client.operate(person());
        match reason {
            Some(reason) => operator.because(reason),
            None => operator,
        }
    }

    /// An empty page that names the store.
    pub fn page(&self) -> Page {
        self.screen.page(&self.settings.shown_store())
    }

    /// Whether a machine reads the answer.
    pub fn json(&self) -> bool {
        self.screen.json
    }
}

/// Done when the process is asked to end, by the terminal or by whoever started it.
pub async fn asked_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// An empty file is a store to be: opening it would make one of it, and looking must not.
fn empty_file(url: &str) -> Option<PathBuf> {
    let url = StoreUrl::parse(url).ok().filter(|url| url.scheme() == "sqlite")?;
    let file = PathBuf::from(url.place());
    let is_empty = std::fs::metadata(&file).is_ok_and(|found| found.is_file() && found.len() == 0);
    is_empty.then_some(file)
}

/// Who types, for the ledger and the audit feed.
fn person() -> String {
    let told = ["USER", "LOGNAME", "USERNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    let name: String = told
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(40)
        .collect();
    match name.trim() {
        "" => "semel".to_owned(),
        name => name.to_owned(),
    }
}
