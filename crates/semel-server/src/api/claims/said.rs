//! What workers say over HTTP, and what they are told.

use semel_core::error::Invalid;
use semel_core::ids::{JobId, Name, Token};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::lifecycle::{Refusal, Settle};
use semel_core::limits;
use semel_core::step::{StepAnswer, StepPhase};
use semel_core::store::{Beat, ClaimRequest, Claimed, Settlement, StepOutcome, StepRequest, WriteOutcome};
use semel_core::time::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::claims::bound::Binding;
use crate::wire::{self, words};

/// Queues, or tasks, that a claim can name.
const NAMES: usize = 200;

/// A worker asks for work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
pub struct ClaimSaid {
    /// What operators know it by.
    #[schema(value_type = String)]
    pub worker: Name,
    /// Only from these, at most 200; all where none is said.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 200)]
    pub queues: Vec<Name>,
    /// Only of these, at most 200; all where none is said.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 200)]
    pub tasks: Vec<Name>,
    /// At most so many, 1 to 1,000. Fewer are given where they carry more than 8 MiB.
    pub max: usize,
    /// For how long: 1,000 to 3,600,000.
    pub lease_ms: i64,
    /// Wait so long for work, at most 60,000.
    pub wait_ms: Option<u64>,
    /// A UUID that makes a repeated claim the same claim.
    #[schema(value_type = Option<String>)]
    pub token: Option<Token>,
}

impl ClaimSaid {
    pub(super) fn request(&self, binding: &Binding, queues: Vec<Name>) -> Result<ClaimRequest, Invalid> {
        if self.max == 0 || self.max > limits::BATCH {
            return Err(Invalid::new("max", format!("1 to {}", limits::BATCH)).found(self.max.to_string()));
        }
        for (what, names) in [("queues", &self.queues), ("tasks", &self.tasks)] {
            if names.len() > NAMES {
                let allowed = format!("at most {NAMES} names; none means all");
                return Err(Invalid::new(what, allowed).found(names.len().to_string()));
            }
        }
        let lease = Millis::new(self.lease_ms);
        limits::check_lease(lease)?;
        Ok(ClaimRequest {
            token: binding.token(self.token),
            worker: binding.worker(&self.worker)?,
            queues,
            tasks: self.tasks.clone(),
            max: self.max,
            lease,
        })
    }
}

/// What was claimed, best first.
#[derive(Debug, Serialize, ToSchema)]
pub struct Claims<'a> {
    claims: Vec<Leased<'a>>,
}

/// A leased job.
#[derive(Debug, Serialize, ToSchema)]
struct Leased<'a> {
    job: wire::Job<'a>,
    /// What every write about it has to carry.
    fence: i64,
    lease_until: wire::Moment,
}

impl<'a> Claims<'a> {
    pub(super) fn of(claims: &'a [Claimed]) -> Self {
        let leased = claims.iter().map(|claim| Leased {
            job: wire::Job::from(&claim.job),
            fence: claim.fence,
            lease_until: claim.lease_until.into(),
        });
        Claims {
            claims: leased.collect(),
        }
    }
}

/// Heartbeats, with progress and log lines.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Extend)]
pub struct ExtendSaid {
    pub(super) leases: Vec<LeaseSaid>,
    /// For how long from now: 1,000 to 3,600,000.
    lease_ms: i64,
}

/// One heartbeat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Heartbeat)]
pub(super) struct LeaseSaid {
    #[schema(value_type = String)]
    pub(super) id: JobId,
    fence: i64,
    /// From 0 to 1.
    progress: Option<f64>,
    /// Lines for the job's log.
    #[serde(default)]
    log: Vec<String>,
}

impl ExtendSaid {
    /// Those of `mine`, as a store takes them, and for how long.
    pub(super) fn split(self, mine: impl Fn(&JobId) -> bool) -> (Vec<Beat>, Millis) {
        let beats = self
            .leases
            .into_iter()
            .filter(|lease| mine(&lease.id))
            .map(|lease| Beat {
                id: lease.id,
                fence: lease.fence,
                progress: lease.progress,
                log: lease.log,
            });
        (beats.collect(), Millis::new(self.lease_ms))
    }
}

/// How attempts ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settle)]
pub struct SettleSaid {
    pub(super) settlements: Vec<SettlementSaid>,
}

/// How an attempt ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settlement)]
pub(super) struct SettlementSaid {
    #[schema(value_type = String)]
    id: JobId,
    fence: i64,
    result: ResultWord,
    /// With complete.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Json>,
    /// With retry, fail and park.
    error: Option<String>,
    /// With retry and snooze.
    delay_ms: Option<i64>,
}

/// How an attempt can end.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SettleResult)]
enum ResultWord {
    Complete,
    Retry,
    Fail,
    Snooze,
    HandBack,
    Park,
    Cancel,
}

impl SettleSaid {
    pub(super) fn settlements(self) -> Result<Vec<Settlement>, Invalid> {
        self.settlements
            .into_iter()
            .map(SettlementSaid::settlement)
            .collect()
    }
}

impl SettlementSaid {
    fn settlement(self) -> Result<Settlement, Invalid> {
        let error = |word: &str, error: Option<String>| {
            error.ok_or_else(|| Invalid::new(format!("result {word} without error"), "an error beside it"))
        };
        let delay = self.delay_ms.map(Millis::new);
        let result = match self.result {
            ResultWord::Complete => Settle::Complete { output: self.output },
            ResultWord::Retry => Settle::Retry {
                error: error("retry", self.error)?,
                delay,
            },
            ResultWord::Fail => Settle::Fail {
                error: error("fail", self.error)?,
            },
            ResultWord::Snooze => Settle::Snooze {
                delay: delay
                    .ok_or_else(|| Invalid::new("result snooze without delay_ms", "a delay_ms beside it"))?,
            },
            ResultWord::HandBack => Settle::HandBack,
            ResultWord::Park => Settle::Park {
                reason: error("park", self.error)?,
            },
            ResultWord::Cancel => Settle::Cancel,
        };
        Ok(Settlement {
            id: self.id,
            fence: self.fence,
            result,
        })
    }
}

/// A worker speaks about a step.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepCall)]
pub struct StepSaid {
    #[schema(value_type = String)]
    id: JobId,
    fence: i64,
    #[schema(value_type = String)]
    step: Name,
    phase: PhaseWord,
    /// With confirm.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Json>,
    /// A UUID that makes a repeated begin the same call.
    #[schema(value_type = Option<String>)]
    token: Option<Token>,
}

/// What about the step.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepPhase)]
enum PhaseWord {
    Begin,
    Confirm,
    Refused,
}

impl StepSaid {
    pub(super) fn request(self) -> Result<StepRequest, Invalid> {
        let phase = match self.phase {
            PhaseWord::Begin => StepPhase::Begin {
                token: self.token.unwrap_or_else(semel::ids::fresh_token),
            },
            PhaseWord::Confirm => StepPhase::Confirm {
                output: self.output.unwrap_or_else(Json::null),
            },
            PhaseWord::Refused => StepPhase::Refused,
        };
        Ok(StepRequest {
            id: self.id,
            fence: self.fence,
            step: self.step,
            phase,
        })
    }
}

/// What became of a worker's writes, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WriteResults)]
pub struct Results {
    results: Vec<Written>,
}

/// What became of one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WriteResult)]
struct Written {
    #[schema(value_type = String)]
    id: JobId,
    /// ok, lease_lost, cancelled, not_found or invalid; of a step also confirmed, in_doubt or not_begun.
    status: &'static str,
    /// Where the job stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::State>)]
    state: Option<State>,
    /// What a confirmed step gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Json>,
    /// The key to hand downstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Why it is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Written {
    fn new(id: &JobId, status: &'static str) -> Self {
        Written {
            id: id.clone(),
            status,
            state: None,
            output: None,
            key: None,
            detail: None,
        }
    }

    fn refused(id: &JobId, refusal: Refusal) -> Self {
        Written::new(
            id,
            match refusal {
                Refusal::LeaseLost => "lease_lost",
                Refusal::Cancelled => "cancelled",
            },
        )
    }

    fn of(id: &JobId, outcome: WriteOutcome) -> Self {
        match outcome {
            WriteOutcome::Ok(state) => Written {
                state: Some(state),
                ..Written::new(id, "ok")
            },
            WriteOutcome::Refused(refusal) => Written::refused(id, refusal),
            WriteOutcome::NotFound => Written::new(id, "not_found"),
            WriteOutcome::Invalid(invalid) => Written {
                detail: Some(invalid.to_string()),
                ..Written::new(id, "invalid")
            },
        }
    }
}

impl Results {
    pub(super) fn of(ids: &[JobId], is_foreign: impl Fn(&JobId) -> bool, written: Vec<WriteOutcome>) -> Self {
        let mut written = written.into_iter();
        let each = ids.iter().map(|id| match is_foreign(id) {
            true => Written::new(id, "lease_lost"),
            false => match written.next() {
                Some(outcome) => Written::of(id, outcome),
                None => Written::new(id, "not_found"),
            },
        });
        Results {
            results: each.collect(),
        }
    }

    pub(super) fn lost(id: &JobId) -> Self {
        Results {
            results: vec![Written::new(id, "lease_lost")],
        }
    }

    pub(super) fn of_step(id: &JobId, outcome: StepOutcome) -> Self {
        let written = match outcome {
            StepOutcome::Answer(StepAnswer::Ok { key }) => Written {
                key: Some(key.to_string()),
                ..Written::new(id, "ok")
            },
            StepOutcome::Answer(StepAnswer::Confirmed { output }) => Written {
                output: Some(output),
                ..Written::new(id, "confirmed")
            },
            StepOutcome::Answer(StepAnswer::InDoubt { key }) => Written {
                key: Some(key.to_string()),
                ..Written::new(id, "in_doubt")
            },
            StepOutcome::Answer(StepAnswer::NotBegun) => Written::new(id, "not_begun"),
            StepOutcome::Refused(refusal) => Written::refused(id, refusal),
            StepOutcome::NotFound => Written::new(id, "not_found"),
            StepOutcome::Invalid(invalid) => Written {
                detail: Some(invalid.to_string()),
                ..Written::new(id, "invalid")
            },
        };
        Results {
            results: vec![written],
        }
    }
}
