//! `semel outbox status`

use clap::Args;
use semel_core::time::{Millis, Timestamp};
use semel_outbox::{ParkedEvent, Status};

use crate::commands::outbox::wire;
use crate::commands::outbox::{From, page};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, count, elide, one_line, paint, span};
use crate::session::Session;

/// Parked events that are shown.
const SHOWN: usize = 20;

/// Arguments of `semel outbox status`.
#[derive(Debug, Args)]
#[command(after_help = "With --server URL and without --from: the outbox that the server relays.")]
pub struct StatusArgs {
    /// The database: postgres://USER@HOST/DATABASE or sqlite:FILE
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// Let a password travel unencrypted to another machine
    #[arg(long, requires = "from")]
    pub plain: bool,
}

/// Shows how an outbox stands.
pub async fn run(args: StatusArgs, session: &Session) -> Result<Exit, Problem> {
    let Some(from) = args.from else {
        return Err(
            Problem::usage("an outbox that is not named: allowed is --from URL")
                .hint("with --server URL the outbox that the server relays is shown"),
        );
    };
    let plain = args.plain;
    let source = From { from, plain }.open().await?;
    let status = source.status().await?;
    let parked = source.parked(SHOWN).await?;
    if session.json() {
        session.screen.print_json(&wire::Outbox::new(&status, &parked))?;
        return Ok(Exit::Done);
    }
    let mut page = page(&*source, session);
    page.fields(facts(&status, &page));
    if !parked.is_empty() {
        page.heading("Parked");
        page.table(&table(&parked));
        page.hint("once the cause is gone: semel outbox relay --retry-parked");
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn facts(status: &Status, page: &Page) -> Vec<(&'static str, String)> {
    let waiting = match status.pending {
        0 => "nothing".to_owned(),
        n => format!(
            "{}, the oldest for {}",
            count(n),
            span(Millis::new(status.lag_ms))
        ),
    };
    let mut facts = vec![("pending", waiting)];
    if status.failing > 0 {
        facts.push(("failing", paint(Tone::Warn, count(status.failing))));
    }
    if status.parked > 0 {
        facts.push(("parked", paint(Tone::Bad, count(status.parked))));
    }
    let moment = |millis: Option<i64>| millis.map(|millis| page.when(Timestamp::from_millis(millis)));
    facts.push((
        "last sent",
        moment(status.last_sent_ms).unwrap_or_else(|| "never".to_owned()),
    ));
    if let Some(when) = moment(status.pruned_before_ms) {
        facts.push(("pruned", format!("what was sent before {when}")));
    }
    facts
}

fn table(parked: &[ParkedEvent]) -> Table {
    let mut table = Table::new([
        Column::wide("EVENT"),
        Column::wide("TASK"),
        Column::wide("PARTITION"),
        Column::right("TRIED"),
        Column::wide("WHY"),
    ]);
    for event in parked {
        table.row([
            Table::cell(elide(&event.id, 40)),
            Table::cell(elide(&event.task, 24)),
            Table::cell(elide(event.partition.as_deref().unwrap_or("-"), 24)),
            event.attempts.to_string(),
            one_line(event.error.as_deref().unwrap_or_default()),
        ]);
    }
    table
}
