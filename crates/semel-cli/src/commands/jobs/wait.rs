//! `semel jobs wait`

use clap::Args;
use semel_core::ids::JobId;

use crate::commands::submit;
use crate::duration::Length;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// Arguments of `semel jobs wait`.
#[derive(Debug, Args)]
#[command(after_help = "\
Says the job's output. The exit code is 0 if it completed, 7 if it failed or was
cancelled, 8 if it has not ended in time; then it goes on.")]
pub struct WaitArgs {
    /// The job
    #[arg(value_parser = |text: &str| JobId::new(text))]
    pub id: JobId,
    /// Give up after this
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Length>,
}

/// Waits for a job.
pub async fn run(args: WaitArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let wait = client.job(args.id)?.wait();
    let wait = args
        .timeout
        .into_iter()
        .fold(wait, |wait, length| wait.at_most(length.into()));
    submit::ended(wait.await?, session)
}
