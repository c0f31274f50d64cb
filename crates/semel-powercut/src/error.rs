//! What can go wrong when setting up the shim.

use std::path::PathBuf;

/// Why a VFS could not be installed or a recording not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The VFS name contains a NUL byte.
    #[error("the VFS name contains a NUL byte")]
    BadName,
    /// A VFS of that name exists and is not one of ours.
    #[error("SQLite already has another VFS named {0:?}")]
    NameTaken(String),
    /// SQLite has no default VFS to wrap.
    #[error("SQLite has no default VFS to wrap")]
    NoDefaultVfs,
    /// SQLite refused the registration with this result code.
    #[error("SQLite refused to register the VFS: code {0}")]
    Register(i32),
    /// The files already in the recorded directory could not be read.
    #[error("cannot read the state of {path} before recording")]
    Snapshot {
        /// The directory or file that could not be read.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}
