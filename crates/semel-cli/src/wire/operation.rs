//! Acts on jobs and keys, and dead letters.

use std::collections::BTreeMap;

use semel::{Action, Sample, Status};
use semel_core::ids::{JobId, Name};
use semel_core::job::State;
use semel_core::json::Json;
use semel_core::view;
use serde::Serialize;

use crate::wire::{Job, Moment};

/// An act on one job.
#[derive(Debug, Serialize)]
pub struct Acted<'a> {
    asked: &'a JobId,
    id: &'a JobId,
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[derive(Debug, Serialize)]
pub struct Operation<'a> {
    id: &'a str,
    action: Action,
    status: Status,
    filter: &'a Json,
    actor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    total: u64,
    ineligible: u64,
    by_state: &'a BTreeMap<State, u64>,
    by_task: &'a BTreeMap<Name, u64>,
    samples: &'a [Sample],
    collisions: u64,
    collisions_complete: bool,
    done: u64,
    refused: &'a BTreeMap<String, u64>,
    refusals: Vec<Refusal<'a>>,
}

#[derive(Debug, Serialize)]
struct Refusal<'a> {
    id: &'a JobId,
    reason: &'a str,
}

impl<'a> From<&'a semel::Operation> for Operation<'a> {
    fn from(operation: &'a semel::Operation) -> Self {
        let progress = &operation.progress;
        Operation {
            id: &operation.id,
            action: operation.action,
            status: operation.status,
            filter: &operation.filter,
            actor: &operation.actor,
            reason: operation.reason.as_deref(),
            total: operation.total,
            ineligible: operation.ineligible,
            by_state: &operation.by_state,
            by_task: &operation.by_task,
            samples: &operation.samples,
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

/// Dead letters, grouped and one by one.
#[derive(Debug, Serialize)]
pub struct DeadLetters<'a> {
    /// By what they died of.
    pub groups: Vec<ErrorGroup<'a>>,
    /// One by one, newest first.
    pub items: Vec<Job<'a>>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Dead letters that died of the same.
#[derive(Debug, Serialize)]
pub struct ErrorGroup<'a> {
    task: &'a Name,
    error: &'a str,
    jobs: i64,
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
