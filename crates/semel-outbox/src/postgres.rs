//! Outbox and inbox in a Postgres database.

mod inbox;
mod listen;
mod source;
#[cfg(feature = "sqlx")]
pub mod sqlx;
mod tls;
mod write;

pub use inbox::{once, prune_inbox};
pub use write::{append, execute};

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use semel_core::error::Invalid;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config};

use crate::error::{Error, While};
use crate::open::Plain;
use crate::postgres::listen::Listener;
use crate::postgres::tls::Trust;

/// The tables, as SQL that can be run again.
pub const MIGRATION: &str = include_str!("sql/postgres/001.sql");

/// Whether all of it is there.
const IS_MIGRATED: &str = include_str!("sql/postgres/is_migrated.sql");

/// Makes migrations wait for each other.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(7305804402)";

/// Makes the tables where they are missing. For those who have their migrations elsewhere: [`MIGRATION`].
pub async fn migrate(client: &Client) -> Result<(), Error> {
    // To say again what is there would take locks that writers wait for, and needs the rights of an owner.
    let there = client.query_one(IS_MIGRATED, &[]).await;
    if there.while_("looking for the tables")?.get(0) {
        return Ok(());
    }
    let whole = format!("BEGIN; {MIGRATION_LOCK}; {MIGRATION} COMMIT;");
    let migrated = client.batch_execute(&whole).await;
    if migrated.is_err() {
        let _ = client.batch_execute("ROLLBACK").await;
    }
    migrated.while_("making the tables")
}

/// A Postgres database with an outbox in it, as a relay sees it.
#[derive(Debug)]
pub struct PostgresOutbox {
    pub(super) pool: Pool,
    pub(super) listener: Listener,
    pub(super) lease: Duration,
    shown: String,
}

impl PostgresOutbox {
    /// Connects to `postgres://user@host/db`. With `?sslmode=require` the connection is encrypted, and the server's
    /// certificate has to be good for its name and signed by an authority that this machine trusts. Without it nothing
    /// is encrypted, so a password for another machine is refused unless that is said to be fine.
    pub async fn connect(url: &str, plain: Plain) -> Result<Self, Error> {
        Self::connect_by(url, plain, Trust::System).await
    }

    /// The same, trusting these authorities only: certificates as PEM.
    pub async fn connect_trusting(url: &str, plain: Plain, authorities: &[u8]) -> Result<Self, Error> {
        Self::connect_by(url, plain, Trust::These(authorities)).await
    }

    /// For how long a relay that stands still keeps the events it has taken, 60 seconds unless said. One that waits for
    /// the job store keeps them however long that takes.
    #[must_use]
    pub fn lease(mut self, length: Duration) -> Self {
        self.lease = length.max(Duration::from_millis(1));
        self
    }

    async fn connect_by(url: &str, plain: Plain, trust: Trust<'_>) -> Result<Self, Error> {
        let mut config: Config = url
            .parse()
            .map_err(|_| Invalid::new("the URL of the database", "postgres://user@host/database"))?;
        let in_the_clear = !tls::is_encrypted(&config) && !is_here(&config);
        if plain == Plain::Refuse && config.get_password().is_some() && in_the_clear {
            return Err(Invalid::new(
                "a password over a connection that is not encrypted",
                "a database on this machine, or sslmode=require in the URL",
            )
            .hint("add ?sslmode=require; where the network is trusted, say so: --plain")
            .into());
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        // A server that is gone without a word is noticed soon, not after the two hours of the usual keep-alive.
        config
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(30));
        config.application_name("semel outbox");
        let tls = tls::connector(&mut config, trust)?;
        let manager = Manager::from_config(
            config.clone(),
            tls.clone(),
            ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            },
        );
        let pool = Pool::builder(manager)
            .max_size(4)
            .build()
            .while_("making a pool of connections")?;
        // Whoever names the wrong database wants to hear of it now.
        drop(pool.get().await.while_("connecting")?);
        Ok(PostgresOutbox {
            pool,
            shown: shown(&config),
            lease: Duration::from_secs(60),
            listener: Listener::start(config, tls),
        })
    }
}

fn is_here(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

/// The URL without what is secret.
fn shown(config: &Config) -> String {
    let host = config
        .get_hosts()
        .first()
        .map_or_else(String::new, |host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
    let port = config
        .get_ports()
        .first()
        .map_or_else(String::new, |port| format!(":{port}"));
    let user = config
        .get_user()
        .map_or_else(String::new, |user| format!("{user}@"));
    let database = config.get_dbname().unwrap_or_default();
    format!("postgres://{user}{host}{port}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_does_not_travel_in_the_clear_and_is_never_shown() {
        let url = "postgres://app:secret@db.example.com:5433/shop";
        let refused = PostgresOutbox::connect(url, Plain::Refuse)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("not encrypted") && !refused.contains("secret"),
            "{refused}"
        );
        assert_eq!(
            shown(&url.parse().unwrap()),
            "postgres://app@db.example.com:5433/shop"
        );
        let wrong = PostgresOutbox::connect("postgres://app:secret@:x/", Plain::Refuse).await;
        assert!(!wrong.unwrap_err().to_string().contains("secret"));
    }
}
