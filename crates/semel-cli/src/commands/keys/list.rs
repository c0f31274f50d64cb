//! `semel keys list`

use clap::Args;
use semel_core::dedup::HoldKind;
use semel_core::ids::{JobId, Name};
use semel_core::store::KeyFilter;
use semel_core::view::KeyRow;

use crate::commands::keys::short;
use crate::exit::Exit;
use crate::listing::{PageArgs, gather, said};
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, count, elide, paint, relative, state_tone};
use crate::session::Session;
use crate::wire;

/// Arguments of `semel keys list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Whose text contains this
    #[arg(long, value_name = "PART")]
    pub text: Option<String>,
    /// Unique in: task, queue, global, custom:NAME
    #[arg(long, value_name = "SCOPE")]
    pub scope: Option<String>,
    /// Whose holder has this task
    #[arg(long, value_name = "NAME")]
    pub task: Option<Name>,
    /// Held by this job
    #[arg(long, value_name = "ID", value_parser = |text: &str| JobId::new(text))]
    pub job: Option<JobId>,
    /// Also keys that are free again
    #[arg(long)]
    pub also_free: bool,
    /// Which part of the list.
    #[command(flatten)]
    pub page: PageArgs,
}

impl ListArgs {
    /// What was said, as a server is asked.
    pub fn query(&self) -> Vec<(&'static str, String)> {
        said([
            ("text", self.text.clone()),
            ("scope", self.scope.clone()),
            ("task", self.task.as_ref().map(ToString::to_string)),
            ("job", self.job.as_ref().map(ToString::to_string)),
            ("state", self.also_free.then(|| "all".to_owned())),
        ])
    }
}

/// Lists keys.
pub async fn run(args: ListArgs, session: &Session) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let filter = KeyFilter {
        text: args.text,
        scope: args.scope,
        task: args.task,
        job: args.job,
        also_free: args.also_free,
    };
    let found = gather(&args.page, async |page| store.keys(filter.clone(), page).await).await?;
    if session.json() {
        session.screen.print_json(&wire::List {
            items: found.items.iter().map(wire::KeyRow::from).collect(),
            next_cursor: found.next_cursor.clone(),
        })?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if found.items.is_empty() {
        page.say(if filter == KeyFilter::default() {
            "No key is held."
        } else {
            "No key is like that."
        });
    } else {
        page.table(&table(&found.items, &page));
    }
    if let Some(cursor) = &found.next_cursor {
        page.blank();
        page.line(paint(
            Tone::Quiet,
            format!("There are more: add --cursor {cursor}"),
        ));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn table(rows: &[KeyRow], page: &Page) -> Table {
    let mut table = Table::new([
        Column::left("DIGEST"),
        Column::wide("KEY"),
        Column::wide("TASK"),
        Column::left("HOLDER IS"),
        Column::right("ABSORBED"),
        Column::left("FREE"),
    ]);
    for row in rows {
        let text = match &row.key.text {
            Some(text) => Table::cell(elide(text, 40)),
            None => paint(Tone::Quiet, format!("by {}", row.key.by.word())),
        };
        table.row([
            short(row.key.digest),
            text,
            Table::cell(elide(row.holder.task.as_str(), 24)),
            paint(state_tone(row.holder.state), row.holder.state.word()),
            count(row.absorbed),
            free(row, page),
        ]);
    }
    table
}

/// When the key will be free, if that is known.
fn free(row: &KeyRow, page: &Page) -> String {
    match row.free_at {
        _ if !row.key.held => "yes".to_owned(),
        Some(at) => relative(at, page.now()),
        None => match (row.key.hold.kind, row.key.expires_at) {
            (HoldKind::UntilStarted, _) => "at its start".to_owned(),
            (HoldKind::UntilFinished, _) => "at its end".to_owned(),
            (HoldKind::Window, Some(at)) => format!("{} or later", relative(at, page.now())),
            (HoldKind::Window | HoldKind::Forever, _) => "by hand".to_owned(),
        },
    }
}
