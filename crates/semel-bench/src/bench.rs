//! What all measurements share: the settings, the runtime, the report.

use anyhow::Result;
use tokio::runtime::{Handle, Runtime};

use crate::report::Report;
use crate::settings::Settings;
use crate::targets::Target;

/// A run.
pub(crate) struct Bench {
    pub(crate) settings: Settings,
    pub(crate) report: Report,
    runtime: Runtime,
}

impl Bench {
    /// A run on so many threads, whose figures are held against these promises.
    pub(crate) fn new(
        settings: &Settings,
        threads: usize,
        target: fn(&str) -> Option<Target>,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()?;
        Ok(Bench {
            settings: settings.clone(),
            report: Report::of(settings, target),
            runtime,
        })
    }

    /// Where calls to the store run.
    pub(crate) fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Runs something on this thread.
    pub(crate) fn block_on<T>(&self, calls: impl Future<Output = T>) -> T {
        self.runtime.block_on(calls)
    }
}
