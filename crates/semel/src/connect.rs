//! From a URL to a store. The one place that knows which stores there are.

use std::sync::Arc;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::store::Store;

use crate::client::Client;
use crate::error::Error;

/// Whether a store that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Make it.
    Create,
    /// Refuse: for whoever only looks.
    Existing,
}

/// Connects to the store a URL names, making it where it does not exist: `sqlite:jobs.db`, `memory:`.
pub async fn connect(url: &str) -> Result<Client, Error> {
    Ok(Client::from_store(open(url, Connect::Create).await?))
}

impl Client {
    /// Connects like [`connect`], but never makes a store.
    pub async fn connect_existing(url: &str) -> Result<Client, Error> {
        Ok(Client::from_store(open(url, Connect::Existing).await?))
    }
}

async fn open(url: &str, how: Connect) -> Result<Arc<dyn Store>, StoreError> {
    let (scheme, rest) = url.split_once(':').ok_or_else(|| unknown(url))?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let namespace = namespace(query)?;
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => open_sqlite(path, namespace, how).await,
        _ => {
            let _ = (path, namespace, how);
            Err(unknown(scheme).into())
        }
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: &str, namespace: Name, how: Connect) -> Result<Arc<dyn Store>, StoreError> {
    let mut options = semel_sqlite::Options::new(path);
    options.namespace = namespace;
    options.create = how == Connect::Create;
    Ok(Arc::new(semel_sqlite::SqliteStore::open(options)?))
}

fn namespace(query: &str) -> Result<Name, StoreError> {
    let mut name = "default";
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("namespace", value)) => name = value,
            _ => {
                return Err(Invalid::new("option of a store URL", "namespace")
                    .found(pair)
                    .into());
            }
        }
    }
    Ok(Name::new(name)?)
}

fn unknown(scheme: &str) -> Invalid {
    Invalid::new("scheme of a store URL", "sqlite:FILE or memory:").found(scheme)
}
