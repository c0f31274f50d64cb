//! Segments of a spool: files of records, one to a line, and what their names say.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::clock;

/// A sealed segment. Nobody changes one but who drains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) records: u64,
    pub(super) since: i64,
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
}

/// The segments of a spool.
#[derive(Default)]
pub(super) struct Segments {
    pub(super) sealed: Vec<Segment>,
    pub(super) open: Vec<(u64, PathBuf)>,
}

impl Segments {
    /// Those in a directory, oldest first.
    pub(super) fn list(directory: &Path) -> io::Result<Self> {
        let mut segments = Segments::default();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if let Some(number) = name.strip_suffix(".open").and_then(|number| number.parse().ok()) {
                segments.open.push((number, path));
            } else if let Some((number, records, since)) = sealed_name(name) {
                // Taken off by a drain in this very moment: it is no longer here.
                let Ok(file) = fs::metadata(&path) else { continue };
                segments.sealed.push(Segment {
                    number,
                    records,
                    since,
                    bytes: file.len(),
                    path,
                });
            }
        }
        segments.open.sort();
        segments.sealed.sort_by_key(|segment| segment.number);
        Ok(segments)
    }

    /// The number of the newest; 0 if there is none.
    pub(super) fn newest(&self) -> u64 {
        let sealed = self.sealed.iter().map(|segment| segment.number);
        let open = self.open.iter().map(|(number, _)| *number);
        sealed.chain(open).max().unwrap_or(0)
    }

    /// Later than all there are, and hardly the number of one that is gone already.
    pub(super) fn next(&self) -> u64 {
        (self.newest() + 1).max(clock::now().as_millis().unsigned_abs())
    }
}

/// The segment that is appended to.
pub(super) struct Open {
    pub(super) file: File,
    pub(super) number: u64,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Its last line has no end.
    pub(super) is_torn: bool,
}

impl Open {
    pub(super) fn at(path: &Path, number: u64) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(Open {
            records: lines.count() as u64,
            bytes: bytes.len() as u64,
            is_torn: bytes.last().is_some_and(|last| *last != b'\n'),
            number,
            file,
        })
    }
}

/// Damage may have made bytes that are no text: such a line fails its checksum.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn sealed_name(name: &str) -> Option<(u64, u64, i64)> {
    let mut parts = name.strip_suffix(".jobs")?.splitn(3, '-');
    let number = parts.next()?.parse().ok()?;
    let records = parts.next()?.parse().ok()?;
    let since = parts.next()?.parse().ok()?;
    Some((number, records, since))
}
