//! `semel workers`

use clap::Subcommand;
use semel::workers::{self, WorkerView};
use semel_core::ids::Name;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, clean, elide, relative};
use crate::session::Session;
use crate::wire;

/// `semel workers …`
#[derive(Debug, Subcommand)]
pub enum WorkersCommand {
    /// List the workers that were heard of in the last half minute
    List,
}

/// Carries out a command.
pub async fn run(command: WorkersCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        WorkersCommand::List => list(session).await,
    }
}

async fn list(session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let workers = workers::list(&client).await?;
    if session.json() {
        let items = workers.iter().map(wire::Worker::from);
        session.screen.print_json(&wire::List::whole(items))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if workers.is_empty() {
        page.say("No worker was heard of in the last half minute.");
        page.hint("semel work --task NAME --exec 'CMD' starts one");
    } else {
        page.table(&table(&workers, &page));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn table(workers: &[WorkerView], page: &Page) -> Table {
    let mut table = Table::new([
        Column::wide("WORKER"),
        Column::wide("TASKS"),
        Column::wide("QUEUES"),
        Column::right("BUSY"),
        Column::left("STARTED"),
        Column::left("HEARD"),
        Column::wide("VERSION"),
    ]);
    for worker in workers {
        let info = &worker.info;
        let name = info.name.as_deref().unwrap_or(&info.host);
        table.row([
            format!("{} pid {}", clean(&elide(name, 30)), info.pid),
            names(&info.tasks),
            match info.queues.is_empty() {
                true => "all".to_owned(),
                false => names(&info.queues),
            },
            format!("{}/{}", info.running, info.slots),
            info.started_at
                .map_or_else(|| "-".to_owned(), |at| relative(at, page.now())),
            relative(worker.heartbeat_at, page.now()),
            Table::cell(elide(info.version.as_deref().unwrap_or("-"), 16)),
        ]);
    }
    table
}

fn names(names: &[Name]) -> String {
    let all: Vec<&str> = names.iter().map(Name::as_str).collect();
    clean(&elide(&all.join(" "), 120)).into_owned()
}
