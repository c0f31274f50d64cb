//! Databases of one's own: a private Postgres server, a schema per test; SQLite files.

#![allow(dead_code)]

pub mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel::Client;
use semel_outbox::sqlite::SqliteOutbox;
use semel_outbox::{Plain, Source, open};
use server::PostgresServer;
use std::sync::{Mutex, OnceLock};
use tempfile::TempDir;

static SERVER: OnceLock<Mutex<Option<PostgresServer>>> = OnceLock::new();

/// Starts the one server of this process.
pub fn begin() {
    SERVER.get_or_init(|| Mutex::new(Some(PostgresServer::start())));
}

/// Ends it and removes what it left.
pub fn end() {
    drop(SERVER.get().and_then(|server| server.lock().unwrap().take()));
}

/// Lets the server encrypt from now on; gives its certificate.
pub fn encrypt() -> Vec<u8> {
    let server = SERVER.get().unwrap().lock().unwrap();
    server.as_ref().unwrap().encrypt()
}

async fn fresh_schema() -> String {
    let (base, name) = {
        let server = SERVER.get().unwrap().lock().unwrap();
        server.as_ref().unwrap().name_schema()
    };
    server::make_schema(&base, &name).await
}

/// A database of the user's, of either kind, and a job store.
pub struct Stage {
    pub kind: Kind,
    pub source: Arc<dyn Source>,
    pub jobs: Client,
    pub dir: TempDir,
    pub url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Stage {
    /// A fresh database with the tables in it, and `orders`.
    pub async fn new(kind: Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let jobs = semel::connect("memory:").await.unwrap();
        let (url, source) = match kind {
            Kind::Postgres => {
                let url = fresh_schema().await;
                let source = open(&url, Plain::Refuse).await.unwrap();
                (url, source)
            }
            Kind::Sqlite => {
                let file = dir.path().join("shop.db");
                drop(rusqlite::Connection::open(&file).map(|c| c.execute_batch("PRAGMA journal_mode = WAL")));
                let source = SqliteOutbox::open(&file).unwrap().lease(Duration::from_secs(5));
                source.migrate().await.unwrap();
                let source: Arc<dyn Source> = Arc::new(source);
                (format!("sqlite:{}", file.display()), source)
            }
        };
        let stage = Stage {
            kind,
            source,
            jobs,
            dir,
            url,
        };
        stage
            .run("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL)")
            .await;
        stage
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("shop.db")
    }

    /// The same outbox, as another process would see it.
    pub async fn another(&self) -> Arc<dyn Source> {
        open(&self.url, Plain::Refuse).await.unwrap()
    }

    /// Runs statements on the user's database.
    pub async fn run(&self, sql: &str) {
        match self.kind {
            Kind::Postgres => self.client().await.batch_execute(sql).await.unwrap(),
            Kind::Sqlite => self.connection().execute_batch(sql).unwrap(),
        }
    }

    /// One number from the user's database.
    pub async fn number(&self, sql: &str) -> i64 {
        match self.kind {
            Kind::Postgres => self.client().await.query_one(sql, &[]).await.unwrap().get(0),
            Kind::Sqlite => self.connection().query_row(sql, [], |row| row.get(0)).unwrap(),
        }
    }

    /// The texts of one column from the user's database.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        match self.kind {
            Kind::Postgres => {
                let rows = self.client().await.query(sql, &[]).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
            Kind::Sqlite => {
                let connection = self.connection();
                let mut statement = connection.prepare(sql).unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
        }
    }

    pub async fn client(&self) -> tokio_postgres::Client {
        server::connect(&self.url).await
    }

    pub fn connection(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.file()).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        connection
    }

    /// Writes an event as a program of any language would.
    pub async fn event(&self, id: &str, task: &str, partition: Option<&str>) {
        let partition = partition.map_or("NULL".to_owned(), |name| format!("'{name}'"));
        self.run(&format!(
            "INSERT INTO semel_outbox (id, task, input, partition) VALUES ('{id}', '{task}', '{{\"id\": \"{id}\"}}', {partition})"
        ))
        .await;
    }

    /// The ids of all jobs' events, oldest job first.
    pub async fn submitted(&self) -> Vec<String> {
        submitted(&self.jobs).await
    }
}

/// The moment, for figures.
#[expect(clippy::disallowed_methods, reason = "a figure is measured in real time")]
pub fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Compares orders, events that were sent and jobs, one by one (I20); says the figures. What has another name than
/// `order-N` is not looked at. Orders of one partition, told by their number, are in their order.
pub async fn books(stage: &Stage, jobs: &Client, partitions: i64) -> String {
    let mut orders = stage.texts("SELECT 'order-' || id FROM orders").await;
    let sent = "SELECT id FROM semel_outbox WHERE sent_at IS NOT NULL AND id LIKE 'order-%'";
    let mut events = stage.texts(sent).await;
    let mut submitted = submitted(jobs).await;
    submitted.retain(|id| id.starts_with("order-"));
    let mut last = std::collections::HashMap::new();
    for id in &submitted {
        let number: i64 = id.trim_start_matches("order-").parse().unwrap();
        if let Some(before) = last.insert(number % partitions, number) {
            assert!(before < number, "{before} should come before {number}");
        }
    }
    let told = format!(
        "{} orders, {} events, {} jobs",
        orders.len(),
        events.len(),
        submitted.len()
    );
    for ids in [&mut orders, &mut events, &mut submitted] {
        ids.sort();
    }
    assert_eq!(orders, events, "orders and events: {told}");
    assert_eq!(events, submitted, "events and jobs: {told}");
    told
}

/// The ids of all jobs' events, oldest job first.
pub async fn submitted(jobs: &Client) -> Vec<String> {
    let mut ids = Vec::new();
    let mut page = semel_core::store::Page::first(500);
    loop {
        let found = jobs.store().jobs(Default::default(), page).await.unwrap();
        for job in &found.items {
            let input: serde_json::Value = job.input.read().unwrap();
            ids.push(input["id"].as_str().unwrap_or_default().to_owned());
        }
        match found.next_cursor {
            Some(cursor) => page = semel_core::store::Page::after(cursor, 500),
            None => break,
        }
    }
    ids.reverse();
    ids
}
