//! `semel schedules`

use clap::{Args, Subcommand, ValueEnum};
use semel::schedule::{self, Overlap, Schedule, ScheduleView, TickOutcome};
use semel_core::ids::Name;
use semel_core::time::Millis;

use crate::commands::submit::input;
use crate::confirm;
use crate::duration::Length;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, clean, elide, paint, relative};
use crate::session::Session;
use crate::{redact, wire};

/// `semel schedules …`
#[derive(Debug, Subcommand)]
pub enum SchedulesCommand {
    /// List schedules with their last and next tick
    List,
    /// Make or change a schedule
    Set(SetArgs),
    /// Remove a schedule; jobs it has submitted stay
    Delete(DeleteArgs),
}

/// Arguments of `semel schedules set`.
#[derive(Debug, Args)]
#[command(
    override_usage = "semel schedules set [OPTIONS] --cron <PATTERN> --task <NAME>\n                           <NAME> [JSON|-|@FILE]"
)]
#[command(after_help = "\
Each tick is submitted once, however many workers there are; after a time
without any worker only the latest missed tick is made up for. Five fields:
minute, hour, day of month, month, day of week; six with the second in front;
or a nickname such as @daily.

Example:
  semel schedules set report --cron '30 8 * * MON-FRI' --zone Europe/Berlin \\
        --task report '{\"kind\":\"daily\"}'")]
pub struct SetArgs {
    /// Its name
    pub name: String,
    /// What the handler gets: JSON, - for stdin, @FILE [default: null]
    #[arg(value_name = "JSON|-|@FILE")]
    pub input: Option<String>,
    /// When, such as '30 8 * * MON-FRI' or @hourly
    #[arg(long, value_name = "PATTERN")]
    pub cron: String,
    /// The kind of work
    #[arg(long, value_name = "NAME")]
    pub task: String,
    /// In which time zone
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub zone: String,
    /// While the job before is not done: skip, queue or replace
    #[arg(long, value_name = "HOW", default_value = "skip", hide_possible_values = true)]
    pub overlap: OverlapWord,
    /// Where its jobs wait [default: default]
    #[arg(long, value_name = "NAME")]
    pub queue: Option<Name>,
    /// -100 to 100, larger first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i8>,
    /// How many attempts may end in an error [default: 5]
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<u32>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Length>,
}

/// What happens while the job before is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverlapWord {
    /// No job this time.
    Skip,
    /// Another one beside it.
    Queue,
    /// Another one in its place.
    Replace,
}

impl From<OverlapWord> for Overlap {
    fn from(word: OverlapWord) -> Self {
        match word {
            OverlapWord::Skip => Overlap::Skip,
            OverlapWord::Queue => Overlap::Queue,
            OverlapWord::Replace => Overlap::Replace,
        }
    }
}

/// Arguments of `semel schedules delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Its name
    pub name: String,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// Carries out a command.
pub async fn run(command: SchedulesCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        SchedulesCommand::List => list(session).await,
        SchedulesCommand::Set(args) => set(args, session).await,
        SchedulesCommand::Delete(args) => delete(args, session).await,
    }
}

async fn list(session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let mut schedules = schedule::list(&client).await?;
    for one in &mut schedules {
        redact::schedule(one, &session.settings.file.redact);
    }
    if session.json() {
        let items = schedules.iter().map(wire::Schedule::from);
        session.screen.print_json(&wire::List::whole(items))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if schedules.is_empty() {
        page.say("There are no schedules.");
    } else {
        page.table(&table(&schedules, &page));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn table(schedules: &[ScheduleView], page: &Page) -> Table {
    let mut table = Table::new([
        Column::wide("NAME"),
        Column::wide("CRON"),
        Column::wide("ZONE"),
        Column::wide("TASK"),
        Column::left("NEXT"),
        Column::wide("LAST"),
        Column::right("SKIPPED"),
    ]);
    for view in schedules {
        let schedule = &view.schedule;
        table.row([
            Table::cell(elide(schedule.name.as_str(), 30)),
            Table::cell(&schedule.cron),
            Table::cell(&schedule.zone),
            Table::cell(elide(schedule.task.as_str(), 24)),
            view.next
                .map_or_else(|| paint(Tone::Warn, "never"), |at| relative(at, page.now())),
            last(view, page),
            view.skipped.to_string(),
        ]);
    }
    table
}

fn last(view: &ScheduleView, page: &Page) -> String {
    let Some(tick) = &view.last else {
        return "-".to_owned();
    };
    let (tone, word) = match tick.outcome {
        TickOutcome::Submitted => (Tone::Plain, "submitted"),
        TickOutcome::Skipped => (Tone::Warn, "skipped"),
        TickOutcome::Replaced => (Tone::Plain, "replaced"),
        TickOutcome::Refused => (Tone::Bad, "refused"),
    };
    let why = tick
        .error
        .as_deref()
        .map_or(String::new(), |error| format!(": {}", clean(error)));
    format!("{} {}{why}", paint(tone, word), relative(tick.due, page.now()))
}

async fn set(args: SetArgs, session: &Session) -> Result<Exit, Problem> {
    let input = input::read(args.input.as_deref())?;
    let client = session.existing().await?;
    let mut wanted = Schedule::named(&args.name, args.cron, &args.task, input)?
        .zone(args.zone)
        .overlap(args.overlap.into());
    wanted.queue = args.queue;
    wanted.priority = args.priority;
    wanted.max_attempts = args.max_attempts;
    wanted.timeout_ms = args.timeout.map(|timeout| Millis::from(timeout).as_millis());
    let mut view = schedule::put(&client, &wanted).await?;
    redact::schedule(&mut view, &session.settings.file.redact);
    if session.json() {
        session.screen.print_json(&wire::Schedule::from(&view))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    let next = view.next.map_or_else(|| "never".to_owned(), |at| page.when(at));
    page.say(format!(
        "Schedule {} submits task {}; the next time {next}.",
        args.name, args.task
    ));
    let live = crate::live::LiveWorkers::look(&client).await?;
    let queue = wanted
        .queue
        .clone()
        .unwrap_or_else(semel_core::limits::default_queue);
    if let Some(hint) = live.hint([(&wanted.task, &queue)]) {
        page.hint(hint);
        page.say("Schedules are carried out by workers, whatever they work on.");
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

async fn delete(args: DeleteArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    if schedule::get(&client, &args.name).await?.is_none() {
        return Err(
            Problem::not_found(format!("there is no schedule {:?}", clean(&args.name)))
                .hint("semel schedules list shows them"),
        );
    }
    confirm::ask(
        &format!("this removes schedule {}; jobs it has submitted stay", args.name),
        args.yes,
        session,
    )?;
    schedule::delete(&client, &args.name).await?;
    if session.json() {
        session
            .screen
            .print_json(&serde_json::json!({ "name": args.name, "deleted": true }))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(format!("Schedule {} was removed.", args.name));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}
