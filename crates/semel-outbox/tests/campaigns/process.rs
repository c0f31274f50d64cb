//! This executable again, as a process that can be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::child::WORD;

/// A child process; killed when it is dropped.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn start(words: &[&str]) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .arg(WORD)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Process { child }
    }

    /// The next line it says; `None` when it has ended.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        // One line at a time: nothing is read ahead, as nothing more is said before the next one is wanted.
        let mut out = BufReader::with_capacity(256, self.child.stdout.as_mut()?);
        match out.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    /// Everything it says until it ends, which it has to do content.
    pub fn lines(mut self) -> Vec<String> {
        let out = BufReader::new(self.child.stdout.take().unwrap());
        let lines: Vec<String> = out.lines().collect::<Result<_, _>>().unwrap();
        assert!(self.wait(), "it failed after {lines:?}");
        lines
    }

    /// Stops it where it is; it does so before this returns.
    pub fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "a worker ended by itself: {status:?}");
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Ends it from outside, without a chance to tidy up.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has ended, and says whether it was content.
    pub fn wait(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
