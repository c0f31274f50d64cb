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

/// Compares business rows, events and jobs, one by one (I20); says the figures.
pub async fn books(stage: &Stage, jobs: &Client, orders: i64) -> String {
    let rows = stage.number("SELECT count(*) FROM orders").await;
    let sent = stage
        .number("SELECT count(*) FROM semel_outbox WHERE sent_at IS NOT NULL")
        .await;
    let paired = "SELECT count(*) FROM orders o JOIN semel_outbox e ON e.id = 'order-' || o.id";
    let paired = stage.number(paired).await;
    let stage_jobs = submitted(jobs).await;
    let mut distinct = stage_jobs.clone();
    distinct.sort();
    distinct.dedup();
    let told = format!("{rows} orders, {sent} events, {} jobs", stage_jobs.len());
    assert_eq!((rows, sent, paired), (orders, orders, orders), "{told}");
    assert_eq!(
        (stage_jobs.len(), distinct.len()),
        (orders as usize, orders as usize),
        "{told}"
    );
    // Each partition in its order.
    let mut last = std::collections::HashMap::new();
    for id in &stage_jobs {
        let number: i64 = id.trim_start_matches("order-").parse().unwrap();
        if let Some(before) = last.insert(number % 3, number) {
            assert!(before < number, "{before} should come before {number}");
        }
    }
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
