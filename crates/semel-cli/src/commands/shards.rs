//! `semel shards`

use clap::{Args, Subcommand};
use semel_core::error::StoreError;
use semel_redis::{RedisOptions, ShardChange, ShardOutcome, ShardPlan};
use serde_json::json;

use crate::confirm;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Page, Tone, count, paint, plural};
use crate::session::Session;

/// `semel shards …`
#[derive(Debug, Subcommand)]
pub enum ShardsCommand {
    /// Say over how many shards a Redis store is spread
    Show,
    /// Spread a Redis store over another number of shards
    Set(SetArgs),
}

/// Arguments of `semel shards set`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nobody may work meanwhile: stop workers, servers and producers first. Whoever
still has the store open is refused from the first step on and has to open it
again, with the new number in its URL. Everything stays: jobs and their ids,
keys, the ledger, counters, documents. For a while the servers hold everything
twice.

Killed anywhere, the same command finishes the work; until then the store is
refused to all others. The old number takes an unfinished change back.

Example:
  semel shards set 4 --store redis://localhost/0
  then: --store 'redis://localhost/0?shards=4'")]
pub struct SetArgs {
    /// How many shards: 1 to 1024
    #[arg(value_name = "NUMBER")]
    pub shards: usize,
    /// Say what would be done; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Begin although somebody seems to be at work
    #[arg(long)]
    pub force: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// Carries out a command.
pub async fn run(command: ShardsCommand, session: &Session) -> Result<Exit, Problem> {
    let options = options(session)?;
    match command {
        ShardsCommand::Show => show(&options, session).await,
        ShardsCommand::Set(args) => set(args, &options, session).await,
    }
}

fn options(session: &Session) -> Result<RedisOptions, Problem> {
    let url = &session.settings.store.value;
    if !url.starts_with("redis") {
        return Err(
            Problem::usage("only a Redis store has shards that can be changed")
                .hint("--store redis://HOST, or redis+cluster://HOST"),
        );
    }
    Ok(RedisOptions::from_url(url)?)
}

async fn show(options: &RedisOptions, session: &Session) -> Result<Exit, Problem> {
    let shards = ShardChange::count(options).await?;
    if session.json() {
        session.screen.print_json(&json!({ "shards": shards }))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(format!("The store is spread over {}.", shards_word(shards)));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

async fn set(args: SetArgs, options: &RedisOptions, session: &Session) -> Result<Exit, Problem> {
    let change = ShardChange::new(options, args.shards).await?;
    let plan = change.plan().await?;
    if args.dry_run || plan.is_done() {
        return tell_plan(&plan, session);
    }
    confirm::ask(&in_words(&plan), args.yes, session)?;
    let bar = session.screen.progress();
    let outcome = change
        .carry_out(args.force, &mut |progress| {
            bar.tell(progress.doing, progress.done, progress.of);
            Ok::<(), StoreError>(())
        })
        .await;
    drop(bar);
    tell_outcome(&plan, outcome?, session)
}

fn shards_word(shards: usize) -> String {
    plural(i64::try_from(shards).unwrap_or(i64::MAX), "shard", "shards")
}

fn jobs_word(jobs: u64) -> String {
    plural(i64::try_from(jobs).unwrap_or(i64::MAX), "job", "jobs")
}

/// The plan as a sentence without its end.
fn in_words(plan: &ShardPlan) -> String {
    let ShardPlan { from, to, jobs, .. } = plan;
    match plan.unfinished {
        Some(becoming) if from == to => {
            format!(
                "take back the unfinished change from {from} to {}",
                shards_word(becoming)
            )
        }
        _ if from == to => "remove what an earlier change has left".to_owned(),
        Some(_) => format!(
            "finish the change from {from} to {}, with {}",
            shards_word(*to),
            jobs_word(*jobs)
        ),
        None => format!(
            "spread {} of {} over {}",
            jobs_word(*jobs),
            shards_word(*from),
            shards_word(*to)
        ),
    }
}

fn tell_plan(plan: &ShardPlan, session: &Session) -> Result<Exit, Problem> {
    if session.json() {
        session.screen.print_json(&machine(plan, false))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if plan.is_done() {
        page.say(format!(
            "The store is spread over {} already.",
            shards_word(plan.to)
        ));
        session.screen.print(&page)?;
        return Ok(Exit::Done);
    }
    page.line(format!("{} {}", paint(Tone::Strong, "plan:"), in_words(plan)));
    let mut fields = vec![("memory in use", bytes(plan.bytes))];
    if let Some(room) = plan.room {
        fields.push(("memory there is", bytes(room)));
    }
    if !plan.at_work.is_empty() {
        fields.push(("at work", paint(Tone::Warn, plan.at_work.join("; "))));
    }
    page.fields(fields);
    page.blank();
    page.hint("nothing was done yet; without --dry-run it is carried out");
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

fn bytes(number: i64) -> String {
    format!("{} bytes", count(number))
}

fn machine(plan: &ShardPlan, changed: bool) -> serde_json::Value {
    json!({
        "from": plan.from,
        "to": plan.to,
        "jobs": plan.jobs,
        "bytes": plan.bytes,
        "room": plan.room,
        "unfinished": plan.unfinished,
        "leftover": plan.leftover,
        "at_work": plan.at_work,
        "changed": changed,
    })
}

fn tell_outcome(plan: &ShardPlan, outcome: ShardOutcome, session: &Session) -> Result<Exit, Problem> {
    if session.json() {
        let changed = matches!(outcome, ShardOutcome::Changed { .. });
        session.screen.print_json(&machine(plan, changed))?;
        return Ok(Exit::Done);
    }
    let mut page: Page = session.page();
    match outcome {
        ShardOutcome::Changed { jobs } => {
            page.line(paint(
                Tone::Good,
                format!(
                    "{} are spread over {} now.",
                    jobs_word(jobs),
                    shards_word(plan.to)
                ),
            ));
            page.hint(format!("write shards={} into the URL of the store", plan.to));
        }
        ShardOutcome::Same => page.line(paint(Tone::Good, "What was left is removed.")),
        ShardOutcome::TakenBack => page.line(paint(
            Tone::Good,
            format!("Taken back: the store is spread over {}.", shards_word(plan.from)),
        )),
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}
