//! `semel outbox audit` and `semel outbox rebuild`

use clap::Args;
use semel_core::time::Timestamp;
use semel_outbox::{Audit, Pruned};

use crate::commands::outbox::wire;
use crate::commands::outbox::{From, page};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Page, clean, elide, plural};
use crate::session::Session;

/// Ids that are shown.
const SHOWN: usize = 20;

/// Arguments of `semel outbox audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
The query gives one row per event that should be there: its id, and to rebuild
it also task and input, if wanted queue and partition. It cannot write. Leave
out rows whose events may have been pruned.

Example:
  semel outbox audit --from sqlite:shop.db --query \\
        \"SELECT 'order-' || id AS id FROM orders WHERE paid\"")]
pub struct CompareArgs {
    /// Where the outbox is.
    #[command(flatten)]
    pub from: From,
    /// The rows that should have an event, with columns id, task, input …
    #[arg(long, value_name = "SQL")]
    pub query: String,
}

/// Arguments of `semel outbox rebuild`.
#[derive(Debug, Args)]
#[command(after_help = "\
The query gives one row per event that should be there: id, task and input, if
wanted queue and partition. It cannot write. Once events were pruned, older rows
lack one although their work was done: ask for newer rows only, and say so.

Example:
  semel outbox rebuild --from sqlite:shop.db --pruned-left-out --query \\
        \"SELECT 'order-' || id AS id, 'receipt' AS task, id AS input
         FROM orders WHERE paid AND day > '2026-01-31'\"")]
pub struct RebuildArgs {
    /// What to compare.
    #[command(flatten)]
    pub compare: CompareArgs,
    /// The query leaves out rows whose events were pruned
    #[arg(long)]
    pub pruned_left_out: bool,
}

/// Finds business rows without an event. Exit code 1 if there are some.
pub async fn audit(args: CompareArgs, session: &Session) -> Result<Exit, Problem> {
    let source = args.from.open().await?;
    let audit = source.audit(&args.query).await?;
    let exit = if audit.missing_total == 0 {
        Exit::Done
    } else {
        Exit::Other
    };
    if session.json() {
        session.screen.print_json(&wire::OutboxAudit::from(&audit))?;
        return Ok(exit);
    }
    let mut page = page(&*source, session);
    tell(&audit, &mut page);
    if audit.missing_total > 0 {
        page.hint("semel outbox rebuild writes them, with a query that gives task and input as well");
    }
    session.screen.print(&page)?;
    Ok(exit)
}

/// Writes the events that are missing.
pub async fn rebuild(args: RebuildArgs, session: &Session) -> Result<Exit, Problem> {
    let source = args.compare.from.open().await?;
    let pruned = match args.pruned_left_out {
        true => Pruned::LeftOut,
        false => Pruned::Refuse,
    };
    let audit = source.rebuild(&args.compare.query, pruned).await?;
    if session.json() {
        session.screen.print_json(&wire::OutboxAudit::from(&audit))?;
        return Ok(Exit::Done);
    }
    let mut page = page(&*source, session);
    tell(&audit, &mut page);
    let added = i64::try_from(audit.added).unwrap_or(i64::MAX);
    page.say(format!("{} written.", plural(added, "event was", "events were")));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn tell(audit: &Audit, page: &mut Page) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    page.say(format!(
        "{}, {} without an event.",
        plural(number(audit.rows), "row", "rows"),
        audit.missing_total
    ));
    for id in audit.missing.iter().take(SHOWN) {
        page.line(format!("  {}", clean(&elide(id, 70))));
    }
    if audit.missing_total > SHOWN as u64 {
        page.line("  …");
    }
    if let Some(millis) = audit.pruned_before_ms {
        let when = page.when(Timestamp::from_millis(millis));
        page.say(format!(
            "Events sent before {when} have been pruned: older rows have none."
        ));
    }
}
