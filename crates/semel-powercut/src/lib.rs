//! A recording SQLite VFS: what would a power cut have left on the disk?
//!
//! [`install`] registers a shim around the platform's default VFS. Connections opened through it
//! behave as before; the shim counts syncs and writes ([`Vfs::counts`]), can make writes fail
//! ([`Vfs::fail_writes_after`]), and, while a [`Recorder`] is active for a directory, keeps an
//! ordered log of every write, truncation, sync, creation and deletion there, together with the
//! test's own marks. From the [`Log`] a test builds the [`Image`] a power cut at any point could
//! have left, opens it, and compares it with what had been acknowledged before the cut.
//!
//! # The disk model
//!
//! * A write, truncation or creation is certain once a later sync *of the same file* has
//!   returned. A sync covers what had completed when it was called, not what other threads wrote
//!   while it ran.
//! * Everything else is at risk, as [`Survive`] says. Under [`Survive::Random`] each 512-byte
//!   sector is in one of the states it went through since it was last certain (sectors are
//!   independent of each other, a sector is never torn), each truncation happened or not, and the
//!   file may have its new length with zeros where data did not arrive.
//! * Names: a creation or deletion is at risk until its directory is synced. The first sync of a
//!   new file syncs its directory too (the unix VFS does so for WAL and journal files), and so
//!   does a deletion that SQLite asks to be synced. Writes to a new file whose creation is lost
//!   are lost with it; a lost deletion leaves the old content.
//! * The wal-index (`-shm`) is neither recorded nor part of an image: recovery rebuilds it.
//! * Not modelled: disks that lie about a sync, bit rot, failed syncs, and sectors that hold
//!   garbage after a cut.
//!
//! # Example
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use rusqlite::{Connection, OpenFlags};
//! use semel_powercut::{Survive, install};
//!
//! let dir = std::path::Path::new("/tmp/jobs");
//! let vfs = install("powercut-example")?;
//! let recorder = vfs.record(dir)?;
//! let db = Connection::open_with_flags_and_vfs(
//!     dir.join("jobs.db"),
//!     OpenFlags::default(),
//!     vfs.name(),
//! )?;
//! db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1);")?;
//! recorder.mark(1);
//! let log = recorder.stop();
//! for cut in 0..=log.events() {
//!     let image = log.image(cut, 42, Survive::Random);
//!     image.write_to(std::path::Path::new("/tmp/after-the-cut"))?;
//!     // open it: every n in log.marks_before(cut) must be there
//! }
//! # Ok(()) }
//! ```

mod error;
#[allow(unsafe_code)] // SQLite's I/O methods are a C interface
mod file;
mod image;
mod log;
mod recorder;
mod replay;
mod rng;
#[allow(unsafe_code)] // so is the VFS object itself
mod shim;
mod state;
mod tapes;
mod vfs;

pub use error::Error;
pub use image::Image;
pub use log::{Log, Survive};
pub use recorder::Recorder;
pub use state::{Counts, Fault};
pub use vfs::{Vfs, install};
