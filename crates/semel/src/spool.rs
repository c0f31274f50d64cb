//! The spool: submissions that wait on the producer's disk while the store is out of reach (contract 3.4).
//!
//! It is a directory of segments. Everybody appends to the one that is open; a drain seals it and
//! sends what is sealed, oldest first. Several processes may share a directory: one appends at a time,
//! one drains at a time, by locks that the system gives up when their process dies. A submission keeps
//! its token, so one that is sent twice, because a reply was lost or a drain was killed, is one job.

mod answers;
mod directory;
mod drain;
mod keeper;
mod record;
mod segment;

pub use drain::Drained;
pub(crate) use keeper::{Drainer, Keeper};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use semel_core::time::Timestamp;

use crate::client::Client;
use crate::error::Error;
use crate::spool::directory::Directory;

/// Where submissions are kept while the store is out of reach, and how many.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
/// # let directory = std::env::temp_dir().join(format!("semel-doc-{}", std::process::id()));
/// use semel::Spool;
///
/// let jobs = semel::connect("memory:").spool(Spool::at(&directory).entries(10_000)).await?;
/// let status = jobs.spool().expect("it was asked for").status().await?;
/// assert_eq!((status.entries, status.oldest), (0, None));
/// # std::fs::remove_dir_all(directory).ok();
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spool {
    path: PathBuf,
    bounds: Bounds,
}

/// How much a spool takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Spool {
    /// A spool in a directory on a local disk; made if there is none. At most 100,000 submissions and 256 MiB.
    pub fn at(path: impl AsRef<Path>) -> Self {
        Spool {
            path: path.as_ref().to_owned(),
            bounds: Bounds {
                entries: 100_000,
                bytes: 256 * 1024 * 1024,
            },
        }
    }

    /// At most so many submissions; those beyond are refused with [`Error::SpoolFull`].
    #[must_use]
    pub fn entries(mut self, entries: u64) -> Self {
        self.bounds.entries = entries;
        self
    }

    /// At most so many bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bounds.bytes = bytes;
        self
    }

    /// How full it is, without a store; for whoever looks after the machine.
    pub async fn status(&self) -> Result<SpoolStatus, Error> {
        let directory = Arc::new(Directory::existing(&self.path)?);
        directory::apart("looking at the spool", move || directory.status()).await
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// How full a spool is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Submissions that wait.
    pub entries: u64,
    /// Bytes they take.
    pub bytes: u64,
    /// Since when the oldest waits, by the host's clock.
    pub oldest: Option<Timestamp>,
    /// Submissions that were refused because it was full, ever.
    pub refused: u64,
    /// Submissions that the store will never take, or that were damaged: set aside in the directory for a person to look at.
    pub set_aside: u64,
}

impl Client {
    /// The spool of this client, if it has one.
    pub fn spool(&self) -> Option<SpoolHandle> {
        let keeper = self.keeper()?.clone();
        Some(SpoolHandle { keeper })
    }
}

/// The spool of a client.
#[derive(Clone)]
pub struct SpoolHandle {
    keeper: Arc<Keeper>,
}

impl SpoolHandle {
    /// How full it is.
    pub async fn status(&self) -> Result<SpoolStatus, Error> {
        let directory = self.keeper.directory().clone();
        directory::apart("looking at the spool", move || directory.status()).await
    }

    /// Sends what waits, oldest first, now instead of soon.
    pub async fn drain(&self) -> Result<Drained, Error> {
        self.keeper.drain().await
    }
}

impl std::fmt::Debug for SpoolHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("SpoolHandle")
            .field(&self.keeper.directory().path())
            .finish()
    }
}
