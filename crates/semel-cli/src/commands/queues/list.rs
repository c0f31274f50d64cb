//! `semel queues list`

use std::collections::BTreeMap;

use semel_core::counters::Counts;
use semel_core::job::State;
use semel_core::store::{Setting, Target};

use crate::exit::Exit;
use crate::lanes::{self, Sum};
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, count, elide, paint, relative};
use crate::session::Session;
use crate::{target, wire};

/// Lists queues, also those that have settings and no jobs.
pub async fn run(session: &Session) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let stats = store.stats().await?;
    let settings = store.settings().await?;
    let mut queues = lanes::by_queue(&stats.lanes);
    for (target, _) in &settings {
        if let Target::Queue(name) = target
            && !queues.iter().any(|queue| queue.name == *name)
        {
            queues.push(Sum {
                name: name.clone(),
                counts: Counts::default(),
                jobs: BTreeMap::new(),
                oldest_waiting: None,
            });
        }
    }
    let mut page = session.page();
    if session.json() {
        let row = |queue: &Sum| wire::QueueRow::new(queue, &setting_of(&settings, queue), page.now());
        session
            .screen
            .print_json(&wire::List::whole(queues.iter().map(row)))?;
        return Ok(Exit::Done);
    }
    let everything = target::setting(&settings, &Target::All);
    if everything != Setting::default() {
        page.line(format!("All queues: {}", target::words(&everything, page.now())));
        page.blank();
    }
    if queues.is_empty() {
        page.say("There are no queues: a queue begins with its first job.");
    } else {
        page.table(&table(&queues, &settings, &page));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn setting_of(settings: &[(Target, Setting)], queue: &Sum) -> Setting {
    target::setting(settings, &Target::Queue(queue.name.clone()))
}

fn table(queues: &[Sum], settings: &[(Target, Setting)], page: &Page) -> Table {
    let mut table = Table::new([
        Column::wide("QUEUE"),
        Column::right("QUEUED"),
        Column::right("RUNNING"),
        Column::right("LATER"),
        Column::right("FAILED"),
        Column::left("OLDEST DUE"),
        Column::wide("SETTINGS"),
    ]);
    for queue in queues {
        let failed = queue.in_state(State::Failed);
        table.row([
            Table::cell(elide(queue.name.as_str(), 40)),
            count(queue.in_state(State::Queued)),
            count(queue.in_state(State::Running)),
            count(queue.in_state(State::Scheduled) + queue.in_state(State::Deferred)),
            paint(if failed > 0 { Tone::Bad } else { Tone::Plain }, count(failed)),
            queue
                .oldest_waiting
                .map_or_else(|| "-".to_owned(), |at| relative(at, page.now())),
            target::words(&setting_of(settings, queue), page.now()),
        ]);
    }
    table
}
