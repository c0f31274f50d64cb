//! The plan of a bulk act, and what came of it, on a page.

use semel::{Action, Operation, Status};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, clean, count, elide, one_line, paint, plural, state_tone};
use crate::session::Session;
use crate::wire;

/// Shows a plan and how to carry it out.
pub fn show_only(plan: &Operation, session: &Session) -> Result<Exit, Problem> {
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

/// What is going to be done, to how many, to whom.
pub fn show(plan: &Operation, page: &mut Page) {
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

/// Says what came of a plan.
pub fn tell(done: &Operation, session: &Session) -> Result<Exit, Problem> {
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
