//! `semel outbox relay`

use clap::Args;
use semel_outbox::{Relay, Round};

use crate::commands::outbox::{From, page};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::plural;
use crate::session::{Session, asked_to_stop};
use crate::settings::absolute;

/// Arguments of `semel outbox relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs until it is asked to stop. An event is marked only after the store has
answered, and its id is the key of its job: killed at any moment and started
again, it gives the same jobs. Several relays may run at once. Where there is
no store yet it makes one.

Example:
  semel outbox relay --from postgres://shop@localhost/shop --to sqlite:jobs.db")]
pub struct RelayArgs {
    /// Where the outbox is.
    #[command(flatten)]
    pub from: From,
    /// The job store, as --store
    #[arg(long, value_name = "URL")]
    pub to: Option<String>,
    /// Stop once nothing is due
    #[arg(long)]
    pub drain: bool,
    /// Try parked events again, first of all
    #[arg(long)]
    pub retry_parked: bool,
    /// Events in one go, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub batch: u16,
    /// How often an event is tried before it is parked
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_attempts: u32,
}

/// Relays events.
pub async fn run(args: RelayArgs, session: &Session) -> Result<Exit, Problem> {
    let mut session = session.clone();
    if let Some(to) = &args.to {
        let here = std::env::current_dir().map_err(anyhow::Error::from)?;
        session.settings.store.value = absolute(to, &here)?;
    }
    let source = args.from.open().await?;
    let client = session.create().await?;
    if args.retry_parked {
        source.unpark(None).await?;
    }
    let relay = Relay::new(source.clone(), &client)
        .batch(usize::from(args.batch))
        .max_attempts(args.max_attempts);
    let round = match args.drain {
        true => relay.drain().await?,
        false => relay.run_until(asked_to_stop()).await,
    };
    if session.json() {
        session.screen.print_json(&round)?;
        return Ok(Exit::Done);
    }
    let mut page = page(&*source, &session);
    tell(&round, &client, &mut page);
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn tell(round: &Round, client: &semel::Client, page: &mut crate::screen::Page) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let sent = plural(number(round.sent), "event is a job", "events are jobs");
    page.say(format!("{sent} in {}.", client.url()));
    if round.repeated > 0 {
        page.say(format!(
            "{} before: a relay ended after the store had answered.",
            plural(number(round.repeated), "of them was one", "of them were some")
        ));
    }
    if round.later > 0 {
        page.say(format!(
            "{} tried again later.",
            plural(number(round.later), "event is", "events are")
        ));
    }
    if round.parked > 0 {
        page.say(format!(
            "{} parked.",
            plural(number(round.parked), "event was", "events were")
        ));
        page.hint("semel outbox status says why");
    }
}
