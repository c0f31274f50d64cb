//! `semel queues`

mod list;

use clap::{Args, Subcommand};
use semel_core::ids::Name;
use semel_core::store::{SettingChange, Target};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::plural;
use crate::session::Session;
use crate::target::{self, PauseArgs, TargetArgs};
use crate::{clock, confirm, lanes, wire};

/// `semel queues …`
#[derive(Debug, Subcommand)]
pub enum QueuesCommand {
    /// List queues with their jobs and settings
    List,
    /// Hand out no more work from a queue; what runs goes on
    Pause(PauseArgs),
    /// Hand out work again
    Resume(TargetArgs),
    /// Deduplicate by input whatever brings no policy of its own
    Unique(UniqueArgs),
    /// Refuse submissions
    Close(TargetArgs),
    /// Take submissions again
    Open(TargetArgs),
    /// Remove a queue with all its jobs
    Delete(DeleteArgs),
}

/// Arguments of `semel queues unique`.
#[derive(Debug, Args)]
pub struct UniqueArgs {
    /// What.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Stop doing so
    #[arg(long)]
    pub off: bool,
}

/// Arguments of `semel queues delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Its name
    pub name: Name,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// Carries out a command.
pub async fn run(command: QueuesCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        QueuesCommand::List => list::run(session).await,
        QueuesCommand::Pause(args) => {
            let change = SettingChange::Pause {
                lasting: args.lasting.map(Into::into),
                reason: args.reason,
            };
            set(args.target, change, "paused", session).await
        }
        QueuesCommand::Resume(args) => set(args, SettingChange::Resume, "resumed", session).await,
        QueuesCommand::Close(args) => {
            set(args, SettingChange::Intake { open: false }, "closed", session).await
        }
        QueuesCommand::Open(args) => set(args, SettingChange::Intake { open: true }, "open", session).await,
        QueuesCommand::Unique(args) => {
            let how = if args.off { "no longer unique" } else { "unique" };
            set(
                args.target,
                SettingChange::Unique { unique: !args.off },
                how,
                session,
            )
            .await
        }
        QueuesCommand::Delete(args) => delete(args, session).await,
    }
}

async fn set(
    target: TargetArgs,
    change: SettingChange,
    how: &str,
    session: &Session,
) -> Result<Exit, Problem> {
    change_setting(target.target(Target::Queue), change, how, session).await
}

/// Changes a setting and says how it is now; `tasks` does the same.
pub async fn change_setting(
    target: Target,
    change: SettingChange,
    how: &str,
    session: &Session,
) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let now = clock::now();
    let setting = store.set(target.clone(), change).await?;
    if session.json() {
        session.screen.print_json(&wire::Setting::at(&setting, now))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(format!("{} is {how}.", capital(&target::told(&target))));
    let lanes = store.stats().await?.lanes;
    let unseen = match &target {
        Target::All => None,
        Target::Queue(name) => target::check_known("queue", name, lanes.iter().map(|lane| &lane.queue)),
        Target::Task(name) => target::check_known("task", name, lanes.iter().map(|lane| &lane.task)),
    };
    if let Some(hint) = unseen {
        page.hint(hint);
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

async fn delete(args: DeleteArgs, session: &Session) -> Result<Exit, Problem> {
    let store = session.store().await?;
    let stats = store.stats().await?;
    let queues = lanes::by_queue(&stats.lanes);
    let Some(queue) = queues.iter().find(|queue| queue.name == args.name) else {
        let known = stats.lanes.iter().map(|lane| &lane.queue);
        let hint = target::check_known("queue", &args.name, known).unwrap_or_default();
        return Err(target::unknown("queue", &args.name, hint));
    };
    let plan = format!(
        "This removes queue {} with {}, {} of them not ended. Their keys become free, late settles are refused. Counters stay.",
        args.name,
        plural(queue.jobs.values().sum(), "job", "jobs"),
        queue.open()
    );
    confirm::ask(&plan, args.yes, session)?;
    let removed = store.remove_queue(&args.name).await?;
    if session.json() {
        session
            .screen
            .print_json(&serde_json::json!({ "queue": args.name, "jobs": removed }))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(format!(
        "Queue {} was removed with {}.",
        args.name,
        plural(removed, "job", "jobs")
    ));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
