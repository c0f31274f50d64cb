//! What all measurements share: the directory, the runtime, the report.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

use crate::report::Report;
use crate::settings::Settings;

/// A run.
pub(crate) struct Bench {
    pub(crate) settings: Settings,
    pub(crate) report: Report,
    runtime: Runtime,
    dir: TempDir,
    files: usize,
}

impl Bench {
    /// Makes a temporary directory, removed with the run.
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("semel-bench-")
            .tempdir_in(&settings.dir);
        let dir = dir.with_context(|| format!("making a directory in {}", settings.dir.display()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()?;
        Ok(Bench {
            settings: settings.clone(),
            report: Report::of(settings),
            runtime,
            dir,
            files: 0,
        })
    }

    /// Where calls to the store run.
    pub(crate) fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// A database file nobody has used yet.
    pub(crate) fn fresh_file(&mut self) -> Result<PathBuf> {
        self.files += 1;
        let dir = self.dir.path().join(self.files.to_string());
        std::fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        Ok(dir.join("bench.db"))
    }

    /// Removes all files, so that a long run needs no more room than its largest group.
    pub(crate) fn clear(&self) -> Result<()> {
        for entry in std::fs::read_dir(self.dir.path())? {
            std::fs::remove_dir_all(entry?.path())?;
        }
        Ok(())
    }
}
