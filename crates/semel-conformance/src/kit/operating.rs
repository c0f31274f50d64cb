//! What people do to a store, said shortly.

use semel_core::ids::{Digest, JobId};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::store::{
    Act, ActOutcome, Claimed, Expect, PutDocument, PutOutcome, Setting, SettingChange, Target, UpkeepReport,
    UpkeepRequest, WriteOutcome,
};
use semel_core::submission::Submission;
use semel_core::view::HolderView;

use super::{World, name, token};

impl World {
    /// Submits one that must be accepted and is claimed at once.
    pub fn started(&self, submission: Submission) -> Claimed {
        let id = self.accepted(submission);
        let claimed = self.claim_one();
        assert_eq!(claimed.job.id, id, "no other job is waiting");
        claimed
    }

    /// A job that ran and completed.
    pub fn completed(&self, submission: Submission) -> JobId {
        let claimed = self.started(submission);
        assert_eq!(self.complete(&claimed), WriteOutcome::Ok(State::Complete));
        claimed.job.id
    }

    /// A job that ran and died of an error.
    pub fn failed(&self, submission: Submission, error: &str) -> JobId {
        let claimed = self.started(submission);
        assert_eq!(self.fail(&claimed, error), WriteOutcome::Ok(State::Failed));
        claimed.job.id
    }

    /// Cancels a job.
    pub fn cancel(&self, id: &JobId) -> ActOutcome {
        self.act(Act::Cancel { id: id.clone() })
    }

    /// Retries a job by hand.
    pub fn retry(&self, id: &JobId) -> ActOutcome {
        self.act(Act::Retry { id: id.clone() })
    }

    /// Replays a dead letter.
    pub fn replay(&self, id: &JobId) -> ActOutcome {
        self.act(Act::Replay {
            id: id.clone(),
            token: token(),
        })
    }

    /// Replays a dead letter that must be replayed; the fresh job.
    pub fn replayed(&self, id: &JobId) -> JobId {
        match self.replay(id) {
            ActOutcome::Done {
                id,
                state: State::Queued,
            } => id,
            other => panic!("expected a replay, got {other:?}"),
        }
    }

    /// Deletes a job.
    pub fn delete(&self, id: &JobId) -> ActOutcome {
        self.act(Act::Delete { id: id.clone() })
    }

    /// Frees a key by hand.
    pub fn release(&self, digest: Digest, holder: &JobId) -> ActOutcome {
        self.act(Act::Release {
            digest,
            holder: holder.clone(),
        })
    }

    /// Changes a setting.
    pub fn set(&self, target: Target, change: SettingChange) -> Setting {
        self.block(self.store().set(target, change))
            .expect("the store answers")
    }

    /// Holds work back until it is resumed.
    pub fn pause(&self, target: Target) {
        self.set(
            target,
            SettingChange::Pause {
                lasting: None,
                reason: None,
            },
        );
    }

    /// Opens or closes an intake.
    pub fn intake(&self, target: Target, open: bool) {
        self.set(target, SettingChange::Intake { open });
    }

    /// One round of upkeep.
    pub fn upkeep_round(&self, request: UpkeepRequest) -> UpkeepReport {
        self.block(self.store().upkeep(request))
            .expect("the store answers")
    }

    /// Writes a document of kind `note`.
    pub fn put(&self, title: &str, body: Json, expect: Expect) -> PutOutcome {
        let put = PutDocument {
            kind: name("note"),
            name: title.to_owned(),
            body,
            expect,
            ttl: None,
        };
        self.block(self.store().put_document(put))
            .expect("the store answers")
    }
}

/// An act that was done.
pub fn done(id: &JobId, state: State) -> ActOutcome {
    ActOutcome::Done {
        id: id.clone(),
        state,
    }
}

/// The holder an act was stopped by.
pub fn held_by(outcome: ActOutcome) -> HolderView {
    match outcome {
        ActOutcome::Held { holder } => holder,
        other => panic!("expected another holder, got {other:?}"),
    }
}

/// The target of a queue.
pub fn queue(text: &str) -> Target {
    Target::Queue(name(text))
}

/// The target of a task.
pub fn task(text: &str) -> Target {
    Target::Task(name(text))
}
