//! One file per noun; the verbs of a large noun have files of their own.

pub mod bench;
#[cfg(feature = "redis")]
pub mod bridge;
pub mod completions;
pub mod config;
pub mod dead_letters;
pub mod demo;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod guarantees;
pub mod jobs;
pub mod keys;
pub mod outbox;
pub mod queues;
pub mod schedules;
pub mod serve;
#[cfg(feature = "redis")]
pub mod shards;
pub mod stats;
pub mod status;
pub mod steps;
pub mod submit;
pub mod tasks;
pub mod tokens;
pub mod work;
pub mod workers;

use crate::args::StoreCommand;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// Carries out a command that goes to a store.
pub async fn run(command: StoreCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        StoreCommand::Demo(args) => demo::run(args, session).await,
        StoreCommand::Serve(args) => serve::run(args, session).await,
        StoreCommand::Status => status::run(session).await,
        StoreCommand::Tokens(command) => tokens::run(command, session).await,
        StoreCommand::Submit(args) => submit::run(*args, session).await,
        StoreCommand::Explain(args) => explain::run(*args, session).await,
        StoreCommand::Work(args) => work::run(args, session).await,
        StoreCommand::Events(command) => events::run(command, session).await,
        StoreCommand::Schedules(command) => schedules::run(command, session).await,
        StoreCommand::DeadLetters(command) => dead_letters::run(command, session).await,
        StoreCommand::Workers(command) => workers::run(command, session).await,
        StoreCommand::Jobs(command) => jobs::run(command, session).await,
        StoreCommand::Keys(command) => keys::run(command, session).await,
        StoreCommand::Queues(command) => queues::run(command, session).await,
        StoreCommand::Tasks(command) => tasks::run(command, session).await,
        StoreCommand::Outbox(command) => outbox::run(command, session).await,
        #[cfg(feature = "redis")]
        StoreCommand::Bridge(command) => bridge::run(command, session).await,
        StoreCommand::Steps(command) => steps::run(command, session).await,
        StoreCommand::Stats(args) => stats::run(args, session).await,
        StoreCommand::Guarantees => guarantees::run(session).await,
        StoreCommand::Doctor(args) => doctor::run(args, session).await,
        #[cfg(feature = "redis")]
        StoreCommand::Shards(command) => shards::run(command, session).await,
    }
}
