//! A directory of one's own and the real binary in it.

#![allow(dead_code)]

mod seeds;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A temporary directory in which `semel` is run.
pub struct Stage {
    dir: tempfile::TempDir,
    columns: u16,
}

/// What a run of the binary left.
#[derive(Debug)]
pub struct Run {
    /// The command line, for snapshots.
    pub line: String,
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Stage {
    /// An empty directory, a terminal of 80 columns.
    pub fn new() -> Self {
        Stage {
            dir: tempfile::tempdir().unwrap(),
            columns: 80,
        }
    }

    /// A screen so wide that nothing is broken into lines, where paths of unknown length are shown.
    pub fn wide(mut self) -> Self {
        self.columns = 300;
        self
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    /// The binary with nothing of this process's environment but the path.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
        command
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("COLUMNS", self.columns.to_string())
            .env("USER", "tester")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        let child = self.command(args).spawn().unwrap();
        ended(args, child)
    }

    /// As `run`, with an environment.
    pub fn run_with(&self, env: &[(&str, &str)], args: &[&str]) -> Run {
        let child = self.command(args).envs(env.iter().copied()).spawn().unwrap();
        ended(args, child)
    }

    /// As `run`, with something on stdin.
    pub fn run_fed(&self, input: &str, args: &[&str]) -> Run {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        ended(args, child)
    }

    /// Runs a command that has to succeed, and reads its JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        let run = self.run(&all);
        assert_eq!(run.code, 0, "{run:#?}");
        run.json()
    }

    /// Submits a job that has to be taken, and gives its id.
    pub fn submit(&self, args: &[&str]) -> String {
        let mut all = vec!["submit"];
        all.extend(args);
        all.push("-q");
        let run = self.run(&all);
        assert_eq!(run.code, 0, "{run:#?}");
        run.out.trim().to_owned()
    }

    /// The job as it stands.
    pub fn job(&self, id: &str) -> Value {
        self.json(&["jobs", "show", id])
    }

    /// A server of this store on a free port: the process and its address.
    pub fn serve(&self, args: &[&str]) -> (Child, String) {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--json"];
        all.extend(args);
        let mut child = self.command(&all).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let url = said["url"].as_str().unwrap();
        let address = url.split("//").nth(1).unwrap().trim_end_matches('/').to_owned();
        (child, address)
    }

    /// Waits until something is true; long enough for a machine that is busy.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..400 {
            if holds() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("in 20 s it did not come to pass that {what}");
    }
}

fn ended(args: &[&str], child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    Run {
        line: format!("semel {}", args.join(" ")),
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Run {
    /// The one JSON document on the standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Everything a person sees, for a snapshot.
    pub fn seen(&self) -> String {
        let mut text = format!(
            "$ {}\n{}",
            without_random_ids(&self.line),
            without_random_ids(&self.out)
        );
        if !self.err.is_empty() {
            text.push_str(&format!("--- stderr\n{}", without_random_ids(&self.err)));
        }
        format!("{text}--- exit {}\n", self.code)
    }
}

/// Ids that were drawn in this run, replaced by as many letters; those of the seeds are known and stay.
fn without_random_ids(text: &str) -> String {
    const LENGTH: usize = 36;
    let is_id = |part: &[char]| {
        part.iter().enumerate().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => *c == '-',
            _ => c.is_ascii_hexdigit(),
        })
    };
    let chars: Vec<char> = text.chars().collect();
    let mut made = String::new();
    let mut at = 0;
    while at < chars.len() {
        let seeded = || chars[at..at + LENGTH].starts_with(&seeds::PREFIX.chars().collect::<Vec<_>>());
        if at + LENGTH <= chars.len() && is_id(&chars[at..at + LENGTH]) && !seeded() {
            made.push_str("[id.................................]".get(..LENGTH).unwrap());
            at += LENGTH;
        } else {
            made.push(chars[at]);
            at += 1;
        }
    }
    made
}

/// What differs from run to run, replaced. Widths stay, where a table depends on them.
pub fn filters(stage: &Stage) -> Vec<(String, &'static str)> {
    let dir = stage.path().display().to_string().replace('.', "\\.");
    vec![
        (dir, "[dir]"),
        (
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\nUTC".to_owned(),
            "[moment]\n[zone]",
        ),
        (r"\d{4}-\d\d-\d\d\n *\d\d:\d\d:\d\d UTC".to_owned(), "[moment]"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC".to_owned(), "[moment]"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z".to_owned(), "[moment]"),
        (r"\d+\.\d (K|M)iB".to_owned(), "[size]"),
        (r"SQLite 3\.\d+\.\d+".to_owned(), "SQLite [version]"),
        (r"\d+ m \d+ s".to_owned(), "[span]"),
    ]
}

/// Compares everything a person sees with what was seen when the snapshot was taken.
#[macro_export]
macro_rules! assert_seen {
    ($stage:expr, $run:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        for (pattern, replacement) in $crate::stage::filters(&$stage) {
            settings.add_filter(&pattern, replacement);
        }
        settings.bind(|| insta::assert_snapshot!($run.seen()));
    }};
}
