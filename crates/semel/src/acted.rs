//! What came of an act on a job or a key, as a result.

use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::store::{Act, ActOutcome};

use crate::client::Client;
use crate::error::Error;
use crate::ids::fresh_token;

/// An act that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    /// The job: for a replay, the fresh one.
    pub id: JobId,
    /// Where it stands; not known of one that was acted on before.
    pub state: Option<State>,
}

impl Client {
    /// Does something to a job, a key or a step, and says what came of it. For a person's acts, which are
    /// audited, see [`operate`](Client::operate).
    pub(crate) async fn act(&self, act: Act) -> Result<Acted, Error> {
        let subject = subject(&act);
        let seed = *fresh_token().as_bytes();
        let mut calls = 0;
        let call = || {
            calls += 1;
            self.store().act(vec![act.clone()])
        };
        let mut outcomes = self.options().retry.run(&seed, call).await?;
        let outcome = outcomes.remove(0);
        if calls > 1 && is_done(&act, &outcome) {
            // The reply to an earlier call was lost, not the call.
            let job = self.look_up(&subject.id).await?;
            return Ok(Acted {
                id: subject.id,
                state: job.map(|job| job.state),
            });
        }
        acted(&subject, outcome)
    }
}

/// Whether what was found is what the act brings about: so it looks when the reply to an earlier call was lost.
pub(crate) fn is_done(act: &Act, outcome: &ActOutcome) -> bool {
    match (act, outcome) {
        (Act::Cancel { .. }, ActOutcome::WrongState(state)) => *state == State::Cancelled,
        (Act::Retry { .. }, ActOutcome::WrongState(state)) => !state.is_terminal(),
        (Act::Delete { .. } | Act::Release { .. }, ActOutcome::NotFound) => true,
        (Act::Resolve { .. }, ActOutcome::NotInDoubt) => true,
        _ => false,
    }
}

/// The act that makes a fresh job of a dead letter.
pub(crate) fn replay(id: JobId) -> Act {
    Act::Replay {
        id,
        token: fresh_token(),
    }
}

/// What an act is about, for people.
fn subject(act: &Act) -> Subject {
    match act {
        Act::Cancel { id } | Act::Retry { id } | Act::Replay { id, .. } | Act::Delete { id } => Subject {
            id: id.clone(),
            what: format!("job {id}"),
        },
        Act::Release { digest, holder } => Subject {
            id: holder.clone(),
            what: format!("held key {digest}"),
        },
        Act::Resolve { origin, step, .. } => Subject {
            id: origin.clone(),
            what: format!("step {step} of job {origin}"),
        },
    }
}

struct Subject {
    id: JobId,
    what: String,
}

fn acted(subject: &Subject, outcome: ActOutcome) -> Result<Acted, Error> {
    let id = subject.id.clone();
    match outcome {
        ActOutcome::Done { id, state } => Ok(Acted {
            id,
            state: Some(state),
        }),
        ActOutcome::Before { id } => Ok(Acted { id, state: None }),
        ActOutcome::NotFound => Err(Error::NotFound {
            what: subject.what.clone(),
        }),
        ActOutcome::WrongState(state) => Err(Error::WrongState { id, state }),
        ActOutcome::Replayed { by } => Err(Error::Replayed { id, by }),
        ActOutcome::Held { holder } => Err(Error::Duplicate { holder }),
        ActOutcome::NotInDoubt => Err(Error::NotInDoubt {
            what: subject.what.clone(),
        }),
        ActOutcome::Closed { target } => Err(Error::Closed { target }),
        ActOutcome::Invalid(invalid) => Err(invalid.into()),
    }
}
