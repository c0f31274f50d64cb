//! `semel jobs cancel` and `semel jobs retry`

use clap::Args;
use semel::Action;
use semel_core::ids::JobId;

use crate::bulk::{self, ActArgs};
use crate::commands::jobs::filter::FilterArgs;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// Arguments of `semel jobs cancel` and `semel jobs retry`.
#[derive(Debug, Args)]
#[command(after_help = "\
With ids it is done at once. With a filter the plan is shown first: a terminal
asks, --yes carries it out, exactly those that were planned. Ctrl-C stops it.")]
pub struct ActOnJobs {
    /// The jobs
    #[arg(value_name = "ID", value_parser = |text: &str| JobId::new(text))]
    pub ids: Vec<JobId>,
    /// Or those like this.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How.
    #[command(flatten)]
    pub act: ActArgs,
}

/// Acts on jobs.
pub async fn run(action: Action, args: ActOnJobs, session: &Session) -> Result<Exit, Problem> {
    if args.ids.is_empty() {
        let which = match args.filter.is_empty() {
            true => None,
            false => Some(args.filter.resolve(&*session.store().await?).await?.into()),
        };
        return bulk::by_plan(action, which, &args.act, session).await;
    }
    if !args.filter.is_empty() || args.act.plan.is_some() {
        return Err(Problem::usage("ids and a filter at once: allowed is one of them"));
    }
    bulk::one_by_one(action, &args.ids, &args.act, session).await
}
