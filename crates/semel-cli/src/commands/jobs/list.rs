//! `semel jobs list`

use clap::Args;
use semel_core::job::State;
use semel_core::time::Timestamp;
use semel_core::view::{Job, Listing};

use crate::commands::jobs::filter::FilterArgs;
use crate::exit::Exit;
use crate::listing::{PageArgs, gather};
use crate::live::LiveWorkers;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, elide, paint, relative, state_tone};
use crate::session::Session;
use crate::{redact, wire};

/// Where a screen has room for more than the necessary.
const ROOMY: usize = 110;

/// Arguments of `semel jobs list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  semel jobs list --state failed --task charge
  semel jobs list --since 1h --error timeout --json")]
pub struct ListArgs {
    /// Which jobs.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Which part of the list.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Lists jobs.
pub async fn run(args: ListArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let store = client.store();
    let filter = args.filter.resolve(&**store).await?;
    let mut found = gather(&args.page, async |page| store.jobs(filter.clone(), page).await).await?;
    for job in &mut found.items {
        redact::job(job, &session.settings.file.redact);
    }
    if session.json() {
        session.screen.print_json(&wire::List {
            items: found.items.iter().map(wire::Job::from).collect(),
            next_cursor: found.next_cursor.clone(),
        })?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if found.items.is_empty() {
        page.say(if args.filter.is_empty() {
            "There are no jobs."
        } else {
            "No job is like that."
        });
    } else {
        page.table(&table(&found.items, &page));
        ending(&found, &mut page);
        let live = LiveWorkers::look(&client).await?;
        let queued = found.items.iter().filter(|job| job.state == State::Queued);
        if let Some(hint) = live.hint(queued.map(|job| (&job.task, &job.queue))) {
            page.hint(hint);
        }
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

/// Jobs in rows; used wherever several are shown.
pub fn table(jobs: &[Job], page: &Page) -> Table {
    let roomy = page.width() >= ROOMY;
    let mut columns = vec![Column::left("ID"), Column::left("STATE"), Column::wide("TASK")];
    if roomy {
        columns.extend([Column::wide("QUEUE"), Column::wide("KEY")]);
    }
    columns.extend([Column::right("TRY"), Column::left("WHEN")]);
    let mut table = Table::new(columns);
    for job in jobs {
        let mut cells = vec![
            job.id.to_string(),
            paint(state_tone(job.state), job.state.word()),
            Table::cell(elide(job.task.as_str(), 40)),
        ];
        if roomy {
            let key = job
                .key
                .as_ref()
                .and_then(|key| key.text.as_deref())
                .unwrap_or("-");
            cells.extend([Table::cell(&job.queue), Table::cell(elide(key, 30))]);
        }
        cells.extend([
            format!("{}/{}", job.attempt, job.max_attempts),
            relative(turning_point(job), page.now()),
        ]);
        table.row(cells);
    }
    table
}

/// When a job came to its state, or will leave it.
fn turning_point(job: &Job) -> Timestamp {
    match job.state {
        State::Scheduled | State::Queued => job.run_at,
        State::Running => job.started_at.unwrap_or(job.enqueued_at),
        State::Deferred | State::Parked => job.enqueued_at,
        State::Complete | State::Failed | State::Cancelled => job.finished_at.unwrap_or(job.enqueued_at),
    }
}

fn ending(found: &Listing<Job>, page: &mut Page) {
    page.blank();
    if let Some(cursor) = &found.next_cursor {
        page.line(paint(
            Tone::Quiet,
            format!("There are more: add --cursor {cursor}"),
        ));
    }
}
