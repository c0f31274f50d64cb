//! Steps and guards, said shortly.

use semel_core::guard::{GuardAnswer, GuardCall};
use semel_core::ids::{Digest, JobId, Token};
use semel_core::step::{Resolution, StepAnswer, StepPhase};
use semel_core::store::{
    Act, ActOutcome, Claimed, GuardOutcome, GuardRequest, StepFilter, StepOutcome, StepRequest,
};
use semel_core::time::Millis;
use semel_core::view::StepView;

use super::{World, json, name, token};

impl World {
    /// What a worker says about a step, with whatever comes of it.
    pub fn step(&self, claimed: &Claimed, step: &str, phase: StepPhase) -> StepOutcome {
        let request = StepRequest {
            id: claimed.job.id.clone(),
            fence: claimed.fence,
            step: name(step),
            phase,
        };
        self.block(self.store().steps(vec![request]))
            .expect("the store answers")
            .remove(0)
    }

    /// Begins a step under a fence that is good.
    pub fn begin(&self, claimed: &Claimed, step: &str) -> StepAnswer {
        answer(self.step(claimed, step, StepPhase::Begin { token: token() }))
    }

    /// Begins a step that nobody began before; the key it hands downstream.
    pub fn begin_fresh(&self, claimed: &Claimed, step: &str) -> Digest {
        match self.begin(claimed, step) {
            StepAnswer::Ok { key } => key,
            other => panic!("expected a fresh step, got {other:?}"),
        }
    }

    /// Confirms a step under a fence that is good.
    pub fn confirm(&self, claimed: &Claimed, step: &str, output: &str) -> StepAnswer {
        answer(self.step(claimed, step, StepPhase::Confirm { output: json(output) }))
    }

    /// Says, under a fence that is good, that a step certainly did not happen.
    pub fn refuse(&self, claimed: &Claimed, step: &str) -> StepAnswer {
        answer(self.step(claimed, step, StepPhase::Refused))
    }

    /// The steps of a chain.
    pub fn steps_of(&self, origin: &JobId) -> Vec<StepView> {
        self.block(self.store().list_steps(StepFilter::Origin(origin.clone())))
            .expect("the store answers")
    }

    /// The names of the steps in doubt, in the order they are listed.
    pub fn in_doubt(&self) -> Vec<String> {
        let steps = self
            .block(self.store().list_steps(StepFilter::InDoubt))
            .expect("the store answers");
        steps.iter().map(|step| step.name.to_string()).collect()
    }

    /// An operator's word on a step.
    pub fn resolve(&self, origin: &JobId, step: &str, resolution: Resolution) -> ActOutcome {
        self.act(Act::Resolve {
            origin: origin.clone(),
            step: name(step),
            resolution,
        })
    }

    /// A call to a guard, with whatever comes of it.
    pub fn guard(&self, key: &str, call: GuardCall) -> GuardOutcome {
        let request = GuardRequest {
            key: key.to_owned(),
            call,
        };
        self.block(self.store().guard(vec![request]))
            .expect("the store answers")
            .remove(0)
    }

    /// Asks a guard for a key.
    pub fn reserve(&self, key: &str, token: Token, ttl: Millis) -> GuardAnswer {
        guarded(self.guard(key, GuardCall::Reserve { token, ttl }))
    }

    /// Tells a guard what came of it.
    pub fn confirm_guard(&self, key: &str, token: Token, output: &str) -> GuardAnswer {
        guarded(self.guard(
            key,
            GuardCall::Confirm {
                token,
                output: json(output),
            },
        ))
    }

    /// Gives a guarded key up.
    pub fn release_guard(&self, key: &str, token: Token) -> GuardAnswer {
        guarded(self.guard(key, GuardCall::Release { token }))
    }
}

fn answer(outcome: StepOutcome) -> StepAnswer {
    match outcome {
        StepOutcome::Answer(answer) => answer,
        other => panic!("expected an answer about the step, got {other:?}"),
    }
}

fn guarded(outcome: GuardOutcome) -> GuardAnswer {
    match outcome {
        GuardOutcome::Answer(answer) => answer,
        other => panic!("expected an answer of the guard, got {other:?}"),
    }
}
