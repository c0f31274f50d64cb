//! `semel explain`

use clap::Args;

use crate::commands::submit::{self, RequestArgs};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// Arguments of `semel explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Takes what `semel submit` takes. The exit code is that of the submission: 0, 3
where it would be rejected, 4 where it would be a conflict.

Example:
  semel explain charge '{\"order\":7}' --key charge-ORD-123")]
pub struct ExplainArgs {
    /// What would be submitted.
    #[command(flatten)]
    pub request: RequestArgs,
}

/// Says what a submission would get (contract 2.14).
pub async fn run(args: ExplainArgs, session: &Session) -> Result<Exit, Problem> {
    submit::rehearse(args.request, true, session).await
}
