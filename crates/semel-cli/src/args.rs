//! What can be typed.

mod help;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;

/// Reads the command line; a mistake ends the process with exit code 2.
pub fn parse() -> Cli {
    use clap::{CommandFactory, FromArgMatches};
    let matches = help::grouped(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The whole command line, for completions.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    Cli::command()
}

/// A durable job queue in which work is done once
#[derive(Debug, Parser)]
#[command(name = "semel", version, max_term_width = 80, infer_subcommands = false)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, after_help = help::AFTER)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The store [env: SEMEL_STORE] [default: sqlite:semel.db]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
    /// Go through this server instead [env: SEMEL_SERVER, SEMEL_TOKEN]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Answer in JSON, for machines
    #[arg(long, global = true)]
    pub json: bool,
    /// Read this file instead of semel.toml [env: SEMEL_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Use a profile of the file [env: SEMEL_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,
    /// When to use colour; auto respects NO_COLOR and pipes
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: Color,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// In any case.
    Always,
    /// Not at all.
    Never,
}

impl From<Color> for anstream::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
    }
}

/// The commands. Their order and grouping on the first help page is told in `help`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Those that go to a store.
    #[command(flatten)]
    Store(StoreCommand),
    /// Measure this machine's store
    Bench(commands::bench::BenchArgs),
    /// Show settings and where they come from
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    /// Write a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
}

/// The commands that go to a store.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// See work done once while everything goes wrong, in 20 seconds
    Demo(commands::demo::DemoArgs),
    /// Serve the HTTP API and the dashboard
    Serve(commands::serve::ServeArgs),
    /// Say whether work flows; the exit code is 1 while an alert fires
    Status,
    /// Make, list and revoke the tokens of servers
    #[command(subcommand)]
    Tokens(commands::tokens::TokensCommand),
    /// Submit a job
    Submit(Box<commands::submit::SubmitArgs>),
    /// Say what a submission would get, and why; writes nothing
    Explain(Box<commands::explain::ExplainArgs>),
    /// Run a command for each job of a task
    Work(commands::work::WorkArgs),
    /// Subscribe tasks to events, and send events
    #[command(subcommand)]
    Events(commands::events::EventsCommand),
    /// Let jobs come by themselves, by cron
    #[command(subcommand)]
    Schedules(commands::schedules::SchedulesCommand),
    /// List, show, wait for, cancel and retry jobs
    #[command(subcommand)]
    Jobs(commands::jobs::JobsCommand),
    /// Find keys, see who blocked whom, release by hand
    #[command(subcommand)]
    Keys(commands::keys::KeysCommand),
    /// List, replay and drop jobs that failed
    #[command(subcommand)]
    DeadLetters(commands::dead_letters::DeadLettersCommand),
    /// Relay events of another database, audit and prune them
    #[command(subcommand)]
    Outbox(commands::outbox::OutboxCommand),
    /// Share queues with another job system while you move
    #[cfg(feature = "redis")]
    #[command(subcommand)]
    Bridge(commands::bridge::BridgeCommand),
    /// List effects in doubt, and decide about them
    #[command(subcommand)]
    Steps(commands::steps::StepsCommand),
    /// List live workers
    #[command(subcommand)]
    Workers(commands::workers::WorkersCommand),
    /// List queues; pause, resume, close, open, delete them
    #[command(subcommand)]
    Queues(commands::queues::QueuesCommand),
    /// List tasks; pause and resume them
    #[command(subcommand)]
    Tasks(commands::tasks::TasksCommand),
    /// Show counters, jobs and queues at a glance
    Stats(commands::stats::StatsArgs),
    /// Say what is atomic and what survives what
    Guarantees,
    /// Check the stored data, and repair it
    Doctor(commands::doctor::DoctorArgs),
    /// Spread a Redis store over another number of shards
    #[cfg(feature = "redis")]
    #[command(subcommand)]
    Shards(commands::shards::ShardsCommand),
}
