//! Whether work flows, counters, tokens.

use reqwest::Method;
use serde_json::{Value, json};

use crate::commands::stats::StatsArgs;
use crate::commands::status::verdict;
use crate::commands::tokens::TokensCommand;
use crate::confirm;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::server::part;
use crate::remote::submit::why;
use crate::remote::{To, show};
use crate::screen::{Tone, clean, count, percent};

impl To<'_> {
    /// `semel outbox status`: the outbox that the server relays.
    pub async fn outbox(&self) -> Result<Exit, Problem> {
        let found = self.server.get("/v1/outbox", &[]).await?;
        self.say(&found, |page| {
            let mut standing = found.clone();
            let members = standing.as_object_mut();
            let parked = members.and_then(|members| members.remove("parked_events"));
            show::fields(page, &standing);
            page.heading("Parked");
            show::rows(
                page,
                &parked.unwrap_or_default(),
                show::PARKED,
                "No event was given up.",
            );
        })
    }

    /// `semel status`: 1 while an alert fires.
    pub async fn status(&self) -> Result<Exit, Problem> {
        let alerts = self.server.get("/v1/alerts", &[]).await?;
        let stats = self.server.get("/v1/stats", &[]).await?;
        let all = alerts["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let firing: Vec<&Value> = all.iter().filter(|alert| alert["firing"] == true).collect();
        let answer = json!({"flowing": firing.is_empty(), "alerts": firing, "stats": stats});
        self.say(&answer, |page| {
            let watched = alerts["watched"].as_array().map_or(firing.len(), Vec::len);
            verdict(page, firing.len(), watched);
            for alert in &firing {
                let text = |name: &str| clean(alert[name].as_str().unwrap_or_default()).into_owned();
                page.blank();
                page.sentence(Tone::Bad, &format!("{}:", text("alert")), &text("message"));
                page.hint(text("command"));
            }
            page.blank();
            let number = |value: &Value| count(value.as_i64().unwrap_or(0));
            let jobs = |state: &str| number(&stats["jobs"][state]);
            page.fields(vec![
                (
                    "waiting",
                    format!("{} queued, {} scheduled", jobs("queued"), jobs("scheduled")),
                ),
                ("running", jobs("running")),
                (
                    "ended",
                    format!("{} complete, {} failed", jobs("complete"), jobs("failed")),
                ),
                (
                    "absorbed",
                    format!(
                        "{} of all submissions",
                        percent(stats["hit_ratio"].as_f64().unwrap_or(0.0))
                    ),
                ),
                ("keys held", number(&stats["active_keys"])),
            ]);
        })?;
        Ok(if firing.is_empty() {
            Exit::Done
        } else {
            Exit::Other
        })
    }

    /// `semel stats`
    pub async fn stats(&self, args: StatsArgs) -> Result<Exit, Problem> {
        if args.reset {
            confirm::ask("this lets all counters begin anew", args.yes, self.session)?;
            self.server
                .send(Method::POST, "/v1/stats/reset", &json!({}))
                .await?;
        }
        let stats = self.server.get("/v1/stats", &[]).await?;
        self.say(&stats, |page| {
            let mut totals = stats.clone();
            if let Some(members) = totals.as_object_mut() {
                members.retain(|name, _| !matches!(name.as_str(), "queues" | "tasks"));
            }
            show::fields(page, &totals);
            page.heading("Queues");
            show::rows(page, &stats["queues"], show::LANES, "None.");
            page.heading("Tasks");
            show::rows(page, &stats["tasks"], show::LANES, "None.");
        })
    }

    /// `semel tokens …`
    pub async fn tokens(&self, command: TokensCommand) -> Result<Exit, Problem> {
        match command {
            TokensCommand::List => {
                self.list("/v1/tokens", show::TOKENS, "There are no tokens.")
                    .await
            }
            TokensCommand::Create(args) => {
                let roles: Vec<&str> = args.roles.iter().map(|role| role.word()).collect();
                let mut body = json!({"name": args.name, "roles": roles, "queues": args.queues});
                if let Some(ttl) = args.ttl {
                    body["ttl_ms"] = ttl.0.as_millis().into();
                }
                let made = self.server.send(Method::POST, "/v1/tokens", &body).await?;
                if self.session.json() {
                    self.session.screen.print_json(&made)?;
                } else {
                    // Alone on its line, for whoever keeps it.
                    self.session
                        .screen
                        .write(&format!("{}\n", made["token"].as_str().unwrap_or_default()))?;
                }
                Ok(Exit::Done)
            }
            TokensCommand::Revoke(args) => {
                let path = format!("/v1/tokens/{}", part(&args.token));
                self.server
                    .send(Method::DELETE, &path, &why(args.reason.as_deref()))
                    .await?;
                self.say_that(
                    &json!({"revoked": args.token}),
                    &format!("Token {} is revoked.", args.token),
                )
            }
        }
    }
}
