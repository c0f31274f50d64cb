//! A stretch of plain work: new jobs of one lane, first leases of several of them, completions of those together.
//!
//! Stores have short ways for it, which the other operations hardly ever come to: their claims meet jobs of every kind,
//! and their settlements end in every way. Between two parts of a stretch something may come in its way.

use semel_core::dedup::{Dedup, Hold, HoldKind, OnMismatch, ReleaseOn};
use semel_core::ids::Name;
use semel_core::lifecycle::Settle;
use semel_core::limits;
use semel_core::store::ClaimRequest;
use semel_core::submission::{Policy, Submission};
use semel_core::time::Millis;

use super::pair::{Agreed, Run};

/// Keys that jobs of a stretch may have: many, so that most are free.
const KEYS: usize = 10_000;
/// Before all others: the first leases of the lane are theirs.
const PRIORITY: i8 = 100;

impl Run<'_> {
    pub(super) async fn plain(&mut self) -> Agreed {
        // Settings that end by themselves are a matter of the exact time, which no short way knows.
        if self.rng.chance(70) {
            self.unset().await?;
        }
        let queue = self.rng.pick(&self.words.queues).clone();
        let task = self.rng.pick(&self.words.tasks).clone();
        let size = self.rng.between(2, 10);
        let batch = (0..size).map(|_| self.plain_submission(&queue, &task)).collect();
        self.submit(batch).await?;
        self.in_its_way().await?;
        // Sometimes fewer than there are, sometimes those of the lane that are not plain as well.
        let max = self.rng.between(1, size + 2);
        let mut request = ClaimRequest {
            token: self.rng.token(self.now()),
            worker: self.rng.pick(&self.words.workers).clone(),
            queues: vec![queue],
            tasks: vec![task],
            max: usize::try_from(max).expect("small"),
            lease: Millis::new(self.rng.between(1_000, 20_000)),
        };
        if !self.capabilities.strict_order {
            request.max = limits::BATCH;
        }
        let mut deliveries = self.claim_with(request).await?;
        self.in_its_way().await?;
        if self.rng.chance(20) {
            deliveries.truncate(1 + self.rng.below(deliveries.len().max(1)));
        }
        if self.rng.chance(30) {
            self.rng.shuffle(&mut deliveries);
        }
        let output = self
            .rng
            .chance(50)
            .then(|| self.rng.pick(&self.words.outputs).clone());
        let mut results: Vec<Settle> = deliveries
            .iter()
            .map(|_| Settle::Complete {
                output: output.clone(),
            })
            .collect();
        if self.rng.chance(15) && !results.is_empty() {
            let at = self.rng.below(results.len());
            results[at] = self.any_result();
        }
        self.settle_with(&deliveries, &results).await?;
        if self.rng.chance(15) {
            self.settle_with(&deliveries, &results).await?;
        }
        Ok(())
    }

    /// New, due at once, and with a key that neither a lease nor time takes from it before it ends, if it has one.
    fn plain_submission(&mut self, queue: &Name, task: &Name) -> Submission {
        let token = self.rng.token(self.now());
        let input = self.rng.pick(&self.words.inputs).clone();
        let mut submission = Submission::new(token, task.clone(), input);
        submission.queue = queue.clone();
        submission.priority = PRIORITY;
        submission.max_attempts = 2;
        submission.max_deliveries = 2;
        submission.policy = match self.rng.below(4) {
            0 => Policy::None,
            1 => self.plain_policy(Hold::until_finished()).into(),
            2 => {
                let window = Hold {
                    kind: HoldKind::Window,
                    ttl: Some(Millis::new(self.rng.between(1, 60_000))),
                    cool_down: None,
                    release_on: ReleaseOn::default(),
                };
                self.plain_policy(window).into()
            }
            _ => {
                let forever = Hold {
                    kind: HoldKind::Forever,
                    ttl: None,
                    cool_down: None,
                    release_on: ReleaseOn::default(),
                };
                self.plain_policy(forever).into()
            }
        };
        submission
    }

    fn plain_policy(&mut self, hold: Hold) -> Dedup {
        let mut policy = Dedup::explicit(format!("plain {}", self.rng.below(KEYS)));
        policy.hold = hold;
        policy.on_mismatch = OnMismatch::Ignore;
        policy
    }

    /// Something may happen between two parts of a stretch.
    async fn in_its_way(&mut self) -> Agreed {
        match self.rng.below(16) {
            0 => self.act().await,
            1 => self.probe().await,
            2 => self.extend().await,
            3 => self.pass(),
            4 => self.release().await,
            5 if self.rng.chance(30) => self.crash(),
            _ => Ok(()),
        }
    }
}
