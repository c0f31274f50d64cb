//! Acts on jobs and keys: by ids at once, by filter with the plan first; and lists that are longer than a page.

use reqwest::Method;
use std::time::Duration;

use semel::Action;
use semel_core::ids::JobId;
use semel_core::limits;
use serde_json::{Map, Value, json};

use crate::bulk::{ActArgs, nothing_named};
use crate::confirm::{self, Answer};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::server::part;
use crate::remote::submit::why;
use crate::remote::{To, show};

/// How often a bulk act is asked how far it has come.
const EVERY: Duration = Duration::from_millis(200);

impl To<'_> {
    /// Acts on what is named by ids or by a filter.
    pub async fn act(
        &self,
        action: Action,
        ids: &[JobId],
        filter: Vec<(&'static str, String)>,
        act: &ActArgs,
    ) -> Result<Exit, Problem> {
        match (ids.is_empty(), filter.is_empty() && act.plan.is_none()) {
            (true, _) => self.by_plan(action, filter, act).await,
            (false, true) => self.one_by_one(action, ids, act).await,
            (false, false) => Err(Problem::usage("ids and a filter at once: allowed is one of them")),
        }
    }

    async fn one_by_one(&self, action: Action, ids: &[JobId], act: &ActArgs) -> Result<Exit, Problem> {
        let mut done = Vec::new();
        let mut failed = None;
        for id in ids {
            let id = part(id.as_str());
            let (method, path) = match action {
                Action::Cancel => (Method::POST, format!("/v1/jobs/{id}/cancel")),
                Action::Retry => (Method::POST, format!("/v1/jobs/{id}/retry")),
                Action::Replay => (Method::POST, format!("/v1/dead-letters/{id}/replay")),
                Action::Delete | Action::Release => (Method::DELETE, format!("/v1/dead-letters/{id}")),
            };
            match self.server.send(method, &path, &why(act.reason.as_deref())).await {
                Ok(answer) => done.push(answer),
                Err(problem) => {
                    if let Some(before) = failed.replace(problem) {
                        self.session.screen.problem(&before);
                    }
                }
            }
        }
        if !done.is_empty() {
            let answer = json!({"items": done, "next_cursor": null});
            self.say(&answer, |page| {
                for one in answer["items"].as_array().into_iter().flatten() {
                    let text = |name: &str| one[name].as_str().unwrap_or_default();
                    page.say(format!(
                        "{} {}: {} {}",
                        action.word(),
                        text("asked"),
                        text("id"),
                        text("state")
                    ));
                }
            })?;
        }
        failed.map_or(Ok(Exit::Done), Err)
    }

    async fn by_plan(
        &self,
        action: Action,
        filter: Vec<(&'static str, String)>,
        act: &ActArgs,
    ) -> Result<Exit, Problem> {
        let plan = match &act.plan {
            Some(id) => {
                self.server
                    .get(&format!("/v1/operations/{}", part(id)), &[])
                    .await?
            }
            None if filter.is_empty() => return Err(nothing_named(action)),
            None => {
                let members: Map<String, Value> = filter
                    .into_iter()
                    .map(|(name, value)| match name {
                        "dead_letters" => (name.to_owned(), json!(true)),
                        _ => (name.to_owned(), json!(value)),
                    })
                    .collect();
                let mut body = why(act.reason.as_deref());
                body["action"] = action.word().into();
                body["filter"] = Value::Object(members);
                self.server.send(Method::POST, "/v1/operations", &body).await?
            }
        };
        let is_empty = plan["total"].as_u64() == Some(0);
        if is_empty || !(act.yes || self.session.screen.can_ask()) {
            return self.say_operation(&plan);
        }
        if !self.session.json() {
            self.say_operation(&plan)?;
        }
        if confirm::agree("Carry this plan out?", act.yes, self.session) == Answer::No {
            return Ok(Exit::NotPermitted);
        }
        self.carry_out(action, &plan, act).await
    }

    async fn carry_out(&self, action: Action, plan: &Value, act: &ActArgs) -> Result<Exit, Problem> {
        let mut body = why(act.reason.as_deref());
        body["action"] = action.word().into();
        body["plan"] = plan["id"].clone();
        body["dry_run"] = false.into();
        if let Some(rate) = act.rate {
            body["rate_per_s"] = rate.into();
        }
        let mut now = self.server.send(Method::POST, "/v1/operations", &body).await?;
        let path = format!("/v1/operations/{}", part(plan["id"].as_str().unwrap_or_default()));
        while matches!(now["status"].as_str(), Some("planned" | "running")) {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => now = self.server.get(&path, &[]).await?,
                _ = tokio::signal::ctrl_c() => {
                    now = self.server.send(Method::POST, &format!("{path}/abort"), &json!({})).await?;
                }
            }
        }
        self.say_operation(&now)?;
        let refused = now["refused"]
            .as_object()
            .is_some_and(|refused| !refused.is_empty());
        Ok(match refused || now["status"] != "done" {
            true => Exit::Other,
            false => Exit::Done,
        })
    }

    fn say_operation(&self, operation: &Value) -> Result<Exit, Problem> {
        self.say(operation, |page| {
            let mut plan = operation.clone();
            let samples = plan.as_object_mut().and_then(|members| members.remove("samples"));
            show::fields(page, &plan);
            page.heading("Some of them");
            show::rows(page, &samples.unwrap_or_default(), show::SAMPLES, "None match.");
            if operation["status"] == "planned" && operation["total"].as_u64() > Some(0) {
                let id = operation["id"].as_str().unwrap_or_default();
                page.hint(format!(
                    "nothing was done yet; carry it out with --plan {id} --yes"
                ));
            }
        })
    }

    /// A list up to a limit, in as many requests as it takes.
    pub async fn gather(
        &self,
        path: &str,
        mut query: Vec<(&'static str, String)>,
        limit: usize,
    ) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            // A limit of nothing is refused by the server, in its own words.
            let missing = limit.saturating_sub(items.len()).min(limits::PAGE);
            query.retain(|(name, _)| *name != "limit");
            query.push(("limit", missing.to_string()));
            let mut found = self.server.get(path, &query).await?;
            if let Some(more) = found["items"].as_array_mut() {
                items.append(more);
            }
            match found["next_cursor"].as_str().filter(|_| items.len() < limit) {
                Some(cursor) => {
                    let cursor = cursor.to_owned();
                    query.retain(|(name, _)| *name != "cursor");
                    query.push(("cursor", cursor));
                }
                None => {
                    found["items"] = items.into();
                    return Ok(found);
                }
            }
        }
    }
}
