//! The way into a store for an application.

use std::fmt;
use std::sync::Arc;

use semel_core::store::Store;

/// A connection to a store. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
}

impl Client {
    /// A client of a store that is open already.
    pub fn from_store(store: Arc<dyn Store>) -> Self {
        Client {
            inner: Arc::new(Inner { store }),
        }
    }

    /// The store itself, for front ends and tests.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}
