//! Acts on jobs and keys: one by one by their ids, or by filter with a plan first (contract 6.6).

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use semel::{Acted, Action, Client, Error, Operation, Operator, Selection, Status};
use semel_core::ids::JobId;

use crate::confirm::{self, Answer};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, clean, count, elide, one_line, paint, plural, state_tone};
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
        return show_only(&plan, session);
    }
    if !session.json() {
        let mut page = session.page();
        show(&plan, &mut page);
        session.screen.print(&page)?;
    }
    if confirm::agree("Carry this plan out?", act.yes, session) == Answer::No {
        session
            .screen
            .note(format!("nothing was done; later: --plan {}", plan.id));
        return Ok(Exit::NotPermitted);
    }
    let done = carry_out(&plan, act.rate, &client, &operator, session).await?;
    tell(&done, session)
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

fn show_only(plan: &Operation, session: &Session) -> Result<Exit, Problem> {
    if session.json() {
        session.screen.print_json(&wire::Operation::from(plan))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    show(plan, &mut page);
    if plan.total > 0 {
        page.blank();
        page.hint(format!(
            "nothing was done yet; carry it out with --yes, exactly this plan with --plan {} --yes",
            plan.id
        ));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn show(plan: &Operation, page: &mut Page) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let what = match plan.action {
        Action::Release => plural(number(plan.total), "key", "keys"),
        _ => plural(number(plan.total), "job", "jobs"),
    };
    page.line(format!(
        "{} {} {what}",
        paint(Tone::Strong, "plan:"),
        plan.action.word()
    ));
    let mut fields = Vec::new();
    let states = plan
        .by_state
        .iter()
        .map(|(state, n)| format!("{} {}", count(number(*n)), state.word()));
    let states: Vec<String> = states.collect();
    if !states.is_empty() {
        fields.push(("by state", states.join(", ")));
    }
    let tasks = plan
        .by_task
        .iter()
        .map(|(task, n)| format!("{} {}", count(number(*n)), clean(task.as_str())));
    let tasks: Vec<String> = tasks.collect();
    if !tasks.is_empty() {
        fields.push(("by task", elide(&tasks.join(", "), 400)));
    }
    if plan.ineligible > 0 {
        fields.push((
            "left alone",
            format!(
                "{} more match, but their state does not allow it",
                count(number(plan.ineligible))
            ),
        ));
    }
    if plan.collisions > 0 {
        let least = if plan.collisions_complete { "" } else { "at least " };
        fields.push((
            "will be refused",
            paint(
                Tone::Warn,
                format!(
                    "{least}{}: another job holds the key",
                    count(number(plan.collisions))
                ),
            ),
        ));
    }
    if !fields.is_empty() {
        page.fields(fields);
    }
    samples(plan, page);
}

fn samples(plan: &Operation, page: &mut Page) {
    if plan.samples.is_empty() {
        return;
    }
    page.heading(if plan.samples.len() as u64 == plan.total {
        "These"
    } else {
        "Some of them"
    });
    let mut table = Table::new([
        Column::left("ID"),
        Column::left("STATE"),
        Column::wide("TASK"),
        Column::wide("ERROR"),
    ]);
    for sample in &plan.samples {
        table.row([
            sample.id.to_string(),
            paint(state_tone(sample.state), sample.state.word()),
            Table::cell(elide(sample.task.as_str(), 30)),
            elide(&one_line(sample.error.as_deref().unwrap_or("-")), 80),
        ]);
    }
    page.table(&table);
}

/// Carries a plan out with progress; an interrupt stops it after the step under way.
async fn carry_out(
    plan: &Operation,
    rate: Option<u32>,
    client: &Client,
    operator: &Operator,
    session: &Session,
) -> Result<Operation, Problem> {
    let carrying = operator.carry_out(&plan.id);
    let carrying = rate
        .into_iter()
        .fold(carrying, |carrying, rate| carrying.rate(rate));
    let carrying = carrying.into_future();
    tokio::pin!(carrying);
    let bar = session.screen.is_watched().then(|| bar(plan.total));
    loop {
        tokio::select! {
            done = &mut carrying => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                return Ok(done?);
            }
            Ok(()) = tokio::signal::ctrl_c() => {
                session.screen.note("stopping after the step that is under way");
                operator.abort(&plan.id).await?;
            }
            () = tokio::time::sleep(Duration::from_millis(200)), if bar.is_some() => {
                if let (Some(bar), Ok(now)) = (&bar, client.operation(&plan.id).await) {
                    bar.set_position(now.progress.seen());
                }
            }
        }
    }
}

fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos}/{human_len}  {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn tell(done: &Operation, session: &Session) -> Result<Exit, Problem> {
    let refused: u64 = done.progress.refused.values().sum();
    let exit = if refused > 0 || done.status == Status::Aborted {
        Exit::Other
    } else {
        Exit::Done
    };
    if session.json() {
        session.screen.print_json(&wire::Operation::from(done))?;
        return Ok(exit);
    }
    let number = |n: u64| count(i64::try_from(n).unwrap_or(i64::MAX));
    let mut page = session.screen.plain_page();
    page.line("");
    let word = match done.action {
        Action::Cancel => "cancelled",
        Action::Retry => "retried",
        Action::Replay => "replayed",
        Action::Release => "released",
        Action::Delete => "deleted",
    };
    let tone = if exit == Exit::Done {
        Tone::Good
    } else {
        Tone::Warn
    };
    page.line(format!(
        "{} {} of {}",
        paint(tone, word),
        number(done.progress.done),
        number(done.total)
    ));
    for (reason, n) in &done.progress.refused {
        page.line(format!("  {} refused: {}", number(*n), reason.replace('_', " ")));
    }
    for (id, reason) in done.progress.refusals.iter().take(5) {
        page.line(format!("    {id}  {}", clean(reason)));
    }
    if done.status == Status::Aborted {
        page.say("It was stopped; what was done stays done.");
    }
    session.screen.print(&page)?;
    Ok(exit)
}
