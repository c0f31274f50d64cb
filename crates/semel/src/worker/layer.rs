//! What goes around every handler: measuring, checking, translating errors.

use std::future::Future;
use std::sync::Arc;

use semel_core::json::Json;

use crate::job_error::JobResult;
use crate::worker::handler::{Forgotten, Working};
use crate::worker::job::Attempt;

/// A layer whose type is forgotten.
pub(crate) type Layer = Arc<dyn Fn(Attempt, Next) -> Working + Send + Sync>;

/// Forgets the type of a layer.
pub(crate) fn forget<F, Around>(layer: F) -> Layer
where
    F: Fn(Attempt, Next) -> Around + Send + Sync + 'static,
    Around: Future<Output = JobResult<Json>> + Send + 'static,
{
    let layer = Arc::new(layer);
    Arc::new(move |attempt, next| {
        let layer = layer.clone();
        // Called when polled: a panic is caught there.
        Box::pin(async move { layer(attempt, next).await })
    })
}

/// What is inside of a layer: the next layer, in the end the handler.
pub struct Next {
    layers: Arc<[Layer]>,
    at: usize,
    handler: Forgotten,
    attempt: Attempt,
}

impl Next {
    pub(crate) fn new(layers: Arc<[Layer]>, handler: Forgotten, attempt: Attempt) -> Self {
        Next {
            layers,
            at: 0,
            handler,
            attempt,
        }
    }

    /// Goes on inwards; gives what the handler gave.
    pub fn run(mut self) -> Working {
        let Some(layer) = self.layers.get(self.at).cloned() else {
            return (self.handler)(self.attempt);
        };
        self.at += 1;
        let attempt = self.attempt.clone();
        layer(attempt, self)
    }
}
