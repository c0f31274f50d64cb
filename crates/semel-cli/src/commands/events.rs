//! `semel events`

use clap::{Args, Subcommand};
use semel::{Delivered, Error, Subscriber};
use semel_core::store::Submitted;

use crate::commands::submit::{self, input};
use crate::duration::Length;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Table, Tone, clean, shell};
use crate::session::Session;
use crate::wire;

/// `semel events …`
#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// Let a task have a job for each event of a name
    Subscribe(SubscribeArgs),
    /// Tell every subscriber of an event
    Send(SendArgs),
    /// List subscriptions
    List,
}

/// Arguments of `semel events subscribe`.
#[derive(Debug, Args)]
pub struct SubscribeArgs {
    /// The event
    pub event: String,
    /// The task
    pub task: String,
    /// Where its jobs wait [default: default]
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Take it off the list instead
    #[arg(long)]
    pub off: bool,
}

/// Arguments of `semel events send`.
#[derive(Debug, Args)]
#[command(after_help = "\
With a key every subscriber has one job, however often the event is sent. It is
not atomic over the subscribers: sending again completes it. An event that
nobody subscribed to would be lost, so it is refused (exit code 5).")]
pub struct SendArgs {
    /// The event
    pub event: String,
    /// The input: JSON, - for stdin, @FILE for a file [default: null]
    #[arg(value_name = "JSON|-|@FILE")]
    pub input: Option<String>,
    /// One job per subscriber for this key, kept 30 days
    #[arg(long, short = 'k', value_name = "KEY")]
    pub key: Option<String>,
    /// How long the key is kept
    #[arg(long, value_name = "DURATION", requires = "key")]
    pub ttl: Option<Length>,
    /// It is fine if nobody is subscribed
    #[arg(long)]
    pub allow_none: bool,
}

/// Carries out a command.
pub async fn run(command: EventsCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        EventsCommand::Subscribe(args) => subscribe(args, session).await,
        EventsCommand::Send(args) => send(args, session).await,
        EventsCommand::List => list(session).await,
    }
}

async fn subscribe(args: SubscribeArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let event = client.event(&args.event);
    let told = if args.off {
        if !event.unsubscribe(&args.task).await? {
            return Err(Problem::not_found(format!(
                "task {} is not subscribed to {}",
                args.task, args.event
            ))
            .hint("semel events list shows who is"));
        }
        "no longer has a job for each event"
    } else {
        event.subscribe_named(&args.task, args.queue.as_deref()).await?;
        "has a job for each event"
    };
    if session.json() {
        session
            .screen
            .print_json(&wire::List::whole(event.subscribers().await?))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(format!("Task {} {told} {} from now on.", args.task, args.event));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

async fn send(args: SendArgs, session: &Session) -> Result<Exit, Problem> {
    let input = input::read(args.input.as_deref())?;
    let client = session.existing().await?;
    let event = client.event(&args.event);
    let mut sending = match &args.key {
        Some(key) => event.send_idempotent(key, &input),
        None => event.send(&input),
    };
    if let Some(ttl) = args.ttl {
        sending = sending.ttl(ttl.into());
    }
    if args.allow_none {
        sending = sending.allow_none();
    }
    let delivered = sending
        .await
        .map_err(|error| no_subscribers(error, &args.event))?;
    let exit = match delivered.iter().all(|one| one.submitted.is_ok()) {
        true => Exit::Done,
        false => Exit::Other,
    };
    say(&delivered, session)?;
    Ok(exit)
}

fn no_subscribers(error: Error, event: &str) -> Problem {
    let lost = matches!(error, Error::NoSubscribers { .. });
    let problem = Problem::from(error);
    match lost {
        true => problem.hint(format!(
            "semel events subscribe {} TASK, or --allow-none if that is fine",
            shell(event)
        )),
        false => problem,
    }
}

fn say(delivered: &[Delivered], session: &Session) -> Result<(), Problem> {
    if session.json() {
        let answers: Vec<Option<Submitted>> = delivered.iter().map(answer).collect();
        let items = delivered
            .iter()
            .zip(&answers)
            .map(|(one, answer)| wire::Delivery {
                task: &one.task,
                answer: answer.as_ref().and_then(wire::Answer::of),
                error: match answer {
                    Some(_) => None,
                    None => one.submitted.as_ref().err().map(ToString::to_string),
                },
            });
        return session.screen.print_json(&wire::List::whole(items));
    }
    let mut page = session.page();
    if delivered.is_empty() {
        page.say("Nobody is subscribed: nothing was sent.");
    }
    for one in delivered {
        match &one.submitted {
            Ok(sent) => page.line(submit::sentence(sent.admitted())),
            Err(error) => page.sentence(Tone::Bad, "error:", &format!("task {}: {error}", one.task)),
        }
    }
    session.screen.print(&page)
}

fn answer(one: &Delivered) -> Option<Submitted> {
    match &one.submitted {
        Ok(sent) => Some(Submitted::Job(Box::new(sent.admitted().clone()))),
        Err(Error::Duplicate { holder }) => Some(Submitted::Rejected {
            holder: holder.clone(),
        }),
        Err(Error::IdempotencyConflict { holder, differs }) => Some(Submitted::Conflict {
            holder: holder.clone(),
            differs: differs.clone(),
        }),
        Err(_) => None,
    }
}

async fn list(session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let subscribers: Vec<Subscriber> = client.subscribers().await?;
    if session.json() {
        session.screen.print_json(&wire::List::whole(subscribers))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if subscribers.is_empty() {
        page.say("There are no subscriptions.");
    } else {
        let mut table = Table::new([Column::wide("EVENT"), Column::wide("TASK"), Column::wide("QUEUE")]);
        for subscriber in &subscribers {
            table.row([
                Table::cell(&subscriber.event),
                Table::cell(&subscriber.task),
                clean(subscriber.queue.as_deref().unwrap_or("default")).into_owned(),
            ]);
        }
        page.table(&table);
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}
