//! Building all conformance tests of the generated workspace in one go.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Site;
use super::manifest::SUITE;
use crate::cargo::cargo;

/// The test binary of each mutant that could be built.
pub type Executables = BTreeMap<String, PathBuf>;

/// Builds what can be built. A mutant that does not compile is missing from the result, its errors are shown.
pub fn conformance_tests(site: &Site) -> Result<Executables> {
    let mut child = cargo("build")
        .current_dir(site.workspace())
        // A directory of its own: what the mutants share is built once, the developer's own builds stay as they are.
        .env("CARGO_TARGET_DIR", site.dir.join("build"))
        .args([
            "--workspace",
            "--test",
            SUITE,
            "--keep-going",
            "--message-format=json",
        ])
        .stdout(Stdio::piped())
        // The tests of xtask break packages on purpose; an error in the output of a green run would mislead.
        .stderr(if cfg!(test) {
            Stdio::null()
        } else {
            Stdio::inherit()
        })
        .spawn()
        .context("could not start cargo build for the mutants")?;
    let output = child.stdout.take().expect("standard output is piped");
    let mut executables = Executables::new();
    for line in BufReader::new(output).lines() {
        read_message(
            &line.context("could not read what cargo build says")?,
            &mut executables,
        );
    }
    // Its exit code says only that some mutant failed to build, which the missing entry says better.
    child
        .wait()
        .context("lost sight of cargo build for the mutants")?;
    Ok(executables)
}

/// The parts of cargo's messages that matter here.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

fn read_message(line: &str, executables: &mut Executables) {
    let Ok(message) = serde_json::from_str::<Message>(line) else {
        return;
    };
    match message {
        // Warnings are left out: code cut short on purpose has plenty.
        Message {
            message:
                Some(Diagnostic {
                    level,
                    rendered: Some(text),
                }),
            ..
        } if level == "error" => {
            eprint!("{text}");
        }
        Message {
            target: Some(target),
            manifest_path: Some(manifest),
            executable: Some(path),
            ..
        } if target.name == SUITE => {
            executables.extend(package_name(&manifest).map(|name| (name, path)));
        }
        _ => {}
    }
}

/// A mutant's package lies in the directory of its name.
fn package_name(manifest: &Path) -> Option<String> {
    Some(manifest.parent()?.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_binary_is_found_among_the_messages() {
        let lines = [
            r#"{"reason":"compiler-artifact","manifest_path":"/ws/one/Cargo.toml","target":{"name":"semel_sqlite"},"executable":null}"#,
            r#"{"reason":"compiler-artifact","manifest_path":"/ws/one/Cargo.toml","target":{"name":"conformance"},"executable":"/build/conformance-1"}"#,
            r#"{"reason":"compiler-message","manifest_path":"/ws/two/Cargo.toml","target":{"name":"conformance"},"message":{"level":"warning","rendered":"unused"}}"#,
            r#"{"reason":"build-finished","success":true}"#,
            "a line that is no message",
        ];
        let mut executables = Executables::new();
        for line in lines {
            read_message(line, &mut executables);
        }
        assert_eq!(
            executables,
            Executables::from([("one".into(), PathBuf::from("/build/conformance-1"))])
        );
    }
}
