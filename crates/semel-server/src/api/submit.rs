//! Submitting: one, many, or only asking what would happen.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use semel::{ScopeWord, SubmitRequest, Submitted};
use semel_core::canonical::{self, Limits};
use semel_core::dedup::{Hold, HoldKind};
use semel_core::job::Outcome;
use semel_core::json::Json;
use semel_core::limits;
use semel_core::store;
use semel_core::time::Millis;
use semel_core::view::{Job, KeyRow};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::{Reply, json, ok};
use crate::app::App;
use crate::ask::{Said, SaidMuch};
use crate::problem::Problem;
use crate::role::{Caller, Role};
use crate::{clock, metrics, redact, wire};

/// The header that says the same as `idempotency_key`.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Says that the answer is that of an earlier submission.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The longest a caller can wait for a job.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Keys of a batch's duplicates that are looked up at once.
const KEYS_AT_ONCE: usize = 16;

/// `POST /v1/jobs`
pub async fn one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Said(mut request): Said<SubmitRequest>,
) -> Reply {
    take_header(&mut request, &headers)?;
    sign(&mut request, &caller);
    let wait = request
        .wait_ms
        .map(|wait| Duration::from_millis(wait).min(LONGEST_WAIT));
    // Before anything is written: whoever cannot wait is told so while it can still go elsewhere.
    let turn = match wait {
        Some(_) => Some(app.turns.take(&caller)?),
        None => None,
    };
    let facts = Facts::of(&request);
    let input = wait.map(|_| request.input.clone());
    let begun = clock::instant();
    let submitted = app.client.submit_request(request).await;
    metrics::submitted(&facts.queue, &facts.task, submitted.as_ref(), begun.elapsed());
    if let Ok(submitted) = &submitted {
        metrics::key_ttl(submitted, facts.ttl);
    }
    let submitted = submitted.map_err(|error| refused(error, &caller))?;
    let ended = match wait {
        Some(wait) => ended(&app, &submitted, wait).await,
        None => None,
    };
    drop(turn);
    let row = key_row(&app, Some(&submitted)).await;
    let mut answer = wire::Answer::admitted(submitted.admitted())
        .with_fresh_key(facts.key(&submitted))
        .with_key(row.as_ref());
    let shown;
    if let (Some(job), Some(input)) = (ended, input)
        && (caller.may(Role::Read) || (job.task.as_str() == facts.task && same(&job.input, &input)))
    {
        let mut job = job;
        redact::job(&mut job, &app.settings.redact);
        shown = job;
        answer.output = shown.output.as_ref();
        answer.error = shown.error.as_ref().map(|error| error.message.as_str());
        return respond(
            &submitted,
            &wire::Answer {
                job: Some(wire::Holder::of(&shown)),
                ..answer
            },
        );
    }
    respond(&submitted, &answer)
}

fn respond(submitted: &Submitted, answer: &wire::Answer<'_>) -> Reply {
    let mut response: Response = json(status(submitted), answer)?;
    if submitted.is_duplicate() {
        response
            .headers_mut()
            .insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn status(submitted: &Submitted) -> StatusCode {
    match submitted.outcome() {
        Outcome::Accepted => StatusCode::CREATED,
        _ => StatusCode::OK,
    }
}

/// A batch of submissions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    jobs: Vec<Box<RawValue>>,
}

/// A batch of submissions.
#[derive(Debug, ToSchema)]
#[schema(as = Batch)]
#[allow(missing_docs)]
pub struct BatchSchema {
    /// At most 1,000. One that makes no sense has a problem of its own.
    pub jobs: Vec<wire::Submission>,
}

/// The answers to a batch, in order.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchAnswers {
    #[schema(value_type = Vec<wire::BatchAnswer<'static>>)]
    results: Vec<Map<String, Value>>,
}

/// `POST /v1/jobs/batch`
pub async fn batch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    SaidMuch(batch): SaidMuch<Batch>,
) -> Reply {
    limits::check_batch("jobs", batch.jobs.len())?;
    let read = |item: &RawValue| -> Result<SubmitRequest, Problem> {
        let mut request: SubmitRequest = serde_json::from_str(item.get())
            .map_err(|error| Problem::invalid(format!("the submission is not understood: {error}")))?;
        if request.wait_ms.is_some() {
            return Err(Problem::invalid("wait_ms in a batch: allowed is none"));
        }
        sign(&mut request, &caller);
        Ok(request)
    };
    let requests: Vec<Result<SubmitRequest, Problem>> = batch.jobs.iter().map(|item| read(item)).collect();
    let facts: Vec<Option<Facts>> = requests
        .iter()
        .map(|request| request.as_ref().ok().map(Facts::of))
        .collect();
    let builders: Vec<_> = requests
        .iter()
        .flatten()
        .map(|request| app.client.submit_request(request.clone()))
        .collect();
    let begun = clock::instant();
    let mut answers = app.client.submit_many(builders).await.into_iter();
    let took = begun.elapsed();
    let answered = |(request, facts): (Result<SubmitRequest, Problem>, Option<Facts>)| {
        let facts = match (request, facts) {
            (Err(problem), _) => return Err(problem),
            (Ok(_), None) => return Err(Problem::new("internal", "a submission was lost")),
            (Ok(_), Some(facts)) => facts,
        };
        let submitted = answers.next().expect("one answer per submission");
        metrics::submitted(&facts.queue, &facts.task, submitted.as_ref(), took);
        if let Ok(submitted) = &submitted {
            metrics::key_ttl(submitted, facts.ttl);
        }
        submitted
            .map(|submitted| (submitted, facts))
            .map_err(|error| refused(error, &caller))
    };
    let answered: Vec<_> = requests.into_iter().zip(facts).map(answered).collect();
    let rows: Vec<_> = answered
        .iter()
        .map(|answered| key_row(&app, answered.as_ref().ok().map(|(submitted, _)| submitted)))
        .collect();
    let rows: Vec<_> = stream::iter(rows).buffered(KEYS_AT_ONCE).collect().await;
    let result = |(answered, row): (&Result<(Submitted, Facts), Problem>, &Option<KeyRow>)| {
        let (submitted, facts) = match answered {
            Err(problem) => return problem.json(None),
            Ok(answered) => answered,
        };
        let answer = wire::Answer::admitted(submitted.admitted())
            .with_fresh_key(facts.key(submitted))
            .with_key(row.as_ref());
        let mut members = match serde_json::to_value(&answer) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        };
        members.insert("status".to_owned(), status(submitted).as_u16().into());
        members
    };
    let results = answered.iter().zip(&rows).map(result).collect();
    ok(&BatchAnswers { results })
}

/// `POST /v1/jobs/explain`
pub async fn explain(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Said(mut request): Said<SubmitRequest>,
) -> Reply {
    take_header(&mut request, &headers)?;
    sign(&mut request, &caller);
    let explanation = app.client.submit_request(request).explain().await?;
    match wire::Explanation::of(&explanation) {
        Some(told) => ok(&told),
        None => Err(no_answer(explanation.submitted)),
    }
}

/// The problem a submission would have.
pub fn no_answer(submitted: store::Submitted) -> Problem {
    match submitted {
        store::Submitted::Invalid(invalid) => invalid.into(),
        store::Submitted::Closed { target } => semel::Error::Closed { target }.into(),
        _ => Problem::new("internal", "a submission without an answer"),
    }
}

/// The header and the member say the same; saying both differently makes no sense.
fn take_header(request: &mut SubmitRequest, headers: &HeaderMap) -> Result<(), Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(());
    };
    if values.next().is_some() {
        return Err(Problem::invalid("Idempotency-Key is said twice: allowed is once"));
    }
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::invalid("Idempotency-Key is no text"))?
        .trim();
    let key = match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => unescaped(quoted),
        None => text.to_owned(),
    };
    match &request.idempotency_key {
        Some(said) if *said != key => Err(Problem::invalid(
            "Idempotency-Key and idempotency_key differ: allowed is one of them, or both alike",
        )),
        _ => {
            request.idempotency_key = Some(key);
            Ok(())
        }
    }
}

/// The text of a quoted string: a backslash stands before a quote or another backslash, anywhere else for itself.
fn unescaped(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut rest = quoted.chars().peekable();
    while let Some(c) = rest.next() {
        let escaped = rest.next_if(|next| c == '\\' && matches!(next, '"' | '\\'));
        text.push(escaped.unwrap_or(c));
    }
    text
}

/// Whoever has a token is the producer, unless it names one.
fn sign(request: &mut SubmitRequest, caller: &Caller) {
    if request.producer.is_none() && caller.token.is_some() {
        request.producer = Some(caller.name.to_string());
    }
}

/// Where inputs differ is for those who may read.
fn refused(error: semel::Error, caller: &Caller) -> Problem {
    let problem = Problem::from(error);
    match caller.may(Role::Read) {
        true => problem,
        false => problem.without("differs").without_pointers(),
    }
}

impl Problem {
    /// The sentence of a conflict names pointers, too.
    fn without_pointers(self) -> Self {
        match self.code() {
            "idempotency_conflict" => {
                let hint = self.hinted().map(str::to_owned);
                let holder = self.json(None).remove("holder");
                let bare = Problem::new("idempotency_conflict", "the key was used for something else");
                let bare = hint.into_iter().fold(bare, Problem::hint);
                holder
                    .into_iter()
                    .fold(bare, |bare, holder| bare.member("holder", holder))
            }
            _ => self,
        }
    }
}

/// Waits for the job; `None` if it goes on, or if nobody can say: it was taken, and that is the answer.
async fn ended(app: &App, submitted: &Submitted, wait: Duration) -> Option<Job> {
    tokio::select! {
        waited = submitted.wait().at_most(wait).into_future() => waited.ok(),
        () = app.stopping() => None,
    }
}

/// Whether two inputs are equal as keys see them.
fn same(a: &Json, b: &Json) -> bool {
    let canonical = |json: &Json| {
        canonical::parse(json.as_str(), Limits::default())
            .ok()
            .map(|value| value.to_canonical())
    };
    canonical(a).is_some_and(|a| canonical(b).is_some_and(|b| a == b))
}

/// All that is known of the key of a job that had it before; a fresh one is known from its submission. The submission
/// has its answer already: one that lacks this is better than none.
async fn key_row(app: &App, submitted: Option<&Submitted>) -> Option<KeyRow> {
    let digest = submitted.filter(|submitted| submitted.is_duplicate())?.key()?;
    let begun = clock::instant();
    let row = app.client.store().key(digest).await;
    metrics::key_looked_up(begun.elapsed());
    row.ok().flatten()
}

/// What a request says, for the metrics and the key of an accepted one.
struct Facts {
    queue: String,
    task: String,
    text: Option<String>,
    scope: String,
    hold: HoldKind,
    ttl: Option<Millis>,
}

impl Facts {
    fn of(request: &SubmitRequest) -> Self {
        let dedup = request.dedup.as_ref();
        let keyed = request.idempotency_key.is_some();
        let hold = match (dedup.and_then(|dedup| dedup.hold), keyed) {
            (Some(hold), _) => hold,
            (None, true) => HoldKind::Window,
            (None, false)
                if dedup.is_none() && request.unique.is_none() && request.unique_for_ms.is_none() =>
            {
                // Only a unique queue gives such a submission a key (contract 2.15).
                HoldKind::UntilStarted
            }
            (None, false) => HoldKind::UntilFinished,
        };
        let said = request
            .idempotency_ttl_ms
            .or(request.unique_for_ms)
            .or(dedup.and_then(|dedup| dedup.ttl_ms));
        let ttl = said.map(|ttl| Millis::new(i64::try_from(ttl).unwrap_or(i64::MAX)));
        let scope = request.idempotency_scope.or(dedup.and_then(|dedup| dedup.scope));
        let named = request
            .idempotency_scope_name
            .as_ref()
            .or(dedup.and_then(|dedup| dedup.scope_name.as_ref()));
        Facts {
            queue: request
                .queue
                .clone()
                .unwrap_or_else(|| limits::default_queue().to_string()),
            task: request.task.clone(),
            text: request
                .idempotency_key
                .clone()
                .or_else(|| dedup.and_then(|dedup| dedup.key.clone()))
                .map(|text| text.trim().to_owned()),
            scope: match (scope, named) {
                (_, Some(name)) => format!("custom:{name}"),
                (Some(ScopeWord::Queue), _) => "queue".to_owned(),
                (Some(ScopeWord::Global), _) => "global".to_owned(),
                (None, _) if hold == HoldKind::UntilStarted && dedup.is_none() => "queue".to_owned(),
                _ => "task".to_owned(),
            },
            ttl: ttl.or((hold == HoldKind::Window).then_some(Hold::DEFAULT_WINDOW)),
            hold,
        }
    }

    /// The key of one that was accepted a moment ago.
    fn key(&self, submitted: &Submitted) -> Option<wire::AnswerKey<'_>> {
        let digest = submitted
            .key()
            .filter(|_| submitted.outcome() == Outcome::Accepted)?;
        let at = submitted.holder().enqueued_at;
        let ttl = self.ttl;
        Some(wire::AnswerKey::taken(
            digest,
            self.text.as_deref(),
            &self.scope,
            self.hold,
            at,
            ttl,
        ))
    }
}
