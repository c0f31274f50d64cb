//! Files of the run, removed with it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::settings::Settings;

/// A temporary directory with a directory for each file.
pub(crate) struct Files {
    dir: TempDir,
    made: usize,
}

impl Files {
    /// Makes the directory.
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("semel-bench-")
            .tempdir_in(&settings.dir);
        let dir = dir.with_context(|| format!("making a directory in {}", settings.dir.display()))?;
        Ok(Files { dir, made: 0 })
    }

    /// A database file nobody has used yet.
    pub(crate) fn fresh(&mut self) -> Result<PathBuf> {
        self.made += 1;
        let dir = self.dir.path().join(self.made.to_string());
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
