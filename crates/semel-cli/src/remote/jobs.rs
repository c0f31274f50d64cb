//! Jobs and dead letters.

use semel::Action;

use crate::commands::dead_letters::{ActOnLetters, DeadLettersCommand};
use crate::commands::jobs::JobsCommand;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::server::part;
use crate::remote::{To, show};

impl To<'_> {
    /// `semel jobs …`
    pub async fn jobs(&self, command: JobsCommand) -> Result<Exit, Problem> {
        match command {
            JobsCommand::List(args) => {
                let query = args.page.query(args.filter.query());
                let found = self.gather("/v1/jobs", query, args.page.limit).await?;
                self.say_list(&found, show::JOBS, "No job is like that.")
            }
            JobsCommand::Show(args) => self.job(args.id.as_str()).await,
            JobsCommand::Wait(args) => self.wait(args.id.as_str(), args.timeout.map(Into::into)).await,
            JobsCommand::Cancel(args) => {
                self.act(Action::Cancel, &args.ids, args.filter.query(), &args.act)
                    .await
            }
            JobsCommand::Retry(args) => {
                self.act(Action::Retry, &args.ids, args.filter.query(), &args.act)
                    .await
            }
        }
    }

    /// A job with what belongs to it, as `semel jobs show` tells it.
    async fn job(&self, id: &str) -> Result<Exit, Problem> {
        let path = format!("/v1/jobs/{}", part(id));
        let mut job = self.server.get(&path, &[]).await?;
        let mut others = Vec::new();
        for name in ["attempts", "steps", "logs"] {
            let found = self.server.get(&format!("{path}/{name}"), &[]).await?;
            others.push((name, found["items"].clone()));
        }
        if let Some(members) = job.as_object_mut() {
            members.extend(others.into_iter().map(|(name, items)| (name.to_owned(), items)));
        }
        self.say_fields(&job)
    }

    /// `semel dead-letters …`
    pub async fn dead_letters(&self, command: DeadLettersCommand) -> Result<Exit, Problem> {
        match command {
            DeadLettersCommand::List(args) => {
                let mut query = args.filter.query();
                if query.iter().any(|(name, _)| !matches!(*name, "task" | "error")) {
                    let told = "a server lists dead letters by --task and --error";
                    return Err(Problem::usage(told).hint("semel jobs list --state failed takes the others"));
                }
                query = args.page.query(query);
                let found = self.gather("/v1/dead-letters", query, args.page.limit).await?;
                self.say(&found, |page| {
                    show::rows(page, &found["groups"], show::GROUPS, "There are no dead letters.");
                    page.heading("The newest");
                    show::rows(page, &found["items"], show::JOBS, "None.");
                })
            }
            DeadLettersCommand::Replay(args) => self.letters(Action::Replay, args).await,
            DeadLettersCommand::Delete(args) => self.letters(Action::Delete, args).await,
        }
    }

    async fn letters(&self, action: Action, args: ActOnLetters) -> Result<Exit, Problem> {
        let mut filter = args.filter.query();
        if args.all || !filter.is_empty() {
            filter.push(("dead_letters", "true".to_owned()));
        }
        self.act(action, &args.ids, filter, &args.act).await
    }
}
