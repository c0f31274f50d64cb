//! Running one case on one mutant, and judging what came of it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result};

use super::Site;
use crate::clock::Stopwatch;
use crate::tally::Tally;

/// Far above what any single case takes.
const TIME_LIMIT: Duration = Duration::from_secs(120);
const GLANCE: Duration = Duration::from_millis(10);

/// What came of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// This very case ran and failed.
    Failed,
    /// This very case ran and passed.
    Passed,
    /// It was still running at the time limit.
    Hung,
    /// The suite has no case of that name.
    NoSuchCase,
    /// The process ended without a verdict on the case.
    Crashed,
    /// There was nothing to run.
    DoesNotBuild,
}

impl Verdict {
    /// Whether this shows that the suite notices the bug.
    pub fn catches(self, may_hang: bool) -> bool {
        self == Self::Failed || (self == Self::Hung && may_hang)
    }

    /// The last column of the table.
    pub fn in_table(self, may_hang: bool) -> &'static str {
        match self {
            Self::Failed => "yes",
            Self::Hung if may_hang => "yes (hung)",
            Self::Hung => "no (hung)",
            Self::Passed => "no",
            Self::NoSuchCase => "no (no such case)",
            Self::Crashed => "no (crashed)",
            Self::DoesNotBuild => "no (does not build)",
        }
    }

    /// The end of a sentence that begins with "the case".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Passed => "passed",
            Self::Hung => "did not end within the time limit",
            Self::NoSuchCase => "does not exist in the suite",
            Self::Crashed => "ended without a verdict",
            Self::DoesNotBuild => "could not be built",
        }
    }
}

/// Runs one case of a built conformance test.
pub fn run(site: &Site, name: &str, case: &str, executable: &Path) -> Result<Verdict> {
    let log = site.log(name, case);
    if let Some(dir) = log.parent() {
        fs::create_dir_all(dir).with_context(|| format!("could not make {}", dir.display()))?;
    }
    let package = site.package(name);
    let status = run_limited(
        Command::new(executable)
            .arg("--exact")
            .arg(case)
            .current_dir(package),
        &log,
        TIME_LIMIT,
    )?;
    let output = fs::read(&log).with_context(|| format!("could not read {}", log.display()))?;
    Ok(judge(
        case,
        status.map(|status| status.success()),
        &String::from_utf8_lossy(&output),
    ))
}

/// Runs a command with its output in a file. A pipe would stay open as long as any child of a killed test lives.
fn run_limited(command: &mut Command, log: &Path, limit: Duration) -> Result<Option<ExitStatus>> {
    let file = File::create(log).with_context(|| format!("could not write {}", log.display()))?;
    let copy = file
        .try_clone()
        .with_context(|| format!("could not write {}", log.display()))?;
    let mut child = command
        .stdout(file)
        .stderr(copy)
        .process_group(0)
        .spawn()
        .with_context(|| format!("could not start {command:?}"))?;
    let watch = Stopwatch::start();
    while watch.elapsed() < limit {
        if let Some(status) = child.try_wait().context("lost sight of a test")? {
            return Ok(Some(status));
        }
        std::thread::sleep(GLANCE);
    }
    kill_group(&mut child)?;
    Ok(None)
}

/// Ends a test together with the processes it started: it leads a group of its own.
fn kill_group(child: &mut Child) -> Result<()> {
    let group = format!("-{}", child.id());
    Command::new("kill")
        .args(["-KILL", "--", &group])
        .status()
        .context("could not start kill")?;
    child.wait().context("lost sight of a killed test")?;
    Ok(())
}

/// `success` is none when the time ran out. A bad exit alone proves nothing: the case must say itself that it failed.
fn judge(case: &str, success: Option<bool>, output: &str) -> Verdict {
    let Some(success) = success else {
        return Verdict::Hung;
    };
    let Some(tally) = output.lines().filter_map(Tally::of_line).next_back() else {
        return Verdict::Crashed;
    };
    let listed_as_failure = output.lines().any(|line| line.trim() == case);
    match (tally.passed, tally.failed, tally.skipped) {
        (0, 1, 0) if !success && listed_as_failure => Verdict::Failed,
        (1, 0, 0) if success => Verdict::Passed,
        (0, 0, 0) => Verdict::NoSuchCase,
        _ => Verdict::Crashed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "\nrunning 1 test\ntest a_case ... FAILED\n\nfailures:\n\n---- a_case ----\nboom\n\n\nfailures:\n    a_case\n\n\
        test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n";
    const PASSED: &str = "\nrunning 1 test\ntest a_case ... ok\n\n\
        test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n";
    const NONE: &str = "\nrunning 0 tests\n\n\
        test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 10 filtered out; finished in 0.00s\n";

    #[test]
    fn a_case_must_itself_fail_to_count_as_failed() {
        assert_eq!(judge("a_case", Some(false), FAILED), Verdict::Failed);
        assert_eq!(judge("another_case", Some(false), FAILED), Verdict::Crashed);
        assert_eq!(judge("a_case", Some(true), FAILED), Verdict::Crashed);
        assert_eq!(
            judge("a_case", Some(false), "Segmentation fault"),
            Verdict::Crashed
        );
        assert_eq!(judge("a_case", Some(true), NONE), Verdict::NoSuchCase);
        assert_eq!(judge("a_case", Some(true), PASSED), Verdict::Passed);
        assert_eq!(judge("a_case", None, PASSED), Verdict::Hung);
    }

    #[test]
    fn a_hang_is_a_catch_only_where_it_is_expected() {
        assert!(Verdict::Hung.catches(true));
        assert!(!Verdict::Hung.catches(false));
        assert!(Verdict::Failed.catches(false));
        for miss in [
            Verdict::Passed,
            Verdict::NoSuchCase,
            Verdict::Crashed,
            Verdict::DoesNotBuild,
        ] {
            assert!(!miss.catches(true), "{miss:?}");
        }
    }

    #[test]
    fn a_test_that_hangs_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut hang = Command::new("sh");
        hang.args(["-c", "sleep 600 & echo $!; wait"]);
        assert_eq!(
            run_limited(&mut hang, &log, Duration::from_millis(200)).unwrap(),
            None
        );
        let grandchild = fs::read_to_string(&log).unwrap().trim().to_owned();
        let stat = format!("/proc/{grandchild}/stat");
        let is_running = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        // The kernel takes a moment to end what was killed.
        for _ in 0..200 {
            if !is_running() {
                return;
            }
            std::thread::sleep(GLANCE);
        }
        panic!("process {grandchild} outlived its test");
    }
}
