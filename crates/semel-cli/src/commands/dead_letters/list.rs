//! `semel dead-letters list`

use clap::Args;
use semel_core::view::{ErrorGroup, Job};

use crate::commands::dead_letters::LetterFilter;
use crate::exit::Exit;
use crate::listing::{PageArgs, gather};
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, count, elide, one_line, paint, relative};
use crate::session::Session;
use crate::{redact, wire};

/// Where a screen has room for more than the necessary.
const ROOMY: usize = 110;

/// Arguments of `semel dead-letters list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which.
    #[command(flatten)]
    pub filter: LetterFilter,
    /// Which part of the list.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Lists dead letters (contract 6.4).
pub async fn run(args: ListArgs, session: &Session) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let groups = store.dead_letter_groups(args.filter.task.clone()).await?;
    let filter = args.filter.resolve();
    let mut found = gather(&args.page, async |page| store.jobs(filter.clone(), page).await).await?;
    for job in &mut found.items {
        redact::job(job, &session.settings.file.redact);
    }
    if session.json() {
        session.screen.print_json(&wire::DeadLetters {
            groups: groups.iter().map(wire::ErrorGroup::from).collect(),
            items: found.items.iter().map(wire::Job::from).collect(),
            next_cursor: found.next_cursor.clone(),
        })?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if found.items.is_empty() {
        page.line(paint(Tone::Good, "There are no dead letters."));
        session.screen.print(&page)?;
        return Ok(Exit::Done);
    }
    page.table(&group_table(&groups, &page));
    page.heading("Newest");
    page.table(&letter_table(&found.items, &page));
    page.blank();
    if let Some(cursor) = &found.next_cursor {
        page.line(paint(
            Tone::Quiet,
            format!("There are more: add --cursor {cursor}"),
        ));
    }
    page.hint("semel jobs show ID says more; semel dead-letters replay ID makes a fresh job of one");
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn group_table(groups: &[ErrorGroup], page: &Page) -> Table {
    let mut table = Table::new([
        Column::right("COUNT"),
        Column::wide("TASK"),
        Column::left("NEWEST"),
        Column::wide("DIED OF"),
    ]);
    for group in groups {
        table.row([
            count(group.jobs),
            Table::cell(elide(group.task.as_str(), 30)),
            relative(group.newest_at, page.now()),
            elide(&one_line(&group.error), 120),
        ]);
    }
    table
}

fn letter_table(jobs: &[Job], page: &Page) -> Table {
    let roomy = page.width() >= ROOMY;
    let mut columns = vec![Column::left("ID"), Column::left("WHEN")];
    if roomy {
        columns.extend([Column::wide("TASK"), Column::right("TRY")]);
    }
    columns.push(Column::wide("ERROR"));
    let mut table = Table::new(columns);
    // One line each: an error that is broken into many hides the next.
    let room = page.width().saturating_sub(if roomy { 90 } else { 50 });
    for job in jobs {
        let error = job.error.as_ref().map_or("-", |error| error.message.as_str());
        let ended = job.finished_at.unwrap_or(job.enqueued_at);
        let mut cells = vec![job.id.to_string(), relative(ended, page.now())];
        if roomy {
            let tries = format!("{}/{}", job.attempt, job.max_attempts);
            cells.extend([Table::cell(elide(job.task.as_str(), 30)), tries]);
        }
        cells.push(elide(&one_line(error), room));
        table.row(cells);
    }
    table
}
