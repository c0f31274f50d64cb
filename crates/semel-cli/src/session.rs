//! What every command is given: settings, a screen, a way to the store.

use std::sync::Arc;

use semel::Client;
use semel_core::store::Store;

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
        Ok(Client::connect_existing(&self.settings.store.value).await?)
    }

    /// Connects to the store, making it where there is none.
    pub async fn create(&self) -> Result<Client, Problem> {
        Ok(semel::connect(&self.settings.store.value).await?)
    }

    /// The store itself, which has to be there.
    pub async fn store(&self) -> Result<Arc<dyn Store>, Problem> {
        Ok(self.existing().await?.store().clone())
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
