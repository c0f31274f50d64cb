//! What a person does to a store: with a name, for a reason, on record (contract 6, 7.3).

mod action;
mod audit;
mod carry_out;
mod operation;
mod plan;
mod turn;

pub use action::{Action, Selection};
pub use audit::{AuditEntry, KeyRelease, SettingReasons};
pub use carry_out::CarryOut;
pub use operation::{Operation, Progress, Status};
pub use plan::{Planning, Sample};

use std::time::Duration;

use semel_core::dedup::Mode;
use semel_core::error::Invalid;
use semel_core::ids::{Digest, JobId, Name};
use semel_core::step::Resolution;
use semel_core::store::{Act, Setting, SettingChange, StepFilter, Target};
use semel_core::time::Timestamp;
use semel_core::view::StepView;

use crate::acted::{self, Acted};
use crate::client::Client;
use crate::error::{Error, describe};

/// The longest reason, in bytes.
const REASON_BYTES: usize = 1_000;

impl Client {
    /// Acts as a person: every act is on record in the audit feed, with this name.
    ///
    /// ```
    /// # use semel::{Name, Target, mins};
    /// # #[tokio::main] async fn main() -> Result<(), semel::Error> {
    /// let jobs = semel::connect("memory:").await?;
    /// let mail = Target::Queue(Name::new("mail")?);
    /// jobs.operate("alice").because("provider is down").pause_for(mail, mins(30)).await?;
    /// # Ok(()) }
    /// ```
    pub fn operate(&self, actor: impl Into<String>) -> Operator {
        Operator {
            client: self.clone(),
            actor: actor.into(),
            reason: None,
        }
    }
}

impl Client {
    /// Steps whose effect may have happened and that nobody is at, oldest first (contract 5.2).
    /// [`Operator::resolve`] decides about one.
    pub async fn steps_in_doubt(&self) -> Result<Vec<StepView>, Error> {
        Ok(self.store().list_steps(StepFilter::InDoubt).await?)
    }
}

/// A person at the levers of a store.
///
/// An act is on record before it is done, so that no crash leaves one unrecorded; where it is then
/// refused, a second entry says so.
#[derive(Clone, Debug)]
pub struct Operator {
    client: Client,
    actor: String,
    reason: Option<String>,
}

impl Operator {
    /// Why, for those who read the audit feed later.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Holds work back until it is resumed. After the answer no claim hands it out; what runs goes on (contract 6.1).
    pub async fn pause(&self, target: Target) -> Result<Setting, Error> {
        self.pause_lasting(target, None).await
    }

    /// Holds work back for a while.
    pub async fn pause_for(&self, target: Target, length: Duration) -> Result<Setting, Error> {
        self.pause_lasting(target, Some(length)).await
    }

    /// Lets work go on.
    pub async fn resume(&self, target: Target) -> Result<Setting, Error> {
        self.set(target, SettingChange::Resume).await
    }

    /// Refuses submissions from now on (contract 6.1).
    pub async fn close(&self, target: Target) -> Result<Setting, Error> {
        self.set(target, SettingChange::Intake { open: false }).await
    }

    /// Refuses submissions for a while.
    pub async fn close_for(&self, target: Target, length: Duration) -> Result<Setting, Error> {
        let length = length.into();
        self.set(target, SettingChange::CloseFor { length }).await
    }

    /// Takes submissions again.
    pub async fn open(&self, target: Target) -> Result<Setting, Error> {
        self.set(target, SettingChange::Intake { open: true }).await
    }

    /// Declares a queue, or all queues, unique, or no longer so (contract 2.15).
    pub async fn unique(&self, target: Target, unique: bool) -> Result<Setting, Error> {
        if let (Target::Task(task), true) = (&target, unique) {
            return Err(
                Invalid::new(format!("unique for task {task}"), "a queue, or all queues")
                    .hint("a task says .unique() itself")
                    .into(),
            );
        }
        self.set(target, SettingChange::Unique { unique }).await
    }

    /// Lets policies act, or only watch (contract 2.13).
    pub async fn mode(&self, target: Target, mode: Mode) -> Result<Setting, Error> {
        self.set(target, SettingChange::Mode { mode }).await
    }

    /// Lets policies only watch for a while.
    pub async fn observe_for(&self, target: Target, length: Duration) -> Result<Setting, Error> {
        let length = length.into();
        self.set(target, SettingChange::ObserveFor { length }).await
    }

    /// Removes a queue with all its jobs in one step (contract 2.16); says how many there were.
    pub async fn remove_queue(&self, queue: &str) -> Result<i64, Error> {
        let queue = Name::new(queue)?;
        let subject = format!("queue {queue}");
        let removing = async { Ok(self.client.store().remove_queue(&queue).await?) };
        self.on_record("remove_queue", &subject, removing).await
    }

    /// Ends a job that has not ended (contract 6.2).
    pub async fn cancel(&self, id: &JobId) -> Result<Acted, Error> {
        self.act("cancel", Act::Cancel { id: id.clone() }, format!("job {id}"))
            .await
    }

    /// A new life for a failed or cancelled job (contract 6.3).
    pub async fn retry(&self, id: &JobId) -> Result<Acted, Error> {
        self.act("retry", Act::Retry { id: id.clone() }, format!("job {id}"))
            .await
    }

    /// A fresh job in place of a dead letter (contract 6.5). Replaying twice gives one job.
    pub async fn replay(&self, id: &JobId) -> Result<Acted, Error> {
        self.act("replay", acted::replay(id.clone()), format!("job {id}"))
            .await
    }

    /// Removes a job that has ended; while it holds a key a stub stays.
    pub async fn delete(&self, id: &JobId) -> Result<Acted, Error> {
        self.act("delete", Act::Delete { id: id.clone() }, format!("job {id}"))
            .await
    }

    /// Frees a key if it is still held by the job that is meant; needs a reason (contract 7.3).
    pub async fn release(&self, digest: Digest, holder: &JobId) -> Result<Acted, Error> {
        self.needs_reason("releasing a key")?;
        let act = Act::Release {
            digest,
            holder: holder.clone(),
        };
        let subject = audit::subject_of_release(digest, Some(holder));
        self.act(audit::RELEASE, act, subject).await
    }

    /// Decides about a step in doubt; needs a reason (contract 5.2).
    pub async fn resolve(&self, origin: &JobId, step: &str, resolution: Resolution) -> Result<Acted, Error> {
        self.needs_reason("resolving a step")?;
        let step = Name::new(step)?;
        let subject = format!("step {step} of job {origin}");
        let act = Act::Resolve {
            origin: origin.clone(),
            step,
            resolution,
        };
        self.act("resolve", act, subject).await
    }

    /// Moves the baseline of the counters to now (contract 7.1).
    pub async fn reset_stats(&self) -> Result<Timestamp, Error> {
        let resetting = async { Ok(self.client.store().reset_stats().await?) };
        self.on_record("reset_stats", "the store", resetting).await
    }

    async fn pause_lasting(&self, target: Target, length: Option<Duration>) -> Result<Setting, Error> {
        let change = SettingChange::Pause {
            lasting: length.map(Into::into),
            reason: self.reason.clone(),
        };
        self.set(target, change).await
    }

    async fn set(&self, target: Target, change: SettingChange) -> Result<Setting, Error> {
        let subject = describe(&target);
        let word = match &change {
            SettingChange::Pause { .. } => "pause",
            SettingChange::Resume => "resume",
            SettingChange::Intake { open: true } => "open",
            SettingChange::Intake { open: false } | SettingChange::CloseFor { .. } => "close",
            SettingChange::Unique { unique: true } => "unique",
            SettingChange::Unique { unique: false } => "not_unique",
            SettingChange::Mode { mode: Mode::Observe } | SettingChange::ObserveFor { .. } => "observe",
            SettingChange::Mode { mode: Mode::Enforce } => "enforce",
        };
        let setting = async { Ok(self.client.store().set(target, change).await?) };
        self.on_record(word, &subject, setting).await
    }

    async fn act(&self, word: &'static str, act: Act, subject: String) -> Result<Acted, Error> {
        self.on_record(word, &subject, self.client.act(act)).await
    }

    fn needs_reason(&self, doing: &str) -> Result<(), Error> {
        match self
            .reason
            .as_deref()
            .is_some_and(|reason| !reason.trim().is_empty())
        {
            true => Ok(()),
            false => Err(Invalid::new(format!("{doing} without a reason"), "a reason")
                .hint("whoever reads the record will want to know why")
                .into()),
        }
    }
}
