//! Calling cargo, and watching what it prints.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result};

/// The directory of the workspace this xtask belongs to.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask
        .parent()
        .expect("xtask/ lies inside the workspace")
        .to_owned()
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A cargo command in the workspace, by the same cargo that started xtask.
pub fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg(subcommand).current_dir(root());
    command
}

/// Runs a command with its output going straight through; its exit becomes ours.
pub fn run(command: &mut Command) -> Result<ExitCode> {
    let status = command
        .status()
        .with_context(|| format!("could not start {command:?}"))?;
    Ok(exit_code(status.success()))
}

/// Runs a command, passes its standard output on as it comes, and shows each finished line to `see`.
pub fn run_watched(command: &mut Command, see: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start {command:?}"))?;
    let output = child.stdout.take().expect("standard output is piped");
    tee(output, std::io::stdout().lock(), see).context("could not pass the output on")?;
    child.wait().with_context(|| format!("lost sight of {command:?}"))
}

/// Success or failure, as a process says it.
pub fn exit_code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Copies chunk by chunk, not line by line: a test's name must show while it still runs.
fn tee(mut from: impl Read, mut to: impl Write, mut see: impl FnMut(&str)) -> std::io::Result<()> {
    let mut chunk = [0; 8192];
    let mut line = Vec::new();
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            see(&String::from_utf8_lossy(&line));
            return Ok(());
        }
        to.write_all(&chunk[..read])?;
        to.flush()?;
        for &byte in &chunk[..read] {
            if byte == b'\n' {
                see(&String::from_utf8_lossy(&line));
                line.clear();
            } else {
                line.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tee_copies_everything_and_shows_whole_lines() {
        let text = "one\ntwo\nlast without an end";
        let mut copy = Vec::new();
        let mut lines = Vec::new();
        tee(text.as_bytes(), &mut copy, |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(copy, text.as_bytes());
        assert_eq!(lines, ["one", "two", "last without an end"]);
    }
}
