//! A deduplication policy as JSON. No member is a string or an object by turns: clients are generated from it.

use serde::{Deserialize, Serialize};

use semel_core::canonical::Pointer;
use semel_core::dedup::{
    Dedup, Hold, HoldKind, KeyBy, KeySource, Mode, OnDuplicate, OnMismatch, Period, ReleaseOn, Scope, Unit,
};
use semel_core::error::Invalid;
use semel_core::ids::Name;
use semel_core::time::Millis;

/// A policy. What is left out is at its default: by input, scope task, hold until_finished,
/// use_existing, conflict, enforce.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DedupRequest {
    /// The text of an explicit key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the key is made from, where it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyBy>,
    /// For fields, except and hybrid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<String>,
    /// Headers that enter the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Members of the metadata that enter the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: Vec<String>,
    /// A period whose bucket enters the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<PeriodRequest>,
    /// Where the key must be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeWord>,
    /// The name of a custom scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_name: Option<String>,
    /// How long the key stays taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldKind>,
    /// A bound in time; a window has 30 days by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// How much longer after the job has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cool_down_ms: Option<u64>,
    /// Outcomes that free a kept key early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release_on: Vec<ReleaseWord>,
    /// What happens when the key is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_duplicate: Option<DuplicateWord>,
    /// For debounce: the quiet time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debounce_ms: Option<u64>,
    /// For debounce: the longest wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
    /// What happens when an explicit key comes back with something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_mismatch: Option<OnMismatch>,
    /// Act or watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// A calendar period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodRequest {
    /// How long.
    pub unit: Unit,
    /// A zone of the IANA database; UTC where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// The kinds of scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeWord {
    /// Among jobs of the same task.
    Task,
    /// Among jobs of the same queue.
    Queue,
    /// In the whole namespace.
    Global,
    /// Among submissions that name the same scope.
    Custom,
}

/// The answers to a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuplicateWord {
    /// The job that holds the key.
    UseExisting,
    /// An error.
    Reject,
    /// The holder, with the newer content.
    Replace,
    /// The holder, with the newer content, later.
    Debounce,
    /// A job that runs after the holder.
    Latest,
}

/// The outcomes that can free a kept key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseWord {
    /// The job failed.
    Failed,
    /// The job was cancelled.
    Cancelled,
}

impl DedupRequest {
    /// The policy, if it makes sense (contract 2.17).
    pub fn policy(&self) -> Result<Dedup, Invalid> {
        let mut policy = Dedup::by(self.source()?);
        policy.headers = self.headers.clone();
        policy.meta = self.meta.clone();
        policy.period = self.period.as_ref().map(PeriodRequest::period).transpose()?;
        policy.scope = scope(self.scope, self.scope_name.as_deref())?.unwrap_or_default();
        policy.hold = self.hold();
        policy.on_duplicate = self.on_duplicate()?;
        policy.on_mismatch = self.on_mismatch.unwrap_or_default();
        policy.mode = self.mode.unwrap_or_default();
        policy.check()?;
        Ok(policy)
    }

    fn source(&self) -> Result<KeySource, Invalid> {
        let pointers = || self.pointers.iter().map(|text| Pointer::try_from(text.as_str()));
        let named = || -> Result<Vec<Pointer>, Invalid> {
            let mut named = pointers().collect::<Result<Vec<_>, _>>()?;
            named.sort();
            named.dedup();
            Ok(named)
        };
        let source = match (&self.key, self.by) {
            (Some(text), None | Some(KeyBy::Explicit)) => KeySource::Explicit(text.clone()),
            (Some(_), Some(by)) => {
                return Err(Invalid::new(format!("key with by {}", by.word()), "one of them"));
            }
            (None, None | Some(KeyBy::Input)) => KeySource::Input,
            (None, Some(KeyBy::Fields)) => return Ok(KeySource::Fields(named()?)),
            (None, Some(KeyBy::Except)) => return Ok(KeySource::Except(named()?)),
            (None, Some(KeyBy::Hybrid)) => return Ok(KeySource::Hybrid(named()?)),
            (None, Some(KeyBy::Generated)) => KeySource::Generated,
            (None, Some(KeyBy::Explicit)) => return Err(Invalid::new("by explicit", "a key beside it")),
        };
        if !self.pointers.is_empty() {
            return Err(Invalid::new("pointers", "only with by fields, except or hybrid"));
        }
        Ok(source)
    }

    fn hold(&self) -> Hold {
        let kind = self.hold.unwrap_or(HoldKind::UntilFinished);
        let default = (kind == HoldKind::Window).then_some(Hold::DEFAULT_WINDOW);
        Hold {
            kind,
            ttl: self.ttl_ms.map(super::millis).or(default),
            cool_down: self.cool_down_ms.map(super::millis),
            release_on: ReleaseOn {
                failed: self.release_on.contains(&ReleaseWord::Failed),
                cancelled: self.release_on.contains(&ReleaseWord::Cancelled),
            },
        }
    }

    fn on_duplicate(&self) -> Result<OnDuplicate, Invalid> {
        let word = self.on_duplicate.unwrap_or(DuplicateWord::UseExisting);
        let delay = self.debounce_ms.map(super::millis);
        if word != DuplicateWord::Debounce && (delay.is_some() || self.max_wait_ms.is_some()) {
            return Err(Invalid::new(
                "debounce_ms and max_wait_ms",
                "only with on_duplicate debounce",
            ));
        }
        Ok(match word {
            DuplicateWord::UseExisting => OnDuplicate::UseExisting,
            DuplicateWord::Reject => OnDuplicate::Reject,
            DuplicateWord::Replace => OnDuplicate::Replace,
            DuplicateWord::Latest => OnDuplicate::Latest,
            DuplicateWord::Debounce => OnDuplicate::Debounce {
                delay: delay
                    .ok_or_else(|| Invalid::new("on_duplicate debounce", "a debounce_ms beside it"))?,
                max_wait: self.max_wait_ms.map(super::millis),
            },
        })
    }
}

impl From<&Dedup> for DedupRequest {
    fn from(policy: &Dedup) -> Self {
        let millis = |length: Millis| length.as_millis().unsigned_abs();
        let texts = |pointers: &[Pointer]| pointers.iter().map(ToString::to_string).collect();
        let mut request = DedupRequest {
            headers: policy.headers.clone(),
            meta: policy.meta.clone(),
            hold: Some(policy.hold.kind),
            ttl_ms: policy.hold.ttl.map(millis),
            cool_down_ms: policy.hold.cool_down.map(millis),
            on_mismatch: Some(policy.on_mismatch),
            mode: Some(policy.mode),
            ..DedupRequest::default()
        };
        match &policy.key {
            KeySource::Explicit(text) => request.key = Some(text.clone()),
            KeySource::Input => request.by = Some(KeyBy::Input),
            KeySource::Generated => request.by = Some(KeyBy::Generated),
            KeySource::Fields(pointers) => {
                (request.by, request.pointers) = (Some(KeyBy::Fields), texts(pointers))
            }
            KeySource::Except(pointers) => {
                (request.by, request.pointers) = (Some(KeyBy::Except), texts(pointers))
            }
            KeySource::Hybrid(pointers) => {
                (request.by, request.pointers) = (Some(KeyBy::Hybrid), texts(pointers))
            }
        }
        request.period = policy.period.as_ref().map(|period| PeriodRequest {
            unit: period.unit(),
            zone: Some(period.zone().to_owned()),
        });
        request.scope = Some(match &policy.scope {
            Scope::Task => ScopeWord::Task,
            Scope::Queue => ScopeWord::Queue,
            Scope::Global => ScopeWord::Global,
            Scope::Custom(_) => ScopeWord::Custom,
        });
        if let Scope::Custom(name) = &policy.scope {
            request.scope_name = Some(name.to_string());
        }
        let release_on = policy.hold.release_on;
        request
            .release_on
            .extend(release_on.failed.then_some(ReleaseWord::Failed));
        request
            .release_on
            .extend(release_on.cancelled.then_some(ReleaseWord::Cancelled));
        request.on_duplicate = Some(match policy.on_duplicate {
            OnDuplicate::UseExisting => DuplicateWord::UseExisting,
            OnDuplicate::Reject => DuplicateWord::Reject,
            OnDuplicate::Replace => DuplicateWord::Replace,
            OnDuplicate::Debounce { .. } => DuplicateWord::Debounce,
            OnDuplicate::Latest => DuplicateWord::Latest,
        });
        if let OnDuplicate::Debounce { delay, max_wait } = policy.on_duplicate {
            request.debounce_ms = Some(millis(delay));
            request.max_wait_ms = max_wait.map(millis);
        }
        request
    }
}

impl PeriodRequest {
    /// The period, if there is such a zone.
    pub fn period(&self) -> Result<Period, Invalid> {
        match &self.zone {
            Some(zone) => Period::new(self.unit, zone),
            None => Ok(Period::utc(self.unit)),
        }
    }
}

/// The scope that a word and a name say together.
pub(super) fn scope(word: Option<ScopeWord>, name: Option<&str>) -> Result<Option<Scope>, Invalid> {
    match (word, name) {
        (None, None) => Ok(None),
        (Some(ScopeWord::Custom) | None, Some(name)) => Ok(Some(Scope::Custom(Name::new(name)?))),
        (Some(ScopeWord::Custom), None) => Err(Invalid::new("scope custom", "a scope name beside it")),
        (Some(_), Some(_)) => Err(Invalid::new("scope name", "only with scope custom")),
        (Some(ScopeWord::Task), None) => Ok(Some(Scope::Task)),
        (Some(ScopeWord::Queue), None) => Ok(Some(Scope::Queue)),
        (Some(ScopeWord::Global), None) => Ok(Some(Scope::Global)),
    }
}
