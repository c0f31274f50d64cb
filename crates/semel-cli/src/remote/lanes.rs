//! Queues and tasks, schedules and events.

use reqwest::Method;
use semel_core::store::Target;
use serde_json::{Value, json};

use crate::commands::events::EventsCommand;
use crate::commands::queues::QueuesCommand;
use crate::commands::schedules::SchedulesCommand;
use crate::commands::submit::input;
use crate::commands::tasks::TasksCommand;
use crate::confirm;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::server::part;
use crate::remote::submit::{why, with};
use crate::remote::{To, show};
use crate::screen::capital;
use crate::target::{self, PauseArgs, TargetArgs};

impl To<'_> {
    /// `semel queues …`
    pub async fn queues(&self, command: QueuesCommand) -> Result<Exit, Problem> {
        let queue = |target: TargetArgs| target.target(Target::Queue);
        match command {
            QueuesCommand::List => self.list("/v1/queues", show::LANES, "There are no queues.").await,
            QueuesCommand::Pause(args) => self.pause(args, Target::Queue).await,
            QueuesCommand::Resume(args) => {
                self.verb(&queue(args), "resume", json!({}), "no longer paused")
                    .await
            }
            QueuesCommand::Unique(args) => {
                let told = if args.off { "no longer unique" } else { "unique" };
                self.patch(&queue(args.target), json!({"unique": !args.off}), told)
                    .await
            }
            QueuesCommand::Close(args) => {
                let mut body = why(args.reason.as_deref());
                body["intake"] = "closed".into();
                if let Some(length) = args.lasting {
                    body["for_ms"] = length.0.as_millis().into();
                }
                self.patch(&queue(args.target), body, "closed").await
            }
            QueuesCommand::Open(args) => self.patch(&queue(args), json!({"intake": "open"}), "open").await,
            QueuesCommand::Delete(args) => {
                confirm::ask(
                    &format!("this removes queue {} with all its jobs", args.name),
                    args.yes,
                    self.session,
                )?;
                let path = format!("/v1/queues/{}", part(args.name.as_str()));
                let answer = self
                    .server
                    .send(Method::DELETE, &path, &why(args.reason.as_deref()))
                    .await?;
                self.say_that(
                    &answer,
                    &format!("Queue {} was removed with {} jobs.", args.name, answer["removed"]),
                )
            }
        }
    }

    /// `semel tasks …`
    pub async fn tasks(&self, command: TasksCommand) -> Result<Exit, Problem> {
        match command {
            TasksCommand::List => self.list("/v1/tasks", show::LANES, "There are no tasks.").await,
            TasksCommand::Pause(args) => self.pause(args, Target::Task).await,
            TasksCommand::Resume(args) => {
                let target = args.target(Target::Task);
                self.verb(&target, "resume", json!({}), "no longer paused").await
            }
        }
    }

    async fn pause(
        &self,
        args: PauseArgs,
        named: impl Fn(semel_core::ids::Name) -> Target,
    ) -> Result<Exit, Problem> {
        let mut body = why(args.reason.as_deref());
        if let Some(length) = args.lasting {
            body["for_ms"] = length.0.as_millis().into();
        }
        self.verb(&args.target.target(named), "pause", body, "paused")
            .await
    }

    async fn verb(&self, target: &Target, verb: &str, body: Value, told: &str) -> Result<Exit, Problem> {
        let path = format!("{}/{verb}", place(target));
        let answer = self.server.send(Method::POST, &path, &body).await?;
        self.say_that(&answer, &capital(&format!("{} is {told}.", target::told(target))))
    }

    async fn patch(&self, target: &Target, body: Value, told: &str) -> Result<Exit, Problem> {
        if *target == Target::All {
            return Err(Problem::usage(
                "a server does this to one queue at a time: allowed is its name, not --all",
            ));
        }
        let answer = self.server.send(Method::PATCH, &place(target), &body).await?;
        self.say_that(&answer, &capital(&format!("{} is {told}.", target::told(target))))
    }

    /// `semel schedules …`
    pub async fn schedules(&self, command: SchedulesCommand) -> Result<Exit, Problem> {
        match command {
            SchedulesCommand::List => {
                self.list("/v1/schedules", show::SCHEDULES, "There are no schedules.")
                    .await
            }
            SchedulesCommand::Set(args) => {
                let input = input::read(args.input.as_deref())?;
                let mut body = json!({"cron": args.cron, "zone": args.zone, "task": args.task,
                    "overlap": semel::schedule::Overlap::from(args.overlap)});
                let optional = [
                    ("queue", args.queue.map(|queue| json!(queue))),
                    ("priority", args.priority.map(|priority| json!(priority))),
                    ("max_attempts", args.max_attempts.map(|attempts| json!(attempts))),
                    (
                        "timeout_ms",
                        args.timeout.map(|length| json!(length.0.as_millis())),
                    ),
                ];
                for (name, value) in optional {
                    if let Some(value) = value {
                        body[name] = value;
                    }
                }
                let path = format!("/v1/schedules/{}", part(&args.name));
                let body = with(body, "input", &input)?;
                let answer = self.server.send(Method::PUT, &path, &body).await?;
                self.say_that(&answer, &format!("Schedule {} is set.", args.name))
            }
            SchedulesCommand::Delete(args) => {
                confirm::ask(
                    &format!("this removes schedule {}", args.name),
                    args.yes,
                    self.session,
                )?;
                let path = format!("/v1/schedules/{}", part(&args.name));
                self.server.send(Method::DELETE, &path, &json!({})).await?;
                self.say_that(
                    &json!({"deleted": args.name}),
                    &format!("Schedule {} was removed.", args.name),
                )
            }
        }
    }

    /// `semel events …`
    pub async fn events(&self, command: EventsCommand) -> Result<Exit, Problem> {
        match command {
            EventsCommand::List => {
                self.list(
                    "/v1/events",
                    show::SUBSCRIBERS,
                    "Nobody is subscribed to anything.",
                )
                .await
            }
            EventsCommand::Subscribe(args) => {
                let all = format!("/v1/events/{}/subscribers", part(&args.event));
                let path = format!("{all}/{}", part(&args.task));
                match args.off {
                    true => self.server.send(Method::DELETE, &path, &json!({})).await?,
                    false => {
                        let body = args
                            .queue
                            .map_or_else(|| json!({}), |queue| json!({ "queue": queue }));
                        self.server.send(Method::PUT, &path, &body).await?
                    }
                };
                self.list(&all, show::SUBSCRIBERS, "Nobody is subscribed to it.")
                    .await
            }
            EventsCommand::Send(args) => {
                let input = input::read(args.input.as_deref())?;
                let mut body = json!({"allow_none": args.allow_none});
                if let Some(key) = args.key {
                    body["idempotency_key"] = key.into();
                }
                if let Some(ttl) = args.ttl {
                    body["idempotency_ttl_ms"] = ttl.0.as_millis().into();
                }
                let path = format!("/v1/events/{}", part(&args.event));
                let body = with(body, "input", &input)?;
                let answer = self.server.send(Method::POST, &path, &body).await?;
                self.say(&answer, |page| {
                    show::rows(
                        page,
                        &answer["results"],
                        show::DELIVERIES,
                        "Nobody is subscribed to it.",
                    );
                })
            }
        }
    }
}

/// The path of a target.
fn place(target: &Target) -> String {
    match target {
        Target::All => "/v1".to_owned(),
        Target::Queue(name) => format!("/v1/queues/{}", part(name.as_str())),
        Target::Task(name) => format!("/v1/tasks/{}", part(name.as_str())),
    }
}
