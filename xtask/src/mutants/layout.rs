//! Writing the generated workspace: one copy of the store per mutant, and the control.
//!
//! A file is touched only when its content changes, so that a second round builds only what is new.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::catalogue::Mutant;
use super::manifest::{self, SUITE};
use super::{CONTROL, Site};

/// Files by their path inside a package.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Writes the root, the control and every mutant.
pub fn write(site: &Site, mutants: &[Mutant]) -> Result<()> {
    let store = read_store(&site.store())?;
    let broken = apply_all(&store, mutants)?;
    let mut members = vec![CONTROL.to_owned()];
    write_package(site, CONTROL, store)?;
    for (mutant, files) in mutants.iter().zip(broken) {
        members.push(mutant.name.clone());
        write_package(site, &mutant.name, files)?;
    }
    write_root(site, &members)
}

/// Every change is tried before anything is said, so that one run tells of all that no longer apply.
fn apply_all(store: &Files, mutants: &[Mutant]) -> Result<Vec<Files>> {
    let (applied, errors): (Vec<_>, Vec<_>) = mutants
        .iter()
        .map(|mutant| apply(store, mutant))
        .partition(|result| result.is_ok());
    if errors.is_empty() {
        return applied.into_iter().collect();
    }
    let lines: Vec<String> = errors
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    bail!(
        "{}\nhint: the store changed; adapt `find` in mutants/mutants.toml",
        lines.join("\n")
    );
}

fn apply(store: &Files, mutant: &Mutant) -> Result<Files> {
    let mut files = store.clone();
    let file = files
        .get_mut(&Path::new("src").join(&mutant.file))
        .with_context(|| {
            format!(
                "mutant no longer applies: {} names {}, which does not exist",
                mutant.name, mutant.file
            )
        })?;
    let text = std::str::from_utf8(file).with_context(|| format!("{} is not text", mutant.file))?;
    *file = mutant.apply(text)?.into_bytes();
    Ok(files)
}

/// The store as it is, with the conformance test as its only test.
fn read_store(dir: &Path) -> Result<Files> {
    let mut files = Files::new();
    for path in files_below(dir).with_context(|| format!("could not read the store in {}", dir.display()))? {
        let inner = path
            .strip_prefix(dir)
            .expect("the walk stays below its start")
            .to_owned();
        if belongs(&inner) {
            let content = fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
            files.insert(inner, content);
        }
    }
    Ok(files)
}

fn belongs(path: &Path) -> bool {
    let tests = Path::new("tests");
    let is_suite = path.starts_with(tests.join(SUITE)) || path == tests.join(SUITE).with_extension("rs");
    let is_left_out = ["tests", "examples", "benches", "target"]
        .iter()
        .any(|dir| path.starts_with(dir));
    is_suite || !is_left_out
}

fn write_package(site: &Site, name: &str, mut files: Files) -> Result<()> {
    let manifest = files
        .get_mut(Path::new("Cargo.toml"))
        .context("the store has no Cargo.toml")?;
    let real = std::str::from_utf8(manifest).context("the store's Cargo.toml is not text")?;
    *manifest = manifest::package(real, &site.store(), &format!("semel-sqlite-mutant-{name}"))?.into_bytes();
    let dir = site.package(name);
    for (path, content) in &files {
        write_if_changed(&dir.join(path), content)?;
    }
    // A module that left the store must not live on in the copy.
    for path in files_below(&dir)? {
        if !path
            .strip_prefix(&dir)
            .is_ok_and(|inner| files.contains_key(inner))
        {
            fs::remove_file(&path).with_context(|| format!("could not remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn write_root(site: &Site, members: &[String]) -> Result<()> {
    let real = fs::read_to_string(site.root.join("Cargo.toml"))
        .context("could not read the workspace's Cargo.toml")?;
    let store = fs::read_to_string(site.store().join("Cargo.toml"))
        .context("could not read the store's Cargo.toml")?;
    let root = manifest::workspace(&real, &store, &site.root, members)?;
    write_if_changed(&site.workspace().join("Cargo.toml"), root.as_bytes())?;
    // The same versions as the real store; cargo adds the mutants by itself.
    match fs::read(site.root.join("Cargo.lock")) {
        Ok(lock) => write_if_changed(&site.workspace().join("Cargo.lock"), &lock),
        Err(_) => Ok(()),
    }
}

fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("could not make {}", dir.display()))?;
    }
    fs::write(path, content).with_context(|| format!("could not write {}", path.display()))
}

fn files_below(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => files.extend(files_below(&entry.path())?),
            false => files.push(entry.path()),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_conformance_test_is_copied() {
        for taken in [
            "Cargo.toml",
            "src/lib.rs",
            "src/sql/claim.sql",
            "tests/conformance.rs",
            "tests/conformance/a.rs",
        ] {
            assert!(belongs(Path::new(taken)), "{taken}");
        }
        for left in [
            "tests/power_cut.rs",
            "examples/faults.rs",
            "benches/b.rs",
            "tests/conformance_other.rs",
        ] {
            assert!(!belongs(Path::new(left)), "{left}");
        }
    }

    #[test]
    fn an_unchanged_file_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/file");
        write_if_changed(&path, b"one").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        write_if_changed(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }
}
