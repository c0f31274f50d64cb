//! The files found after a power cut.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

/// The content of a recorded directory after a power cut: file names and bytes, without `-shm`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    pub(crate) fn new(files: BTreeMap<String, Vec<u8>>) -> Self {
        Self { files }
    }

    /// The bytes of one file, if it exists in the image.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// The names and contents of all files, sorted by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files
            .iter()
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// Writes the files into `dir`, which is created if need be.
    ///
    /// Files of the same name are replaced; others are left alone, so hand in an empty directory
    /// (a leftover WAL or wal-index from another image would be taken for this one's).
    pub fn write_to(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        for (name, bytes) in &self.files {
            fs::write(dir.join(name), bytes)?;
        }
        Ok(())
    }
}
