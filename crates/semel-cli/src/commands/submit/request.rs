//! What is to be submitted: flags, and below them what `semel.toml` says of the task and its queue.

use clap::Args;
use semel::{Client, Submit, Token};
use semel_core::json::Json;
use semel_core::time::Timestamp;

use crate::commands::submit::input;
use crate::commands::submit::policy::PolicyArgs;
use crate::duration::{Length, rfc3339};
use crate::problem::Problem;
use crate::session::Session;
use crate::settings::JobOptions;

/// A submission on the command line.
#[derive(Clone, Debug, Args)]
pub struct RequestArgs {
    /// The kind of work
    pub task: String,
    /// The input: JSON, - for stdin, @FILE for a file [default: null]
    #[arg(value_name = "JSON|-|@FILE", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// Where the job waits [default: default]
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// -100 to 100, larger first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i8>,
    /// Not before a while has passed
    #[arg(long, value_name = "DURATION", conflicts_with = "run_at")]
    pub delay: Option<Length>,
    /// Not before this moment, such as 2026-11-20T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = rfc3339)]
    pub run_at: Option<Timestamp>,
    /// How many attempts may end in an error [default: 5]
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<u32>,
    /// How many leases may expire [default: 5]
    #[arg(long, value_name = "N")]
    pub max_deliveries: Option<u32>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Length>,
    /// A small text that travels with the job; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    pub headers: Vec<(String, String)>,
    /// A JSON object for people and tools
    #[arg(long, value_name = "JSON")]
    pub meta: Option<String>,
    /// Who submits, for the ledger
    #[arg(long, value_name = "NAME")]
    pub producer: Option<String>,
    /// Makes a repeated submission the same one
    #[arg(long, value_name = "UUID")]
    pub token: Option<Token>,
    /// The policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// A submission that was read and checked as far as possible without a store.
#[derive(Debug)]
pub struct Prepared {
    args: RequestArgs,
    input: Json,
    meta: Option<Json>,
}

impl RequestArgs {
    /// Reads the input and fills in what the configuration says.
    pub fn prepare(mut self, session: &Session) -> Result<Prepared, Problem> {
        let file = &session.settings.file;
        let task = file.tasks.get(&self.task);
        self.queue = self.queue.or_else(|| task.and_then(|task| task.queue.clone()));
        let queue = file.queues.get(self.queue.as_deref().unwrap_or("default"));
        let said = self
            .options()
            .or(task.map(|task| task.job()).unwrap_or_default())
            .or(queue.map(|queue| queue.job()).unwrap_or_default());
        self.priority = said.priority;
        self.max_attempts = said.max_attempts;
        self.max_deliveries = said.max_deliveries;
        self.timeout = said.timeout;
        if let Some(policy) = task.and_then(|task| task.dedup.as_ref())
            && self.policy.is_empty()
        {
            self.policy = policy.clone();
        }
        let input = input::read(self.input.as_deref())?;
        let meta = self.meta.as_deref().map(Json::new).transpose()?;
        Ok(Prepared {
            args: self,
            input,
            meta,
        })
    }

    fn options(&self) -> JobOptions {
        JobOptions {
            priority: self.priority,
            max_attempts: self.max_attempts,
            max_deliveries: self.max_deliveries,
            timeout: self.timeout,
        }
    }
}

impl Prepared {
    /// The submission, for a client.
    pub fn build(&self, client: &Client) -> Result<Submit, Problem> {
        let args = &self.args;
        let mut submit = client.submit_text(&args.task, self.input.as_str());
        if let Some(queue) = &args.queue {
            submit = submit.queue(queue);
        }
        if let Some(priority) = args.priority {
            submit = submit.priority(priority);
        }
        if let Some(delay) = args.delay {
            submit = submit.delay(delay.into());
        }
        if let Some(at) = args.run_at {
            submit = submit.run_at(at);
        }
        if let Some(attempts) = args.max_attempts {
            submit = submit.max_attempts(attempts);
        }
        if let Some(deliveries) = args.max_deliveries {
            submit = submit.max_deliveries(deliveries);
        }
        if let Some(timeout) = args.timeout {
            submit = submit.timeout(timeout.into());
        }
        if let Some(meta) = &self.meta {
            submit = submit.meta(meta);
        }
        if let Some(producer) = &args.producer {
            submit = submit.producer(producer);
        }
        if let Some(token) = args.token {
            submit = submit.token(token);
        }
        Ok(args.policy.apply(submit.headers(args.headers.clone()))?)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("allowed is NAME=VALUE".to_owned()),
    }
}
