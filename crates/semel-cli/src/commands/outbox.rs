//! `semel outbox`

mod compare;
mod prune;
mod relay;
mod status;
mod wire;

use std::sync::Arc;

use clap::{Args, Subcommand};
use semel_outbox::{Error, Plain, Source};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Page, Tone, clean, paint};
use crate::session::Session;

/// `semel outbox …`
#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// Show what waits to be relayed, how long, and what was parked
    Status(status::StatusArgs),
    /// Submit committed events as jobs, each once
    Relay(relay::RelayArgs),
    /// Find business rows without an event
    Audit(compare::CompareArgs),
    /// Write the events that business rows lack
    Rebuild(compare::RebuildArgs),
    /// Remove events that were sent long ago
    Prune(prune::PruneArgs),
}

/// Where the outbox is.
#[derive(Clone, Debug, Args)]
pub struct From {
    /// The database: postgres://USER@HOST/DATABASE or sqlite:FILE
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// Let a password travel unencrypted to another machine
    #[arg(long)]
    pub plain: bool,
}

impl From {
    /// Opens the database, making the tables where they are missing.
    pub async fn open(&self) -> Result<Arc<dyn Source>, Problem> {
        let plain = if self.plain { Plain::Allow } else { Plain::Refuse };
        Ok(semel_outbox::open(&self.from, plain).await?)
    }
}

/// An empty page that names the database.
fn page(source: &dyn Source, session: &Session) -> Page {
    let mut page = session.screen.plain_page();
    page.line(paint(Tone::Quiet, format!("outbox {}", clean(source.shown()))));
    page.blank();
    page
}

/// Carries out a command.
pub async fn run(command: OutboxCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        OutboxCommand::Status(args) => status::run(args, session).await,
        OutboxCommand::Relay(args) => relay::run(args, session).await,
        OutboxCommand::Audit(args) => compare::audit(args, session).await,
        OutboxCommand::Rebuild(args) => compare::rebuild(args, session).await,
        OutboxCommand::Prune(args) => prune::run(args, session).await,
    }
}

impl std::convert::From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::Store(error) => error.into(),
            Error::Database { .. } => {
                Problem::new(Exit::Unavailable, "database_unavailable", error.to_string())
            }
            other => Problem::new(Exit::Other, "other", other.to_string()),
        }
    }
}
