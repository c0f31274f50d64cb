//! Keys and steps.

use std::collections::BTreeSet;

use reqwest::Method;
use semel::Action;
use semel_core::ids::Digest;
use serde_json::json;

use crate::commands::keys::KeysCommand;
use crate::commands::steps::StepsCommand;
use crate::commands::submit::input;
use crate::confirm;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::server::part;
use crate::remote::submit::with;
use crate::remote::{To, show};
use crate::screen::clean;

/// Keys that are looked through for one with a whole text.
const LOOKED_THROUGH: usize = 20_000;

impl To<'_> {
    /// `semel keys …`
    pub async fn keys(&self, command: KeysCommand) -> Result<Exit, Problem> {
        match command {
            KeysCommand::List(args) => {
                let query = args.page.query(args.query());
                let found = self.gather("/v1/keys", query, args.page.limit).await?;
                self.say_list(&found, show::KEYS, "No key is like that.")
            }
            KeysCommand::Show(args) => {
                let digest = self.digest(&args.key).await?;
                let query = args.page.query(Vec::new());
                let found = self.server.get(&format!("/v1/keys/{digest}"), &query).await?;
                self.say(&found, |page| {
                    let mut key = found.clone();
                    let ledger = key.as_object_mut().and_then(|members| members.remove("ledger"));
                    show::fields(page, &key);
                    page.heading("Absorbed");
                    show::rows(
                        page,
                        &ledger.unwrap_or_default(),
                        show::LEDGER,
                        "It has absorbed nothing.",
                    );
                })
            }
            KeysCommand::Release(args) => {
                let Some(said) = &args.key else {
                    return self.act(Action::Release, &[], args.query(), &args.act).await;
                };
                let digest = self.digest(said).await?;
                let path = format!("/v1/keys/{digest}");
                let key = self.server.get(&path, &[]).await?;
                let holder = match &args.holder {
                    Some(holder) => json!(holder),
                    None => key["holder"]["id"].clone(),
                };
                if args.holder.is_none() {
                    let plan = format!("this frees key {:?}, held by job {holder}", clean(said));
                    confirm::ask(&plan, args.act.yes, self.session)?;
                }
                let body = json!({"holder": holder, "reason": args.act.reason});
                let answer = self
                    .server
                    .send(Method::POST, &format!("{path}/release"), &body)
                    .await?;
                self.say_that(&answer, &format!("Key {said:?} is free."))
            }
        }
    }

    /// The digest of a key that was said by its text or its digest.
    async fn digest(&self, said: &str) -> Result<String, Problem> {
        if said.parse::<Digest>().is_ok() {
            return Ok(said.to_owned());
        }
        let query = vec![("text", said.to_owned()), ("state", "all".to_owned())];
        // Keys whose text contains this one come first if they are newer.
        let found = self.gather("/v1/keys", query, LOOKED_THROUGH).await?;
        let items = found["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let exact: BTreeSet<&str> = items
            .iter()
            .filter(|key| key["text"] == said.trim())
            .filter_map(|key| key["digest"].as_str())
            .collect();
        match exact.len() {
            1 => Ok(exact.into_iter().collect()),
            0 => Err(
                Problem::not_found(format!("there is no key {:?}", clean(said))).hint(
                    "a server is told a whole text or a whole digest; semel keys list --text PART finds it",
                ),
            ),
            _ => Err(Problem::usage(format!("{} keys have this text", exact.len()))
                .hint("say its digest; semel keys list --text TEXT --also-free shows them")),
        }
    }

    /// `semel steps …`
    pub async fn steps(&self, command: StepsCommand) -> Result<Exit, Problem> {
        match command {
            StepsCommand::List(args) => match args.job {
                Some(id) => {
                    let path = format!("/v1/jobs/{}/steps", part(id.as_str()));
                    self.list(&path, show::STEPS, "No step was begun.").await
                }
                None => self.list("/v1/steps", show::STEPS, "No step is in doubt.").await,
            },
            StepsCommand::Resolve(args) => {
                if args.happened == args.did_not_happen {
                    return Err(Problem::usage(
                        "a step in doubt: allowed is --happened or --did-not-happen",
                    ));
                }
                let body = json!({"happened": args.happened, "reason": args.reason.unwrap_or_default()});
                let path = format!(
                    "/v1/steps/{}/{}/resolve",
                    part(args.origin.as_str()),
                    part(args.step.as_str())
                );
                let answer = match args.happened {
                    true => {
                        let body = with(body, "output", &input::read(args.output.as_deref())?)?;
                        self.server.send(Method::POST, &path, &body).await?
                    }
                    false => self.server.send(Method::POST, &path, &body).await?,
                };
                self.say_that(
                    &answer,
                    &format!("Step {} of {} is decided.", args.step, args.origin),
                )
            }
        }
    }
}
