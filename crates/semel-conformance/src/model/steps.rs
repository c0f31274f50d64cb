//! What workers say about steps.

use semel_core::ids::Name;
use semel_core::step::StepPhase;
use semel_core::store::{StepOutcome, StepRequest};

use super::known::Delivery;
use super::pair::{Agreed, Run, Side, same_list, unsaid};

impl Run<'_> {
    pub(super) async fn step(&mut self) -> Agreed {
        let deliveries = self.some_deliveries(2);
        let said: Vec<_> = deliveries
            .iter()
            .map(|_| (self.rng.pick(&self.words.steps).clone(), self.any_phase()))
            .collect();
        let batch = |side: Side| -> Vec<StepRequest> {
            let one = |(delivery, (step, phase)): (&Delivery, &(Name, StepPhase))| StepRequest {
                id: delivery.id.clone(),
                fence: *delivery.fence.of(side),
                step: step.clone(),
                phase: phase.clone(),
            };
            deliveries.iter().zip(&said).map(one).collect()
        };
        let call = ("steps", deliveries.len());
        let answers = self
            .ask(call, batch(Side::Reference), async |store, side| {
                store.steps(batch(side)).await
            })
            .await?;
        let plain = |answer| match answer {
            StepOutcome::Invalid(_) => StepOutcome::Invalid(unsaid()),
            other => other,
        };
        let answers = answers.map(|answers| answers.map(|list, _| list.into_iter().map(plain).collect()));
        answers.map_or(Ok(()), |answers| same_list("steps", &answers))
    }

    fn any_phase(&mut self) -> StepPhase {
        let now = self.now();
        match self.rng.below(10) {
            0..5 => {
                let fresh = self.rng.token(now);
                let known = self
                    .known
                    .step_tokens
                    .any(&mut self.rng)
                    .filter(|_| self.rng.chance(30));
                self.known.step_tokens.push(fresh);
                StepPhase::Begin {
                    token: known.unwrap_or(fresh),
                }
            }
            5..8 => StepPhase::Confirm {
                output: self.rng.pick(&self.words.outputs).clone(),
            },
            _ => StepPhase::Refused,
        }
    }
}
