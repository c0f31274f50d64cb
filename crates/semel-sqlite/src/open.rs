//! Opening the file: what is refused, how it is set up, which schema it has (contract 9.3).

use std::cell::Cell;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use semel_core::error::StoreError;
use semel_core::ids::Name;

use crate::clock;
use crate::fail::{Fail, translate};
use crate::statements;

/// The schema this version reads and writes. Schema 1 was used before the first release and is not brought up to date.
pub const SCHEMA: i64 = 2;

/// Marks a file as ours: `Seml`.
const APPLICATION: i64 = 0x5365_6d6c;

/// The first SQLite without the WAL-reset corruption race.
const OLDEST_SQLITE: i32 = 3_051_003;

/// How long one who is in a hurry waits for others.
const BRIEF: Duration = Duration::from_secs(2);

/// How hard a commit is pressed onto the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Every commit is synced before it is answered: survives a power cut. The default.
    #[default]
    Full,
    /// Synced at checkpoints only: survives `kill -9`, not a power cut.
    Normal,
    /// Never synced: for tests that measure something else.
    Off,
}

impl Synchronous {
    fn word(self) -> &'static str {
        match self {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
            Synchronous::Off => "OFF",
        }
    }
}

/// How long a call waits for other processes that hold the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Patience {
    /// Ten seconds and more: for whoever has nothing better to do than to wait. The default.
    #[default]
    Long,
    /// Two seconds: for a server, whose callers are better told.
    Brief,
}

/// How to open.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file.
    pub path: PathBuf,
    /// The outermost part of every name and digest.
    pub namespace: Name,
    /// Make the file if there is none.
    pub create: bool,
    /// How hard commits are pressed onto the disk.
    pub synchronous: Synchronous,
    /// MiB of pages the writer keeps in memory.
    pub cache_mib: u32,
    /// Threads that read.
    pub readers: usize,
    /// Another SQLite VFS than the system's.
    pub vfs: Option<String>,
    /// How long a call waits for other processes.
    pub patience: Patience,
}

impl Options {
    /// A file in the namespace `default`, made if there is none.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Options {
            path: path.into(),
            namespace: Name::new("default").expect("a valid name"),
            create: true,
            synchronous: Synchronous::Full,
            cache_mib: 16,
            readers: 2,
            vfs: None,
            patience: Patience::Long,
        }
    }
}

/// The connections a store works with.
pub struct Connections {
    /// The one that writes.
    pub writer: Connection,
    /// The ones that read.
    pub readers: Vec<Connection>,
    /// The one that checkpoints.
    pub checkpointer: Connection,
    /// The one that looks for other processes' commits.
    pub watcher: Connection,
    /// The namespace's number.
    pub ns: i64,
}

/// Opens the file, makes or checks the schema.
pub fn open(options: &Options) -> Result<Connections, StoreError> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(StoreError::Refused {
            reason: format!("SQLite {} has a known corruption bug", rusqlite::version()),
            hint: "build with SQLite 3.51.3 or newer".to_owned(),
        });
    }
    if !options.create && !options.path.exists() {
        return Err(StoreError::Refused {
            reason: format!("there is no store at {}", options.path.display()),
            hint: "submit a job first, or name another file".to_owned(),
        });
    }
    let opening = format!("opening {}", options.path.display());
    set_up(options).map_err(|fail| fail.into_store(&opening))
}

fn set_up(options: &Options) -> Result<Connections, Fail> {
    let mut writer = connect(options, true)?;
    prepare_file(&writer, options)?;
    make_schema(&mut writer)?;
    check_schema(&writer)?;
    let ns = namespace(&writer, &options.namespace)?;
    let readers = (0..options.readers.max(1))
        .map(|_| reader(options))
        .collect::<Result<_, _>>()?;
    let checkpointer = connect(options, false)?;
    // A checkpoint that waits for others would keep them waiting: it comes again soon enough.
    checkpointer.busy_timeout(Duration::ZERO)?;
    Ok(Connections {
        writer,
        readers,
        checkpointer,
        watcher: reader(options)?,
        ns,
    })
}

fn connect(options: &Options, create: bool) -> Result<Connection, Fail> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create && options.create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let mut connection = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(&options.path, flags, vfs.as_str())?,
        None => Connection::open_with_flags(&options.path, flags)?,
    };
    connection.busy_handler(Some(match options.patience {
        Patience::Long => wait_for_others,
        Patience::Brief => wait_briefly,
    }))?;
    // Plans do not depend on values here; without this some statements are prepared anew at every commit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(statements::COUNT + 32);
    connection.pragma_update(None, "synchronous", options.synchronous.word())?;
    connection.pragma_update(None, "cache_size", -i64::from(options.cache_mib) * 1_024)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

fn reader(options: &Options) -> Result<Connection, Fail> {
    let connection = connect(options, false)?;
    connection.pragma_update(None, "cache_size", -16 * 1_024)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Other processes hold the file for a moment at a time: short naps, about ten seconds in all.
fn wait_for_others(tries: i32) -> bool {
    let nap = if tries < 50 { 200 } else { 2_000 };
    std::thread::sleep(Duration::from_micros(nap));
    tries < 5_000
}

/// The same for at most [`BRIEF`], by the clock: on a busy machine naps are longer than they should be.
fn wait_briefly(tries: i32) -> bool {
    thread_local! {
        static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = clock::instant();
    let begun = match BEGUN.get() {
        Some(begun) if tries > 0 => begun,
        _ => now,
    };
    BEGUN.set(Some(begun));
    wait_for_others(tries) && now.duration_since(begun) < BRIEF
}

fn prepare_file(connection: &Connection, options: &Options) -> Result<(), Fail> {
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && application != APPLICATION {
        return Err(refuse(
            "the file is a database of another program",
            "name another file",
        ));
    }
    if tables == 0 {
        connection.pragma_update(None, "application_id", APPLICATION)?;
    }
    let mode: String =
        retry_busy(|| connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)))?;
    if mode != "wal" {
        let reason = format!(
            "the file system of {} does not allow a write-ahead log",
            shown(&options.path)
        );
        return Err(refuse(&reason, "put the file on a local disk"));
    }
    Ok(())
}

/// Changing the journal mode does not wait for others by itself.
fn retry_busy<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    for tries in 0..2_000 {
        match attempt() {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                wait_for_others(tries);
            }
            other => return other,
        }
    }
    attempt()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn refuse(reason: &str, hint: &str) -> Fail {
    Fail::Store(StoreError::Refused {
        reason: reason.to_owned(),
        hint: hint.to_owned(),
    })
}

fn make_schema(connection: &mut Connection) -> Result<(), Fail> {
    if version(connection)? != 0 {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have made it while this one waited.
    if version(&transaction)? == 0 {
        transaction.execute_batch(include_str!("schema/002.sql"))?;
    }
    transaction.commit()?;
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Refuses a schema from the future or from the past, also one that another process has brought meanwhile.
pub fn check_schema(connection: &Connection) -> Result<(), Fail> {
    let found = version(connection)?;
    let hint = match found.cmp(&SCHEMA) {
        Ordering::Equal => return Ok(()),
        Ordering::Greater => "use the newer program for this file",
        Ordering::Less => {
            "let the older program finish the jobs in this file, then name another file or move this one away: \
             it is not brought up to date"
        }
    };
    let reason = format!("the file has schema {found}, this program knows schema {SCHEMA}");
    Err(refuse(&reason, hint))
}

fn namespace(connection: &Connection, name: &Name) -> Result<i64, Fail> {
    let find = "SELECT ns FROM namespace WHERE name = ?1";
    let found = connection
        .query_row(find, [name.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(ns) = found {
        return Ok(ns);
    }
    connection.execute(
        "INSERT INTO namespace (name) VALUES (?1) ON CONFLICT DO NOTHING",
        [name.as_str()],
    )?;
    Ok(connection.query_row(find, [name.as_str()], |row| row.get(0))?)
}

/// What the connection says about durability, in words.
pub fn durability(connection: &Connection) -> Result<(String, String), StoreError> {
    let ask = |pragma: &str| -> rusqlite::Result<String> {
        connection.pragma_query_value(None, pragma, |row| {
            row.get::<_, String>(0)
                .or_else(|_| row.get::<_, i64>(0).map(|number| number.to_string()))
        })
    };
    let found = ask("journal_mode").and_then(|journal| Ok((journal, ask("synchronous")?)));
    found.map_err(|error| translate(error, "asking for the durability settings"))
}
