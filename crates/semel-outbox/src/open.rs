//! From a URL to an outbox.

use std::sync::Arc;

use semel_core::error::Invalid;

use crate::error::Error;
use crate::source::Source;

/// Whether a password may travel over a connection that is not encrypted, to another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// No.
    Refuse,
    /// The network is trusted.
    Allow,
}

/// Opens the database a URL names: `postgres://user@host/db`, `sqlite:shop.db`. It has to be there; the tables are
/// made where they are missing.
pub async fn open(url: &str, plain: Plain) -> Result<Arc<dyn Source>, Error> {
    let source = connect(url, plain).await?;
    source.migrate().await?;
    Ok(source)
}

async fn connect(url: &str, plain: Plain) -> Result<Arc<dyn Source>, Error> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Ok(Arc::new(
            crate::postgres::PostgresOutbox::connect(url, plain).await?,
        )),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => {
            let path = url.trim_start_matches("sqlite:");
            let path = path.strip_prefix("//").unwrap_or(path).to_owned();
            let opened = tokio::task::spawn_blocking(move || crate::sqlite::SqliteOutbox::open(path)).await;
            let opened = opened.map_err(|_| Invalid::new("the database", "one that can be opened"))?;
            Ok(Arc::new(opened?))
        }
        _ => {
            let _ = plain;
            Err(Invalid::new(
                "the URL of the database with the outbox",
                "postgres://USER@HOST/DATABASE or sqlite:FILE",
            )
            .into())
        }
    }
}
