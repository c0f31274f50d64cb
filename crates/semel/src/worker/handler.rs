//! What runs jobs: functions of the user, made alike.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use semel_core::ids::Name;
use semel_core::json::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::job_error::{JobError, JobResult, fail};
use crate::worker::job::{Attempt, Job};
use crate::worker::layer::{Layer, Next};

/// An async function that does the work of a task: `async fn(Job<I>, S) -> JobResult<O>`.
///
/// `I` and `O` are the input and output of the task, `S` is what was given to the worker. It may be called
/// for several jobs at once. One that does not fit its task does not compile:
///
/// ```compile_fail,E0631
/// # use semel::{Client, Job, JobResult, Task, Worker};
/// const GREET: Task<String, String> = Task::new("greet");
/// async fn greet(job: Job<u64>, _: ()) -> JobResult<String> {
///     Ok(job.input.to_string())
/// }
/// # fn add(jobs: &Client) {
/// let worker = Worker::new(jobs, ()).task(GREET, greet);
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "this is no handler for a task with input `{I}` and output `{O}`",
    label = "expected `async fn(Job<{I}>, {S}) -> JobResult<{O}>`",
    note = "a handler takes the job and a clone of the worker's state, and gives a `JobResult`",
    note = "its future has to be `Send`: no `Rc`, no lock guard held over an `.await`",
    note = "an async closure that captures is no `Fn`: pass what it needs as the state"
)]
pub trait Handler<I, O, S>: Send + Sync + 'static {
    /// Does the work.
    fn call(&self, job: Job<I>, state: S) -> impl Future<Output = JobResult<O>> + Send;
}

impl<F, Working, I, O, S> Handler<I, O, S> for F
where
    F: Fn(Job<I>, S) -> Working + Send + Sync + 'static,
    Working: Future<Output = JobResult<O>> + Send,
{
    fn call(&self, job: Job<I>, state: S) -> impl Future<Output = JobResult<O>> + Send {
        self(job, state)
    }
}

/// The future of a handler whose types are forgotten.
pub(crate) type Working = Pin<Box<dyn Future<Output = JobResult<Json>> + Send>>;

/// A handler whose types are forgotten: JSON in, JSON out.
pub(crate) type Forgotten = Arc<dyn Fn(Attempt) -> Working + Send + Sync>;

/// The handlers of a worker, by task.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    by_task: HashMap<Name, Forgotten>,
    layers: Vec<Layer>,
}

impl Handlers {
    /// Adds a handler; says whether the task had none.
    pub(crate) fn add<I, O, S, H>(&mut self, task: Name, handler: H, state: &S) -> bool
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        S: Clone + Send + Sync + 'static,
        H: Handler<I, O, S>,
    {
        let parts = Arc::new((handler, state.clone()));
        let run = move |attempt: Attempt| -> Working {
            let parts = parts.clone();
            Box::pin(async move {
                let (handler, state) = &*parts;
                let input = read(&attempt)?;
                let output = handler
                    .call(Job::new(input, attempt.clone()), state.clone())
                    .await?;
                written(&attempt, &output)
            })
        };
        self.by_task.insert(task, Arc::new(run)).is_none()
    }

    /// Puts a layer around all handlers, outside of those that are there.
    pub(crate) fn wrap(&mut self, layer: Layer) {
        self.layers.insert(0, layer);
    }

    /// The names of the tasks, in order.
    pub(crate) fn tasks(&self) -> Vec<Name> {
        let mut tasks: Vec<Name> = self.by_task.keys().cloned().collect();
        tasks.sort();
        tasks
    }

    /// The handler's future, with the layers around it.
    pub(crate) fn start(&self, attempt: Attempt) -> Working {
        let Some(handler) = self.by_task.get(&attempt.lease.job.task) else {
            // A claim names its tasks, so no store gives a job of another one.
            let task = attempt.task().to_owned();
            let error = format!("this worker has no handler for task {task}");
            return Box::pin(async move { Err(JobError::retry(error)) });
        };
        if self.layers.is_empty() {
            return handler(attempt);
        }
        Next::new(self.layers.as_slice().into(), handler.clone(), attempt).run()
    }
}

/// The input as the handler's type. Another version of the worker may be able to read it, so it is tried again.
fn read<I: DeserializeOwned>(attempt: &Attempt) -> JobResult<I> {
    attempt.lease.job.input.read().map_err(|error| {
        JobError::retry(format!(
            "the input of this job is not what the handler of task {} takes: {error}",
            attempt.task()
        ))
    })
}

/// The output as JSON. The work is done: doing it again would not make the output smaller.
fn written<O: Serialize>(attempt: &Attempt, output: &O) -> JobResult<Json> {
    Json::of(output).map_err(|invalid| {
        fail(format!(
            "the handler of task {} ended well, but its output cannot be kept: {invalid}; hint: keep large things elsewhere and give a reference",
            attempt.task()
        ))
    })
}
