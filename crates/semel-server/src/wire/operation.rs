//! Acts on jobs and keys, and dead letters.

use std::collections::BTreeMap;

use semel::{Action, Sample, Status};
use semel_core::ids::{JobId, Name};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::view;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::wire::{Job, Moment, words};

/// An act on one job.
#[derive(Debug, Serialize, ToSchema)]
pub struct Acted<'a> {
    #[schema(value_type = String)]
    asked: &'a JobId,
    #[schema(value_type = String)]
    id: &'a JobId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::State>)]
    state: Option<State>,
}

impl<'a> Acted<'a> {
    /// What came of acting on a job.
    pub fn new(asked: &'a JobId, acted: &'a semel::Acted) -> Self {
        Acted {
            asked,
            id: &acted.id,
            state: acted.state,
        }
    }
}

/// A bulk act: its plan and how far it has come.
#[derive(Debug, Serialize, ToSchema)]
pub struct Operation<'a> {
    #[schema(value_type = String)]
    id: &'a str,
    #[schema(value_type = words::Action)]
    action: Action,
    #[schema(value_type = words::OperationStatus)]
    status: Status,
    filter: Value,
    #[schema(value_type = String)]
    actor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    reason: Option<&'a str>,
    total: u64,
    ineligible: u64,
    #[schema(value_type = BTreeMap<String, u64>)]
    by_state: &'a BTreeMap<State, u64>,
    #[schema(value_type = BTreeMap<String, u64>)]
    by_task: &'a BTreeMap<Name, u64>,
    samples: Vec<SampleRow<'a>>,
    collisions: u64,
    collisions_complete: bool,
    done: u64,
    #[schema(value_type = BTreeMap<String, u64>)]
    refused: &'a BTreeMap<String, u64>,
    refusals: Vec<Refusal<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Refusal<'a> {
    #[schema(value_type = String)]
    id: &'a JobId,
    #[schema(value_type = String)]
    reason: &'a str,
}

impl<'a> From<&'a semel::Operation> for Operation<'a> {
    fn from(operation: &'a semel::Operation) -> Self {
        let progress = &operation.progress;
        Operation {
            id: &operation.id,
            action: operation.action,
            status: operation.status,
            filter: without_nulls(&operation.filter),
            actor: &operation.actor,
            reason: operation.reason.as_deref(),
            total: operation.total,
            ineligible: operation.ineligible,
            by_state: &operation.by_state,
            by_task: &operation.by_task,
            samples: operation.samples.iter().map(SampleRow::from).collect(),
            collisions: operation.collisions,
            collisions_complete: operation.collisions_complete,
            done: progress.done,
            refused: &progress.refused,
            refusals: progress
                .refusals
                .iter()
                .map(|(id, reason)| Refusal { id, reason })
                .collect(),
        }
    }
}

/// What was not chosen by is left out.
fn without_nulls(filter: &Json) -> Value {
    let mut filter: Value = serde_json::from_str(filter.as_str()).unwrap_or_default();
    if let Some(members) = filter.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    filter
}

/// Dead letters, grouped and one by one.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeadLetters<'a> {
    /// By what they died of.
    pub groups: Vec<ErrorGroup<'a>>,
    /// One by one, newest first.
    pub items: Vec<Job<'a>>,
    /// Where the next page begins.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// Dead letters that died of the same.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorGroup<'a> {
    #[schema(value_type = String)]
    task: &'a Name,
    #[schema(value_type = String)]
    error: &'a str,
    jobs: i64,
    #[schema(value_type = String)]
    newest: &'a JobId,
    newest_at: Moment,
}

impl<'a> From<&'a view::ErrorGroup> for ErrorGroup<'a> {
    fn from(group: &'a view::ErrorGroup) -> Self {
        ErrorGroup {
            task: &group.task,
            error: &group.error,
            jobs: group.jobs,
            newest: &group.newest,
            newest_at: group.newest_at.into(),
        }
    }
}

/// One of those a bulk act is about.
#[derive(Debug, Serialize, ToSchema)]
pub struct SampleRow<'a> {
    #[schema(value_type = String)]
    id: &'a JobId,
    #[schema(value_type = String)]
    task: &'a Name,
    #[schema(value_type = words::State)]
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    error: Option<&'a str>,
}

impl<'a> From<&'a Sample> for SampleRow<'a> {
    fn from(sample: &'a Sample) -> Self {
        SampleRow {
            id: &sample.id,
            task: &sample.task,
            state: sample.state,
            error: sample.error.as_deref(),
        }
    }
}
