//! `semel guarantees`

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Table, Tone, paint};
use crate::session::Session;
use crate::wire;

/// Prints the guarantee sheet (contract 9.4).
pub async fn run(session: &Session) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let sheet = store.guarantees().await?;
    let capabilities = store.capabilities();
    if session.json() {
        session.screen.print_json(&wire::GuaranteeSheet {
            items: sheet,
            capabilities: capabilities.into(),
        })?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    let mut table = Table::new([
        Column::left("ABOUT"),
        Column::wide("WHAT HOLDS"),
        Column::wide("PROBED"),
    ]);
    for line in &sheet {
        table.row([
            paint(Tone::Strong, line.subject),
            Table::cell(&line.statement),
            Table::cell(&line.probed),
        ]);
    }
    page.table(&table);
    page.heading(format!("What the {} store can do", capabilities.name));
    let yes = |can: bool| if can { "yes" } else { "no" }.to_owned();
    page.fields(vec![
        (
            "claims in strict order over the whole store",
            yes(capabilities.strict_order),
        ),
        (
            "other processes learn of work within",
            format!("{} ms", capabilities.wake_up.as_millis()),
        ),
        ("answered calls survive kill -9", yes(capabilities.durable)),
        ("counters are exact at once", yes(capabilities.counters_at_once)),
        (
            "keys are found by text through an index",
            yes(capabilities.key_search),
        ),
        (
            "joins the caller's transaction",
            yes(capabilities.joins_transaction),
        ),
        ("knows a token with any key", yes(capabilities.tokens_stand_alone)),
        (
            "can be shared by several processes",
            yes(capabilities.shared_by_processes),
        ),
    ]);
    session.screen.print(&page)?;
    Ok(Exit::Done)
}
