//! How attempts end.

use crate::counters::Counter;
use crate::error::Invalid;
use crate::json::Json;
use crate::lifecycle::{self, Settle, Settled};
use crate::limits;
use crate::memory::inner::{Inner, Moment};
use crate::store::{Settlement, WriteOutcome};
use crate::time::Millis;

impl Inner {
    pub(super) fn settle(&mut self, settlement: Settlement, moment: Moment) -> WriteOutcome {
        let Settlement { id, fence, result } = settlement;
        let Some((job, record)) = self.find(&id) else {
            return WriteOutcome::NotFound;
        };
        if let Err(invalid) = check(&result) {
            return WriteOutcome::Invalid(invalid);
        }
        let lane = record.lane();
        match lifecycle::settle(&record.life, &id, fence, &result, moment.now) {
            Ok(Settled::Before(state)) => WriteOutcome::Ok(state),
            Ok(Settled::Moved { life, end }) => {
                if let Some(counter) = Counter::of_attempt(end.result) {
                    self.count(&lane, counter);
                }
                self.amend(job, moment, |record| {
                    record.close_attempt(end);
                    if let Settle::Complete { output } = result {
                        record.output = output;
                    }
                });
                let state = life.state(moment.now);
                self.advance(job, *life, moment);
                WriteOutcome::Ok(state)
            }
            Err(refusal) => {
                self.count(&lane, Counter::StaleWrites);
                WriteOutcome::Refused(refusal)
            }
        }
    }
}

fn check(result: &Settle) -> Result<(), Invalid> {
    match result {
        Settle::Complete { output: Some(output) } => check_output(output),
        Settle::Retry {
            delay: Some(delay), ..
        }
        | Settle::Snooze { delay } => check_delay(*delay),
        _ => Ok(()),
    }
}

fn check_delay(delay: Millis) -> Result<(), Invalid> {
    if delay > limits::LONGEST {
        return Err(Invalid::new("delay", "at most ten years"));
    }
    Ok(())
}

/// The size of an output, of a job, a step or a guard.
pub(super) fn check_output(output: &Json) -> Result<(), Invalid> {
    if output.as_str().len() > limits::OUTPUT_BYTES {
        return Err(Invalid::new(
            "output",
            format!("at most {} bytes", limits::OUTPUT_BYTES),
        ));
    }
    Ok(())
}
