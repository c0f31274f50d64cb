//! `semel outbox prune`

use clap::Args;

use crate::commands::outbox::{From, page};
use crate::duration::Length;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::plural;
use crate::session::Session;

/// Arguments of `semel outbox prune`.
#[derive(Debug, Args)]
#[command(after_help = "\
Only what was sent is ever removed: what waits, fails or is parked stays,
however old it is.")]
pub struct PruneArgs {
    /// Where the outbox is.
    #[command(flatten)]
    pub from: From,
    /// Remove what was sent longer ago than this
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    pub older_than: Length,
}

/// Removes events that were sent.
pub async fn run(args: PruneArgs, session: &Session) -> Result<Exit, Problem> {
    let source = args.from.open().await?;
    let pruned = source.prune(args.older_than.into()).await?;
    if session.json() {
        session
            .screen
            .print_json(&serde_json::json!({ "pruned": pruned }))?;
        return Ok(Exit::Done);
    }
    let mut page = page(&*source, session);
    let pruned = i64::try_from(pruned).unwrap_or(i64::MAX);
    page.say(format!(
        "{} removed.",
        plural(pruned, "sent event was", "sent events were")
    ));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}
