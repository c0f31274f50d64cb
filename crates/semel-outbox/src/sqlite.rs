//! Outbox and inbox in a SQLite database.

mod inbox;
mod source;
mod write;

pub use inbox::{once, prune_inbox};
pub use write::{append, execute};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use semel_core::error::Invalid;

use crate::error::{Error, While};

/// The tables, as SQL that can be run again.
pub const MIGRATION: &str = include_str!("sql/sqlite/001.sql");

/// How long a statement waits for other writers.
const BUSY: Duration = Duration::from_secs(10);

/// Makes the tables where they are missing. For those who have their migrations elsewhere: [`MIGRATION`].
pub fn migrate(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(MIGRATION).while_("making the tables")
}

/// A SQLite database with an outbox in it, as a relay sees it.
///
/// SQLite has no row locks: a relay takes events for a while ([`lease`](SqliteOutbox::lease)), and what a dead relay
/// has taken is taken up again after that.
pub struct SqliteOutbox {
    pub(super) connection: Arc<Mutex<Connection>>,
    pub(super) path: PathBuf,
    pub(super) lease: Duration,
    /// The state of the database at which events were looked for last.
    pub(super) seen: Arc<AtomicI64>,
    shown: String,
}

impl SqliteOutbox {
    /// Opens a database that is there. The user's own choices about it (journal, synchronous) are left alone.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = std::path::absolute(path.as_ref()).while_("finding the database")?;
        if !path.is_file() {
            return Err(Invalid::new(
                format!("there is no database {}", path.display()),
                "a file that is there",
            )
            .into());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).while_("opening the database")?;
        connection.busy_timeout(BUSY).while_("opening the database")?;
        Ok(SqliteOutbox {
            connection: Arc::new(Mutex::new(connection)),
            lease: Duration::from_secs(10),
            seen: Arc::default(),
            shown: format!("sqlite:{}", path.display()),
            path,
        })
    }

    /// For how long a relay takes events. Longer than a submission ever takes: events that are taken twice are
    /// submitted twice, which is safe but idle work.
    #[must_use]
    pub fn lease(mut self, length: Duration) -> Self {
        self.lease = length;
        self
    }
}

impl std::fmt::Debug for SqliteOutbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("SqliteOutbox").field(&self.shown).finish()
    }
}
