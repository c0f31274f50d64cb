//! `semel steps`

mod list;
mod resolve;

pub use list::of_a_job;

use clap::Subcommand;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// `semel steps …`
#[derive(Debug, Subcommand)]
pub enum StepsCommand {
    /// List effects that may have happened, or all steps of a job
    List(list::ListArgs),
    /// Decide whether an effect in doubt has happened, on record
    Resolve(resolve::ResolveArgs),
}

/// Carries out a command.
pub async fn run(command: StepsCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        StepsCommand::List(args) => list::run(args, session).await,
        StepsCommand::Resolve(args) => resolve::run(args, session).await,
    }
}
