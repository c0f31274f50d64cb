//! Pausing, resuming, closing, opening: what the nouns `queues` and `tasks` do alike.

use semel_core::ids::Name;
use semel_core::store::Target;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::capital;
use crate::session::Session;
use crate::target::{self, PauseArgs};
use crate::{clock, wire};

/// What is done to a queue or task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// Hold work back, for a while or until resumed.
    Pause(Option<std::time::Duration>),
    /// Let work go on.
    Resume,
    /// Refuse submissions, for a while or until opened.
    Close(Option<std::time::Duration>),
    /// Take submissions again.
    Open,
    /// Deduplicate by input, or no longer.
    Unique(bool),
}

impl Lever {
    fn now_is(self) -> &'static str {
        match self {
            Lever::Pause(_) => "paused: what runs goes on, nothing else is handed out",
            Lever::Resume => "no longer paused",
            Lever::Close(_) => "closed: submissions are refused",
            Lever::Open => "open for submissions",
            Lever::Unique(true) => "unique: submissions without a policy are deduplicated by input",
            Lever::Unique(false) => "no longer unique",
        }
    }
}

/// Pauses what the arguments name.
pub async fn pause(
    args: PauseArgs,
    named: impl Fn(Name) -> Target,
    session: &Session,
) -> Result<Exit, Problem> {
    let lever = Lever::Pause(args.lasting.map(Into::into));
    run(args.target.target(named), lever, args.reason.as_deref(), session).await
}

/// Closes what the arguments name.
pub async fn close(
    args: PauseArgs,
    named: impl Fn(Name) -> Target,
    session: &Session,
) -> Result<Exit, Problem> {
    let lever = Lever::Close(args.lasting.map(Into::into));
    run(args.target.target(named), lever, args.reason.as_deref(), session).await
}

/// Pulls a lever and says how things are now.
pub async fn run(
    target: Target,
    lever: Lever,
    reason: Option<&str>,
    session: &Session,
) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let operator = session.operator(&client, reason);
    let meant = target.clone();
    let setting = match lever {
        Lever::Pause(None) => operator.pause(meant).await?,
        Lever::Pause(Some(length)) => operator.pause_for(meant, length).await?,
        Lever::Resume => operator.resume(meant).await?,
        Lever::Close(None) => operator.close(meant).await?,
        Lever::Close(Some(length)) => operator.close_for(meant, length).await?,
        Lever::Open => operator.open(meant).await?,
        Lever::Unique(unique) => operator.unique(meant, unique).await?,
    };
    if session.json() {
        session
            .screen
            .print_json(&wire::Setting::at(&setting, clock::now()))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(capital(&format!(
        "{} is {}.",
        target::told(&target),
        lever.now_is()
    )));
    let lanes = client.store().stats().await?.lanes;
    let unseen = match &target {
        Target::All => None,
        Target::Queue(name) => target::unseen("queue", name, lanes.iter().map(|lane| &lane.queue)),
        Target::Task(name) => target::unseen("task", name, lanes.iter().map(|lane| &lane.task)),
    };
    if let Some(hint) = unseen {
        page.hint(hint);
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}
