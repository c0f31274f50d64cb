//! `semel doctor`

use clap::Args;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Table, Tone, paint, plural};
use crate::session::Session;
use crate::wire;

/// Arguments of `semel doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "Looks at live data; work goes on meanwhile. The exit code is 0 if nothing is\nwrong or everything was repaired, else 1."
)]
pub struct DoctorArgs {
    /// Repair what can be derived from the rest
    #[arg(long)]
    pub repair: bool,
}

/// Checks the invariants (contract 9.5).
pub async fn run(args: DoctorArgs, session: &Session) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let busy = session.screen.busy("examining the stored data");
    let findings = store.doctor(args.repair).await?;
    drop(busy);
    let left = findings.iter().filter(|finding| !finding.repaired).count();
    let exit = if left == 0 { Exit::Done } else { Exit::Other };
    if session.json() {
        let items = findings.iter().map(wire::Finding::from);
        session.screen.print_json(&wire::List::whole(items))?;
        return Ok(exit);
    }
    let mut page = session.page();
    if findings.is_empty() {
        page.line(paint(Tone::Good, "Everything is in order."));
        session.screen.print(&page)?;
        return Ok(exit);
    }
    let mut table = Table::new([
        Column::left("INVARIANT"),
        Column::wide("FOUND"),
        Column::left("REPAIRED"),
    ]);
    for finding in &findings {
        let repaired = match finding.repaired {
            true => paint(Tone::Good, "yes"),
            false => paint(Tone::Bad, "no"),
        };
        table.row([finding.invariant.to_owned(), Table::cell(&finding.what), repaired]);
    }
    page.table(&table);
    page.blank();
    let number = i64::try_from(left).unwrap_or(i64::MAX);
    match (left, args.repair) {
        (0, _) => page.line(paint(Tone::Good, "Everything found was repaired.")),
        (_, true) => page.say(format!(
            "{} could not be repaired by itself.",
            plural(number, "finding", "findings")
        )),
        (_, false) => page.hint("semel doctor --repair mends what can be derived from the rest"),
    }
    session.screen.print(&page)?;
    Ok(exit)
}
