//! `semel keys release`

use clap::Args;
use semel::Action;
use semel_core::ids::{JobId, Name};
use semel_core::store::KeyFilter;

use crate::bulk::{self, ActArgs};
use crate::commands::keys::find;
use crate::confirm;
use crate::exit::Exit;
use crate::listing::said;
use crate::problem::Problem;
use crate::screen::clean;
use crate::session::Session;

/// Arguments of `semel keys release`.
#[derive(Debug, Args)]
#[command(after_help = "\
The key of the job that is meant is freed, and only if that job still holds it:
name it with --holder, or a terminal asks. Every release is on record, with its
reason. The job itself is not touched.")]
pub struct ReleaseArgs {
    /// The key: its text, its digest, or the beginning of its digest
    pub key: Option<String>,
    /// The job that is meant to hold it
    #[arg(long, value_name = "ID", requires = "key", value_parser = |text: &str| JobId::new(text))]
    pub holder: Option<JobId>,
    /// Or the keys of this task, planned first
    #[arg(long, value_name = "NAME", conflicts_with = "key", help_heading = "Filter")]
    pub task: Option<Name>,
    /// Or those whose text contains this
    #[arg(long, value_name = "PART", conflicts_with = "key", help_heading = "Filter")]
    pub text: Option<String>,
    /// How.
    #[command(flatten)]
    pub act: ActArgs,
}

impl ReleaseArgs {
    /// Which keys are meant besides one that is named, as a server is asked.
    pub fn query(&self) -> Vec<(&'static str, String)> {
        said([
            ("task", self.task.as_ref().map(ToString::to_string)),
            ("text", self.text.clone()),
        ])
    }
}

/// Frees keys by hand (contract 7.3).
pub async fn run(args: ReleaseArgs, session: &Session) -> Result<Exit, Problem> {
    if args
        .act
        .reason
        .as_deref()
        .is_none_or(|reason| reason.trim().is_empty())
    {
        return Err(
            Problem::usage("releasing a key without a reason: allowed is --reason TEXT")
                .hint("whoever reads the record will want to know"),
        );
    }
    let Some(said) = &args.key else {
        let filtered = args.task.is_some() || args.text.is_some();
        let which = filtered.then(|| KeyFilter {
            task: args.task.clone(),
            text: args.text.clone(),
            ..KeyFilter::default()
        });
        return bulk::by_plan(Action::Release, which.map(Into::into), &args.act, session).await;
    };
    let client = session.existing().await?;
    let row = find(&**client.store(), said).await?;
    if !row.key.held {
        return Err(Problem::not_found(format!(
            "key {:?} is free: nobody holds it",
            clean(said)
        )));
    }
    let holder = match &args.holder {
        Some(holder) => holder.clone(),
        None => {
            let plan = format!(
                "this frees key {:?}, held by job {} ({}, {}); the job is not touched, and a second one can then be admitted",
                clean(said),
                row.holder.id,
                row.holder.task,
                row.holder.state.word()
            );
            confirm::ask(&plan, args.act.yes, session)?;
            row.holder.id.clone()
        }
    };
    let operator = session.operator(&client, args.act.reason.as_deref());
    operator
        .release(row.key.digest, &holder)
        .await
        .map_err(|error| changed(error, &row.holder.id))?;
    if session.json() {
        session
            .screen
            .print_json(&serde_json::json!({ "digest": row.key.digest, "holder": holder }))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(format!(
        "Key {:?} is free; job {holder} no longer holds it.",
        clean(said)
    ));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

/// Another job holds the key than the one that was meant.
fn changed(error: semel::Error, now_held_by: &JobId) -> Problem {
    let refused = matches!(
        error,
        semel::Error::NotFound { .. } | semel::Error::Duplicate { .. }
    );
    let problem = Problem::from(error);
    match refused {
        true => problem.hint(format!(
            "nothing was freed; the key is held by job {now_held_by} now"
        )),
        false => problem,
    }
}
