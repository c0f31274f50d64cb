//! `semel jobs`

mod filter;
mod list;
mod show;
mod wait;

use clap::Subcommand;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// `semel jobs …`
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs, newest first
    List(list::ListArgs),
    /// Show a job: why it stands where it stands, attempts, log, duplicates
    Show(show::ShowArgs),
    /// Wait until a job has ended, and say its output
    Wait(wait::WaitArgs),
}

/// Carries out a command.
pub async fn run(command: JobsCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        JobsCommand::List(args) => list::run(args, session).await,
        JobsCommand::Show(args) => show::run(args, session).await,
        JobsCommand::Wait(args) => wait::run(args, session).await,
    }
}
