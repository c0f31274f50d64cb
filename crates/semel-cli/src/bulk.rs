//! Acts on jobs and keys: one by one by their ids, or by filter with a plan first (contract 6.6).

mod carrying;
mod plan;

use clap::Args;
use semel::{Acted, Action, Client, Error, Operation, Operator, Selection};
use semel_core::ids::JobId;

use crate::confirm::{self, Answer};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;
use crate::wire;

/// How an act is carried out.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Carrying out")]
pub struct ActArgs {
    /// Carry the plan out without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// At most so many a second
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
    /// Carry out a plan that was made before, or go on with one
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<String>,
}

/// Acts on single jobs, each at once.
pub async fn one_by_one(
    action: Action,
    ids: &[JobId],
    act: &ActArgs,
    session: &Session,
) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let operator = session.operator(&client, act.reason.as_deref());
    let mut page = session.page();
    let mut done = Vec::new();
    let mut problems = Vec::new();
    for id in ids {
        match act_on(action, id, &operator).await {
            Ok(acted) => done.push((id, acted)),
            Err(error) => problems.push(Problem::from(error)),
        }
    }
    if session.json() {
        let items = done.iter().map(|(id, acted)| wire::Acted::new(id, acted));
        session.screen.print_json(&wire::List::whole(items))?;
    } else if !done.is_empty() {
        done.iter()
            .for_each(|(id, acted)| page.say(sentence(action, id, acted)));
        session.screen.print(&page)?;
    }
    match problems.split_last() {
        None => Ok(Exit::Done),
        Some((last, others)) => {
            others.iter().for_each(|problem| session.screen.problem(problem));
            Err(last.clone())
        }
    }
}

async fn act_on(action: Action, id: &JobId, operator: &Operator) -> Result<Acted, Error> {
    match action {
        Action::Cancel => operator.cancel(id).await,
        Action::Retry => operator.retry(id).await,
        Action::Replay => operator.replay(id).await,
        Action::Delete | Action::Release => operator.delete(id).await,
    }
}

fn sentence(action: Action, id: &JobId, acted: &Acted) -> String {
    let state = acted
        .state
        .map_or(String::new(), |state| format!(", {}", state.word()));
    match action {
        Action::Cancel => format!("Job {id} is cancelled."),
        Action::Retry => format!("Job {id} has a new life{state}."),
        Action::Replay if acted.state.is_none() => format!("Job {id} was replayed before, as {}.", acted.id),
        Action::Replay => format!("Job {id} is replayed as {}{state}.", acted.id),
        Action::Delete | Action::Release => format!("Job {id} is deleted."),
    }
}

/// Plans, shows the plan, asks, and carries it out.
pub async fn by_plan(
    action: Action,
    which: Option<Selection>,
    act: &ActArgs,
    session: &Session,
) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let operator = session.operator(&client, act.reason.as_deref());
    let plan = match (&act.plan, which) {
        (Some(id), _) => made_before(action, id, &client).await?,
        (None, Some(which)) => {
            let _busy = session.screen.busy("looking for what is meant");
            operator.plan(action, which).await?
        }
        (None, None) => return Err(nothing_named(action)),
    };
    if plan.total == 0 || !(act.yes || session.screen.can_ask()) {
        return plan::show_only(&plan, session);
    }
    if !session.json() {
        let mut page = session.page();
        plan::show(&plan, &mut page);
        session.screen.print(&page)?;
    }
    if confirm::agree("Carry this plan out?", act.yes, session) == Answer::No {
        session
            .screen
            .note(format!("nothing was done; later: --plan {}", plan.id));
        return Ok(Exit::NotPermitted);
    }
    let done = carrying::carry_out(&plan, act.rate, &client, &operator, session).await?;
    plan::tell(&done, session)
}

async fn made_before(action: Action, id: &str, client: &Client) -> Result<Operation, Problem> {
    let plan = client.operation(id).await?;
    if plan.action != action {
        return Err(Problem::usage(format!(
            "plan {id} is to {}, not to {}",
            plan.action.word(),
            action.word()
        )));
    }
    Ok(plan)
}

/// What is said when neither jobs nor a filter are named.
pub fn nothing_named(action: Action) -> Problem {
    Problem::usage(format!("nothing to {} was named", action.word()))
        .hint("name ids, or a filter such as --task NAME; --help lists them")
}
