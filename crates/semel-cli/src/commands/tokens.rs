//! `semel tokens`: who may use a server.

use clap::{Args, Subcommand};
use semel_core::ids::Name;
use semel_server::api::tokens::{MadeToken, TokenRow};
use semel_server::role::Role;
use semel_server::tokens::{self, NewToken};

use crate::duration::Length;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Table, clean};
use crate::session::Session;
use crate::wire;

/// `semel tokens …`
#[derive(Debug, Subcommand)]
pub enum TokensCommand {
    /// Make a token; it is said once and kept nowhere
    Create(CreateArgs),
    /// List tokens, without the tokens
    List,
    /// Revoke a token: servers refuse it within a second
    Revoke(RevokeArgs),
}

/// Arguments of `semel tokens create`.
#[derive(Debug, Args)]
#[command(after_help = "\
Roles: read looks at everything, payloads too; submit submits and sends events;
work claims and settles; operate pauses, cancels, retries, replays, releases and
reads; admin may do everything.

From the first token on a server asks everybody for one.")]
pub struct CreateArgs {
    /// Who has it: the name in the ledger and the audit feed
    pub name: Name,
    /// What it may do; may be repeated
    #[arg(long = "role", value_name = "ROLE", required = true, value_parser = |text: &str| text.parse::<Role>())]
    pub roles: Vec<Role>,
    /// The queues a worker may claim from; may be repeated [default: all]
    #[arg(long = "queue", value_name = "NAME")]
    pub queues: Vec<Name>,
    /// How long it is good [default: until revoked]
    #[arg(long, value_name = "DURATION")]
    pub ttl: Option<Length>,
}

/// Arguments of `semel tokens revoke`.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Its id or its name
    pub token: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Carries out a command.
pub async fn run(command: TokensCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        TokensCommand::Create(args) => create(args, session).await,
        TokensCommand::List => list(session).await,
        TokensCommand::Revoke(args) => revoke(args, session).await,
    }
}

async fn create(args: CreateArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let new = NewToken {
        name: args.name,
        roles: args.roles,
        queues: args.queues,
        ttl: args.ttl.map(Into::into),
    };
    let subject = format!("token {}", new.name);
    let creating = tokens::create(&client, new);
    let (record, token) = session
        .operator(&client, None)
        .on_record("create_token", &subject, creating)
        .await?;
    if session.json() {
        session.screen.print_json(&MadeToken::new(&record, token))?;
        return Ok(Exit::Done);
    }
    session
        .screen
        .note("The token of this answer is said once and kept nowhere:");
    session.screen.write(&format!("{token}\n"))?;
    Ok(Exit::Done)
}

async fn list(session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let found = tokens::list(&client).await?;
    if session.json() {
        session
            .screen
            .print_json(&wire::List::whole(found.iter().map(TokenRow::from)))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    if found.is_empty() {
        page.say("There is no token: a server lets in everybody on its machine, and nobody else.");
        page.hint("semel tokens create NAME --role admin");
    } else {
        let mut table = Table::new([
            Column::left("ID"),
            Column::wide("NAME"),
            Column::wide("ROLES"),
            Column::wide("QUEUES"),
            Column::left("MADE"),
            Column::left("GOOD UNTIL"),
        ]);
        for token in &found {
            let roles: Vec<&str> = token.roles.iter().map(|role| role.word()).collect();
            let queues: Vec<&str> = token.queues.iter().map(Name::as_str).collect();
            table.row([
                token.id.clone(),
                clean(token.name.as_str()).into_owned(),
                roles.join(", "),
                if queues.is_empty() {
                    "all".to_owned()
                } else {
                    clean(&queues.join(", ")).into_owned()
                },
                page.ago(token.created_at),
                token
                    .expires_at
                    .map_or("it is revoked".to_owned(), |at| page.ago(at)),
            ]);
        }
        page.table(&table);
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

async fn revoke(args: RevokeArgs, session: &Session) -> Result<Exit, Problem> {
    let client = session.existing().await?;
    let revoking = tokens::revoke(&client, &args.token);
    let operator = session.operator(&client, args.reason.as_deref());
    let record = operator
        .on_record("revoke_token", &format!("token {}", args.token), revoking)
        .await?;
    if session.json() {
        session.screen.print_json(&TokenRow::from(&record))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.say(format!(
        "Token {} of {} is revoked: servers refuse it within a second.",
        record.id,
        clean(record.name.as_str())
    ));
    session.screen.print(&page)?;
    Ok(Exit::Done)
}
