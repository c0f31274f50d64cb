//! The one who writes: a task per shard that takes calls in the order they come, and those that are waiting together
//! in one step. So a lone caller waits for nobody, and a thousand callers cost a few steps.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use semel_core::error::StoreError;
use semel_core::ids::Name;
use semel_core::json::Json;
use semel_core::store::*;
use semel_core::time::Timestamp;

use crate::clock::jittered;
use crate::doctor;
use crate::jobs::RESCUE;
use crate::keys::Id;
use crate::link::concerns_all;
use crate::open_calls::{self, OpenEnd, OpenItem};
use crate::shard::Shard;
use crate::tx::{Slot, Tx, Written};
use crate::upkeep;

/// Items of several calls in one step.
const TOGETHER: usize = 1_000;
/// Groups of calls on their way at the same time.
const FLYING: usize = 2;
/// How often a step is taken again before it waits a little between two attempts.
const AT_ONCE: u32 = 3;

/// What is asked of the writer.
pub enum Call {
    /// Admit.
    Submit(Vec<OpenItem>),
    /// Heartbeats.
    Extend(ExtendRequest),
    /// Ends of attempts.
    Settle(Vec<OpenEnd>),
    /// Steps.
    Steps(Vec<StepRequest>),
    /// Guards.
    Guard(Vec<GuardRequest>),
    /// Leases.
    Claim(ClaimRequest),
    /// What people do.
    Act(Vec<Act>),
    /// A setting.
    Set(Target, SettingChange),
    /// Settings as they were decided in another shard; with a version of lanes and settings, only if that is still the
    /// one here.
    Adopt(Vec<(Target, Setting)>, Option<i64>),
    /// A queue goes.
    RemoveQueue(Name),
    /// A document.
    PutDocument(PutDocument),
    /// A document goes.
    DeleteDocument(Name, String, Option<i64>),
    /// Entries of a feed.
    Append(String, Vec<Json>),
    /// The baseline of the counters.
    ResetStats,
    /// Housekeeping.
    Upkeep(UpkeepRequest),
    /// A check-up with repair.
    Repair,
}

/// What came of it.
pub enum Reply {
    /// Of submissions.
    Submitted(Vec<Submitted>),
    /// Of heartbeats and ends.
    Written(Vec<WriteOutcome>),
    /// Of steps.
    Steps(Vec<StepOutcome>),
    /// Of guards.
    Guards(Vec<GuardOutcome>),
    /// Of a claim.
    Claimed(Vec<Claimed>),
    /// Of acts.
    Acted(Vec<ActOutcome>),
    /// Of a setting.
    Setting(Setting),
    /// Of settings that were decided elsewhere.
    Adopted,
    /// Of a removed queue.
    Removed(i64),
    /// Of a document.
    Put(PutOutcome),
    /// Of a feed.
    Appended,
    /// Of a reset.
    Reset(Timestamp),
    /// Of housekeeping.
    Upkeep(UpkeepReport),
    /// Of a check-up.
    Findings(Vec<Finding>),
}

macro_rules! only {
    ($($name:ident: $variant:ident => $kind:ty),* $(,)?) => {
        impl Reply {
            $(
                /// The reply, of which kind it has to be.
                pub fn $name(self) -> Result<$kind, StoreError> {
                    match self {
                        Reply::$variant(value) => Ok(value),
                        _ => Err(StoreError::corrupt("the writer answers something else")),
                    }
                }
            )*
        }
    };
}

only! {
    submitted: Submitted => Vec<Submitted>,
    written: Written => Vec<WriteOutcome>,
    steps: Steps => Vec<StepOutcome>,
    guards: Guards => Vec<GuardOutcome>,
    claimed: Claimed => Vec<Claimed>,
    acted: Acted => Vec<ActOutcome>,
    setting: Setting => Setting,
    removed: Removed => i64,
    put: Put => PutOutcome,
    reset: Reset => Timestamp,
    upkeep: Upkeep => UpkeepReport,
    findings: Findings => Vec<Finding>,
}

type Waiting = (Call, Answer);

/// The writer's handle. Dropping it stops the task.
pub struct Writer {
    calls: mpsc::UnboundedSender<Waiting>,
    task: JoinHandle<()>,
}

impl Writer {
    /// Starts the task.
    pub fn start(shard: Arc<Shard>) -> Self {
        let (calls, queue) = mpsc::unbounded_channel();
        let task = tokio::spawn(serve(shard, queue));
        Writer { calls, task }
    }

    /// Hands a call over and waits for what comes of it.
    pub async fn ask(&self, doing: &str, call: Call) -> Result<Reply, StoreError> {
        let (reply, answer) = oneshot::channel();
        if self.calls.send((call, reply)).is_err() {
            return Err(StoreError::unavailable(doing));
        }
        answer
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable(doing)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(shard: Arc<Shard>, mut queue: mpsc::UnboundedReceiver<Waiting>) {
    let shard: &Shard = &shard;
    let mut ahead: Option<Waiting> = None;
    let mut flying = FuturesUnordered::new();
    loop {
        let first = tokio::select! {
            biased;
            Some(left) = shard.link.drive(flying.next()) => {
                let rest: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(the_long_way(shard, left));
                rest.await;
                continue;
            }
            first = next(&mut ahead, &mut queue), if flying.len() < FLYING => first,
        };
        let Some(first) = first else { break };
        let mut group = vec![first];
        if !group[0].0.can_share() {
            let step: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(the_long_way(shard, group));
            step.await;
            continue;
        }
        let mut items = group[0].0.items();
        while let Ok(next) = queue.try_recv() {
            items += next.0.items();
            if !next.0.can_share() || items > TOGETHER {
                ahead = Some(next);
                break;
            }
            group.push(next);
        }
        // The task serves others too: it does not look out.
        shard.link.note(false);
        // While one group is on its way, the next is made ready.
        flying.push(at_once(shard, group));
    }
    // Whoever still waits is told.
    while let Some(left) = flying.next().await {
        the_long_way(shard, left).await;
    }
}

async fn next(ahead: &mut Option<Waiting>, queue: &mut mpsc::UnboundedReceiver<Waiting>) -> Option<Waiting> {
    match ahead.take() {
        Some(waiting) => Some(waiting),
        None => queue.recv().await,
    }
}

/// Writes and answers what can be at once; gives the rest.
async fn at_once(shard: &Shard, group: Vec<Waiting>) -> Vec<Waiting> {
    let _at_work = shard.at_work();
    let (mut calls, replies): (Vec<Call>, Vec<_>) = group.into_iter().unzip();
    let outcome = open_calls::at_once(shard, &mut calls).await;
    let group = calls.into_iter().zip(replies);
    let is_alone = group.len() == 1;
    let open = answered(group);
    match outcome {
        Err(error) if is_alone || concerns_all(&error) => {
            open.into_iter()
                .for_each(|(_, reply)| drop(reply.send(Err(repeat(&error)))));
            Vec::new()
        }
        // One of them may be the only one that cannot be answered.
        Ok(()) | Err(_) => open,
    }
}

async fn the_long_way(shard: &Shard, group: Vec<Waiting>) {
    if group.is_empty() {
        return;
    }
    let _at_work = shard.at_work();
    let (mut calls, replies): (Vec<Call>, Vec<_>) = group.into_iter().unzip();
    let outcome = if calls[0].can_share() {
        together(shard, &mut calls).await
    } else {
        alone(shard, &calls[0]).await.map(|one| vec![one])
    };
    match outcome {
        Ok(answers) => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                let _gone = reply.send(Ok(answer));
            }
        }
        Err(error) if calls.len() == 1 || concerns_all(&error) => replies
            .into_iter()
            .for_each(|reply| drop(reply.send(Err(repeat(&error))))),
        // One of them may be the only one that cannot be answered.
        Err(_) => {
            for (call, reply) in calls.iter_mut().zip(replies) {
                let answer = together(shard, std::slice::from_mut(call)).await;
                let _gone = reply.send(answer.map(|mut one| one.remove(0)));
            }
        }
    }
}

type Answer = oneshot::Sender<Result<Reply, StoreError>>;

/// Answers the calls of which nothing is open; gives the others.
fn answered(group: impl Iterator<Item = Waiting>) -> Vec<Waiting> {
    let mut open = Vec::new();
    for (call, reply) in group {
        if open_calls::is_answered(&call) {
            let _gone = reply.send(open_calls::reply(call));
        } else {
            open.push((call, reply));
        }
    }
    open
}

/// An error once more: the original cannot be shared.
fn repeat(error: &StoreError) -> StoreError {
    match error {
        StoreError::Invalid(invalid) => StoreError::Invalid(invalid.clone()),
        StoreError::Full { doing } => StoreError::Full { doing: doing.clone() },
        StoreError::ReadOnly { reason } => StoreError::ReadOnly {
            reason: reason.clone(),
        },
        StoreError::Refused { reason, hint } => StoreError::Refused {
            reason: reason.clone(),
            hint: hint.clone(),
        },
        StoreError::Corrupt { what } => StoreError::Corrupt { what: what.clone() },
        StoreError::Unavailable { doing, source } => StoreError::Unavailable {
            doing: doing.clone(),
            source: source.as_ref().map(|source| source.to_string().into()),
        },
        other => StoreError::unavailable(other.to_string()),
    }
}

/// Waits a little before a step is taken yet again.
async fn make_way(attempt: u32) {
    if attempt > AT_ONCE {
        let wait = Duration::from_micros(500) * attempt.min(40);
        tokio::time::sleep(jittered(wait)).await;
    }
}

/// Several calls that were made at the same time: what can be written at once is, the rest in one step.
async fn together(shard: &Shard, calls: &mut [Call]) -> Result<Vec<Reply>, StoreError> {
    open_calls::at_once(shard, calls).await?;
    for attempt in 1.. {
        let drawn = || open_calls::submissions(calls).map(|(_, drawn)| drawn);
        let seqs = drawn().filter(|drawn| drawn.seq.is_none()).count();
        let entries = drawn().filter(|drawn| drawn.entry.is_none()).count();
        let wanted = sorted(open_calls::wanted(shard, calls));
        let mut tx = Tx::begin(shard, wanted, seqs, entries).await?;
        tx.rescue(RESCUE).await?;
        let replies = open_calls::decide(&mut tx, calls).await?;
        if tx.commit().await? == Written::Done {
            return Ok(replies);
        }
        open_calls::give_up_numbers(calls);
        make_way(attempt).await;
    }
    Err(StoreError::unavailable("writing"))
}

fn sorted(mut slots: Vec<Slot>) -> Vec<Slot> {
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// A step by itself. `item` says which of several acts.
async fn step(shard: &Shard, call: &Call, item: usize) -> Result<Reply, StoreError> {
    for attempt in 1.. {
        let fresh = usize::from(matches!(call, Call::Act(_)));
        let mut tx = Tx::begin(shard, Vec::new(), fresh, 0).await?;
        let answer = decide(&mut tx, call, item).await?;
        if tx.commit().await? == Written::Done {
            return Ok(answer);
        }
        make_way(attempt).await;
    }
    Err(StoreError::unavailable("writing"))
}

async fn decide(tx: &mut Tx<'_>, call: &Call, item: usize) -> Result<Reply, StoreError> {
    if matches!(call, Call::Act(_) | Call::Set(..) | Call::RemoveQueue(_)) {
        tx.rescue(RESCUE).await?;
    }
    Ok(match call {
        Call::Act(acts) => Reply::Acted(vec![tx.act(&acts[item]).await?]),
        Call::Set(target, change) => Reply::Setting(tx.change_setting(target, change)),
        Call::Adopt(settings, seen) => {
            tx.adopt_settings(settings, *seen);
            Reply::Adopted
        }
        Call::RemoveQueue(queue) => Reply::Removed(tx.remove_queue(queue).await?),
        Call::PutDocument(put) => Reply::Put(tx.put_document(put).await?),
        Call::DeleteDocument(kind, name, version) => {
            Reply::Put(tx.delete_document(kind, name, *version).await?)
        }
        Call::Append(feed, bodies) => {
            tx.append(feed, bodies.clone());
            Reply::Appended
        }
        Call::ResetStats => Reply::Reset(tx.reset_stats()),
        _ => return Err(StoreError::corrupt("a call that comes with others stood alone")),
    })
}

async fn alone(shard: &Shard, call: &Call) -> Result<Reply, StoreError> {
    match call {
        Call::Claim(request) => claim(shard, request).await.map(Reply::Claimed),
        Call::Upkeep(request) => upkeep::upkeep(shard, request).await.map(Reply::Upkeep),
        Call::Repair => doctor::examine(shard, true).await.map(Reply::Findings),
        Call::Act(acts) => {
            let mut outcomes = Vec::with_capacity(acts.len());
            for item in 0..acts.len() {
                match step(shard, call, item).await? {
                    Reply::Acted(outcome) => outcomes.extend(outcome),
                    _ => return Err(StoreError::corrupt("an act answered something else")),
                }
            }
            Ok(Reply::Acted(outcomes))
        }
        call => step(shard, call, 0).await,
    }
}

/// Leases that have run out are given back in a step of their own, so that the order of dispatch has them.
async fn claim(shard: &Shard, request: &ClaimRequest) -> Result<Vec<Claimed>, StoreError> {
    let mut rescued = false;
    for attempt in 1.. {
        let token = Id::from(request.token);
        let mut tx = Tx::begin(shard, vec![Slot::new(shard.keys.claims(), token.0)], 0, 0).await?;
        if tx.lease_due && !rescued {
            tx.rescue(RESCUE).await?;
            rescued = tx.commit().await? == Written::Done;
            continue;
        }
        let claims = tx.claim(request).await?;
        tx.promises = !claims.is_empty();
        if tx.commit().await? == Written::Done {
            return Ok(claims);
        }
        make_way(attempt).await;
    }
    Err(StoreError::unavailable("claiming"))
}

impl Call {
    /// Whether it can be part of a step with others: it finds what it needs by fields alone.
    fn can_share(&self) -> bool {
        matches!(
            self,
            Call::Submit(_) | Call::Extend(_) | Call::Settle(_) | Call::Steps(_) | Call::Guard(_)
        )
    }

    fn items(&self) -> usize {
        match self {
            Call::Submit(batch) => batch.len(),
            Call::Extend(request) => request.leases.len(),
            Call::Settle(batch) => batch.len(),
            Call::Steps(batch) => batch.len(),
            Call::Guard(batch) => batch.len(),
            _ => 1,
        }
    }
}
