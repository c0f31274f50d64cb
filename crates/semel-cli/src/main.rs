//! The command line of Semel: args → settings → command.

mod args;
mod bulk;
mod clock;
mod commands;
mod confirm;
mod duration;
mod exit;
mod listing;
mod live;
mod logging;
mod problem;
mod remote;
mod screen;
mod session;
mod settings;
mod steer;
mod target;

use std::process::ExitCode;

use semel_server::{diagnosis, lanes, redact, wire, wording};

use crate::args::{Cli, Command, StoreCommand};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::Screen;
use crate::session::Session;
use crate::settings::Settings;

/// Calls are taken apart by one thread and answered by another, in small pieces: that is where allocators differ most.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = args::parse();
    anstream::ColorChoice::from(cli.global.color).write_global();
    let screen = Screen::new(cli.global.json);
    match run(cli, &screen) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            screen.problem(&problem);
            problem.exit.into()
        }
    }
}

fn run(cli: Cli, screen: &Screen) -> Result<Exit, Problem> {
    let settings = Settings::load(&cli.global)?;
    logging::start(&settings, usual_log(&cli.command))?;
    let session = Session {
        settings,
        screen: screen.clone(),
    };
    let command = match cli.command {
        Command::Completions(args) => return commands::completions::run(args, screen),
        Command::Config(command) => return commands::config::run(command, &session),
        Command::Bench(args) => return commands::bench::run(args, &session),
        Command::Store(command) => command,
    };
    let runtime = tokio::runtime::Runtime::new().map_err(|error| {
        Problem::new(
            Exit::Other,
            "other",
            format!("no threads could be started: {error}"),
        )
    })?;
    match through(&session.settings, &command)? {
        Some(server) => runtime.block_on(remote::run(command, &server, &session)),
        None => runtime.block_on(commands::run(command, &session)),
    }
}

/// The server a command goes through, if one is named. What makes a store is not meant by a setting that is always there.
fn through(settings: &Settings, command: &StoreCommand) -> Result<Option<remote::Server>, Problem> {
    let Some(server) = &settings.server else {
        return Ok(None);
    };
    let makes_a_store = matches!(command, StoreCommand::Demo(_) | StoreCommand::Serve(_));
    if makes_a_store && !matches!(server.source, settings::Source::Flag(_)) {
        return Ok(None);
    }
    let token = std::env::var("SEMEL_TOKEN")
        .ok()
        .filter(|token| !token.is_empty());
    remote::Server::new(&server.value, token).map(Some)
}

/// A worker says what troubles it; other commands end with what there is to say.
fn usual_log(command: &Command) -> &'static str {
    match command {
        Command::Store(StoreCommand::Work(_) | StoreCommand::Outbox(_) | StoreCommand::Serve(_)) => "warn",
        #[cfg(feature = "redis")]
        Command::Store(StoreCommand::Bridge(_)) => "warn",
        _ => "off",
    }
}
