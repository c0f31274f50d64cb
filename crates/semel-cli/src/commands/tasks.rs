//! `semel tasks`

use clap::Subcommand;
use semel_core::job::State;
use semel_core::store::{Setting, Target};

use crate::exit::Exit;
use crate::lanes::{self, Sum};
use crate::live::LiveWorkers;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, count, elide, paint, relative};
use crate::session::Session;
use crate::steer::{self, Lever};
use crate::target::{self, PauseArgs, TargetArgs};
use crate::wire;

/// `semel tasks …`
#[derive(Debug, Subcommand)]
pub enum TasksCommand {
    /// List tasks with their jobs, settings and workers
    List,
    /// Hand out no more jobs of a task; what runs goes on
    Pause(PauseArgs),
    /// Hand out jobs of a task again
    Resume(TargetArgs),
}

/// Carries out a command.
pub async fn run(command: TasksCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        TasksCommand::List => list(session).await,
        TasksCommand::Pause(args) => steer::pause(args, Target::Task, session).await,
        TasksCommand::Resume(args) => {
            steer::run(args.target(Target::Task), Lever::Resume, None, session).await
        }
    }
}

async fn list(session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let store = client.store();
    let lanes = store.stats().await?.lanes;
    let tasks = lanes::by_task(&lanes);
    let settings = store.settings().await?;
    let live = LiveWorkers::look(&client).await?;
    let mut page = session.page();
    if session.json() {
        let row = |task: &Sum| {
            let setting = setting_of(&settings, task);
            wire::TaskRow::new(task, &setting, live.serving(&task.name), page.now())
        };
        session
            .screen
            .print_json(&wire::List::whole(tasks.iter().map(row)))?;
        return Ok(Exit::Done);
    }
    if tasks.is_empty() {
        page.say("There are no tasks: a task is known from its first job on.");
    } else {
        page.table(&table(&tasks, &settings, &live, &page));
        page.blank();
        let waiting = lanes.iter().filter(|lane| lane.oldest_waiting.is_some());
        if let Some(hint) = live.hint(waiting.map(|lane| (&lane.task, &lane.queue))) {
            page.hint(hint);
        }
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn setting_of(settings: &[(Target, Setting)], task: &Sum) -> Setting {
    target::setting(settings, &Target::Task(task.name.clone()))
}

fn table(tasks: &[Sum], settings: &[(Target, Setting)], live: &LiveWorkers, page: &Page) -> Table {
    let mut table = Table::new([
        Column::wide("TASK"),
        Column::right("WORKERS"),
        Column::right("QUEUED"),
        Column::right("RUNNING"),
        Column::right("FAILED"),
        Column::left("OLDEST DUE"),
        Column::wide("SETTINGS"),
    ]);
    for task in tasks {
        let (failed, workers) = (task.in_state(State::Failed), live.serving(&task.name));
        let idle = workers == 0 && task.in_state(State::Queued) > 0;
        table.row([
            Table::cell(elide(task.name.as_str(), 40)),
            paint(if idle { Tone::Bad } else { Tone::Plain }, workers),
            count(task.in_state(State::Queued)),
            count(task.in_state(State::Running)),
            paint(if failed > 0 { Tone::Bad } else { Tone::Plain }, count(failed)),
            task.oldest_waiting
                .map_or_else(|| "-".to_owned(), |at| relative(at, page.now())),
            target::words(&setting_of(settings, task), page.now()),
        ]);
    }
    table
}
