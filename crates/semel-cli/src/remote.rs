//! The same commands through a server: `--server URL`. What may be done is for the server to say, by the token.
//!
//! One request each, as in the OpenAPI document. `--json` gives the server's own answer, which has the shape that the
//! command has on a store.

mod acts;
mod jobs;
mod keys;
mod lanes;
mod seeing;
mod server;
mod show;
mod submit;
mod work;

pub use server::Server;

use crate::args::StoreCommand;
use crate::commands::outbox::OutboxCommand;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// Carries out a command through a server.
pub async fn run(command: StoreCommand, server: &Server, session: &Session) -> Result<Exit, Problem> {
    let to = To { server, session };
    match command {
        StoreCommand::Status => to.status().await,
        StoreCommand::Tokens(command) => to.tokens(command).await,
        StoreCommand::Submit(args) => to.submit(*args).await,
        StoreCommand::Explain(args) => to.explain(args.request).await,
        StoreCommand::Events(command) => to.events(command).await,
        StoreCommand::Schedules(command) => to.schedules(command).await,
        StoreCommand::Jobs(command) => to.jobs(command).await,
        StoreCommand::Keys(command) => to.keys(command).await,
        StoreCommand::DeadLetters(command) => to.dead_letters(command).await,
        StoreCommand::Steps(command) => to.steps(command).await,
        StoreCommand::Workers(_) => {
            to.list("/v1/workers", show::WORKERS, "No worker was heard of lately.")
                .await
        }
        StoreCommand::Queues(command) => to.queues(command).await,
        StoreCommand::Tasks(command) => to.tasks(command).await,
        StoreCommand::Stats(args) => to.stats(args).await,
        StoreCommand::Guarantees => {
            to.list("/v1/guarantees", show::GUARANTEES, "Nothing is guaranteed.")
                .await
        }
        StoreCommand::Work(args) => to.work(args).await,
        StoreCommand::Outbox(OutboxCommand::Status(args)) if args.from.is_none() => to.outbox().await,
        #[cfg(feature = "redis")]
        StoreCommand::Bridge(_) | StoreCommand::Shards(_) => Err(at_the_store()),
        StoreCommand::Demo(_)
        | StoreCommand::Serve(_)
        | StoreCommand::Outbox(_)
        | StoreCommand::Doctor(_) => Err(at_the_store()),
    }
}

fn at_the_store() -> Problem {
    Problem::usage("this command works on a store itself: allowed is --store, not --server")
        .hint("--store URL, on a machine that reaches it")
}

/// A server, and where its answers are said.
#[derive(Clone, Copy)]
struct To<'a> {
    server: &'a Server,
    session: &'a Session,
}
