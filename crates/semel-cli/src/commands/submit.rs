//! `semel submit`

mod answer;
pub mod input;
mod policy;
mod request;

pub use answer::{rehearse, sentence};
pub use policy::PolicyArgs;
pub use request::RequestArgs;

use clap::{Args, ValueEnum};
use semel_core::job::State;
use semel_core::view::Job;

use crate::duration::Length;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::operand;
use crate::session::Session;
use crate::{redact, wire};

/// Arguments of `semel submit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  semel submit send_mail '{\"to\":\"a@example.com\"}'
  semel submit charge @order.json --key charge-ORD-123
  echo '{}' | semel submit report - --unique-for 10m --dry-run=explain

The exit code is 0 for a new job and for an existing duplicate alike, 3 where
the policy rejects duplicates, 4 where the key was used for something else.")]
pub struct SubmitArgs {
    /// What to submit.
    #[command(flatten)]
    pub request: RequestArgs,
    /// Wait until the job has ended and say its output; =5m gives up then
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, help_heading = "Answer")]
    pub wait: Option<Option<Length>>,
    /// Write nothing, say what the answer would be; =explain says why
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "outcome")]
    #[arg(hide_possible_values = true, conflicts_with = "wait", help_heading = "Answer")]
    pub dry_run: Option<DryRun>,
    /// Say nothing but the job's id
    #[arg(long, short = 'q', conflicts_with = "json", help_heading = "Answer")]
    pub quiet: bool,
}

/// How much a rehearsal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// What the answer would be.
    Outcome,
    /// Also why.
    Explain,
}

/// Submits a job.
pub async fn run(args: SubmitArgs, session: &Session) -> Result<Exit, Problem> {
    if let Some(how) = args.dry_run {
        return answer::rehearse(args.request, how == DryRun::Explain, session).await;
    }
    let prepared = args.request.prepare(session)?;
    let client = session.create().await?;
    let sent = match prepared.build(&client)?.await {
        Ok(sent) => sent,
        Err(error) => return Err(answer::refused(error, session)?),
    };
    match args.wait {
        None => answer::admitted(sent.admitted(), args.quiet, &client, session).await,
        Some(at_most) => {
            session.screen.note(answer::sentence(sent.admitted()));
            let wait = sent.wait();
            let wait = at_most
                .into_iter()
                .fold(wait, |wait, length| wait.at_most(length.into()));
            ended(wait.await?, session)
        }
    }
}

/// Says how a job ended that was waited for.
pub fn ended(mut job: Job, session: &Session) -> Result<Exit, Problem> {
    redact::job(&mut job, &session.settings.file.redact);
    if session.json() {
        session.screen.print_json(&wire::Job::from(&job))?;
    } else if job.state == State::Complete {
        let output = job.output.as_ref().map_or("null", |output| output.as_str());
        session
            .screen
            .write(&format!("{}\n", crate::screen::clean(output)))?;
    }
    let told = |how: &str| format!("job {} {how}", job.id);
    let problem = match job.state {
        State::Complete => return Ok(Exit::Done),
        State::Cancelled => Problem::new(Exit::JobFailed, "job_cancelled", told("was cancelled")),
        _ => {
            let why = job
                .error
                .as_ref()
                .map_or(String::new(), |error| format!(": {}", error.message));
            Problem::new(Exit::JobFailed, "job_failed", told(&format!("failed{why}")))
        }
    };
    Err(problem
        .detail("state", job.state)
        .hint(format!("semel jobs show {}", operand(job.id.as_str()))))
}
