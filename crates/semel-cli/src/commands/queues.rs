//! `semel queues`

mod list;

use clap::{Args, Subcommand};
use semel_core::ids::Name;
use semel_core::store::Target;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::plural;
use crate::session::Session;
use crate::steer::{self, Lever};
use crate::target::{self, PauseArgs, TargetArgs};
use crate::{confirm, lanes};

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
    Close(PauseArgs),
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
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Carries out a command.
pub async fn run(command: QueuesCommand, session: &Session) -> Result<Exit, Problem> {
    let queue = |target: TargetArgs| target.target(Target::Queue);
    match command {
        QueuesCommand::List => list::run(session).await,
        QueuesCommand::Pause(args) => steer::pause(args, Target::Queue, session).await,
        QueuesCommand::Resume(args) => steer::run(queue(args), Lever::Resume, None, session).await,
        QueuesCommand::Close(args) => steer::close(args, Target::Queue, session).await,
        QueuesCommand::Open(args) => steer::run(queue(args), Lever::Open, None, session).await,
        QueuesCommand::Unique(args) => {
            steer::run(queue(args.target), Lever::Unique(!args.off), None, session).await
        }
        QueuesCommand::Delete(args) => delete(args, session).await,
    }
}

async fn delete(args: DeleteArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let stats = client.store().stats().await?;
    let queues = lanes::by_queue(&stats.lanes);
    let Some(queue) = queues.iter().find(|queue| queue.name == args.name) else {
        let known = stats.lanes.iter().map(|lane| &lane.queue);
        let hint = target::unseen("queue", &args.name, known).unwrap_or_default();
        return Err(Problem::not_found(format!("there is no queue {}", args.name)).hint(hint));
    };
    let plan = format!(
        "this removes queue {} with {}, {} of them not ended; their keys become free, late settles are refused, counters stay",
        args.name,
        plural(queue.jobs.values().sum(), "job", "jobs"),
        queue.open()
    );
    confirm::ask(&plan, args.yes, session)?;
    let operator = session.operator(&client, args.reason.as_deref());
    let removed = operator.remove_queue(args.name.as_str()).await?;
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
