//! `semel steps list`

use clap::Args;
use semel_core::ids::JobId;
use semel_core::step::StepState;
use semel_core::view::StepView;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Page, Table, Tone, elide, one_line, paint, plural, relative};
use crate::session::Session;
use crate::{redact, wire};

/// Arguments of `semel steps list`.
#[derive(Debug, Args)]
#[command(after_help = "\
A step is in doubt when a worker died between an effect and its record, and
nobody is at it now. `semel steps resolve` decides.")]
pub struct ListArgs {
    /// All steps of this job and of those it came from, whatever their state
    #[arg(long, value_name = "ID", value_parser = |text: &str| JobId::new(text))]
    pub job: Option<JobId>,
}

/// Lists steps (contract 5.2).
pub async fn run(args: ListArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let mut steps = match &args.job {
        Some(id) => client.job(id.as_str())?.steps().await?,
        None => client.steps_in_doubt().await?,
    };
    for step in &mut steps {
        redact::step(step, &session.settings.file.redact);
    }
    if session.json() {
        let items = steps.iter().map(wire::StepRow::from);
        session.screen.print_json(&wire::List::whole(items))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    match (&args.job, steps.is_empty()) {
        (Some(id), true) => page.say(format!("Job {id} has begun no step.")),
        (Some(_), false) => page.table(&of_a_job(&steps, &page)),
        (None, true) => page.say("No step is in doubt."),
        (None, false) => in_doubt(&steps, &mut page),
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn in_doubt(steps: &[StepView], page: &mut Page) {
    let mut table = Table::new([
        Column::left("ORIGIN"),
        Column::wide("STEP"),
        Column::left("BEGUN"),
        Column::wide("BY JOB"),
    ]);
    for step in steps {
        let job = match step.job == step.origin {
            true => "the same".to_owned(),
            false => step.job.to_string(),
        };
        table.row([
            Table::cell(step.origin.as_str()),
            Table::cell(elide(step.name.as_str(), 30)),
            relative(step.begun_at, page.now()),
            Table::cell(job),
        ]);
    }
    page.table(&table);
    page.blank();
    page.say(format!(
        "{} may have happened and nobody is at it.",
        plural(steps.len() as i64, "effect", "effects")
    ));
    page.hint("look whether it has, then: semel steps resolve ORIGIN STEP --happened | --did-not-happen --reason TEXT");
}

/// The steps of one job.
pub fn of_a_job(steps: &[StepView], page: &Page) -> Table {
    let mut table = Table::new([
        Column::wide("STEP"),
        Column::left("STATE"),
        Column::left("BEGUN"),
        Column::wide("OUTPUT"),
    ]);
    for step in steps {
        let (tone, word) = standing(step);
        let output = step.output.as_ref().map_or("-", |output| output.as_str());
        table.row([
            Table::cell(elide(step.name.as_str(), 30)),
            paint(tone, word),
            relative(step.begun_at, page.now()),
            elide(&one_line(output), 60),
        ]);
    }
    table
}

fn standing(step: &StepView) -> (Tone, &'static str) {
    match step.state {
        _ if step.in_doubt => (Tone::Warn, "in doubt"),
        StepState::Begun => (Tone::Busy, "begun"),
        StepState::Confirmed => (Tone::Good, "confirmed"),
        StepState::Refused => (Tone::Quiet, "did not happen"),
    }
}
