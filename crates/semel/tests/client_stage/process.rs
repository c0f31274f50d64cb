//! Processes of their own: the test binary runs one of its own tests, which is ignored otherwise.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where a process finds what it is to do.
const ARGUMENTS: &str = "SEMEL_TEST_PROCESS";
/// Tells what a process says from what the test harness prints.
const SAYS: &str = "says: ";

/// Another process; killed if it still runs when this is dropped.
pub struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Starts the ignored test `role` of this very binary.
    pub fn start(role: &str, arguments: &[&str]) -> Self {
        let binary = std::env::current_exe().expect("this binary");
        let mut child = Command::new(binary)
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
            .env(ARGUMENTS, arguments.join("\n"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        Process { child, lines }
    }

    /// The next thing it says; `None` when it has ended.
    pub fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("text") == 0 {
                return None;
            }
            // The harness may have begun the line with the name of the test.
            if let Some((_, said)) = line.trim_end().split_once(SAYS) {
                return Some(said.to_owned());
            }
        }
    }

    /// Everything it says until it ends.
    pub fn hear_all(mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(line) = self.hear() {
            said.push(line);
        }
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "the process failed after {said:?}");
        said
    }

    /// `kill -9`; what it said until then.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it runs");
        let mut said = Vec::new();
        while let Some(line) = self.hear() {
            said.push(line);
        }
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What this process is to do.
pub fn arguments() -> Vec<String> {
    let text = std::env::var(ARGUMENTS).expect("started by a test");
    text.lines().map(str::to_owned).collect()
}

/// Says a line to the one who started this process.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{SAYS}{text}")
        .and_then(|()| out.flush())
        .expect("somebody listens");
}
