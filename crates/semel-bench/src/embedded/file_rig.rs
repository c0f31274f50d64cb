//! A store on a file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::runtime::Handle;

use semel_sqlite::{Options, SqliteStore, Synchronous};

use crate::load::{Kind, Load};
use crate::rig::{LARGEST, Rig};

/// Opens a store with production settings.
pub(crate) fn open(path: &Path, handle: Handle, load: Load) -> Result<Rig> {
    open_with(Options::new(path), handle, load)
}

/// Opens a store.
pub(crate) fn open_with(options: Options, handle: Handle, load: Load) -> Result<Rig> {
    let opening = format!("opening {}", options.path.display());
    let store = SqliteStore::open(options).context(opening)?;
    Rig::new(Arc::new(store), handle, load, LARGEST)
}

/// What to fill a file with.
pub(crate) struct Fill {
    pub(crate) kind: Kind,
    pub(crate) jobs: usize,
    pub(crate) priority: i8,
}

/// Fills a file without syncing, then syncs it once: quickly made, and nothing left for the disk to do.
pub(crate) fn preload(path: &Path, handle: &Handle, load: &Load, fill: &Fill) -> Result<()> {
    let options = Options {
        synchronous: Synchronous::Off,
        ..Options::new(path)
    };
    let rig = open_with(options, handle.clone(), load.clone())?;
    rig.fill(fill.kind, fill.jobs, fill.priority)?;
    drop(rig);
    let file = std::fs::File::open(path).and_then(|file| file.sync_all());
    file.with_context(|| format!("syncing {}", path.display()))
}
