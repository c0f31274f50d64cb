//! A task in the hands of a producer.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::submit::Submit;
use crate::task::Task;
use crate::wait::Output;

impl Client {
    /// A task in this store.
    pub fn task<I, O>(&self, task: Task<I, O>) -> TaskHandle<I, O> {
        TaskHandle {
            client: self.clone(),
            task,
        }
    }
}

/// A task in a store: submits its jobs.
pub struct TaskHandle<I, O = ()> {
    client: Client,
    task: Task<I, O>,
}

impl<I: Serialize, O> TaskHandle<I, O> {
    /// Submits a job.
    pub fn submit(&self, input: &I) -> Submit<O> {
        self.client.submit(self.task, input)
    }

    /// Submits a job that nobody else may submit while it is active: a duplicate is an
    /// [`Error::Duplicate`](crate::Error::Duplicate) that names the holder. The key is free again once the job has
    /// ended (contract 3.2).
    pub fn submit_idempotent(&self, key: impl Into<String>, input: &I) -> Submit<O> {
        self.submit(input).exclusive(key)
    }
}

impl<I: Serialize, O: DeserializeOwned> TaskHandle<I, O> {
    /// The same key as [`submit_idempotent`](TaskHandle::submit_idempotent), but a duplicate joins the job that
    /// holds it, and everybody gets its output (contract 3.2).
    pub fn wait_idempotent(&self, key: impl Into<String>, input: &I) -> Output<O> {
        self.submit(input).by_key(key).unique().output()
    }
}

impl<I, O> Clone for TaskHandle<I, O> {
    fn clone(&self) -> Self {
        TaskHandle {
            client: self.client.clone(),
            task: self.task,
        }
    }
}

impl<I, O> fmt::Debug for TaskHandle<I, O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("TaskHandle")
            .field(&self.task.name())
            .finish()
    }
}
