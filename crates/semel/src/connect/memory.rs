//! Stores in memory: one of one's own, or one that is shared by name within this process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::memory::MemoryStore;
use semel_core::store::Store;

use crate::clock;
use crate::connect::{Connect, StoreUrl};

type Shared = HashMap<(String, Name), Weak<MemoryStore>>;

/// Named stores that somebody is connected to; one disappears with its last client.
static SHARED: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);

/// Opens `memory:` or `memory:NAME`.
pub fn open(mut url: StoreUrl, how: Connect) -> Result<Arc<dyn Store>, StoreError> {
    let namespace = url.namespace()?;
    url.refuse_others(&["namespace"])?;
    let make = || Arc::new(MemoryStore::new(namespace.clone(), clock::host()));
    let name = url.place();
    if name.is_empty() {
        return match how {
            Connect::Create => Ok(make()),
            Connect::Existing => Err(missing("a store in memory is new each time it is opened")),
        };
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.retain(|_, store| store.strong_count() > 0);
    let place = (name.to_owned(), namespace.clone());
    if let Some(store) = shared.get(&place).and_then(Weak::upgrade) {
        return Ok(store);
    }
    if how == Connect::Existing {
        return Err(missing(&format!(
            "nobody in this process has opened memory:{name}"
        )));
    }
    let store = make();
    shared.insert(place, Arc::downgrade(&store));
    Ok(store)
}

fn missing(reason: &str) -> StoreError {
    StoreError::Refused {
        reason: reason.to_owned(),
        hint: "name a store that exists, such as sqlite:jobs.db".to_owned(),
    }
}
