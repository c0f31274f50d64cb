//! `semel steps resolve`

use clap::Args;
use semel_core::ids::{JobId, Name};
use semel_core::step::Resolution;

use crate::commands::submit::input;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::clean;
use crate::session::Session;

/// Arguments of `semel steps resolve`.
#[derive(Debug, Args)]
#[command(
    override_usage = "semel steps resolve <ORIGIN> <STEP> --happened [--output <JSON>]\n                           --reason <TEXT>\n       semel steps resolve <ORIGIN> <STEP> --did-not-happen --reason <TEXT>"
)]
#[command(after_help = "\
What happened is never run again, and its output is what the handler gets. What
did not happen is run again, with a fresh downstream key. A parked job goes back
to its queue.

Example:
  semel steps resolve 01a3185c-… mail --happened --output '{\"id\":\"m_1\"}' \\
        --reason 'found in the outbox of the provider'")]
pub struct ResolveArgs {
    /// The first job of the chain, as `semel steps list` shows it
    #[arg(value_parser = |text: &str| JobId::new(text))]
    pub origin: JobId,
    /// The step
    pub step: Name,
    /// The effect has happened
    #[arg(long, conflicts_with = "did_not_happen")]
    pub happened: bool,
    /// The effect has certainly not happened
    #[arg(long)]
    pub did_not_happen: bool,
    /// What the effect gave: JSON, - for stdin, @FILE [default: null]
    #[arg(long, value_name = "JSON|-|@FILE", conflicts_with = "did_not_happen")]
    pub output: Option<String>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Decides about a step in doubt (contract 5.2).
pub async fn run(args: ResolveArgs, session: &Session) -> Result<Exit, Problem> {
    let resolution = match (args.happened, args.did_not_happen) {
        (true, false) => Resolution::Happened {
            output: input::read(args.output.as_deref())?,
        },
        (false, true) => Resolution::DidNot,
        _ => {
            return Err(Problem::usage(
                "a step in doubt: allowed is --happened or --did-not-happen",
            ));
        }
    };
    let reason = args.reason.as_deref().map(str::trim).unwrap_or_default();
    if reason.is_empty() {
        return Err(
            Problem::usage("resolving a step without a reason: allowed is --reason TEXT")
                .hint("whoever reads the record will want to know"),
        );
    }
    let client = session.existing().await?;
    let acted = session
        .operator(&client, Some(reason))
        .resolve(&args.origin, args.step.as_str(), resolution)
        .await
        .map_err(explained)?;
    if session.json() {
        session.screen.print_json(&serde_json::json!({
            "origin": args.origin,
            "step": args.step,
            "happened": args.happened,
            "job": acted.id,
            "state": acted.state,
        }))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    let decided = match args.happened {
        true => "has happened: it is never run again",
        false => "has not happened: it is run again",
    };
    page.say(format!("Step {} {decided}.", clean(args.step.as_str())));
    if let Some(state) = acted.state {
        page.say(format!("Job {} is {}.", acted.id, state.word()));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn explained(error: semel::Error) -> Problem {
    let hint = match &error {
        semel::Error::NotInDoubt { .. } => "semel steps list --job ID shows how the steps of a job stand",
        semel::Error::NotFound { .. } => "semel steps list shows what is in doubt, by origin and name",
        _ => return error.into(),
    };
    Problem::from(error).hint(hint)
}
