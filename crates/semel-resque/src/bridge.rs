//! The bridge itself: both directions, in turns.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use semel::ids::fresh_token;
use semel_core::error::{Invalid, StoreError};
use semel_core::ids::{Name, Token};
use semel_core::job::{Outcome, State};
use semel_core::lifecycle::Settle;
use semel_core::store::{ClaimRequest, Claimed, Interest, Mark, Settlement, Store, Submitted, WriteOutcome};
use semel_core::submission::Submission;
use semel_core::time::Millis;

use crate::error::Error;
use crate::payload;
use crate::resque::{Mended, Pushed, Resque, Taken};

/// Payloads that cross in one go.
const BATCH: usize = 200;
/// Jobs on their way out are leased for this long: much longer than one push takes.
const LEASE: Millis = Millis::new(60_000);

/// Moves work between queues of Resque and queues of Semel.
pub struct Bridge {
    resque: Resque,
    store: Arc<dyn Store>,
    inward: Vec<Name>,
    outward: Vec<Name>,
    unique: Vec<Name>,
    poll: Duration,
    lease: Millis,
    worker: Name,
}

/// What has crossed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Crossed {
    /// Payloads that became jobs.
    pub submitted: u64,
    /// Payloads that an equal job absorbed.
    pub absorbed: u64,
    /// Payloads that nobody can run: in Resque's failed list.
    pub failed: u64,
    /// Jobs that became payloads.
    pub pushed: u64,
    /// Jobs whose payload was in the unique queue.
    pub present: u64,
    /// Jobs that were pushed by an earlier delivery.
    pub repeated: u64,
    /// Unique queues whose structures did not agree.
    pub mended: u64,
    /// Payloads that were in a unique queue twice.
    pub dropped: u64,
}

impl Crossed {
    /// Whether anything moved.
    pub fn is_nothing(&self) -> bool {
        *self == Crossed::default()
    }

    fn add(&mut self, other: &Crossed) {
        self.submitted += other.submitted;
        self.absorbed += other.absorbed;
        self.failed += other.failed;
        self.pushed += other.pushed;
        self.present += other.present;
        self.repeated += other.repeated;
        self.mended += other.mended;
        self.dropped += other.dropped;
    }

    fn mend(&mut self, mended: Mended) {
        self.mended += mended.mended;
        self.dropped += mended.dropped;
    }
}

impl Bridge {
    /// A bridge between a Redis of Resque and a store; no queue crosses it yet.
    pub fn new(resque: Resque, store: Arc<dyn Store>) -> Self {
        Bridge {
            resque,
            store,
            inward: Vec::new(),
            outward: Vec::new(),
            unique: Vec::new(),
            poll: Duration::from_millis(200),
            lease: LEASE,
            worker: Name::new("resque-bridge").expect("a name"),
        }
    }

    /// Payloads of these queues become jobs.
    #[must_use]
    pub fn inward(mut self, queues: impl IntoIterator<Item = Name>) -> Self {
        self.inward.extend(queues);
        self
    }

    /// Jobs of these queues become payloads.
    #[must_use]
    pub fn outward(mut self, queues: impl IntoIterator<Item = Name>) -> Self {
        self.outward.extend(queues);
        self
    }

    /// These queues are kept by resque-uniqueue.
    #[must_use]
    pub fn unique(mut self, queues: impl IntoIterator<Item = Name>) -> Self {
        self.unique.extend(queues);
        self
    }

    /// How long to wait before looking again where nothing was found.
    #[must_use]
    pub fn poll(mut self, length: Duration) -> Self {
        self.poll = length;
        self
    }

    /// For how long jobs on their way out are leased: what a killed bridge had in hand waits that long. A minute, if
    /// nothing is said.
    #[must_use]
    pub fn lease(mut self, length: Duration) -> Self {
        self.lease = Millis::from(length);
        self
    }

    fn check(&self) -> Result<(), Error> {
        if self.inward.is_empty() && self.outward.is_empty() {
            return Err(Invalid::new("queues", "at least one that goes in or out").into());
        }
        if let Some(both) = self.inward.iter().find(|queue| self.outward.contains(queue)) {
            let allowed = "each in one direction: it would go round in circles";
            return Err(Invalid::new("queues", allowed).found(both.as_str()).into());
        }
        Ok(())
    }

    fn is_unique(&self, queue: &Name) -> bool {
        self.unique.contains(queue)
    }

    /// Moves work until `stop` is done. Trouble with either side is waited out.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) -> Result<Crossed, Error> {
        self.check()?;
        let (mut all, mut trouble, mut first) = (Crossed::default(), 0_u32, true);
        let mut mark = Mark::default();
        tokio::pin!(stop);
        loop {
            let pause = match self.round(first).await {
                Ok(crossed) => {
                    (trouble, first) = (0, false);
                    all.add(&crossed);
                    if crossed.is_nothing() {
                        self.poll
                    } else {
                        Duration::ZERO
                    }
                }
                Err(error) => {
                    trouble += 1;
                    let pause = Duration::from_millis(50) * 2_u32.pow(trouble.min(7));
                    tracing::warn!(%error, ?pause, "nothing can cross; trying again");
                    pause
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return Ok(all),
                () = self.wait(&mut mark, pause) => {}
            }
        }
    }

    async fn wait(&self, mark: &mut Mark, pause: Duration) {
        if self.outward.is_empty() || pause != self.poll {
            return tokio::time::sleep(pause).await;
        }
        let interest = Interest::Work {
            queues: self.outward.clone(),
            tasks: Vec::new(),
        };
        *mark = self.store.changed(*mark, interest, pause).await;
    }

    /// Moves what is there, and ends.
    pub async fn drain(&self) -> Result<Crossed, Error> {
        self.check()?;
        let (mut all, mut first) = (Crossed::default(), true);
        loop {
            let crossed = self.round(first).await?;
            first = false;
            all.add(&crossed);
            if crossed.is_nothing() {
                return Ok(all);
            }
        }
    }

    async fn round(&self, first: bool) -> Result<Crossed, Error> {
        let mut crossed = Crossed::default();
        for queue in &self.inward {
            self.carry_in(queue, first, &mut crossed).await?;
        }
        if !self.outward.is_empty() {
            if first {
                self.forget_settled().await?;
            }
            self.carry_out(&mut crossed).await?;
        }
        Ok(crossed)
    }

    /// A bridge that was killed between settling a job and forgetting it left a mark that nobody else takes away.
    async fn forget_settled(&self) -> Result<(), Error> {
        for queue in &self.outward {
            let marked = self.resque.marked(queue).await?;
            for ids in marked.chunks(BATCH) {
                let jobs = self.store.jobs_by_id(ids).await?;
                let complete = jobs.iter().flatten().filter(|job| job.state == State::Complete);
                let complete: Vec<String> = complete.map(|job| job.id.to_string()).collect();
                if !complete.is_empty() {
                    self.resque.forget(queue, &complete).await?;
                }
            }
        }
        Ok(())
    }

    /// What was taken before is submitted first, under the tokens it had: whoever took it may have been killed.
    async fn carry_in(&self, queue: &Name, first: bool, crossed: &mut Crossed) -> Result<(), Error> {
        let left = self.resque.left(queue).await?;
        if !left.is_empty() {
            self.submit(queue, left, crossed).await?;
        }
        let tokens: Vec<Token> = std::iter::repeat_with(fresh_token).take(BATCH).collect();
        let unique = self.is_unique(queue);
        let (mended, taken) = self.resque.take(queue, unique, unique && first, &tokens).await?;
        crossed.mend(mended);
        if taken.is_empty() {
            return Ok(());
        }
        self.submit(queue, taken, crossed).await
    }

    async fn submit(&self, queue: &Name, taken: Vec<Taken>, crossed: &mut Crossed) -> Result<(), Error> {
        for part in taken.chunks(BATCH) {
            self.submit_part(queue, part, crossed).await?;
        }
        Ok(())
    }

    async fn submit_part(&self, queue: &Name, taken: &[Taken], crossed: &mut Crossed) -> Result<(), Error> {
        let seconds = self.resque.seconds().await?;
        let (mut batch, mut finished) = (Vec::new(), Vec::new());
        let failed = |taken: &Taken, error: &Invalid| {
            let text = payload::failed(queue, seconds, &taken.payload, error);
            (taken.token, text)
        };
        for taken in taken {
            match self.read(queue, taken) {
                Ok(submission) => batch.push((taken, submission)),
                Err(error) => finished.push(failed(taken, &error)),
            }
        }
        let submissions: Vec<Submission> = batch.iter().map(|(_, submission)| submission.clone()).collect();
        let answers = match submissions.is_empty() {
            true => Vec::new(),
            false => self.store.submit(submissions).await?,
        };
        let mut closed = None;
        for ((taken, _), answer) in batch.iter().zip(answers) {
            match answer {
                Submitted::Invalid(error) => finished.push(failed(taken, &error)),
                Submitted::Closed { target } => closed = Some(target),
                Submitted::Job(admitted) if admitted.outcome == Outcome::Accepted => {
                    crossed.submitted += 1;
                    finished.push((taken.token, String::new()));
                }
                _ => {
                    crossed.absorbed += 1;
                    finished.push((taken.token, String::new()));
                }
            }
        }
        crossed.failed += finished.iter().filter(|(_, text)| !text.is_empty()).count() as u64;
        self.resque.finish(queue, &finished).await?;
        // What is not let in stays under way, and is tried again after a pause.
        match closed {
            Some(target) => Err(StoreError::unavailable(format!("submitting: {target:?} is closed")).into()),
            None => Ok(()),
        }
    }

    fn read(&self, queue: &Name, taken: &Taken) -> Result<Submission, Invalid> {
        let unique = self.is_unique(queue);
        let submission = payload::submission(queue, unique, taken.token, &taken.time, &taken.payload)?;
        Ok(submission)
    }

    async fn carry_out(&self, crossed: &mut Crossed) -> Result<(), Error> {
        let request = ClaimRequest {
            token: fresh_token(),
            worker: self.worker.clone(),
            queues: self.outward.clone(),
            tasks: Vec::new(),
            max: BATCH,
            lease: self.lease,
        };
        let claimed = self.store.claim(request).await?;
        let mut by_queue: BTreeMap<Name, Vec<Claimed>> = BTreeMap::new();
        for claimed in claimed {
            by_queue
                .entry(claimed.job.queue.clone())
                .or_default()
                .push(claimed);
        }
        let mut trouble = None;
        for (queue, claimed) in by_queue {
            if let Err(error) = self.push(&queue, &claimed, crossed).await {
                self.hand_back(&claimed).await?;
                trouble = Some(error);
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    async fn push(&self, queue: &Name, claimed: &[Claimed], crossed: &mut Crossed) -> Result<(), Error> {
        let payload = |claimed: &Claimed| {
            let job = &claimed.job;
            (job.id.to_string(), payload::of_job(&job.task, &job.input))
        };
        let jobs: Vec<(String, String)> = claimed.iter().map(payload).collect();
        let (mended, pushed) = self.resque.push(queue, self.is_unique(queue), &jobs).await?;
        crossed.mend(mended);
        for answer in pushed {
            match answer {
                Pushed::New => crossed.pushed += 1,
                Pushed::Absorbed => crossed.present += 1,
                Pushed::Again => crossed.repeated += 1,
            }
        }
        let settled = self.settle(claimed, Settle::Complete { output: None }).await?;
        // A job that is not ours any more is delivered again: then its mark says that it was pushed.
        let done = jobs.into_iter().zip(settled);
        let done: Vec<String> = done
            .filter(|(_, outcome)| matches!(outcome, WriteOutcome::Ok(_)))
            .map(|((id, _), _)| id)
            .collect();
        if done.is_empty() {
            Ok(())
        } else {
            self.resque.forget(queue, &done).await
        }
    }

    async fn hand_back(&self, claimed: &[Claimed]) -> Result<(), Error> {
        self.settle(claimed, Settle::HandBack).await.map(drop)
    }

    async fn settle(&self, claimed: &[Claimed], result: Settle) -> Result<Vec<WriteOutcome>, Error> {
        let settlement = |claimed: &Claimed| Settlement {
            id: claimed.job.id.clone(),
            fence: claimed.fence,
            result: result.clone(),
        };
        Ok(self
            .store
            .settle(claimed.iter().map(settlement).collect())
            .await?)
    }
}
