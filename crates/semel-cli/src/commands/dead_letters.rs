//! `semel dead-letters`

mod list;

use clap::{Args, Subcommand};
use semel::Action;
use semel_core::ids::{JobId, Name};
use semel_core::store::JobFilter;

use crate::bulk::{self, ActArgs};
use crate::clock;
use crate::duration::Moment;
use crate::exit::Exit;
use crate::listing::said;
use crate::problem::Problem;
use crate::session::Session;

/// `semel dead-letters …`
#[derive(Debug, Subcommand)]
pub enum DeadLettersCommand {
    /// List dead letters, grouped by what they died of
    List(list::ListArgs),
    /// Make fresh jobs of dead letters; steps that are confirmed do not run again
    Replay(ActOnLetters),
    /// Drop dead letters
    Delete(ActOnLetters),
}

/// Which dead letters.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub struct LetterFilter {
    /// Of this task
    #[arg(long, value_name = "NAME")]
    pub task: Option<Name>,
    /// In this queue
    #[arg(long, value_name = "NAME")]
    pub queue: Option<Name>,
    /// Whose error contains this text
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Submitted since then: 2h (ago) or 2026-11-20T03:00:00Z
    #[arg(long, value_name = "WHEN")]
    pub since: Option<Moment>,
    /// Submitted before then
    #[arg(long, value_name = "WHEN")]
    pub until: Option<Moment>,
}

impl LetterFilter {
    fn is_empty(&self) -> bool {
        self.task.is_none()
            && self.queue.is_none()
            && self.error.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }

    /// What was said, as a server is asked.
    pub fn query(&self) -> Vec<(&'static str, String)> {
        let now = clock::now();
        let moment = |moment: Option<Moment>| moment.map(|moment| moment.resolve(now).to_string());
        said([
            ("task", self.task.as_ref().map(ToString::to_string)),
            ("queue", self.queue.as_ref().map(ToString::to_string)),
            ("error", self.error.clone()),
            ("since", moment(self.since)),
            ("until", moment(self.until)),
        ])
    }

    fn resolve(self) -> JobFilter {
        let now = clock::now();
        JobFilter {
            task: self.task,
            queue: self.queue,
            error: self.error,
            since: self.since.map(|moment| moment.resolve(now)),
            until: self.until.map(|moment| moment.resolve(now)),
            dead_letters: true,
            ..JobFilter::default()
        }
    }
}

/// Arguments of `semel dead-letters replay` and `delete`.
#[derive(Debug, Args)]
#[command(after_help = "\
With ids it is done at once. With a filter or --all the plan is shown first: a
terminal asks, --yes carries it out. A dead letter whose key another job holds
is refused and stays.")]
pub struct ActOnLetters {
    /// The dead letters
    #[arg(value_name = "ID", value_parser = |text: &str| JobId::new(text))]
    pub ids: Vec<JobId>,
    /// All there are
    #[arg(long)]
    pub all: bool,
    /// Or those like this.
    #[command(flatten)]
    pub filter: LetterFilter,
    /// How.
    #[command(flatten)]
    pub act: ActArgs,
}

/// Carries out a command.
pub async fn run(command: DeadLettersCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        DeadLettersCommand::List(args) => list::run(args, session).await,
        DeadLettersCommand::Replay(args) => act(Action::Replay, args, session).await,
        DeadLettersCommand::Delete(args) => act(Action::Delete, args, session).await,
    }
}

async fn act(action: Action, args: ActOnLetters, session: &Session) -> Result<Exit, Problem> {
    let filtered = args.all || !args.filter.is_empty();
    if args.ids.is_empty() {
        let which = filtered.then(|| args.filter.resolve().into());
        return bulk::by_plan(action, which, &args.act, session).await;
    }
    if filtered || args.act.plan.is_some() {
        return Err(Problem::usage("ids and a filter at once: allowed is one of them"));
    }
    bulk::one_by_one(action, &args.ids, &args.act, session).await
}
