//! Submitting and explaining.

use reqwest::Method;
use std::collections::BTreeMap;
use std::time::Duration;

use semel::SubmitRequest;
use semel_core::json::Json;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::clock;
use crate::commands::submit::{RequestArgs, SubmitArgs};
use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::To;
use crate::remote::server::part;
use crate::screen::{clean, operand};

/// What a server waits at most in one request.
const LONG_POLL: Duration = Duration::from_secs(30);

impl To<'_> {
    /// `semel submit`
    pub async fn submit(&self, args: SubmitArgs) -> Result<Exit, Problem> {
        if args.dry_run.is_some() {
            return self.explain(args.request).await;
        }
        let body = self.request(args.request).await?;
        let answer = self.server.send(Method::POST, "/v1/jobs", &body).await?;
        let id = answer["job"]["id"].as_str().unwrap_or_default().to_owned();
        let sentence = format!(
            "{} {id} ({}, {})",
            answer["outcome"].as_str().unwrap_or_default(),
            answer["job"]["task"].as_str().unwrap_or_default(),
            answer["job"]["state"].as_str().unwrap_or_default()
        );
        if let Some(at_most) = args.wait {
            self.session.screen.note(clean(&sentence));
            return self.wait(&id, at_most.map(Into::into)).await;
        }
        if args.quiet {
            self.session.screen.write(&format!("{id}\n"))?;
            return Ok(Exit::Done);
        }
        self.say_that(&answer, &sentence)
    }

    /// `semel explain`
    pub async fn explain(&self, request: RequestArgs) -> Result<Exit, Problem> {
        let body = self.request(request).await?;
        let answer = self.server.send(Method::POST, "/v1/jobs/explain", &body).await?;
        self.say_fields(&answer)
    }

    /// The submission as JSON. Flags and configuration are judged here, by the same rules as for a store.
    async fn request(&self, args: RequestArgs) -> Result<SubmitRequest, Problem> {
        let prepared = args.prepare(self.session)?;
        let nowhere = semel::connect("memory:").await?;
        let submission = prepared.build(&nowhere)?.submission()?;
        Ok(SubmitRequest::from(&submission))
    }

    /// Waits for a job in long polls, and says how it ended.
    pub async fn wait(&self, id: &str, at_most: Option<Duration>) -> Result<Exit, Problem> {
        let path = format!("/v1/jobs/{}/wait", part(id));
        let begun = clock::instant();
        loop {
            let left = at_most.map(|most| most.saturating_sub(begun.elapsed()));
            let poll = left.map_or(LONG_POLL, |left| left.min(LONG_POLL));
            let query = [("timeout_ms", poll.as_millis().to_string())];
            let job = self.server.get(&path, &query).await?;
            match job["state"].as_str().unwrap_or_default() {
                "complete" => {
                    if self.session.json() {
                        self.session.screen.print_json(&job)?;
                    } else {
                        self.session
                            .screen
                            .write(&format!("{}\n", clean(&job["output"].to_string())))?;
                    }
                    return Ok(Exit::Done);
                }
                "failed" | "cancelled" => return Err(self.not_complete(id, &job)?),
                _ if left.is_some_and(|left| left.is_zero()) => {
                    let told = format!("job {id} has not ended in time; it goes on");
                    return Err(Problem::new(Exit::WaitTimeout, "wait_timeout", told));
                }
                _ => {}
            }
        }
    }

    fn not_complete(&self, id: &str, job: &Value) -> Result<Problem, Problem> {
        if self.session.json() {
            self.session.screen.print_json(job)?;
        }
        let (code, told) = match job["state"].as_str() {
            Some("cancelled") => ("job_cancelled", format!("job {id} was cancelled")),
            _ => {
                let why = job["error"]["message"].as_str().unwrap_or("it does not say why");
                ("job_failed", format!("job {id} failed: {why}"))
            }
        };
        let problem = Problem::new(Exit::JobFailed, code, told).detail("state", &job["state"]);
        Ok(problem.hint(format!("semel jobs show {}", operand(id))))
    }
}

/// A body with a part that a user wrote, as it was written.
pub fn with(body: Value, name: &str, said: &Json) -> Result<BTreeMap<String, Box<RawValue>>, Problem> {
    let wrong = |error: serde_json::Error| Problem::usage(error.to_string());
    let mut members = BTreeMap::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        members.insert(
            name.clone(),
            serde_json::value::to_raw_value(value).map_err(wrong)?,
        );
    }
    members.insert(
        name.to_owned(),
        RawValue::from_string(said.to_string()).map_err(wrong)?,
    );
    Ok(members)
}

/// What belongs to an act by its record: `{"reason": …}`.
pub fn why(reason: Option<&str>) -> Value {
    reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }))
}
