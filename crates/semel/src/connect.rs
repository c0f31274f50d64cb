//! From a URL to a store. The one place that knows which stores there are.

mod later;
mod memory;
mod url;

pub use url::StoreUrl;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use semel_core::error::{Invalid, StoreError};
use semel_core::ids::Name;
use semel_core::store::Store;

use crate::client::{Client, Options};
use crate::connect::later::Later;
use crate::error::Error;
use crate::retry::Retry;
use crate::spool::Spool;

/// Whether a store that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// Make it.
    Create,
    /// Refuse: for whoever only looks.
    Existing,
}

/// Connects to the store a URL names, making it where it does not exist: `sqlite:jobs.db`, `memory:` and, with the
/// feature `redis`, `redis://host:6379/0`, `rediss://…`, `redis+cluster://host:7000,host:7001` and
/// `redis+sentinel://host:26379/master`; with the feature `s3`, `s3://bucket/prefix?region=…`, and `endpoint=…` for a
/// server that is not AWS.
///
/// A `memory:` store is new each time; `memory:NAME` is shared by all who name it in this process.
/// Every URL takes `?namespace=`.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
/// let jobs = semel::connect("memory:").name("billing-api").await?;
/// let refused = semel::connect("mysql://root:secret@db/jobs").await.unwrap_err();
/// assert!(refused.to_string().contains("sqlite:FILE"));
/// assert!(!refused.to_string().contains("secret"));
/// # Ok(()) }
/// ```
pub fn connect(url: impl Into<String>) -> Connecting {
    Connecting::to(To::Url(url.into()))
}

/// Connects to a store that is open already, such as one that is wrapped in another.
pub fn connect_to(store: Arc<dyn Store>) -> Connecting {
    Connecting::to(To::Store(store))
}

impl Client {
    /// Connects like [`connect`], but never makes a store.
    pub async fn connect_existing(url: &str) -> Result<Client, Error> {
        connect(url).existing().await
    }
}

/// A connection that is being made; ends in `.await`.
#[must_use = "nothing is connected until this is awaited"]
pub struct Connecting {
    to: To,
    how: Connect,
    name: Option<String>,
    pub(crate) options: Options,
}

enum To {
    Url(String),
    Store(Arc<dyn Store>),
}

impl Connecting {
    fn to(to: To) -> Self {
        Connecting {
            to,
            how: Connect::Create,
            name: None,
            options: Options::default(),
        }
    }

    /// The name under which this program appears as a producer, in the ledger and in the audit feed.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Refuses to make a store that is not there.
    pub fn existing(mut self) -> Self {
        self.how = Connect::Existing;
        self
    }

    /// How patiently calls are repeated while the store is out of reach.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options.retry = retry;
        self
    }

    /// Waits two seconds instead of ten and more while another process holds the file of an embedded store: for a server,
    /// whose callers are better told than kept.
    pub fn briefly(mut self) -> Self {
        self.options.brief = true;
        self
    }

    /// Keeps submissions on this disk while the store is out of reach, and sends them afterwards (contract 3.4).
    pub fn spool(mut self, spool: Spool) -> Self {
        self.options.spool = Some(spool);
        self
    }

    /// Shows digests instead of the texts of keys in log lines: for keys that are as private as payloads.
    pub fn hide_keys(mut self) -> Self {
        self.options.hide_keys = true;
        self
    }

    async fn connect(self) -> Result<Client, Error> {
        let name = self.name.map(Name::new).transpose()?;
        let (store, shown) = match self.to {
            To::Url(url) => open_url(&url, self.how, &self.options).await?,
            To::Store(store) => {
                let shown = store.capabilities().name.to_owned();
                (store, shown)
            }
        };
        // A spool is opened on its disk: not on a thread that others wait for.
        let assembled =
            tokio::task::spawn_blocking(move || Client::assemble(store, shown, name, self.options)).await;
        assembled.map_err(|_| StoreError::unavailable("connecting"))?
    }
}

impl IntoFuture for Connecting {
    type Output = Result<Client, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}

/// Opens the store a URL names; says where it is, for people. Whoever can do without it for a while does not
/// need it to be there at once.
async fn open_url(
    url: &str,
    how: Connect,
    options: &Options,
) -> Result<(Arc<dyn Store>, String), StoreError> {
    let (patient, brief) = (options.spool.is_some(), options.brief);
    let url = StoreUrl::parse(url)?;
    let mut shown = url.clone();
    if shown.scheme() == "sqlite"
        && let Ok(path) = std::path::absolute(shown.place())
    {
        shown.move_to(path.display().to_string());
    }
    let store: Arc<dyn Store> = match open(url.clone(), how, brief).await {
        Err(error) if patient && error.is_retryable() => {
            tracing::warn!(%error, store = %shown, "the store is out of reach: submissions wait in the spool");
            let namespace = url.clone().namespace()?;
            Arc::new(Later::new(namespace, move || {
                Box::pin(open(url.clone(), how, brief))
            }))
        }
        opened => opened?,
    };
    Ok((store, shown.to_string()))
}

async fn open(url: StoreUrl, how: Connect, brief: bool) -> Result<Arc<dyn Store>, StoreError> {
    #[cfg(not(feature = "sqlite"))]
    let _ = brief;
    match url.scheme() {
        #[cfg(feature = "sqlite")]
        "sqlite" => open_sqlite(url, how, brief).await,
        "memory" => memory::open(url, how),
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel" | "rediss+sentinel" => {
            open_redis(url, how).await
        }
        #[cfg(feature = "s3")]
        "s3" => open_s3(url, how).await,
        other => Err(unknown(other).into()),
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(mut url: StoreUrl, how: Connect, brief: bool) -> Result<Arc<dyn Store>, StoreError> {
    use semel_sqlite::{Options, Patience, SqliteStore, Synchronous};

    if url.place().is_empty() {
        return Err(Invalid::new("sqlite: without a file", "sqlite:FILE, such as sqlite:semel.db").into());
    }
    let mut options = Options::new(url.place());
    options.create = how == Connect::Create;
    options.namespace = url.namespace()?;
    if brief {
        options.patience = Patience::Brief;
    }
    options.synchronous = match url.option("synchronous")?.as_deref() {
        None | Some("full") => Synchronous::Full,
        Some("normal") => Synchronous::Normal,
        Some(other) => return Err(Invalid::new("synchronous", "full or normal").found(other).into()),
    };
    url.refuse_others(&["namespace", "synchronous"])?;
    // Opening reads and may make a file: not on a thread that others wait for.
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(options)).await;
    let store = opened.map_err(|_| StoreError::unavailable("opening the store"))??;
    Ok(Arc::new(store))
}

#[cfg(feature = "redis")]
async fn open_redis(url: StoreUrl, how: Connect) -> Result<Arc<dyn Store>, StoreError> {
    use semel_redis::{RedisOptions, RedisStore};

    let mut options = RedisOptions::from_url(url.whole())?;
    options.create = how == Connect::Create;
    Ok(Arc::new(RedisStore::open(options).await?))
}

#[cfg(feature = "s3")]
async fn open_s3(url: StoreUrl, how: Connect) -> Result<Arc<dyn Store>, StoreError> {
    use semel_s3::{S3Options, S3Store};

    let mut options = S3Options::from_url(url.whole())?;
    options.create = how == Connect::Create;
    Ok(Arc::new(S3Store::open(options).await?))
}

/// What a URL may begin with, for whoever wrote another.
const KNOWN: &str = match (cfg!(feature = "redis"), cfg!(feature = "s3")) {
    (true, true) => "sqlite:FILE, redis://HOST, s3://BUCKET/PREFIX or memory:",
    (true, false) => "sqlite:FILE, redis://HOST or memory:",
    (false, true) => "sqlite:FILE, s3://BUCKET/PREFIX or memory:",
    (false, false) => "sqlite:FILE or memory:",
};

fn unknown(scheme: &str) -> Invalid {
    let refused = Invalid::new("scheme of a store URL", KNOWN).found(scheme);
    match scheme {
        "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel" | "rediss+sentinel"
        | "s3" | "postgres" | "postgresql" => refused.hint(format!(
            "this build has no {scheme} store: was the feature switched on?"
        )),
        _ => refused.hint("for example sqlite:jobs.db"),
    }
}
