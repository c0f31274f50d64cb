//! `semel jobs`

mod act;
mod filter;
pub mod list;
mod show;
mod wait;

use clap::Subcommand;
use semel::Action;

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
    /// End jobs that have not ended
    Cancel(act::ActOnJobs),
    /// Give failed or cancelled jobs a new life, under the same id
    Retry(act::ActOnJobs),
}

/// Carries out a command.
pub async fn run(command: JobsCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        JobsCommand::List(args) => list::run(args, session).await,
        JobsCommand::Show(args) => show::run(args, session).await,
        JobsCommand::Wait(args) => wait::run(args, session).await,
        JobsCommand::Cancel(args) => act::run(Action::Cancel, args, session).await,
        JobsCommand::Retry(args) => act::run(Action::Retry, args, session).await,
    }
}
