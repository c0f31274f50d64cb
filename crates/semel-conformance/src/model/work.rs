//! What workers do: claim, extend, settle, steps — with the newest fence, an old one, or none that ever was.

use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::limits;
use semel_core::store::{Beat, ClaimRequest, Claimed, ExtendRequest, Settlement, WriteOutcome};
use semel_core::time::Millis;
use semel_core::view::Job;

use super::known::{Delivery, Fences};
use super::pair::{Agreed, Both, Run, Side, same_list, unsaid};
use crate::rng::Rng;

impl Run<'_> {
    pub(super) async fn claim(&mut self) -> Agreed {
        let now = self.now();
        let rng = &mut self.rng;
        let max = rng.between(1, 6);
        let mut request = ClaimRequest {
            token: rng.token(now),
            worker: rng.pick(&self.words.workers).clone(),
            queues: some_names(rng, &self.words.queues),
            tasks: some_names(rng, &self.words.tasks),
            max: usize::try_from(max).expect("small"),
            lease: Millis::new(rng.between(1_000, 20_000)),
        };
        if !self.capabilities.strict_order {
            // Which jobs come first is the store's business: taking all of them is the same for every order.
            request.max = limits::BATCH;
        }
        if rng.once_in(100) {
            spoil(rng, &mut request);
        }
        self.claim_with(request).await.map(|_| ())
    }

    pub(super) async fn claim_again(&mut self) -> Agreed {
        let Some(request) = self.known.claims.any(&mut self.rng) else {
            return Ok(());
        };
        self.claim_with(request).await.map(|_| ())
    }

    /// Claims, and gives the deliveries that are new.
    pub(super) async fn claim_with(&mut self, request: ClaimRequest) -> Agreed<Vec<Delivery>> {
        let answers = self
            .ask(("claim", 1), request.clone(), async |store, _| {
                store.claim(request.clone()).await
            })
            .await?;
        let Some(mut answers) = answers else {
            return Ok(Vec::new());
        };
        if !self.capabilities.strict_order {
            answers.store.sort_by(|a, b| a.job.id.cmp(&b.job.id));
            answers.reference.sort_by(|a, b| a.job.id.cmp(&b.job.id));
        }
        let new = self.learn_leases(&answers)?;
        if !answers.reference.is_empty() {
            self.known.claims.push(request);
        }
        let fences = &self.known.fences;
        same_list(
            "claim",
            &answers.map(|list, side| {
                list.into_iter()
                    .map(|one| plain_claim(one, fences, side))
                    .collect()
            }),
        )?;
        Ok(new)
    }

    fn learn_leases(&mut self, answers: &Both<Vec<Claimed>>) -> Agreed<Vec<Delivery>> {
        let mut new = Vec::new();
        for (store, reference) in answers.store.iter().zip(&answers.reference) {
            let id = &reference.job.id;
            if store.job.id != *id {
                return Err(format!(
                    "claim: the store gives {} where the reference gives {id}",
                    store.job.id
                ));
            }
            let fence = Both {
                store: store.fence,
                reference: reference.fence,
            };
            self.known.job(id);
            if self.known.fences.learn(id, &fence)? {
                new.push(Delivery {
                    id: id.clone(),
                    fence,
                    open: true,
                });
            }
        }
        for delivery in &new {
            self.known.deliveries.push(delivery.clone());
        }
        Ok(new)
    }

    pub(super) async fn extend(&mut self) -> Agreed {
        let deliveries = self.some_deliveries(3);
        let lease = match self.rng.once_in(50) {
            true => Millis::new(*self.rng.pick(&[999, 3_600_001])),
            false => Millis::new(self.rng.between(1_000, 30_000)),
        };
        let said: Vec<_> = deliveries.iter().map(|_| self.anything_to_say()).collect();
        let request = |side: Side| {
            let leases = deliveries
                .iter()
                .zip(&said)
                .map(|(delivery, (progress, log))| Beat {
                    id: delivery.id.clone(),
                    fence: *delivery.fence.of(side),
                    progress: *progress,
                    log: log.clone(),
                });
            ExtendRequest {
                leases: leases.collect(),
                lease,
            }
        };
        let call = ("extend", deliveries.len());
        let answers = self
            .ask(call, request(Side::Reference), async |store, side| {
                store.extend(request(side)).await
            })
            .await?;
        answers.map_or(Ok(()), |answers| same_list("extend", &plain_writes(answers)))
    }

    fn anything_to_say(&mut self) -> (Option<f64>, Vec<String>) {
        let progress = *self.rng.pick(&[None, None, Some(0.0), Some(0.5), Some(1.0)]);
        let nonsense = *self.rng.pick(&[f64::NAN, -0.1, 1.5, f64::INFINITY]);
        let lines = self.rng.below(4).saturating_sub(1);
        let log = (0..lines)
            .map(|n| format!("line {n} \"of\" {}", self.rng.below(100)))
            .collect();
        (
            if self.rng.once_in(20) {
                Some(nonsense)
            } else {
                progress
            },
            log,
        )
    }

    pub(super) async fn settle(&mut self) -> Agreed {
        let deliveries = self.some_deliveries(5);
        let results: Vec<Settle> = deliveries.iter().map(|_| self.any_result()).collect();
        self.settle_with(&deliveries, &results).await
    }

    /// Settles deliveries, each with its result.
    pub(super) async fn settle_with(&mut self, deliveries: &[Delivery], results: &[Settle]) -> Agreed {
        let batch = |side: Side| -> Vec<Settlement> {
            let one = |(delivery, result): (&Delivery, &Settle)| Settlement {
                id: delivery.id.clone(),
                fence: *delivery.fence.of(side),
                result: result.clone(),
            };
            deliveries.iter().zip(results).map(one).collect()
        };
        let call = ("settle", deliveries.len());
        let answers = self
            .ask(call, batch(Side::Reference), async |store, side| {
                store.settle(batch(side)).await
            })
            .await?;
        let Some(answers) = answers.map(plain_writes) else {
            return Ok(());
        };
        same_list("settle", &answers)?;
        for (delivery, answer) in deliveries.iter().zip(&answers.reference) {
            self.close(
                delivery,
                matches!(answer, WriteOutcome::Ok(_) | WriteOutcome::Refused(_)),
            );
        }
        Ok(())
    }

    fn close(&mut self, settled: &Delivery, is_over: bool) {
        for delivery in &mut self.known.deliveries.0 {
            if is_over && delivery.id == settled.id && delivery.fence.reference == settled.fence.reference {
                delivery.open = false;
            }
        }
    }

    pub(super) fn any_result(&mut self) -> Settle {
        let rng = &mut self.rng;
        let error = (*rng.pick(&self.words.errors)).to_owned();
        match rng.below(100) {
            0 => Settle::Complete {
                output: Some(Json::trusted("1".repeat(limits::OUTPUT_BYTES + 1))),
            },
            1 => Settle::Snooze {
                delay: Millis::new(limits::LONGEST.as_millis() + 1),
            },
            2..15 => Settle::Complete { output: None },
            15..32 => Settle::Complete {
                output: Some(rng.pick(&self.words.outputs).clone()),
            },
            32..42 => Settle::Retry { error, delay: None },
            42..52 => Settle::Retry {
                error,
                delay: Some(Millis::new(rng.between(0, 3_000))),
            },
            52..75 => Settle::Fail { error },
            75..82 => Settle::Snooze {
                delay: Millis::new(rng.between(0, 5_000)),
            },
            82..88 => Settle::HandBack,
            88..95 => Settle::Park { reason: error },
            _ => Settle::Cancel,
        }
    }

    /// Deliveries to speak about: mostly open ones, sometimes old ones, sometimes a fence out of thin air.
    pub(super) fn some_deliveries(&mut self, most: i64) -> Vec<Delivery> {
        let count = self.rng.between(1, most);
        (0..count).filter_map(|_| self.some_delivery()).collect()
    }

    fn some_delivery(&mut self) -> Option<Delivery> {
        if self.rng.once_in(25) {
            let id = self.known.any_job(&mut self.rng)?;
            let fence = *self.rng.pick(&[i64::MIN, -1, 0, 1, i64::MAX]);
            return Some(Delivery {
                id,
                fence: Both {
                    store: fence,
                    reference: fence,
                },
                open: false,
            });
        }
        let open: Vec<&Delivery> = self
            .known
            .deliveries
            .0
            .iter()
            .filter(|delivery| delivery.open)
            .collect();
        match self.rng.chance(80) {
            true if !open.is_empty() => Some((*self.rng.pick(&open)).clone()),
            _ => self.known.deliveries.any(&mut self.rng),
        }
    }
}

fn some_names(rng: &mut Rng, of: &[Name]) -> Vec<Name> {
    if rng.chance(60) {
        return Vec::new();
    }
    let mut names = of.to_vec();
    rng.shuffle(&mut names);
    names.truncate(1 + rng.below(2));
    names
}

fn spoil(rng: &mut Rng, request: &mut ClaimRequest) {
    match rng.below(4) {
        0 => request.max = 0,
        1 => request.max = 1_001,
        2 => request.lease = Millis::new(999),
        _ => request.lease = Millis::new(3_600_001),
    }
}

fn plain_claim(mut claimed: Claimed, fences: &Fences, side: Side) -> Claimed {
    claimed.fence = fences.rank(&claimed.job.id, claimed.fence, side);
    claimed.job = plain_job(claimed.job, fences, side);
    claimed
}

/// A job with everything the store is free to choose made comparable.
pub(super) fn plain_job(mut job: Job, fences: &Fences, side: Side) -> Job {
    job.fence = fences.rank(&job.id, job.fence, side);
    if let Some(key) = &mut job.key {
        key.generation = 0;
    }
    job
}

fn plain_writes(answers: Both<Vec<WriteOutcome>>) -> Both<Vec<WriteOutcome>> {
    let plain = |answer| match answer {
        WriteOutcome::Invalid(_) => WriteOutcome::Invalid(unsaid()),
        other => other,
    };
    answers.map(|list, _| list.into_iter().map(plain).collect())
}
