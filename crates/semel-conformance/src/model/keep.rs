//! What is kept beside jobs: guarded keys, documents, feeds.

use semel_core::guard::GuardCall;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::store::{Document, Expect, GuardOutcome, GuardRequest, Page, PutDocument, PutOutcome};
use semel_core::time::Millis;

use super::pair::{Agreed, Both, Run, Side, same, same_list, unsaid};
use crate::kit::json;

impl Run<'_> {
    pub(super) async fn guard(&mut self) -> Agreed {
        let mut batch = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            batch.push(self.any_guard());
        }
        let call = ("guard", batch.len());
        let answers = self
            .ask(call, batch.clone(), async |store, _| {
                store.guard(batch.clone()).await
            })
            .await?;
        let plain = |answer| match answer {
            GuardOutcome::Invalid(_) => GuardOutcome::Invalid(unsaid()),
            other => other,
        };
        let answers = answers.map(|answers| answers.map(|list, _| list.into_iter().map(plain).collect()));
        answers.map_or(Ok(()), |answers| same_list("guard", &answers))
    }

    fn any_guard(&mut self) -> GuardRequest {
        let now = self.now();
        let rng = &mut self.rng;
        let fresh = rng.token(now);
        let known = self.known.guard_tokens.any(rng).unwrap_or(fresh);
        let key = match rng.once_in(50) {
            true => String::new(),
            false => (*rng.pick(&self.words.guards)).to_owned(),
        };
        let call = match rng.below(10) {
            0..5 => {
                let token = if rng.chance(20) { known } else { fresh };
                self.known.guard_tokens.push(token);
                let ttl = if rng.once_in(50) {
                    0
                } else {
                    rng.between(1, 20_000)
                };
                GuardCall::Reserve {
                    token,
                    ttl: Millis::new(ttl),
                }
            }
            5..8 => GuardCall::Confirm {
                token: known,
                output: rng.pick(&self.words.outputs).clone(),
            },
            _ => GuardCall::Release { token: known },
        };
        GuardRequest { key, call }
    }

    pub(super) async fn document(&mut self) -> Agreed {
        match self.rng.below(10) {
            0..7 => self.put_document().await,
            7..9 => self.delete_document().await,
            _ => self.read_documents().await,
        }
    }

    async fn put_document(&mut self) -> Agreed {
        let kind = self.rng.pick(&self.words.kinds).clone();
        let name = (*self.rng.pick(&self.words.documents)).to_owned();
        let version = self.any_version(&kind, &name);
        let body = json(&format!(r#"{{"n":{}}}"#, self.rng.below(100)));
        let ttl = self
            .rng
            .chance(30)
            .then(|| Millis::new(self.rng.between(1, 20_000)));
        let choice = self.rng.below(3);
        let put = |side: Side| {
            let expect = match choice {
                0 => Expect::Any,
                1 => Expect::Absent,
                _ => Expect::Version(*version.of(side)),
            };
            PutDocument {
                kind: kind.clone(),
                name: name.clone(),
                body: body.clone(),
                expect,
                ttl,
            }
        };
        let answers = self
            .ask(("put_document", 1), put(Side::Reference), async |store, side| {
                store.put_document(put(side)).await
            })
            .await?;
        let Some(answers) = answers else { return Ok(()) };
        if let (PutOutcome::Done { version: store }, PutOutcome::Done { version: reference }) =
            (&answers.store, &answers.reference)
        {
            self.learn_version(
                &kind,
                &name,
                Both {
                    store: *store,
                    reference: *reference,
                },
            )?;
        }
        self.same_put("put_document", answers)
    }

    async fn delete_document(&mut self) -> Agreed {
        let kind = self.rng.pick(&self.words.kinds).clone();
        let name = (*self.rng.pick(&self.words.documents)).to_owned();
        let version = self.any_version(&kind, &name);
        let checked = self.rng.chance(50);
        let expected = |side: Side| checked.then_some(*version.of(side));
        let request = (kind.clone(), name.clone(), expected(Side::Reference));
        let answers = self
            .ask(("delete_document", 1), request, async |store, side| {
                store.delete_document(&kind, &name, expected(side)).await
            })
            .await?;
        answers.map_or(Ok(()), |answers| self.same_put("delete_document", answers))
    }

    pub(super) async fn read_documents(&mut self) -> Agreed {
        for kind in self.words.kinds.clone() {
            let page = Page::first(10);
            let listed = self
                .look("documents", async |store, _| {
                    store.documents(&kind, "a", page.clone()).await
                })
                .await?
                .map(|both| both.map(|list, side| self.plain_documents(list.items, side)));
            listed.map_or(Ok(()), |both| same_list("documents", &both))?;
            for name in self.words.documents {
                let read = self
                    .look("document", async |store, _| store.document(&kind, name).await)
                    .await?
                    .map(|both| {
                        both.map(|document, side| document.map(|one| self.plain_document(one, side)))
                    });
                read.map_or(Ok(()), |both| same("document", &both))?;
            }
        }
        Ok(())
    }

    pub(super) async fn feed(&mut self) -> Agreed {
        let feed = *self.rng.pick(&self.words.feeds);
        let bodies: Vec<Json> = (0..self.rng.between(1, 3))
            .map(|_| json(&format!(r#"{{"e":{}}}"#, self.rng.below(100))))
            .collect();
        let request = (feed, bodies.clone());
        let call = ("append", bodies.len());
        self.ask(call, request, async |store, _| {
            store.append(feed, bodies.clone()).await
        })
        .await?;
        let read = self
            .look("feed", async |store, _| store.feed(feed, Page::first(20)).await)
            .await?;
        read.map_or(Ok(()), |both| same_list("feed", &both.map(|list, _| list.items)))
    }

    fn any_version(&mut self, kind: &Name, name: &str) -> Both<i64> {
        let nothing = Both {
            store: 1,
            reference: 1,
        };
        let Some(list) = self.known.versions.get(&(kind.clone(), name.to_owned())) else {
            return nothing;
        };
        match self.rng.chance(70) {
            true => list.last().cloned().unwrap_or(nothing),
            false => self.rng.pick(list).clone(),
        }
    }

    /// Versions of a document only grow, over a removal too.
    fn learn_version(&mut self, kind: &Name, name: &str, version: Both<i64>) -> Agreed {
        let list = self
            .known
            .versions
            .entry((kind.clone(), name.to_owned()))
            .or_default();
        if let Some(last) = list.last().filter(|last| last.store >= version.store) {
            return Err(format!(
                "the version of {name} does not grow: {} after {}",
                version.store, last.store
            ));
        }
        list.push(version);
        if list.len() > 20 {
            list.remove(0);
        }
        Ok(())
    }

    fn same_put(&self, what: &str, answers: Both<PutOutcome>) -> Agreed {
        let plain = answers.map(|answer, side| match answer {
            PutOutcome::Done { .. } => PutOutcome::Done { version: 0 },
            PutOutcome::Mismatch { found } => PutOutcome::Mismatch {
                found: found.map(|document| self.plain_document(document, side)),
            },
        });
        same(what, &plain)
    }

    fn plain_documents(&self, documents: Vec<Document>, side: Side) -> Vec<Document> {
        documents
            .into_iter()
            .map(|document| self.plain_document(document, side))
            .collect()
    }

    /// A version becomes the number of the write it came from.
    fn plain_document(&self, mut document: Document, side: Side) -> Document {
        let list = self
            .known
            .versions
            .get(&(document.kind.clone(), document.name.clone()));
        let place = list.and_then(|list| {
            list.iter()
                .rposition(|version| *version.of(side) == document.version)
        });
        document.version = place.map_or(-1, |place| i64::try_from(place).expect("few versions"));
        document
    }
}
