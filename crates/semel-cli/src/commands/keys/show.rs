//! `semel keys show`

use clap::Args;
use semel_core::dedup::HoldKind;
use semel_core::store::LedgerFilter;
use semel_core::view::{KeyRow, LedgerEntry};

use crate::commands::keys::find;
use crate::exit::Exit;
use crate::listing::{PageArgs, gather};
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, clean, elide, exact, paint, plural, relative, state_tone};
use crate::session::Session;
use crate::{redact, wire, wording};

/// Arguments of `semel keys show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Who was blocked, when, by which policy, and where the inputs differed. An input
that differed is in the answer of --json, so that it can be submitted again.")]
pub struct ShowArgs {
    /// The key: its text, its digest, or the beginning of its digest
    pub key: String,
    /// Which part of the ledger.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Shows a key with its ledger (contract 7.3, 2.12).
pub async fn run(args: ShowArgs, session: &Session) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let row = find(&*store, &args.key).await?;
    let filter = LedgerFilter {
        digest: Some(row.key.digest),
        ..LedgerFilter::default()
    };
    let mut ledger = gather(&args.page, async |page| store.ledger(filter.clone(), page).await).await?;
    for entry in &mut ledger.items {
        redact::entry(entry, &session.settings.file.redact);
    }
    if session.json() {
        session.screen.print_json(&wire::KeyPage {
            row: wire::KeyRow::from(&row),
            ledger: ledger.items.iter().map(wire::LedgerEntry::from).collect(),
            next_cursor: ledger.next_cursor.clone(),
        })?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    head(&row, &mut page);
    page.fields(facts(&row, &page));
    if ledger.items.is_empty() {
        page.blank();
        page.say("It has absorbed nothing that is still in the ledger.");
    } else {
        page.heading(format!(
            "Absorbed: {}",
            plural(row.absorbed, "submission", "submissions")
        ));
        page.table(&ledger_table(&ledger.items, true, &page));
    }
    if let Some(cursor) = &ledger.next_cursor {
        page.line(paint(
            Tone::Quiet,
            format!("There are more: add --cursor {cursor}"),
        ));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn head(row: &KeyRow, page: &mut Page) {
    let name = match &row.key.text {
        Some(text) => clean(text).into_owned(),
        None => format!("by {}", row.key.by.word()),
    };
    let held = match row.key.held {
        true => paint(Tone::Warn, "held"),
        false => paint(Tone::Good, "free"),
    };
    page.line(format!("{} {name}  {held}", paint(Tone::Strong, "key")));
    page.say(verdict(row));
    page.blank();
}

/// What a submission with this key has to expect.
fn verdict(row: &KeyRow) -> String {
    let holder = &row.holder.id;
    if !row.key.held {
        return format!("The next submission with it is admitted. Job {holder} held it last.");
    }
    let when = match (row.free_at, row.key.hold.kind, row.key.expires_at) {
        (Some(at), ..) => format!("until {}", exact(at)),
        (None, HoldKind::UntilStarted, _) => "until that job starts".to_owned(),
        (None, HoldKind::UntilFinished, _) => "until that job has ended".to_owned(),
        (None, HoldKind::Window, Some(at)) => {
            format!("until that job has ended, and at least until {}", exact(at))
        }
        (None, HoldKind::Window | HoldKind::Forever, _) => "until it is released by hand".to_owned(),
    };
    format!("Job {holder} holds it {when}; a submission with it is absorbed.")
}

fn facts(row: &KeyRow, page: &Page) -> Vec<(&'static str, String)> {
    let state = row.holder.state;
    let mut fields = vec![
        ("digest", row.key.digest.to_string()),
        ("unique in", clean(&row.key.scope).into_owned()),
        ("made from", wording::made_from(row.key.by).to_owned()),
        ("kept", wording::hold(&row.key.hold)),
        (
            "holder",
            format!("{}  {}", row.holder.id, paint(state_tone(state), state.word())),
        ),
        (
            "",
            format!(
                "{} in queue {}",
                clean(row.holder.task.as_str()),
                clean(row.queue.as_str())
            ),
        ),
        ("taken", page.when(row.key.taken_at)),
    ];
    if let Some(at) = row.key.expires_at {
        fields.push(("ttl passes", page.when(at)));
    }
    if row.key.observed {
        fields.push(("observed", "yes: an enforced submission takes it over".to_owned()));
    }
    fields
}

/// Absorbed submissions in rows, newest first; with `holders` also by whom.
pub fn ledger_table(entries: &[LedgerEntry], holders: bool, page: &Page) -> Table {
    let mut columns = vec![
        Column::left("WHEN"),
        Column::left("OUTCOME"),
        Column::wide("PRODUCER"),
        Column::left("POLICY"),
    ];
    if holders {
        columns.push(Column::left("BLOCKED BY"));
    }
    columns.push(Column::wide("DIFFERS AT"));
    let mut table = Table::new(columns);
    for entry in entries {
        let producer = entry.producer.as_ref().map_or("-", |producer| producer.as_str());
        let mut cells = vec![
            relative(entry.at, page.now()),
            entry.outcome.word().to_owned(),
            Table::cell(elide(producer, 24)),
            entry.policy.clone(),
        ];
        if holders {
            cells.push(brief(entry.holder.as_str()));
        }
        cells.push(match entry.differs.is_empty() {
            true => "-".to_owned(),
            false => wording::differs(&entry.differs),
        });
        table.row(cells);
    }
    table
}

/// The end of an id: ids of one moment begin alike.
fn brief(id: &str) -> String {
    let length = id.chars().count();
    match length > 14 {
        true => format!("…{}", id.chars().skip(length - 12).collect::<String>()),
        false => clean(id).into_owned(),
    }
}
